"""What a model's head computes: five tasks, and how each turns logits into a prediction, a target and a readout.

| task | logits of one document | the readout (rows of the last layer the target depends on) |
|---|---|---|
| sequence_classification | (C,) | the first token; all tokens alike under mean pooling; the last of a causal model |
| token_classification | (n, C) | the token asked for |
| masked_lm | (n, V) | the masked token |
| causal_lm | (n, V) | the last token, behind which the next one is predicted |
| question_answering | (n, 2) start and end | first and last token of the answer, half each |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.arguments import check_position
from sightline.attention.arrays import as_array
from sightline.errors import InputError, OptionError, TargetError, UnsupportedError
from sightline.models.target import ALL, Prediction, Quantity, Target, TargetLike, check_quantity, class_index
from sightline.text import Encoding

LISTED_TOKENS = 50
"""How many of the likeliest tokens a language model's prediction lists."""


@dataclass(frozen=True)
class TaskFacts:
    """What a task needs to know about the model: its labels, its pooling, and the ids of special tokens."""

    labels: tuple[str, ...]
    multi_label: bool = False
    mean_pooling: bool = False
    reads_last: bool = False
    """The head reads the last token that is not `pad_id` (the last if there is none), as causal models' heads do."""
    pad_id: int | None = None
    mask_id: int | None = None
    outside_label: int | None = None


class Task(ABC):
    """One kind of head; subclasses define how its logits are read."""

    name: ClassVar[str]
    auto_class: ClassVar[str]
    suffix: ClassVar[str]

    def __init__(self, facts: TaskFacts) -> None:
        self.facts = facts

    def document_logits(self, outputs: Any, document: int, length: int) -> Tensor:
        """Cut the logits of one document out of the library's output object."""
        logits: Tensor = outputs.logits
        return logits[document, :length]

    @abstractmethod
    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return the token whose scores are read, or None when the head reads the whole document."""

    def class_logits(self, logits: Tensor, position: int | None) -> Tensor:
        """Return the scores of the classes, (C,)."""
        return logits if position is None else logits[position]

    def probabilities(self, scores: Tensor) -> Tensor:
        """Turn class scores into probabilities (sigmoid for multi-label heads, else softmax)."""
        return torch.sigmoid(scores) if self.facts.multi_label else torch.softmax(scores, dim=-1)

    def resolve(
        self, logits: Tensor, encoding: Encoding, wanted: TargetLike, quantity: str, position: int | None
    ) -> Target:
        """Turn what the user asked for into a `Target`; None means the predicted class."""
        if isinstance(wanted, Target):
            return wanted
        chosen = check_quantity(quantity)
        where = self.position(logits, encoding, position)
        labels = self.facts.labels
        contrast = None
        if isinstance(wanted, str) and wanted == ALL:
            raise TargetError(_one_at_a_time(labels))
        if wanted is None:
            index = int(self.class_logits(logits, where).argmax())
        elif isinstance(wanted, tuple | list):
            if len(wanted) != 2:
                raise TargetError(f"A contrast names two classes, {len(wanted)} were given: {wanted!r}.")
            index, contrast = (class_index(choice, labels, closed=where is None) for choice in wanted)
            if index == contrast:
                raise TargetError(f"A contrast needs two different classes, '{labels[index]}' was given twice.")
        else:
            index = class_index(wanted, labels, closed=where is None)
        return Target(
            index=index,
            label=labels[index],
            contrast=contrast,
            contrast_label=None if contrast is None else labels[contrast],
            quantity=chosen,
            position=where,
        )

    def all_targets(self, logits: Tensor, encoding: Encoding, quantity: str, position: int | None) -> list[Target]:
        """Return one target per class, in the order of the classes."""
        return [self.resolve(logits, encoding, index, quantity, position) for index in range(len(self.facts.labels))]

    def value(self, logits: Tensor, target: Target) -> Tensor:
        """Return y, the scalar that is explained, on the autograd path."""
        assert target.index is not None
        quantity = "logit" if target.contrast is not None and target.quantity == "margin" else target.quantity
        scores = self.quantity(self.class_logits(logits, target.position), quantity)
        y = scores[target.index]
        return y if target.contrast is None else y - scores[target.contrast]

    def probability(self, logits: Tensor, target: Target) -> float:
        """Return the probability of the target's class, whatever quantity is explained."""
        assert target.index is not None
        return float(self.probabilities(self.class_logits(logits, target.position))[target.index])

    def quantity(self, scores: Tensor, quantity: Quantity) -> Tensor:
        """Return logits, probabilities, log-probabilities or margins of the classes, (C,)."""
        if quantity == "logit":
            return scores
        if quantity == "probability":
            return self.probabilities(scores)
        if quantity == "margin":
            if self.facts.multi_label or len(scores) == 1:
                return scores
            best, second = scores.topk(2).values
            is_best = torch.arange(len(scores), device=scores.device) == scores.argmax()
            return scores - torch.where(is_best, second, best)
        return torch.nn.functional.logsigmoid(scores) if self.facts.multi_label else torch.log_softmax(scores, dim=-1)

    def prediction(self, logits: Tensor, encoding: Encoding, position: int | None) -> Prediction:
        """Return what the model predicts for this document (at `position`)."""
        scores = self.class_logits(logits, position)
        probabilities = self.probabilities(scores)
        index = int(scores.argmax())
        return Prediction(
            index=index,
            label=self.facts.labels[index],
            probability=float(probabilities[index]),
            labels=self.facts.labels,
            logits=as_array(scores),
            probabilities=as_array(probabilities),
        )

    def readout(self, target: Target, encoding: Encoding) -> NDArray[np.float64]:
        """Return the weights (n,) of the rows the target is read from; they sum to 1."""
        weights = np.zeros(len(encoding))
        weights[target.position or 0] = 1.0
        return weights


