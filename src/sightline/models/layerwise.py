"""Backward through a network one layer at a time: memory for the graph of one layer instead of all.

The forward pass builds no graph inside the layers and keeps only their inputs x^l (n, d); if an earlier pass has
recorded these, the layers do not run at all. When the backward pass reaches ∂y/∂x^{l+1} (or the relevance of x^{l+1}),
layer l runs again from x^l with its own graph, which is freed before the layer below is reached. Outputs of linear maps
are kept from the first run for the later ones (`LinearOutputs`), up to a fixed number of bytes: for one backward, or
for a backward of gradients and then one of relevance.

Cost: one more forward of the layers than an ordinary backward, without the linear maps whose outputs were kept; memory
O(L·n·d) plus these outputs and the graph of one layer, where an ordinary backward keeps the graphs of all L layers.

Relevance is what backward rules other than those of gradients (`BackwardRules`) hand to the parts of a network;
`ReceivedRelevance` collects it layer by layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

from sightline.attention import Attention
from sightline.models.recording import LayerRecord, PlainLayerRecord, Recorder, recording

Compute = Callable[[Tensor], Tensor]
"""One layer as a function from its input to its output; the active recorder records it."""
KEPT_BYTES = 2**30
"""Most bytes of outputs of linear maps kept between the runs: nine layers of base shape at 4,096 tokens."""
WIDE_BYTES = 2**27
"""The part of it for outputs wider than the input: per byte they save a quarter of what narrow ones do."""


class LinearOutputs(TorchFunctionMode):
    """Keeps the outputs of the linear maps of a layer in its first run, and returns them in later runs.

    A run may call a map on all rows or on chunks of them, in order.
    """

    def __init__(self, limit: int, wide_limit: int | None = None) -> None:
        """Keep at most `limit` bytes, of which `wide_limit` (by default all) may belong to maps to a larger width."""
        super().__init__()
        self.bytes = self.wide_bytes = 0
        self._limit = limit
        self._wide_limit = limit if wide_limit is None else wide_limit
        self._outputs: dict[int, list[tuple[Tensor, int] | None]] = {}
        """Outputs and their versions by the id of the weights (an output that was changed in place is not reused)."""
        self._used: dict[int, int] | None = None
        """How many outputs of each map the current run has used; None in the first run."""
        self._last_run = False

    @classmethod
    def of_all_layers(cls, linear_outputs: dict[int, LinearOutputs]) -> LinearOutputs:
        """Return the outputs of all layers for one last run through them, and drop them where they were."""
        joined = cls(0)
        for number in sorted(linear_outputs):
            for weight, outputs in linear_outputs.pop(number)._outputs.items():
                joined._outputs.setdefault(weight, []).extend(outputs)
        joined.start_later_run()
        return joined

    def start_later_run(self, *, last: bool = True) -> None:
        """Return kept outputs from now on; in the last run each is dropped as soon as it is used."""
        self._used, self._last_run = {}, last

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Keep or return the output of a linear map; run everything else."""
        options = kwargs or {}
        if func is not linear or len(args) < 2:
            return func(*args, **options)
        if self._used is not None:
            kept = self._take(self._used, args[0], args[1])
            if kept is None or args[1].requires_grad:
                return func(*args, **options)
            return _Known.apply(args[0], args[1], kept)  # type: ignore[no-untyped-call]
        output = func(*args, **options)
        wide_size = output.nbytes if output.shape[-1] > args[0].shape[-1] else 0
        if self.bytes + output.nbytes <= self._limit and self.wide_bytes + wide_size <= self._wide_limit:
            self.bytes += output.nbytes
            self.wide_bytes += wide_size
            self._outputs.setdefault(id(args[1]), []).append((output.detach(), output._version))
        return output

    def _take(self, used: dict[int, int], x: Tensor, weight: Tensor) -> Tensor | None:
        """Return the next outputs of a map if they were kept and are those of as many rows as x (…, in) has."""
        kept = self._outputs.get(id(weight), [])
        begin = end = used.get(id(weight), 0)
        shape = (*x.shape[:-1], len(weight))
        missing, outputs = math.prod(shape), []
        while missing > 0 and end < len(kept):
            entry = kept[end]
            if entry is None or entry[0]._version != entry[1]:
                return None
            outputs.append(entry[0])
            missing -= entry[0].numel()
            end += 1
        if missing or not outputs:
            return None
        used[id(weight)] = end
        if self._last_run:
            kept[begin:end] = [None] * (end - begin)
        return (outputs[0] if len(outputs) == 1 else torch.cat(outputs)).reshape(shape)


