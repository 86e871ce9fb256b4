"""Explain every entity that a tagger finds (this one has random weights: load your own in its place)."""

import torch
from transformers import BertConfig, BertForTokenClassification

import sightline as sl

torch.manual_seed(0)
tokenizer = sl.load().tokenizer
labels = {0: "O", 1: "B-PER", 2: "I-PER"}
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
config = BertConfig(**sizes, vocab_size=len(tokenizer), id2label=labels)
model = sl.load(BertForTokenClassification(config), tokenizer=tokenizer)
report = model.explain("Ada Lovelace met Babbage.", "attcat", target="entities")
for entity, explanation in report.by_target().items():
    print(entity, explanation.top(2))
report.to_html("entities.html")
