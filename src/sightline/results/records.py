"""The stored form of results: one class per object, which is checked completely before anything is built from it.

JSON is read strictly: "1" is not a number, 1.0 is not a whole number, and true is neither. Missing and unknown entries,
numbers that are not finite and numbers outside their range are refused. What relates entries to each other (a token to
its place in the text, an array to its shape) is checked where the record becomes an object. The classes themselves are
in `explanation_storage` and beside what they store; the server describes its answers by them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sightline.errors import InputError, ModelError
from sightline.files.foreign import JSON_DEPTH, check_regular, depth_exceeds, first_line, printable, quote

VERSION = 1
LARGEST_FILE = 200_000_000
"""Bytes of JSON that are read: several times the longest text with the scores of every layer."""
ABOVE_ONE = 1e-5
"""Tolerance by which rounding may raise a share or a probability above 1."""
LARGEST_WHOLE = 2**63 - 1
_LARGEST_NUMBER = 2**64
_MOST_ERRORS = 1_000
"""Most errors of a record of which the first is described."""
_ELEMENTS: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {float, int}}
_ELEMENT_NAMES = {"b": "true and false", "i": "whole numbers", "u": "whole numbers", "f": "numbers"}

FloatType = Literal["<f2", "<f4", "<f8", ">f2", ">f4", ">f8"]
OtherType = Literal[
    "|b1", "|i1", "|u1", "<i2", "<i4", "<i8", ">i2", ">i4", ">i8", "<u2", "<u4", "<u8", ">u2", ">u4", ">u8"
]
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
R = TypeVar("R", bound="Record")
F = TypeVar("F", bound="FileRecord")
T = TypeVar("T")


class Record(BaseModel):
    """One object of JSON."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def read(cls: type[R], content: bytes | str | Mapping[str, Any]) -> R:
        """Return the record in a JSON text or in plain values, arrays included; raise ValueError in one sentence."""
        if isinstance(content, Mapping):
            try:
                content = json.dumps(content, default=_to_list)
            except (TypeError, RecursionError) as error:
                raise ValueError(f"it contains values that JSON cannot represent: {error}") from None
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            raise ValueError(describe(error)) from None

    @classmethod
    def of(cls: type[R], values: Mapping[str, Any]) -> R:
        """Return the record of a row of a table; raise ValueError in one sentence."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ValueError(describe(error)) from None


class _Header(BaseModel):
    """The header of a file."""

    model_config = ConfigDict(strict=True, extra="ignore")

    format: Any = None
    version: Any = None


class FileRecord(Record):
    """The object that a whole file of ours holds; `version` rises when today's code could misread the file."""

    FORMAT: ClassVar[str]
    CONTENT: ClassVar[str]
    """Name of the content in messages."""

    format: str
    version: int = Field(ge=1, le=VERSION)

    @classmethod
    def read_file(cls: type[F], content: bytes, name: str) -> F:
        """Return the record in the JSON of a file called `name`; raise InputError or ValueError if it is none."""
        try:
            header = _Header.model_validate_json(content)
        except ValidationError as error:
            raise ValueError(describe(error)) from None
        if header.format != cls.FORMAT:
            raise InputError(f"{name} is not {cls.CONTENT} saved by Sightline.")
        if type(header.version) is int and header.version > VERSION:
            raise InputError(
                f"{name} was written by a newer Sightline (format {quote(header.version)}, this one reads up to "
                f"{VERSION}). Update Sightline to read it."
            )
        return cls.read(content)

    @classmethod
    def header(cls) -> dict[str, Any]:
        """Return the entries that every record of this kind begins with."""
        return {"format": cls.FORMAT, "version": VERSION}


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what a damaged file called `name` raises inside the block into an InputError."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"There is no file {name}.") from None
    except OSError as error:
        raise InputError(f"Cannot read {name}: {(error.strerror or 'it is damaged').lower()}.") from None
    except (TypeError, ValueError, ModelError) as error:
        raise InputError(f"{name} is damaged: {first_line(error)}") from None


def read_bytes(path: Path, limit: int = LARGEST_FILE) -> bytes:
    """Return the content of a file; raise ValueError if it has more than `limit` bytes."""
    check_regular(path, InputError)
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"it is larger than {limit // 1_000_000} MB")
    return content


def to_plain(value: Any) -> Any:
    """Return a result as plain JSON values: a dataclass as an object, a tuple or an array as a list."""
    return _ANYTHING.dump_python(value, mode="json", fallback=_to_list)


