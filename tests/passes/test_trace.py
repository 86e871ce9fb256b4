"""One pass serves all methods, and nothing runs before it is needed."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch

from benchmarks.methods import TEN_METHODS
from sightline.analysis.internals import inside
from sightline.errors import OptionError
from sightline.methods import METHODS
from tests.tiny_models import FAMILIES, tiny_ids, tiny_model


class PassCounter:
    """Counts real forward calls of the module and real calls of autograd."""

    def __init__(self, model, monkeypatch):
        self.forwards = self.backwards = 0
        model.network.module.register_forward_pre_hook(self._forward)
        autograd = torch.autograd.grad

        def counted(*args, **kwargs):
            self.backwards += 1
            return autograd(*args, **kwargs)

        monkeypatch.setattr(torch.autograd, "grad", counted)

    def _forward(self, *_):
        self.forwards += 1


@pytest.mark.parametrize("family", FAMILIES)
def test_ten_methods_cost_one_forward_and_one_backward(family, monkeypatch):
    model = tiny_model(family)
    counter = PassCounter(model, monkeypatch)
    explanations = model.explain(model.encode(ids=tiny_ids(family, 12)), methods=TEN_METHODS)
    assert len(explanations) == 10
    assert (counter.forwards, counter.backwards) == (1, 1)


def test_methods_without_gradients_cost_no_backward(monkeypatch):
    model = tiny_model()
    counter = PassCounter(model, monkeypatch)
    model.explain(model.encode(ids=tiny_ids()), methods=["rollout", "raw_attention", "random"])
    assert (counter.forwards, counter.backwards) == (1, 0)


def test_a_batch_of_documents_shares_one_forward_and_one_backward(monkeypatch):
    model = tiny_model("longformer")
    counter = PassCounter(model, monkeypatch)
    encodings = [model.encode(ids=tiny_ids("longformer", n)) for n in (12, 10, 11)]
    assert len(model.explain(encodings, methods=TEN_METHODS)) == 3
    assert (counter.forwards, counter.backwards) == (1, 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_pass_gives_what_many_passes_give(family):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 12))
    together = model.explain(encoding, methods=TEN_METHODS)
    for name in TEN_METHODS:
        np.testing.assert_allclose(together[name].scores, model.explain(encoding, name).scores, atol=1e-10)


def test_nothing_runs_until_something_is_needed():
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()))
    assert model.network.forward_passes == 0
    assert trace.logits.shape == (3,)
    assert model.network.forward_passes == 1


@pytest.mark.parametrize("target", [None, 2, (0, 1), "all"])
@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_a_trace_is_explained_as_its_document_is_and_its_pass_is_shared(family, target):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 12))
    expected = model.report(encoding, ["attcat", "rollout"], target, quantity="margin", check=False, inside=False)
    trace = model.trace(encoding, target, quantity="margin")
    trace.require("attentions")
    before = model.network.forward_passes
    report = model.report(trace, ["attcat", "rollout"], quantity="margin", check=False, inside=False)
    assert inside(trace).tokens == 12
    assert model.network.forward_passes == before + 1
    for entry, other in zip(report, expected, strict=True):
        assert entry.target == other.target
        np.testing.assert_array_equal(entry.scores, other.scores)


def test_one_document_of_a_batch_is_explained_alone():
    model = tiny_model()
    encodings = [model.encode(ids=tiny_ids("bert", n)) for n in (12, 9)]
    _, second = model.trace(encodings, target="all")
    from_batch, alone = model.explain(second, "attcat"), model.explain(encodings[1], "attcat", target="all")
    for label, explanation in alone.by_target().items():
        np.testing.assert_allclose(from_batch.by_target()[label].scores, explanation.scores, atol=1e-12)


def test_a_trace_keeps_its_target_and_its_model():
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()))
    for settled in ({"target": 1}, {"position": 2}, {"quantity": "probability"}, {"pair": "mill"}):
        with pytest.raises(OptionError, match="leave them out, or give them to encode"):
            model.explain(trace, "attcat", **settled)
    with pytest.raises(OptionError, match="made by another model"):
        tiny_model().explain(trace, "attcat")


@pytest.mark.parametrize("method", ["owen", "occlusion", "leave_one_out", "lime", "integrated_gradients"])
def test_a_trace_is_explained_for_its_own_quantity_by_every_method(method):
    model = tiny_model()
    document = model.encode(ids=tiny_ids(n=8))
    margin = model.explain(document, method, quantity="margin")
    trace = model.trace(document, quantity="margin")
    for own in (trace, model.trace(document).with_target(margin.target.index, "margin")):
        explanation = model.explain(own, method)
        assert explanation.target == margin.target
        np.testing.assert_allclose(explanation.scores, margin.scores, atol=1e-12)
    by_default = model.explain(model.trace(document), method)
    np.testing.assert_allclose(by_default.scores, model.explain(document, method).scores, atol=1e-12)


def test_another_target_shares_the_forward():
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()), target=0)
    trace.require("attentions", "gradients", "inputs")
    others = [trace.with_target(c) for c in range(3)]
    scores = [METHODS.get("attcat")(other).scores for other in others]
    assert model.network.forward_passes == 1
    for c, class_scores in enumerate(scores):
        np.testing.assert_allclose(class_scores, model.explain(trace.encoding, "attcat", target=c).scores, atol=1e-12)


def test_what_was_not_foreseen_is_fetched_by_another_pass():
    model = tiny_model("longformer")
    trace = model.trace(model.encode(ids=tiny_ids("longformer")), target=1)
    before = trace.logits
    assert len(trace.hidden_states) == trace.layer_count + 1
    assert trace.embedding_gradient.shape[0] == trace.token_count
    np.testing.assert_allclose(trace.logits, before, atol=1e-12)


def test_operators_beyond_the_cache_are_made_again(monkeypatch):
    monkeypatch.setattr("sightline.passes.trace.CACHED_BYTES", 1)
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()))
    first = trace.attentions[0].dense()
    assert trace.attentions[2].tokens == trace.token_count
    np.testing.assert_array_equal(trace.attentions[0].dense(), first)
    with pytest.raises(IndexError, match=r"Layer 3 asked for, the model has 3 \(0-2\)"):
        trace.attentions[3]


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_a_pass_is_freed_with_its_trace_without_the_garbage_collector(family):
    model = tiny_model(family)
    trace = model.trace(model.encode(ids=tiny_ids(family, 12)))
    for name in (*TEN_METHODS, "attnlrp"):
        METHODS.get(name)(trace)
    assert len(trace.attentions) == len(trace.attention_gradients)
    recorder = weakref.ref(trace._pass.recorder)
    gc.disable()
    try:
        del trace
        assert recorder() is None
    finally:
        gc.enable()
