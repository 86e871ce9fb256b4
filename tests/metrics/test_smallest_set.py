"""The smallest set against brute force on small texts, and how few readings it takes on long ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from sightline.metrics.smallest_set import reduce_set, shortest_prefix


@dataclass(frozen=True)
class Sum:
    value: float


def reader(worth, calls):
    """A model whose value is lowered by what every deleted word is worth."""

    def read(sets):
        calls.extend(sets)
        return [Sum(-sum(worth[word] for word in chosen)) for chosen in sets]

    return read


@given(st.lists(st.integers(0, 1), min_size=1, max_size=200))
def test_the_shortest_prefix_is_that_of_trying_all_where_the_answer_changes_once(flips):
    first = min((place for place, flip in enumerate(flips, start=1) if flip), default=len(flips))
    calls = []

    def is_enough(count):
        calls.append(count)
        return count >= first

    assert shortest_prefix(is_enough, low=0, high=len(flips)) == first
    assert len(calls) <= len(flips).bit_length() + 1


def test_the_neighbour_of_the_shortest_prefix_is_tried():
    assert shortest_prefix(lambda count: count in (3, 4, 6, 7, 8), low=0, high=8) <= 4


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.data())
def test_what_remains_of_a_small_set_is_the_smallest_that_is_enough(worth, data):
    needed = data.draw(st.integers(0, sum(worth)))
    words = list(range(len(worth)))
    kept = reduce_set(words, reader(worth, []), lambda reading: -reading.value >= needed)
    assert sum(worth[word] for word in kept) >= needed
    sizes = [
        size
        for size in range(len(words) + 1)
        if any(sum(worth[word] for word in chosen) >= needed for chosen in combinations(words, size))
    ]
    assert len(kept) == max(1, sizes[0])


def test_a_large_set_is_reduced_by_groups_in_few_readings():
    worth = [0.0] * 80
    worth[3] = worth[70] = 5.0
    calls = []
    kept = reduce_set(list(range(80)), reader(worth, calls), lambda reading: reading.value <= -10.0)
    assert {3, 70} <= set(kept)
    assert len(kept) <= 4
    assert len(calls) <= 45
