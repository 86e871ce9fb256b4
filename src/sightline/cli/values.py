"""Parse values from the command line: method options, shares, strengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sightline.errors import OptionError, UsageError
from sightline.settings.values import parse_value


def method_options(
    given: Mapping[str, Mapping[str, str]] | None, methods: Sequence[str], seed: int | None
) -> dict[str, Any]:
    """Return the options of each method from what `split_assignments` returns.

    Values are read by the option's type. `seed` goes to the methods that draw random numbers. Everything is checked
    here, before a model is loaded.
    """
    from sightline.methods import METHODS

    entries = {name: METHODS.get(name) for name in methods}
    chosen: dict[str, dict[str, Any]] = {name: {} for name in entries}
    for owner, texts in sorted((given or {}).items()):  # those of every method first
        for option, text in texts.items():
            if owner and owner not in entries:
                raise OptionError(
                    f"--option {owner}.{option}={text}: the method '{owner}' was not requested; add --method {owner}."
                )
            takers = [owner] if owner else [name for name, entry in entries.items() if option in entry.options]
            for name in takers or methods[:1]:
                chosen[name][option] = parse_value(text, entries[name].option_types.get(option, str))
    for name, entry in entries.items():
        if seed is not None and "seed" in entry.options:
            chosen[name].setdefault("seed", seed)
        entry.check_options(chosen[name])
    return {name: options for name, options in chosen.items() if options}


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
