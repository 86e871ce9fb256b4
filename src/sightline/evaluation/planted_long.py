"""Does a method find the deciding words of a long document, wherever they are?

`planted_at_length` explains documents of up to 4,000 words by models whose rule is known by construction
(`rule_model`), and measures precision@k: of the k words ranked highest for the predicted class, k the number of
deciding words, how many decide. It reports by rule, by length and by the third of the document that holds the words;
the middle and the end lie beyond the first window of the model. Cost: one explanation per method and document.

`planted_shortcuts` asks the same of a tiny model that was trained, on short documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sightline.errors import OptionError
from sightline.evaluation.result import frame_of
from sightline.evaluation.rule_model import PLACES, RULES, DocumentThird, Rule, clear_documents, rule_model
from sightline.evaluation.subject import seeded_options
from sightline.methods import METHODS
from sightline.metrics import precision_at_k

if TYPE_CHECKING:
    import pandas as pd

LENGTHS = (250, 1000, 3000)


@dataclass(frozen=True)
class LongFinding:
    """How many of the deciding words of one document a method ranks first."""

    rule: Rule
    words: int
    place: DocumentThird
    method: str
    precision: float
    chance: float
    special_share: float


@dataclass(frozen=True, eq=False)
class LongResult:
    """Precision@k of each method on long documents whose deciding words are known."""

    findings: tuple[LongFinding, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per document and method."""
        return frame_of(self.findings, LongFinding)

    def summary(self, by: Literal["words", "place", "rule"] | None = None) -> pd.DataFrame:
        """Return mean precision, its chance level and the share on special tokens, per method and `by`."""
        keys = ["method"] if by is None else ["method", by]
        frame = self.to_frame().groupby(keys, sort=False)
        return frame.agg(
            precision=("precision", "mean"),
            worst=("precision", "min"),
            chance=("chance", "mean"),
            special_share=("special_share", "mean"),
            documents=("precision", "size"),
        ).reset_index()


def planted_at_length(
    methods: Sequence[str],
    seed: int = 0,
    *,
    lengths: Sequence[int] = LENGTHS,
    rules: Sequence[Rule] = RULES,
    documents: int = 2,
) -> LongResult:
    """Measure how many of the deciding words of long documents each method ranks first.

    lengths: words per document. documents: how many per rule, length and place.
    """
    names = [METHODS.get(name).name for name in dict.fromkeys(methods)]
    if not names or documents < 1:
        raise OptionError("Give at least one method and documents=1 or more.")
    findings: list[LongFinding] = []
    for rule in rules:
        model = rule_model(rule, seed)
        generator = np.random.default_rng([seed, RULES.index(rule)])
        for words in lengths:
            for place in PLACES:
                for number, document in enumerate(clear_documents(rule, words, documents, generator, place=place)):
                    for name in names:
                        options = seeded_options(name, {}, seed, f"{rule} {words} {place} {number}")
                        explanation = model.explain(document.text, name, **options)
                        scores = [word.score for word in explanation.words()]
                        spans = [(position, position + 1) for position in document.deciding]
                        findings.append(
                            LongFinding(
                                rule,
                                words,
                                place,
                                name,
                                precision_at_k(scores, spans, k=len(spans)),
                                len(spans) / words,
                                float(explanation.checks["special_share"]),
                            )
                        )
    return LongResult(tuple(findings))
