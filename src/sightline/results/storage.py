"""One explanation, one file: JSON for people and other languages, Parquet for data tools; both exact, neither executes.

Every float is written in full (JSON: the shortest decimal that reads back to the same bits; Parquet: the bits) with its
number type beside it, so that `read(write(x))` gives x bit for bit. The version number increases when today's code
could misread the file; a newer file is refused.

A saved file may come from an untrusted source. Everything in it is checked before an `Explanation` is built: types,
shapes, ranges, number types, sizes and nesting (`from_record`), so that whatever loads can also be shown and saved
again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, OptionError, SizeError, UsageError
from sightline.files.foreign import check_regular, first_line, parse_json, printable
from sightline.files.writing import replacing, write_whole
from sightline.methods.layer_kind import LayerKind
from sightline.models.target import Ends, Prediction, Quantity, Target
from sightline.results.artefacts import Exchange
from sightline.results.record_checks import (
    ABOVE_ONE,
    check_choice,
    check_flag,
    check_list,
    check_number,
    check_object,
    check_plain,
    check_text,
    check_texts,
    check_whole,
    is_newer,
    read_array,
    read_numbers,
)
from sightline.results.verdict import read_checks
from sightline.settings.extras import require
from sightline.text import Aggregation, Encoding

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation

FORMAT = "sightline-explanation"
VERSION = 1
SUFFIXES = (".json", ".parquet")

LARGEST_FILE = 200_000_000
"""Bytes of JSON that are read: several times the longest text with the scores of every layer."""
_METADATA_KEY = b"sightline"
_MOST_TOKENS = 10_000_000
_MOST_COLUMNS = 10_000
_TARGET_DEFAULTS = {
    "contrast": None,
    "contrast_label": None,
    "quantity": "logit",
    "position": None,
    "span": None,
    "ends": "both",
    "window": None,
}
_TARGET_FIELDS = tuple(name for name in Target.__dataclass_fields__ if name != "direction")


def plain(value: Any, where: str) -> Any:
    """Return `value` as JSON can hold it: NumPy scalars and arrays, tuples and paths become ordinary values.

    A number that is not finite or an object of another kind is refused, so that nothing is lost without a word.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OptionError(f"{where} is {value}, but only finite numbers can be kept with an explanation.")
        return value
    if isinstance(value, list | tuple):
        return [plain(element, where) for element in value]
    if isinstance(value, Mapping):
        return {str(key): plain(element, f"{where}['{key}']") for key, element in value.items()}
    if isinstance(value, Path):
        return str(value)
    raise OptionError(f"{where} is a {type(value).__name__}, which cannot be kept with an explanation.")


def to_record(explanation: Explanation) -> dict[str, Any]:
    """Return everything in an explanation as plain values, the parts people look for first."""
    prediction = explanation.prediction
    return {
        "format": FORMAT,
        "version": VERSION,
        "method": explanation.method,
        "signed": explanation.signed,
        "target": {**explanation.target.to_dict(), "description": explanation.target.description()},
        "prediction": {
            "index": prediction.index,
            "label": prediction.label,
            "probability": prediction.probability,
            "labels": list(prediction.labels),
            "probabilities": _array_record(prediction.probabilities),
            "logits": _array_record(prediction.logits),
        },
        "verdict": explanation.verdict.to_dict(),
        "checks": explanation.checks,
        **({} if explanation.removal is None else {"removal": explanation.removal.to_dict()}),
        **({} if explanation.exchange is None else {"exchange": explanation.exchange.to_dict()}),
        "options": explanation.options,
        "provenance": explanation.provenance,
        "tokens": list(explanation.encoding.tokens),
        "scores": explanation.scores.tolist(),
        "scores_dtype": explanation.scores.dtype.str,
        "layers": None if explanation.layers is None else _array_record(explanation.layers),
        "layer_kind": explanation.layer_kind,
        "extras": {name: _array_record(array) for name, array in explanation.extras.items()},
        "encoding": {name: value for name, value in explanation.encoding.to_dict().items() if name != "tokens"},
    }


