"""Numbers and counts inside sentences: a minus sign rather than a hyphen, and nouns in the right number."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """Return "1 document", "2 documents"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_number(value: float, form: str = ".3g") -> str:
    """Return a number in a format such as ".2f": −1.67, and 0.00 for what rounds to it from either side."""
    text = f"{value:z{form}}"
    return f"−{text[1:]}" if text.startswith("-") else text
