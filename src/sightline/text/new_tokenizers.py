"""Tokenizers for models that are trained from scratch: of whole words, or of words and pieces of words.

Words only: one token per word. Learnt from texts with pieces: a word that is too rare for an entry of its own is read
in pieces, so that its ending is still seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sightline.errors import InputError, OptionError

SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def word_tokenizer(words: Sequence[str], *, lowercase: bool = False, punctuation: bool = False) -> Any:
    """Return a fast tokenizer with one token per word; ids are the special tokens, then `words` in order.

    Texts are split at white space; with `punctuation` also at punctuation marks, as BERT does.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    ids = {word: number for number, word in enumerate([*SPECIALS.values(), *words])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=SPECIALS["unk_token"]))
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer() if punctuation else pre_tokenizers.WhitespaceSplit()
    return with_special_tokens(tokenizer)


def with_special_tokens(tokenizer: Any) -> Any:
    """Return a tokenizer of the `tokenizers` library as a fast one that puts [CLS] and [SEP] around texts."""
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(mark, tokenizer.token_to_id(mark)) for mark in ("[CLS]", "[SEP]")],
    )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=names, **SPECIALS)


def learn_word_tokenizer(texts: Iterable[str], *, size: int = 20_000, min_count: int = 2) -> Any:
    """Return a word tokenizer of the `size` most frequent lower-case words that occur `min_count` times or more.

    Ties are broken by the alphabet, so that the same texts give the same vocabulary.
    """
    from tokenizers import normalizers, pre_tokenizers

    lower, splitter = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(lower.normalize_str(text)))
    frequent = [word for word, count in counts.items() if count >= min_count and word not in SPECIALS.values()]
    words = sorted(frequent, key=lambda word: (-counts[word], word))[:size]
    if len(words) < 2:
        raise InputError(
            f"The training texts have {len(words)} word{'s' * (len(words) != 1)} that occur{'s' * (len(words) == 1)} "
            f"{min_count} times or more; a vocabulary needs at least two."
        )
    return word_tokenizer(words, lowercase=True, punctuation=True)


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