def from_record(record: Mapping[str, Any], *, encoding: Encoding | None = None) -> dict[str, Any]:
    """Return the arguments of `Explanation` from a record, on an encoding that is there already if given.

    A damaged record raises KeyError or ValueError, saying what is wrong with which entry.
    """
    document = encoding or read_encoding(record["encoding"], record["tokens"])
    n = len(document)
    layers, layer_kind = record["layers"], record.get("layer_kind")
    removal, exchange = record.get("removal"), record.get("exchange")
    return {
        "method": check_text(record["method"], "method"),
        "signed": check_flag(record["signed"], "signed"),
        "target": _read_target(record["target"], n),
        "prediction": _read_prediction(record["prediction"]),
        "checks": read_checks(record["checks"]),
        "options": check_plain(check_object(record["options"], "options"), "options"),
        "provenance": check_plain(check_object(record["provenance"], "provenance"), "provenance"),
        "scores": read_numbers(record["scores"], record["scores_dtype"], "scores", n),
        "layers": None if layers is None else read_array(layers, "layers", (None, n)),
        "layer_kind": None if layer_kind is None else check_choice(layer_kind, "layer_kind", get_args(LayerKind)),
        "extras": {
            check_text(name, "extras"): read_array(array, f"extras.{name}")
            for name, array in check_object(record["extras"], "extras").items()
        },
        "encoding": document,
        "removal": None if removal is None else _read_removal(removal),
        "exchange": None if exchange is None else Exchange.from_dict(exchange, n),
    }


def read_encoding(values: Any, tokens: Any) -> Encoding:
    """Return the document; every token, word and position must lie inside it."""
    record = {**check_object(values, "encoding"), "tokens": check_texts(tokens, "tokens")}
    n = len(tokens)
    texts = [check_text(record["text"], "text")]
    if record["pair"] is not None:
        texts.append(check_text(record["pair"], "pair"))
    check_whole(record["dropped"], "dropped")
    for place, word in enumerate(check_list(record["words"], "words")):
        _check_word(word, f"words[{place}]", texts)
    if record["global_tokens"] is not None:
        for position in check_list(record["global_tokens"], "global_tokens"):
            check_whole(position, "global_tokens", 0, n - 1)
    if record.get("vocabulary") is not None:
        check_text(record["vocabulary"], "vocabulary")
    if record.get("windows") is not None:
        _check_windows(record["windows"], n)
    for name in ("ids", "type_ids", "segments", "word_ids"):
        record[name] = read_numbers(record[name], "<i8", name, n)
    record["special"] = read_numbers(record["special"], "|b1", "special", n)
    offsets = record["offsets"]
    if not isinstance(offsets, np.ndarray):
        pairs = [check_list(pair, "offsets", 2) for pair in check_list(offsets, "offsets", n)]
        record["offsets"] = read_numbers([end for pair in pairs for end in pair], "<i8", "offsets").reshape(n, 2)
    encoding = Encoding.from_dict(record)
    _check_places(encoding, texts)
    return encoding


def _check_windows(values: Any, n: int) -> None:
    record = check_object(values, "windows", ("spans", "aggregation"))
    check_choice(record["aggregation"], "windows.aggregation", get_args(Aggregation))
    for place, span in enumerate(check_list(record["spans"], "windows.spans")):
        start, end = check_list(span, f"windows.spans[{place}]", 2)
        check_whole(end, f"windows.spans[{place}]", 0, n)
        check_whole(start, f"windows.spans[{place}]", 0, end)


def _check_word(word: Any, where: str, texts: list[str]) -> None:
    start, end, segment = check_list(word, where, 3)
    check_whole(segment, f"{where} (segment)", 0, len(texts) - 1)
    check_whole(end, f"{where} (end)", 1, len(texts[segment]))
    check_whole(start, f"{where} (start)", 0, end - 1)


def _check_places(encoding: Encoding, texts: list[str]) -> None:
    """Raise ValueError unless every token is where the record says, and specials have no place in the text."""
    if encoding.ids.min() < 0 or encoding.type_ids.min() < 0:
        raise ValueError("ids and token types must not be negative")
    if not np.array_equal(encoding.special, encoding.segments == -1) or encoding.segments.max() >= len(texts):
        raise ValueError("segments must be -1 for special tokens, 0 for the text and 1 for its pair")
    if encoding.segments.min() < -1 or (encoding.word_ids[encoding.special] != -1).any():
        raise ValueError("special tokens belong to no segment and to no word")
    places = [(word.segment, word.start, word.end) for word in encoding.words]
    if any(after < (before[0], before[2]) for before, after in pairwise(places)):
        raise ValueError("words must be in the order of the text and must not overlap")
    rows = zip(
        encoding.tokens, encoding.segments.tolist(), encoding.offsets.tolist(), encoding.word_ids.tolist(), strict=True
    )
    for position, (token, segment, (start, end), word) in enumerate(rows):
        if segment < 0:
            if (start, end) != (0, 0):
                raise ValueError(f"token {position} is special and must have no place in the text")
        elif not 0 <= start <= end <= len(texts[segment]) or texts[segment][start:end] != token:
            raise ValueError(f"token {position} is not at characters {start}-{end} of the text")
        elif word >= 0 and encoding.words[word].segment != segment:
            raise ValueError(f"token {position} belongs to a word of the other text")


