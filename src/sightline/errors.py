"""Every error a person can meet, with one base class.

A message says what is wrong, where, and what to do about it, in one sentence or two:
"Layer 14 asked for, the model has 12 (0-11)."
"""

from __future__ import annotations


class SightlineError(Exception):
    """Base of all errors raised on purpose; the command line prints its message without a traceback."""

    exit_code = 1


class UsageError(SightlineError):
    """The request itself is at fault: an unknown name, an option out of range, a file that is not there."""

    exit_code = 2


class InputError(UsageError):
    """The text, ids or file to explain cannot be used."""


class OptionError(UsageError):
    """An unknown method, metric or option, or a value outside its range."""


class TargetError(UsageError):
    """The class, label or contrast asked for does not exist in this model."""


class ModelError(SightlineError):
    """The model folder, its weights or its tokenizer cannot be used."""


class NoModelError(ModelError):
    """What was given as a model is none, so the request is at fault: a file, or a folder that holds something else."""

    exit_code = 2


class UnsupportedError(SightlineError):
    """This model family or task cannot do what was asked."""


class SizeError(SightlineError):
    """The result would not fit in memory; the message names the operation that does."""


class Retry(Exception):  # noqa: N818 (a signal of a function that is a model, not an error of Sightline)
    """Raised by a function that was given to `load`: call it again with the same texts after some seconds."""

    def __init__(self, message: str = "later", after: float = 1.0) -> None:
        super().__init__(message)
        self.after = after


class PluginWarning(UserWarning):
    """A package that extends Sightline could not be loaded; everything else works without it."""
