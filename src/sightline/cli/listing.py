"""Printing what a registry holds: one line an entry, everything about each, or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import typer


class Entry(Protocol):
    """What methods and metrics have in common."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    @property
    def summary(self) -> str:
        """One sentence."""

    def facts(self) -> dict[str, Any]:
        """Everything it says about itself as plain values."""


E = TypeVar("E", bound=Entry)


def print_entries(found: Sequence[E], described: Callable[[E], str] | None, *, as_json: bool) -> None:
    """Print entries as JSON, in full where `described` says how, or in one line each."""
    if as_json:
        text = json.dumps([entry.facts() for entry in found], indent=2, ensure_ascii=False)
    elif described is not None:
        text = "\n\n".join(described(entry) for entry in found)
    else:
        width = max(len(entry.name) for entry in found)
        text = "\n".join(f"{entry.name:<{width}}  {entry.summary}" for entry in found)
    # Bytes, so that a pipe gets UTF-8 whatever the locale.
    typer.echo(f"{text}\n".encode(), nl=False)
