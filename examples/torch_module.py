"""Explain a home-made torch module by integrated gradients."""

import torch
from torch import nn

import sightline as sl


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 8, padding_idx=0)
        self.out = nn.Linear(8, 2)

    def forward(self, input_ids):
        return self.out(torch.tanh(self.embed(input_ids)).mean(dim=1))


model = sl.load(Bag(), labels=["no", "yes"])
model.explain(model.encode(ids=[5, 17, 42]), "ig").to_html("torch_module.html")
