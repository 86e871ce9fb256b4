"""Check one explanation on the model: delete its strongest words, and ask two questions.

1. Do these words matter more than random words? (`metrics.significance`)
2. What is the smallest set of them without which the label changes? (`metrics.smallest_set`) Up to a fifth of the text
   is deleted. As a control, random sets of at least as many words are deleted as well.

The words that a summary may name are those of the smallest set if random sets hardly ever do as much; else those of the
smallest set whose deletion has more effect than any random set of the test, reduced in the same way. Everything is
measured on the log-odds of the explained class, or on the value of a single output, in double precision. Documents that
have been read are not read again, also not for another explanation of the same target. Where the processor is faster in
bfloat16 and the log-odds of this document stay the same, documents are read in it; what is reported about the
explanation's own words is then read once more in the type of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
from torch import Tensor

from sightline.errors import InputError
from sightline.metrics.plans import score_order
from sightline.metrics.score_inputs import BoolArray, FloatArray, IntArray
from sightline.metrics.significance import (
    Plan,
    Trial,
    count_orders,
    draw_alike,
    plan_test,
    run_rank_test,
    run_test,
    smallest_fall,
)
from sightline.metrics.smallest_set import reduce_set, shortest_prefix
from sightline.metrics.statistics import holm
from sightline.models import Network, Target
from sightline.models.half_body import bfloat16_copy
from sightline.passes.perturb import Perturbations, removable_units
from sightline.progress import Progress
from sightline.results.check import Check, Matters, Reading, SmallestSet, TestedWord
from sightline.results.explanation import Explanation, fingerprint_scores
from sightline.results.verdict import ALPHA
from sightline.text import Encoding

TEST_STAGE = "testing the strongest words"
SEARCH_STAGE = "looking for the smallest set"
LARGEST_SHARE = 5
"""At most one in so many words is deleted to change the label."""
FEW_WORDS = 5
"""As many are deleted in any case, but no more than half of the text."""
CONTROLS = 9
"""Random sets beside the smallest set, at least."""
RIVALS = 0.1
"""Share of them that may do as much if the smallest set is to be named."""
CONFIDENCE = 0.95
REACTION = 0.05
"""Smallest change of the log-odds that counts as a reaction, about one percentage point at 50 %."""
LARGEST_ROUNDING = 0.01
"""Change of the log-odds of the whole document below which it is read in bfloat16."""
ROUNDING = 1e-6
"""Largest change of a single output that may come from rounding, as a share of it."""


class Deletions:
    """One document and target: what the model says without some words."""

    def __init__(self, network: Network, encoding: Encoding, target: Target, *, threshold: float | None = None) -> None:
        """Take the document; `threshold` gives a single output two labels, above and below."""
        self.network = network
        self.encoding = encoding
        self.threshold = threshold
        self.units = removable_units(encoding, target, "word")
        if len(self.units) < 2:
            raise InputError("The document has fewer than two words to compare.")
        facts = network.task.facts
        self.is_single = len(facts.labels) < 2 and not facts.multi_label and target.span is None
        """Whether the model has one output, which is a value and no class."""
        self.exact = Perturbations(network, encoding, target, self._read)
        self.engine = self.exact
        """Reads most documents, in bfloat16 where `rounding` is known."""
        self.rounding: float | None = None
        """How far the log-odds of the document in bfloat16 are from those in the type of the weights."""
        if not self.is_single:  # any change of a value counts
            self._try_bfloat16()

    def _try_bfloat16(self) -> None:
        copied = bfloat16_copy(self.network, len(self.encoding))
        if copied is None:
            return
        rough = Perturbations(copied, self.encoding, self.exact.target, self._read)
        with suppress(RuntimeError):  # a head that computes in one number type
            (whole,), (rounded,) = (engine.evaluate([[]], "delete") for engine in (self.exact, rough))
            if abs(rounded.value - whole.value) < LARGEST_ROUNDING:
                self.engine, self.rounding = rough, abs(rounded.value - whole.value)

    def read_exactly(self, words: Sequence[int]) -> Reading:
        """Return what the model says without some words, in the type of the weights."""
        (reading,) = self.exact.evaluate([self.units.positions(words)], "delete")
        return reading

    def _read(self, logits: Tensor, moved: Target) -> Reading:
        task, logits = self.network.task, logits.cpu().double()
        value = float(task.value(logits, moved, "log_odds"))
        if self.is_single:
            side = "" if self.threshold is None else "at least" if value >= self.threshold else "below"
            return Reading(value, f"{side} {self.threshold:g}" if side else "", 1.0, 1.0)
        probability = task.probability(logits, moved)
        if moved.span is not None:
            return Reading(value, "", 1.0, probability)
        if task.facts.multi_label:
            applies = probability > 0.5
            label = moved.label if applies else f"not {moved.label}"
            return Reading(value, label, probability if applies else 1.0 - probability, probability)
        probabilities = task.probabilities(task.class_logits(logits, moved.position))
        index = int(probabilities.argmax())
        return Reading(value, task.facts.labels[index], float(probabilities[index]), probability)

    def changes_label(self, whole: Reading) -> bool:
        """Say whether deleting words for the explained class can change what the model says."""
        if self.threshold is not None:
            return whole.value >= self.threshold
        return whole.label == self.exact.target.label


def check_words(
    deletions: Deletions,
    explanations: Sequence[Explanation],
    fillers: BoolArray,
    *,
    readings: int | None = None,
    progress: Progress | None = None,
) -> list[Check]:
    """Return the checks of explanations of one target; they share the level of the test (Holm 1979).

    fillers (U,): which words are stop words or punctuation; readings: the most documents that each check may read, at
    least 8. The search for the smallest set ends when they are spent.
    """
    checkings = [_Checking(deletions, explanation, fillers, readings, progress) for explanation in explanations]
    corrected = holm([checking.p_value for checking in checkings])
    return [checking.finish(p_value) for checking, p_value in zip(checkings, corrected, strict=True)]


def does_it_matter(deletions: Deletions, explanation: Explanation, fillers: BoolArray) -> Matters:
    """Return the answer to the first question alone, as if no other explanation were tested."""
    checking = _Checking(deletions, explanation, fillers, None, None)
    return checking.judge(checking.p_value)


class _SpentError(Exception):
    """All documents that the check may read have been read."""


class _Checking:
    """The check of one explanation."""

    def __init__(
        self,
        deletions: Deletions,
        explanation: Explanation,
        fillers: BoolArray,
        readings: int | None,
        progress: Progress | None,
    ) -> None:
        """Read the whole document and make the test."""
        self.deletions = deletions
        self.units = deletions.units
        self.explanation = explanation
        self.fillers = fillers
        self.readings = readings
        self.progress = progress
        self.keys: set[bytes] = set()
        self.label_changed = self.limit_reached = False
        self.scores = self.units.fold(explanation.scores)
        self.order = score_order(explanation.scores, self.units)
        self.path: dict[int, Reading] = {}
        self.planned = 2
        self._request([[]])
        self.whole = deletions.read_exactly([])
        self.empty = self._read_empty()
        plans = plan_test(self.order, fillers, self.units.sizes, readings=readings)
        self.plan, self.trial = self._test(plans[0])
        for plan in plans[1:]:
            if len(plans) * self.trial.p_value <= ALPHA:
                break
            with suppress(_SpentError):
                self.plan, self.trial = min((self.plan, self.trial), self._test(plan), key=lambda made: made[1].p_value)
        self.p_value = min(1.0, len(plans) * self.trial.p_value)

    def _test(self, plan: Plan) -> tuple[Plan, Trial]:
        self.planned += len(plan.counts) * (1 + len(plan.random)) + len(plan.probes)
        without = self._read(plan.sets_of(self.order))
        self.path.update(zip(plan.counts, without, strict=True))
        own = [reading.value for reading in without]
        if plan.margin is not None:
            if self.deletions.network.is_rehearsal:  # its answers are random, and would end the test at once
                self._read_random(plan, plan.random)
            return plan, run_test(plan, self.whole.value, own, partial(self._read_random, plan))
        self.limit_reached |= not plan.probes
        probes = np.array([reading.value for reading in self._read([chosen.tolist() for chosen in plan.probes])])
        return plan, run_rank_test(plan, self.order, self.whole.value, own, probes)

    def _read(self, sets: Sequence[Sequence[int]]) -> list[Reading]:
        """Return what the model says without each of several sets of words, and notice whether it changes."""
        readings = self._request(sets)
        self.label_changed |= any(map(self._changes, readings))
        return readings

    def _request(self, sets: Sequence[Sequence[int]]) -> list[Reading]:
        engine = self.deletions.engine
        keys = [engine.request(self.units.positions(chosen), "delete") for chosen in sets]
        if self.readings is not None and len(self.keys.union(keys)) > self.readings:
            self.limit_reached = True
            raise _SpentError
        if self.progress is not None:
            self.progress(TEST_STAGE if self.planned else SEARCH_STAGE, len(self.keys), self.planned)
        engine.run()
        self.keys.update(keys)
        return engine.results(keys)

    def _read_empty(self) -> Reading | None:
        """Return what the model says without any word; None if nothing would be left to read."""
        everything = range(len(self.units))
        if len(self.units.positions(everything)) == len(self.deletions.encoding):
            return None
        self._request([everything])
        return self.deletions.read_exactly(everything)

    def _read_random(self, plan: Plan, orders: Sequence[IntArray]) -> FloatArray:
        """Return the values (R, K) without random sets."""
        sets = [chosen for order in orders for chosen in plan.sets_of(order)]
        values = [reading.value for reading in self._read(sets)]
        return np.array(values).reshape(len(orders), len(plan.counts))

    def finish(self, p_value: float) -> Check:
        """Ask the second question, given the corrected p-value of the first one."""
        if self.plan.margin is None:
            falls = self.whole.value - self._read_random(self.plan, self.plan.random).mean(axis=1)
            self.trial = replace(self.trial, random=falls)
        self.planned = 0
        matters = self.judge(p_value)
        searched, smallest = 0, None
        tested: list[int] = []
        with suppress(_SpentError):
            searched, found = self._search()
            if found is not None and not self._changes(self.deletions.read_exactly(found)):
                self._search_exactly()
                searched, found = self._search()
            if found is not None:
                smallest, is_special = self._control(found)
                if is_special and (matters == "yes" or not smallest.random_changed):
                    tested = found
            if not tested and matters == "yes":
                tested = self._stronger_than_random()
        values = self._read_random(self.plan, self.plan.random[: len(self.trial.random)])
        return Check(
            matters=matters,
            p_value=p_value,
            words=len(self.units),
            counts=self.plan.counts,
            whole=self.whole,
            without=tuple(self.deletions.read_exactly(self.order[:count].tolist()) for count in self.plan.counts),
            random=tuple(map(tuple, values.tolist())),
            random_sets=len(self.plan.random) if self.plan.margin is not None else count_orders(self.plan, self.order),
            searched=searched,
            label_changed=self.label_changed,
            limit_reached=self.limit_reached,
            path=tuple(sorted(self.path.items())),
            empty=self.empty,
            smallest_set=smallest,
            tested=self._words(tested),
            without_tested=self.deletions.read_exactly(tested) if tested else None,
            named=self._words(tested),
            opposing=self._strongest_opponent(tested) if tested else None,
            calls=len(self.keys),
            fingerprint=fingerprint_scores(self.explanation.scores),
        )

    def judge(self, p_value: float) -> Matters:
        """Return the answer to the first question, given its corrected p-value."""
        if self._is_still():
            return "too_small"
        if p_value > ALPHA:
            return "not_shown"
        return "yes" if self.trial.direction > 0 else "opposite"

    def _is_still(self) -> bool:
        """Say whether nothing moves the model: neither its strongest words, nor any random ones, nor all words."""
        limit = ROUNDING * abs(self.whole.value) if self.deletions.is_single else REACTION
        own = [*self.path.values(), *([] if self.empty is None else [self.empty])]
        if max(abs(reading.value - self.whole.value) for reading in own) > limit:
            return False
        try:
            return all(abs(reading.value - self.whole.value) <= limit for reading in self._read_elsewhere())
        except _SpentError:
            return False

    def _read_elsewhere(self) -> list[Reading]:
        """Return what the model says without any one word of a short text, or any set of the test of a long one.

        The test itself may have ended with its first sets.
        """
        if self.plan.margin is None:
            return self._read([[unit] for unit in range(len(self.units))])
        return self._read([chosen for order in self.plan.random for chosen in self.plan.sets_of(order)])

    def _search(self) -> tuple[int, list[int] | None]:
        """Return up to how many words were deleted, and the smallest set that changes the label."""
        words, positive = len(self.units), int((self.scores > 0).sum())
        high = min(max(words // LARGEST_SHARE, min(FEW_WORDS, words // 2)), positive)
        if not high or not self.deletions.changes_label(self.whole):
            return 0, None
        high = max([high, *(count for count in self.path if count <= positive)])
        changing = [count for count, reading in self.path.items() if count <= high and self._changes(reading)]
        if not changing and not self._changes(self._read_prefix(high)):
            if self.empty is not None and not self._changes(self.empty):
                self._read_elsewhere()  # before it is said that nothing decides
            return high, None
        shortest = self._shortest(self._changes, min(changing, default=high))
        return high, self._reduce(shortest, self._changes)

    def _search_exactly(self) -> None:
        """Read what follows in the type of the weights, because rounding has changed a label."""
        self.deletions.engine = self.deletions.exact
        for count in list(self.path):
            self._read_prefix(count)

    def _changes(self, reading: Reading) -> bool:
        return reading.label != self.whole.label

    def _read_prefix(self, count: int) -> Reading:
        self.path[count] = self._read([self.order[:count].tolist()])[0]
        return self.path[count]

    def _shortest(self, is_enough: Callable[[Reading], bool], high: int) -> list[int]:
        low = max((count for count, reading in self.path.items() if count < high and not is_enough(reading)), default=0)
        with suppress(_SpentError):
            shortest_prefix(lambda count: is_enough(self._read_prefix(count)), low=low, high=high)
        count = min(count for count, reading in self.path.items() if count <= high and is_enough(reading))
        return list(self.order[:count].tolist())

    def _reduce(self, words: list[int], is_enough: Callable[[Reading], bool]) -> list[int]:
        try:
            return reduce_set(words, self._read, is_enough)
        except _SpentError:
            return words

    def _stronger_than_random(self) -> list[int]:
        """Return the smallest set of strongest words whose deletion has more effect than any random set of the test.

        The random sets have at least as many words. Nothing is returned if the strongest words have no such effect.
        """
        if self.plan.margin is not None:
            needed = smallest_fall(np.maximum(self.trial.random, -self.trial.fall), self.plan.margin)
            if not self._falls_by(needed, self.path[self.plan.counts[0]]):
                return []
            is_enough = partial(self._falls_by, needed)
            return self._reduce_sensibly(self._shortest(is_enough, self.plan.counts[0]), is_enough)
        values = self._read_random(self.plan, self.plan.random[: len(self.trial.random)])
        for place, count in enumerate(self.plan.counts):
            needed = self.whole.value - float(values[:, place].min())
            is_enough = partial(self._falls_by, float(np.nextafter(needed, np.inf)))
            if is_enough(self.path[count]):
                return self._reduce_sensibly(self.order[:count].tolist(), is_enough)
        return []

    def _reduce_sensibly(self, words: list[int], is_enough: Callable[[Reading], bool]) -> list[int]:
        """Reduce words that were tested, but not to stop words alone, which were not tested beside their like."""
        reduced = self._reduce(words, is_enough)
        return words if self.fillers[reduced].all() else reduced

    def _falls_by(self, least: float, reading: Reading) -> bool:
        return self.whole.value - reading.value >= least

    def _control(self, words: list[int]) -> tuple[SmallestSet, bool]:
        """Return the smallest set beside other sets, and whether hardly any of these does as much.

        They are the random ones of the test, or new ones if those are smaller or the set has only stop words.
        """
        sizes = [count for count in self.plan.counts if count >= len(words)]
        if sizes and len(self.trial.random) >= CONTROLS and not self.fillers[words].all():
            drawn = [order[: sizes[0]] for order in self.plan.random[: len(self.trial.random)]]
        else:
            generator, chosen = np.random.default_rng(0), np.array(words)
            drawn = [draw_alike(chosen, self.fillers, self.units.sizes, generator) for _ in range(CONTROLS)]
        different = dict.fromkeys(tuple(sorted(each.tolist())) for each in drawn)
        different.pop(tuple(sorted(words)), None)
        sets = list(different)
        (reading,) = self._read([words])
        exact = self.deletions.read_exactly(words)
        try:
            random = self._read(sets)
        except _SpentError:
            sets, random = [], []
        changed = sum(map(self._changes, random))
        rivals = sum(self._changes(other) or other.value <= reading.value for other in random)
        smallest = SmallestSet(
            words=self._words(words),
            label=exact.label,
            probability=exact.label_probability,
            share=len(words) / len(self.units),
            random_changed=changed,
            random_sets=len(sets),
            random_words=len(sets[0]) if sets else 0,
            bound=upper_limit(changed, len(sets)),
        )
        return smallest, bool(sets) and rivals <= RIVALS * len(sets)

    def _strongest_opponent(self, tested: list[int]) -> TestedWord | None:
        """Return the strongest word against the class if it outweighs the tested ones and the model agrees."""
        opponent = int(self.order[-1])
        if not self.explanation.signed or -self.scores[opponent] <= self.scores[tested].sum():
            return None
        try:
            self._read([[opponent]])
        except _SpentError:
            return None
        rises = self.deletions.read_exactly([opponent]).value > self.whole.value
        return self._words([opponent])[0] if rises else None

    def _words(self, chosen: Sequence[int]) -> tuple[TestedWord, ...]:
        """Return words in document order."""
        units, encoding = self.units, self.deletions.encoding
        return tuple(
            TestedWord(
                text=units.texts[unit],
                index=int(encoding.word_ids[units.first_tokens[unit]]),
                start=int(units.starts[unit]),
                end=int(units.ends[unit]),
                segment=int(units.segments[unit]),
                tokens=tuple(units.tokens[unit].tolist()),
            )
            for unit in sorted(chosen)
        )


def upper_limit(hits: int, draws: int) -> float:
    """Return the upper end of the one-sided interval of a rate (Clopper & Pearson 1934); 1 without draws."""
    from scipy import stats

    return 1.0 if hits == draws else float(stats.beta.ppf(CONFIDENCE, hits + 1, draws - hits))
