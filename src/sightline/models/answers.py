"""Question answering: the span of the context that answers the question.

y = start score of the first token + end score of the last one. A context longer than the model is read in windows: the
logits of the document are then (W, n, 2), −∞ where a window does not hold a token; start and end of an answer come from
one window, and probabilities are normalised over all windows together, so that windows compete.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.attention.arrays import as_array
from sightline.errors import TargetError
from sightline.models.target import ALL, Ends, Prediction, Quantity, Request, Target, TargetLike, check_quantity
from sightline.models.task import Positions, Task, place_of
from sightline.settings.values import check_position
from sightline.text import Encoding

NO_ANSWER = "no answer"
"""The target for "the context does not answer the question": both scores of the first token."""
Span = tuple[int, int]


class QuestionAnswering(Task):
    """The span that answers the question."""

    name = "question_answering"
    auto_class = "AutoModelForQuestionAnswering"
    suffix = ("ForQuestionAnswering", "ForQuestionAnsweringSimple")
    reads_windows = True
    has_named_classes = False
    longest_answer = 30

    def document_logits(self, outputs: Any, document: int, length: int) -> Tensor:
        """Return (n, 2): start and end scores."""
        ends = [self.read_output(outputs, name) for name in ("start_logits", "end_logits")]
        return torch.stack(ends, dim=-1)[document, :length]

    def problem_with_pair(self, pair: str | None) -> str | None:
        """Return a sentence if there is no context to find the answer in."""
        if pair is not None:
            return None
        return (
            "This model answers questions: give the question as the text, and the context that holds the answer as the "
            "second text (pair=, --pair)."
        )

    @staticmethod
    def reading_order(text: str, pair: str | None) -> tuple[str, str | None]:
        """Return question and context: in a row of a data set, the text is the context and the pair the question."""
        return (text, None) if pair is None else (pair, text)

    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return None: a span is chosen by the target (first, last), not by a position."""
        if asked is not None:
            raise TargetError("A span is explained here: give target=(first token, last token) instead of a position.")
        return None

    def resolve(self, logits: Tensor, encoding: Encoding, request: Request) -> Target:
        """Return the answer requested, else the best one.

        The target is the text of an answer, whose best occurrence in the context is explained; a pair of token numbers
        (first, last), one of which may be None to explain the other end only, also written "12:15", "12:" or ":15"
        where the context does not hold this text; "start" or "end" of the best answer; or "no answer".
        """
        if isinstance(request.target, Target):
            return request.target
        self.position(logits, encoding, request.position)
        chosen = check_quantity(request.quantity)
        wanted = _read_token_numbers(request.target, encoding)
        scores = _windows_of(logits.detach())
        ends: Ends = "both"
        if wanted is None or wanted in ("start", "end"):
            window, span = self._best_answer(scores, encoding)
            ends = "both" if wanted is None else "start" if wanted == "start" else "end"
        elif wanted == NO_ANSWER:
            window, span = _no_answer_window(scores), (0, 0)
        elif isinstance(wanted, str) and wanted != ALL:
            window, span = _best_of(scores, _occurrences(wanted, encoding), "both")
        else:
            span, ends = _requested_span(wanted, len(encoding))
            window, span = _best_of(scores, [span], ends)
        return Target(
            index=None,
            label=NO_ANSWER if wanted == NO_ANSWER else _span_text(encoding, *span),
            quantity=chosen,
            span=span,
            ends=ends,
            window=window if logits.ndim == 3 else None,
        )

    def all_targets(self, logits: Tensor, encoding: Encoding, request: Request) -> list[Target]:
        """Raise TargetError: spans are not classes."""
        raise TargetError(
            f"A question-answering model has no classes, so there is no target '{ALL}'; leave it out to explain the "
            "best answer."
        )

    def target_value(self, logits: Tensor, target: Target, quantity: Quantity) -> Tensor:
        """Return the quantity of the first token as start plus that of the last as end; each competes with all tokens.

        The log-odds of an answer are the sum of the log-odds of its two ends.
        """
        return torch.stack([self.class_value(scores, place, quantity) for scores, place in _ends(logits, target)]).sum()

    def probability(self, logits: Tensor, target: Target) -> float:
        """Return the product of the probabilities of the answer's two ends, or that of the one explained."""
        probabilities = [float(self.probabilities(scores)[place]) for scores, place in _ends(logits, target)]
        return float(np.prod(probabilities))

    def prediction(self, logits: Tensor, encoding: Encoding, position: int | None) -> Prediction:
        """Return the best answer and "no answer", each with the product of its two probabilities."""
        scores = _windows_of(logits)
        window, (first, last) = self._best_answer(scores, encoding)
        label = _span_text(encoding, first, last)
        answers = [
            Target(None, label, span=(first, last), window=window),
            Target(None, NO_ANSWER, span=(0, 0), window=_no_answer_window(scores)),
        ]
        probabilities = np.array([self.probability(scores, answer) for answer in answers])
        return Prediction(
            index=first,
            label=label,
            probability=float(probabilities[0]),
            labels=(label, NO_ANSWER),
            logits=as_array(torch.stack([self.target_value(scores, answer, "logit") for answer in answers])),
            probabilities=probabilities,
        )

    def readout(self, target: Target, encoding: Encoding) -> NDArray[np.float64]:
        """Return weight 0.5 each for the first and last token of the answer, or 1 for the end explained."""
        if target.direction is not None:
            return super().readout(target, encoding)
        assert target.span is not None
        weights = np.zeros(len(encoding))
        for place in target.span if target.ends == "both" else target.read_positions:
            weights[place] += 0.5 if target.ends == "both" else 1.0
        return weights

    def combine_windows(self, logits: Sequence[Tensor], positions: Positions, encoding: Encoding) -> Tensor:
        """Return (W, n, 2): the scores of every window in the places of the document, whatever the aggregation."""
        whole = []
        for scores, places in zip(logits, positions, strict=True):
            empty = torch.full((len(encoding), 2), -torch.inf, dtype=scores.dtype, device=scores.device)
            whole.append(empty.index_copy(0, torch.from_numpy(places).to(scores.device), scores))
        return torch.stack(whole)

    def place_in_window(self, target: Target, positions: NDArray[np.int64]) -> Target | None:
        """Return the target with its answer counted in one window, or None if the window lacks one of its ends."""
        assert target.span is not None
        first, last = (place_of(end, positions) for end in target.span)
        if first is None or last is None:
            return None
        return replace(target, span=(first, last), window=None)

    def _best_answer(self, scores: Tensor, encoding: Encoding) -> tuple[int, Span]:
        """Return the window and the span with the best start + end score, start <= end < start + longest_answer.

        Special tokens and, in a pair, the question are excluded.
        """
        allowed = ~encoding.special
        if encoding.pair is not None:
            allowed &= encoding.segments == 1
        if not allowed.any():
            allowed = np.ones(len(encoding), dtype=bool)
        best, answer = -np.inf, (0, (0, 0))
        for window, (start, end) in enumerate(scores.cpu().double().numpy().transpose(0, 2, 1).copy()):
            start[~allowed] = end[~allowed] = -np.inf
            for first in np.flatnonzero(np.isfinite(start)):
                last = first + int(np.argmax(end[first : first + self.longest_answer]))
                if start[first] + end[last] > best:
                    best, answer = start[first] + end[last], (window, (int(first), int(last)))
        return answer


