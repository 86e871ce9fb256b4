"""The tree of a document: every token once on every level, no unit with too many children."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.api.load import load
from sightline.text.hierarchy import NODE_LEVELS, ROOT, HierarchyScores, build_hierarchy
from sightline.text.units import LEVELS, units_of
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "Hello old world. The millers river!\n\nThe mill. Old river old mill the world hello the old millers."


@pytest.fixture(scope="module")
def encoding():
    return load(tiny_module(), tokenizer=wordpiece()).encode(TEXT)


@pytest.mark.parametrize("branching", [None, 2, 3, 8])
@pytest.mark.parametrize("finest", LEVELS)
def test_children_divide_the_tokens_of_their_parent(encoding, finest, branching):
    tree = build_hierarchy(encoding, finest, branching=branching)
    np.testing.assert_array_equal(tree.tokens[ROOT], np.flatnonzero(~encoding.special))
    for node, children in enumerate(tree.children):
        assert all(tree.parents[child] == node and child > node for child in children)
        if children:
            np.testing.assert_array_equal(np.concatenate([tree.tokens[child] for child in children]), tree.tokens[node])
        else:
            assert tree.levels[node] == finest
        assert branching is None or len(children) <= branching


@pytest.mark.parametrize("branching", [None, 2, 8])
def test_the_units_of_every_level_are_nodes(encoding, branching):
    tree = build_hierarchy(encoding, "token", branching=branching)
    for level in LEVELS:
        nodes = [tuple(tree.tokens[node]) for node in range(len(tree)) if tree.levels[node] == level]
        assert sorted(nodes) == [tuple(positions) for positions in units_of(encoding, level).tokens]
    assert ("group" in tree.levels) == (branching is not None)


def test_a_value_is_shared_by_the_tokens_of_the_finest_measured_nodes(encoding):
    tree = build_hierarchy(encoding, "sentence")
    first, second = tree.children[ROOT]
    sentences = tree.children[first]
    values = {ROOT: 9.0, first: 4.0, second: 5.0, sentences[0]: 1.0, sentences[1]: 3.0}
    scores = tree.spread(values, len(encoding))
    assert tree.finest(values) == [second, *sentences]
    assert scores.sum() == pytest.approx(9)
    assert scores[tree.tokens[sentences[1]]].sum() == pytest.approx(3)
    assert len(set(scores[tree.tokens[second]])) == 1
    assert tree.measured_share(values) == pytest.approx(len(tree.tokens[first]) / len(tree.tokens[ROOT]))


def test_measured_units_survive_as_extras(encoding):
    tree = build_hierarchy(encoding, "sentence")
    first, second = tree.children[ROOT]
    scores = HierarchyScores.of(tree, {ROOT: 9.0, first: 4.0, second: 5.0}, {first: 0.5})
    assert [NODE_LEVELS[code] for code in scores.unit_level] == ["document", "paragraph", "paragraph"]
    assert scores.unit_parent.tolist() == [-1, 0, 0]
    assert scores.unit_error.tolist() == [0, 0.5, 0]
    loaded = HierarchyScores.from_extras({**scores.extras(), "other": np.zeros(1)})
    assert loaded is not None
    assert loaded.unit_first.tolist() == [1, 1, int(tree.tokens[second][0])]
    assert loaded.unit_last[0] == tree.tokens[ROOT][-1]
    assert HierarchyScores.from_extras({"other": np.zeros(1)}) is None
