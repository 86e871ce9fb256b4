"""Parse values from the command line: method options, token positions, shares."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

from sightline.errors import OptionError, UsageError


def split_names(given: Sequence[str]) -> list[str]:
    """Return the names from repeated options and from lists such as "attcat,rollout", each once, in order."""
    names = list(dict.fromkeys(name.strip() for part in given for name in part.split(",") if name.strip()))
    if not names:
        raise UsageError(f"'{' '.join(given)}' contains no name: give one name, or several separated by commas.")
    return names


def method_options(given: Sequence[str], methods: Sequence[str], seed: int | None) -> dict[str, Any]:
    """Return the options of each method from `key=value` (for every method that has it) or `method.key=value`.

    Values are read by the option's type. `seed` goes to the methods that draw random numbers. Everything is checked
    here, before a model is loaded.
    """
    from sightline.methods import METHODS

    entries = {name: METHODS.get(name) for name in methods}
    chosen: dict[str, dict[str, Any]] = {name: {} for name in entries}
    for setting in given:
        key, equals, text = setting.partition("=")
        owner, dot, option = key.strip().rpartition(".")
        if not equals or not option:
            raise UsageError(f"--option {setting} is not of the form key=value.")
        if dot and owner not in entries:
            raise OptionError(f"--option {setting}: the method '{owner}' was not requested; add --method {owner}.")
        takers = [owner] if dot else [name for name, entry in entries.items() if option in entry.options]
        for name in takers or methods[:1]:
            kind = entries[name].option_types.get(option, str)
            chosen[name][option] = parse_value(text.strip(), kind)
    for name, entry in entries.items():
        if seed is not None and "seed" in entry.options:
            chosen[name].setdefault("seed", seed)
        entry.check_options(chosen[name])
    return {name: options for name, options in chosen.items() if options}


def parse_value(text: str, kind: Any) -> Any:
    """Return `text` as a value of type `kind`, or unchanged if it does not fit (the method then raises)."""
    for alternative in _alternatives(kind):
        if alternative is type(None) and text.lower() in ("none", "null"):
            return None
        if alternative is bool and text.lower() in ("true", "yes", "false", "no"):
            return text.lower() in ("true", "yes")
        if get_origin(alternative) is Literal:
            for choice in get_args(alternative):
                if str(choice) == text:
                    return choice
        if alternative in (int, float):
            try:
                return alternative(text)
            except ValueError:
                continue
        if isinstance(get_origin(alternative), type) and issubclass(get_origin(alternative), Sequence):
            inner = (get_args(alternative) or (float,))[0]
            return [parse_value(part.strip(), inner) for part in text.split(",")]
    return text


def _alternatives(kind: Any) -> list[Any]:
    """Return the members of a union, int before float, so that "3" becomes an int."""
    parts = list(get_args(kind)) if get_origin(kind) in (Union, types.UnionType) else [kind]
    return sorted(parts, key=lambda part: part is float)


def parse_positions(text: str | None) -> list[int] | None:
    """Return token positions from "0,17,42"."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--global-tokens {text} is not a list of token positions such as 0,17,42.") from None


def parse_counts(option: str, text: str | None) -> list[int] | None:
    """Return whole numbers of at least 1 from "5,10,20"."""
    if text is None:
        return None
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise UsageError(f"{option} {text} is not a list of whole numbers from 1 up, such as 5,10,20.")
    return list(dict.fromkeys(counts))


def parse_shares(text: str | None) -> list[float] | None:
    """Return shares from "0,0.1,0.5" or "0,10%,50%"."""
    if text is None:
        return None
    try:
        return [
            float(part.rstrip().removesuffix("%")) / 100 if part.rstrip().endswith("%") else float(part)
            for part in text.split(",")
        ]
    except ValueError:
        raise UsageError(f"--ratios {text} is not a list of shares such as 0,0.1,0.5 or 0,10%,50%.") from None


def parse_strengths(text: str) -> list[float]:
    """Return the values of λ from "0.1,1,10"."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--strengths {text} is not a list of numbers such as 0.1,1,10.") from None
