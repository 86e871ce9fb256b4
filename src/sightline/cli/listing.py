"""Print the entries of a registry: one line per entry, everything about each entry, or JSON."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from sightline.cli.output import print_utf8
from sightline.registry import BUILT_IN, Entry

SHORTEST_LINE = 60
"""In narrower terminals lines are not wrapped here."""


class DescribedEntry(Entry, Protocol):
    """What methods and metrics have in common."""

    def facts(self) -> dict[str, Any]:
        """Everything documented about it as plain values."""


E = TypeVar("E", bound=DescribedEntry)


def print_json(entries: Sequence[DescribedEntry]) -> None:
    """Print everything about the entries as JSON."""
    print_utf8(json.dumps([entry.facts() for entry in entries], indent=2, ensure_ascii=False) + "\n")


def print_descriptions(entries: Sequence[E], describe: Callable[[E], str]) -> None:
    """Print the description of each entry."""
    print_utf8("\n\n".join(describe(entry) for entry in entries) + "\n")


def print_table(groups: Mapping[str, Sequence[E]], column: Callable[[E], str] | None = None) -> None:
    """Print one line per entry: name, `column` if given, summary, and the origin of entries that are not built in.

    Groups are printed under their headings; one without a heading ("") is not indented. Lines are wrapped for a
    terminal, never for a file or another program.
    """
    entries = [entry for group in groups.values() for entry in group]
    columns = [[entry.name for entry in entries], *([[column(entry) for entry in entries]] if column else [])]
    widths = [max(map(len, texts), default=0) for texts in columns]
    lines: list[str] = []
    for heading, group in groups.items():
        lines += [*([""] if lines else []), heading] if heading else []
        for entry in group:
            texts = [entry.name, *([column(entry)] if column else [])]
            start = "  " * bool(heading) + "".join(f"{t:<{width}}  " for t, width in zip(texts, widths, strict=True))
            lines += _wrap(start, entry.summary + describe_origin(entry))
    print_utf8("\n".join(lines) + "\n")


def describe_origin(entry: Entry) -> str:
    """Return " (from PACKAGE VERSION)" for an entry of another package, else an empty string."""
    return "" if entry.origin == BUILT_IN else f" (from {entry.origin})"


def _wrap(start: str, text: str) -> list[str]:
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    if room < max(SHORTEST_LINE, len(start) + SHORTEST_LINE // 2):
        return [start + text]
    return textwrap.wrap(text, room, initial_indent=start, subsequent_indent=" " * len(start))
