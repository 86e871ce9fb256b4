"""Checks of values that were read from a saved file, before anything is built from them.

Every function returns the value with its type if it is what it must be, and otherwise raises ValueError with a phrase
that says where it is and what is wrong: "prediction.probability must be a number from 0 to 1, not 7". Nothing is
converted on the way: "1" is not a number, 1.0 is not a whole number, and true is neither.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.files.foreign import quote

LARGEST_WHOLE = 2**64
ABOVE_ONE = 1e-5
"""By how much rounding may lift a share or a probability above 1."""
MOST_DIMENSIONS = 8
_DTYPES = frozenset(
    {"|b1", "|i1", "|u1"}
    | {f"{order}{kind}{size}" for order in "<>" for kind in "iu" for size in (2, 4, 8)}
    | {f"{order}f{size}" for order in "<>" for size in (2, 4, 8)}
)
"""The number types that arrays are saved with."""
_PYTHON_TYPES: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {float, int}}
_NAMES = {"b": "true and false", "i": "whole numbers", "u": "whole numbers", "f": "numbers"}


def check_object(value: Any, where: str, keys: Collection[str] | None = None) -> dict[str, Any]:
    """Return a JSON object, which must have exactly these keys if they are given."""
    if not isinstance(value, dict):
        raise _wrong(value, where, "an object")
    if keys is not None and set(value) != set(keys):
        missing, unknown = sorted(set(keys) - set(value)), sorted(set(value) - set(keys))
        raise ValueError(
            f"{where} lacks '{missing[0]}'" if missing else f"{where} has an unknown entry '{quote(unknown[0])}'"
        )
    return value


def check_list(value: Any, where: str, size: int | None = None) -> list[Any]:
    """Return a list, of this many entries if `size` is given."""
    if not isinstance(value, list):
        raise _wrong(value, where, "a list")
    if size is not None and len(value) != size:
        raise ValueError(f"{where} must have {size} entries, not {len(value)}")
    return value


def check_text(value: Any, where: str) -> str:
    """Return a text that can be written as UTF-8."""
    if not isinstance(value, str):
        raise _wrong(value, where, "a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where} contains half of a surrogate pair, which is not a character") from None
    return value


def check_texts(value: Any, where: str, size: int | None = None) -> list[str]:
    """Return a list of texts."""
    return [check_text(entry, f"{where}[{place}]") for place, entry in enumerate(check_list(value, where, size))]


def check_whole(value: Any, where: str, low: int = 0, high: int = LARGEST_WHOLE) -> int:
    """Return a whole number from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        limits = f"from {low:,} up" if high == LARGEST_WHOLE else f"from {low:,} to {high:,}"
        raise _wrong(value, where, f"a whole number {limits}")
    return value


def check_number(value: Any, where: str, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a finite number from `low` to `high`."""
    if type(value) not in (int, float) or abs(value) == math.inf or not low <= value <= high:
        limits = "" if low == -math.inf else f" from {low:g}" + (" up" if high == math.inf else f" to {high:g}")
        raise _wrong(value, where, f"a finite number{limits}")
    check_plain(value, where)
    return value if isinstance(value, float) else float(value)


def check_flag(value: Any, where: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise _wrong(value, where, "true or false")
    return value


def check_choice(value: Any, where: str, choices: Collection[str]) -> str:
    """Return one of these texts."""
    if not isinstance(value, str) or value not in choices:
        raise _wrong(value, where, f"one of {', '.join(choices)}")
    return value


def check_plain(value: Any, where: str) -> Any:
    """Return any JSON value whose texts can be written and whose numbers are finite and of at most 64 bits."""
    if isinstance(value, str):
        return check_text(value, where)
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(value, where, "a finite number")
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise _wrong(value, where, "a number of at most 64 bits")
    if isinstance(value, Mapping):
        for name, entry in value.items():
            check_plain(entry, f"{where}.{quote(check_text(name, where))}")
    if isinstance(value, list):
        for place, entry in enumerate(value):
            check_plain(entry, f"{where}[{place}]")
    return value


def is_newer(version: Any, newest: int) -> bool:
    """Whether a file has a later format than `newest`; raise ValueError if the version is not a version number."""
    return check_whole(version, "version", 1) > newest


def read_numbers(values: Any, dtype: Any, where: str, size: int | None = None) -> NDArray[Any]:
    """Return a list of numbers (or an array of another file format) as an array (size,) of one of the saved types."""
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _wrong(dtype, f"the number type of {where}", "one of those that are saved, such as '<f4'")
    kind = np.dtype(dtype)
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind not in "biuf":
            raise ValueError(f"{where} must be a list of {_NAMES[kind.kind]}")
    elif not set(map(type, check_list(values, where))) <= _PYTHON_TYPES[kind.kind]:
        raise ValueError(f"{where} must be a list of {_NAMES[kind.kind]}")
    if size is not None and len(values) != size:
        raise ValueError(f"{where} must have {size} entries, not {len(values)}")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.array(values, dtype=kind)
    except OverflowError:
        raise ValueError(f"{where} holds a number that is too large for {kind}") from None
    if kind.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{where} must hold finite numbers")
    return array


def read_array(record: Any, where: str, shape: tuple[int | None, ...] | None = None) -> NDArray[Any]:
    """Return an array from its saved form {"dtype", "shape", "values"}; None in `shape` stands for any length."""
    content = check_object(record, where, ("dtype", "shape", "values"))
    lengths = check_list(content["shape"], f"{where}.shape")
    if len(lengths) > MOST_DIMENSIONS:
        raise ValueError(f"{where} has {len(lengths)} dimensions")
    for length in lengths:
        check_whole(length, f"{where}.shape")
    if shape is not None and (
        len(lengths) != len(shape)
        or any(want is not None and length != want for length, want in zip(lengths, shape, strict=True))
    ):
        expected = " × ".join("any" if want is None else str(want) for want in shape)
        raise ValueError(f"{where} has the shape {quote(' × '.join(map(str, lengths)))}, expected {expected}")
    return read_numbers(content["values"], content["dtype"], where, math.prod(lengths)).reshape(lengths)


def _wrong(value: Any, where: str, expected: str) -> ValueError:
    return ValueError(f"{where} must be {expected}, not {quote(value)}")
