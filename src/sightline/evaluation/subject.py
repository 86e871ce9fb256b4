"""What is explained of an example: its encoding, and the class asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sightline.errors import SightlineError
from sightline.text import Encoding, Example

if TYPE_CHECKING:
    from sightline.model import Model

TargetChoice = Literal["predicted", "label"]


class Missing(Exception):  # noqa: N818 (a signal, not an error)
    """Something that is not defined for this document; the message is the reason."""


def encode_example(model: Model, example: Example) -> Encoding:
    """Return an example as the model reads it.

    Models that answer questions read the question first; in an example the text is what answers it.
    """
    if isinstance(example.text, Encoding):
        return example.text
    if model.task == "question_answering" and example.pair is not None:
        return model.encode(example.pair, example.text)
    return model.encode(example.text, example.pair)


def choose_target(example: Example, choice: TargetChoice) -> int | str | None:
    """Return the class to explain, None for the predicted one."""
    if choice == "label" and example.label is None:
        raise Missing("The document has no label, and the label was to be explained.")
    return example.label if choice == "label" else None


def describe_error(error: Exception) -> str:
    """Return the message of an error; errors that are not Sightline's are preceded by their type."""
    return str(error) if isinstance(error, SightlineError) else f"{type(error).__name__}: {error}"
