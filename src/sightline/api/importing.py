"""Scores that another program computed, aligned to a document of ours.

Whatever their form, scores are first tied to characters of the text, and then to the tokens of the model: a token gets
of the score of a span the share of the span's visible characters that it covers. Totals are kept.

Tokens are found in the text one after the other. Signs of vocabularies ("##", "Ġ", "▁", "</w>"), upper and lower case
and accents do not count; special tokens belong to no character and are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.text import Encoding, Level, units_of

ScoredSpan = tuple[int, int, float]
"""Characters [start, end) of the text, and their score."""
_SPECIAL = re.compile(r"\[(?:CLS|SEP|PAD|UNK|MASK|BOS|EOS)\]|</?(?:s|pad|unk|mask|bos|eos)>|<\|[^|]*\|>", re.IGNORECASE)
_UNKNOWN = re.compile(r"\[UNK\]|<unk>", re.IGNORECASE)
_SIGNS = re.compile(r"^##|</w>$|[Ġ▁Ċ]")


def align_scores(encoding: Encoding, scores: Any, level: Level, target: int | None, label: str) -> NDArray[np.float64]:
    """Return one score per token (n,) of an encoded text (see `Model.import_scores`).

    target, label: the class of the explanation, for scores of several classes.
    """
    if isinstance(scores, Mapping):
        return _spread_spans(encoding, _spans_of_words(encoding, scores))
    scores = _read_object(scores, encoding.text, target, label)
    if not isinstance(scores, list | tuple):
        scores = _numbers_of(scores)
    entries = list(scores)
    if entries and all(isinstance(entry, Real) for entry in entries):
        return _spread_units(encoding, np.array(entries, dtype=np.float64), level)
    widths = {len(entry) if isinstance(entry, Sequence) and not isinstance(entry, str) else 0 for entry in entries}
    if widths == {3}:
        return _spread_spans(encoding, [(int(start), int(end), float(score)) for start, end, score in entries])
    if widths == {2}:
        return _spread_spans(encoding, find_tokens(encoding.text, [(str(t), float(s)) for t, s in entries]))
    raise InputError(
        "Scores are numbers, pairs (token, score), triples (start, end, score), a dictionary from words to scores, or "
        "an object of shap, captum or inseq."
    )


def _numbers_of(scores: Any) -> NDArray[np.float64]:
    try:
        array = np.asarray(scores.detach().cpu() if hasattr(scores, "detach") else scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"Scores cannot be read from {type(scores).__name__}.") from None
    if array.ndim != 1:
        raise InputError(f"The scores have shape {array.shape}: give those of one document and one class.")
    return array


def _read_object(scores: Any, text: str, target: int | None, label: str) -> Any:
    """Return the tokens and scores that an object of shap, captum or inseq holds; anything else as it is."""
    if hasattr(scores, "values") and hasattr(scores, "data") and hasattr(scores, "base_values"):
        return _read_shap(scores, target, label)
    if hasattr(scores, "word_attributions") and hasattr(scores, "raw_input_ids"):
        return list(zip(scores.raw_input_ids, np.asarray(scores.word_attributions, dtype=float).tolist(), strict=True))
    if hasattr(scores, "sequence_attributions"):
        if len(scores.sequence_attributions) != 1:
            raise InputError("The output of inseq holds several texts: give one of .sequence_attributions.")
        return _read_object(scores.sequence_attributions[0], text, target, label)
    if hasattr(scores, "source_attributions") or hasattr(scores, "target_attributions"):
        return _read_inseq(scores, text)
    return scores


def _read_shap(scores: Any, target: int | None, label: str) -> list[tuple[str, float]]:
    values, tokens = np.asarray(scores.values), scores.data
    if isinstance(tokens, tuple | list) and len(tokens) == 1 and not isinstance(tokens[0], str):
        values, tokens = np.asarray(values[0]), tokens[0]
    tokens = [str(token) for token in np.asarray(tokens, dtype=object).ravel()]
    if len(values) != len(tokens):
        raise InputError("The Explanation of shap holds several texts: give one of them, for example explanation[0].")
    if values.ndim == 2 and values.shape[1] > 1:
        names = [str(name) for name in (getattr(scores, "output_names", None) or [])]
        column = names.index(label) if label in names else target
        if column is None or column >= values.shape[1]:
            raise InputError(f"The Explanation of shap has no scores of '{label}': choose its class, [:, number].")
        values = values[:, column]
    return list(zip(tokens, values.reshape(len(tokens)).astype(float).tolist(), strict=True))


def _read_inseq(sequence: Any, text: str) -> list[tuple[str, float]]:
    """Return the tokens of the input and their scores, added up over what was generated.

    A decoder's scores are those of the prompt and of what it wrote; the latter are left out if `text` is the prompt.
    """
    of_source = getattr(sequence, "source_attributions", None) is not None
    tokens = sequence.source if of_source else sequence.target
    raw = sequence.source_attributions if of_source else sequence.target_attributions
    array = np.nan_to_num(np.asarray(raw.detach().cpu() if hasattr(raw, "detach") else raw, dtype=float))
    totals = array.reshape(len(array), -1).sum(axis=1)
    written = [str(getattr(token, "token", token)) for token in tokens][: len(totals)]
    scored = list(zip(written, totals.tolist(), strict=True))
    if of_source:
        return scored
    prompt = _tokens_of(text, scored)
    return prompt if len(prompt) >= sequence.attr_pos_start - 1 else scored  # which may count the first token written


def _tokens_of(text: str, scored: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the first tokens, as many as have the characters of a text."""
    left = len(_fold(text)[0])
    for place, (token, _) in enumerate(scored):
        if left <= 0:
            return scored[:place]
        if not _SPECIAL.fullmatch(token.strip()):
            left -= len(_fold(_SIGNS.sub("", token))[0])
    return scored


