"""Trace: what one pass over one document recorded, shared by all methods.

Everything is lazy: nothing runs before it is needed, and what a pass has recorded is kept (`passes`).

Shapes: n tokens, L layers, H heads, d width. Arrays are numpy and read-only; nothing here is padded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.attention import Attention
from sightline.attention.arrays import as_array
from sightline.models import Network, Prediction, Recorder, Target, TargetLike
from sightline.models.batching import combine, window_positions
from sightline.models.families import BlockWeights
from sightline.models.hooks import HookPlace
from sightline.models.layerwise import BackwardRules, Relevance
from sightline.models.recording import Summary
from sightline.models.target import Request, check_quantity
from sightline.passes.forward import Array, Gradients, Need, Pass
from sightline.progress import StepProgress
from sightline.text import Encoding, window_encodings
from sightline.text.encoding import protect

T = TypeVar("T")
CACHED_BYTES = 300_000_000
"""Size of the cache of attention operators; computing all of them again costs about 1/20 of a forward pass."""


@dataclass(frozen=True)
class BlockParts:
    """The attention block of one layer besides its weights; torch tensors, all without padding."""

    inputs: Tensor
    """x (n, d)."""
    values: Tensor
    """v (n, H, e), bias included."""
    global_values: Tensor | None
    """The same for the rows of global tokens, if these have their own projection."""
    output: Tensor
    """y (n, d), residual and (post-LN) LayerNorm included."""
    second_input: Tensor
    """Input of the layer's second LayerNorm, (n, d)."""
    weights: BlockWeights
    """Output projection and LayerNorms."""


class Window(NamedTuple):
    """One window of a document that is longer than the model reads."""

    trace: Trace
    """What a pass over the window records, for the number of the window that is explained."""
    positions: NDArray[np.int64]
    """The places of its tokens in the document."""
    share: float
    """Weight of the window's number in that of the document."""


class Layers(Sequence[Attention]):
    """The attention operators of all layers, computed on demand and cached while they fit in `CACHED_BYTES`."""

    def __init__(self, count: int, make: Callable[[int], Attention]) -> None:
        self._count = count
        self._make = make
        self._cache: OrderedDict[int, Attention] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, layer: int) -> Attention: ...

    @overload
    def __getitem__(self, layer: slice) -> Sequence[Attention]: ...

    def __getitem__(self, layer: int | slice) -> Attention | Sequence[Attention]:
        if isinstance(layer, slice):
            return [self[i] for i in range(*layer.indices(self._count))]
        if not -self._count <= layer < self._count:
            raise IndexError(f"Layer {layer} asked for, the model has {self._count} (0-{self._count - 1}).")
        layer %= self._count
        if layer not in self._cache:
            self._cache[layer] = self._make(layer)
            while len(self._cache) > 1 and sum(attention.nbytes for attention in self._cache.values()) > CACHED_BYTES:
                self._cache.popitem(last=False)
        self._cache.move_to_end(layer)
        return self._cache[layer]


