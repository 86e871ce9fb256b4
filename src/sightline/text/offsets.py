"""Exact character spans of tokens in the original string.

The spans a tokenizer reports are almost what is needed, with three faults that are corrected here:

- Byte-level tokenizers shorten the spans while they add special tokens (`trim_offsets`): a token of spaces loses its
  span, and after a token such as <mask> with `add_prefix_space` a visible letter is cut off. So the spans are taken
  from the same tokenizer without its post-processor.
- A word-boundary sign put before the first word as a token of its own ("▁", "Ġ") claims the character after it.
- A combining mark that was stripped from the last letter of a token, or composed with it, is left out of the span,
  although it is inside when a letter follows.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import ModelError

_BOUNDARY_SIGNS = "Ġ▁ "
_LOOKAHEAD = 256
"""Characters read beyond the last token kept, so that its neighbourhood is tokenized as in the whole text."""


def token_spans(tokenizer: Any, text: str, ids: NDArray[np.int64], end: int) -> NDArray[np.int64]:
    """Return the spans (k, 2) in `text` of its first k tokens, whose ids are `ids` (k,).

    `end` is about where the last of them ends: of a text of millions of characters only the part the model sees is read
    again, and all of it only if that part alone gives other tokens. Cost O(characters read).
    """
    plain = without_post_processor(tokenizer.backend_tokenizer)
    encoded = plain.encode(text[: end + _LOOKAHEAD], add_special_tokens=False)
    if not np.array_equal(encoded.ids[: len(ids)], ids):
        encoded = plain.encode(text, add_special_tokens=False)
        if not np.array_equal(encoded.ids[: len(ids)], ids):
            raise ModelError(
                f"{type(tokenizer).__name__} changes the text before it splits it (or splits it at random), "
                "so its tokens cannot be placed in the original: use a plain fast tokenizer."
            )
    return _mend_spans(text, encoded.tokens, encoded.offsets)[: len(ids)]


def without_post_processor(backend: Any) -> Any:
    """Return a tokenizer that shares vocabulary, normaliser and splitter with `backend` and adds or trims nothing."""
    from tokenizers import Tokenizer

    plain = Tokenizer(backend.model)
    if backend.normalizer is not None:
        plain.normalizer = backend.normalizer
    if backend.pre_tokenizer is not None:
        plain.pre_tokenizer = backend.pre_tokenizer
    added = backend.get_added_tokens_decoder()
    plain.add_tokens([added[token_id] for token_id in sorted(added)])
    plain.encode_special_tokens = backend.encode_special_tokens
    return plain


def _mend_spans(text: str, tokens: list[str], spans: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Return the spans with boundary signs emptied, marks joined to their letter and white space trimmed."""
    mended: list[tuple[int, int]] = []
    for i, (start, end) in enumerate(spans):
        next_start = spans[i + 1][0] if i + 1 < len(spans) else len(text)
        if next_start == start and not tokens[i].strip(_BOUNDARY_SIGNS):
            mended.append((start, start))
            continue
        while end < next_start and unicodedata.category(text[end]).startswith("M"):
            end += 1
        shown = text[start:end]
        if not shown.isspace():
            end -= len(shown) - len(shown.rstrip())
            start += len(shown) - len(shown.lstrip())
        mended.append((start, end))
    return np.array(mended, dtype=np.int64)
