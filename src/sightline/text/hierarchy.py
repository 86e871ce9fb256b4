"""The hierarchy of a document: paragraphs, their sentences, their words, their tokens, as one tree.

Methods that can afford only a few model calls measure coarse units first and look inside the ones that matter.
`build_hierarchy` makes the tree they walk through. A unit with many children (a sentence of forty words, a text of two
hundred sentences without a blank line) would be expensive to look into, so children beyond `branching` are put into
*groups* of neighbours.

`HierarchyScores` is what such a method hands on: the units that were measured, with their values. It is stored in
`Explanation.extras` under the names in `HierarchyScores.FIELDS`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from sightline.text.encoding import Encoding
from sightline.text.units import LEVELS, Floats, Integers, Level, units_of

NodeLevel = Literal["token", "word", "sentence", "paragraph", "group", "document"]
NODE_LEVELS: tuple[NodeLevel, ...] = (*LEVELS, "group", "document")
"""The codes of `HierarchyScores.unit_level` index this tuple."""
ROOT = 0
BRANCHING = 8
"""Children a unit may have, by default, before they are put into groups."""


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A tree of M nodes; node 0 is the document, and every other node follows its parent."""

    levels: tuple[NodeLevel, ...]
    tokens: tuple[Integers, ...]
    """The token positions of every node, ascending; those of the children make up those of the parent."""
    children: tuple[tuple[int, ...], ...]
    """In document order; empty for leaves."""
    parents: tuple[int, ...]
    """-1 for the document."""

    def __len__(self) -> int:
        return len(self.levels)

    def finest(self, measured: Collection[int]) -> list[int]:
        """Return the measured nodes none of whose children was measured: together they hold every token once."""
        return [node for node in measured if not any(child in measured for child in self.children[node])]

    def spread(self, values: Mapping[int, float], count: int) -> Floats:
        """Share the value of every finest measured node equally among its tokens: (count,), 0 for other tokens."""
        scores = np.zeros(count)
        for node in self.finest(values):
            scores[self.tokens[node]] = values[node] / len(self.tokens[node])
        return scores

    def measured_share(self, measured: Collection[int]) -> float:
        """Return the share of the tokens that lie in a measured leaf."""
        inside = sum(len(self.tokens[node]) for node in measured if not self.children[node])
        return inside / len(self.tokens[ROOT])


def build_hierarchy(encoding: Encoding, finest: Level = "word", *, branching: int | None = None) -> Hierarchy:
    """Return the tree of a document from its paragraphs down to units of the level `finest`.

    Special tokens are in no node. No node has more than `branching` children if that is given: k children are put into
    about √k groups of neighbours, again and again until they fit.
    """
    levels: list[NodeLevel] = ["document"]
    tokens: list[Integers] = [np.empty(0, dtype=np.int64)]
    parents = [-1]
    holder = np.zeros(len(encoding), dtype=np.int64)  # the finest node so far that holds each token
    for level in reversed(LEVELS[LEVELS.index(finest) :]):
        for positions in units_of(encoding, level).tokens:
            parents.append(int(holder[positions[0]]))
            holder[positions] = len(levels)
            levels.append(level)
            tokens.append(positions)
    tokens[ROOT] = np.flatnonzero(holder > ROOT)
    tree = _plant(levels, tokens, parents)
    return tree if branching is None else _group(tree, branching)


def _plant(levels: list[NodeLevel], tokens: list[Integers], parents: list[int]) -> Hierarchy:
    """Return the tree of nodes that are listed parents first."""
    children: list[list[int]] = [[] for _ in levels]
    for node, parent in enumerate(parents[1:], 1):
        children[parent].append(node)
    return Hierarchy(tuple(levels), tuple(tokens), tuple(map(tuple, children)), tuple(parents))


def _group(tree: Hierarchy, branching: int) -> Hierarchy:
    """Return the tree with groups where a node has more than `branching` children, renumbered parents first."""
    levels: list[NodeLevel] = ["document"]
    tokens = [tree.tokens[ROOT]]
    parents = [-1]

    def add(parent: int, level: NodeLevel, positions: Integers) -> int:
        levels.append(level)
        tokens.append(positions)
        parents.append(parent)
        return len(levels) - 1

    waiting: list[tuple[int, Sequence[int]]] = [(ROOT, tree.children[ROOT])]
    while waiting:
        parent, members = waiting.pop(0)
        if len(members) <= branching:
            for member in members:
                node = add(parent, tree.levels[member], tree.tokens[member])
                waiting.append((node, tree.children[member]))
            continue
        count = min(branching, math.ceil(math.sqrt(len(members))))
        for run in np.array_split(np.array(members), count):
            positions = np.concatenate([tree.tokens[member] for member in run])
            waiting.append((add(parent, "group", np.sort(positions)), run.tolist()))
    return _plant(levels, tokens, parents)


@dataclass(frozen=True, eq=False)
class HierarchyScores:
    """The M units of a hierarchy that were measured, parents before children, the whole document first."""

    FIELDS: ClassVar = ("unit_level", "unit_parent", "unit_first", "unit_last", "unit_score", "unit_error")

    unit_level: Integers
    """(M,) codes that index `NODE_LEVELS`; a group is a run of neighbouring units without a name of its own."""
    unit_parent: Integers
    """(M,) the row of the unit around it; -1 for the document. A unit was refined if it is a parent."""
    unit_first: Integers
    """(M,) the first token."""
    unit_last: Integers
    """(M,) the last token."""
    unit_score: Floats
    """(M,) the value of the whole unit."""
    unit_error: Floats
    """(M,) its standard error; 0 where the value is exact."""

    @classmethod
    def of(cls, tree: Hierarchy, scores: Mapping[int, float], errors: Mapping[int, float]) -> HierarchyScores:
        """Return the measured nodes of a tree: those with a score, which must include every ancestor."""
        nodes = sorted(scores)
        row = {node: number for number, node in enumerate(nodes)} | {-1: -1}
        return cls(
            np.array([NODE_LEVELS.index(tree.levels[node]) for node in nodes], dtype=np.int64),
            np.array([row[tree.parents[node]] for node in nodes], dtype=np.int64),
            np.array([tree.tokens[node][0] for node in nodes], dtype=np.int64),
            np.array([tree.tokens[node][-1] for node in nodes], dtype=np.int64),
            np.array([scores[node] for node in nodes], dtype=np.float64),
            np.array([errors.get(node, 0.0) for node in nodes], dtype=np.float64),
        )

    @classmethod
    def from_extras(cls, extras: Mapping[str, npt.NDArray[Any]]) -> HierarchyScores | None:
        """Return what an explanation stores in its extras; None if its method measured no hierarchy."""
        if any(name not in extras for name in cls.FIELDS):
            return None
        return cls(*(extras[name] for name in cls.FIELDS))

    def extras(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by name, for `Explanation.extras`."""
        return {name: getattr(self, name) for name in self.FIELDS}
