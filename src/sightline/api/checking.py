"""Checks of explanations on the model they explain: words are deleted, and the words to be named change places.

`Checker` holds what both need of a model. The measurements themselves are `metrics.check` and `analysis.exchange`; what
they say about an explanation is its `verdict` and its `artefacts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sightline.analysis.exchange import Rerun, exchange_checks, exchange_words, name_sinks
from sightline.analysis.filters import TokenFilter
from sightline.errors import InputError, SightlineError, UnsupportedError
from sightline.methods import METHODS
from sightline.metrics.check import Deletions, check_words
from sightline.models import Network
from sightline.models.inputs import check_origin
from sightline.progress import Progress
from sightline.results.check import EXCHANGE_ENTRIES
from sightline.results.explanation import Explanation, FloatArray
from sightline.results.verdict import NOT_COMPARABLE
from sightline.settings.explain import CheckSettings
from sightline.text import Encoding

EXCHANGE_STAGE = "exchanging words"
REPRODUCED = 1e-3
"""Scores of a second run may differ by this share of the largest score."""
_FILLERS = TokenFilter()


@dataclass(frozen=True)
class Checker:
    """Checks explanations on one model."""

    network: Network
    repeat: Callable[[Explanation], Rerun]
    """Returns a function that computes the scores of the same method and target for changed documents."""
    received: Callable[[Explanation], FloatArray]
    """Returns the attention that every token of the document receives, (L, H, n)."""
    settings: CheckSettings

    def check(self, explanation: Explanation, progress: Progress | None) -> Explanation:
        """Check scores of any origin; what former checks measured is replaced."""
        former = {*EXCHANGE_ENTRIES, NOT_COMPARABLE}
        checks = {name: value for name, value in explanation.checks.items() if name not in former}
        checks["special_share"] = special_share(explanation.scores, explanation.encoding)
        (checked,) = self._delete([replace(explanation, checks=checks, check=None, exchange=None)], progress)
        repeatable = self._exchanges(checked) and self._reproduces(checked)
        return self._exchange(checked, progress) if repeatable else checked

    def check_all(self, explanations: Mapping[str, Any], *, every: bool, progress: Progress | None) -> dict[str, Any]:
        """Check new explanations of one document, by method or by method and label.

        Only those of the first method are checked, unless `every` asks for all. Explanations of one target share what
        the model reads, and the level of the test.
        """
        chosen = explanations if every else dict(list(explanations.items())[:1])
        by_target: dict[tuple[object, ...], list[Explanation]] = {}
        for explanation in _flatten(chosen):
            target = explanation.target
            key = (target.index, target.contrast, target.position, target.span, target.ends, target.window)
            by_target.setdefault(key, []).append(explanation)
        checked: dict[int, Explanation] = {}
        for group in by_target.values():
            for explanation, result in zip(group, self._delete(group, progress), strict=True):
                repeatable = self._exchanges(result)
                checked[id(explanation)] = self._exchange(result, progress) if repeatable else result

        def result_of(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: result_of(nested) for name, nested in value.items()}
            return checked.get(id(value), value)

        return {name: result_of(value) for name, value in explanations.items()}

    def _delete(self, explanations: Sequence[Explanation], progress: Progress | None) -> list[Explanation]:
        """Return explanations of one document and target with what deleting their words showed."""
        first = explanations[0]
        for explanation in explanations:
            check_origin(explanation.encoding, explanation.provenance, self.network)
        try:
            deletions = Deletions(self.network, first.encoding, first.target, threshold=self.settings.threshold)
            fillers = np.array([_FILLERS.drops(text) for text in deletions.units.texts], dtype=np.bool_)
            checks = check_words(
                deletions, explanations, fillers, readings=self.settings.check_readings, progress=progress
            )
        except (InputError, UnsupportedError) as error:
            return [
                replace(explanation, checks={**explanation.checks, NOT_COMPARABLE: str(error)})
                for explanation in explanations
            ]
        rounding = deletions.rounding
        precision = {} if rounding is None else {"check_dtype": "bfloat16", "check_rounding": f"{rounding:.1e}"}
        return [
            replace(explanation, check=check, provenance={**_without_precision(explanation.provenance), **precision})
            for explanation, check in zip(explanations, checks, strict=True)
        ]

    def _exchange(self, explanation: Explanation, progress: Progress | None) -> Explanation:
        """Exchange the words that would be named, of scores that this model gave; keep those that pass."""
        check = explanation.check
        if check is None or not check.named:
            return explanation
        if progress is not None:
            progress(EXCHANGE_STAGE, 0, 0)
        exchange = exchange_words(explanation, self.repeat(explanation), words=[word.index for word in check.named])
        if exchange.artefacts and explanation.encoding.windows is None:
            with suppress(UnsupportedError):  # a model whose attention cannot be seen
                exchange = name_sinks(exchange, self.received(explanation))
        checks = {**explanation.checks, **exchange_checks(explanation, exchange)}
        flagged = {position for artefact in exchange.artefacts for position in artefact.tokens}
        named = tuple(word for word in check.named if flagged.isdisjoint(word.tokens))
        return replace(explanation, checks=checks, exchange=exchange, check=replace(check, named=named))

    def _exchanges(self, explanation: Explanation) -> bool:
        """Whether words change places: the method runs again at the cost of about one pass, on a text with words."""
        return (
            self.settings.artefacts is not False
            and explanation.method in METHODS
            and METHODS.get(explanation.method).is_repeatable(explanation.options)
            and bool(explanation.encoding.words)
        )

    def _reproduces(self, explanation: Explanation) -> bool:
        """Whether the scores are those that the method gives on this model: neither edited nor made elsewhere."""
        if explanation.check is None or not explanation.check.named:
            return False
        try:
            (scores,) = self.repeat(explanation)([explanation.encoding])
        except SightlineError:
            return False
        tolerance = REPRODUCED * float(np.abs(explanation.scores).max(initial=0.0))
        return bool(np.allclose(scores, explanation.scores, rtol=0.0, atol=tolerance))


def _without_precision(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return provenance without what a former check added."""
    return {name: value for name, value in provenance.items() if name not in ("check_dtype", "check_rounding")}


def special_share(scores: FloatArray, encoding: Encoding) -> float:
    """Return the share of the total magnitude on special tokens."""
    mass = float(np.abs(scores).sum())
    return float(np.abs(scores[encoding.special]).sum()) / mass if mass else 0.0


def _flatten(explanations: Mapping[str, Any]) -> list[Explanation]:
    return [
        explanation
        for nested in explanations.values()
        for explanation in (nested.values() if isinstance(nested, dict) else [nested])
    ]
