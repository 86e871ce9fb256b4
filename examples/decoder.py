"""Explain every token that a decoder writes behind a prompt (random weights: load your own in its place)."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import sightline as sl

torch.manual_seed(0)
tokenizer = sl.load().tokenizer
config = GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=len(tokenizer), n_positions=64)
model = sl.load(GPT2LMHeadModel(config), tokenizer=tokenizer)
written = model.explain("The compiler reads the", "input_x_gradient", max_new_tokens=4)
print(written.matrix.shape)
written.to_html("decoder.html")
