"""The vocabulary: 8,000 lower-case word pieces learnt from the training packages, in the form BERT tokenizers use.

WordPiece (Schuster & Nakajima 2012; as in Devlin et al. 2019). The special tokens have the places that Longformer's
configuration expects by default ([CLS] 0, [PAD] 1, [SEP] 2), so that positions count from `pad + 1 = 2` and 4,096
tokens need 4,098 position embeddings.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tools.builtin_model.corpus import Document

SPECIALS = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
CLS, PAD, SEP, UNK, MASK = range(5)
ASCII = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
MOST_CHARACTERS = 200
VOCABULARY_SIZE = 8_000
MAX_TOKENS = 4_096


def train_tokenizer(documents: Sequence[Document], seed: int, size: int = VOCABULARY_SIZE) -> Tokenizer:
    """Learn the word pieces from as many characters of either side, so that neither owns the vocabulary."""
    texts = balanced_texts(documents, seed)
    pieces = learn_pieces(texts, size)
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    tokenizer = _tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    tokenizer.add_special_tokens(list(SPECIALS))
    check_tokenizer(tokenizer, texts[:50])
    return tokenizer


def balanced_texts(documents: Sequence[Document], seed: int) -> list[str]:
    """Return documents of both sides in random order, of each about as many characters as the smaller side has."""
    sides: dict[str, list[str]] = {}
    for document in documents:
        sides.setdefault(document.side, []).append(document.text)
    budget = min(sum(map(len, texts)) for texts in sides.values())
    balanced: list[str] = []
    for side in sorted(sides):
        texts, taken = sorted(sides[side]), 0
        random.Random(seed).shuffle(texts)
        for text in texts:
            if taken >= budget:
                break
            balanced.append(text)
            taken += len(text)
    return balanced


def learn_pieces(texts: Sequence[str], size: int) -> list[str]:
    """Return the special tokens and the learnt pieces, in a fixed order.

    The trainer numbers single characters in the order of a hash table, another one each run, and these numbers break
    ties between pieces. Announcing every character in advance, in order, makes the result depend on the texts alone.
    """
    tokenizer = _tokenizer(models.WordPiece(unk_token="[UNK]"))
    words: Counter[str] = Counter()
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text)
        words.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal))
    characters: Counter[str] = Counter()
    for word, count in words.items():
        characters.update({character: word.count(character) * count for character in set(word)})
    frequent = sorted(characters, key=lambda character: (-characters[character], character))
    # The cleaned corpus has no `*` or `|`, but the texts of users do: all of ASCII is known.
    alphabet = sorted({*ASCII, *frequent[:MOST_CHARACTERS]})
    inside = sorted({character for word in words for character in word[1:]} & set(alphabet))
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        limit_alphabet=len(alphabet),
        initial_alphabet=alphabet,
        special_tokens=[*SPECIALS, *alphabet, *(f"##{character}" for character in inside)],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return [*SPECIALS, *sorted(set(tokenizer.get_vocab()) - set(SPECIALS))]


def _tokenizer(model: models.WordPiece) -> Tokenizer:
    """Return a tokenizer that lower-cases and splits as BERT's does."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def check_tokenizer(tokenizer: Tokenizer, texts: Sequence[str], tolerated: float = 0.01) -> float:
    """Return the share of unknown tokens; refuse a tokenizer whose specials moved or that knows too little.

    A WordPiece file loaded the wrong way does not fail: it maps every word to [UNK] and trains to chance.
    """
    for place, token in enumerate(SPECIALS):
        if tokenizer.token_to_id(token) != place:
            raise ValueError(f"{token} is token {tokenizer.token_to_id(token)}, expected {place}.")
    ids = [i for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False) for i in encoding.ids]
    unknown = ids.count(UNK) / max(1, len(ids))
    if unknown > tolerated:
        raise ValueError(f"{unknown:.1%} of the tokens are unknown to the vocabulary, more than {tolerated:.1%}.")
    return unknown


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json so that AutoTokenizer reads them back."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_TOKENS,
        "model_input_names": ["input_ids", "attention_mask"],
        "cls_token": "[CLS]",
        "pad_token": "[PAD]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read tokenizer.json back."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))
