"""What is explained: one number of the model's output, and what the model predicted.

y is the log-odds of class c, log p_c/(1 − p_c) = z_c − log Σ_{j≠c} exp z_j: of two classes the difference of their
logits. It depends on the prediction alone, whatever is added to all logits. By option y is the logit z_c, as in most
papers, the probability, its logarithm, or the margin z_c − max_{j≠c} z_j. For a contrast of two classes log-odds and
margin are z_a − z_b. Where classes do not compete (a single output, or several labels at once) both are the logit.

Users write a contrast as the tuple (A, B) or as the text "A:B", at every door (`split_contrast`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from sightline.errors import OptionError, TargetError
from sightline.files.foreign import printable
from sightline.models.classes import are_named_by_numbers, class_named, list_names, no_class_number, whole_number
from sightline.registry import suggestion
from sightline.settings.explain import Quantity as Quantity
from sightline.text.encoding import ReadOnlyArrays, protect

ALL: Literal["all"] = "all"
"""The target that stands for every class, one at a time; a class whose label is "all" is chosen by its number."""
ENTITIES: Literal["entities"] = "entities"
"""The target that stands for every entity that a model which tags tokens finds, one at a time."""
Ends = Literal["both", "start", "end"]
TargetLike: TypeAlias = "int | str | tuple[int | str | None, int | str | None] | Target | None"
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Direction:
    """y as a linear function of the logits of one window: y = Σ weights ⊙ logits (`passes.document_windows`)."""

    weights: NDArray[np.float64]
    """In the shape of the window's logits."""


@dataclass(frozen=True)
class Target:
    """One number of the output: class `index` (minus class `contrast`), at token `position` where a head reads tokens.

    For question answering `span` holds the first and last token of the answer and y is the sum of the start score of
    the first and the end score of the last, or one of the two (`ends`).
    """

    index: int | None
    """Number of the class; None for targets that are not classes, such as answers."""
    label: str
    """Name of the class, token or answer."""
    contrast: int | None = None
    """Number of the class that is subtracted, if any."""
    contrast_label: str | None = None
    """Name of the class that is subtracted, if any."""
    quantity: Quantity = "log_odds"
    """What is explained of the class."""
    position: int | None = None
    """The token whose output is explained, where a head reads single tokens."""
    span: tuple[int, int] | None = None
    """First and last token of an answer."""
    ends: Ends = "both"
    """Which scores of an answer are explained."""
    window: int | None = None
    """The window that gives the answer, if a document is read in windows."""
    direction: Direction | None = None
    """For single windows of a document: y as a linear function of the logits; never part of an explanation."""

    @property
    def name(self) -> str:
        """The class, or the contrast as the command line writes it: "positive:negative"."""
        return self.label if self.contrast_label is None else f"{self.label}:{self.contrast_label}"

    @property
    def read_positions(self) -> tuple[int, ...]:
        """The tokens whose own output the head reads: the masked token, the tokens of an answer; none otherwise."""
        if self.span is not None:
            if self.ends != "both":
                return (self.span[self.ends == "end"],)
            return tuple(range(self.span[0], self.span[1] + 1))
        return () if self.position is None else (self.position,)

    def after_removal(self, removed: Collection[int]) -> Target:
        """Return the target with its token positions moved as after the deletion of the tokens at `removed`."""

        def move(position: int) -> int:
            return position - sum(gone < position for gone in removed)

        return replace(
            self,
            position=None if self.position is None else move(self.position),
            span=None if self.span is None else (move(self.span[0]), move(self.span[1])),
        )

    @property
    def quantity_name(self) -> str:
        """The name of the quantity as a sentence writes it."""
        return "log-odds" if self.quantity == "log_odds" else self.quantity.replace("_", " ")

    def description(self) -> str:
        """Return a phrase such as "log-odds of 'positive' against 'negative'"."""
        phrase = f"{self.quantity_name} of {'' if self.ends == 'both' else f'the {self.ends} of '}'{self.label}'"
        if self.contrast_label is not None:
            phrase += f" {'against' if self.quantity == 'log_odds' else 'minus'} '{self.contrast_label}'"
        if self.position is not None:
            phrase += f" at token {self.position}"
        return phrase


@dataclass(frozen=True)
class Request:
    """What the user wants explained, before the model has run."""

    target: TargetLike = None
    quantity: str | None = None
    """None stands for the log-odds."""
    position: int | None = None


