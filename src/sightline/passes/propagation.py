"""Relevance in a pass: what backward rules other than those of gradients hand to embeddings, layers and attention.

Documents run together where rules treat each by itself and the graph is small; otherwise alone, layer by layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import torch

from sightline.attention.arrays import as_array
from sightline.models import Recorder, Target
from sightline.models.inputs import find_global_tokens
from sightline.models.layerwise import (
    BackwardRules,
    Layerwise,
    LinearOutputs,
    ReceivedRelevance,
    Relevance,
    StagedBackward,
    weighted_sum,
)

if TYPE_CHECKING:
    from sightline.passes.forward import Pass

GRAPH_BYTES = 2**30
"""Most bytes of the graph when relevance is propagated through all layers at once."""
KEPT_STATES, KEPT_WEIGHTS = 30, 2
"""How many states (tokens × width) and attention matrices a layer keeps for that: 21 and 2 in BERT, and 9 outputs
of its linear maps."""


def keeps_all_layers(shared: Pass) -> bool:
    """Whether the graph of all layers may be kept in memory, as one backward through them needs."""
    if shared.attention_relevance or shared.network.banded:
        return False
    network, longest = shared.network, max(map(len, shared.encodings))
    width = int(getattr(network.config, "hidden_size", 1024))
    per_token = len(network.layers) * (KEPT_STATES * width + KEPT_WEIGHTS * network.heads * longest)
    return len(shared.encodings) * longest * per_token * network.dtype.itemsize <= GRAPH_BYTES


def propagate_together(shared: Pass, rules: BackwardRules) -> Iterator[Relevance]:
    """Yield the relevance of every document, from one forward and one backward pass through all layers."""
    network, recorder = shared.network, Recorder(plain=True)
    kept = LinearOutputs.of_all_layers({} if shared.more_rounds else shared.linear_outputs)
    with network.plain_operations(), kept, rules.active(network.module):
        logits = network.run(shared.encodings, recorder, gradient=True)
    seeds = []
    for document, scores in enumerate(logits):
        leaf = scores.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(network.task.value(leaf, shared.own_target(document)), leaf)
        ((_, seed),) = rules.seeds(scores.detach(), gradient)
        seeds.append(seed)
    assert recorder.embeddings is not None
    places = [recorder.embeddings, *recorder.hidden]
    network.backward_passes += 1
    embeddings, *hidden = torch.autograd.grad(logits, places, seeds, allow_unused=True, materialize_grads=True)
    for document, encoding in enumerate(shared.encodings):
        received = ReceivedRelevance(rules.reduce, None)
        own = [received.bound(recorder.cut(tensor, document)) for tensor in hidden]
        yield Relevance(
            seed=as_array(seeds[document]),
            embeddings=as_array(received.bound(embeddings[document, : len(encoding)])),
            hidden=tuple(map(as_array, own)),
            attentions=(),
            lost=received.lost,
        )


def propagate(shared: Pass, document: int, target: Target, rules: BackwardRules) -> Relevance:
    """Return the relevance of one document, from a forward and a backward pass layer by layer."""
    encoding, network = shared.encodings[document], shared.network
    # Only the row that the head reads has relevance in the last layer; if it is a global one, it is run alone.
    encoder = network.banded_encoder
    first_row = encoder is not None and encoder.readout_rows == "first"
    first_only = first_row and 0 in find_global_tokens(network, encoding)
    recorder = Recorder(attention=False, readout_only=first_only)
    of_attention = shared.attention_relevance and rules.through_attention
    known = [] if network.family.returns_more else shared.hidden_states(document)
    if len(known) <= len(network.layers) and not first_only:  # a pass that evaluated the readout rows only
        known = []

    @contextmanager
    def within() -> Iterator[None]:
        with network.plain_operations(), rules.active(network.module):
            yield

    received = ReceivedRelevance(
        rules.reduce, partial(shared.output_gradient, document, target) if shared.attention_gradients else None
    )
    staged = StagedBackward(
        Layerwise(
            lengths=(len(encoding),),
            parts=(lambda record: record.probabilities[0]) if of_attention else None,
            within=within,
            receive=received.take,
            known=known[: len(network.layers)] if first_only else known,
            linear_outputs=shared.linear_outputs if known else {},
            last=not shared.more_rounds,
        )
    )
    network.require_plain_operations()
    (logits,) = network.run([encoding], recorder, gradient=True, within=rules.active(network.module), step=staged.step)
    leaf = logits.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(network.task.value(leaf, target), leaf)
    seeds = rules.seeds(logits.detach(), gradient)
    assert recorder.embeddings is not None
    network.backward_passes += len(seeds)
    embeddings = staged.backward(logits, seeds, recorder.embeddings)
    return Relevance(
        seed=as_array(weighted_sum([weight for weight, _ in seeds], [seed for _, seed in seeds])),
        embeddings=as_array(received.bound(embeddings)[0, : len(encoding)]),
        hidden=tuple(as_array(recorder.cut(tensor, 0)) for tensor in reversed(received.hidden)),
        attentions=tuple(reversed(received.attentions)),
        lost=received.lost,
    )