class SequenceClassification(Task):
    """One decision about the whole document."""

    name = "sequence_classification"
    auto_class = "AutoModelForSequenceClassification"
    suffix = "ForSequenceClassification"

    def document_logits(self, outputs: Any, document: int, length: int) -> Tensor:
        """Return (C,): the head has already reduced the document."""
        logits: Tensor = outputs.logits
        return logits[document]

    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return None: the head reads the whole document."""
        if asked is not None:
            raise TargetError(
                "A position can be chosen only where the model scores single tokens; this one classifies documents."
            )
        return None

    def readout(self, target: Target, encoding: Encoding) -> NDArray[np.float64]:
        """Return weight 1 for the first token; equal weights for mean pooling; the last non-pad token if causal."""
        if self.facts.mean_pooling:
            return np.full(len(encoding), 1.0 / len(encoding))
        if self.facts.reads_last:
            words = np.flatnonzero(encoding.ids != self.facts.pad_id)
            last = np.zeros(len(encoding))
            last[words[-1] if len(words) else 0] = 1.0
            return last
        return super().readout(target, encoding)


class TokenClassification(Task):
    """A label for every token; the most confident label other than "O" is explained by default."""

    name = "token_classification"
    auto_class = "AutoModelForTokenClassification"
    suffix = "ForTokenClassification"

    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return the requested token, else the one with the most confident label that is not "outside"."""
        if asked is not None:
            return check_position(asked, len(encoding), error=TargetError)
        scores = torch.softmax(logits.detach(), dim=-1).clone()
        if self.facts.outside_label is not None and scores.shape[-1] > 1:
            scores[:, self.facts.outside_label] = -1.0
        best = scores.max(dim=-1).values
        if not encoding.special.all():
            best[torch.from_numpy(encoding.special).to(best.device)] = -1.0
        return int(best.argmax())


class MaskedLanguageModel(Task):
    """The token behind the mask."""

    name = "masked_lm"
    auto_class = "AutoModelForMaskedLM"
    suffix = "ForMaskedLM"

    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return the requested token, else the first mask."""
        if asked is not None:
            return check_position(asked, len(encoding), error=TargetError)
        masks = np.flatnonzero(encoding.ids == (-1 if self.facts.mask_id is None else self.facts.mask_id))
        if not len(masks):
            raise InputError(
                "This is a masked language model and the text has no mask token. Put one where a word is to be "
                "predicted (for example [MASK] or <mask>), or give position=."
            )
        return int(masks[0])

    def all_targets(self, logits: Tensor, encoding: Encoding, quantity: str, position: int | None) -> list[Target]:
        """Raise TargetError: a vocabulary is too large to explain every token of it."""
        size = len(self.facts.labels)
        word = f" (the word '{ALL}' is {self.facts.labels.index(ALL)})" if ALL in self.facts.labels else ""
        raise TargetError(
            f"'{ALL}' stands for all classes, which here are the {size:,} tokens of the vocabulary; "
            f"name one as target, by word or number{word}."
        )

    def prediction(self, logits: Tensor, encoding: Encoding, position: int | None) -> Prediction:
        """Return a prediction that lists the likeliest tokens only."""
        full = super().prediction(logits, encoding, position)
        likeliest = np.argsort(-full.probabilities, kind="stable")[:LISTED_TOKENS]
        return replace(
            full,
            labels=tuple(full.labels[i] for i in likeliest),
            logits=full.logits[likeliest],
            probabilities=full.probabilities[likeliest],
        )


class CausalLanguageModel(MaskedLanguageModel):
    """The token that comes next."""

    name = "causal_lm"
    auto_class = "AutoModelForCausalLM"
    suffix = "LMHeadModel"

    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return the requested token, else the last one; the token that follows it is explained."""
        return len(encoding) - 1 if asked is None else check_position(asked, len(encoding), error=TargetError)


