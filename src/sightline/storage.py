"""One explanation, one file: JSON for people and other languages, Parquet for data tools; both exact, neither executes.

Every float is written in full (JSON: the shortest decimal that reads back to the same bits; Parquet: the bits) with its
number type beside it, so that `read(write(x))` gives x bit for bit. The version number rises when a reader of today
could misread the file; a newer file is refused with a sentence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, OptionError, UsageError
from sightline.files import replacing, write_whole
from sightline.models.target import Prediction, Target
from sightline.text import Encoding

if TYPE_CHECKING:
    from sightline.explanation import Explanation

FORMAT = "sightline-explanation"
VERSION = 1
SUFFIXES = (".json", ".parquet")

_METADATA_KEY = b"sightline"


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
        return [plain(one, where) for one in value]
    if isinstance(value, Mapping):
        return {str(key): plain(one, f"{where}['{key}']") for key, one in value.items()}
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

    A damaged record raises KeyError, TypeError or ValueError.
    """
    target = {key: value for key, value in record["target"].items() if key != "description"}
    prediction = record["prediction"]
    return {
        "method": str(record["method"]),
        "signed": bool(record["signed"]),
        "target": Target.from_dict(target),
        "prediction": Prediction(
            index=int(prediction["index"]),
            label=str(prediction["label"]),
            probability=float(prediction["probability"]),
            labels=tuple(prediction["labels"]),
            probabilities=_array(prediction["probabilities"]),
            logits=_array(prediction["logits"]),
        ),
        "checks": dict(record["checks"]),
        "options": dict(record["options"]),
        "provenance": dict(record["provenance"]),
        "scores": np.array(record["scores"], dtype=np.dtype(record["scores_dtype"])),
        "layers": None if record["layers"] is None else _array(record["layers"]),
        "layer_kind": record.get("layer_kind"),
        "extras": {name: _array(one) for name, one in record["extras"].items()},
        "encoding": encoding or Encoding.from_dict({**record["encoding"], "tokens": record["tokens"]}),
        "removal": record.get("removal"),
    }


def to_json(explanation: Explanation) -> str:
    """Return the record as one line of JSON in ASCII, which any program reads whatever the document holds."""
    return json.dumps(to_record(explanation), allow_nan=False)


def write(explanation: Explanation, path: Path) -> None:
    """Write an explanation to a `.json` or `.parquet` file, wholly or not at all."""
    if _suffix(path) == ".json":
        write_whole(path, to_json(explanation) + "\n")
    else:
        _write_parquet(explanation, path)


def read(path: Path) -> dict[str, Any]:
    """Return the arguments of the `Explanation` in a file, or say why it cannot be read."""
    read_record = _read_json if _suffix(path) == ".json" else _read_parquet
    try:
        record = read_record(path)
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InputError(f"'{path}' is not an explanation saved by Sightline.")
        version = record.get("version")
        if isinstance(version, int) and version > VERSION:
            raise InputError(
                f"'{path}' was written by a newer Sightline (format {version}, this one reads up to {VERSION}). "
                "Update Sightline to read it."
            )
        return from_record(record)
    except FileNotFoundError:
        raise InputError(f"There is no file '{path}'.") from None
    except OSError as error:
        reason = (error.strerror or "it is damaged").lower()
        raise InputError(f"Cannot read '{path}': {reason}.") from None
    except KeyError as error:
        raise InputError(f"'{path}' is damaged: {error} is missing.") from None
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(f"'{path}' is damaged: {str(error).rstrip('.')}.") from None


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"An explanation is kept in a .json or .parquet file, not '{path.name}'.")
    return suffix


def _array_record(array: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape), "values": array.ravel().tolist()}


def _array(record: Mapping[str, Any]) -> NDArray[Any]:
    return np.array(record["values"], dtype=np.dtype(record["dtype"])).reshape(record["shape"])


def _read_json(path: Path) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a number an explanation can hold")

    return json.loads(path.read_bytes(), parse_constant=refuse)


# Parquet: one row a token with the columns a data tool wants, everything else as JSON in the file's metadata.
_COLUMNS = {"id": "ids", "type_id": "type_ids", "segment": "segments", "special": "special", "word": "word_ids"}


def _write_parquet(explanation: Explanation, path: Path) -> None:
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
    table = pa.table(columns).replace_schema_metadata({_METADATA_KEY: json.dumps(record, allow_nan=False).encode()})
    with replacing(path) as part:
        # No dictionaries: they would fold −0.0 into 0.0. Checksums find a damaged page when reading.
        pq.write_table(table, part, use_dictionary=False, compression="zstd", write_page_checksum=True)


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(str(error).splitlines()[0].rstrip(".")) from None
    metadata = (table.schema.metadata or {}).get(_METADATA_KEY)
    if metadata is None:
        return None
    record = json.loads(metadata)
    if record.get("version") != VERSION:
        return record
    columns = {name: table.column(name) for name in table.column_names}
    record["tokens"] = columns["token"].to_pylist()
    record["scores"] = columns["score"].to_numpy()
    encoding = record["encoding"]
    for column, name in _COLUMNS.items():
        encoding[name] = columns[column].to_numpy()
    encoding["offsets"] = np.stack([columns["start"].to_numpy(), columns["end"].to_numpy()], axis=1)
    if record["layers"] is not None:
        stack = np.stack([columns[f"layer_{layer}"].to_numpy() for layer in range(record["layers"])])
        record["layers"] = {"dtype": stack.dtype.str, "shape": stack.shape, "values": stack}
    return record
