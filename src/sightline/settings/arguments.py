"""Checks of the arguments that users pass: counts, layers, heads, positions, seeds and choices.

Each function returns the argument in the form that the code uses, or raises an error with one sentence that names the
argument, the value and what is allowed.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sightline.errors import OptionError, SightlineError
from sightline.registry import suggestion

T = TypeVar("T")
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
            refuse_unused({"check_budget": check_budget}, "belongs to the check: add check=True.")
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
