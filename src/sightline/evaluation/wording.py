"""How sentences write numbers: with a minus sign and not a hyphen, as tables for readers do, and with their noun."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Say "1 document", "2 documents"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def written(value: float, form: str = ".3g") -> str:
    """Write a number in a format such as ".2f": −1.67, and 0.00 for what rounds to it from either side."""
    text = f"{value:z{form}}"
    return f"−{text[1:]}" if text.startswith("-") else text