def _to_list(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__}")


def describe(error: ValidationError) -> str:
    """Return what is wrong with a record as a phrase: "prediction.index must be a valid integer, not '5'"."""
    if error.error_count() > _MOST_ERRORS:
        return f"it has more than {_MOST_ERRORS:,} wrong entries"
    first = error.errors(include_url=False)[0]
    where, facts = _place(first["loc"]) or "it", first.get("ctx", {})
    match first["type"]:
        case "json_invalid":
            return f"it is not valid JSON: {printable(facts['error'])}"
        case "missing":
            return f"'{where}' is missing"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"there is an unknown entry '{where}'"
        case "value_error":
            return f"{where} {printable(str(facts['error']))}"
        case "too_short":
            return f"{where} must have at least {facts['min_length']} entries"
        case "too_long":
            return f"{where} must have at most {facts['max_length']} entries"
    given = f"'{quote(first['input'])}'" if isinstance(first["input"], str) else quote(first["input"])
    return f"{where} must be {first['msg'].removeprefix('Input should be ')}, not {given}"


def _place(names: tuple[int | str, ...]) -> str:
    parts = [f"[{name}]" if isinstance(name, int) else f".{quote(name)}" for name in names]
    return "".join(parts).removeprefix(".")


def _check_json(value: Any) -> Any:
    """Return any JSON value whose numbers are finite and of at most 64 bits."""
    if depth_exceeds(value):
        raise ValueError(f"is nested more than {JSON_DEPTH} levels deep")
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, dict | list):
            left += part.values() if isinstance(part, dict) else part
        elif isinstance(part, float) and not math.isfinite(part):
            raise ValueError("must hold finite numbers")
        elif isinstance(part, int) and abs(part) > _LARGEST_NUMBER:
            raise ValueError("must hold numbers of at most 64 bits")
    return value


Whole = Annotated[int, Field(ge=0, le=LARGEST_WHOLE)]
Share = Annotated[float, Field(ge=0, le=1 + ABOVE_ONE)]
Size = Annotated[float, Field(ge=0)]
Json = Annotated[Any, AfterValidator(_check_json)]
JsonObject = Annotated[dict[str, Any], AfterValidator(_check_json)]
Derived = Annotated[Any, Field(description="Follows from the other entries; not read.")]
Listed = Annotated[list[T], Field(fail_fast=True)]
"""A list of which only the first mistake is reported."""


class ArrayRecord(Record):
    """An array of any number of dimensions; its values in C order."""

    dtype: FloatType | OtherType = Field(description="Number type as NumPy writes it.")
    shape: list[Whole] = Field(max_length=8)
    values: list[Any] = Field(description="Numbers, or true and false.")

    def array(self, where: str, shape: tuple[int | None, ...] | None = None) -> NDArray[Any]:
        """Return the array, which must have this shape if it is given; None stands for any length."""
        if shape is not None and (
            len(self.shape) != len(shape)
            or any(want is not None and length != want for length, want in zip(self.shape, shape, strict=True))
        ):
            expected = " × ".join("any" if want is None else str(want) for want in shape)
            raise ValueError(f"{where} has the shape {quote(' × '.join(map(str, self.shape)))}, expected {expected}")
        return to_array(self.values, self.dtype, where, math.prod(self.shape)).reshape(self.shape)

    @staticmethod
    def plain(array: NDArray[Any]) -> dict[str, Any]:
        """Return the record of an array as plain values."""
        return {"dtype": array.dtype.str, "shape": list(array.shape), "values": array.ravel().tolist()}


class FloatArrayRecord(ArrayRecord):
    """An array of floating-point numbers."""

    dtype: FloatType
    values: Listed[float]


def to_array(values: list[Any], dtype: str, where: str, size: int) -> NDArray[Any]:
    """Return numbers as an array (size,) of one of the saved types."""
    kind = np.dtype(dtype)
    if not set(map(type, values)) <= _ELEMENTS[kind.kind]:
        raise ValueError(f"{where} must be a list of {_ELEMENT_NAMES[kind.kind]}")
    if len(values) != size:
        raise ValueError(f"{where} must have {size} entries, not {len(values)}")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.array(values, dtype=kind)
    except OverflowError:
        raise ValueError(f"{where} holds a number that is too large for {kind}") from None
    if kind.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{where} must hold finite numbers")
    return array
