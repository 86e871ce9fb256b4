"""Checks of the arguments of `evaluate` and `compare`: a wrong one is refused before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline.api.model import Model
from sightline.errors import OptionError
from sightline.methods import METHODS


def check_model(given: Any) -> Model:
    """Return `given` unchanged; raise OptionError if it is not a Model (for example, a path)."""
    if isinstance(given, Model):
        return given
    if isinstance(given, str | Path):
        raise OptionError(f"'{given}' is the name of a model, not a model: load it first, with sl.load('{given}').")
    raise OptionError(f"A model as sl.load() returns it is needed; what was given is of type {type(given).__name__}.")


def list_names(given: Any, option: str) -> list[str]:
    """Return one name or several as a list without duplicates."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable):
        raise OptionError(f"{option}={given!r} is not possible; give a name, or a list of names.")
    return list(dict.fromkeys(given))


def check_method_options(options: Mapping[str, Any], methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the options by method, after each was checked by its method."""
    for name, given in options.items():
        if name not in methods or not isinstance(given, Mapping):
            raise OptionError(
                f"Options are given by method, for example {methods[0]}={{...}}; '{name}' is neither an option of the "
                "evaluation nor a method that is evaluated."
            )
        METHODS.get(name).check_options(given)
    return {name: dict(given) for name, given in options.items()}
