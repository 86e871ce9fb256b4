"""The method `flow` on a trace equals networkx on the graph written out."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from tests.tiny_models import tiny_ids, tiny_model

TOKENS = 7


def with_residual(weights):
    """(L, n, n) with the identity added and rows divided by their sums."""
    summed = weights + np.eye(weights.shape[-1])
    return summed / summed.sum(-1, keepdims=True)


def by_networkx(stack, source):
    """Maximum flow from the top to every input; source: a token, or capacities of arcs from an extra node."""
    graph = networkx.DiGraph()
    layers, n = len(stack), stack.shape[-1]
    for layer in range(layers):
        for i in range(n):
            for j in range(n):
                if stack[layer, i, j] > 0:
                    graph.add_edge((layer + 1, i), (layer, j), capacity=stack[layer, i, j])
    start = (layers, source)
    if np.ndim(source):
        start = "source"
        for i, capacity in enumerate(source):
            graph.add_edge(start, (layers, i), capacity=capacity)
    return np.array([networkx.maximum_flow_value(graph, start, (0, t)) for t in range(n)])


def weights_of(model, encoding):
    trace = model.trace(encoding)
    return np.stack([trace.attentions[layer].dense() for layer in range(trace.layers)])


@pytest.mark.parametrize("family", ["bert", "longformer", "modernbert"])
def test_flow_from_the_readout_is_the_maximum(family):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, TOKENS))
    found = model.explain(encoding, "flow")
    expected = by_networkx(with_residual(weights_of(model, encoding).mean(1)), 0)
    np.testing.assert_allclose(found.extras["raw"], expected, atol=1e-9)
    np.testing.assert_allclose(found.scores, expected / expected.sum(), atol=1e-9)
    assert found.checks["certified"] is True


def test_layers_heads_and_fusion_can_be_chosen():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids("bert", TOKENS))
    A = weights_of(model, encoding)
    lower = model.explain(encoding, "flow", layer=1, fusion="max", values="raw").scores
    np.testing.assert_allclose(lower, by_networkx(with_residual(A.max(1)[:2]), 0), atol=1e-9)
    head = model.explain(encoding, "flow", layer=2, head=3, values="raw").scores
    np.testing.assert_allclose(head, by_networkx(with_residual(A.mean(1)[:2]), A[2, 3, 0]), atol=1e-9)
    lowest = model.explain(encoding, "flow", layer=0, head=1, values="raw").scores
    np.testing.assert_allclose(lowest, A[0, 1, 0], atol=1e-12)


def test_mean_pooling_starts_from_all_tokens():
    model = tiny_model("modernbert", classifier_pooling="mean")
    encoding = model.encode(ids=tiny_ids("modernbert", TOKENS))
    found = model.explain(encoding, "flow", values="raw").scores
    A = with_residual(weights_of(model, encoding).mean(1))
    np.testing.assert_allclose(found, by_networkx(A, np.full(TOKENS, 1 / TOKENS)), atol=1e-9)
