"""Numbers and counts inside sentences: a minus sign rather than a hyphen, and nouns in the right number."""

from __future__ import annotations

from collections.abc import Callable


def count(number: int, noun: str) -> str:
    """Return "1 document", "2 documents"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


NO_INTERVAL = "no interval"
"""Stands for the ends of an interval where too few documents were measured."""


def format_range(
    low: float, high: float, format_end: Callable[[float], str] | None = None, *, named: bool = False
) -> str:
    """Return "0.18 to 0.67", if `named` "interval 0.18 to 0.67", or "no interval" where the ends are NaN.

    format_end: `format_number` by default.
    """
    if low != low or high != high:
        return NO_INTERVAL
    write = format_end or format_number
    return f"{'interval ' if named else ''}{write(low)} to {write(high)}"


def format_number(value: float, form: str = ".3g") -> str:
    """Return a number in a format such as ".2f": −1.67, and 0.00 for what rounds to it from either side."""
    text = f"{value:z{form}}"
    return f"−{text[1:]}" if text.startswith("-") else text
