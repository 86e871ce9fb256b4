"""Trace: what one pass over one document saw, shared by all methods.

Everything is lazy. Methods declare what they need, `Pass.require` is told the union before anything runs, and one
forward (and, if someone needs gradients, one backward a target) serves them all. What was not foreseen is fetched by
another pass rather than refused.

Shapes: n tokens, L layers, H heads, d width. Arrays are numpy; nothing here is padded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.attention import Attention
from sightline.models import Network, Prediction, Recorder, Target, TargetLike
from sightline.models.batching import BATCH_TOKENS
from sightline.models.target import check_quantity
from sightline.text import Encoding

Array = NDArray[np.floating[Any]]
Need = Literal[
    "attentions", "attention_gradients", "inputs", "hidden_states", "gradients", "hidden_gradients", "probes"
]
"""What a method may ask for. "inputs" are x^0 … x^{L-1}, "hidden_states" also x^L for all tokens; "probes" are calls of
the model with changed inputs, which no single pass can share."""

CACHED_BYTES = 300_000_000
"""Attention operators kept at once; more are made again on demand, which costs about 1/20 of a forward pass a sweep."""


@dataclass(frozen=True)
class Request:
    """What the user wants explained, before the model has run."""

    target: TargetLike = None
    quantity: str = "logit"
    position: int | None = None


@dataclass(frozen=True)
class Gradients:
    """∂y/∂· of one backward pass, as batch tensors in the recorder's layout."""

    embeddings: Tensor
    hidden: list[Tensor]
    outputs: list[Tensor]


class Pass:
    """One forward of a padded batch, and its backward passes; shared by the traces of its documents."""

    def __init__(self, network: Network, encodings: Sequence[Encoding], requests: Sequence[Request]) -> None:
        self.network = network
        self.encodings = list(encodings)
        self.requests = list(requests)
        self.keep_graph = False
        self._attention = self._gradient = self._all_rows = False
        self._recorder: Recorder | None = None
        self._logits: list[Tensor] = []
        self._graph_alive = False
        self._gradients: dict[tuple[int, Target] | None, Gradients] = {}

    def require(self, *needs: Need) -> None:
        """Say what will be asked for; a pass that has already shown less is forgotten and runs again when asked."""
        wanted = set(needs)
        attention = self._attention or bool(wanted & {"attentions", "attention_gradients"})
        gradient = self._gradient or bool(wanted & {"attention_gradients", "gradients", "hidden_gradients"})
        all_rows = self._all_rows or bool(wanted & {"hidden_states", "hidden_gradients"})
        if (attention, gradient, all_rows) != (self._attention, self._gradient, self._all_rows):
            self._attention, self._gradient, self._all_rows = attention, gradient, all_rows
            self._forget()

    @property
    def recorder(self) -> Recorder:
        """What the forward pass recorded (running it if need be)."""
        if self._recorder is None:
            recorder = Recorder(attention=self._attention, readout_only=not self._all_rows)
            self._logits = self.network.run(self.encodings, recorder, gradient=self._gradient)
            self._recorder = recorder
            self._graph_alive = self._gradient
        return self._recorder

    def logits(self, document: int) -> Tensor:
        """Logits of one document, still on the autograd path if gradients were required."""
        assert self.recorder is not None
        return self._logits[document]

    def target(self, document: int) -> Target:
        """Return the target of one document's own request."""
        request = self.requests[document]
        return self.network.task.resolve(
            self.logits(document).detach(), self.encodings[document], request.target, request.quantity, request.position
        )

    def gradients(self, document: int, target: Target) -> Gradients:
        """∂y/∂· for one document; documents of a batch that ask for their own targets share one backward."""
        self.require("gradients")
        shared = target == self.target(document)
        key = None if shared else (document, target)
        if key not in self._gradients:
            if not self._graph_alive:
                self._recorder = None
            self._gradients[key] = self._backward(range(len(self.encodings)) if shared else [document], target)
        return self._gradients[key]

    def _backward(self, documents: Sequence[int], target: Target) -> Gradients:
        recorder = self.recorder
        assert recorder.embeddings is not None
        alone = len(documents) == 1
        value = torch.stack(
            [self.network.task.value(self._logits[d], target if alone else self.target(d)) for d in documents]
        ).sum()
        outputs = [record.output for record in recorder.layers]
        found = self.network.backward(
            value, [recorder.embeddings, *recorder.hidden, *outputs], keep_graph=self.keep_graph
        )
        self._graph_alive = self.keep_graph
        hidden = len(recorder.hidden)
        return Gradients(found[0], found[1 : 1 + hidden], found[1 + hidden :])

    def _forget(self) -> None:
        self._recorder = None
        self._logits = []
        self._gradients = {}
        self._graph_alive = False


