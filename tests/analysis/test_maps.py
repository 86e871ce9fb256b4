"""Maps against the full matrices, written out cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.analysis import average_maps, pyramid, thumbnails
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


def test_a_pyramid_goes_from_coarse_to_the_matrices_themselves():
    source = banded_source()
    n = len(source.encoding)
    levels = pyramid(source, [400, 4, n, 9])
    assert [level.size for level in levels] == [4, 9, n]
    np.testing.assert_allclose(levels[-1].pixels, source.matrices, atol=1e-12)
    np.testing.assert_array_equal(levels[0].pixels, thumbnails(source, 4).pixels)


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


def test_layer_means_weigh_heads_by_importance():
    maps = thumbnails(banded_source(), 5)
    np.testing.assert_allclose(maps.layer_means(), maps.pixels.mean(axis=1))
    weights = np.array([[1.0, 3.0], [0.0, 0.0], [2.0, 0.0]])
    weighted = maps.layer_means(weights)
    np.testing.assert_allclose(weighted[0], (maps.pixels[0, 0] + 3 * maps.pixels[0, 1]) / 4)
    assert not weighted[1].any()  # none of its heads matters
    np.testing.assert_allclose(weighted[2], maps.pixels[2, 0])
    with pytest.raises(InputError, match="shape"):
        maps.layer_means(np.ones((2, 2)))


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
