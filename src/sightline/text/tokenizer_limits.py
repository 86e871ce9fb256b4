"""Limits on how far a tokenizer may expand a text, checked when it is loaded and when it encodes.

The library holds the whole result of an encoding in memory before it returns, so a tokenizer that lengthens a text has
to be recognised beforehand. What the file alone decides is bounded at load. What depends on the text as well (a
character map may turn one character into eighteen) is tried on pieces of the text.

Regular expressions are accepted only in forms whose cost is polynomial. The tokenizers library matches with Oniguruma,
which backtracks: `(a+)+$` needs 2ⁿ steps on n letters that are followed by another one. Exponential cost needs a
repeated group that can match the same text in several ways, so a group that contains alternatives or repetitions may
not be repeated, and a pattern may not refer back to its own groups. What is left costs at most O(nᵏ) with k repetitions
in one alternative, and k is bounded as well. The patterns of the tokenizers in use (GPT-2, GPT-4, Llama 3, DeepSeek,
BLOOM, CLIP …) are all of this form.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sightline.errors import ModelError
from sightline.files.foreign import quote
from sightline.text.offsets import without_post_processor

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
    """The content of an open group so far."""

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


MAX_GROWTH = 128
"""By how much the replacements of a tokenizer may lengthen a text, taken together."""
MAX_INSERTED = 16
"""The same for insertions that replace no character: how many there are is not seen on a piece of the text."""
MAX_TOKEN = 256
"""Characters of a token or affix that the library copies for every occurrence, whatever the text."""
MAX_WORD = 1_000
"""Longest word that WordPiece may be told to split, in O(length²) steps; 100 is usual."""
MAX_PARTS = 64
"""Parts of a stage, pieces of its templates included, and tokens of which a piece may consist."""
MAX_RATIO = 8
"""Characters and tokens that may be made of each character of a long text; bytes of an emoji are 4."""
PIECE = 2_000
"""Characters that are read at once to see how many tokens they give."""

STAGES = ("normalizer", "pre_tokenizer", "decoder", "post_processor")
COPIED = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix")
"""Settings of a vocabulary whose text is part of many tokens."""
LONGEST_WORD = "max_input_chars_per_word"

_ONE_CHARACTER = r"(?:\\[sSdDwW]|\\[pP]\{\w+\}|\\[^A-Za-z0-9]|\[[^\]\[]+\]|[^\\^$*+?()\[\]{}|])"
_NEVER_EMPTY = re.compile(rf"(?:{_ONE_CHARACTER}(?:\+|\{{[1-9]\d*(?:,\d*)?\}})?)+")
"""Expressions that certainly match at least one character, and depend on no others."""


def check_tokenizer(content: Any) -> None:
    """Refuse a tokenizer.json with expressions or replacements that would exhaust the machine on an ordinary text."""
    if not isinstance(content, dict):
        raise ModelError("The tokenizer.json is not a JSON object.")
    model = content.get("model")
    if isinstance(model, dict):
        longest = model.get(LONGEST_WORD)
        if isinstance(longest, int) and longest > MAX_WORD:
            raise ModelError(
                f"The tokenizer.json asks to split words of {quote(longest)} characters ({LONGEST_WORD}); "
                f"at most {MAX_WORD:,} are allowed."
            )
        for name in COPIED:
            _check_token(model.get(name))
    added = content.get("added_tokens")
    for token in added if isinstance(added, list) else []:
        _check_token(token.get("content") if isinstance(token, dict) else token)
    for stage in STAGES:
        total = inserted = 1.0
        for number, part in enumerate(_parts(content.get(stage)), start=1):
            if number > MAX_PARTS:
                raise ModelError(f"The {stage} of the tokenizer.json has more than {MAX_PARTS} parts.")
            growth, inserts = _growth(part)
            total *= growth
            inserted *= growth if inserts else 1.0
            for limit, reached in ((MAX_GROWTH, total), (MAX_INSERTED, inserted)):
                if reached > limit:
                    raise ModelError(
                        f"The {stage} of the tokenizer.json may make a text more than {limit} times as long."
                    )
            _check_template(part)
            expression = _expression(part)
            problem = None if expression is None else why_unsafe(expression)
            if problem is not None:
                raise ModelError(
                    f"A regular expression in the tokenizer.json ({quote(expression)}) {problem}; matching it could "
                    "take forever, so it is not used."
                )


def check_backend(tokenizer: Any) -> None:
    """Check the tokenizer as loaded, since settings outside tokenizer.json become parts of it.

    The vocabulary is left out: the library writes it in memory proportional to its largest id.
    """
    from tokenizers import Tokenizer, models

    frame = Tokenizer(models.BPE())
    for stage in STAGES:
        if (part := getattr(tokenizer, stage)) is not None:
            setattr(frame, stage, part)
    content = json.loads(frame.to_str())
    content["model"] = {name: getattr(tokenizer.model, name, None) for name in (*COPIED, LONGEST_WORD)}
    content["added_tokens"] = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    check_tokenizer(content)


def check_growth(tokenizer: Any, text: str) -> None:
    """Refuse a long text that a tokenizer of transformers expands to many times its length.

    Cost O(characters), about half of that of the encoding. A text of one piece is not tried: what is refused at load
    bounds it well enough.
    """
    if len(text) <= PIECE:
        return
    plain = without_post_processor(tokenizer.backend_tokenizer)
    characters = tokens = 0
    for start in range(0, len(text), PIECE):
        piece = text[start : start + PIECE]
        characters += len(piece) if plain.normalizer is None else len(plain.normalizer.normalize_str(piece))
        tokens += len(plain.encode(piece, add_special_tokens=False))
        if max(characters, tokens) > MAX_RATIO * len(text):
            raise ModelError(
                f"The tokenizer makes more than {MAX_RATIO} tokens or characters of each character of this text, "
                "so the text is not read: the tokenizer is faulty or was not made for such a text."
            )


def _check_token(token: Any) -> None:
    if isinstance(token, str) and len(token) > MAX_TOKEN:
        raise ModelError(
            f"A special token, prefix or suffix in the files of the tokenizer has {len(token):,} characters "
            f"({quote(token)}); at most {MAX_TOKEN} are allowed."
        )


def _check_template(part: dict[str, Any]) -> None:
    """Refuse a template of a post-processor that repeats the text, or a special token in it that is a whole text."""
    for name, texts in (("single", 1), ("pair", 2)):
        pieces = part.get(name)
        if isinstance(pieces, list) and sum("Sequence" in piece for piece in pieces if isinstance(piece, dict)) > texts:
            raise ModelError("The post_processor of the tokenizer.json repeats the text.")
    special = part.get("special_tokens")
    for token in special.values() if isinstance(special, dict) else ():
        for tokens in token.values() if isinstance(token, dict) else ():
            if isinstance(tokens, list) and len(tokens) > MAX_PARTS:
                raise ModelError(
                    f"The post_processor of the tokenizer.json has a special token of {len(tokens):,} tokens; "
                    f"at most {MAX_PARTS} are allowed."
                )
            for text in tokens if isinstance(tokens, list) else ():
                _check_token(text)


def _parts(stage: Any) -> Iterator[dict[str, Any]]:
    """Yield the parts of a stage; a Sequence has its parts in a list."""
    waiting = [stage]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            for value in part.values():
                if isinstance(value, list):
                    waiting.extend(inner for inner in value if isinstance(inner, dict))


def _expression(part: dict[str, Any]) -> str | None:
    pattern = part.get("pattern")
    expression = pattern.get("Regex") if isinstance(pattern, dict) else None
    return expression if isinstance(expression, str) else None


def _growth(part: dict[str, Any]) -> tuple[float, bool]:
    """Return by how much one part may lengthen a text, at most, and whether it inserts where it replaces nothing."""
    if part.get("type") == "Precompiled":
        return float(_longest_replacement(part.get("precompiled_charsmap"))), False
    prefix, content = part.get("prepend"), part.get("content")
    if part.get("type") == "Prepend" and isinstance(prefix, str):
        return 1.0 + len(prefix), True  # before the text and after every added token in it
    if part.get("type") != "Replace" or not isinstance(content, str):
        return 1.0, False
    pattern = part.get("pattern")
    fixed = pattern.get("String") if isinstance(pattern, dict) else None
    if isinstance(fixed, str) and fixed:
        return max(1.0, len(content) / len(fixed)), False
    expression = _expression(part)
    if expression is not None and _NEVER_EMPTY.fullmatch(expression):
        return max(1.0, len(content)), False
    return 1.0 + len(content), True  # it may match between any two characters


def _longest_replacement(encoded: Any) -> int:
    """Return the bytes of the longest replacement in a character map of SentencePiece.

    The map is the length of a trie (4 bytes, little-endian), the trie, and replacements that end with a zero byte.
    """
    if not isinstance(encoded, str):
        return 1
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ModelError("The tokenizer.json has a character map that is not valid base64.") from None
    replacements = raw[4 + int.from_bytes(raw[:4], "little") :]
    return max((len(replacement) for replacement in replacements.split(b"\0")), default=1) or 1
