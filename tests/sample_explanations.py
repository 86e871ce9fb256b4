"""Explanations with known scores over real encodings, for tests of everything that stores or shows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sightline.models.target import Prediction, Target
from sightline.results.check import Check, Matters, Reading, SmallestSet, TestedWord
from sightline.results.explanation import Explanation, fingerprint_scores
from sightline.text import Encoding, encode_text
from tests.tiny_tokenizers import byte_level, wordpiece

TEXT = "The river runs past the old mill.\n\nHello, Miller! The mill is old."

_WORDPIECE = wordpiece()
_BYTE_LEVEL = byte_level()


def encoding(
    text: str = TEXT, pair: str | None = None, *, max_tokens: int | None = None, bytes_: bool = False
) -> Encoding:
    """Return an encoding by a WordPiece or a byte-level tokenizer."""
    return encode_text(_BYTE_LEVEL if bytes_ else _WORDPIECE, text, pair, max_tokens=max_tokens)


def prediction(labels: tuple[str, ...] = ("AI", "PL")) -> Prediction:
    """Return a prediction of the last label."""
    logits = np.arange(len(labels), dtype=np.float32) - 0.3
    probabilities = (np.exp(logits) / np.exp(logits).sum()).astype(np.float32)
    last = len(labels) - 1
    return Prediction(last, labels[last], float(probabilities[last]), labels, logits, probabilities)


def explanation(encoded: Encoding | None = None, scores: Any = None, **facts: Any) -> Explanation:
    """Return an explanation; without scores, with random ones of both signs, some of them zero."""
    encoded = encoding() if encoded is None else encoded
    if scores is None:
        generator = np.random.default_rng(0)
        scores = generator.standard_normal(len(encoded)) * (generator.random(len(encoded)) > 0.1)
    return Explanation(
        **{
            "method": "attcat",
            "scores": scores,
            "encoding": encoded,
            "target": Target(1, "PL"),
            "prediction": prediction(),
            **facts,
        }
    )


def words_of(explained: Explanation, *places: int) -> tuple[TestedWord, ...]:
    """Return words of an explained document, by their places."""
    words = explained.words()
    return tuple(
        TestedWord(word.text, word.index, word.start, word.end, word.segment, word.tokens)
        for word in (words[place] for place in places)
    )


def check_of(explained: Explanation, *places: int, matters: Matters = "yes", **facts: Any) -> Check:
    """Return a check of an explanation of "PL" in which the words at `places` were tested: its only count is 2."""
    tested = words_of(explained, *places)
    whole, less = Reading(2.2, "PL", 0.9, 0.9), Reading(0.4, "PL", 0.6, 0.6)
    values: dict[str, Any] = {
        "matters": matters,
        "p_value": 0.001 if matters in ("yes", "opposite") else 0.5,
        "words": len(explained.words()),
        "counts": (2,),
        "whole": whole,
        "without": (less,),
        "random": ((2.1,),) * 14,
        "random_sets": 999,
        "path": ((2, less),),
        "empty": Reading(-0.4, "AI", 0.6, 0.4),
        "tested": tested,
        "without_tested": less if tested else None,
        "named": tested,
        "calls": 17,
        "fingerprint": fingerprint_scores(explained.scores),
    }
    return Check(**(values | facts))


def smallest_set_of(explained: Explanation, *places: int, **facts: Any) -> SmallestSet:
    """Return the smallest set that consists of the words at `places`; without them the model says "AI"."""
    values: dict[str, Any] = {
        "words": words_of(explained, *places),
        "label": "AI",
        "probability": 0.66,
        "share": len(places) / len(explained.words()),
        "random_changed": 0,
        "random_sets": 14,
        "random_words": 2,
        "bound": 0.19,
    }
    return SmallestSet(**(values | facts))
