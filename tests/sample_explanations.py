"""Explanations with known scores over real encodings, for tests of everything that stores or shows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sightline.models.target import Prediction, Target
from sightline.results.explanation import Explanation
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
