"""A registry: things found by name, listed with one line each, with a helpful sentence for an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from sightline.errors import OptionError


class Entry(Protocol):
    """What every registered thing can say about itself."""

    @property
    def name(self) -> str:
        """The name users type."""

    @property
    def summary(self) -> str:
        """One line: what it computes."""

    @property
    def citation(self) -> str:
        """Where it comes from."""


E = TypeVar("E", bound=Entry)


def suggestion(name: str, known: list[str]) -> str:
    """Return " Did you mean 'x'?" when a known name is close, else an empty string."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


class Registry(Generic[E]):
    """An ordered mapping from name to entry; `kind` ("method", "metric") is used in messages."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, E] = {}

    def add(self, entry: E) -> None:
        """Register `entry`; the same name twice is a programming error."""
        if entry.name in self._entries:
            raise ValueError(f"{self.kind} '{entry.name}' is registered twice")
        self._entries[entry.name] = entry

    def get(self, name: str) -> E:
        """Return the entry called `name` or say which names exist."""
        if not isinstance(name, str):
            raise OptionError(f"A {self.kind} is asked for by its name, a string, not {type(name).__name__}.")
        try:
            return self._entries[name]
        except KeyError:
            names = sorted(self._entries)
            raise OptionError(
                f"There is no {self.kind} called '{name}'.{suggestion(name, names)} Known: {', '.join(names)}."
            ) from None

    def names(self) -> list[str]:
        """All names in order of registration."""
        return list(self._entries)

    def __iter__(self) -> Iterator[E]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries
