"""`sightline methods` and `sightline metrics`: list the entries of a registry, in one line each or in full."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from sightline.cli.declared import command
from sightline.cli.progress_bar import LateProgress, starting
from sightline.cli.streams import print_utf8
from sightline.registry import BUILT_IN, Entry
from sightline.settings.options import OptionRule, Settings, option, unused

if TYPE_CHECKING:
    from sightline.methods import Method
    from sightline.metrics import MetricEntry

SHORTEST_LINE = 60
"""In narrower terminals lines are not wrapped here."""


class DescribedEntry(Entry, Protocol):
    """What methods and metrics have in common."""

    def facts(self) -> dict[str, Any]:
        """Everything documented about it as plain values."""


E = TypeVar("E", bound=DescribedEntry)


@dataclass(frozen=True, kw_only=True)
class ListingCommand(Settings):
    """Which entries are listed, and how."""

    names: tuple[str, ...] = option((), positional=True, metavar="NAME", help="Describe only these, in full.")
    json: bool = option(False, help="Print everything as JSON.")

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            "long",
            when=lambda settings: settings.json or settings.names,
            reason="has no effect with names or {json}, which show everything: leave it out.",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class ListMethods(ListingCommand):
    """Options of `sightline methods`."""

    long: bool = option(False, help="Include formula, options, citation and when to use each.")


@dataclass(frozen=True, kw_only=True)
class ListMetrics(ListingCommand):
    """Options of `sightline metrics`."""

    long: bool = option(False, help="Also show kind, range, chance level, needs and citation.")


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


@command
def methods(settings: ListMethods) -> None:
    """List the explanation methods, with their cost.

    \b
    Examples:
      sightline methods
      sightline methods attcat rollout
      sightline methods --long
      sightline methods --json
    """
    with LateProgress() as progress, starting(progress):
        from sightline.methods import METHODS, group_methods

    entries = [METHODS.get(name) for name in settings.names] or list(METHODS)
    if settings.json:
        print_json(entries)
    elif settings.long or settings.names:
        print_descriptions(entries, _describe_method)
    else:
        print_table({kind.capitalize(): group for kind, group in group_methods(entries).items()}, _short_cost)


def _short_cost(method: Method) -> str:
    """Return the cost without the remark in parentheses."""
    return method.cost.partition(" (")[0]


def _describe_method(method: Method) -> str:
    signs = "signed (for and against)" if method.signed else "unsigned (how much, not in which direction)"
    classes = "different for every class" if method.class_specific else "the same for every class"
    lines = [
        f"{method.name}: {method.title}{describe_origin(method)}",
        f"  {method.summary}",
        *([f"  formula    {method.formula}"] if method.formula else []),
        f"  scores     {signs}; {classes}",
        *([f"  cost       {method.cost}"] if method.cost else []),
        *(f"  {advice}" for advice in (method.use, method.avoid) if advice),
        *([f"  citation   {method.citation}"] if method.citation else []),
    ]
    for name, facts in method.facts()["options"].items():
        default = "none" if facts["default"] is None else facts["default"]
        lines.append(f"  --option {name}={default}  ({facts['values']})")
    return "\n".join(lines)


@command
def metrics(settings: ListMetrics) -> None:
    """List the metrics that `sightline evaluate` computes.

    \b
    Examples:
      sightline metrics
      sightline metrics aopc
      sightline metrics --long
    """
    with LateProgress() as progress, starting(progress):
        from sightline.metrics import METRICS

    entries = [METRICS.get(name) for name in settings.names] or list(METRICS)
    if settings.json:
        print_json(entries)
    elif settings.long or settings.names:
        print_descriptions(entries, _describe_metric)
    else:
        print_table({"": entries})


def _describe_metric(metric: MetricEntry) -> str:
    from sightline.view.words.phrases import describe_chance, describe_direction, describe_needs, describe_range

    lines = [
        f"{metric.name}: {metric.summary}{describe_origin(metric)}",
        f"  measures   {metric.kind}; {describe_direction(metric)}",
        f"  range      {describe_range(metric)}",
        f"  chance     {describe_chance(metric)}",
        f"  needs      {describe_needs(metric)}",
        f"  citation   {metric.citation}",
    ]
    if metric.options:
        options = ", ".join(f"{name}={value}" for name, value in metric.options.items())
        lines.insert(-1, f"  options    {options}")
    return "\n".join(lines)