def _read_target(values: Any, n: int) -> Target:
    given = {name: value for name, value in check_object(values, "target").items() if name != "description"}
    record = check_object({**_TARGET_DEFAULTS, **given}, "target", _TARGET_FIELDS)
    check_choice(record["ends"], "target.ends", get_args(Ends))
    if record["window"] is not None:
        check_whole(record["window"], "target.window", 0, n - 1)
    check_text(record["label"], "target.label")
    for name in ("index", "contrast", "position"):
        if record[name] is not None:
            check_whole(record[name], f"target.{name}", 0, n - 1 if name == "position" else 2**63)
    if record["contrast_label"] is not None:
        check_text(record["contrast_label"], "target.contrast_label")
    check_choice(record["quantity"], "target.quantity", get_args(Quantity))
    if record["span"] is not None:
        first, last = check_list(record["span"], "target.span", 2)
        check_whole(first, "target.span", 0, n - 1)
        check_whole(last, "target.span", first, n - 1)
    return Target.from_dict(record)


def _read_prediction(values: Any) -> Prediction:
    names = ("index", "label", "probability", "labels", "probabilities", "logits")
    record = check_object(values, "prediction", names)
    labels = check_texts(record["labels"], "prediction.labels")
    if not labels:
        raise ValueError("prediction.labels must name at least one class")
    arrays = {name: read_array(record[name], f"prediction.{name}", (len(labels),)) for name in names[-2:]}
    if any(array.dtype.kind != "f" for array in arrays.values()):
        raise ValueError("prediction.probabilities and prediction.logits must be floating-point numbers")
    if arrays["probabilities"].min() < 0 or arrays["probabilities"].max() > 1 + ABOVE_ONE:
        raise ValueError("prediction.probabilities must be from 0 to 1")
    return Prediction(
        index=check_whole(record["index"], "prediction.index", 0, 2**63),
        label=check_text(record["label"], "prediction.label"),
        probability=check_number(record["probability"], "prediction.probability", 0, 1 + ABOVE_ONE),
        labels=tuple(labels),
        **arrays,
    )


def _read_removal(values: Any) -> dict[str, Any]:
    record = {"counts": None, "replacement": "delete", "fingerprint": "", **check_object(values, "removal")}
    check_object(record, "removal", ("ratios", "probabilities", "random", "counts", "replacement", "fingerprint"))
    ratios = read_numbers(record["ratios"], "<f8", "removal.ratios")
    if len(ratios) < 2 or ratios[0] < 0 or ratios[-1] > 1 or ratios[-1] == 0 or (np.diff(ratios) < 0).any():
        raise ValueError("removal.ratios must rise from 0 to at most 1")
    rows = [record["probabilities"], *check_list(record["random"], "removal.random")]
    curves = [read_numbers(row, "<f8", "removal", len(ratios)) for row in rows]
    if len(curves) < 2 or any(curve.min() < -ABOVE_ONE or curve.max() > 1 + ABOVE_ONE for curve in curves):
        raise ValueError("removal must hold probabilities, with those of at least one random order")
    counts = record["counts"]
    if counts is not None:
        counts = read_numbers(counts, "<i8", "removal.counts", len(ratios))
        if counts[0] < 0 or not 0 < counts[-1] / ratios[-1] <= _MOST_TOKENS or (np.diff(counts) < 0).any():
            raise ValueError("removal.counts must rise from 0 to at most the number of words")
    return {
        "ratios": ratios,
        "probabilities": curves[0],
        "random": np.stack(curves[1:]),
        "counts": counts,
        "replacement": check_choice(record["replacement"], "removal.replacement", ("delete", "mask")),
        "fingerprint": check_text(record["fingerprint"], "removal.fingerprint"),
    }


def to_json(explanation: Explanation) -> str:
    """Return the record as one line of JSON in ASCII, which any program reads whatever the document holds."""
    return json.dumps(to_record(explanation), allow_nan=False)


def write(explanation: Explanation, path: Path) -> None:
    """Write an explanation to a `.json` or `.parquet` file, completely or not at all."""
    if _suffix(path) == ".json":
        write_whole(path, _check_size(to_json(explanation) + "\n"))
    else:
        _write_parquet(explanation, path)


def read(path: Path) -> dict[str, Any]:
    """Return the arguments of the `Explanation` in a file, or raise InputError saying why it cannot be read."""
    read_file = _read_json if _suffix(path) == ".json" else _read_parquet
    check_regular(path, InputError)
    try:
        record = read_file(path)
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InputError(f"'{path}' is not an explanation saved by Sightline.")
        if is_newer(record["version"], VERSION):
            raise InputError(
                f"'{path}' was written by a newer Sightline (format {record['version']}, this one reads up to "
                f"{VERSION}). Update Sightline to read it."
            )
        return from_record(record)
    except FileNotFoundError:
        raise InputError(f"There is no file '{path}'.") from None
    except OSError as error:
        reason = (error.strerror or "it is damaged").lower()
        raise InputError(f"Cannot read '{path}': {reason}.") from None
    except KeyError as error:
        raise InputError(f"'{path}' is damaged: {printable(str(error))} is missing.") from None
    except ValueError as error:
        raise InputError(f"'{path}' is damaged: {first_line(error)}") from None


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"An explanation is kept in a .json or .parquet file, not '{path.name}'.")
    return suffix


