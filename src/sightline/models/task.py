"""Task: how a head turns logits into a prediction, a target and a readout. The tasks themselves are in `tasks`.

`name_tokens` finds words as targets of a language model: which token of the vocabulary a word is, as written inside a
sentence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.attention.arrays import as_array
from sightline.errors import ModelError, OptionError, TargetError, UnsupportedError
from sightline.models.target import (
    ALL,
    Prediction,
    Quantity,
    Request,
    Target,
    TargetLike,
    check_quantity,
    class_index,
    parse_target,
    split_contrast,
)
from sightline.text import Encoding

Positions = Sequence[NDArray[np.int64]]
"""The places of the tokens of every window in its document."""


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
    suffix: ClassVar[str | tuple[str, ...]]
    """Suffixes of the names of architectures with this head."""
    reads_windows: ClassVar[bool] = False
    """Whether documents longer than the model reads are read in windows; else their end is cut off."""
    classes_are_tokens: ClassVar[bool] = False
    """Whether the classes are the tokens of a vocabulary, whose numbers are their ids."""
    has_named_classes: ClassVar[bool] = True
    """Whether the labels of a data set name classes: neither answers nor the words of a vocabulary."""

    def __init__(self, facts: TaskFacts) -> None:
        self.facts = facts

    def document_logits(self, outputs: Any, document: int, length: int) -> Tensor:
        """Cut the logits of one document out of the library's output object."""
        return self.read_output(outputs, "logits")[document, :length]

    def logits_shape(self, tokens: int) -> tuple[int, ...]:
        """Return the shape of the logits of a document."""
        return (tokens, len(self.facts.labels))

    def read_output(self, outputs: Any, name: str) -> Tensor:
        """Return a tensor of the library's output object; raise ModelError if the head does not return it."""
        tensor = getattr(outputs, name, None)
        if not isinstance(tensor, Tensor):
            raise ModelError(
                f"The model has no head for {self.name}: its output ({type(outputs).__name__}) has no '{name}'. Give a "
                "model with that head, or the task it was trained for (task=, --task)."
            )
        return tensor

    def problem_with_pair(self, pair: str | None) -> str | None:
        """Return a sentence if this head needs a second text or cannot read one; otherwise None."""
        return None

    @staticmethod
    def reading_order(text: str, pair: str | None) -> tuple[str, str | None]:
        """Return the text and the second text of a row of a data set in the order in which the model reads them."""
        return text, pair

    @abstractmethod
    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return the token whose scores are read, or None when the head reads the whole document."""

    def class_logits(self, logits: Tensor, position: int | None) -> Tensor:
        """Return the scores of the classes, (C,)."""
        return logits if position is None else logits[position]

    def probabilities(self, scores: Tensor) -> Tensor:
        """Turn class scores into probabilities: sigmoid for multi-label heads, else softmax; never in a half type."""
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return torch.sigmoid(scores) if self.facts.multi_label else torch.softmax(scores, dim=-1)

    def choose_quantity(self, quantity: str | None) -> Quantity:
        """Return what is explained of a class: by default the log-odds; of a single output its value, the logit."""
        chosen = check_quantity(quantity)
        if len(self.facts.labels) > 1 or self.facts.multi_label:
            return chosen
        if chosen in ("probability", "log_probability"):
            raise OptionError(f"The model has a single output, which has no {chosen}: choose the quantity 'logit'.")
        return "logit" if chosen == "log_odds" else chosen

    def resolve(self, logits: Tensor, encoding: Encoding, request: Request) -> Target:
        """Turn what the user asked for into a `Target`; None means the predicted class and its log-odds."""
        wanted = request.target
        if isinstance(wanted, Target):
            return wanted
        chosen = self.choose_quantity(request.quantity)
        where = self.position(logits, encoding, request.position)
        labels = self.facts.labels
        closed = not self.classes_are_tokens
        contrast = None
        if isinstance(wanted, str) and wanted == ALL:
            raise TargetError(_one_class_only(labels))
        wanted = parse_target(wanted, labels)
        if wanted is None:
            index = int(self.class_logits(logits, where).argmax())
        elif isinstance(wanted, tuple):
            if len(wanted) != 2:
                raise TargetError(f"A contrast names two classes, {len(wanted)} were given: {wanted!r}.")
            index, contrast = (class_index(choice, labels, closed=closed) for choice in wanted)
            if index == contrast:
                raise TargetError(f"A contrast needs two different classes, '{labels[index]}' was given twice.")
        else:
            index = class_index(wanted, labels, closed=closed)
        return Target(
            index=index,
            label=labels[index],
            contrast=contrast,
            contrast_label=None if contrast is None else labels[contrast],
            quantity=chosen,
            position=where,
        )

    def all_targets(self, logits: Tensor, encoding: Encoding, request: Request) -> list[Target]:
        """Return one target per class, in the order of the classes."""
        predicted = self.resolve(logits, encoding, replace(request, target=None))
        return [replace(predicted, index=index, label=label) for index, label in enumerate(self.facts.labels)]

    def value(self, logits: Tensor, target: Target, quantity: Quantity | None = None) -> Tensor:
        """Return y, the scalar that is explained, on the autograd path; in `quantity` in place of the target's own."""
        if target.direction is not None:
            weights = torch.from_numpy(target.direction.weights).to(logits.device, logits.dtype)
            return (weights * logits).sum()
        return self.target_value(logits, target, quantity or target.quantity)

    def target_value(self, logits: Tensor, target: Target, quantity: Quantity) -> Tensor:
        """Return y of the target's class, minus that of its contrast.

        Against one other class the log-odds, log p_a/p_b, are the difference of the two logits, and so is the margin.
        """
        assert target.index is not None
        scores = self.class_logits(logits, target.position)
        if target.contrast is None:
            return self.class_value(scores, target.index, quantity)
        if quantity in ("log_odds", "margin"):
            quantity = "logit"
        return self.class_value(scores, target.index, quantity) - self.class_value(scores, target.contrast, quantity)

    def probability(self, logits: Tensor, target: Target) -> float:
        """Return the probability of the target's class, whatever quantity is explained."""
        assert target.index is not None
        return float(self.probabilities(self.class_logits(logits, target.position))[target.index])

    def class_value(self, scores: Tensor, index: int, quantity: Quantity) -> Tensor:
        """Return the quantity of one class, given the scores of all classes, (C,).

        log-odds: log p_c/(1 − p_c) = z_c − log Σ_{j≠c} exp z_j, with gradient 1 for z_c and −p_j/(1 − p_c) for the
        others. Both come from the other classes alone, and so stay exact as p_c tends to 1. Where classes do not
        compete (several labels at once, a single output), log-odds and margin are the logit itself.
        """
        if quantity == "probability":
            return self.probabilities(scores)[index]
        if quantity == "log_probability":
            compete = not self.facts.multi_label
            return (torch.log_softmax(scores, dim=-1) if compete else torch.nn.functional.logsigmoid(scores))[index]
        if quantity == "logit" or self.facts.multi_label or len(scores) == 1:
            return scores[index]
        if quantity == "margin":
            return scores[index] - torch.cat([scores[:index], scores[index + 1 :]]).max()
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return scores[index] - torch.cat([scores[:index], scores[index + 1 :]]).logsumexp(dim=0)

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
        if target.direction is not None and target.direction.weights.ndim == 2:
            read = np.abs(target.direction.weights).sum(axis=1)
            return np.asarray(read / read.sum())
        weights[target.position or 0] = 1.0
        return weights

    def combine_windows(self, logits: Sequence[Tensor], positions: Positions, encoding: Encoding) -> Tensor:
        """Return the logits of a document from those of its windows, on the autograd path.

        `positions` are the places of every window's tokens in the document.
        """
        raise UnsupportedError(f"A model for {self.name} reads one window only: encode the text with truncate=True.")

    def place_in_window(self, target: Target, positions: NDArray[np.int64]) -> Target | None:
        """Return the target with its token positions counted in one window, or None if the window lacks them."""
        if target.position is None:
            return target
        moved = place_of(target.position, positions)
        return None if moved is None else replace(target, position=moved)


def place_of(position: int, positions: NDArray[np.int64]) -> int | None:
    """Return the place of a document position among the ascending `positions` of a window; None if it is not there."""
    place = int(np.searchsorted(positions, position))
    return place if place < len(positions) and positions[place] == position else None


def _one_class_only(labels: tuple[str, ...]) -> str:
    number = f" (the class of that name is {labels.index(ALL)})" if ALL in labels else ""
    return f"'{ALL}' stands for all classes, and only explain() goes through them; name one{number}."


def name_tokens(target: TargetLike, task: Task, tokenizer: Any) -> TargetLike:
    """Return the target with words as token ids; labels of the task and numbers are returned unchanged.

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