class _Known(torch.autograd.Function):
    """A linear map x·Wᵀ + b (frozen W and b) whose output is known already."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, output: Tensor) -> Tensor:
        ctx.weight = weight
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0] @ ctx.weight, None, None


def run_keeping(linear_outputs: dict[int, LinearOutputs], number: int, compute: Compute, x: Tensor) -> Tensor:
    """Return compute(x), and keep outputs of the layer's linear maps in `linear_outputs`, by layer."""
    before = linear_outputs.values()
    limit, wide_limit = (
        KEPT_BYTES - sum(kept.bytes for kept in before),
        WIDE_BYTES - sum(kept.wide_bytes for kept in before),
    )
    with LinearOutputs(limit, wide_limit) as kept:
        output = compute(x)
    linear_outputs[number] = kept
    return output


@dataclass(frozen=True)
class LayerGradients:
    """The gradients (or relevances) of one layer; tensors in the layout of the layer's input."""

    layer: int
    output: Tensor
    """With respect to the layer's output."""
    input: Tensor
    """With respect to the layer's input."""
    record: LayerRecord | None
    """The layer's attention in the second run, if parts of it were requested."""
    parts: tuple[Tensor, ...]
    """With respect to the tensors that `Layerwise.parts` chose."""


@dataclass(frozen=True)
class Layerwise:
    """How the layers run the second time, and what receives their gradients."""

    lengths: tuple[int, ...]
    """Tokens of each document."""
    parts: Callable[[LayerRecord], tuple[Tensor, ...]] | None
    """Chooses tensors of a layer's attention by which to differentiate as well."""
    within: Callable[[], AbstractContextManager[Any]]
    """Creates the context of the second run."""
    receive: Callable[[LayerGradients], None]
    """Called once per layer, the last layer first."""
    known: Sequence[Tensor] = ()
    """x^0, x^1, … as far as an earlier pass recorded them, in the layout of a layer's input."""
    linear_outputs: dict[int, LinearOutputs] = field(default_factory=dict)
    """Outputs that the first run of each layer kept for later runs."""
    last: bool = True
    """Whether the kept outputs of linear maps may be dropped as they are used."""

    def step(self, number: int, compute: Compute, x: Tensor) -> Tensor:
        """Return compute(x); its backward runs the layer again."""
        return cast(Tensor, _Recomputed.apply(x, compute, number, self))  # type: ignore[no-untyped-call]

    def run_first(self, number: int, compute: Compute, x: Tensor) -> Tensor:
        """Return compute(x), from an earlier pass where that recorded it."""
        after = self.known[number + 1 : number + 2]
        if after:
            return after[0].detach().view_as(x)
        return run_keeping(self.linear_outputs, number, compute, x)

    def differentiate(
        self,
        number: int,
        compute: Compute,
        x: Tensor,
        output_gradients: Sequence[Tensor],
        weights: Sequence[float] = (1.0,),
    ) -> list[Tensor]:
        """Run one layer again and return the gradient with respect to x for each of the gradients of its output.

        `receive` gets the sum of all gradients, each times its weight.
        """
        # Attention is recorded even if it is not requested: only then is it computed by ordinary operations.
        recorder = Recorder(lengths=self.lengths, plain=True)
        leaf = x.detach().requires_grad_()
        with torch.enable_grad(), recording(recorder):
            # Outside the context of the second run: what that computes by itself asks here for the outputs.
            with self._kept_outputs(number), self.within():
                output = compute(leaf)
            record = None if self.parts is None else recorder.layers[0]
            parts = () if self.parts is None or record is None else self.parts(record)
            input_gradients: list[Tensor] = []
            part_gradients: list[Tensor] = []
            for weight, output_gradient in zip(weights, output_gradients, strict=True):
                again = len(input_gradients) + 1 < len(output_gradients)
                gradients = _grad(output, (leaf, *parts), output_gradient, keep_graph=again)
                filled = [
                    torch.zeros_like(t) if g is None else g for t, g in zip((leaf, *parts), gradients, strict=True)
                ]
                input_gradients.append(filled[0])
                # Summed up at once: those of attention are larger than all others.
                weighted = [weighted_sum((weight,), (gradient,)) for gradient in filled[1:]]
                part_gradients = [a + b for a, b in zip(part_gradients, weighted, strict=False)] or weighted
        output_sum, input_sum = weighted_sum(weights, output_gradients), weighted_sum(weights, input_gradients)
        self.receive(LayerGradients(number, output_sum, input_sum, record, tuple(part_gradients)))
        return input_gradients

    def _kept_outputs(self, number: int) -> AbstractContextManager[Any]:
        """Return the context in which the linear maps of a layer return what they have computed before."""
        kept = self.linear_outputs.pop(number, None) if self.last else self.linear_outputs.get(number)
        if kept is None:
            return nullcontext()
        kept.start_later_run(last=self.last)
        return kept


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
        return ctx.layerwise.differentiate(*ctx.call, x, gradients)[0], None, None, None


