"""What a page shows of the inside: exact partners, maps and totals, straight from the operators, within a budget."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.analysis.internals import BYTES_PER_PARTNER, inside, mean_of_layers
from sightline.attention import BandedAttention, DenseAttention
from sightline.errors import InputError, OptionError
from tests.attention.bands import make_band
from tests.tiny_models import tiny_model

LARGE = 10**9


def traced(family: str, tokens: int = 40):
    model = tiny_model(family)
    return model.trace(model.encode(ids=[5, *range(20, 18 + tokens), 6]))


@pytest.fixture(scope="module", params=["bert", "longformer", "modernbert"])
def trace(request):
    return traced(request.param)


def dense(trace) -> np.ndarray:
    """(L, H, n, n)."""
    return np.stack([attention.dense() for attention in trace.attentions]).astype(np.float64)


def strongest(matrix: np.ndarray, token: int, k: int) -> list[float]:
    return sorted(matrix[token], reverse=True)[:k]


def test_partners_are_the_strongest_of_the_mean_of_all_of_a_layer_and_of_a_head(trace):
    internals = inside(trace, k=3, budget=LARGE)
    weights = dense(trace)
    maps = {"all": weights.mean(axis=(0, 1)), "layer-1": weights[1].mean(axis=0), "head-2-3": weights[2, 3]}
    for name, matrix in maps.items():
        for direction, oriented in (("attended", matrix), ("attending", matrix.T)):
            lists = getattr(internals.relations[name], direction)
            for token in range(trace.token_count):
                kept = lists.indices[token][lists.indices[token] >= 0]
                np.testing.assert_allclose(
                    lists.values[token, : len(kept)], strongest(oriented, token, len(kept)), atol=1e-9
                )
                np.testing.assert_allclose(oriented[token, kept], lists.values[token, : len(kept)], atol=1e-9)
                assert len(set(kept.tolist())) == len(kept)


def test_maps_and_totals_are_those_of_the_matrices(trace):
    internals = inside(trace, thumbnail=5, image=8)
    weights = dense(trace)
    np.testing.assert_allclose(internals.received, weights.sum(axis=2), rtol=1e-5)
    assert internals.thumbnails.shape == (trace.layer_count, trace.head_count, 5, 5)
    assert internals.images.shape == (trace.layer_count, trace.head_count, 8, 8)
    blocks = weights[1, 2].reshape(5, 8, 5, 8).mean(axis=(1, 3))
    np.testing.assert_allclose(internals.thumbnails[1, 2], blocks, rtol=1e-5)


def test_relations_of_layers_and_heads_stay_within_the_budget():
    trace = traced("bert")
    one_map = BYTES_PER_PARTNER * trace.token_count * 4
    sizes = {}
    for maps in (1, 2, 5, 20):
        internals = inside(trace, k=4, budget=one_map * maps)
        spent = sum(BYTES_PER_PARTNER * lists.attended.values.size for lists in internals.relations.values())
        assert spent <= one_map * maps
        sizes[maps] = spent
    assert sizes[1] == one_map
    assert sizes[20] > sizes[5] > sizes[2]
    assert (
        len(inside(trace, k=4, budget=LARGE).relations) == 1 + trace.layer_count + trace.layer_count * trace.head_count
    )


def test_the_most_important_heads_come_first_when_not_all_fit():
    trace = traced("bert")
    importance = np.zeros((trace.layer_count, trace.head_count))
    importance[0, 2], importance[1, 1] = 3.0, 2.0
    one_map = BYTES_PER_PARTNER * trace.token_count * 2
    internals = inside(trace, k=2, budget=one_map * (1 + trace.layer_count + 2), importance=importance)
    assert {name for name in internals.relations if name.startswith("head")} == {"head-0-2", "head-1-1"}
    assert internals.importance is not None


def test_bands_of_different_widths_have_the_mean_of_their_matrices():
    generator = np.random.default_rng(0)
    bands = [make_band(generator, heads=1, n=17, window=window, global_tokens=(0, 9)).attention for window in (2, 5)]
    mean = mean_of_layers(bands)
    assert isinstance(mean, BandedAttention)
    np.testing.assert_allclose(mean.dense(), np.mean([band.dense() for band in bands], axis=0), atol=1e-12)


def test_dense_layers_have_the_mean_of_their_matrices():
    weights = np.random.default_rng(1).random((3, 1, 6, 6))
    mean = mean_of_layers([DenseAttention(layer_weights) for layer_weights in weights])
    np.testing.assert_allclose(mean.dense(), weights.mean(axis=0))


def test_wrong_options_are_refused():
    trace = traced("bert", 6)
    with pytest.raises(OptionError, match="k must be a whole number of at least 1, not 0"):
        inside(trace, k=0)
    with pytest.raises(InputError, match="shape"):
        inside(trace, importance=np.ones((1, 1)))


def test_progress_is_told_by_layers():
    told = []
    inside(traced("bert", 6), progress=lambda stage, done, total: told.append((stage, done, total)))
    assert told == [("looking inside", layer, 3) for layer in range(3)]


def test_long_documents_read_through_a_window_have_it_straightened():
    trace = traced("longformer", 90)
    windows = inside(trace).windows
    assert windows.reach.tolist() == [attention.window for attention in trace.attentions]
    w = trace.attentions[0].window
    layers, heads, rows, columns = windows.maps.shape
    assert (layers, heads, columns) == (3, 4, 2 * w + 1)
    weights = dense(trace)
    starts = [row * 90 // rows for row in range(rows)] + [90]
    for layer, head, row, column in np.ndindex(windows.maps.shape):
        distance = column - w
        # The first token is global: its row and its column are no part of the window.
        cells = [
            weights[layer, head, i, i + distance] if 0 < i + distance < 90 and i > 0 else 0.0
            for i in range(starts[row], starts[row + 1])
        ]
        assert windows.maps[layer, head, row, column] == pytest.approx(np.mean(cells), rel=1e-5, abs=1e-7)


def test_other_documents_have_no_windows():
    assert inside(traced("longformer", 20)).windows is None
    assert inside(traced("bert")).windows is None
