"""Maps against the full matrices, written out cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.analysis import attention_graphs, average_maps, thumbnails, window_maps
from sightline.errors import InputError
from tests.analysis.sources import banded_source
from tests.tiny_models import tiny_ids, tiny_model


def pooled(matrix, size, pool=np.mean):
    """Pixel (r, c) from the cells with ⌊i·s/n⌋ = r, ⌊j·s/n⌋ = c, one by one."""
    n = len(matrix)
    cells = [[[] for _ in range(size)] for _ in range(size)]
    for i in range(n):
        for j in range(n):
            cells[i * size // n][j * size // n].append(matrix[i, j])
    return np.array([[pool(cell) for cell in row] for row in cells])


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_thumbnails_pool_blocks_of_every_head(pool):
    source = banded_source()
    maps = thumbnails(source, 7, pool)
    assert maps.pixels.shape == (3, 2, 7, 7)
    assert (maps.size, maps.tokens, maps.pool) == (7, len(source.encoding), pool)
    for layer, head in np.ndindex(3, 2):
        expected = pooled(source.matrices[layer, head], 7, np.mean if pool == "mean" else np.max)
        np.testing.assert_allclose(maps.pixels[layer, head], expected, atol=1e-12)


def test_band_and_full_matrices_give_the_same_pictures():
    source = banded_source()
    np.testing.assert_allclose(thumbnails(source, 8).pixels, thumbnails(source.dense(), 8).pixels, atol=1e-12)


def test_a_size_of_at_least_the_document_gives_the_matrices_themselves():
    source = banded_source()
    maps = thumbnails(source, 400)
    assert maps.size == len(source.encoding)
    np.testing.assert_allclose(maps.pixels, source.matrices, atol=1e-12)


@pytest.mark.parametrize("family", ["bert", "longformer"])
@pytest.mark.parametrize("size", [4, 100])
def test_an_average_takes_each_position_over_the_documents_that_reach_it(family, size):
    model = tiny_model(family)
    encodings = [model.encode(ids=tiny_ids(family, n, seed=n)) for n in (17, 5, 11)]
    longest = 17
    total, count = np.zeros((3, 4, longest, longest)), np.zeros((longest, longest))
    for encoding in encodings:
        trace, n = model.trace(encoding), len(encoding)
        total[:, :, :n, :n] += np.stack([layer.dense() for layer in trace.attentions])
        count[:n, :n] += 1
    maps = average_maps(model, encodings, size)
    assert (maps.documents, maps.tokens) == (3, longest)
    s = min(size, longest)
    for layer, head in np.ndindex(3, 4):
        expected = pooled(total[layer, head], s, np.sum) / pooled(count, s, np.sum)
        np.testing.assert_allclose(maps.pixels[layer, head], expected, atol=1e-9)


def test_a_frame_names_the_tokens_a_pixel_begins_at():
    source = banded_source()
    maps = thumbnails(source, 4)
    frame = maps.to_frame(layer=1, head=0)
    assert len(frame) == 16
    n = len(source.encoding)
    firsts = [next(i for i in range(n) if i * 4 // n == pixel) for pixel in range(4)]
    assert frame.first_row.tolist() == [first for first in firsts for _ in range(4)]
    np.testing.assert_array_equal(frame.value, maps.pixels[1, 0].ravel())


def test_an_average_of_nothing_is_refused():
    with pytest.raises(InputError, match="at least one document"):
        average_maps(tiny_model(), [])


def test_windows_are_the_mean_weights_by_position_and_distance():
    model = tiny_model("longformer")
    trace = model.trace(model.encode(ids=tiny_ids("longformer", 90)))
    size, window = 6, trace.attentions[0].window
    maps = window_maps(trace, size)
    assert maps.shape == (3, 4, size, size)
    for layer, head in np.ndindex(3, 4):
        weights = np.asarray(trace.attentions[layer])[head]
        cells = [[[] for _ in range(size)] for _ in range(size)]
        distances = range(-window, window + 1)
        for i in range(90):
            row = max(r for r in range(size) if r * 90 // size <= i)
            for place, distance in enumerate(distances):
                column = max(c for c in range(size) if c * len(distances) // size <= place)
                inside = 0 <= i + distance < 90 and i != 0 and i + distance != 0  # the first token is global
                cells[row][column].append(weights[i, i + distance] if inside else 0.0)
        np.testing.assert_allclose(maps[layer, head], [[np.mean(c) for c in row] for row in cells], rtol=1e-10)


def test_models_without_a_window_and_short_documents_have_no_windows():
    for family, n in (("bert", 90), ("longformer", 20)):
        model = tiny_model(family)
        assert window_maps(model.trace(model.encode(ids=tiny_ids(family, n)))) is None


def test_graphs_of_attention_rollout_and_flow_have_rows_that_sum_to_1():
    model = tiny_model()
    graphs = attention_graphs(model.trace(model.encode(ids=tiny_ids("bert", 7))))
    assert list(graphs) == ["raw attention", "rollout", "flow"]
    for matrices in graphs.values():
        assert matrices.shape == (3, 7, 7)
        np.testing.assert_allclose(matrices.sum(axis=-1), 1.0, atol=1e-9)
    np.testing.assert_allclose(graphs["raw attention"][0], graphs["rollout"][0], atol=1e-9)
