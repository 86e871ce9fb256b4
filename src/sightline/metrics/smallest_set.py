"""The smallest set of words whose deletion is enough, for example to change the label.

The words are taken in the order of an explanation. Bisection finds the least k such that the first k are enough; it
assumes that this changes once along the order, so k − 2 is read as well. The set is then reduced: what
leaving out each word does is measured, and as many words as possible are left out, the one with the least effect first.
A set of more than `GROUPS` words is reduced by groups of neighbours first. Cost: log₂ n readings for the bisection, and
about k + log₂ k for the reduction of k ≤ `GROUPS` words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Protocol, TypeVar

GROUPS = 10
"""Groups of words whose effect is measured at a time."""
ROUNDS = 3


class HasValue(Protocol):
    """What is known about the document without some words."""

    @property
    def value(self) -> float:
        """The number that the deletion lowers."""


R = TypeVar("R", bound=HasValue)
Words = Sequence[int]
Read = Callable[[Sequence[Words]], list[R]]
"""Reads the document without each of several sets of words."""


def shortest_prefix(is_enough: Callable[[int], bool], *, low: int, high: int) -> int:
    """Return the least count found ≤ `high` that is enough; `high` is known to be, `low` not (0: nothing is known)."""
    while True:
        unknown = low
        while high - unknown > 1:
            middle = (unknown + high) // 2
            if is_enough(middle):
                high = middle
            else:
                unknown = middle
        if high - 2 <= low or not is_enough(high - 2):
            return high
        high -= 2


def reduce_set(words: Words, read: Read[R], is_enough: Callable[[R], bool]) -> list[int]:
    """Return a subset of words, in their order, that is enough; the words themselves are known to be."""
    kept = list(words)
    for _ in range(ROUNDS):
        size = -(-len(kept) // GROUPS)
        groups = [kept[start : start + size] for start in range(0, len(kept), size)]
        if len(groups) < 2:
            break
        readings = read([_leave_out(kept, [group]) for group in groups])
        # Where the value stays low without it, a group has little effect.
        by_effect = sorted(zip(readings, groups, strict=True), key=lambda pair: pair[0].value)
        spare = [group for reading, group in by_effect if is_enough(reading)][: len(groups) - 1]
        if not spare:
            break
        low, high = 1, len(spare)
        while low < high:
            middle = (low + high + 1) // 2
            if is_enough(read([_leave_out(kept, spare[:middle])])[0]):
                low = middle
            else:
                high = middle - 1
        kept = _leave_out(kept, spare[:low])
        if size == 1:
            break
    return kept


def _leave_out(words: Words, groups: Sequence[Words]) -> list[int]:
    left_out = set(chain.from_iterable(groups))
    return [word for word in words if word not in left_out]
