"""What cannot be explained as text, each refused with one sentence."""

from __future__ import annotations

from sightline.errors import InputError
from sightline.text.words import has_visible_character

MAX_CHARACTERS = 5_000_000
"""Longest text that is read. Every token has to be counted even if the model sees only the first few thousand."""


def check_text(text: object, name: str = "text") -> str:
    """Return `text` if it can be given to a tokenizer, else raise an `InputError`; `name` is used in the message."""
    if not isinstance(text, str):
        raise InputError(f"The {name} must be a string, not {type(text).__name__}.")
    if not text:
        raise InputError(f"The {name} is empty: there is nothing to explain.")
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"The {name} has {len(text):,} characters; Sightline reads at most {MAX_CHARACTERS:,}: give it in parts."
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"The {name} has half a surrogate pair at character {error.start:,}, which is not a character: "
            "read it with its right encoding or remove it."
        ) from None
    if not has_visible_character(text):
        raise InputError(f"The {name} is only white space: there is nothing to explain.")
    return text
