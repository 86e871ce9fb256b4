"""Values and the types that are declared for them: does a value fit, what fits in words, and a value from text.

Options of methods are annotated parameters, settings are annotated fields; the same functions check both.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, Union, get_args, get_origin

from sightline.errors import UsageError

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "nothing"}
_ITEMS = {int: "whole numbers", str: "names"}


def fits(value: Any, kind: Any) -> bool:
    """Whether `value` is accepted where the annotation is `kind`; numbers of numpy count as numbers."""
    if kind is Any:
        return True
    origin, parts = get_origin(kind), get_args(kind)
    is_array = hasattr(value, "__array__") and bool(getattr(value, "ndim", 0))
    if origin is Literal:
        return not is_array and value in parts  # an array would be compared entry by entry
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if _is_kind_of(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(item, parts[1]) for item in value.values())
    if _is_kind_of(origin, Sequence):
        if is_array or not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return is_array
        kinds = parts if origin is tuple and ... not in parts else parts[:1] * len(value)
        return len(value) == len(kinds) and all(map(fits, value, kinds))
    if kind is float:
        return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
    if kind is int:
        return not isinstance(value, bool) and isinstance(value, Integral)
    return isinstance(value, kind)


def describe_type(kind: Any, spell: Callable[[Any], str] = repr) -> str:
    """Return in words which values a type accepts; `spell` writes the choices."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(spell, parts))
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(part, spell) for part in parts)
    if _is_kind_of(origin, Sequence):
        return f"a list of {_ITEMS.get(parts[0], 'numbers')}"
    return "any value" if kind is Any else _NAMES.get(kind, str(kind))


def list_choices(kind: Any) -> list[Any] | None:
    """Return all values a type accepts, or None if they cannot be listed."""
    if kind is bool:
        return [True, False]
    if kind is type(None):
        return [None]
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        parts = [list_choices(part) for part in get_args(kind)]
        return None if None in parts else [choice for part in parts for choice in part or ()]
    return None


def without_none(kind: Any) -> Any:
    """Return the type of the values besides None."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    return Union[tuple(parts)] if type(None) in get_args(kind) else kind  # noqa: UP007  # of a list


def parse_value(text: str, kind: Any) -> Any:
    """Return `text` as a value of type `kind`, or unchanged if it does not fit (the check of the value then fails)."""
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else [kind]
    for part in sorted(parts, key=lambda part: part is float):  # int before float, so that "3" becomes an int
        if part is type(None) and text.lower() in ("none", "null"):
            return None
        if part is bool and text.lower() in ("true", "yes", "false", "no"):
            return text.lower() in ("true", "yes")
        if get_origin(part) is Literal:
            for choice in get_args(part):
                if str(choice) == text:
                    return choice
        if part in (int, float):
            try:
                return part(text)
            except ValueError:
                continue
        if _is_kind_of(get_origin(part), Sequence):
            inner = (get_args(part) or (float,))[0]
            return [parse_value(item.strip(), inner) for item in text.split(",")]
    return text


def split_names(given: Sequence[str]) -> tuple[str, ...]:
    """Return the names from repeated options and from lists such as "attcat,rollout", each once, in order."""
    names = tuple(dict.fromkeys(name.strip() for part in given for name in part.split(",") if name.strip()))
    if not names:
        raise UsageError(f"'{' '.join(given)}' contains no name: give one name, or several separated by commas.")
    return names


def split_assignments(given: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return method -> option -> text from "method.key=value"; under "", those of "key=value", for every method."""
    options: dict[str, dict[str, str]] = {}
    for assignment in given:
        key, equals, text = assignment.partition("=")
        owner, _, name = key.strip().rpartition(".")
        if not equals or not name:
            raise UsageError(f"--option {assignment} is not of the form key=value.")
        options.setdefault(owner, {})[name] = text.strip()
    return options


def parse_positions(text: str) -> tuple[int, ...]:
    """Return token positions from "0,17,42"."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--global-tokens {text} is not a list of token positions such as 0,17,42.") from None


def _is_kind_of(origin: Any, base: type) -> bool:
    return isinstance(origin, type) and issubclass(origin, base)
