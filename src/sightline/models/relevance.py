"""Relevance: what backward rules other than those of gradients hand to the parts of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sightline.attention import Attention
from sightline.models.layerwise import LayerGradients
from sightline.models.recording import PlainLayerRecord

Array = NDArray[np.floating[Any]]


class BackwardRules(Protocol):
    """Backward rules that replace those of gradients (hashable: equal rules share one pass)."""

    @property
    def by_document(self) -> bool:
        """Whether documents may run together: one seed each, and no rule reads the numbers of another document."""

    @property
    def through_attention(self) -> bool:
        """Whether the weights of attention are on the path; if not, they have no relevance."""

    def active(self, module: nn.Module) -> AbstractContextManager[None]:
        """Return a context in which the operations of the module follow these rules."""

    def seeds(self, logits: Tensor, gradient: Tensor) -> Sequence[tuple[float, Tensor]]:
        """Return relevances of the logits, from the logits and ∂y/∂logits.

        Each is propagated by itself; the relevance of everything else is the sum of the results times their weights.
        """

    def reduce(self, relevance: Tensor, gradient: Tensor | None) -> tuple[Tensor, ...]:
        """Return what is kept of the relevance of a part of one layer's attention, (…, H or 1, rows, keys) each.

        `gradient` is the same part of ∂y/∂A where that is needed. Every pair is treated by itself.
        """


@dataclass(frozen=True)
class Relevance:
    """The relevances of one document from one pass with other backward rules."""

    seed: Array
    """The relevance given to the logits."""
    embeddings: Array
    """Relevance of the word embeddings, (n, ·)."""
    hidden: tuple[Array, ...]
    """Relevance of x^0 … x^L, each (n, d)."""
    attentions: tuple[tuple[Attention, ...], ...]
    """What the rules keep of the relevance of A^1 … A^L; empty unless "attention_relevance" was required."""
    lost: int = 0
    """How many numbers were set to zero because they exceeded the root of the largest representable number (so that
    products of two stay finite)."""


@dataclass
class ReceivedRelevance:
    """Collects the relevances of the layers, the last layer first."""

    reduce: Callable[[Tensor, Tensor | None], tuple[Tensor, ...]]
    """As in `BackwardRules`."""
    output_gradient: Callable[[int], Tensor] | None
    """Returns ∂y/∂(attention output) of a layer, if gradients of attention are needed."""
    hidden: list[Tensor] = field(default_factory=list)
    attentions: list[tuple[Attention, ...]] = field(default_factory=list)
    lost: int = 0

    def take(self, layer: LayerGradients) -> None:
        """Keep the relevance of a layer's input and attention; of the last layer, also that of its output."""
        if not self.hidden:
            missing = layer.input.shape[-2] - layer.output.shape[-2]  # rows that were not evaluated have no relevance
            self.hidden.append(nn.functional.pad(self.bound(layer.output), (0, 0, 0, missing)))
        self.hidden.append(self.bound(layer.input))
        if layer.record is not None:
            self.attentions.append(self._reduce(layer, cast(PlainLayerRecord, layer.record)))

    @torch.no_grad()
    def _reduce(self, layer: LayerGradients, record: PlainLayerRecord) -> tuple[Attention, ...]:
        """Return what is kept of the relevance of a layer's attention, reduced part by part."""
        gradients: Iterable[Tensor | None] = repeat(None, len(layer.parts))
        if self.output_gradient is not None:
            gradients = record.gradient_parts(0, self.output_gradient(layer.layer))
        reduced = [
            self.reduce(self.bound(part), gradient) for part, gradient in zip(layer.parts, gradients, strict=True)
        ]
        return tuple(record.assemble(0, parts) for parts in zip(*reduced, strict=True))

    def bound(self, relevance: Tensor) -> Tensor:
        """Return the relevance with zeros in place of numbers that are too large, and count these in `lost`."""
        limit = torch.finfo(relevance.dtype).max ** 0.5
        smallest, largest = relevance.aminmax()
        if bool((smallest > -limit) & (largest < limit)):  # as nearly always, and a mask takes ten times as long
            return relevance
        too_large = ~(relevance.abs() < limit)
        self.lost += int(too_large.sum())
        return relevance.masked_fill(too_large, 0)
