"""Backward through a network one layer at a time: memory for the graph of one layer instead of all.

The forward pass builds no graph inside the layers and keeps only their inputs x^l (n, d); if an earlier pass has
recorded these, the layers do not run at all. When the backward pass reaches ∂y/∂x^{l+1} (or the relevance of x^{l+1}),
layer l runs again from x^l with its own graph, which is freed before the layer below is reached. Outputs of linear maps
are kept from the first run for the second (`LinearOutputs`), up to a fixed number of bytes.

Cost: one more forward of the layers than an ordinary backward, without the linear maps whose outputs were kept; memory
O(L·n·d) plus these outputs and the graph of one layer, where an ordinary backward keeps the graphs of all L layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

from sightline.models.recording import LayerRecord, Recorder, recording

Compute = Callable[[Tensor], Tensor]
"""One layer as a function from its input to its output; the active recorder records it."""
KEPT_BYTES = 2**30
"""Most that outputs of linear maps may take between the two runs: at 4,096 tokens nine layers of base shape."""


class LinearOutputs(TorchFunctionMode):
    """Keeps the outputs of the linear maps of a layer in its first run, and returns them in its second.

    The first run may call a map on several chunks of rows, the second on all of them.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.bytes = 0
        self._limit = limit
        self._outputs: dict[int, list[tuple[Tensor, int]]] = {}
        """By the identity of the weights: outputs and their versions (one that is changed in place is of no use)."""
        self._second_run = False

    def start_second_run(self) -> None:
        """Return kept outputs from now on."""
        self._second_run = True

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Keep or return the output of a linear map; run everything else."""
        options = kwargs or {}
        if func is not linear or len(args) < 2:
            return func(*args, **options)
        if self._second_run:
            kept = self._take(args[0], args[1])
            return func(*args, **options) if kept is None else kept
        output = func(*args, **options)
        size = output.numel() * output.element_size()
        if self.bytes + size <= self._limit:
            self.bytes += size
            self._outputs.setdefault(id(args[1]), []).append((output.detach(), output._version))
        return output

    def _take(self, x: Tensor, weight: Tensor) -> Tensor | None:
        """Return the output of a map for x (…, in) if all of it was kept."""
        kept = self._outputs.pop(id(weight), [])
        shape = (*x.shape[:-1], len(weight))
        if any(output._version != version for output, version in kept) or (
            sum(output.numel() for output, _ in kept) != math.prod(shape)
        ):
            return None
        outputs = [output for output, _ in kept]
        return (outputs[0] if len(outputs) == 1 else torch.cat(outputs)).reshape(shape)


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
    linear_outputs: dict[int, LinearOutputs] = field(default_factory=dict)
    """By layer: what its first run kept for the second."""

    def step(self, number: int, compute: Compute, x: Tensor) -> Tensor:
        """Return compute(x); its backward runs the layer again."""
        return cast(Tensor, _Recomputed.apply(x, compute, number, self))  # type: ignore[no-untyped-call]

    def run_first(self, number: int, compute: Compute, x: Tensor) -> Tensor:
        """Return compute(x), from an earlier pass where that recorded it."""
        after = self.known[number + 1 : number + 2]
        if after:
            return after[0].detach().view_as(x)
        limit = KEPT_BYTES - sum(kept.bytes for kept in self.linear_outputs.values())
        with LinearOutputs(limit) as kept:
            output = compute(x)
        kept.start_second_run()
        self.linear_outputs[number] = kept
        return output

    def differentiate(self, number: int, compute: Compute, x: Tensor, output_gradient: Tensor) -> Tensor:
        """Run one layer again, pass its gradients to `receive`, and return the gradient with respect to x."""
        # Attention is recorded even if it is not requested: only then is it computed by ordinary operations.
        recorder = Recorder(lengths=self.lengths, plain=True)
        leaf = x.detach().requires_grad_()
        with torch.enable_grad(), recording(recorder):
            # Outside the context of the second run: what that computes by itself asks here for the outputs.
            with self.linear_outputs.pop(number, nullcontext()), self.within():
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
        return layerwise.run_first(number, compute, x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        return ctx.layerwise.differentiate(*ctx.call, x, gradients[0]), None, None, None
