"""Explain why two texts are alike, from either side (random weights: give the folder of your own sentence model)."""

import json
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

import sightline as sl

torch.manual_seed(0)
tokenizer = sl.load().tokenizer
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
BertModel(BertConfig(**sizes, vocab_size=len(tokenizer))).save_pretrained("sentences")
tokenizer.save_pretrained("sentences")
modules = [{"type": "models.Transformer", "path": ""}, {"type": "models.Pooling", "path": "pooling"}]
Path("sentences/modules.json").write_text(json.dumps(modules))
Path("sentences/pooling").mkdir()
Path("sentences/pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
query, letter = "refund of a broken phone", "Please send the money for the phone back, it is broken."
model = sl.load("sentences", similar_to=query)
print(model.similar_to(letter).explain(query, "input_x_gradient").top(2))
model.explain(letter, "input_x_gradient").to_html("similarity.html")
