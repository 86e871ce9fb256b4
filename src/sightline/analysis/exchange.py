"""Exchange: does a score belong to a word, or to the position where the word is?

The strongest words of an explanation swap places with ordinary words of the same document, all in one run of the
method: position i then has another word, and the same word is at another position j. With s the score of the word in
the document and s′ the scores after the exchange,

    stays = median s′_i / s        the share of the score that the position keeps
    moves = median s′_j / s        the share that follows the word

A score belongs to the position if stays ≥ `SMALLEST_STAY` and moves ≤ stays / 2. If both are large, the method gives
nearly every word the same score, and nothing is flagged.

Words swap places with runs of whole words that have as many tokens, so that no other word moves, drawn (seeded) from
the half of the words with the smallest magnitude. Cost: one run of the method, one more for words that look like
artefacts, if there are any, and a third one unless two have decided: the median of three values lies between any two
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.analysis.received import is_sink
from sightline.results.check import EXCHANGE_ENTRIES, Artefact, Exchange
from sightline.results.explanation import Explanation, FloatArray, fingerprint_scores
from sightline.text import Encoding
from sightline.text.units import Units, units_of

TESTED = 10
"""Words tested per sign, in short documents a tenth of the words, at least one."""
CONFIRMING = 2
"""Runs that confirm a first suspicion, at most; the medians are over these and the first run."""
SMALLEST_STAY = 0.6
"""Smallest share of its score that an artefact leaves at its position."""
SUSPICIOUS_STAY = 0.4
"""The same after the first run, for the words to look at again."""

Positions: TypeAlias = NDArray[np.int64]
Rerun: TypeAlias = Callable[[Sequence[Encoding]], Sequence[FloatArray]]
"""Returns the scores (n,) of the explained method and target for changed documents."""


def exchange_words(
    explanation: Explanation, rerun: Rerun, *, words: Sequence[int] | None = None, seed: int = 0
) -> Exchange:
    """Test words of an explanation, given by their index among the words; by default the strongest of each sign."""
    units = units_of(explanation.encoding, "word").without(explanation.target.read_positions)
    generator = np.random.default_rng(seed)
    if words is None:
        candidates = strongest_units(units.fold(explanation.scores), explanation.signed)
    else:
        places = explanation.encoding.word_ids[units.first_tokens]
        candidates = np.flatnonzero(np.isin(places, words)).tolist()
    fingerprint = fingerprint_scores(explanation.scores)
    trials = _Trials(explanation, units, generator)
    tested = trials.run(candidates, rerun)
    suspects = [unit for unit in tested if trials.belongs_to_position(unit, SUSPICIOUS_STAY)]
    for _ in range(CONFIRMING):
        if all(trials.is_decided(unit) for unit in suspects):
            break
        trials.run(suspects, rerun)
    artefacts = [
        Artefact(tuple(units.tokens[unit].tolist()), "position", *trials.medians(unit))
        for unit in suspects
        if trials.belongs_to_position(unit)
    ]
    return Exchange(len(tested), trials.runs, tuple(artefacts), fingerprint)


def name_sinks(exchange: Exchange, received: FloatArray) -> Exchange:
    """Return the exchange with the reason "sink" for positions that draw attention; received (L, H, n)."""
    mean = received.mean(axis=(0, 1))
    artefacts = [
        replace(artefact, reason="sink") if any(is_sink(mean, position) for position in artefact.tokens) else artefact
        for artefact in exchange.artefacts
    ]
    return replace(exchange, artefacts=tuple(artefacts))


def exchange_checks(explanation: Explanation, exchange: Exchange) -> dict[str, float | int]:
    """Return the entries that an exchange adds to `Explanation.checks`."""
    magnitudes = np.abs(explanation.scores)
    flagged = [position for artefact in exchange.artefacts for position in artefact.tokens]
    share = float(magnitudes[flagged].sum() / total) if (total := float(magnitudes.sum())) else 0.0
    return dict(zip(EXCHANGE_ENTRIES, (exchange.tested, len(exchange.artefacts), share, exchange.runs), strict=True))


def strongest_units(scores: FloatArray, signed: bool) -> list[int]:
    """Return the units to test: the strongest of each sign, for unsigned scores the strongest."""
    count = min(TESTED, max(1, len(scores) // 10))
    chosen: list[int] = []
    for sign in (1.0, -1.0) if signed else (1.0,):
        order = np.argsort(-sign * scores, kind="stable")[:count]
        chosen += [int(unit) for unit in order if sign * scores[unit] > 0.0]
    return chosen


class _Trials:
    """Exchanges of some words of one explanation, and the scores that were measured."""

    def __init__(self, explanation: Explanation, units: Units, generator: np.random.Generator) -> None:
        self.encoding = explanation.encoding
        self.units = units
        self.generator = generator
        self.runs = 0
        self._scores = units.fold(explanation.scores)
        self._weaker = set(np.argsort(np.abs(self._scores), kind="stable")[: len(units) // 2].tolist())
        self._ratios: dict[int, list[tuple[float, float]]] = {}

    def run(self, chosen: Sequence[int], rerun: Rerun) -> list[int]:
        """Exchange the chosen units in one document; return those that have had a partner in any run."""
        plan = self._draw_partners(chosen)
        if plan:
            (scores,) = rerun([self._exchange(plan)])
            self.runs += 1
            for unit, partner in plan.items():
                before = float(self._scores[unit])
                stays, moves = (float(scores[places].sum()) / before for places in (self.units.tokens[unit], partner))
                self._ratios.setdefault(unit, []).append((stays, moves))
        return [unit for unit in chosen if unit in self._ratios]

    def is_decided(self, unit: int) -> bool:
        """Return whether a further run cannot change what `belongs_to_position` says about a unit with two results.

        The median of three results lies between the first two.
        """
        if len(self._ratios[unit]) < 2:
            return False
        (least_stays, least_moves), (most_stays, most_moves) = (
            extreme(self._ratios[unit], axis=0) for extreme in (np.min, np.max)
        )
        flagged = least_stays >= SMALLEST_STAY and most_moves <= least_stays / 2
        cleared = most_stays < SMALLEST_STAY or least_moves > most_stays / 2
        return bool(flagged or cleared)

    def medians(self, unit: int) -> tuple[float, float]:
        """Return (stays, moves) of a unit."""
        stays, moves = np.median(self._ratios[unit], axis=0).tolist()
        return stays, moves

    def belongs_to_position(self, unit: int, smallest_stay: float = SMALLEST_STAY) -> bool:
        """Return whether the score stays where it is when the word moves."""
        stays, moves = self.medians(unit)
        return stays >= smallest_stay and moves <= stays / 2

    def _draw_partners(self, chosen: Sequence[int]) -> dict[int, Positions]:
        """Return the tokens that every chosen unit swaps places with; units without a partner are left out."""
        partners: dict[int, Positions] = {}
        blocked = set(chosen)
        for unit in chosen:
            runs = [run for run in self._runs_like(unit) if blocked.isdisjoint(run)]
            if not runs:
                continue
            run = runs[int(self.generator.integers(len(runs)))]
            partners[unit] = np.concatenate([self.units.tokens[member] for member in run])
            blocked.update(run)
        return partners

    def _runs_like(self, unit: int) -> list[range]:
        """Return the runs of weaker units that have as many tokens as a unit, but are not the same word."""
        size, segment = len(self.units.tokens[unit]), self.units.segments[unit]
        own_ids = self.encoding.ids[self.units.tokens[unit]].tolist()
        runs = []
        for first in self._weaker:
            last, tokens = first, 0
            while tokens < size and last in self._weaker and self.units.segments[last] == segment:
                tokens += len(self.units.tokens[last])
                last += 1
            if tokens == size and self.encoding.ids[self.units.positions(range(first, last))].tolist() != own_ids:
                runs.append(range(first, last))
        return sorted(runs, key=lambda run: run.start)

    def _exchange(self, partners: dict[int, Positions]) -> Encoding:
        ids = self.encoding.ids.copy()
        for unit, places in partners.items():
            tokens = self.units.tokens[unit]
            ids[tokens], ids[places] = ids[places], ids[tokens]
        return self.encoding.replace_ids(ids)
