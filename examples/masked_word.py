"""Explain the word that a model puts in the place of a mask (random weights: load your own in its place)."""

import torch
from transformers import BertConfig, BertForMaskedLM

import sightline as sl

torch.manual_seed(0)
tokenizer = sl.load().tokenizer
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
model = sl.load(BertForMaskedLM(BertConfig(**sizes, vocab_size=len(tokenizer))), tokenizer=tokenizer)
explanation = model.explain(f"The compiler reads the {tokenizer.mask_token} again.", "input_x_gradient")
print(explanation.prediction.label, explanation.top(3))
explanation.to_html("masked_word.html")