class Trace:
    """What one pass recorded of one document, for one target."""

    def __init__(self, shared: Pass, document: int = 0, target: Target | None = None) -> None:
        self._pass = shared
        self._document = document
        self._target = target
        self.chosen_quantity = shared.requests[document].quantity
        """The quantity that was asked for, if any."""
        self.progress: StepProgress | None = None
        """Called with (done, total) by methods that run the model many times."""
        self.reader: Callable[[str], Encoding] | None = None
        """Encodes another text for the same model, for methods that compare with a reference text."""

    def __repr__(self) -> str:
        size = f"{self.token_count} tokens, {self.layer_count} layers, {self.head_count} heads"
        return f"Trace({size}, {self.network.name!r})"

    @property
    def shared(self) -> Pass:
        """The pass, which other traces may share."""
        return self._pass

    @property
    def document(self) -> int:
        """The number of the document among those of the pass."""
        return self._document

    @property
    def encoding(self) -> Encoding:
        """The document."""
        return self._pass.encodings[self._document]

    @property
    def network(self) -> Network:
        """The network that ran."""
        return self._pass.network

    @property
    def windowed(self) -> bool:
        """Whether the document is longer than the model reads, and is read in windows."""
        return self.encoding.windows is not None

    def windows(self, quantity: str | None = None) -> Iterator[Window]:
        """Yield the windows that enter the explained number, each as a trace with its share in that number.

        `quantity` replaces that of the target. A document that is read at once has none.
        """
        for shared, document, positions, share in self._pass.windows(self.target, quantity):
            trace = Trace(shared, document)
            trace.progress, trace.reader = self.progress, self.reader
            yield Window(trace, positions, share)

    def parts(self) -> Iterator[tuple[Trace, NDArray[np.int64]]]:
        """Yield all windows in document order, with the places of their tokens, each on a pass of its own.

        Their target is not the document's; `combine` makes its logits of theirs. Without windows there is one part.
        """
        if not self.windowed:
            yield self, np.arange(self.token_count)
            return
        positions = window_positions(self.encoding)
        for window, places in zip(window_encodings(self.encoding, positions), positions, strict=True):
            trace = Trace(Pass(self.network, [window], [Request()]))
            trace.progress = self.progress
            yield trace, places

    def combine(self, logits: Sequence[Tensor]) -> Tensor:
        """Return the logits of the document from those of its `parts`."""
        return combine(self.network.task, self.encoding, logits)

    @property
    def token_count(self) -> int:
        """Number of tokens n."""
        return len(self.encoding)

    @property
    def layer_count(self) -> int:
        """Number of layers L."""
        return len(self.network.layers)

    @property
    def head_count(self) -> int:
        """Number of heads H per layer."""
        return self.network.heads

    @property
    def causal(self) -> bool:
        """Whether tokens attend only to themselves and to earlier tokens."""
        return self.network.family.causal

    def require(self, *needs: Need) -> None:
        """Announce what will be needed, so that one pass can provide it."""
        self._pass.require(*needs)

    def with_target(self, target: TargetLike, quantity: str | None = None, position: int | None = None) -> Trace:
        """Return a trace of the same pass for another target (the forward is shared)."""
        chosen = quantity or self.chosen_quantity
        resolved = self.network.task.resolve(self._logits, self.encoding, Request(target, chosen, position))
        self._pass.keep_graph = True
        other = self.sibling(resolved)
        other.chosen_quantity = chosen
        return other

    @property
    def longest(self) -> Trace:
        """The trace of the text of which this document is a prefix (`sightline.passes.prefixes`), itself otherwise."""
        document = self._pass.longest(self._document)
        return self if document == self._document else Trace(self._pass, document)

    def sibling(self, target: Target) -> Trace:
        """Return a trace of the same pass for another, already resolved target."""
        other = Trace(self._pass, self._document, target)
        other.progress, other.reader = self.progress, self.reader
        # Attention does not depend on the target.
        other.__dict__["attentions"] = self.attentions
        if "_summaries" in self.__dict__ and np.array_equal(self.readout, other.readout):
            other.__dict__["_summaries"] = [replace(summary, gradient_received=None) for summary in self._summaries]
        return other

    @property
    def _logits(self) -> Tensor:
        return self._pass.logits(self._document).detach()

    @cached_property
    def target(self) -> Target:
        """What is explained."""
        return self._target if self._target is not None else self._pass.target(self._document)

    @property
    def later_targets(self) -> tuple[Target, ...]:
        """The targets that follow while all classes of this document are explained, one by one."""
        return self._pass.later_targets(self._document)

    @property
    def logits(self) -> Array:
        """Scores of the classes, (C,)."""
        return protect(as_array(self.network.task.class_logits(self._logits, self.target.position)))

    @property
    def probabilities(self) -> Array:
        """Probabilities of the classes, (C,)."""
        task = self.network.task
        return protect(as_array(task.probabilities(task.class_logits(self._logits, self.target.position))))

    @property
    def prediction(self) -> Prediction:
        """What the model predicts."""
        return self.network.task.prediction(self._logits, self.encoding, self.target.position)

    @property
    def value(self) -> float:
        """y, the number that is explained."""
        return self.value_of()

    @cached_property
    def readout(self) -> NDArray[np.float64]:
        """Weights (n,) of the rows the target is read from: one row for a classifier, all rows for mean pooling.

        The rows that a classifier of unknown make reads are measured: weights in proportion to ‖∂y/∂x^L_i‖, which is
        1 for the only row that is read, and 1/n under mean pooling.
        """
        if self.network.has_custom_head and not self.windowed:
            sizes = np.linalg.norm(self.hidden_gradients[-1].astype(np.float64), axis=1)
            if sizes.any():
                return protect(np.asarray(sizes / sizes.sum()))
        return protect(self.network.task.readout(self.target, self.encoding))

    @cached_property
    def attentions(self) -> Layers:
        """A^1 … A^L as operators, bottom layer first."""
        # Not a method of this trace: it would keep itself, and so the pass, alive until the garbage collector runs.
        shared, document = self._pass, self._document

        def make(layer: int) -> Attention:
            shared.require("attentions")
            return shared.recorder.layers[layer].weights(document)

        return Layers(self.layer_count, make)

    @cached_property
    def attention_gradients(self) -> Layers:
        """∂y/∂A^1 … ∂y/∂A^L as operators."""
        shared, document, given = self._pass, self._document, self._target

        def make(layer: int) -> Attention:
            shared.require("attention_gradients")
            target = given if given is not None else shared.target(document)
            return shared.attention_gradient(document, target, layer)

        return Layers(self.layer_count, make)

    @cached_property
    def _summaries(self) -> list[Summary]:
        self.require("attentions")
        readout = torch.tensor(self.readout)
        # If gradients of attention are needed as well, one sweep computes both.
        gradients = [
            self._pass.output_gradient(self._document, self.target, layer) if self._pass.attention_gradients else None
            for layer in range(self.layer_count)
        ]
        return [
            record.summary(self._document, readout, gradient)
            for record, gradient in zip(self._pass.recorder.layers, gradients, strict=True)
        ]

    @property
    def mean_attentions(self) -> list[Attention]:
        """Ā^1 … Ā^L: the mean of the heads of every layer."""
        return [summary.mean for summary in self._summaries]

    @cached_property
    def received(self) -> Array:
        """Attention received by every token, summed over rows, (L, H, n)."""
        return protect(as_array(torch.stack([summary.received for summary in self._summaries])))

    @cached_property
    def readout_rows(self) -> Array:
        """Attention of the readout, r · A, (L, H, n)."""
        return protect(as_array(torch.stack([summary.rows for summary in self._summaries])))

    @cached_property
    def gradient_received(self) -> Array:
        """Column sums of A ⊙ relu(∂y/∂A), (L, H, n)."""
        self.require("attention_gradients")
        parts = [summary.gradient_received for summary in self._summaries]
        if any(part is None for part in parts):
            self.__dict__.pop("_summaries")
            parts = [summary.gradient_received for summary in self._summaries]
        return protect(as_array(torch.stack([part for part in parts if part is not None])))

    @property
    def embeddings(self) -> Array:
        """Word embeddings (n, ·)."""
        embeddings = self._pass.recorder.embeddings
        assert embeddings is not None
        return protect(as_array(embeddings[self._document, : self.token_count]))

    @property
    def inputs(self) -> tuple[Array, ...]:
        """x^0 … x^{L-1}: the input of every layer, each (n, d)."""
        return tuple(self._cut(hidden) for hidden in self._pass.recorder.hidden[: self.layer_count])

    @property
    def hidden_states(self) -> tuple[Array, ...]:
        """x^0 … x^L, each (n, d)."""
        self.require("hidden_states")
        return tuple(self._cut(hidden) for hidden in self._pass.recorder.hidden)

    @property
    def embedding_gradient(self) -> Array:
        """∂y/∂(word embeddings), (n, ·)."""
        return protect(as_array(self._gradients().embeddings[self._document, : self.token_count]))

    @property
    def input_gradients(self) -> tuple[Array, ...]:
        """∂y/∂x^0 … ∂y/∂x^{L-1}, each (n, d)."""
        return tuple(self._cut(gradient) for gradient in self._gradients().hidden[: self.layer_count])

    @property
    def hidden_gradients(self) -> tuple[Array, ...]:
        """∂y/∂x^0 … ∂y/∂x^L, each (n, d)."""
        self.require("hidden_gradients")
        return tuple(self._cut(gradient) for gradient in self._gradients().hidden)

    @property
    def head_importance(self) -> NDArray[np.float64]:
        """How strongly y depends on the weights of every head, Σ_w (∂y/∂w · w)², (L, H)."""
        return protect(self._pass.head_importance(self._document, self.target))

    def block(self, layer: int) -> BlockParts:
        """Return the parts of the attention block of one layer."""
        self.require("blocks")
        recorder = self._pass.recorder
        record = recorder.layers[layer]
        return BlockParts(
            inputs=recorder.cut(recorder.hidden[layer], self._document).detach(),
            values=record.values(self._document),
            global_values=record.global_values(self._document),
            output=recorder.cut(recorder.block_outputs[layer], self._document),
            second_input=recorder.cut(recorder.second_inputs[layer], self._document),
            weights=self.network.family.block_weights(self.network.layers[layer]),
        )

    def relevance(self, rules: BackwardRules) -> Relevance:
        """Return the relevance of embeddings, layers and attention when `rules` replace the rules of gradients."""
        return self._pass.relevance(self._document, self.target, rules)

    def in_double(self) -> Trace:
        """Return a trace of the same document and target in double precision, on a copy of the network."""
        shared = self._pass.in_double(self._document)
        return self if shared is self._pass else Trace(shared, target=self.target)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return make(), called once if all classes are explained; its result must not depend on the target."""
        return self._pass.once(self._document, key, make)

    def probe(self, encodings: Sequence[Encoding]) -> list[Tensor]:
        """Run changed documents, in batches of similar length, and return their logits."""
        return self.network.run_many(encodings, progress=self.progress)

    def layer_input(self, layer: int) -> Tensor:
        """Return x^l (n, d) as a tensor on the model's device, to be changed and passed to `logits_with`."""
        return torch.tensor(self.inputs[layer], device=self.network.device, dtype=self.network.dtype)

    def logits_with(self, layer: int, inputs: Tensor) -> list[Tensor]:
        """Return the logits of this document where `inputs` (B, n, d) replace x^l, one result per replacement."""
        return self.network.run([self.encoding] * len(inputs), given={layer: inputs})

    def value_of(self, logits: Tensor | None = None, quantity: str | None = None) -> float:
        """Return y of this document, or for other logits of this task, in the target's quantity or another one."""
        chosen = None if quantity is None else check_quantity(quantity)
        return float(self.network.task.value(self._logits if logits is None else logits, self.target, chosen))

    def values_at(self, points: Mapping[HookPlace, Tensor], recorder: Recorder | None = None) -> Tensor:
        """Return y (B,) on the autograd path, where `points` (B, n, ·) replace what the model computes there."""
        count = len(next(iter(points.values())))
        logits = self.network.run([self.encoding] * count, recorder, gradient=True, given=points)
        return torch.stack([self.network.task.value(scores, self.target) for scores in logits])

    def logits_at(self, points: Mapping[HookPlace, Tensor]) -> list[Tensor]:
        """Return the logits, without gradient, where `points` (B, n, ·) replace what the model computes there."""
        count = len(next(iter(points.values())))
        return self.network.run([self.encoding] * count, given=points)

    def gradients_at(
        self, points: Mapping[HookPlace, Tensor], rounds: Sequence[Sequence[Target]]
    ) -> Iterator[list[Tensor]]:
        """Yield ∂y/∂points, one (B, n, ·) per place, for each round of B targets: one forward, a backward per round."""
        leaves = {place: tensor.detach().requires_grad_() for place, tensor in points.items()}
        count = len(next(iter(leaves.values())))
        logits = self.network.run([self.encoding] * count, gradient=True, given=leaves)
        for number, targets in enumerate(rounds, start=1):
            values = [self.network.task.value(scores, target) for scores, target in zip(logits, targets, strict=True)]
            yield self.network.backward(
                torch.stack(values).sum(), list(leaves.values()), keep_graph=number < len(rounds)
            )

    def _gradients(self) -> Gradients:
        return self._pass.gradients(self._document, self.target)

    def _cut(self, tensor: Tensor) -> Array:
        return protect(as_array(self._pass.recorder.cut(tensor, self._document)))
