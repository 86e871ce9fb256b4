"""Passes: one forward of a padded batch and its backward passes, shared by the traces of its documents.

Methods declare what they need, `Pass.require` receives the union before anything runs, and one forward (plus, if
gradients are needed, one backward per target) serves them all. A need that was not announced costs another pass.
`Pass.classes` goes through all classes on one forward, with one backward per class.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.attention import Attention
from sightline.models import ALL, Network, Recorder, Request, Target
from sightline.models.head_weights import HeadWeights
from sightline.models.layerwise import (
    BackwardRules,
    LayerGradients,
    Layerwise,
    LinearOutputs,
    Relevance,
    run_keeping,
)
from sightline.models.streamed_attention import StreamedRecord
from sightline.models.torch_context import own_torch_context
from sightline.passes.propagation import keeps_all_layers, propagate, propagate_together
from sightline.text import Encoding

T = TypeVar("T")
P = ParamSpec("P")
Array = NDArray[np.floating[Any]]
Need = Literal[
    "attentions",
    "attention_gradients",
    "attention_relevance",
    "relevance",
    "inputs",
    "hidden_states",
    "gradients",
    "hidden_gradients",
    "head_importance",
    "blocks",
    "probes",
]
"""What a method may ask for. "inputs" are x^0 … x^{L-1}, "hidden_states" also x^L for all tokens; "head_importance"
sums gradients of weights by head; "blocks" are the parts of the attention blocks besides their weights;
"relevance" is what other backward rules hand to embeddings and layers, "attention_relevance" also what they hand to
attention weights; "probes" are model calls with changed inputs, which no single pass can share."""


SEEN_FROM_OUTSIDE: frozenset[Need] = frozenset({"gradients", "probes"})
"""Needs that embeddings and logits meet."""


@dataclass(frozen=True)
class Gradients:
    """∂y/∂· of one backward pass, as batch tensors in the recorder's layout."""

    embeddings: Tensor
    hidden: list[Tensor]
    outputs: list[Tensor]
    head_importance: NDArray[np.float64] | None = None
    """Σ_w (∂y/∂w · w)² over the weights w of every head, (L, H), where it was required."""


def _alone(compute: Callable[Concatenate[Pass, P], T]) -> Callable[Concatenate[Pass, P], T]:
    """Let a method of a pass run in one thread at a time, under our own settings of torch."""

    @wraps(compute)
    def run(self: Pass, /, *args: P.args, **options: P.kwargs) -> T:
        with self.lock, own_torch_context():
            return compute(self, *args, **options)

    return run


WindowPart = tuple["Pass", int, NDArray[np.int64], float]
"""One window of a document: the pass that runs it and its number there, the places of its tokens in the document, and
its share, ∂y/∂(number of the window that is explained)."""


