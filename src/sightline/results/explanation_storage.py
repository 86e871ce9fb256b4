"""The stored form of an explanation and of its parts: target, prediction, document, scores.

An explanation is one file: JSON for people and other languages, Parquet for data tools; both exact, without code.

Every float is written in full (JSON: the shortest decimal that reads back to the same bits; Parquet: the bits) with its
number type beside it, so that `read(write(x))` gives x bit for bit.

A saved file may come from an untrusted source. `ExplanationRecord` checks everything in it before an `Explanation` is
built, so that whatever loads can also be shown and saved again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, ConfigDict, Field

from sightline.errors import InputError, OptionError, SizeError, UsageError
from sightline.files.foreign import check_regular, first_line
from sightline.files.writing import replacing, write_whole
from sightline.methods.layer_kind import LayerKind
from sightline.models.target import Ends, Prediction, Quantity, Target
from sightline.results.check import Check, Exchange
from sightline.results.records import (
    ABOVE_ONE,
    LARGEST_FILE,
    LARGEST_WHOLE,
    ArrayRecord,
    Derived,
    FileRecord,
    FloatArrayRecord,
    FloatType,
    JsonObject,
    Listed,
    Record,
    Share,
    Whole,
    read_bytes,
    reading,
    to_array,
    to_plain,
)
from sightline.results.verdict import read_checks
from sightline.settings.extras import require
from sightline.text import Encoding
from sightline.text.encoding import Windows
from sightline.text.words import Word

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation


class TargetRecord(Record):
    """The quantity that is explained; `description` states it in words."""

    index: Whole | None
    label: str
    contrast: Whole | None
    contrast_label: str | None
    quantity: Quantity
    position: Whole | None
    span: tuple[Whole, Whole] | None
    ends: Ends
    window: Whole | None
    description: str

    @staticmethod
    def plain(target: Target) -> dict[str, Any]:
        """Return the record of a target as plain values."""
        names = [name for name in TargetRecord.model_fields if name != "description"]
        values = {name: getattr(target, name) for name in names}
        plain: dict[str, Any] = to_plain({**values, "description": target.description()})
        return plain

    def target(self, n: int) -> Target:
        """Return the target in a document of n tokens."""
        first, last = self.span or (0, 0)
        if not 0 <= first <= last < n:
            raise ValueError(f"target.span must be a range within the {n} tokens")
        for name, place in (("position", self.position), ("window", self.window)):
            if place is not None and place >= n:
                raise ValueError(f"target.{name} must be a whole number from 0 to {n - 1}, not {place}")
        return Target(**{name: getattr(self, name) for name in TargetRecord.model_fields if name != "description"})


class PredictionRecord(Record):
    """What the model predicted; the arrays have one entry per class."""

    index: Whole
    label: str
    probability: Share
    labels: list[str] = Field(min_length=1)
    probabilities: FloatArrayRecord
    logits: FloatArrayRecord

    @staticmethod
    def plain(prediction: Prediction) -> dict[str, Any]:
        """Return the record of a prediction as plain values."""
        return {
            "index": prediction.index,
            "label": prediction.label,
            "probability": prediction.probability,
            "labels": list(prediction.labels),
            "probabilities": ArrayRecord.plain(prediction.probabilities),
            "logits": ArrayRecord.plain(prediction.logits),
        }

    def prediction(self) -> Prediction:
        """Return the prediction."""
        shape = (len(self.labels),)
        probabilities = self.probabilities.array("prediction.probabilities", shape)
        if probabilities.min() < 0 or probabilities.max() > 1 + ABOVE_ONE:
            raise ValueError("prediction.probabilities must be from 0 to 1")
        logits = self.logits.array("prediction.logits", shape)
        return Prediction(self.index, self.label, self.probability, tuple(self.labels), logits, probabilities)


class EncodingRecord(Record):
    """Where each of the n tokens is in the text; offsets count Unicode characters."""

    text: str
    pair: str | None
    ids: Listed[Whole]
    type_ids: Listed[Whole]
    offsets: Listed[tuple[Whole, Whole]]
    segments: Listed[Literal[-1, 0, 1]] = Field(description="0 text, 1 pair, -1 special token.")
    special: Listed[bool]
    word_ids: Listed[Annotated[int, Field(ge=-1, le=LARGEST_WHOLE)]]
    words: Listed[tuple[Whole, Whole, Literal[0, 1]]] = Field(description="Start, end and segment of every word.")
    dropped: Whole
    global_tokens: Listed[Whole] | None
    windows: Windows | None
    vocabulary: str | None

    @staticmethod
    def plain(encoding: Encoding) -> dict[str, Any]:
        """Return the record of an encoding as plain values."""
        values = {name: getattr(encoding, name) for name in EncodingRecord.model_fields}
        words = [[word.start, word.end, word.segment] for word in encoding.words]  # the characters are in the text
        plain: dict[str, Any] = to_plain({**values, "words": words})
        return plain

    def encoding(self, tokens: list[str]) -> Encoding:
        """Return the document; every token, word and position must lie inside it."""
        texts = [self.text] if self.pair is None else [self.text, self.pair]
        n = len(tokens)
        for name in ("ids", "type_ids", "offsets", "segments", "special", "word_ids"):
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} must have {n} entries, not {len(getattr(self, name))}")
        for place, (start, end, segment) in enumerate(self.words):
            if segment >= len(texts) or not start < end <= len(texts[segment]):
                raise ValueError(f"words[{place}] must be a range of characters of the text")
        if self.global_tokens is not None and max(self.global_tokens, default=0) >= n:
            raise ValueError(f"global_tokens must be whole numbers from 0 to {n - 1}")
        self._check_places(tokens, texts)
        words = tuple(Word(texts[segment][start:end], start, end, segment) for start, end, segment in self.words)
        plain = {name: getattr(self, name) for name in EncodingRecord.model_fields}
        try:
            return Encoding(**{**plain, "tokens": tuple(tokens), "words": words})
        except InputError as error:
            raise ValueError(str(error)) from None

    def _check_places(self, tokens: list[str], texts: list[str]) -> None:
        """Raise ValueError unless every token is where the record says, and specials have no place in the text."""
        words = [(segment, start, end) for start, end, segment in self.words]
        if any(after < (before[0], before[2]) for before, after in pairwise(words)):
            raise ValueError("words must be in the order of the text and must not overlap")
        rows = zip(tokens, self.special, self.segments, self.offsets, self.word_ids, strict=True)
        for position, (token, special, segment, (start, end), word) in enumerate(rows):
            if special != (segment == -1) or segment >= len(texts):
                raise ValueError("segments must be -1 for special tokens, 0 for the text and 1 for its pair")
            if word >= len(words):
                raise ValueError(f"token {position} belongs to word {word} of {len(words)}")
            if special:
                if (start, end, word) != (0, 0, -1):
                    raise ValueError(f"token {position} is special and must have no place in the text")
            elif not start <= end <= len(texts[segment]) or texts[segment][start:end] != token:
                raise ValueError(f"token {position} is not at characters {start}-{end} of the text")
            elif word >= 0 and words[word][0] != segment:
                raise ValueError(f"token {position} belongs to a word of the other text")


class ScoresRecord(FileRecord):
    """The scores of one method for one target, and how far to trust them."""

    FORMAT = "sightline-explanation"
    CONTENT = "an explanation"

    method: str
    signed: bool = Field(
        description="Whether the sign means for (+) or against (−) the target; otherwise scores are magnitudes."
    )
    target: TargetRecord
    prediction: PredictionRecord
    verdict: Derived = None
    checks: Annotated[JsonObject, AfterValidator(read_checks)]
    check: Check | None = None
    exchange: Exchange | None = None
    options: JsonObject
    provenance: JsonObject
    scores: Listed[float]
    scores_dtype: FloatType
    layers: FloatArrayRecord | None
    layer_kind: LayerKind | None
    extras: dict[str, ArrayRecord] = Field(max_length=1_000)
    words: Derived = None
    sentences: Derived = None
    paragraphs: Derived = None
    artefacts: Derived = None
    headline: Derived = None
    notices: Derived = None
    strongest: Derived = None

    def arguments(self, encoding: Encoding) -> dict[str, Any]:
        """Return the arguments of the `Explanation` of a document; raise ValueError if they do not fit it."""
        n = len(encoding)
        if self.check is not None:
            self.check.require_words(encoding)
        if self.exchange is not None:
            self.exchange.require_tokens(n)
        return {
            "method": self.method,
            "signed": self.signed,
            "target": self.target.target(n),
            "prediction": self.prediction.prediction(),
            "checks": self.checks,
            "options": self.options,
            "provenance": self.provenance,
            "scores": to_array(self.scores, self.scores_dtype, "scores", n),
            "layers": None if self.layers is None else self.layers.array("layers", (None, n)),
            "layer_kind": self.layer_kind,
            "extras": {name: array.array(f"extras.{name}") for name, array in self.extras.items()},
            "encoding": encoding,
            "check": self.check,
            "exchange": self.exchange,
        }


class DocumentRecord(Record):
    """A document: its tokens as a person sees them, and where they are in the text."""

    tokens: Listed[str]
    encoding: EncodingRecord

    @staticmethod
    def plain(encoding: Encoding) -> dict[str, Any]:
        """Return the record of a document as plain values."""
        return {"tokens": list(encoding.tokens), "encoding": EncodingRecord.plain(encoding)}

    def document(self) -> Encoding:
        """Return the document."""
        return self.encoding.encoding(self.tokens)


class ExplanationRecord(DocumentRecord, ScoresRecord):
    """Everything in an explanation, as `Explanation.save` and `to_dict` write it."""


SUFFIXES = (".json", ".parquet")
_METADATA_KEY = b"sightline"
_MOST_VALUES = LARGEST_FILE // 10
"""Numbers in a Parquet file: about as many as the largest JSON file holds."""


def to_jsonable(value: Any, where: str) -> Any:
    """Return `value` as JSON can hold it: NumPy scalars and arrays, tuples and paths become ordinary values.

    A number that is not finite or an object of another kind raises OptionError, so that nothing is lost silently.
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
        return [to_jsonable(element, where) for element in value]
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(element, f"{where}['{key}']") for key, element in value.items()}
    if isinstance(value, Path):
        return str(value)
    raise OptionError(f"{where} is a {type(value).__name__}, which cannot be kept with an explanation.")