def _windows_of(logits: Tensor) -> Tensor:
    """Return (W, n, 2): a document that is read at once has one window."""
    return logits if logits.ndim == 3 else logits[None]


def _ends(logits: Tensor, target: Target) -> list[tuple[Tensor, int]]:
    """Return start scores and end scores of all windows, (W·n,), each with the place of the answer's end in them."""
    assert target.span is not None
    windows = _windows_of(logits)
    before = (target.window or 0) * windows.shape[1]
    sides = {"both": (0, 1), "start": (0,), "end": (1,)}[target.ends]
    return [(windows[:, :, side].reshape(-1), before + target.span[side]) for side in sides]


def _no_answer_window(scores: Tensor) -> int:
    """Return the window that is least sure that there is no answer in it: the score of the document is the smallest."""
    return int(scores[:, 0].sum(dim=-1).argmin())


def _best_of(scores: Tensor, spans: Sequence[Span], ends: Ends) -> tuple[int, Span]:
    """Return the window and span with the best score among `spans`; both ends must lie in the window."""
    best, answer = -np.inf, None
    for first, last in spans:
        start, end = scores[:, first, 0], scores[:, last, 1]
        together = start + end
        held = torch.isfinite(together)
        explained = {"both": together, "start": start, "end": end}[ends].masked_fill(~held, -torch.inf)
        window = int(explained.argmax())
        if float(explained[window]) > best:
            best, answer = float(explained[window]), (window, (first, last))
    if answer is None:
        first, last = spans[0]
        raise TargetError(f"No window holds the whole answer from token {first} to token {last}: choose a shorter one.")
    return answer


