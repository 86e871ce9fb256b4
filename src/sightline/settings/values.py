"""Checks of options and arguments: values against declared types and bounds, types in words, values from text.

Options of methods are annotated parameters, settings are annotated fields; the same functions check both.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from sightline.errors import OptionError, SightlineError, UsageError
from sightline.registry import suggestion

T = TypeVar("T")
N = TypeVar("N", int, float)
LARGEST_SEED = 2**32 - 1


def check_count(name: str, value: Any, least: int | None = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `least` (None for no bound)."""
    number = _whole(value)
    if number is None or (least is not None and number < least):
        bound = "" if least is None else f" of at least {least}"
        raise OptionError(f"{name} must be a whole number{bound}, not {value!r}.")
    return number


def check_fraction(name: str, value: float) -> float:
    """Return `value` if it lies strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise OptionError(f"{name} must lie strictly between 0 and 1, not {value!r}.")
    return float(value)


def check_seed(seed: Any) -> int:
    """Return the seed if every random generator that is used accepts it."""
    number = _whole(seed)
    if number is None or not 0 <= number <= LARGEST_SEED:
        raise OptionError(f"seed must be a whole number from 0 to {LARGEST_SEED}, not {seed!r}.")
    return number


def check_layer(layer: Any, layers: int) -> int:
    """Return the number of a layer, from 0; a negative one counts from the top."""
    number = _whole(layer)
    return check_index("Layer", layer if number is None or number >= 0 else number + layers, layers, given=layer)


def check_head(head: Any, heads: int) -> int:
    """Return the number of a head, from 0."""
    return check_index("Head", head, heads)


def check_position(
    position: Any, tokens: int, noun: str = "Token", *, error: type[SightlineError] = OptionError
) -> int:
    """Return a token position, from 0."""
    return check_index(noun, position, tokens, "the document", error=error)


def check_index(
    noun: str,
    value: Any,
    count: int,
    owner: str = "the model",
    *,
    given: Any = None,
    error: type[SightlineError] = OptionError,
) -> int:
    """Return `value` as an int if it is one of the numbers 0 … count - 1 of what `owner` has.

    `given` is what the user wrote where that differs from `value`.
    """
    number = _whole(value)
    if number is None:
        raise error(f"{noun} must be a whole number, not {value!r}.")
    if not 0 <= number < count:
        shown = number if given is None else given
        raise error(f"{noun} {shown} asked for, {owner} has {count} (0-{count - 1}).")
    return number


def check_one_of(name: str, value: T, known: Sequence[T]) -> T:
    """Return `value` if it is one of the known choices."""
    if value not in known:
        hint = suggestion(str(value), [str(choice) for choice in known])
        raise OptionError(f"{name}={value!r} is not known.{hint} Use one of: {', '.join(map(str, known))}.")
    return value


def refuse_unused(options: Mapping[str, object], reason: str) -> None:
    """Raise OptionError with the reason if one of these options was given (is neither None nor False).

    For options that have no effect together with the others:

        if not check:
            refuse_unused({"check_readings": check_readings}, "belongs to the check: add check=True.")
    """
    for name, value in options.items():
        if value is not None and value is not False:
            raise OptionError(f"{name} {reason}")


def _whole(value: Any) -> int | None:
    """Return `value` as an int if it is a whole number; True and False are not."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


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


def read_numbers(
    flag: str, what: str, read: Callable[[str], N], *, least: float = -math.inf
) -> Callable[[str], tuple[N, ...]]:
    """Return a function that reads the numbers of an option, each once, in order: "0.1,1,10".

    what: the numbers in words, with an example. least: the smallest number that is accepted.
    """

    def read_list(text: str) -> tuple[N, ...]:
        try:
            numbers = tuple(dict.fromkeys(read(part) for part in text.split(",")))
        except ValueError:
            numbers = ()
        if not numbers or min(numbers) < least:
            raise UsageError(f"{flag} {text} is not a list of {what}.")
        return numbers

    return read_list


def _is_kind_of(origin: Any, base: type) -> bool:
    return isinstance(origin, type) and issubclass(origin, base)