def to_record(explanation: Explanation, *, document: bool = True) -> dict[str, Any]:
    """Return everything in an explanation as plain values, without its document if that is kept elsewhere."""
    return {
        **ScoresRecord.header(),
        "method": explanation.method,
        "signed": explanation.signed,
        "target": TargetRecord.plain(explanation.target),
        "prediction": PredictionRecord.plain(explanation.prediction),
        "verdict": explanation.verdict.to_dict(),
        "checks": explanation.checks,
        **({} if explanation.check is None else {"check": explanation.check.to_dict()}),
        **({} if explanation.exchange is None else {"exchange": to_plain(explanation.exchange)}),
        "options": explanation.options,
        "provenance": explanation.provenance,
        "scores": explanation.scores.tolist(),
        "scores_dtype": explanation.scores.dtype.str,
        "layers": None if explanation.layers is None else ArrayRecord.plain(explanation.layers),
        "layer_kind": explanation.layer_kind,
        "extras": {name: ArrayRecord.plain(array) for name, array in explanation.extras.items()},
        **(DocumentRecord.plain(explanation.encoding) if document else {}),
    }


def from_record(record: Mapping[str, Any], *, encoding: Encoding | None = None) -> dict[str, Any]:
    """Return the arguments of `Explanation` from a record, using `encoding` if given.

    A damaged record raises ValueError, saying what is wrong with which entry.
    """
    if encoding is not None:
        return ScoresRecord.read(record).arguments(encoding)
    whole = ExplanationRecord.read(record)
    return whole.arguments(whole.document())


