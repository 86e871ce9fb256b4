"""Options of methods from the command line, read and checked by their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sightline.errors import OptionError
from sightline.settings.values import parse_value


def method_options(given: Mapping[str, Mapping[str, str]], methods: Sequence[str], seed: int | None) -> dict[str, Any]:
    """Return the options of each method from what `split_assignments` returns.

    Values are read by the option's type. `seed` goes to the methods that draw random numbers. Everything is checked
    here, before a model is loaded.
    """
    from sightline.methods import METHODS

    entries = {name: METHODS.get(name) for name in methods}
    chosen: dict[str, dict[str, Any]] = {name: {} for name in entries}
    for owner, texts in sorted(given.items()):  # those of every method first
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
