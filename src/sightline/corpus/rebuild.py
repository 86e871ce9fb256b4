"""Rebuild a Report from the tables of a store: encoding, explanations, verdicts and removal curves of one document.

Scores are those of the table, with 20 significant bits; scores by layer and the inside of the model are not stored.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.errors import InputError
from sightline.explanation import Explanation, RemovalCurve, fingerprint_scores
from sightline.models.target import Prediction, Target
from sightline.models.tasks import TASKS
from sightline.report import Report
from sightline.text import Encoding
from sightline.text.windows import Windows
from sightline.text.words import Word, split_words

if TYPE_CHECKING:
    import pandas as pd

    from sightline.corpus.store import Store


def rebuild_report(store: Store, row: int) -> Report:
    """Return the report of the document in a row of the data set."""
    (state,) = store.sql(f"SELECT document, status, error FROM documents WHERE row = {row}").to_dict("records")
    if state["status"] != "done":
        reason = state["error"] if isinstance(state["error"], str) else "it has not been computed yet; resume the run."
        raise InputError(f"Document {row} has no explanation ({state['status']}): {reason}")
    document = int(state["document"])
    (content,) = store.sql(f"SELECT text, pair FROM texts WHERE document = {document}").to_dict("records")
    (result,) = store.sql(f"SELECT * FROM results WHERE document = {document}").to_dict("records")
    tokens = store.sql(f"SELECT * FROM tokens WHERE document = {document} ORDER BY position")
    pair = content["pair"] if isinstance(content["pair"], str) else None
    model = store.manifest["model"]
    text, pair = TASKS[model["task"]].reading_order(content["text"], pair)
    encoding = _encoding(text, pair, tokens, int(result["dropped"]))
    windows = result.get("windows")  # runs of earlier versions have none
    if isinstance(windows, str):
        encoding = replace(encoding, windows=Windows.from_dict(json.loads(windows)))
    prediction = Prediction(
        index=int(result["class"]),
        label=result["prediction"],
        probability=float(result["probability"]),
        labels=tuple(result["labels"]),
        logits=np.asarray(result["logits"]),
        probabilities=np.asarray(result["probabilities"]),
    )
    provenance = {
        "model": model["name"],
        "model_type": model["type"],
        "weights": model["weights"],
        "dtype": model["dtype"],
        **store.manifest["versions"][0],
    }
    explanations: dict[str, dict[str, Explanation]] = {}
    for record in store.sql(f"SELECT * FROM explanations WHERE document = {document}").to_dict("records"):
        explanations.setdefault(record["method"], {})[record["class"]] = _explanation(
            record, tokens, encoding, prediction, provenance
        )
    ordered = {method: explanations[method] for method in store.methods}
    return Report(
        {name: by_class if len(by_class) > 1 else next(iter(by_class.values())) for name, by_class in ordered.items()}
    )


def _encoding(text: str, pair: str | None, tokens: pd.DataFrame, dropped: int) -> Encoding:
    words: tuple[Word, ...] = ()
    segments = tokens["segment"].to_numpy()
    for segment, content in enumerate((text,) if pair is None else (text, pair)):
        # As `encode_text` does: words up to where the last token ends.
        words += split_words(content, segment, stop=int(tokens["end"].to_numpy()[segments == segment].max()))
    return Encoding(
        text=text,
        pair=pair,
        ids=tokens["id"].to_numpy(),
        type_ids=tokens["type_id"].to_numpy(),
        offsets=tokens[["start", "end"]].to_numpy(),
        segments=segments,
        special=segments < 0,
        word_ids=tokens["word"].to_numpy(),
        tokens=tuple(tokens["token"]),
        words=words,
        dropped=dropped,
    )


def _explanation(
    record: dict[str, Any],
    tokens: pd.DataFrame,
    encoding: Encoding,
    prediction: Prediction,
    provenance: dict[str, Any],
) -> Explanation:
    scores = tokens[record["column"]].to_numpy()
    removal = json.loads(record["removal"]) if isinstance(record["removal"], str) else None
    return Explanation(
        method=record["method"],
        scores=scores,
        encoding=encoding,
        target=Target.from_dict(json.loads(record["target"])),
        prediction=prediction,
        checks=json.loads(record["checks"]),
        options=json.loads(record["options"]),
        provenance=provenance,
        signed=bool(record["signed"]),
        # The check was made for the scores before they were rounded.
        removal=None if removal is None else RemovalCurve(**{**removal, "fingerprint": fingerprint_scores(scores)}),
    )