def find_tokens(text: str, tokens: Iterable[tuple[str, float]]) -> list[ScoredSpan]:
    """Return where tokens stand in a text, which they spell from its beginning; a special token stands nowhere."""
    plain, places = _fold(text)
    spans: list[ScoredSpan] = []
    cursor, unknown = 0, False
    for token, score in tokens:
        if not token.strip() or (_SPECIAL.fullmatch(token.strip()) and not plain.startswith(_fold(token)[0], cursor)):
            unknown |= _UNKNOWN.fullmatch(token.strip()) is not None
            continue
        wanted = _fold(_SIGNS.sub("", token))[0]
        if not wanted:
            continue
        start = plain.find(wanted, cursor)
        if start < 0 or (start > cursor and not unknown):
            rest = text[places[cursor] :][:20] if cursor < len(places) else "the end of the text"
            raise InputError(
                f"The tokens do not spell the text: '{token}' does not follow at character "
                f"{places[cursor] if cursor < len(places) else len(text)} ('{rest}')."
            )
        cursor, unknown = start + len(wanted), False
        spans.append((places[start], places[cursor - 1] + 1, score))
    return spans


def _fold(text: str) -> tuple[str, list[int]]:
    """Return a text in lower case without white space and accents, and the place of each of its characters before."""
    folded: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character).lower():
            if not part.isspace() and not unicodedata.combining(part):
                folded.append(part)
                places.append(place)
    return "".join(folded), places


def _spans_of_words(encoding: Encoding, scores: Mapping[str, float]) -> list[ScoredSpan]:
    """Return the spans of words; the score of a word is divided among its instances."""
    instances: dict[str, list[tuple[int, int]]] = {}
    for word in encoding.words:
        if word.segment == 0:
            instances.setdefault(word.text.casefold(), []).append((word.start, word.end))
    spans: list[ScoredSpan] = []
    for written, score in scores.items():
        found = instances.get(str(written).casefold())
        if not found:
            raise InputError(f"The word '{written}' does not occur in the text.")
        spans += [(start, end, float(score) / len(found)) for start, end in found]
    return spans


def _spread_units(encoding: Encoding, scores: NDArray[np.float64], level: Level) -> NDArray[np.float64]:
    """Return scores (n,) from one number per unit.

    At the level of tokens with or without the special ones, at that of words per word or per `text.split()`.
    """
    if level == "token" and len(scores) == len(encoding):
        return scores
    units = units_of(encoding, level)
    if len(scores) != len(units):
        one_text = level == "word" and encoding.pair is None
        split = [match.span() for match in re.finditer(r"\S+", encoding.text)] if one_text else []
        if len(scores) == len(split):
            return _spread_spans(encoding, [(*span, float(score)) for span, score in zip(split, scores, strict=True)])
        raise InputError(
            f"{len(scores)} scores were given, and the text has {len(units)} {level}s as Sightline counts them "
            f"(explanation.units('{level}')). Pairs (token, score) are aligned whatever the tokens are."
        )
    return units.spread(scores)


def _spread_spans(encoding: Encoding, spans: Sequence[ScoredSpan]) -> NDArray[np.float64]:
    """Return scores (n,): of a span's score, each token gets the share of visible characters that it covers."""
    text = encoding.text
    visible = np.concatenate([[0], np.cumsum([not character.isspace() for character in text])])
    tokens = np.flatnonzero(encoding.segments == 0)
    starts, ends = encoding.offsets[tokens].T
    scores = np.zeros(len(encoding))
    for start, end, score in spans:
        if not 0 <= start < end <= len(text):
            raise InputError(f"Characters {start}-{end} are not in the text, which has {len(text)}.")
        first, last = np.maximum(starts, start), np.minimum(ends, end)
        covered = np.where(last > first, visible[np.maximum(last, first)] - visible[first], 0)
        if not covered.sum():
            if score and end <= ends.max(initial=0):
                raise InputError(f"No token covers the characters {start}-{end} ('{text[start:end]}').")
            continue
        scores[tokens] += score * covered / covered.sum()
    return scores
