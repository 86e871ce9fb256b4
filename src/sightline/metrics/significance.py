"""Do an explanation's strongest words matter more than random words? A significance test of stated level `ALPHA`.

With ℓ the log-odds of the explained class, Δ = ℓ(x) − ℓ(x without the k strongest words), and Δ_r the same for R sets
of words drawn at random:

    long texts    k = n/20, R = 14. t = (Δ − mean Δ_r) / (sd Δ_r · √(1 + 1/R)); the words matter if t exceeds its .9975
                  quantile and Δ exceeds every Δ_r by a tenth of (Δ − mean Δ_r). If not,
                  the same with k = 3, R = 29 and a half instead of a tenth. Random falls below −Δ count as −Δ: how far
                  other words push the other way says nothing about falls.
    short texts   S = Σ_i w_i e_i in the order of the explanation, w = 10, 9, … 1, 0, 0, …: the sum of the
                  falls without the 1, 2, … 10 strongest words, if effects e add up. p = (1 + #{S_r ≥ S}) / (1 + R) with
                  S_r those of R = 999 random orders.

Falls are skewed, and the one word that decides may be in none of the sets: without the second condition, and at the
.975 quantile, the test of long texts is wrong more often than its level says. Its p-value is the tail of t times five,
and times two for the two counts, so that the .9975 quantile stands for `ALPHA`. Three words are tested because one that
decides alone is in every second of fourteen random sets of n/20 words.

Random sets are alike: as many words, the same number of stop words and, in long texts, about as many tokens. Sets of
uniform words would be beaten by any content words. No set is drawn twice, and none is that of the explanation.

The effects of the words of a short text are estimated once, from the deletion of each word alone and of random sets of
a quarter and of half of the words: what is measured, Xe ≈ Δ, is solved for e by least squares with a penalty of
`PENALTY` on the distance from the effect of the word alone. Deletions of one word miss what several words say alike,
and random sets miss small effects. Nothing of this depends on the explanation. Random orders exchange words of the same
kind only: stop words, words of one token, words of several. Given the effects, all such orders are alike unless the
explanation knows the model, so that p is exact whatever the effects are; and it cannot reach `ALPHA` where one word
decides among few of its kind and the order of the others means nothing.

The test of a long text stops at the first sets that are not beaten once it cannot succeed any more. That needs no
correction: it only ever ends in "not shown", and h sets that were not beaten among the first l give the p-value h / l
(Besag & Clifford 1991). If Δ < 0, the same test asks whether the words push the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import perm, prod, sqrt
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
WEIGHTS = 10
"""Words of a short text, the strongest ones, whose effects count, the first one most."""
ORDERS = 999
"""Random orders among which that of a short text is ranked."""
PROBES = 48
"""Random sets of a quarter of the words of a short text that are deleted, and as many of half of them."""
PENALTY = 10.0
"""Weight of the effect of a word alone, in deletions of random sets."""
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
    kinds: IntArray | None = None
    """(U,) the kinds of the words of a short text, within which random orders exchange them."""
    probes: tuple[IntArray, ...] = ()
    """Sets of words from which the effects of the words of a short text are estimated, the single words first."""

    def sets_of(self, order: IntArray) -> list[list[int]]:
        """Return the K sets of words at the head of an order."""
        return [order[:count].tolist() for count in self.counts]


def plan_test(order: IntArray, fillers: BoolArray, sizes: IntArray, *, readings: int | None = None) -> list[Plan]:
    """Plan the tests of an explanation that ranks U words in `order`; the next one is made if one shows nothing.

    fillers (U,): stop words and punctuation; sizes (U,): tokens of each word; readings: the most documents that may be
    read.
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
    sets, probes = SETS, _draw_probes(words)
    if readings is not None:  # the whole document and the empty one are read as well
        counts = counts[-max(1, (readings - 2 - words) // (SETS + 1)) :]
        sets = max(1, min(SETS, (readings - 2) // len(counts) - 1))
        left = readings - 2 - len(counts) * (sets + 1)
        probes = probes[:left] if left >= words else ()
    draw = partial(_draw_order, order[: counts[-1]], fillers, generator)
    kinds = np.where(fillers, 0, np.where(sizes > 1, 2, 1))
    return [Plan(counts, _draw_different(order, counts, draw, sets), None, kinds, probes)]


def _draw_probes(words: int) -> tuple[IntArray, ...]:
    """Return every word alone and the random sets, the same for every explanation of a document."""
    generator = np.random.default_rng(0)
    drawn = [generator.permutation(words)[: max(1, words // share)] for share in (4, 2) for _ in range(PROBES)]
    return (*np.arange(words)[:, None], *drawn)


def rank_order(plan: Plan, order: IntArray, falls: FloatArray, direction: int) -> float:
    """Return the p-value of an order of the words of a short text, given the falls (P,) without the sets of `probes`.

    direction: 1 asks whether its strongest words lower the value more than others, −1 whether they raise it.
    """
    assert plan.kinds is not None
    words = len(order)
    alone, drawn = falls[:words], falls[words:]
    rows = np.zeros((len(drawn), words))
    for row, chosen in zip(rows, plan.probes[words:], strict=True):
        row[chosen] = 1.0
    effects = np.linalg.solve(rows.T @ rows + PENALTY * np.eye(words), rows.T @ drawn + PENALTY * alone)
    weights = direction * np.maximum(WEIGHTS - np.arange(words), 0)
    orders = np.tile(order, (ORDERS, 1))
    generator = np.random.default_rng(crc32(order.astype("<i8").tobytes()))
    for kind in range(3):
        places = np.flatnonzero(plan.kinds[order] == kind)
        orders[:, places] = generator.permuted(orders[:, places], axis=1)
    own, others = float(effects[order] @ weights), effects[orders] @ weights
    tolerance = 1e-9 * float(np.abs(effects).max(initial=0.0))  # the same words, added up in another order
    return float(1 + (others >= own - tolerance).sum()) / (1 + ORDERS)


def count_orders(plan: Plan, order: IntArray) -> int:
    """Return how many different random orders of the words that count there are, at most `ORDERS`."""
    assert plan.kinds is not None
    kinds, strongest = np.bincount(plan.kinds, minlength=3), np.bincount(plan.kinds[order[:WEIGHTS]], minlength=3)
    return min(ORDERS, prod(map(perm, kinds.tolist(), strongest.tolist())) - 1)


@dataclass(frozen=True)
class _PValue:
    value: float
    sets: int
    """Number of random sets on which it rests."""
    is_final: bool


def run_test(plan: Plan, whole: float, own: Sequence[float], read: Callable[[list[IntArray]], FloatArray]) -> Trial:
    """Run the test of a long text; `whole` is ℓ(x), `own` (1,) ℓ without the strongest words.

    `read` gives (R′, 1) for random sets.
    """
    assert plan.margin is not None
    fall = whole - float(np.mean(own))
    direction = 1 if fall >= 0 else -1
    falls = np.empty(0)
    p_value = _PValue(1.0, 0, is_final=True)
    for batch in _batches(plan.random):
        falls = np.append(falls, whole - read(list(batch)).mean(axis=1))
        p_value = _p_value(direction * fall, direction * falls, plan.margin)
        if p_value.is_final:
            break
    return Trial(fall, falls[: p_value.sets], p_value.value, direction)


def run_rank_test(plan: Plan, order: IntArray, whole: float, own: Sequence[float], probes: FloatArray) -> Trial:
    """Run the test of a short text, given ℓ without the strongest words (K,) and without the probes (P,).

    Without probes, or words to compare, nothing is shown. The falls without random sets are not needed for it.
    """
    fall = whole - float(np.mean(own))
    direction = 1 if fall >= 0 else -1
    can_show = len(probes) > 0 and len(plan.random) > 0
    return Trial(fall, np.empty(0), rank_order(plan, order, whole - probes, direction) if can_show else 1.0, direction)


def smallest_fall(random: FloatArray, margin: float) -> float:
    """Return the smallest fall that is significant beside these random falls (R,), none of which is to be as large."""
    largest, mean = float(random.max()), float(random.mean())
    from scipy import stats

    sets = len(random)
    spread = float(random.std(ddof=1)) * sqrt(1 + 1 / sets)
    by_spread = mean + float(stats.t.ppf(QUANTILE, sets - 1)) * spread
    return max(by_spread, (largest - margin * mean) / (1 - margin))


def _p_value(fall: float, random: FloatArray, margin: float) -> _PValue:
    """Return the p-value of a fall after the first random falls were measured."""
    unbeaten = np.flatnonzero(random >= fall)
    if len(unbeaten):
        sets = int(unbeaten[0]) + 1
        return _PValue(1.0 / sets, sets, is_final=True)
    done = len(random)
    random = np.maximum(random, -fall)
    excess = fall - float(random.mean())
    if done < 2 or fall - float(random.max()) < margin * excess:
        return _PValue(1 / (1 + done), done, is_final=False)
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


def _draw_order(chosen: IntArray, fillers: BoolArray, generator: np.random.Generator) -> IntArray:
    """Draw words (k,) with a stop word wherever `chosen` (k,) has one."""
    drawn = np.empty_like(chosen)
    for kind in (False, True):
        places = fillers[chosen] == kind
        drawn[places] = generator.choice(np.flatnonzero(fillers == kind), int(places.sum()), replace=False)
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
