"""What is learnt from a row: its class, the class of each of its words, its masked tokens, or where its answer is.

| task | label of a row | trained on |
|---|---|---|
| sequence_classification | its class | one class per row |
| token_classification | classes of the words of its text, divided by spaces | the first token of every word |
| masked_lm | – | 15 % of the tokens, hidden anew in every epoch (Devlin et al. 2019) |
| question_answering | – | first and last token of the answer, in every window of the context (`answer_rows`) |

In the first three the loss is the cross-entropy over tokens or rows with a class; others have the class −100. The
hidden tokens of validation and test rows are drawn once, so that their losses can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
from torch.utils.data import Dataset

from sightline.errors import InputError
from sightline.settings.training import TrainingTask as TrainingTask
from sightline.settings.values import check_one_of
from sightline.text.examples import Example
from sightline.text.tokenizer_limits import check_growth

WITHOUT_CLASSES: tuple[TrainingTask, ...] = ("masked_lm", "question_answering")
"""Tasks whose rows have no label."""
NO_CLASS = -100
"""Class of a token that the loss leaves out, as cross_entropy spells it."""
MOST_DRAWS = 200
"""Draws of hidden tokens; a single token is hidden in at least one of them, except with probability 1e-14."""


def check_task(task: str) -> TrainingTask:
    """Return the task; raise OptionError if it cannot be trained."""
    check_one_of("task", task, get_args(TrainingTask))
    return task  # type: ignore[return-value]


def labels_of(row: Example, task: TrainingTask) -> list[str]:
    """Return the names of the classes of a row: one, one per word of the text, or none."""
    if task in WITHOUT_CLASSES:
        return []
    if task == "sequence_classification":
        return [str(row.label)]
    names, words = str(row.label).split(), str(row.text).split()
    if len(names) != len(words):
        raise InputError(
            f"Row {row.id or '?'} has {len(words)} words and {len(names)} labels. Give one label per word, divided by "
            "spaces."
        )
    return names


class TokenisedRows(Dataset[dict[str, Any]]):
    """Rows as token ids with their classes, truncated at `max_tokens`; `count` is the number of classes."""

    left_out = 0

    def __init__(
        self,
        rows: Sequence[Example],
        classes: Sequence[Sequence[int]],
        tokenizer: Any,
        max_tokens: int,
        task: TrainingTask = "sequence_classification",
        count: int | None = None,
    ) -> None:
        self.count = count
        texts = [str(row.text) for row in rows]
        pairs = [row.pair or "" for row in rows] if any(row.pair for row in rows) else None
        by_word = task == "token_classification"
        for text in (*texts, *(pairs or ())):
            check_growth(tokenizer, text)
        encoded = tokenizer(
            texts, pairs, truncation=True, max_length=max_tokens, return_offsets_mapping=by_word or None
        )
        offsets = encoded.pop("offset_mapping", None)
        self.columns: dict[str, Any] = {name: encoded[name] for name in encoded}
        self.cut = sum(len(ids) == max_tokens for ids in encoded["input_ids"])
        if by_word:
            self.columns["labels"] = [
                _token_classes(text, names, places, encoded.sequence_ids(number))
                for number, (text, names, places) in enumerate(zip(texts, classes, offsets, strict=True))
            ]
        elif task == "sequence_classification":
            self.columns["labels"] = [number for (number,) in classes]

    def __len__(self) -> int:
        return len(self.columns["input_ids"])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: values[index] for name, values in self.columns.items()}

    def values(self, prediction: Any) -> dict[str, Any]:
        """Return the accuracy of every row with a class, (rows,)."""
        return {"accuracy": row_accuracies(prediction.predictions, prediction.label_ids)}

    def measure(self, prediction: Any) -> dict[str, float]:
        """Return accuracy and, for classes, macro F1."""
        return accuracy_and_f1(prediction.predictions, prediction.label_ids, self.count)

    def hide_tokens(self, tokenizer: Any, seed: int) -> None:
        """Hide 15 % of the tokens permanently, at least one in all rows; `labels` keeps the original tokens."""
        from transformers import DataCollatorForLanguageModeling

        collate = DataCollatorForLanguageModeling(tokenizer, seed=seed)
        for _ in range(MOST_DRAWS):
            hidden = [collate([self[index]]) for index in range(len(self))]
            if any(bool((row["labels"] != NO_CLASS).any()) for row in hidden):
                break
        else:
            raise InputError("No token of the validation texts can be hidden; give longer texts.")
        for name in ("input_ids", "labels"):
            self.columns[name] = [row[name][0].tolist() for row in hidden]


def make_collator(task: TrainingTask, tokenizer: Any) -> Callable[[list[dict[str, Any]]], Any]:
    """Return the function that makes a batch of rows; rows of a masked_lm without labels get hidden tokens."""
    from transformers import (
        DataCollatorForLanguageModeling,
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
    )

    if task == "sequence_classification":
        return DataCollatorWithPadding(tokenizer)  # type: ignore[no-any-return]
    with_labels = DataCollatorForTokenClassification(tokenizer)
    if task == "token_classification":
        return with_labels  # type: ignore[no-any-return]
    hide = DataCollatorForLanguageModeling(tokenizer)
    return lambda rows: with_labels(rows) if "labels" in rows[0] else hide(rows)


def accuracy_and_f1(predicted: Any, classes: Any, count: int | None = None) -> dict[str, float]:
    """Return accuracy and, for `count` classes, macro F1 of predicted against true classes, (rows,) or (rows, n).

    Accuracy is the share of tokens with a class that are right, averaged over rows.
    """
    predicted, classes = np.asarray(predicted), np.asarray(classes)
    known = classes != NO_CLASS
    metrics = {"accuracy": float(row_accuracies(predicted, classes).mean())}
    scores = []
    for number in range(count or 0):
        hits = int(((predicted == number) & (classes == number) & known).sum())
        total = int(((predicted == number) & known).sum() + (classes == number).sum())
        if total:
            scores.append(2 * hits / total)
    return metrics | ({"macro_f1": float(np.mean(scores))} if count else {})


def row_accuracies(predicted: Any, classes: Any) -> Any:
    """Return the share of right tokens per row with a class, (rows,)."""
    predicted, classes = (np.asarray(values).reshape(len(values), -1) for values in (predicted, classes))
    known = classes != NO_CLASS
    counted = known.any(axis=1)
    return ((predicted == classes) & known).sum(axis=1)[counted] / known.sum(axis=1)[counted]


def _token_classes(text: str, classes: Sequence[int], offsets: Any, segments: Sequence[int | None]) -> list[int]:
    """Return one class per token: the first token of every word has the word's, all others have none."""
    word_at: dict[int, int] = {}
    end = 0
    for number, word in enumerate(text.split()):
        start = text.index(word, end)
        end = start + len(word)
        word_at.update(dict.fromkeys(range(start, end), number))
    result: list[int] = []
    seen: set[int | None] = {None}
    for (start, stop), segment in zip(offsets, segments, strict=True):
        # Some tokenizers count the space before a word as part of its first token.
        places = range(start, stop) if segment == 0 else ()
        word_number = next((word_at[place] for place in places if place in word_at), None)
        result.append(NO_CLASS if word_number is None or word_number in seen else classes[word_number])
        seen.add(word_number)
    return result