@dataclass(frozen=True, eq=False)
class Prediction(ReadOnlyArrays):
    """What the model predicted.

    `labels`, `logits` and `probabilities` have one entry per class. For language models they hold the 50 likeliest
    tokens, and `index` is the id of the first of them; for question answering they hold the answer and "no answer".
    The arrays are read-only.
    """

    index: int
    """Number of the predicted class."""
    label: str
    """Name of the predicted class."""
    probability: float
    """Probability of the predicted class."""
    labels: tuple[str, ...]
    logits: NDArray[np.floating[Any]]
    probabilities: NDArray[np.floating[Any]]

    def __post_init__(self) -> None:
        for name in ("logits", "probabilities"):
            object.__setattr__(self, name, protect(np.array(getattr(self, name))))

    @property
    def value(self) -> float | None:
        """The number that a model of one output gives (a regression, a similarity); None if it chooses a class."""
        return float(self.logits[0]) if len(self.labels) == 1 and self.probability == 1.0 else None

    def describe(self) -> str:
        """Return "predicted 'PL' (73.0%)"; of a model of one output "'score' is 2.2"."""
        label = f"'{printable(self.label)}'"
        return f"predicted {label} ({self.probability:.1%})" if self.value is None else f"{label} is {self.value:.3g}"

    def __eq__(self, other: object) -> bool:
        """Return whether every field is equal, arrays element by element."""
        if not isinstance(other, Prediction):
            return NotImplemented
        return all(np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    def __hash__(self) -> int:
        return hash((self.index, self.label, self.probability, self.labels))


def check_quantity(quantity: str | None) -> Quantity:
    """Return `quantity` if it is one of the known ones; None stands for the log-odds."""
    if quantity is None:
        return "log_odds"
    if quantity not in get_args(Quantity):
        raise OptionError(f"There is no target quantity '{quantity}'. Choose one of: {', '.join(get_args(Quantity))}.")
    return quantity  # type: ignore[return-value]


def split_contrast(text: str, is_known: Callable[[str], bool]) -> str | tuple[str, str]:
    """Return "A:B" as the contrast (A, B) if A and B are known names, and any other text unchanged.

    A text that is itself a known name is that name, so that the label "Team: A" is no contrast. A text that can be
    split in several ways ("a:b:c" with the names "a", "a:b", "b:c" and "c") is refused.
    """
    if ":" not in text or is_known(text):
        return text
    colons = [place for place, sign in enumerate(text) if sign == ":"]
    splits = [(text[:place].strip(), text[place + 1 :].strip()) for place in colons]
    known = [(is_known(first), is_known(second)) for first, second in splits]
    contrasts = [split for split, sides in zip(splits, known, strict=True) if all(sides)]
    if len(contrasts) > 1:
        readings = " or ".join(f"'{first}' against '{second}'" for first, second in contrasts)
        raise TargetError(f"'{text}' can be read as {readings}: give the numbers of the classes, such as 0:2.")
    # With one known side the other is a mistake, which the caller reports by its name.
    return next(iter(contrasts or (split for split, sides in zip(splits, known, strict=True) if any(sides))), text)


def parse_target(wanted: T, labels: tuple[str, ...]) -> T | tuple[str, str]:
    """Return a target with "A:B" read as a contrast of two of the `labels`; raise TargetError for a list."""
    if isinstance(wanted, list):
        raise TargetError(
            f"A list is not a target: {wanted!r}. A contrast of two classes is a tuple (A, B) or the text 'A:B'; to "
            "explain several classes or documents with a target each, make one call for each."
        )

    def is_class(name: str) -> bool:
        try:
            class_index(name, labels)
        except TargetError:
            return False
        return True

    return split_contrast(wanted, is_class) if isinstance(wanted, str) else wanted  # type: ignore[return-value]


def class_index(wanted: int | str | None, labels: tuple[str, ...], *, closed: bool = True) -> int:
    """Return the class that a user names by its label or its number, as `models.classes` says.

    `closed` means that `labels` are classes; else they are a vocabulary, where a number is the id of a token.
    """
    if isinstance(wanted, bool) or not isinstance(wanted, int | str | np.integer):
        raise TargetError(f"A target is a class number or a label, not {wanted!r}.")
    if closed or isinstance(wanted, str):
        named = class_named(wanted, labels) if closed else _token_named(str(wanted), labels)
        if named is not None:
            return named
    number = whole_number(wanted if isinstance(wanted, str) else int(wanted))
    if number is None:
        known = f" The model's labels: {list_names(labels)}." if closed else ""
        noun = "label" if closed else "token in the vocabulary that reads"
        raise TargetError(f"There is no {noun} '{wanted}'.{suggestion(str(wanted), list(labels))}{known}")
    if closed and are_named_by_numbers(labels):
        raise TargetError(no_class_number(wanted, labels))
    if not 0 <= number < len(labels):
        noun = "class" if len(labels) == 1 else "classes"
        raise TargetError(f"Class {number} asked for, the model has {len(labels)} {noun} (0-{len(labels) - 1}).")
    return number


def _token_named(wanted: str, vocabulary: tuple[str, ...]) -> int | None:
    """Return the first token that reads like this, exactly or without regard to case."""
    if wanted in vocabulary:
        return vocabulary.index(wanted)
    return next((i for i, token in enumerate(vocabulary) if token.casefold() == wanted.casefold()), None)
