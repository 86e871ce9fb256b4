"""Commands from settings: the options of a command are the fields of its settings class.

    @command
    def explain(settings: ExplainCommand) -> None: ...

typer sees one parameter per field in place of `settings`, with the field's type, default, bounds and help.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.options import Debug
from sightline.settings.options import Option, declared_options, through
from sightline.settings.values import split_assignments, without_none


def command(function: Callable[[Any], None]) -> Callable[..., None]:
    """Return the command that calls `function` with settings of the class that its parameter is annotated with."""
    settings = get_type_hints(function)["settings"]
    fields = declared_options(settings)

    @reports_errors
    @wraps(function)
    def run(debug: bool, **typed: Any) -> None:
        with through("shell"):
            function(settings(**{name: _read(field, typed[name]) for name, field in fields.items()}))

    parameters = [_parameter(field) for field in fields.values()]
    parameters.append(inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(field: Option) -> inspect.Parameter:
    """Return the parameter that typer turns into an option or argument."""
    kind = _typed_kind(field)
    default = None if isinstance(field.default, dict | tuple) else field.default
    facts: dict[str, Any] = {"metavar": field.metavar, "help": field.help}
    if default is None:
        facts["show_default"] = False
    if without_none(kind) in (int, float):
        facts |= {"min": field.low, "max": field.high}
    info = typer.Argument(**facts) if field.positional else typer.Option(*field.flags, **facts)
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def _typed_kind(field: Option) -> Any:
    """Return the type of what is typed: a list for names and assignments, which may be repeated, else one text."""
    inner = without_none(field.kind)
    if inner in (bool, int, float, str, Path) or get_origin(inner) is Literal:
        return field.kind
    repeated = tuple[str, ...] in (inner, *get_args(inner)) or field.read is split_assignments
    return list[str] | None if repeated else str | None


def _read(field: Option, typed: Any) -> Any:
    """Return the value of a setting from what was typed."""
    if typed is None:
        return field.default
    return typed if field.read is None else field.read(typed)
