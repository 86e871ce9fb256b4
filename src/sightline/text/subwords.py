"""Tokenizers of words and pieces of words, learnt from texts: for models that are trained from scratch.

A word that is too rare for an entry of its own is read in pieces, so that its ending is still seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sightline.errors import OptionError
from sightline.text.word_level import SPECIALS, with_special_tokens

BYTES = 256


def learn_subword_tokenizer(texts: Iterable[str], *, size: int = 20_000, min_count: int = 2) -> Any:
    """Return a byte-pair tokenizer (Sennrich et al. 2016) of lower-case texts with at most `size` entries.

    It starts from the 256 bytes and joins the most frequent pair of neighbours inside words as long as one occurs
    `min_count` times. The same texts give the same vocabulary; WordPiece as `tokenizers` trains it does not.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    fewest = BYTES + len(SPECIALS)
    if size < fewest:
        raise OptionError(f"A vocabulary of subwords has at least {fewest} entries, not {size}.")
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIALS["unk_token"]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=list(SPECIALS.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return with_special_tokens(tokenizer)