class StagedBackward:
    """Backward passes of several seeds through the layers together: every layer runs again once for all of them.

    The forward pass cuts the graph at the output of every layer; what lies between the layers, before the first and
    behind the last keeps its graph.
    """

    def __init__(self, layerwise: Layerwise) -> None:
        self._layerwise = layerwise
        self._stages: list[tuple[int, Compute, Tensor, Tensor]] = []
        """Number, layer, input and output of the layers that ran."""

    def step(self, number: int, compute: Compute, x: Tensor) -> Tensor:
        """Return compute(x) as the beginning of a new graph."""
        with torch.no_grad():
            output = self._layerwise.run_first(number, compute, x)
        leaf = output.detach().requires_grad_()
        self._stages.append((number, compute, x, leaf))
        return leaf

    def backward(self, logits: Tensor, seeds: Sequence[tuple[float, Tensor]], x: Tensor) -> Tensor:
        """Return Σ weight · (gradient with respect to x), each from its own gradient of the logits."""
        weights = [weight for weight, _ in seeds]
        leaves = [x, *(output for *_, output in self._stages)]
        received = [_grad(logits, leaves, seed, keep_graph=True) for _, seed in seeds]
        for number, compute, stage_input, _ in reversed(self._stages):
            last = leaves.pop()
            output_gradients = [
                torch.zeros_like(last) if gradient is None else gradient
                for gradient in (gradients.pop() for gradients in received)
            ]
            input_gradients = self._layerwise.differentiate(number, compute, stage_input, output_gradients, weights)
            for gradients, gradient in zip(received, input_gradients, strict=True):
                further = _grad(stage_input, leaves, gradient, keep_graph=True)
                gradients[:] = [
                    new if before is None else before if new is None else before + new
                    for before, new in zip(gradients, further, strict=True)
                ]
        found = [torch.zeros_like(x) if gradients[0] is None else gradients[0] for gradients in received]
        return weighted_sum(weights, found)


def weighted_sum(weights: Sequence[float], tensors: Sequence[Tensor]) -> Tensor:
    """Return Σ w·t; a single tensor of weight 1 is returned as it is."""
    if len(tensors) == 1 and weights[0] == 1:
        return tensors[0]
    total = tensors[0] * weights[0]
    for weight, tensor in zip(weights[1:], tensors[1:], strict=True):
        total += weight * tensor
    return total


def _grad(output: Tensor, inputs: Sequence[Tensor], gradient: Tensor, *, keep_graph: bool) -> list[Tensor | None]:
    """Return the gradient with respect to each input, None where the output does not depend on it."""
    return list(torch.autograd.grad(output, inputs, gradient, retain_graph=keep_graph, allow_unused=True))


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