def to_json(explanation: Explanation) -> str:
    """Return the record as one line of JSON in ASCII, which any program can read."""
    return json.dumps(to_record(explanation), allow_nan=False)


def write(explanation: Explanation, path: Path) -> None:
    """Write an explanation to a `.json` or `.parquet` file, completely or not at all."""
    if _suffix(path) == ".json":
        write_whole(path, _check_size(to_json(explanation) + "\n"))
    else:
        _write_parquet(explanation, path)


def read(path: Path) -> dict[str, Any]:
    """Return the arguments of the `Explanation` in a file, or raise InputError saying why it cannot be read."""
    name, suffix = f"'{path}'", _suffix(path)
    check_regular(path, InputError)
    with reading(name):
        content = read_bytes(path) if suffix == ".json" else _read_parquet(path)
        record = ExplanationRecord.read_file(content, name)
        return record.arguments(record.document())


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"An explanation is kept in a .json or .parquet file, not '{path.name}'.")
    return suffix


def _check_size(text: str) -> str:
    """Return the text unchanged; raise SizeError if the file would be too large to load again."""
    if len(text) > LARGEST_FILE:
        raise SizeError(
            f"The explanation takes {len(text) / 1e6:,.0f} MB as text, more than the {LARGEST_FILE // 1_000_000} MB "
            "that can be loaded again. Leave out extras or scores by layer."
        )
    return text


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


