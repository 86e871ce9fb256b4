"""What a single attention shows: one row of weights, which stands for every row of the operator.

`Attention` is an operator on n rows. Here there is no token that attends; the query is a learnt vector. Every row of
the operator is the one row of weights (a view, not n copies), so that whatever a method reads of it, a row or the mean
of all rows, is that row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.attention import Attention, DenseAttention
from sightline.models.recording import Summary


@dataclass
class SingleRecord:
    """Weights a (B, N), what they weigh h (B, N, d), and the contributions a_i h_i (B, N, d) on the autograd path."""

    weight_batch: Tensor
    hidden: Tensor
    output: Tensor
    lengths: tuple[int, ...]
    layout: None = None

    def row(self, document: int) -> Tensor:
        """The weights a of one document, (n,)."""
        return self.weight_batch[document, : self.lengths[document]].detach()

    def weights(self, document: int) -> Attention:
        """The weights as an operator of one head."""
        return _operator(self.row(document))

    def gradient(self, document: int, output_gradient: Tensor) -> Attention:
        """∂y/∂a_i = ⟨∂y/∂(a_i h_i), h_i⟩ from ∂y/∂(a_i h_i) (n, d)."""
        return _operator(self._gradient(document, output_gradient))

    def summary(self, document: int, readout: Tensor, output_gradient: Tensor | None = None) -> Summary:
        """Sums of the operator's rows; there are n equal ones."""
        row, n = self.row(document), self.lengths[document]
        positive = None
        if output_gradient is not None:
            positive = (row * self._gradient(document, output_gradient).relu())[None] * n
        return Summary(
            mean=_operator(row),
            received=row[None] * n,
            rows=row[None] * readout.to(row).sum(),
            gradient_received=positive,
        )

    def values(self, document: int) -> Tensor:
        """h (n, 1, d): the attention has no projection of its own."""
        return self.hidden[document, : self.lengths[document], None].detach()

    def global_values(self, document: int) -> None:
        """None: there is one row."""

    @property
    def probabilities(self) -> tuple[tuple[Tensor, ...], ...]:
        """The weights on the autograd path: the padded batch, the same for every document."""
        return ((self.weight_batch,),) * len(self.lengths)

    def assemble(self, document: int, parts: Sequence[Tensor]) -> Attention:
        """Cut one document out of a tensor shaped like the weights (B, N)."""
        return _operator(parts[0][document, : self.lengths[document]].detach())

    def _gradient(self, document: int, output_gradient: Tensor) -> Tensor:
        hidden = self.hidden[document, : self.lengths[document]].detach()
        return torch.sum(output_gradient.reshape(hidden.shape) * hidden, dim=-1)


def _operator(row: Tensor) -> Attention:
    return DenseAttention(row.expand(1, len(row), len(row)))
