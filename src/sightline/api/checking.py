"""Checks of explanations on the model they explain: the comparison with random orders, and the exchange of words.

`Checker` holds what both need of a model. The measurements themselves are `metrics.check` and `analysis.exchange`; what
they say about an explanation is its `verdict` and its `artefacts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sightline.analysis.exchange import Rerun, exchange_checks, exchange_words, name_sinks
from sightline.errors import SightlineError, UnsupportedError
from sightline.methods import METHODS
from sightline.metrics.check import CheckReplacement, faithfulness_checks, passage_checks, passage_engine
from sightline.models import Network
from sightline.progress import Progress
from sightline.results.artefacts import EXCHANGE_ENTRIES
from sightline.results.explanation import Explanation, FloatArray
from sightline.results.verdict import CHECK_ENTRIES
from sightline.text import Encoding

CHECK_STAGE = "comparing with random orders"
PASSAGES_STAGE = "deleting sentences"
EXCHANGE_STAGE = "exchanging words"
REPRODUCED = 1e-3
"""Scores of a second run may differ by this share of the largest score."""


@dataclass(frozen=True)
class Checker:
    """Checks explanations on one model."""

    network: Network
    repeat: Callable[[Explanation], Rerun]
    """Returns a function that computes the scores of the same method and target for changed documents."""
    received: Callable[[Explanation], FloatArray]
    """Returns the attention that every token of the document receives, (L, H, n)."""

    def check(
        self,
        explanation: Explanation,
        *,
        replacement: CheckReplacement,
        orderings: int | None,
        budget: int | None,
        seed: int,
        artefacts: bool,
        progress: Progress | None,
    ) -> Explanation:
        """Check scores of any origin; what former checks measured is replaced (see `Model.check`)."""
        (measured,) = faithfulness_checks(
            self.network,
            [explanation],
            orderings=orderings,
            budget=budget,
            replacement=replacement,
            seed=seed,
            progress=None if progress is None else partial(progress, CHECK_STAGE),
        )
        former = {*CHECK_ENTRIES, *EXCHANGE_ENTRIES}
        checks = {name: value for name, value in explanation.checks.items() if name not in former}
        checks["special_share"] = special_share(explanation.scores, explanation.encoding)
        checks |= measured.checks
        if measured.curve is not None:
            checks |= passage_checks(self.network, explanation, seed=seed)
        checked = replace(explanation, checks=checks, removal=measured.curve, exchange=None)
        if artefacts and _can_repeat(checked) and self._reproduces(checked):
            checked = self._exchange(checked, progress, seed=seed)
        return checked

    def check_all(
        self,
        explanations: Mapping[str, Any],
        *,
        budget: int | None,
        replacement: CheckReplacement,
        artefacts: bool,
        progress: Progress | None,
    ) -> dict[str, Any]:
        """Check new explanations of one document, by method or by method and label, on shared model calls."""
        flat = [
            explanation
            for nested in explanations.values()
            for explanation in (nested.values() if isinstance(nested, dict) else [nested])
        ]
        watch = None if progress is None else partial(progress, CHECK_STAGE)
        if watch is not None:
            watch(0, 0)  # so that the time of the first call can be told
        measured = iter(faithfulness_checks(self.network, flat, budget=budget, replacement=replacement, progress=watch))
        engine = passage_engine(self.network, flat[0]) if flat else None

        def add_check(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: add_check(nested) for name, nested in value.items()}
            checks, curve = next(measured)
            if curve is not None:
                if progress is not None:
                    progress(PASSAGES_STAGE, 0, 0)
                checks = {**checks, **passage_checks(self.network, value, engine=engine)}
            checked = replace(value, checks={**value.checks, **checks}, removal=curve)
            return self._exchange(checked, progress) if artefacts and _can_repeat(checked) else checked

        return {name: add_check(value) for name, value in explanations.items()}

    def _exchange(self, explanation: Explanation, progress: Progress | None, *, seed: int = 0) -> Explanation:
        """Exchange the strongest words of an explanation that was made by this model."""
        if progress is not None:
            progress(EXCHANGE_STAGE, 0, 0)
        exchange = exchange_words(explanation, self.repeat(explanation), seed=seed)
        if exchange.artefacts and explanation.encoding.windows is None:
            with suppress(UnsupportedError):  # a model whose attention cannot be seen
                exchange = name_sinks(exchange, self.received(explanation))
        checks = {**explanation.checks, **exchange_checks(explanation, exchange)}
        return replace(explanation, checks=checks, exchange=exchange)

    def _reproduces(self, explanation: Explanation) -> bool:
        """Whether the scores are those that the method gives on this model: neither edited nor made elsewhere."""
        try:
            (scores,) = self.repeat(explanation)([explanation.encoding])
        except SightlineError:
            return False
        tolerance = REPRODUCED * float(np.abs(explanation.scores).max(initial=0.0))
        return bool(np.allclose(scores, explanation.scores, rtol=0.0, atol=tolerance))


def special_share(scores: FloatArray, encoding: Encoding) -> float:
    """Return the share of the total magnitude on special tokens."""
    mass = float(np.abs(scores).sum())
    return float(np.abs(scores[encoding.special]).sum()) / mass if mass else 0.0


def _can_repeat(explanation: Explanation) -> bool:
    """Whether the method can run again at the cost of about one pass, on a document that has words."""
    return (
        explanation.method in METHODS
        and METHODS.get(explanation.method).is_repeatable(explanation.options)
        and bool(explanation.encoding.words)
    )
