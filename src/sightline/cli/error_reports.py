"""Report errors of a command: one sentence on standard error and an exit code.

0 success · 2 invalid request · 1 failure · 130 stopped by Ctrl-C. `--debug` shows the traceback.

Sentences quote labels, column names and file names from untrusted input. Characters that could move the cursor, change
colours or start a new line are replaced before they reach the terminal.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec

import typer

from sightline.errors import SightlineError
from sightline.files.foreign import printable

P = ParamSpec("P")

STOPPED = 130
_LONGEST_SENTENCE = 2_000


def reports_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Decorate a command so that it ends with a sentence instead of a traceback, unless its `debug` option is set."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        debug = bool(kwargs.get("debug"))
        try:
            with _quiet_libraries(debug), _warnings_as_sentences(debug):
                command(*args, **kwargs)
        except SightlineError as error:
            raise typer.Exit(_report(str(error), error.exit_code, debug)) from None
        except BrokenPipeError:
            # The reader closed the pipe (`| head`). Nothing may be flushed into it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            raise typer.Exit(report_interrupt()) from None
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise typer.Exit(_report_internal(error, debug)) from None
            # The rest of the buffer could not be written at exit, either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_report("The disk is full. Free some space, or write elsewhere.", 1, debug)) from None
        except MemoryError:
            sentence = "Not enough memory. Try a shorter text or one method at a time."
            raise typer.Exit(_report(sentence, 1, debug)) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            raise typer.Exit(_report_internal(error, debug)) from None

    return run


def one_line(text: str) -> str:
    """Return text that may quote foreign strings on one line, with unprintable characters replaced."""
    return printable(" ".join(text.split()), _LONGEST_SENTENCE)


def report_interrupt() -> int:
    """Print that the command was stopped and return the exit code."""
    typer.echo("Stopped.", err=True)
    return STOPPED


def _report_internal(error: Exception, debug: bool) -> int:
    kind, text = type(error).__name__, str(error).strip().split("\n")[0]
    hint = "" if debug else " Run the command again with --debug to see the traceback."
    return _report(f"Something failed inside Sightline ({kind}: {text}).{hint}", 1, debug)


def _report(sentence: str, code: int, debug: bool) -> int:
    if debug:
        for line in traceback.format_exc().splitlines():
            typer.echo(printable(line, _LONGEST_SENTENCE), err=True)
    typer.echo(f"Error: {one_line(sentence)}", err=True)
    return code


@contextmanager
def _quiet_libraries(debug: bool) -> Iterator[None]:
    """Silence the log messages of libraries (retries, advice to programmers) unless debugging."""
    before = logging.root.manager.disable
    if not debug:
        logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _warnings_as_sentences(debug: bool) -> Iterator[None]:
    """Print warnings of Sightline as plain sentences; those of libraries only when debugging."""

    def show(message: Warning | str, category: type[Warning], filename: str, *place: Any) -> None:
        if debug or (issubclass(category, UserWarning) and "sightline" in filename):
            typer.echo(f"Note: {one_line(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always" if debug else "default")
        warnings.showwarning = show  # type: ignore[assignment]
        yield
