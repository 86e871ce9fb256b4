"""Effective attention against the null space that scipy finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space

from sightline.analysis import cancelled_share, effective_attention, effective_head
from sightline.errors import OptionError, SizeError
from tests.tiny_models import tiny_ids, tiny_model


def traced(family, tokens):
    model = tiny_model(family)
    return model.trace(model.encode(ids=tiny_ids(family, tokens)))


def read_vectors(trace, layer, head, values):
    """T = v W_O of one head, (n, d)."""
    weight = trace.block(layer).weights.output_weight.detach().double().numpy()
    width = values.shape[2]
    return values[:, head].double().numpy() @ weight[:, head * width : (head + 1) * width].T


@pytest.mark.parametrize("family", ["bert", "roberta", "longformer", "modernbert"])
def test_the_null_space_of_the_values_is_removed_and_the_output_stays(family):
    trace = traced(family, 20)
    for layer in range(trace.layer_count):
        parts, attention = trace.block(layer), trace.attentions[layer]
        effective = effective_attention(trace, layer)
        for head, weights in enumerate(attention.dense()):
            read = read_vectors(trace, layer, head, parts.values)
            empty = null_space(read.T)
            assert empty.shape[1] == 20 - parts.values.shape[2]  # n − e
            expected = weights - weights @ empty @ empty.T
            if parts.global_values is not None:
                rows = attention.global_tokens.numpy()
                other = read_vectors(trace, layer, head, parts.global_values)
                empty = null_space(other.T)
                expected[rows] = weights[rows] - weights[rows] @ empty @ empty.T
                np.testing.assert_allclose(effective[head, rows] @ other, weights[rows] @ other, atol=1e-10)
                local = np.setdiff1d(np.arange(20), rows)
                np.testing.assert_allclose(effective[head, local] @ read, weights[local] @ read, atol=1e-10)
            else:
                np.testing.assert_allclose(effective[head] @ read, weights @ read, atol=1e-10)
            np.testing.assert_allclose(effective[head], expected, atol=1e-9)
            assert np.abs(effective[head] - weights).max() > 1e-3


def test_in_a_document_no_longer_than_a_head_is_wide_nothing_is_removed():
    trace = traced("bert", 8)
    assert trace.block(0).values.shape[2] == 8
    np.testing.assert_allclose(effective_attention(trace, 1), trace.attentions[1].dense(), atol=1e-9)
    np.testing.assert_allclose(cancelled_share(trace), 0.0, atol=1e-9)


def test_the_cancelled_share_is_that_of_the_squared_weights():
    trace = traced("bert", 20)
    shares = cancelled_share(trace)
    assert shares.shape == (3, 4)
    weights, effective = trace.attentions[2].dense(), effective_attention(trace, 2)
    for head in range(4):
        kept = (effective[head] ** 2).sum() / (weights[head] ** 2).sum()  # the two parts are orthogonal
        assert shares[2, head] == pytest.approx(1 - kept, abs=1e-9)


def test_long_documents_are_refused(monkeypatch):
    monkeypatch.setattr("sightline.methods.attention_weights.DENSE_LIMIT", 100)
    with pytest.raises(SizeError, match="above the limit"):
        effective_attention(traced("bert", 20), 0)


def test_one_head_is_given_beside_the_shares_of_all():
    trace = traced("longformer", 20)
    one = effective_head(trace, 1, 2)
    np.testing.assert_allclose(one.attention, trace.attentions[1].dense()[2])
    np.testing.assert_array_equal(one.effective, effective_attention(trace, 1)[2])
    np.testing.assert_array_equal(one.cancelled, cancelled_share(trace))
    frame = one.to_frame()
    assert frame["cancelled"].is_monotonic_decreasing
    assert one.cancelled[frame["layer"][0], frame["head"][0]] == one.cancelled.max()
    with pytest.raises(OptionError, match="Head 9 asked for"):
        effective_head(trace, 0, 9)
