"""The method `flow` on a trace equals the linear programme of maximum flow, written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from transformers import AutoModelForQuestionAnswering

from sightline.errors import OptionError
from sightline.methods import max_flow
from tests.tiny_models import tiny_ids, tiny_model

TOKENS = 7


def with_residual(weights):
    """(L, n, n) with the identity added and rows divided by their sums."""
    summed = weights + np.eye(weights.shape[-1])
    return summed / summed.sum(-1, keepdims=True)


def by_linear_programme(stack, source):
    """Maximum flow from the top to every input; source: a token, or capacities of arcs from an extra node.

    One variable for every arc, as much into a node between as out of it, and as much as possible into the sink.
    """
    n = stack.shape[-1]
    top = source if np.ndim(source) else stack[-1, source]
    inner = stack if np.ndim(source) else stack[:-1]
    capacities = np.concatenate([inner.ravel(), top])  # (x, i, j), then the arcs from the source to (len(inner), i)
    layer, tail, head = np.indices(inner.shape).reshape(3, -1)
    nodes = (len(inner) + 1) * n
    balance = np.zeros((nodes, len(capacities)))
    arcs = np.arange(inner.size)
    balance[layer * n + head, arcs] = 1.0
    balance[(layer + 1) * n + tail, arcs] = -1.0
    balance[nodes - n + np.arange(n), inner.size + np.arange(n)] = 1.0
    solutions = [
        linprog(-balance[t], A_eq=balance[n:], b_eq=np.zeros(nodes - n), bounds=np.c_[0 * capacities, capacities])
        for t in range(n)
    ]
    assert all(solution.success for solution in solutions)
    return -np.array([solution.fun for solution in solutions])


def weights_of(model, encoding):
    trace = model.trace(encoding)
    return np.stack([trace.attentions[layer].dense() for layer in range(trace.layer_count)])


@pytest.mark.parametrize("family", ["bert", "longformer", "modernbert"])
def test_flow_from_the_readout_is_the_maximum(family):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, TOKENS))
    explanation = model.explain(encoding, "flow")
    expected = by_linear_programme(with_residual(weights_of(model, encoding).mean(1)), 0)
    np.testing.assert_allclose(explanation.extras["raw"], expected, atol=1e-9)
    np.testing.assert_allclose(explanation.scores, expected / expected.sum(), atol=1e-9)
    assert explanation.checks["certified"] is True


def test_layers_heads_and_fusion_can_be_chosen():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids("bert", TOKENS))
    A = weights_of(model, encoding)
    lower = model.explain(encoding, "flow", layer=1, fusion="max", values="raw").scores
    np.testing.assert_allclose(lower, by_linear_programme(with_residual(A.max(1)[:2]), 0), atol=1e-9)
    head = model.explain(encoding, "flow", layer=2, head=3, values="raw").scores
    np.testing.assert_allclose(head, by_linear_programme(with_residual(A.mean(1)[:2]), A[2, 3, 0]), atol=1e-9)
    lowest = model.explain(encoding, "flow", layer=0, head=1, values="raw").scores
    np.testing.assert_allclose(lowest, A[0, 1, 0], atol=1e-12)


@pytest.mark.parametrize("family", ["bert", "longformer"])
@pytest.mark.parametrize("values", ["raw", "normalised"])
def test_layer_l_holds_the_flow_from_the_readout_of_layer_l(family, values):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, TOKENS))
    explanation = model.explain(encoding, "flow", values=values)
    A = with_residual(weights_of(model, encoding).mean(1))
    expected = np.stack([by_linear_programme(A[: depth + 1], 0) for depth in range(len(A))])
    if values == "normalised":
        expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(explanation.layers, expected, atol=1e-9)
    np.testing.assert_allclose(explanation.layers[0], A[0, 0], atol=1e-12)  # rows of Â sum to 1
    np.testing.assert_array_equal(explanation.layers[-1], explanation.scores)
    assert explanation.layer_kind == "cumulative"


def test_layers_are_solved_on_request_where_another_layer_or_head_is_explained():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids("bert", TOKENS))
    everything = model.explain(encoding, "flow").layers
    lower = model.explain(encoding, "flow", layer=1, every_layer=True)
    np.testing.assert_array_equal(lower.layers, everything)
    np.testing.assert_array_equal(lower.scores, everything[1])
    assert lower.layer_kind == "separate"
    head = model.explain(encoding, "flow", head=2, every_layer=True)
    np.testing.assert_array_equal(head.layers, everything)
    np.testing.assert_array_equal(head.scores, model.explain(encoding, "flow", head=2).scores)
    assert model.explain(encoding, "flow", layer=1).layers is None
    assert model.explain(encoding, "flow", every_layer=False).layers is None


def test_layers_of_long_documents_are_solved_on_request(monkeypatch):
    monkeypatch.setattr(max_flow, "LAYERED_FLOWS", TOKENS - 1)
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids("bert", TOKENS))
    assert model.explain(encoding, "flow").layers is None
    assert model.explain(encoding, "flow", every_layer=True).layers.shape == (3, TOKENS)


def test_mean_pooling_averages_the_flows_of_all_rows():
    model = tiny_model("modernbert", classifier_pooling="mean")
    encoding = model.encode(ids=tiny_ids("modernbert", TOKENS))
    explanation = model.explain(encoding, "flow")
    A = with_residual(weights_of(model, encoding).mean(1))
    rows = np.stack([by_linear_programme(A, i) for i in range(TOKENS)])
    np.testing.assert_allclose(explanation.extras["raw"], rows.mean(0), atol=1e-9)
    np.testing.assert_allclose(explanation.scores, (rows / rows.sum(1, keepdims=True)).mean(0), atol=1e-9)
    assert explanation.checks["certified"] is True
    settled = [explanation.checks[f"settled_by_{how}"] for how in ("bounds", "flow", "cut")]
    assert sum(settled) == TOKENS * TOKENS


def test_an_answer_averages_the_flows_of_its_two_ends():
    model = tiny_model(auto=AutoModelForQuestionAnswering, num_labels=2)
    encoding = model.encode(ids=tiny_ids("bert", TOKENS))
    A = weights_of(model, encoding)
    mean = with_residual(A.mean(1))
    scores = model.explain(encoding, "flow", target=(2, 4), values="raw").scores
    np.testing.assert_allclose(scores, (by_linear_programme(mean, 2) + by_linear_programme(mean, 4)) / 2, atol=1e-9)
    head = model.explain(encoding, "flow", target=(2, 4), head=1, values="raw").scores
    ends = [by_linear_programme(mean[:2], A[2, 1, i]) for i in (2, 4)]
    np.testing.assert_allclose(head, np.mean(ends, axis=0), atol=1e-9)


def test_one_node_may_stand_for_all_tokens_that_are_pooled():
    model = tiny_model("modernbert", classifier_pooling="mean")
    encoding = model.encode(ids=tiny_ids("modernbert", TOKENS))
    A = weights_of(model, encoding)
    even = np.full(TOKENS, 1 / TOKENS)
    scores = model.explain(encoding, "flow", values="raw", source="pooled").scores
    np.testing.assert_allclose(scores, by_linear_programme(with_residual(A.mean(1)), even), atol=1e-9)
    head = model.explain(encoding, "flow", values="raw", source="pooled", head=2).scores
    np.testing.assert_allclose(head, by_linear_programme(with_residual(A.mean(1)[:2]), even @ A[2, 2]), atol=1e-9)


def test_flow_may_start_from_any_token_of_any_layer():
    model = tiny_model("longformer")
    encoding = model.encode(ids=tiny_ids("longformer", TOKENS))
    A = weights_of(model, encoding)
    mean = with_residual(A.mean(1))
    for source, layer in ((3, 2), (TOKENS - 1, 1), (0, 0)):
        scores = model.explain(encoding, "flow", source=source, layer=layer, values="raw").scores
        np.testing.assert_allclose(scores, by_linear_programme(mean[: layer + 1], source), atol=1e-9)
    head = model.explain(encoding, "flow", source=5, head=1, values="raw").scores
    np.testing.assert_allclose(head, by_linear_programme(mean[:2], A[2, 1, 5]), atol=1e-9)
    with pytest.raises(OptionError, match=f"Token {TOKENS} asked for as the source, the document has {TOKENS}"):
        model.explain(encoding, "flow", source=TOKENS)


def test_progress_reaches_every_token():
    model, calls = tiny_model(), []
    model.explain(model.encode(ids=tiny_ids("bert", TOKENS)), "flow", progress=lambda *step: calls.append(step))
    layers = 3
    assert calls[-1] == ("flow", layers * TOKENS, layers * TOKENS)
    model.explain(
        model.encode(ids=tiny_ids("bert", TOKENS)),
        "flow",
        every_layer=False,
        progress=lambda *step: calls.append(step),
    )
    assert calls[-1] == ("flow", TOKENS, TOKENS)


def test_progress_counts_the_tokens_of_every_row():
    model, calls = tiny_model("modernbert", classifier_pooling="mean"), []
    model.explain(
        model.encode(ids=tiny_ids("modernbert", 3)),
        "flow",
        every_layer=False,
        progress=lambda *step: calls.append(step),
    )
    assert calls[-3:] == [("flow", 3, 9), ("flow", 6, 9), ("flow", 9, 9)]