def _read_token_numbers(wanted: TargetLike, encoding: Encoding) -> TargetLike:
    """Return "12:15", "12:" and ":15" as a pair of token numbers, unless the context holds this text (a time)."""
    numbers = re.fullmatch(r"(\d*):(\d*)", wanted) if isinstance(wanted, str) else None
    if numbers is None or numbers[0] in encoding.segment_texts[-1]:
        return wanted
    return numbers[1] or None, numbers[2] or None


def _requested_span(wanted: Any, tokens: int) -> tuple[Span, Ends]:
    """Return the tokens of an answer named by numbers; one of two may be None."""
    pair = wanted if isinstance(wanted, tuple) and len(wanted) == 2 else (None, None)
    if pair == (None, None) or not all(place is None or str(place).isdecimal() for place in pair):
        raise TargetError(
            "For question answering a target is a pair of token numbers (the first and the last of the answer; None "
            f"leaves one end out), the answer's text, 'start', 'end' or '{NO_ANSWER}', not {wanted!r}."
        )
    first, last = (None if place is None else check_position(int(place), tokens, error=TargetError) for place in pair)
    if first is None or last is None:
        place = last if first is None else first
        assert place is not None
        return (place, place), "end" if first is None else "start"
    if first > last:
        raise TargetError(f"The answer would end (token {last}) before it begins (token {first}).")
    return (first, last), "both"


def _occurrences(answer: str, encoding: Encoding) -> list[Span]:
    """Return the token spans of every occurrence of a text in the context, upper and lower case as written."""
    segment = 0 if encoding.pair is None else 1
    context = encoding.segment_texts[segment]
    tokens = np.flatnonzero((encoding.segments == segment) & ~encoding.special)
    starts, ends = encoding.offsets[tokens].T
    text = answer.strip()
    spans, place = [], context.find(text) if text else -1
    while place >= 0:
        touched = tokens[(ends > place) & (starts < place + len(text))]
        if len(touched) and ends[tokens == touched[-1]][0] >= place + len(text):
            spans.append((int(touched[0]), int(touched[-1])))
        place = context.find(text, place + 1)
    if not spans:
        where = "the part of the context that the model reads" if encoding.dropped else "the context"
        similar = re.search(re.escape(text), context, re.IGNORECASE) if text else None
        advice = f"write it as there: '{similar[0]}'" if similar else "give its text as it is written there"
        raise TargetError(f"The answer '{answer}' does not occur in {where}; {advice}.")
    return spans


def _span_text(encoding: Encoding, first: int, last: int) -> str:
    segment = int(encoding.segments[first])
    if segment < 0:
        return encoding.tokens[first]
    source = encoding.segment_texts[segment]
    return source[int(encoding.offsets[first, 0]) : int(encoding.offsets[last, 1])]
