"""Backward through a network one layer at a time: memory for the graph of one layer instead of all.

The forward pass builds no graph inside the layers and keeps only their inputs x^l (n, d); if an earlier pass has
recorded these, the layers do not run at all. When the backward pass reaches ∂y/∂x^{l+1} (or the relevance of x^{l+1}),
layer l runs again from x^l with its own graph, which is freed before the layer below is reached.

Cost: one more forward of the layers than an ordinary backward; memory O(L·n·d) plus the graph of one layer, where an
ordinary backward keeps the graphs of all L layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from sightline.models.recording import LayerRecord, Recorder, recording

Compute = Callable[[Tensor], Tensor]
"""One layer as a function from its input to its output; the active recorder records it."""


@dataclass(frozen=True)
class LayerGradients:
    """The gradients (or relevances) of one layer; tensors in the layout of the layer's input."""

    layer: int
    output: Tensor
    """With respect to the layer's output."""
    input: Tensor
    """With respect to the layer's input."""
    record: LayerRecord | None
    """The layer's attention in the second run, if requested."""
    attention: tuple[Tensor, ...]
    """With respect to the parts of the first document's attention weights (`record.probabilities[0]`)."""


@dataclass(frozen=True)
class Layerwise:
    """How the layers run the second time, and who receives their gradients."""

    lengths: tuple[int, ...]
    """Tokens of each document."""
    attention: bool
    """Also differentiate with respect to the attention weights."""
    within: Callable[[], AbstractContextManager[Any]]
    """Creates the context of the second run."""
    receive: Callable[[LayerGradients], None]
    """Called once per layer, the last layer first."""
    known: Sequence[Tensor] = ()
    """x^0, x^1, … as far as an earlier pass recorded them, in the layout of a layer's input."""

    def step(self, number: int, compute: Compute, x: Tensor) -> Tensor:
        """Return compute(x); its backward runs the layer again."""
        return cast(Tensor, _Recomputed.apply(x, compute, number, self))  # type: ignore[no-untyped-call]

    def differentiate(self, number: int, compute: Compute, x: Tensor, output_gradient: Tensor) -> Tensor:
        """Run one layer again, pass its gradients to `receive`, and return the gradient with respect to x."""
        # Attention is recorded even if it is not requested: only then is it computed by ordinary operations.
        recorder = Recorder(lengths=self.lengths, plain=True)
        leaf = x.detach().requires_grad_()
        with torch.enable_grad(), recording(recorder):
            with self.within():
                output = compute(leaf)
            parts = recorder.layers[0].probabilities[0] if self.attention else ()
            gradients = torch.autograd.grad(output, (leaf, *parts), output_gradient, allow_unused=True)
        filled = [torch.zeros_like(t) if g is None else g for t, g in zip((leaf, *parts), gradients, strict=True)]
        record = recorder.layers[0] if self.attention else None
        self.receive(LayerGradients(number, output_gradient, filled[0], record, tuple(filled[1:])))
        return filled[0]


class _Recomputed(torch.autograd.Function):
    """A layer that runs without a graph; its backward runs the layer again with one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, compute: Compute, number: int, layerwise: Layerwise) -> Tensor:
        ctx.call = (number, compute)
        ctx.layerwise = layerwise
        ctx.save_for_backward(x)
        after = layerwise.known[number + 1 : number + 2]
        return after[0].detach().view_as(x) if after else compute(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        return ctx.layerwise.differentiate(*ctx.call, x, gradients[0]), None, None, None