class QuestionAnswering(Task):
    """The span that answers the question."""

    name = "question_answering"
    auto_class = "AutoModelForQuestionAnswering"
    suffix = "ForQuestionAnswering"
    longest_answer = 30

    def document_logits(self, outputs: Any, document: int, length: int) -> Tensor:
        """Return (n, 2): start and end scores."""
        return torch.stack((outputs.start_logits, outputs.end_logits), dim=-1)[document, :length]

    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return None: a span is chosen by the target (first, last), not by a position."""
        if asked is not None:
            raise TargetError("A span is explained here: give target=(first token, last token) instead of a position.")
        return None

    def resolve(
        self, logits: Tensor, encoding: Encoding, wanted: TargetLike, quantity: str, position: int | None
    ) -> Target:
        """Return the span requested as a pair of token numbers, else the best span."""
        if isinstance(wanted, Target):
            return wanted
        self.position(logits, encoding, position)
        if wanted is None:
            first, last = self._best_span(logits.detach(), encoding)
        elif isinstance(wanted, tuple | list) and len(wanted) == 2 and all(str(end).isdecimal() for end in wanted):
            first, last = (check_position(int(end), len(encoding), error=TargetError) for end in wanted)
            if first > last:
                raise TargetError(f"The answer would end (token {last}) before it begins (token {first}).")
        else:
            raise TargetError(
                "For question answering a target is a pair of token numbers: the first and the last of the answer."
            )
        return Target(
            index=None, label=_span_text(encoding, first, last), quantity=check_quantity(quantity), span=(first, last)
        )

    def all_targets(self, logits: Tensor, encoding: Encoding, quantity: str, position: int | None) -> list[Target]:
        """Raise TargetError: spans are not classes."""
        raise TargetError(f"A question-answering model has no classes, so there is no target '{ALL}'.")

    def value(self, logits: Tensor, target: Target) -> Tensor:
        """Return the start score of the first plus the end score of the last token, in the chosen quantity."""
        assert target.span is not None
        start, end = (self.quantity(logits[:, side], target.quantity) for side in (0, 1))
        return start[target.span[0]] + end[target.span[1]]

    def probability(self, logits: Tensor, target: Target) -> float:
        """Return the product of the probabilities of the answer's two ends."""
        assert target.span is not None
        start, end = (self.probabilities(logits[:, side]) for side in (0, 1))
        return float(start[target.span[0]] * end[target.span[1]])

    def prediction(self, logits: Tensor, encoding: Encoding, position: int | None) -> Prediction:
        """Return the best span with the product of its two probabilities."""
        first, last = self._best_span(logits, encoding)
        start, end = (torch.softmax(logits[:, side], dim=0) for side in (0, 1))
        probability = float(start[first] * end[last])
        label = _span_text(encoding, first, last)
        score = float(logits[first, 0] + logits[last, 1])
        return Prediction(
            index=first,
            label=label,
            probability=probability,
            labels=(label,),
            logits=np.array([score]),
            probabilities=np.array([probability]),
        )

    def readout(self, target: Target, encoding: Encoding) -> NDArray[np.float64]:
        """Return weight 0.5 each for the first and last token of the answer."""
        assert target.span is not None
        weights = np.zeros(len(encoding))
        for end in target.span:
            weights[end] += 0.5
        return weights

    def _best_span(self, logits: Tensor, encoding: Encoding) -> tuple[int, int]:
        """Return the span with the best start + end score, start <= end < start + longest_answer.

        Special tokens and, in a pair, the question are excluded.
        """
        allowed = ~encoding.special
        if encoding.pair is not None:
            allowed &= encoding.segments == 1
        if not allowed.any():
            allowed = np.ones(len(encoding), dtype=bool)
        start, end = logits.cpu().double().numpy().T.copy()
        start[~allowed] = end[~allowed] = -np.inf
        best, answer = -np.inf, (0, 0)
        for first in np.flatnonzero(allowed):
            last = first + int(np.argmax(end[first : first + self.longest_answer]))
            if start[first] + end[last] > best:
                best, answer = start[first] + end[last], (int(first), int(last))
        return answer


TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        SequenceClassification,
        TokenClassification,
        MaskedLanguageModel,
        CausalLanguageModel,
        QuestionAnswering,
    )
}


def task_class(task: str | None, architectures: list[str] | None) -> type[Task]:
    """Return the task by name, or infer it from the architecture written in the model's config."""
    if task is not None:
        if task not in TASKS:
            raise OptionError(f"There is no task '{task}'. Known: {', '.join(TASKS)}.")
        return TASKS[task]
    for architecture in architectures or []:
        for candidate in TASKS.values():
            if architecture.endswith(candidate.suffix):
                return candidate
    listed = ", ".join(architectures or []) or "none"
    raise UnsupportedError(
        f"The model's config names no architecture with a head Sightline can explain (found: {listed}). "
        f"Give task= one of: {', '.join(TASKS)}."
    )


def _one_at_a_time(labels: tuple[str, ...]) -> str:
    number = f" (the class of that name is {labels.index(ALL)})" if ALL in labels else ""
    return f"'{ALL}' stands for all classes, and only explain() goes through them; name one{number}."


def _span_text(encoding: Encoding, first: int, last: int) -> str:
    segment = int(encoding.segments[first])
    if segment < 0:
        return encoding.tokens[first]
    source = encoding.text if segment == 0 else (encoding.pair or "")
    return source[int(encoding.offsets[first, 0]) : int(encoding.offsets[last, 1])]
