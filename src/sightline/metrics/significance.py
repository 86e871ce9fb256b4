"""Do an explanation's strongest words matter more than random words? A significance test of stated level `ALPHA`.

With ℓ the log-odds of the explained class, Δ = ℓ(x) − ℓ(x without the k strongest words), and Δ_r the same for R sets
of words drawn at random:

    long texts    k = n/20, R = 14. t = (Δ − mean Δ_r) / (sd Δ_r · √(1 + 1/R)); the words matter if t exceeds its .9975
                  quantile and Δ exceeds every Δ_r by a tenth of (Δ − mean Δ_r). If not,
                  the same with k = 3, R = 29 and a half instead of a tenth. Random falls below −Δ count as −Δ: how far
                  other words push the other way says nothing about falls.
    short texts   S = mean of Δ over k = 1, 2, 3, 5; R = 39 orders; p = (1 + #{S_r ≥ S}) / (1 + R), which is exact.

Falls are skewed, and the one word that decides may be in none of the sets: without the second condition, and at the
.975 quantile, the test of long texts is wrong more often than its level says. Its p-value is the tail of t times five,
and times two for the two counts, so that the .9975 quantile stands for `ALPHA`. Three words are tested because one that
decides alone is in every second of fourteen random sets of n/20 words.

Random sets are alike: as many words, the same number of stop words and, in long texts, about as many tokens. Sets of
uniform words would be beaten by any content words. In short texts, the orders begin with different words, as far as
there are as many: one that begins like the explanation cannot differ from it where one word decides. Seen without the
explanation's rank, all orders including its own are drawn alike, so that the test remains exact; and exact it cannot
show anything about one word that decides alone unless it is one of 40 of its kind. No set is drawn twice, and none is
that of the explanation: where there are fewer than R, all are used, and the test remains exact.

The test stops at the first sets that are not beaten once it cannot succeed any more. That needs no correction: it only
ever ends in "not shown", and h sets that were not beaten among the first l give the p-value h / l (Besag & Clifford
1991). If Δ < 0, the same test asks whether the words push the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from math import sqrt
from zlib import crc32

import numpy as np

from sightline.metrics.score_inputs import BoolArray, FloatArray, IntArray
from sightline.results.verdict import ALPHA

LONG = 100
"""Number of words from which a text is long."""
SHARE = 20
"""In a long text one in so many words is deleted."""
FEW = 3
"""Words that are deleted from a long text if that shows nothing."""
SETS = 14
QUANTILE = 0.995
MARGIN = 0.1
"""Share of its excess over the mean by which the fall must exceed every random one in a long text."""
FEW_SETS, FEW_MARGIN = 29, 0.5
"""The same for `FEW` words, whose falls are more skewed."""
COUNTS = (1, 2, 3, 5)
ORDERS = 39
"""Random orders for a short text: the fewest for which p can reach `ALPHA`."""
LARGEST_TEST, READINGS_PER_EXPLANATION = 170, 40
"""Documents that a test of a short text reads at most, and how many more for each explanation that shares the level:
with more explanations, more orders are needed, and fewer counts are read."""
TOLERANCE = 0.1
"""Share by which the number of tokens of a random set may differ."""
BATCH = 2
"""Random sets that are read first; every further batch is twice as large."""
_ATTEMPTS = 50
"""Draws per random set that is wanted, for sets that are alike and not drawn yet."""
_EXCHANGES = 20
"""Exchanges per word that are tried for a similar number of tokens."""


@dataclass(frozen=True)
class Trial:
    """What the test of one explanation measured; K counts, R random sets that were read."""

    fall: float
    """Mean fall over the counts."""
    random: FloatArray
    """(R,) the same of the random sets."""
    p_value: float
    direction: int
    """1 if the fall was tested, −1 if the rise was."""


@dataclass(frozen=True)
class Plan:
    """Which words are deleted in the test of one explanation."""

    counts: tuple[int, ...]
    """(K,) numbers of strongest words, ascending."""
    random: tuple[IntArray, ...]
    """R random sets in the order in which their words are deleted, (largest count,) each."""
    margin: float | None = None
    """Share of the excess by which every random fall is to be exceeded; None for the rank test of a short text."""

    def sets_of(self, order: IntArray) -> list[list[int]]:
        """Return the K sets of words at the head of an order."""
        return [order[:count].tolist() for count in self.counts]


def plan_test(
    order: IntArray, fillers: BoolArray, sizes: IntArray, *, comparisons: int = 1, readings: int | None = None
) -> list[Plan]:
    """Plan the tests of an explanation that ranks U words in `order`; the next one is made if one shows nothing.

    fillers (U,): stop words and punctuation; sizes (U,): tokens of each word; comparisons: explanations of the document
    that are tested, which share the level; readings: the most documents that may be read.
    """
    words = len(order)
    # Other sets for every order: shared by all, lucky ones would make the test of a document wrong more often.
    generator = np.random.default_rng(crc32(order.astype("<i8").tobytes()))
    if words >= LONG:
        plans = []
        for count, sets, margin in ((words // SHARE, SETS, MARGIN), (FEW, FEW_SETS, FEW_MARGIN)):
            draw = partial(draw_alike, order[:count], fillers, sizes, generator)
            wanted = sets if readings is None else max(1, min(sets, readings - 3))
            plans.append(Plan((count,), _draw_different(order[:count], (count,), draw, wanted), margin))
        return plans
    largest = max(words // 4, min(COUNTS[-2], words - 2), 1)
    counts = tuple(count for count in COUNTS if count <= largest)
    orders = (ORDERS + 1) * comparisons - 1
    most = LARGEST_TEST + READINGS_PER_EXPLANATION * comparisons if readings is None else readings
    affordable = max(1, (most - 2) // (orders + 1))
    counts = counts[-affordable:]
    if readings is not None:
        # More orders than needed: the test then allows some of them to do as well.
        orders = max(1, min((readings - 2) // len(counts) - 1, 2 * orders + 1))
    first_words = chain(_draw_first_words(int(order[0]), fillers, orders, generator), repeat(None))

    def draw_next() -> IntArray:
        return _draw_order(order[: counts[-1]], fillers, generator, next(first_words))

    return [Plan(counts, _draw_different(order, counts, draw_next, orders))]


@dataclass(frozen=True)
class _PValue:
    value: float
    sets: int
    """Number of random sets on which it rests."""
    is_final: bool


def run_test(plan: Plan, whole: float, own: Sequence[float], read: Callable[[list[IntArray]], FloatArray]) -> Trial:
    """Run the test; `whole` is ℓ(x), `own` (K,) ℓ without the strongest words, `read` gives (R′, K) for random sets."""
    fall = whole - float(np.mean(own))
    direction = 1 if fall >= 0 else -1
    falls = np.empty(0)
    p_value = _PValue(1.0, 0, is_final=True)
    for batch in _batches(plan.random):
        falls = np.append(falls, whole - read(list(batch)).mean(axis=1))
        p_value = _p_value(direction * fall, direction * falls, len(plan.random), plan.margin)
        if p_value.is_final:
            break
    return Trial(fall, falls[: p_value.sets], p_value.value, direction)


def smallest_fall(random: FloatArray, margin: float | None) -> float:
    """Return the smallest fall that is significant beside these random falls (R,), none of which is to be as large."""
    largest, mean = float(random.max()), float(random.mean())
    if margin is None:
        return float(np.nextafter(largest, np.inf))
    from scipy import stats

    sets = len(random)
    spread = float(random.std(ddof=1)) * sqrt(1 + 1 / sets)
    by_spread = mean + float(stats.t.ppf(QUANTILE, sets - 1)) * spread
    return max(by_spread, (largest - margin * mean) / (1 - margin))


def _p_value(fall: float, random: FloatArray, planned: int, margin: float | None) -> _PValue:
    """Return the p-value of a fall after the first of `planned` random falls were measured."""
    allowed = max(1, int(ALPHA * (planned + 1) + 1e-9)) if margin is None else 1
    unbeaten = np.flatnonzero(random >= fall)
    if len(unbeaten) >= allowed:
        sets = int(unbeaten[allowed - 1]) + 1
        return _PValue(allowed / sets, sets, is_final=True)
    done = len(random)
    rank = (1 + len(unbeaten)) / (1 + done)
    random = np.maximum(random, -fall)
    excess = fall - float(random.mean())
    if margin is None or done < 2 or fall - float(random.max()) < margin * excess:
        return _PValue(rank, done, is_final=False)
    from scipy import stats

    spread = float(random.std(ddof=1)) * sqrt(1 + 1 / done)
    tail = float(stats.t.sf(excess / spread, done - 1)) if spread else 0.0
    return _PValue(min(1.0, tail * ALPHA / (1 - QUANTILE)), done, is_final=False)


def _batches(sets: Sequence[IntArray]) -> Iterator[Sequence[IntArray]]:
    start, size = 0, BATCH
    while start < len(sets):
        yield sets[start : start + size]
        start, size = start + size, 2 * size


def _draw_different(
    order: IntArray, counts: tuple[int, ...], draw: Callable[[], IntArray], wanted: int
) -> tuple[IntArray, ...]:
    """Return up to `wanted` draws that differ from one another and from the explanation at some count."""

    def signature(drawn: IntArray) -> tuple[frozenset[int], ...]:
        return tuple(frozenset(drawn[:count].tolist()) for count in counts)

    different: dict[tuple[frozenset[int], ...], IntArray] = {signature(order): order}
    for _ in range(_ATTEMPTS * wanted):
        if len(different) > wanted:
            break
        drawn = draw()
        different.setdefault(signature(drawn), drawn)
    return tuple(different.values())[1:]


def _draw_first_words(own: int, fillers: BoolArray, orders: int, generator: np.random.Generator) -> IntArray:
    """Draw the first words of random orders, so that with `own` all words of its kind are about equally frequent.

    The explanation's order has a random place among them, so that its first word is as likely to be one of those that
    are drawn once more as that of any other order.
    """
    deck = np.resize(generator.permutation(np.flatnonzero(fillers == fillers[own])), orders + 1)
    place = int(generator.integers(orders + 1))
    is_own, is_there = deck == own, deck == deck[place]
    deck[is_own], deck[is_there] = deck[place], own
    return generator.permutation(np.delete(deck, place))


def _draw_order(
    chosen: IntArray, fillers: BoolArray, generator: np.random.Generator, first: int | None = None
) -> IntArray:
    """Draw words (k,) with a stop word wherever `chosen` (k,) has one; the first word may be given."""
    drawn = np.empty_like(chosen)
    for kind in (False, True):
        places = fillers[chosen] == kind
        drawn[places] = generator.choice(np.flatnonzero(fillers == kind), int(places.sum()), replace=False)
    if first is not None:
        drawn[drawn == first] = drawn[0]
        drawn[0] = first
    return drawn


def draw_alike(chosen: IntArray, fillers: BoolArray, sizes: IntArray, generator: np.random.Generator) -> IntArray:
    """Draw a set (k,) with as many stop words and, within a tenth if possible, as many tokens as `chosen` (k,).

    From a random set, words are exchanged for random ones that bring the number of tokens closer.
    """
    drawn, tokens = _draw_order(chosen, fillers, generator), int(sizes[chosen].sum())
    for _ in range(_EXCHANGES * len(chosen)):
        missing = tokens - int(sizes[drawn].sum())
        if abs(missing) <= TOLERANCE * tokens:
            break
        place, word = int(generator.integers(len(drawn))), int(generator.integers(len(sizes)))
        gained = int(sizes[word] - sizes[drawn[place]])
        if fillers[word] == fillers[drawn[place]] and word not in drawn and abs(missing - gained) < abs(missing):
            drawn[place] = word
    return drawn
