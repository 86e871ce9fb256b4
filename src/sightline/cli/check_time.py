"""Say what is known before the check of an explanation, and how long the check will take if that is long.

A check reads changed forms of the document, so its time follows from that of the first one. Besides comparing with
random orders, it deletes sentences (`metrics.passages`) and runs every method again on exchanged words
(`analysis.exchange`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sightline.cli.progress import LateProgress, describe_seconds

if TYPE_CHECKING:
    from sightline.results.report import Report

LONG = 30.0
"""Seconds above which a check is announced with its time."""
FEWEST_CALLS = 12
"""A comparison with the nine random orders that a verdict needs, at one number of words."""
SUGGESTED_CALLS = 32
"""The same at three numbers of words."""
_ORDERS = 10
"""Orders that a comparison of one explanation removes words in: its own and nine random ones."""
_PASSAGES = 8
"""Calls for deleted sentences, per explanation: five without a control, or some and nine draws as a control."""
_EXCHANGES = 2
"""Runs of every method on exchanged words: one to three."""


class CheckTime:
    """Progress callback that passes everything on and watches the check of a report."""

    def __init__(
        self,
        progress: LateProgress,
        *,
        replacements: int,
        artefacts: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take what shows the progress, in how many ways words are replaced, and whether words are exchanged."""
        self._progress = progress
        self._clock = clock
        self._replacements = replacements
        self._exchanges = _EXCHANGES if artefacts else 0
        self._classes = self._methods = 0
        self._explain_seconds = 0.0
        self._start: float | None = None
        self._is_announced = False

    def explained(self, report: Report) -> None:
        """Announce the first answer of a report that is going to be checked."""
        self._classes = len({explanation.target.index for explanation in report})
        self._methods = len(report.explanations)
        self._explain_seconds = report.seconds["explain"]
        self._progress.announce(first_answer(report))

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Pass progress on; after the first calls of the check, announce its time if that is long."""
        from sightline.api.checking import CHECK_STAGE

        self._progress(stage, done, total)
        if stage != CHECK_STAGE or self._is_announced:
            return
        if self._start is None:
            self._start = self._clock()
        elif done:
            self._is_announced = True
            self._announce((self._clock() - self._start) / done, total)

    def _announce(self, per_call: float, calls: int) -> None:
        seconds = self._estimate(per_call, calls)
        if seconds < LONG:
            return
        line = f"The check takes about {describe_seconds(seconds)}"
        if calls > SUGGESTED_CALLS:
            fewer = describe_seconds(self._estimate(per_call, SUGGESTED_CALLS))
            line += f", with --check-calls {SUGGESTED_CALLS} about {fewer}"
        self._progress.note(f"{line}; --no-check leaves it out.")

    def _estimate(self, per_call: float, calls: int) -> float:
        """Return the seconds of a check with `calls` documents for the first explanation.

        Methods share the random orders of a class.
        """
        compared = self._replacements * self._classes * calls * (1 + (self._methods - 1) / _ORDERS)
        return per_call * (compared + _PASSAGES * self._methods) + self._exchanges * self._explain_seconds


def first_answer(report: Report) -> str:
    """Return what the model says and the words that decided it, before any check."""
    from sightline.view.words.headline import headline_parts
    from sightline.view.words.terminal import printable

    sentence = "".join(part.text for part in headline_parts(report.first)[:-1])  # without the verdict
    return f"{printable(sentence)} (not checked yet)."