def _read_parquet(path: Path) -> bytes:
    """Return the record in a Parquet file as JSON."""
    require("pyarrow", "corpus", "Reading Parquet files")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            metadata: bytes = (file.schema_arrow.metadata or {}).get(_METADATA_KEY, b"{}")
            header = _Columns.read_file(metadata, f"'{path}'")
            if file.metadata.num_rows * file.metadata.num_columns > _MOST_VALUES:
                raise ValueError(f"it has {file.metadata.num_rows:,} rows and {file.metadata.num_columns:,} columns")
            if any(pa.types.is_nested(field.type) for field in file.schema_arrow):
                raise ValueError("it has columns of lists")
            table = file.read()
    except pa.ArrowException as error:
        raise ValueError(first_line(error)) from None
    return json.dumps(_add_columns(json.loads(metadata), header, table)).encode()


class _Columns(FileRecord):
    """Header of a Parquet file: how its columns become entries of the record."""

    model_config = ConfigDict(extra="ignore")
    FORMAT, CONTENT = ScoresRecord.FORMAT, ScoresRecord.CONTENT

    encoding: JsonObject
    layers: Annotated[int, Field(ge=1, le=_MOST_VALUES)] | None


def _add_columns(record: dict[str, Any], header: _Columns, table: Any) -> dict[str, Any]:
    """Return the record of the metadata with what the columns hold."""

    def column(name: str, kinds: str) -> NDArray[Any]:
        values: NDArray[Any] = table.column(name).to_numpy()
        if values.dtype.kind not in kinds or table.column(name).null_count:
            raise ValueError(f"the column '{name}' does not hold one number per token")
        return values

    try:
        offsets = np.stack([column("start", "i"), column("end", "i")], axis=1)
        names = {field: column(name, "b" if name == "special" else "i").tolist() for name, field in _COLUMNS.items()}
        added = {"tokens": table.column("token").to_pylist(), "scores": column("score", "f").tolist()}
        if header.layers is not None:
            rows = [column(f"layer_{layer}", "f") for layer in range(min(header.layers, table.num_columns))]
            added["layers"] = ArrayRecord.plain(np.stack(rows))
    except KeyError as error:
        raise ValueError(f"{error.args[0]}") from None
    return {**record, **added, "encoding": {**header.encoding, **names, "offsets": offsets.tolist()}}
