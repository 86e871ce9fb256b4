"""Which words count: stop words, punctuation, numbers, specials and a custom list can be left out.

A filter works on whole words, ignoring case; a sub-word token goes with its word. Words are dropped *before* anything
is ranked. (Setting such tokens to zero and ranking them all, as was once published, makes unrelated scores agree: see
`metrics.masked_pair`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import regex  # type: ignore[import-untyped]

from sightline.analysis.source import Booleans
from sightline.errors import OptionError
from sightline.registry import suggestion
from sightline.settings.extras import require
from sightline.text import Encoding
from sightline.text.units import Level, Units, units_of

_LETTER = regex.compile(r"\p{L}")
_LETTER_OR_DIGIT = regex.compile(r"[\p{L}\p{N}]")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\uff07": "'"})


@dataclass(frozen=True)
class TokenFilter:
    """What to leave out; `TokenFilter()` leaves out English stop words, punctuation and specials.

    The published mask, "alphabetic and no stop word", is `TokenFilter(numbers=True)`.
    """

    stop_words: str | None = "en"
    """A language by its code or English name ("de", "german"); None keeps stop words."""
    punctuation: bool = True
    """Leave out words without a letter or digit: punctuation, symbols, emoji."""
    numbers: bool = False
    """Leave out words of digits without a letter, such as 2017 and 3.14."""
    specials: bool = True
    """Leave out [CLS], [SEP], <s>, </s>."""
    words: Sequence[str] = ()
    """Further words to leave out."""
    meaningful: bool = False
    """Keep the stop words that can be a reason: negations, and words such as "serious" and "system"."""

    def __post_init__(self) -> None:
        if isinstance(self.words, str):
            raise OptionError(f"words is a list of words; a single one goes in a list, too: ['{self.words}'].")
        object.__setattr__(self, "words", tuple(self.words))
        if self.stop_words is not None:
            _stop_words(self.stop_words)  # raise for an unknown language now, not in the middle of a data set

    @cached_property
    def _listed(self) -> frozenset[str]:
        listed = frozenset(_fold_case(word) for word in self.words)
        if self.stop_words is None:
            return listed
        stop_words = _stop_words(self.stop_words)
        return listed | (frozenset(filter(_is_filler, stop_words)) if self.meaningful else stop_words)

    def drops(self, word: str) -> bool:
        """Return whether a word is left out."""
        if self.punctuation and not _LETTER_OR_DIGIT.search(word):
            return True
        if self.numbers and _LETTER_OR_DIGIT.search(word) and not _LETTER.search(word):
            return True
        return _fold_case(word) in self._listed

    def keep_tokens(self, encoding: Encoding) -> Booleans:
        """Return the mask (n,) of the tokens that stay."""
        stays = np.array([not self.drops(word.text) for word in encoding.words] + [not self.specials], dtype=np.bool_)
        return np.asarray(stays[encoding.word_ids])  # the last entry serves the -1 of specials

    def keep(self, encoding: Encoding, level: Level = "word") -> Booleans:
        """Return the mask (U,) of the units that stay, in the order of `units_of(encoding, level)`.

        A sentence or paragraph stays, with all its words, if one of its words does.
        """
        return kept_units(self, encoding, units_of(encoding, level))

    def description(self) -> str:
        """Return a phrase for captions, such as "without stop words (en), punctuation"."""
        parts = [f"stop words ({self.stop_words})"] if self.stop_words is not None else []
        parts += [name for name in ("punctuation", "numbers", "specials") if getattr(self, name)]
        parts += ["listed words"] if self.words else []
        return f"without {', '.join(parts)}" if parts else "all words"


def kept_units(filter: TokenFilter | None, encoding: Encoding, units: Units) -> Booleans:
    """Return the mask (U,) of the units with a token that counts; without a filter that is all of them."""
    kept = ~encoding.special if filter is None else filter.keep_tokens(encoding)
    return units.fold(kept) > 0


def stop_word_languages() -> dict[str, str]:
    """Return the languages with a list of stop words: code -> English name."""
    return dict(sorted(_import_lists().LANGUAGE_MAPPING.items()))


@lru_cache(maxsize=16)
def _stop_words(language: str) -> frozenset[str]:
    name = language.casefold()
    if name in ("en", "english"):
        # Not the package's English list of 1,333 entries, which has "great", "big" and "old": verdicts rest on them.
        return _read_words("english_stop_words.txt") | _read_words("english_contractions.txt")
    languages = stop_word_languages()
    if name not in languages and name not in languages.values():
        known = ", ".join(f"{code} ({full})" for code, full in languages.items())
        hint = suggestion(name, [*languages, *languages.values()])
        raise OptionError(f"There is no list of stop words for '{language}'.{hint} Known: {known}.")
    return frozenset(_fold_case(word) for word in _import_lists().get_stop_words(name))


def _import_lists() -> Any:
    return require("stop_words", "languages", "A list of stop words for another language than English")


@lru_cache(maxsize=3)
def _read_words(name: str) -> frozenset[str]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())


def _is_filler(word: str) -> bool:
    return word not in _read_words("english_meaningful_words.txt") and not word.endswith("n't")


def _fold_case(word: str) -> str:
    return word.strip().translate(_APOSTROPHES).casefold()