class Layers(Sequence[Attention]):
    """The attention operators of all layers, made on demand and kept while they fit in `CACHED_BYTES`."""

    def __init__(self, count: int, make: Callable[[int], Attention]) -> None:
        self._count = count
        self._make = make
        self._kept: OrderedDict[int, Attention] = OrderedDict()

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
        if layer not in self._kept:
            self._kept[layer] = self._make(layer)
            while len(self._kept) > 1 and sum(one.nbytes for one in self._kept.values()) > CACHED_BYTES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(layer)
        return self._kept[layer]


class Trace:
    """What one pass saw of one document, for one target."""

    def __init__(self, shared: Pass, document: int = 0, target: Target | None = None) -> None:
        self._pass = shared
        self._document = document
        self._target = target
        self.progress: Callable[[int, int], None] | None = None
        """Told (done, total) by methods that call the model many times."""

    def __repr__(self) -> str:
        return f"Trace({len(self.encoding)} tokens, {self.layers} layers, {self.heads} heads, {self.network.name!r})"

    @property
    def encoding(self) -> Encoding:
        """The document."""
        return self._pass.encodings[self._document]

    @property
    def network(self) -> Network:
        """The network that ran."""
        return self._pass.network

    @property
    def tokens(self) -> int:
        """n."""
        return len(self.encoding)

    @property
    def layers(self) -> int:
        """L."""
        return len(self.network.layers)

    @property
    def heads(self) -> int:
        """H."""
        return self.network.heads

    def require(self, *needs: Need) -> None:
        """Say what will be asked for, so that one pass can serve it."""
        self._pass.require(*needs)

    def with_target(self, target: TargetLike, quantity: str | None = None, position: int | None = None) -> Trace:
        """Return a trace of the same pass for another target (the forward is shared)."""
        chosen = quantity or self._pass.requests[self._document].quantity
        resolved = self.network.task.resolve(self._logits, self.encoding, target, chosen, position)
        self._pass.keep_graph = True
        other = Trace(self._pass, self._document, resolved)
        other.progress = self.progress
        # Attention does not depend on the target: share what was made already.
        other.__dict__["attentions"] = self.attentions
        return other

    @property
    def _logits(self) -> Tensor:
        return self._pass.logits(self._document).detach()

    @cached_property
    def target(self) -> Target:
        """What is explained."""
        return self._target if self._target is not None else self._pass.target(self._document)

    @property
    def logits(self) -> Array:
        """Scores of the classes, (C,)."""
        return _array(self.network.task.class_logits(self._logits, self.target.position))

    @property
    def probabilities(self) -> Array:
        """Probabilities of the classes, (C,)."""
        task = self.network.task
        return _array(task.probabilities(task.class_logits(self._logits, self.target.position)))

    @property
    def prediction(self) -> Prediction:
        """What the model said."""
        return self.network.task.prediction(self._logits, self.encoding, self.target.position)

    @property
    def value(self) -> float:
        """y, the number that is explained."""
        return float(self.network.task.value(self._logits, self.target))

    @cached_property
    def readout(self) -> NDArray[np.float64]:
        """Weights (n,) of the rows the target is read from: one row for a classifier, all alike for mean pooling."""
        return self.network.task.readout(self.target, self.tokens)

    @cached_property
    def attentions(self) -> Layers:
        """A^1 … A^L as operators, bottom layer first."""

        def make(layer: int) -> Attention:
            self.require("attentions")
            return self._pass.recorder.layers[layer].weights(self._document)

        return Layers(self.layers, make)

    @cached_property
    def attention_gradients(self) -> Layers:
        """∂y/∂A^1 … ∂y/∂A^L as operators."""

        def make(layer: int) -> Attention:
            self.require("attentions", "gradients")
            gradient = self._gradients().outputs[layer]
            record = self._pass.recorder.layers[layer]
            layout = record.layout or self._pass.recorder.layout
            assert layout is not None
            return record.gradient(self._document, layout.cut(gradient, self._document))

        return Layers(self.layers, make)

    @cached_property
    def received(self) -> Array:
        """Attention received by every token, summed over rows, (L, H, n)."""
        return np.stack([self.attentions[layer].received() for layer in range(self.layers)])

    @property
    def embeddings(self) -> Array:
        """Word embeddings (n, ·)."""
        embeddings = self._pass.recorder.embeddings
        assert embeddings is not None
        return _array(embeddings[self._document, : self.tokens])

    @property
    def inputs(self) -> tuple[Array, ...]:
        """x^0 … x^{L-1}: the input of every layer, each (n, d)."""
        return tuple(self._cut(hidden) for hidden in self._pass.recorder.hidden[: self.layers])

    @property
    def hidden_states(self) -> tuple[Array, ...]:
        """x^0 … x^L, each (n, d)."""
        self.require("hidden_states")
        return tuple(self._cut(hidden) for hidden in self._pass.recorder.hidden)

    @property
    def embedding_gradient(self) -> Array:
        """∂y/∂(word embeddings), (n, ·)."""
        return _array(self._gradients().embeddings[self._document, : self.tokens])

    @property
    def input_gradients(self) -> tuple[Array, ...]:
        """∂y/∂x^0 … ∂y/∂x^{L-1}, each (n, d)."""
        return tuple(self._cut(gradient) for gradient in self._gradients().hidden[: self.layers])

    @property
    def hidden_gradients(self) -> tuple[Array, ...]:
        """∂y/∂x^0 … ∂y/∂x^L, each (n, d)."""
        self.require("hidden_gradients")
        return tuple(self._cut(gradient) for gradient in self._gradients().hidden)

    def probe(self, encodings: Sequence[Encoding]) -> list[Tensor]:
        """Run changed documents, in batches of similar length, and return their logits."""
        return self.network.run_many(encodings, progress=self.progress)

    def value_of(self, logits: Tensor, quantity: str | None = None) -> float:
        """y of other logits of this task, in the target's quantity or another one."""
        target = self.target if quantity is None else _with_quantity(self.target, quantity)
        return float(self.network.task.value(logits, target))

    def values_and_gradients(
        self, points: Tensor, place: Literal["embeddings", "first_hidden"]
    ) -> tuple[NDArray[np.float64], Tensor]:
        """y (B,) and ∂y/∂points (B, n, ·) where `points` stand in for the word embeddings or for x^0."""
        values: list[float] = []
        gradients: list[Tensor] = []
        for chunk in torch.split(points, max(1, BATCH_TOKENS // self.tokens)):
            leaf = chunk.detach().requires_grad_()
            given = {"embeddings": None, "first_hidden": None, place: leaf}
            logits = self.network.run(
                [self.encoding] * len(leaf),
                gradient=True,
                embeddings=given["embeddings"],
                first_hidden=given["first_hidden"],
            )
            found = torch.stack([self.network.task.value(one, self.target) for one in logits])
            gradients += self.network.backward(found.sum(), [leaf])
            values += found.detach().double().tolist()
        return np.array(values), torch.cat(gradients)

    def _gradients(self) -> Gradients:
        return self._pass.gradients(self._document, self.target)

    def _cut(self, tensor: Tensor) -> Array:
        layout = self._pass.recorder.layout
        assert layout is not None
        return _array(layout.cut(tensor, self._document))


def _array(tensor: Tensor) -> Array:
    return tensor.detach().cpu().numpy()


def _with_quantity(target: Target, quantity: str) -> Target:
    return replace(target, quantity=check_quantity(quantity))
