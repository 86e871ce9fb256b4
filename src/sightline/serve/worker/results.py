"""Explanations as one JSON object for programs that call the API.

Positions in the text (`start`, `end`, `offsets`) count Unicode characters of the text sent, from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sightline.results.explanation_records import TargetRecord
from sightline.view.words.headline import headline
from sightline.view.words.sentences import further_sentences, notices
from sightline.view.words.verdict import describe_verdict

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
        "explanations": {method: _explanation(explanation) for method, _, explanation in report.entries()},
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


def _explanation(explanation: Explanation) -> dict[str, Any]:
    return {
        "headline": headline(explanation),
        "target": TargetRecord.plain(explanation.target),
        "signed": explanation.signed,
        "scores": explanation.scores.tolist(),
        "word_scores": [word.score for word in explanation.words()],
        "checks": explanation.checks,
        "verdict": {**explanation.verdict.to_dict(), **describe_verdict(explanation).to_dict()},
        "sentences": [*notices(explanation), *further_sentences(explanation)],
        "check": None if explanation.check is None else explanation.check.to_dict(),
        "artefacts": explanation.describe_artefacts(),
        "options": explanation.options,
    }
