"""Question answering: contexts cut into windows, the tokens at which answers begin and end, and how answers are scored.

A row is a context (`text`), a question (`pair`) and its answers, spans of characters of the context. Question and
context are encoded and cut into windows by the functions that `Model.encode` uses, so the trained model later reads
what it was trained on. What is learnt of a window of n tokens:

| the window | start and end |
|---|---|
| holds an answer whole | first and last token that share a character with it |
| does not, or the question has none | the first token of the window: "no answer" (Devlin et al. 2019, 4.3) |

The loss is that of the library, the mean of the cross-entropies of start and end over the tokens of the window.
Questions whose answers fit into no window are left out of training, where they would be learnt as unanswerable; in
validation and test rows they count like all others.

Answers are scored as by SQuAD (Rajpurkar et al. 2016): in lower case, without punctuation and the articles a, an and
the; exact match is 1 for equal wordings, F1 compares the multisets of their words. Of several true answers the best
score counts. "No answer" is predicted only if some training question has none, and where its score exceeds that of the
best answer.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from sightline.errors import InputError, OptionError
from sightline.metrics import tokens_in_characters
from sightline.models.answers import QuestionAnswering
from sightline.models.batching import combine, window_positions
from sightline.models.task import TaskFacts
from sightline.text import Encoding, Example, encode_text, read_in_windows, window_encodings

Span = tuple[int, int]
LABELS = ("start_positions", "end_positions", "number")
"""Fields of a window that the model does not read; `number` is its index in the data set."""
FEWEST_TOKENS = 16
"""Shortest window that can be requested."""
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = frozenset(string.punctuation)


def normalise_answer(answer: str) -> str:
    """Return the wording that SQuAD compares: lower case, no ASCII punctuation, no articles, single spaces."""
    letters = "".join(letter for letter in answer.lower() if letter not in _PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", letters).split())


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """Return 1 if the prediction has the wording of one of the answers, else 0; no answer is written ""."""
    return float(any(normalise_answer(predicted) == normalise_answer(answer) for answer in answers or [""]))


def answer_f1(predicted: str, answers: Sequence[str]) -> float:
    """Return the largest F1 of words between the prediction and one of the answers, in [0, 1]; no answer is ""."""
    return max(_word_f1(normalise_answer(predicted), normalise_answer(answer)) for answer in answers or [""])


def _word_f1(first: str, second: str) -> float:
    words = Counter(first.split()), Counter(second.split())
    if not words[0] or not words[1]:
        return float(words[0] == words[1])
    return 2 * (words[0] & words[1]).total() / (words[0].total() + words[1].total())


def encode_question(tokenizer: Any, row: Example, max_tokens: int) -> Encoding:
    """Return question and context as the model reads them, with windows if they are longer than `max_tokens`."""
    context, question = str(row.text), str(row.pair)
    try:
        encoding = encode_text(tokenizer, question, context, max_tokens=None)
        if len(encoding) > max_tokens:
            windowed = read_in_windows(encoding, max_tokens)
            # A question that fills most of the window leaves no room for sliding: then the longer text is truncated.
            return windowed or encode_text(tokenizer, question, context, max_tokens=max_tokens)
    except InputError as error:
        raise InputError(f"Row {row.id or '?'}: {error}") from None
    return encoding


def answer_tokens(encoding: Encoding, span: Span) -> Span | None:
    """Return the first and last token of the context that share a character with `span`, or None.

    None: the tokenizer drops these characters, or the model does not read all of them.
    """
    start, end = span
    inside = np.flatnonzero(
        tokens_in_characters(encoding.offsets, [(start, end)], segments=encoding.segments, segment=1)
    )
    if not len(inside) or (encoding.dropped and encoding.offsets[inside[-1], 1] < end):
        return None
    return int(inside[0]), int(inside[-1])


def trimmed_answers(row: Example) -> list[Span]:
    """Return the answers of a row without white space at their ends; raise InputError if one is only white space."""
    spans = []
    for start, end in row.answer or ():
        wording = str(row.text)[start:end]
        if not wording.strip():
            raise InputError(
                f"Row {row.id or '?'}: the answer at characters {start} to {end} of the context is white space. Leave "
                "the list of answers empty if the context does not answer the question."
            )
        before = len(wording) - len(wording.lstrip())
        spans.append((start + before, start + before + len(wording.strip())))
    return spans


class AnswerRows(Dataset[dict[str, Any]]):
    """Windows of all rows with their labels, and the rows to score the answers by.

    learnt: leave out rows whose answers fit into no window. predicts_none: "no answer" is a possible prediction.
    """

    cut = 0
    """Nothing is cut off: long contexts are read in windows."""

    def __init__(
        self,
        rows: Sequence[Example],
        tokenizer: Any,
        max_tokens: int,
        config: Any,
        *,
        learnt: bool,
        predicts_none: bool,
    ) -> None:
        if max_tokens < FEWEST_TOKENS:
            raise OptionError(
                f"max_tokens={max_tokens} is too few for a question and its context: {FEWEST_TOKENS} or more."
            )
        self.task = QuestionAnswering(TaskFacts(("start", "end")))
        self.predicts_none = predicts_none
        self.rows: list[Example] = []
        self.encodings: list[Encoding] = []
        self.windows: list[dict[str, Any]] = []
        self.of_row: list[list[int]] = []
        """Numbers of the windows of every row."""
        self.left_out = 0
        has_types = int(getattr(config, "type_vocab_size", 0) or 0) > 1
        for row in rows:
            encoding = encode_question(tokenizer, row, max_tokens)
            answers = trimmed_answers(row)
            spans = [tokens for span in answers if (tokens := answer_tokens(encoding, span)) is not None]
            labelled = [(places, _in_window(spans, places)) for places in window_positions(encoding)]
            if learnt and answers and all(ends is None for _, ends in labelled):
                self.left_out += 1
                continue
            self.rows.append(row)
            self.encodings.append(encoding)
            self.of_row.append([])
            parts = [encoding] if encoding.windows is None else window_encodings(encoding, [p for p, _ in labelled])
            for part, (_, ends) in zip(parts, labelled, strict=True):
                self.of_row[-1].append(len(self.windows))
                self.windows.append(_window(part, ends or (0, 0), len(self.windows), has_types))

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.windows[index]

    def predicted_answers(self, scores: NDArray[Any], numbers: NDArray[Any]) -> list[str]:
        """Return the answer to every row, "" for none, from start and end scores (windows, n, 2) in any order."""
        place_of = {int(number): place for place, number in enumerate(numbers)}
        answers = []
        for encoding, windows in zip(self.encodings, self.of_row, strict=True):
            logits = [
                torch.from_numpy(np.asarray(scores[place_of[number], : len(self.windows[number]["input_ids"])]))
                for number in windows
            ]
            prediction = self.task.prediction(combine(self.task, encoding, logits), encoding, None)
            best, none = prediction.logits
            answers.append("" if self.predicts_none and none > best else prediction.label)
        return answers

    def values(self, prediction: Any) -> dict[str, NDArray[np.float64]]:
        """Return exact match and F1 of every row, (rows,)."""
        answers = self.predicted_answers(prediction.predictions, prediction.label_ids[LABELS.index("number")])
        true = [[str(row.text)[start:end] for start, end in row.answer or ()] for row in self.rows]
        pairs = list(zip(answers, true, strict=True))
        return {
            "exact_match": np.array([exact_match(answer, wordings) for answer, wordings in pairs]),
            "f1": np.array([answer_f1(answer, wordings) for answer, wordings in pairs]),
        }

    def measure(self, prediction: Any) -> dict[str, float]:
        """Return the means of `values`."""
        return {name: float(values.mean()) for name, values in self.values(prediction).items()}


def pad_windows(rows: Sequence[dict[str, Any]], pad: int) -> dict[str, Tensor]:
    """Return the windows as one batch, padded on the right."""
    longest = max(len(row["input_ids"]) for row in rows)
    batch = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name not in LABELS:
            filler = pad if name == "input_ids" else 0
            values = [[*value, *[filler] * (longest - len(value))] for value in values]
        batch[name] = torch.tensor(values)
    return batch


def _in_window(spans: Sequence[Span], places: NDArray[np.int64]) -> Span | None:
    """Return the first token span that lies entirely within the window of tokens `places`, in window positions."""
    for first, last in spans:
        start, end = np.searchsorted(places, (first, last)).tolist()
        if end < len(places) and places[start] == first and places[end] == last and end - start == last - first:
            return start, end
    return None


def _window(encoding: Encoding, ends: Span, number: int, has_types: bool) -> dict[str, Any]:
    question = np.flatnonzero(encoding.segments == 0)
    inside = np.arange(len(encoding)) <= (question[-1] if len(question) else 0)
    return {
        "input_ids": encoding.ids.tolist(),
        "attention_mask": [1] * len(encoding),
        "token_type_ids": encoding.type_ids.tolist() if has_types else [0] * len(encoding),
        # In a Longformer the question has global attention, as it does when it is explained.
        "global_attention_mask": inside.astype(int).tolist(),
        "start_positions": ends[0],
        "end_positions": ends[1],
        "number": number,
    }