def _array_record(array: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape), "values": array.ravel().tolist()}


def _check_size(text: str) -> str:
    """Return the text unchanged; raise SizeError if the file would be too large to load again."""
    if len(text) > LARGEST_FILE:
        raise SizeError(
            f"The explanation takes {len(text) / 1e6:,.0f} MB as text, more than the {LARGEST_FILE // 1_000_000} MB "
            "that can be loaded again. Leave out extras or scores by layer."
        )
    return text


def _read_json(path: Path) -> Any:
    with path.open("rb") as file:
        raw = file.read(LARGEST_FILE + 1)
    if len(raw) > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE // 1_000_000} MB")
    return parse_json(raw, error=InputError, name=f"'{path}' is damaged and")


# Parquet: one row per token with the columns a data tool wants, everything else as JSON in the file's metadata.
_COLUMNS = {"id": "ids", "type_id": "type_ids", "segment": "segments", "special": "special", "word": "word_ids"}


def _write_parquet(explanation: Explanation, path: Path) -> None:
    require("pyarrow", "corpus", "Writing Parquet files", instead="or save a .json file")
    import pyarrow as pa
    import pyarrow.parquet as pq

    record = to_record(explanation)
    encoding = record["encoding"]
    columns: dict[str, Any] = {"token": record.pop("tokens"), "score": explanation.scores}
    record.pop("scores")
    for column, name in _COLUMNS.items():
        del encoding[name]
        columns[column] = getattr(explanation.encoding, name)
    del encoding["offsets"]
    columns["start"], columns["end"] = explanation.encoding.offsets[:, 0], explanation.encoding.offsets[:, 1]
    if explanation.layers is not None:
        record["layers"] = len(explanation.layers)
        columns |= {f"layer_{layer}": row for layer, row in enumerate(explanation.layers)}
    metadata = _check_size(json.dumps(record, allow_nan=False))
    table = pa.table(columns).replace_schema_metadata({_METADATA_KEY: metadata.encode()})
    with replacing(path) as part:
        # No dictionaries: they would fold −0.0 into 0.0. Checksums find a damaged page when reading.
        pq.write_table(table, part, use_dictionary=False, compression="zstd", write_page_checksum=True)


def _read_parquet(path: Path) -> Any:
    require("pyarrow", "corpus", "Reading Parquet files")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            metadata = (file.schema_arrow.metadata or {}).get(_METADATA_KEY)
            if metadata is None:
                return None
            record = parse_json(metadata, error=InputError, name=f"'{path}' is damaged and its metadata")
            if not isinstance(record, dict) or record.get("format") != FORMAT or is_newer(record["version"], VERSION):
                return record
            if file.metadata.num_rows > _MOST_TOKENS or file.metadata.num_columns > _MOST_COLUMNS:
                raise ValueError(f"it has {file.metadata.num_rows:,} rows and {file.metadata.num_columns:,} columns")
            if any(pa.types.is_nested(field.type) for field in file.schema_arrow):
                raise ValueError("it has columns of lists")
            table = file.read()
        return _add_columns(record, table)
    except pa.ArrowException as error:
        raise ValueError(first_line(error)) from None


def _add_columns(record: dict[str, Any], table: Any) -> dict[str, Any]:
    """Return the record of the metadata with what the columns hold."""

    def column(name: str, kinds: str) -> NDArray[Any]:
        values: NDArray[Any] = table.column(name).to_numpy()
        if values.dtype.kind not in kinds or table.column(name).null_count:
            raise ValueError(f"the column '{name}' does not hold one number per token")
        return values

    record["tokens"] = table.column("token").to_pylist()
    record["scores"] = column("score", "f")
    encoding = check_object(record["encoding"], "encoding")
    for name, field in _COLUMNS.items():
        encoding[field] = column(name, "b" if name == "special" else "i")
    encoding["offsets"] = np.stack([column("start", "i"), column("end", "i")], axis=1)
    if record["layers"] is not None:
        count = check_whole(record["layers"], "layers", 1, table.num_columns)
        stack = np.stack([column(f"layer_{layer}", "f") for layer in range(count)])
        record["layers"] = {"dtype": stack.dtype.str, "shape": list(stack.shape), "values": stack.ravel()}
    return record
