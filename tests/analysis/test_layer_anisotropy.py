"""Anisotropy over the layers against all pairs of vectors, written out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from sightline.analysis import anisotropy_by_layer, mean_anisotropy
from sightline.errors import SizeError
from tests.tiny_models import tiny_ids, tiny_model

TOKENS = 9


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def mean_cosine(vectors):
    return np.mean([cosine(a, b) for a, b in combinations(vectors, 2)])


def transformed_vectors(trace, layer):
    """T_ij as a list of rows, each the vectors of the tokens it may attend to, from the definition."""
    parts, attention = trace.block(layer), trace.attentions[layer]
    weights = attention.dense()
    heads, n, _ = weights.shape
    projection = parts.weights.output_weight.detach().double().numpy()
    width = projection.shape[1] // heads
    global_tokens = set() if parts.global_values is None else set(attention.global_tokens.tolist())
    branch_norm = parts.weights.branch_norm
    rows = []
    for i in range(n):
        values = (parts.global_values if i in global_tokens else parts.values).double().numpy()
        mixed = [
            sum(weights[h, i, j] * projection[:, h * width : (h + 1) * width] @ values[j, h] for h in range(heads))
            for j in range(n)
        ]
        if branch_norm is not None:
            root = np.sqrt(np.mean(np.sum(mixed, axis=0) ** 2) + branch_norm.eps)
            mixed = [branch_norm.gain.detach().double().numpy() * vector / root for vector in mixed]
        row = []
        for j, vector in enumerate(mixed):
            if i == j:
                vector = vector + parts.inputs.double().numpy()[i]
            if parts.weights.norm is not None:
                gain = parts.weights.norm.weight.detach().double().numpy()
                vector = gain * (vector - vector.mean())
            if attention.allowed(i)[j] or i == j:
                row.append(vector)
        rows.append(row)
    return rows


@pytest.mark.parametrize("family", ["bert", "longformer", "modernbert", "roberta", "gemma2"])
def test_curves_are_the_mean_cosines_of_all_pairs(family):
    model = tiny_model(family)
    trace = model.trace(model.encode(ids=tiny_ids(family, TOKENS)))
    curves = anisotropy_by_layer(trace)
    for layer in range(3):
        assert curves.hidden[layer + 1] == pytest.approx(mean_cosine(trace.hidden_states[layer + 1]), abs=1e-9)
        output = trace.block(layer).output.double().numpy()
        assert curves.outputs[layer] == pytest.approx(mean_cosine(output), abs=1e-9)
        rows = transformed_vectors(trace, layer)
        assert curves.transformed[layer] == pytest.approx(mean_cosine([v for row in rows for v in row]), abs=1e-9)
        in_row = np.mean([mean_cosine(row) for row in rows if len(row) > 1])
        assert curves.transformed_in_row[layer] == pytest.approx(in_row, abs=1e-9)
    assert curves.hidden[0] == pytest.approx(mean_cosine(trace.hidden_states[0]), abs=1e-9)
    assert list(curves.to_frame()) == ["layer", "hidden", "y", "T", "T_in_row"]


def test_transformed_vectors_can_be_left_out():
    model = tiny_model()
    curves = anisotropy_by_layer(model.trace(model.encode(ids=tiny_ids("bert", TOKENS))), transformed=False)
    assert curves.transformed is None
    assert list(curves.to_frame()) == ["layer", "hidden", "y"]


def test_long_documents_are_refused_only_where_transformed_vectors_are_requested(monkeypatch):
    monkeypatch.setattr("sightline.analysis.layer_anisotropy.DENSE_LIMIT", 100)
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids("bert", TOKENS)))
    with pytest.raises(SizeError, match="above the limit"):
        anisotropy_by_layer(trace)
    assert np.isfinite(anisotropy_by_layer(trace, transformed=False).outputs).all()


def test_vectors_of_length_zero_are_left_out():
    model = tiny_model()
    with torch.no_grad():
        for layer in model.network.module.bert.encoder.layer:
            layer.attention.self.value.weight.zero_()
            layer.attention.self.value.bias.zero_()
    curves = anisotropy_by_layer(model.trace(model.encode(ids=tiny_ids("bert", TOKENS))))
    assert np.isfinite(curves.transformed).all()  # only the residual is left, one vector per row
    np.testing.assert_array_equal(curves.transformed_in_row, 0.0)


def test_the_mean_over_documents_counts_transformed_vectors_where_they_were_computed():
    model = tiny_model("bert")
    whole, part, other = (
        anisotropy_by_layer(model.trace(model.encode(ids=tiny_ids("bert", tokens))), transformed=transformed)
        for tokens, transformed in ((TOKENS, True), (TOKENS + 1, False), (TOKENS + 2, True))
    )
    mean = mean_anisotropy([whole, part, other])
    np.testing.assert_allclose(mean.hidden, (whole.hidden + part.hidden + other.hidden) / 3)
    np.testing.assert_allclose(mean.outputs, (whole.outputs + part.outputs + other.outputs) / 3)
    np.testing.assert_allclose(mean.transformed, (whole.transformed + other.transformed) / 2)
    np.testing.assert_allclose(mean.transformed_in_row, (whole.transformed_in_row + other.transformed_in_row) / 2)
    assert mean_anisotropy([part]).transformed is None
