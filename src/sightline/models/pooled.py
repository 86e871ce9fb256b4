"""A classifier made of a Transformer, a pooling of its last layer and linear maps, as sentence-transformers build them.

With x_i (d,) the last layer's vectors of the n tokens of a document, its vector is one of, or several joined:

    cls x_0 · mean Σ_i x_i / n · mean_sqrt_len Σ_i x_i / √n · max (by component) · weightedmean Σ_i i·x_i / Σ_i i
    (i from 1) · lasttoken x_{n-1}

then linear maps with activations, and at the end perhaps a division by its length. The logits are that vector; or, if a
reference text is given, the one logit is the cosine of the two texts' vectors.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from sightline.models.sentence_folder import ACTIVATIONS, SentenceFolder


class PooledClassifier(nn.Module):
    """The modules of a sentence-transformers folder, called like a sequence classifier of transformers."""

    reference: Tensor | None
    """The vector of the reference text, of length 1; None if the logits are those of a classifier."""

    def __init__(self, body: Any, facts: SentenceFolder) -> None:
        super().__init__()
        self.body = body
        self.poolings = facts.poolings
        self.normalises = facts.normalises
        layers: list[nn.Module] = []
        for dense in facts.dense:
            outputs, inputs = dense.weight.shape
            linear = nn.Linear(inputs, outputs, bias=dense.bias is not None)
            linear.load_state_dict({"weight": dense.weight} | ({} if dense.bias is None else {"bias": dense.bias}))
            layers += [linear, ACTIVATIONS[dense.activation]()]
        self.head = nn.Sequential(*layers).to(body.dtype)
        self.register_buffer("reference", None)
        self.accepted_inputs = frozenset(inspect.signature(body.forward).parameters)

    @property
    def config(self) -> Any:
        """The config of the body."""
        return self.body.config

    @property
    def base_model(self) -> Any:
        """The body."""
        return self.body

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = self.body.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        dtype: torch.dtype = self.body.dtype
        return dtype

    @property
    def without_relevance(self) -> str | None:
        """Why relevance propagation does not apply, as the rest of a sentence; None if it does."""
        if self.normalises or self.reference is not None:
            return "has no rule for the division of a vector by its length, with which this model ends"
        return "has no rule for max pooling" if "max" in self.poolings else None

    def get_input_embeddings(self) -> Any:
        """Return the table of word embeddings."""
        return self.body.get_input_embeddings()

    def forward(self, attention_mask: Tensor | None = None, **inputs: Any) -> SequenceClassifierOutput:
        """Return the logits (B, C) of B documents."""
        if attention_mask is not None and "attention_mask" in self.accepted_inputs:
            inputs["attention_mask"] = attention_mask
        hidden = self.body(**inputs)[0]
        mask = torch.ones(hidden.shape[:2], device=hidden.device) if attention_mask is None else attention_mask
        pooled = torch.cat([_pool(mode, hidden, mask.to(hidden)) for mode in self.poolings], dim=-1)
        vector = self.head(pooled)
        if self.normalises or self.reference is not None:
            vector = nn.functional.normalize(vector, dim=-1)
        return SequenceClassifierOutput(logits=vector if self.reference is None else vector @ self.reference[:, None])


def _pool(mode: str, hidden: Tensor, mask: Tensor) -> Tensor:
    """Return (B, d) from (B, N, d); mask (B, N) is 1 for the tokens of a document and 0 for padding."""
    if mode == "cls":
        return hidden[:, 0]
    counts = mask.sum(dim=1, keepdim=True).clamp(min=1)
    if mode == "max":
        return hidden.masked_fill(mask[:, :, None] == 0, torch.finfo(hidden.dtype).min).max(dim=1).values
    if mode == "lasttoken":
        last = (mask * torch.arange(mask.shape[1], device=mask.device)).argmax(dim=1)
        return hidden[torch.arange(len(hidden), device=mask.device), last]
    if mode == "weightedmean":
        weights = mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)
        return (hidden * weights[:, :, None]).sum(dim=1) / weights.sum(dim=1, keepdim=True).clamp(min=1)
    total = (hidden * mask[:, :, None]).sum(dim=1)
    return total / (counts if mode == "mean" else counts.sqrt())
