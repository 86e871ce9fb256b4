"""Rebuild a Report from the tables of a store: encoding, explanations, and checks of one document.

Scores are those of the table, with 20 significant bits; scores by layer and the inside of the model are not stored.
Everything is checked as in a saved explanation (`results.explanation_storage`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.errors import InputError
from sightline.files.foreign import parse_json, quote
from sightline.models.tasks import TASKS
from sightline.results.explanation import Explanation, fingerprint_scores
from sightline.results.explanation_storage import DocumentRecord, ScoresRecord
from sightline.results.records import ArrayRecord, reading
from sightline.results.report import Report
from sightline.text import Encoding
from sightline.text.words import split_words

if TYPE_CHECKING:
    import pandas as pd

    from sightline.corpus.store import Store


def rebuild_report(store: Store, row: int) -> Report:
    """Return the report of the document in a row of the data set."""
    (state,) = store.sql(f"SELECT document, status, error FROM documents WHERE row = {row}").to_dict("records")
    if state["status"] != "done":
        reason = state["error"] if isinstance(state["error"], str) else "it has not been computed yet; resume the run."
        raise InputError(f"Document {row} has no explanation ({state['status']}): {reason}")
    with reading(f"Document {row} in '{store.path}'"):
        return _build(store, int(state["document"]))


def _build(store: Store, document: int) -> Report:
    (content,) = store.sql(f"SELECT text, pair FROM texts WHERE document = {document}").to_dict("records")
    (result,) = store.sql(f"SELECT * FROM results WHERE document = {document}").to_dict("records")
    tokens = store.sql(f"SELECT * FROM tokens WHERE document = {document} ORDER BY position")
    pair = content["pair"] if isinstance(content["pair"], str) else None
    model = store.manifest["model"]
    text, pair = TASKS[model["task"]].reading_order(content["text"], pair)
    encoding = _encoding(text, pair, tokens, int(result["dropped"]), _json(result["windows"], "windows"))
    common = {
        "prediction": {
            "index": int(result["class"]),
            "label": result["prediction"],
            "probability": float(result["probability"]),
            "labels": list(result["labels"]),
            **{name: ArrayRecord.plain(np.asarray(result[name], np.float64)) for name in ("logits", "probabilities")},
        },
        "provenance": {
            "model": model["name"],
            "model_type": model["type"],
            "weights": model["weights"],
            "dtype": model["dtype"],
            **store.manifest["versions"][0],
        },
    }
    explanations: dict[str, dict[str, Explanation]] = {}
    for record in store.sql(f"SELECT * FROM explanations WHERE document = {document}").to_dict("records"):
        explanations.setdefault(record["method"], {})[record["class"]] = _explanation(record, tokens, encoding, common)
    if missing := [method for method in store.methods if method not in explanations]:
        raise ValueError(f"it has no scores of '{quote(missing[0])}'.")
    ordered = {method: explanations[method] for method in store.methods}
    return Report(
        {name: by_class if len(by_class) > 1 else next(iter(by_class.values())) for name, by_class in ordered.items()}
    )


def _encoding(text: str, pair: str | None, tokens: pd.DataFrame, dropped: int, windows: Any) -> Encoding:
    words = []
    segments = tokens["segment"].to_numpy()
    for segment, content in enumerate((text,) if pair is None else (text, pair)):
        # As `encode_text` does: words up to where the last token ends.
        stop = int(tokens["end"].to_numpy()[segments == segment].max())
        words += [[word.start, word.end, segment] for word in split_words(content, segment, stop=stop)]
    encoding = {
        "text": text,
        "pair": pair,
        "ids": tokens["id"].to_numpy(),
        "type_ids": tokens["type_id"].to_numpy(),
        "offsets": tokens[["start", "end"]].to_numpy(),
        "segments": segments,
        "special": segments < 0,
        "word_ids": tokens["word"].to_numpy(),
        "words": words,
        "dropped": dropped,
        "global_tokens": None,
        "windows": windows,
        "vocabulary": None,
    }
    return DocumentRecord.read({"tokens": tokens["token"].tolist(), "encoding": encoding}).document()


def _explanation(
    record: dict[str, Any], tokens: pd.DataFrame, encoding: Encoding, common: dict[str, Any]
) -> Explanation:
    scores = tokens[record["column"]].to_numpy()
    values = {name: _json(record[name], name) for name in ("target", "checks", "options", "check")}
    if isinstance(values["check"], dict):
        # Computed from the scores before they were rounded.
        values["check"]["fingerprint"] = fingerprint_scores(scores)
    return Explanation.from_record(
        {
            **ScoresRecord.header(),
            **values,
            **common,
            "method": record["method"],
            "signed": bool(record["signed"]),
            "scores": scores,
            "scores_dtype": scores.dtype.str,
            "layers": None,
            "layer_kind": None,
            "extras": {},
        },
        encoding=encoding,
    )


def _json(text: Any, name: str) -> Any:
    """Return the value of a JSON text; None for missing values."""
    return parse_json(text.encode(), error=InputError, name=f"'{name}'") if isinstance(text, str) else None
