"""Tiles and relations of single tokens against the full matrices, written out cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.analysis.maps import pooled_tile, strongest_relations
from sightline.errors import OptionError
from tests.analysis.sources import banded_source


@pytest.mark.parametrize(
    ("rows", "columns", "size"), [(None, None, 7), ((3, 11), (0, 5), 4), ((5, 6), (5, 6), 256), ((2, 12), (4, 5), 3)]
)
def test_a_pooled_tile_holds_the_means_of_its_cells(rows, columns, size):
    source = banded_source()
    n = len(source.encoding)
    (top, bottom), (left, right) = rows or (0, n), columns or (0, n)
    cells = source.matrices[1, 0, top:bottom, left:right]
    height, width = (min(size, length) for length in cells.shape)
    expected = np.zeros((height, width))
    for p, q in np.ndindex(height, width):
        chosen = [
            cells[i, j]
            for i in range(bottom - top)
            for j in range(right - left)
            if i * height // (bottom - top) == p and j * width // (right - left) == q
        ]
        expected[p, q] = np.mean(chosen)
    np.testing.assert_allclose(pooled_tile(source, 1, 0, rows, columns, size), expected, atol=1e-12)


def test_a_pooled_tile_as_large_as_its_span_has_every_weight():
    source = banded_source()
    tile_values = pooled_tile(source, -1, 1, (3, 9), (1, 8), 100)
    np.testing.assert_allclose(tile_values, source.matrices[2, 1, 3:9, 1:8], atol=1e-12)
    with pytest.raises(OptionError, match="rows=5:5 asked for"):
        pooled_tile(source, 0, 0, (5, 5), (0, 3), 8)
    with pytest.raises(OptionError, match="Layer 3 asked for, the model has 3"):
        pooled_tile(source, 3, 0, None, None, 8)
    with pytest.raises(OptionError, match="Head 2 asked for"):
        pooled_tile(source, 0, 2, None, None, 8)
    with pytest.raises(OptionError, match="columns=0:10000 asked for"):
        pooled_tile(source, 0, 0, None, (0, 10_000), 8)


@pytest.mark.parametrize(("tokens", "layers", "heads"), [([4], None, None), ([4], [1], [1]), ([7, 5, 6], [0, 2], [0])])
def test_strongest_relations_are_means_of_rows_and_sums_of_columns(tokens, layers, heads):
    source = banded_source()
    chosen = source.matrices[layers or slice(None)][:, heads or slice(None)]
    mean = chosen.reshape(-1, *chosen.shape[-2:]).mean(axis=0)
    strongest = strongest_relations(source, tokens, layers, heads, 5)
    for direction, weights in (("attended", mean[tokens].mean(axis=0)), ("attending", mean[:, tokens].sum(axis=1))):
        order = [position for position in np.argsort(-weights, kind="stable")[:5] if weights[position] > 0]
        assert [position for position, _ in strongest[direction]] == order
        np.testing.assert_allclose([weight for _, weight in strongest[direction]], weights[order], rtol=1e-9)
