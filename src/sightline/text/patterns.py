"""Regular expressions of a tokenizer.json, accepted only in forms whose cost is polynomial.

The tokenizers library matches with Oniguruma, which backtracks: `(a+)+$` needs 2ⁿ steps on n letters that are followed
by another one. Exponential cost needs a repeated group that can match the same text in several ways, so a group that
contains alternatives or repetitions may not be repeated, and a pattern may not refer back to its own groups. What is
left costs at most O(nᵏ) with k repetitions in one alternative, and k is bounded as well. The patterns of the tokenizers
in use (GPT-2, GPT-4, Llama 3, DeepSeek, BLOOM, CLIP …) are all of this form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_LENGTH = 4_000
MAX_REPETITIONS = 4
"""Unbounded repetitions in one alternative: the degree of the polynomial."""
SHORT = 8
"""A repetition of one character of at most this many times counts as bounded."""
_COUNTS = re.compile(r"\{(\d*)(,?)(\d*)\}")
_GROUP_START = re.compile(r"\((\?(?:<[=!]|[:=!>|]|[a-zA-Z-]*[:)]|<\w+>))?")
_FORBIDDEN = re.compile(r"\\(?:[1-9]|[kgKX])|\(\?[(~#&]")


@dataclass
class _Group:
    """What an open group contains so far."""

    varies: bool = False
    """It has alternatives or repetitions, so it may match one text in several ways."""
    repetitions: int = 0
    most_repetitions: int = 0


def why_unsafe(pattern: str) -> str | None:
    """Return why a pattern is not accepted, or None if it is."""
    if len(pattern) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH:,} characters"
    if _FORBIDDEN.search(_without_escaped_backslashes(pattern)):
        return "refers back to its own groups"
    stack = [_Group()]
    closed: _Group | None = None
    position = 0
    while position < len(pattern):
        character = pattern[position]
        group, last = stack[-1], closed
        closed = None
        if character == "\\":
            position = _after_escape(pattern, position)
        elif character == "[":
            position = _after_class(pattern, position)
        elif character == "(":
            start = _GROUP_START.match(pattern, position)
            if start is None:
                return "has a group of an unknown kind"
            position = start.end()
            if not start.group().endswith(")"):  # (?i) opens nothing
                stack.append(_Group())
        elif character == ")":
            if len(stack) == 1:
                return "closes a group that was not opened"
            closed = stack.pop()
            closed.most_repetitions = max(closed.most_repetitions, closed.repetitions)
            stack[-1].repetitions += closed.most_repetitions
            stack[-1].varies |= closed.varies
            position += 1
        elif character == "|":
            group.varies = True
            group.most_repetitions, group.repetitions = max(group.most_repetitions, group.repetitions), 0
            position += 1
        elif character in "*+?{":
            most, end = _repetition(pattern, position)
            position = end
            if most == 1 or (most == 0 and character == "{"):
                group.varies = True
                continue
            if last is not None and last.varies:
                return "repeats a group that itself has alternatives or repetitions"
            if most is None or most > SHORT:
                group.repetitions += 1
            group.varies = True
            if position < len(pattern) and pattern[position] in "*{":
                return "repeats a repetition"
        else:
            position += 1
        if max(stack[-1].repetitions, stack[-1].most_repetitions) > MAX_REPETITIONS:
            return f"has more than {MAX_REPETITIONS} repetitions in a row"
    return None if len(stack) == 1 else "leaves a group open"


def _repetition(pattern: str, position: int) -> tuple[int | None, int]:
    """Return how often at most the quantifier at `position` repeats (None: any number), and where it ends."""
    if pattern[position] == "{":
        counts = _COUNTS.match(pattern, position)
        if counts is None or counts.group() in ("{}", "{,}"):
            return 0, position + 1  # a literal brace
        low, comma, high = counts.groups()
        most, end = (int(high) if high else None) if comma else int(low), counts.end()
    else:
        most, end = (1 if pattern[position] == "?" else None), position + 1
    if end < len(pattern) and pattern[end] in "?+":  # lazy or possessive
        end += 1
    return most, end


def _after_escape(pattern: str, position: int) -> int:
    end = position + 2
    if pattern[position + 1 : position + 3] in ("p{", "P{", "x{", "o{"):
        close = pattern.find("}", end)
        return len(pattern) if close < 0 else close + 1
    return end


def _after_class(pattern: str, position: int) -> int:
    """Return the place after a character class; classes may contain classes."""
    depth = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 2
            continue
        if character == "[":
            depth += 1
            # A bracket that comes first is a member of the class.
            first = position + 2 if pattern[position + 1 : position + 2] == "^" else position + 1
            position = first + 1 if pattern[first : first + 1] == "]" else first
            continue
        if character == "]":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    return position


def _without_escaped_backslashes(pattern: str) -> str:
    return pattern.replace("\\\\", "")
