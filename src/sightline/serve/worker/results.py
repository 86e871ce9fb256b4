"""Explanations as one JSON object for programs that call the API.

Positions in the text (`start`, `end`, `offsets`) count Unicode characters of the text sent, from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sightline.view.words.headline import headline
from sightline.view.words.lists import describe_verdicts
from sightline.view.words.sentences import VerdictText, further_sentences, notices

if TYPE_CHECKING:
    from sightline.models import Prediction
    from sightline.results.explanation import Explanation
    from sightline.results.report import Report


def result_record(job: str, model: str, report: Report, notes: Sequence[str], seconds: float) -> dict[str, Any]:
    """Return the answer to one request: tokens and words once, scores per method."""
    first = report.first
    encoding = first.encoding
    return {
        "id": job,
        "model": model,
        "prediction": prediction_record(first.prediction),
        "tokens": list(encoding.tokens),
        "offsets": encoding.offsets.tolist(),
        "segments": encoding.segments.tolist(),
        "special": encoding.special.tolist(),
        "dropped_tokens": encoding.dropped,
        "words": [
            {"text": word.text, "start": word.start, "end": word.end, "segment": word.segment, "tokens": word.tokens}
            for word in first.words()
        ],
        "explanations": {
            method: _explanation(explanation, verdict)
            for (method, _, explanation), verdict in zip(report.entries(), describe_verdicts(list(report)), strict=True)
        },
        "consensus": None if (consensus := report.consensus) is None else consensus.to_dict(),
        "notes": list(notes),
        "provenance": first.provenance,
        "seconds": round(seconds, 3),
    }


def prediction_record(prediction: Prediction) -> dict[str, Any]:
    """Return a prediction as plain JSON values."""
    columns = (prediction.labels, prediction.probabilities.tolist(), prediction.logits.tolist())
    return {
        "index": prediction.index,
        "label": prediction.label,
        "probability": prediction.probability,
        "classes": [
            {"label": label, "probability": probability, "logit": logit}
            for label, probability, logit in zip(*columns, strict=True)
        ],
    }


def _explanation(explanation: Explanation, verdict: VerdictText) -> dict[str, Any]:
    return {
        "headline": headline(explanation),
        "target": {**explanation.target.to_dict(), "description": explanation.target.description()},
        "signed": explanation.signed,
        "scores": explanation.scores.tolist(),
        "word_scores": [word.score for word in explanation.words()],
        "checks": explanation.checks,
        "verdict": {**explanation.verdict.to_dict(), **verdict.to_dict()},
        "sentences": [*notices(explanation), *further_sentences(explanation)],
        "removal": None if explanation.removal is None else explanation.removal.to_dict(),
        "artefacts": explanation.describe_artefacts(),
        "options": explanation.options,
    }