class Pass:
    """One forward of a padded batch, and its backward passes; shared by the traces of its documents."""

    def __init__(self, network: Network, encodings: Sequence[Encoding], requests: Sequence[Request]) -> None:
        self.network = network
        self.encodings = list(encodings)
        self.requests = list(requests)
        self.weights_state = network.weights_state
        """The state of the weights when the pass was made: results of different weights must not be mixed."""
        self.lock = threading.RLock()
        """Held while a thread computes something from the pass: a backward frees the graph that another would read."""
        self.keep_graph = False
        self.attention_gradients = False
        """Whether gradients of attention are needed."""
        self.attention_relevance = False
        """Whether the relevance of attention is needed."""
        self._relevance = False
        self._attention = self._blocks = False
        # Which rows a head of unknown make reads is measured by its gradient (`Trace.readout`).
        self._gradient = self._all_rows = network.has_custom_head
        self._head_weights: HeadWeights | None = None
        self._recorder: Recorder | None = None
        self._layerwise: Layerwise | None = None
        """How gradients are computed layer by layer, if they are."""
        self.linear_outputs: dict[int, LinearOutputs] = {}
        """Outputs of linear maps that the forward pass kept for relevance, by layer."""
        self._output_gradients: dict[int, Tensor] = {}
        """∂y/∂(attention output before the projection) by layer, of a layer-by-layer backward."""
        self._logits: list[Tensor] = []
        self._graph_alive = False
        self._gradients: dict[tuple[int, Target] | None, Gradients] = {}
        self._relevances: dict[tuple[int, Target, BackwardRules], Relevance] = {}
        self._round: tuple[Target, ...] | None = None
        """While going through the classes: the target of the current class in every document."""
        self._later_rounds: list[tuple[Target, ...]] = []
        """The targets of the classes that follow."""
        self._made_once: dict[Hashable, Any] = {}
        self._doubles: dict[int, Pass] = {}
        """Passes in double precision, by document."""

    def in_double(self, document: int) -> Pass:
        """Return a pass over one document in double precision, on a copy of the network.

        Returns the pass itself if the network already has double precision, or runs on a device without it.
        """
        if document not in self._doubles:
            copied = next((shared.network for shared in self._doubles.values()), None) or self.network.in_double()
            if copied is self.network:
                return self
            self._doubles[document] = Pass(copied, [self.encodings[document]], [self.requests[document]])
        self.linear_outputs.clear()  # only the copy needs its own from here on
        return self._doubles[document]

    @_alone
    def require(self, *needs: Need) -> None:
        """Announce what will be needed; results of a pass that recorded less are dropped, and it runs again later."""
        wanted = set(needs)
        if wanted - SEEN_FROM_OUTSIDE:
            self.network.require_layers()
        if "head_importance" in wanted and self._head_weights is None and len(self.encodings) == 1:
            self._head_weights = HeadWeights(self.network)
            self._forget()
        attention_needs = self.attention_gradients, self.attention_relevance
        self.attention_gradients |= "attention_gradients" in wanted
        self.attention_relevance |= "attention_relevance" in wanted
        self._relevance |= bool(wanted & {"attention_relevance", "relevance"})
        if (self.attention_gradients, self.attention_relevance) != attention_needs:
            self._relevances = {}
            if self._recorder is not None and any(isinstance(r, StreamedRecord) for r in self._recorder.layers):
                self._forget()  # relevances of weights are multiplied with weights and gradients of the same layout
        blocks = self._blocks or "blocks" in wanted
        attention = self._attention or blocks or bool(wanted & {"attentions", "attention_gradients"})
        gradient = self._gradient or bool(
            wanted & {"attention_gradients", "gradients", "hidden_gradients", "head_importance"}
        )
        all_rows = self._all_rows or blocks or bool(wanted & {"hidden_states", "hidden_gradients"})
        before = (self._attention, self._gradient, self._all_rows, self._blocks)
        if (attention, gradient, all_rows, blocks) != before:
            self._attention, self._gradient, self._all_rows, self._blocks = attention, gradient, all_rows, blocks
            self._forget()

    @property
    @_alone
    def recorder(self) -> Recorder:
        """What the forward pass recorded; runs it if necessary."""
        if self._recorder is None:
            recorder = Recorder(
                attention=self._attention,
                plain=self.attention_relevance,
                readout_only=not self._all_rows,
                blocks=self._blocks,
            )
            weights = self._head_weights
            self.linear_outputs = {}
            self._layerwise = self._plan_layerwise()
            self._logits = self.network.run(
                self.encodings,
                recorder,
                gradient=self._gradient,
                within=None if weights is None else weights.on_autograd_path(),
                step=self._step(),
            )
            self._recorder = recorder
            self._graph_alive = self._gradient
        return self._recorder

    def _step(self) -> Callable[[int, Callable[[Tensor], Tensor], Tensor], Tensor] | None:
        """Return how the layers of the forward pass run: ordinarily (None), layer by layer, or keeping linear maps.

        If relevance follows, which runs every layer again, kept outputs of linear maps save these in the second run.
        """
        if self._layerwise is not None:
            return self._layerwise.step
        runs_again = self._relevance and (len(self.encodings) == 1 or keeps_all_layers(self))
        if not runs_again or self.network.family.returns_more:
            return None
        return partial(run_keeping, self.linear_outputs)

    def _plan_layerwise(self) -> Layerwise | None:
        """Let gradients go back layer by layer if relevance of attention follows.

        One kept set of linear maps then serves both, and the graphs of all layers but one are saved. Gradients of
        weights need the graph of the whole model.
        """
        wanted = self._gradient and self.attention_relevance and self._head_weights is None
        if not wanted or len(self.encodings) > 1 or self.network.family.returns_more:
            return None

        received = self._output_gradients

        def receive(layer: LayerGradients) -> None:
            # Not `self`: the logits' graph holds this function, and the collector finds no cycle through a graph.
            (received[layer.layer],) = layer.parts

        return Layerwise(
            lengths=(len(self.encodings[0]),),
            parts=lambda record: (record.output,),
            within=self.network.alone,
            receive=receive,
            linear_outputs=self.linear_outputs,
            last=False,
        )

    def logits(self, document: int) -> Tensor:
        """Return the logits of one document, on the autograd path if gradients are needed."""
        assert self.recorder is not None
        return self._logits[document]

    def target(self, document: int) -> Target:
        """Return the target that was requested for one document."""
        request = self.requests[document]
        return self.network.task.resolve(self.logits(document).detach(), self.encodings[document], request)

    def windows(self, target: Target, quantity: str | None = None) -> Iterator[WindowPart]:
        """Yield the windows of a document that is read in windows (`passes.document_windows`), none otherwise."""
        return iter(())

    def longest(self, document: int) -> int:
        """Return the document of which this one is a prefix (`sightline.passes.prefixes`), itself otherwise."""
        return document

    def retarget(self, targets: Sequence[Target]) -> None:
        """Explain other targets from now on, one per document; the forward pass stays."""
        requests = [Request(target, target.quantity) for target in targets]
        if requests != self.requests:
            self.requests = requests
            self._gradients.pop(None, None)

    def classes(self) -> Iterator[tuple[str, tuple[Target, ...]]]:
        """Yield the label of every class and its target in every document.

        All documents share one backward per class. Results of a class are dropped when the next class is requested, and
        the graph after the last backward, so that memory does not grow with the number of classes.
        """
        task = self.network.task
        documents = [
            task.all_targets(self.logits(document).detach(), encoding, request)
            for document, (encoding, request) in enumerate(zip(self.encodings, self.requests, strict=True))
        ]
        rounds = list(zip(*documents, strict=True))
        try:
            for number, (label, targets) in enumerate(zip(unique(task.facts.labels), rounds, strict=True)):
                self._gradients, self._relevances = {}, {}
                self._round, self._later_rounds = targets, rounds[number + 1 :]
                yield label, targets
        finally:
            self._round, self._later_rounds = None, []
            self._made_once = {}

    @property
    def more_rounds(self) -> bool:
        """Whether more classes follow."""
        return bool(self._later_rounds)

    def later_targets(self, document: int) -> tuple[Target, ...]:
        """Return the targets of one document that follow while all classes are explained."""
        return tuple(targets[document] for targets in self._later_rounds)

    def once(self, document: int, key: Hashable, make: Callable[[], T]) -> T:
        """Return make(), cached while more classes follow, for results that do not depend on the target."""
        if (document, key) in self._made_once:
            return cast(T, self._made_once[document, key])
        made = make()
        if self.more_rounds:
            self._made_once[document, key] = made
        return made

    @_alone
    def gradients(self, document: int, target: Target) -> Gradients:
        """Return ∂y/∂· for one document; documents that use their requested targets share one backward."""
        self.require("gradients")
        shared = self._shares_backward(document, target)
        key = None if shared else (document, target)
        if key not in self._gradients:
            if not self._graph_alive:
                self._recorder = None
            self._gradients[key] = self._backward(range(len(self.encodings)) if shared else [document], target)
        return self._gradients[key]

    def _shares_backward(self, document: int, target: Target) -> bool:
        """Whether a target is the one that its document has in a backward pass of all documents."""
        every_class = self._round is None and self.requests[document].target == ALL
        return not every_class and target == self.own_target(document)

    def output_gradient(self, document: int, target: Target, layer: int) -> Tensor:
        """Return ∂y/∂(attention output before the projection) of one layer, for the rows that were evaluated."""
        gradient = self.gradients(document, target).outputs[layer]
        layout = self.recorder.layers[layer].layout or self.recorder.layout
        assert layout is not None
        return layout.cut(gradient, document)

    def attention_gradient(self, document: int, target: Target, layer: int) -> Attention:
        """Return ∂y/∂A of one layer."""
        gradient = self.output_gradient(document, target, layer)
        return self.recorder.layers[layer].gradient(document, gradient)

    def head_importance(self, document: int, target: Target) -> NDArray[np.float64]:
        """Return Σ_w (∂y/∂w · w)² over the weights w of every head, (L, H), for one document.

        The backward of a batch sums gradients of weights over its documents, so each of several documents runs alone.
        """
        if len(self.encodings) > 1:
            alone = Pass(self.network, [self.encodings[document]], [self.requests[document]])
            return alone.head_importance(0, target)
        self.require("head_importance")
        importance = self.gradients(document, target).head_importance
        assert importance is not None
        return importance

    @_alone
    def relevance(self, document: int, target: Target, rules: BackwardRules) -> Relevance:
        """Return the relevance of one document by `rules`.

        Documents run together where rules treat each by itself and the graph is small; otherwise alone, layer by layer.
        """
        key = (document, target, rules)
        if key not in self._relevances:
            if self._gradient:  # computed first, so that their graph is freed before another one is built
                self.gradients(document, target)
            if self._shares_backward(document, target) and rules.by_document and keeps_all_layers(self):
                for number, relevance in enumerate(propagate_together(self, rules)):
                    self._relevances[number, self.own_target(number), rules] = relevance
            else:
                self._relevances[key] = propagate(self, document, target, rules)
        return self._relevances[key]

    def hidden_states(self, document: int) -> list[Tensor]:
        """Return x^0, x^1, … of one document (n, d), as far as a pass that has run recorded them."""
        if self._recorder is None or self._recorder.layout is None:
            return []
        return [self._recorder.cut(hidden, document) for hidden in self._recorder.hidden]

    def _backward(self, documents: Sequence[int], target: Target) -> Gradients:
        recorder = self.recorder
        assert recorder.embeddings is not None
        alone = len(documents) == 1
        value = torch.stack(
            [self.network.task.value(self._logits[d], target if alone else self.own_target(d)) for d in documents]
        ).sum()
        outputs = [record.output for record in recorder.layers] if self._layerwise is None else []
        self._graph_alive = self.keep_graph or self.more_rounds
        inputs = [recorder.embeddings, *recorder.hidden, *outputs]
        weights = self._head_weights
        gradients = self.network.backward(
            value, inputs + ([] if weights is None else weights.tensors), keep_graph=self._graph_alive
        )
        hidden = len(recorder.hidden)
        received = [self._output_gradients.pop(layer) for layer in sorted(self._output_gradients)]
        return Gradients(
            embeddings=gradients[0],
            hidden=gradients[1 : 1 + hidden],
            outputs=gradients[1 + hidden : len(inputs)] + received,
            head_importance=None if weights is None else weights.sum_squares(gradients[len(inputs) :]),
        )

    def own_target(self, document: int) -> Target:
        """Return the target of a document: its request, or the current class."""
        return self.target(document) if self._round is None else self._round[document]

    def _forget(self) -> None:
        self._recorder = self._layerwise = None
        self.linear_outputs = {}
        self._logits = []
        self._gradients = {}
        self._graph_alive = False


def unique(labels: Sequence[str]) -> list[str]:
    """Return the labels; a label shared by several classes is followed by the number of the class."""
    return [label if labels.count(label) == 1 else f"{label} ({index})" for index, label in enumerate(labels)]
