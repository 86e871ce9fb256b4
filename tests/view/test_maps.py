"""Maps of heads: a pixel is the mean of its cells at every size, and the most important heads get the finest maps."""

from __future__ import annotations

import base64
import json
import re
import tracemalloc
import zlib

import numpy as np
import pytest

from sightline.analysis.internals import EVERY_CELL, inside
from sightline.view.page import graphics
from sightline.view.page.graphics import EDGE, encode_maps, fine_maps, heads_by_importance, pool_maps
from sightline.view.page.html import LARGEST
from tests.sample_explanations import encoding, explanation
from tests.sample_pages import build, render_page
from tests.view.sample_inside import known_attention, long_inside, sample_inside

pytestmark = pytest.mark.slow

TEXT = " ".join(f"old mill {i}" for i in range(400))


def mean_map(weights: np.ndarray, size: int) -> np.ndarray:
    """The map (size, size) of weights (n, n), cell by cell."""
    n = len(weights)
    cells: dict[tuple[int, int], list[float]] = {}
    for i in range(n):
        for j in range(n):
            cells.setdefault((i * size // n, j * size // n), []).append(float(weights[i, j]))
    return np.array([[np.mean(cells[p, q]) for q in range(size)] for p in range(size)])


def decoded(data: dict, name: str) -> np.ndarray:
    """An array of a report's JSON as it was before it was packed."""
    info = data["arrays"][name]
    return np.frombuffer(zlib.decompress(base64.b64decode(info["data"])), info["dtype"]).reshape(info["shape"])


def report_data(html: str) -> dict:
    return json.loads(re.search(r'id="sightline-data">(.*?)</script>', html, re.DOTALL)[1])


@pytest.mark.parametrize(("n", "size", "edge"), [(37, 24, 12), (37, 24, 6), (37, 37, 10), (40, 40, 20), (29, 28, 7)])
def test_a_smaller_map_made_from_a_larger_one_is_the_mean_of_its_cells(n, size, edge):
    weights = np.random.default_rng(n).exponential(size=(2, n, n))
    larger = np.stack([mean_map(head, size) for head in weights])
    smaller = pool_maps(larger, n, edge)
    assert smaller.shape == (2, edge, edge)
    np.testing.assert_allclose(smaller, [mean_map(head, edge) for head in weights], rtol=1e-6)


def test_a_map_that_cannot_be_made_smaller_exactly_is_left_as_it_is():
    values = np.random.default_rng(0).random((1, 24, 24), dtype=np.float32)
    np.testing.assert_array_equal(pool_maps(values, 37, 9), values)
    np.testing.assert_array_equal(pool_maps(values, 24, 32), values)


def test_flat_and_empty_maps_can_be_coded():
    coded, peak = encode_maps(np.stack([np.zeros((2, 2)), np.ones((2, 2))]))
    assert coded.tolist() == [[[0, 0], [0, 0]], [[255, 255], [255, 255]]]
    assert peak.tolist() == [0, 1]


def test_heads_come_by_importance_or_from_the_last_layer():
    encoded = encoding("old mill")
    importance = [[1, 5, 2], [4, 3, 6]]
    known = known_attention(encoded)
    assert heads_by_importance(inside(known, importance=importance)) == [(1, 2), (0, 1), (1, 0), (1, 1), (0, 2), (0, 0)]
    assert heads_by_importance(inside(known)) == [(1, 0), (1, 1), (1, 2), (0, 0), (0, 1), (0, 2)]


def test_a_report_holds_every_cell_of_the_most_important_heads_of_a_short_document(monkeypatch):
    monkeypatch.setattr(graphics, "FINE_BYTES", 300_000)
    encoded = encoding(TEXT, max_tokens=400)
    attention = known_attention(encoded)
    seen = inside(attention, k=3, image=512, importance=[[1, 5, 2], [4, 3, 6]])
    data = report_data(render_page([explanation(encoded)], inside=seen))
    fine = [name for name in data["arrays"] if name.startswith("fine.") and not name.endswith("peak")]
    assert fine == ["fine.1.2", "fine.0.1"]
    weights = attention.weights[1, 2]
    drawn = decoded(data, "fine.1.2.peak") * (decoded(data, "fine.1.2") / 255.0) ** 2
    np.testing.assert_allclose(drawn, weights, atol=float(weights.max()) / 200)
    # The others are there in the size of all heads, these two are not there twice.
    images = [name for name in data["arrays"] if name.startswith("image.")]
    assert images == ["image.1.0", "image.1.1", "image.0.2", "image.0.0"]
    assert data["inside"]["image"] == EDGE
    coarse = data["arrays"]["images.peak"]["shape"]
    assert coarse == [2, 3]
    small = decoded(data, "images.peak")[1, 0] * (decoded(data, "image.1.0") / 255.0) ** 2
    expected = mean_map(attention.weights[1, 0], EDGE)
    np.testing.assert_allclose(small, expected, atol=float(expected.max()) / 200)


@pytest.mark.parametrize(("tokens", "edge"), [(100, 100), (300, 300), (EVERY_CELL, EVERY_CELL), (EVERY_CELL + 1, 256)])
def test_short_documents_have_maps_of_single_pairs_of_tokens(tokens, edge):
    encoded = encoding(TEXT * 2, max_tokens=tokens)
    assert len(encoded) == tokens
    attention = known_attention(encoded, layers=1, heads=2)
    internals = inside(attention)
    assert internals.images.shape == (1, 2, edge, edge)
    if edge == tokens:
        np.testing.assert_allclose(internals.images[0], attention.weights[0], rtol=1e-6)
    assert inside(attention, image=64).images.shape == (1, 2, 64, 64)


def test_the_maps_are_held_once_in_memory():
    encoded = encoding(TEXT * 2, max_tokens=EVERY_CELL)
    attention = known_attention(encoded, layers=16, heads=2)
    attention.weights = attention.weights.astype(np.float32)
    tracemalloc.start()
    internals = inside(attention, budget=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Beside the result there is what one layer takes at a time.
    assert internals.images.nbytes < peak < 1.5 * internals.images.nbytes


def test_fine_maps_keep_to_their_budget(monkeypatch):
    seen = sample_inside(encoding(TEXT, max_tokens=300), image=300)
    sizes = [len(zlib.compress(coded.tobytes(), 9)) for _, _, coded, _ in fine_maps(seen)]
    assert len(sizes) == 6
    monkeypatch.setattr(graphics, "FINE_BYTES", sum(sizes[:2]))
    assert len(list(fine_maps(seen))) == 2
    monkeypatch.setattr(graphics, "FINE_BYTES", sum(sizes[:2]) - 1)
    assert len(list(fine_maps(seen))) == 1


def test_maps_of_the_usual_size_are_handed_over_once():
    encoded = encoding(TEXT, max_tokens=300)
    shown = build([explanation(encoded)], inside=sample_inside(encoded, image=EDGE))
    assert not any(name.startswith("fine.") for name in shown.arrays)
    assert shown.arrays["image.1.2"].shape == (EDGE, EDGE)


def test_a_report_of_4096_tokens_with_finer_maps_keeps_to_its_size():
    encoded = encoding(" ".join([TEXT] * 5), max_tokens=4096)
    generator = np.random.default_rng(0)
    methods = [explanation(encoded, generator.normal(size=len(encoded)), method=f"method {i}") for i in range(5)]
    html = render_page(methods, inside=long_inside(len(encoded), layers=3, heads=6, image=1024))
    assert len(html.encode()) <= LARGEST
    names = report_data(html)["arrays"]
    fine = {name.removeprefix("fine.") for name in names if re.fullmatch(r"fine\.\d+\.\d+", name)}
    assert fine
    assert "relations.layer-0.attended.partners" in names
    assert not any(f"image.{head}" in names for head in fine)
