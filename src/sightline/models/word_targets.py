"""Words as targets of a language model: which token of the vocabulary a word is, as written inside a sentence."""

from __future__ import annotations

from typing import Any

from sightline.errors import TargetError
from sightline.models.target import ALL, TargetLike, split_contrast
from sightline.models.task import Task


def name_tokens(target: TargetLike, task: Task, tokenizer: Any) -> TargetLike:
    """Return the target with words as token ids; what is a label of the task or a number stays as it is.

    A word of several tokens is refused: one position predicts one token. "his:her" is a contrast of two words.
    """

    def is_word(text: str) -> bool:
        try:
            token = _token_of(text, task, tokenizer)
        except TargetError:
            return False
        return not isinstance(token, str) or token.isdecimal() or token in task.facts.labels

    if isinstance(target, str) and target != ALL:
        target = split_contrast(target, is_word)
    if isinstance(target, tuple) and len(target) == 2:
        return _token_of(target[0], task, tokenizer), _token_of(target[1], task, tokenizer)
    return _token_of(target, task, tokenizer) if isinstance(target, str) and target != ALL else target


def _token_of(word: Any, task: Task, tokenizer: Any) -> Any:
    # Several tokens may be shown alike ("his" and " his"): then the tokenizer says which one a sentence would have.
    if not isinstance(word, str) or word.isdecimal() or task.facts.labels.count(word) == 1:
        return word
    forms = [tokenizer(form, add_special_tokens=False, verbose=False)["input_ids"] for form in (f" {word}", word)]
    single = [ids[0] for ids in forms if len(ids) == 1 and ids[0] != tokenizer.unk_token_id]
    if single:
        return int(single[0])
    if word in (vocabulary := tokenizer.get_vocab()):  # a piece as the message below names it ("##er")
        return int(vocabulary[word])
    folded, shortest = word.casefold(), min(forms, key=len)
    if len(shortest) < 2 or any(label.casefold() == folded for label in task.facts.labels):
        return word
    pieces = ", ".join(_show_piece(token, tokenizer) for token in shortest)
    raise TargetError(
        f"'{word}' is not one token of this vocabulary but {len(shortest)} ({pieces}), and one position predicts one "
        "token: name one of them as target."
    )


def _show_piece(token: int, tokenizer: Any) -> str:
    """Return a token as it is written in a text, or as its number if it is only a part of a character."""
    text = str(tokenizer.decode([token], clean_up_tokenization_spaces=False))
    return f"token {token}" if not text or "\ufffd" in text else f"'{text}'"
