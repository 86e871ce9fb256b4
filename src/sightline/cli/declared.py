"""Commands from settings: the options of a command are the fields of its settings class.

    @command
    def explain(settings: ExplainCommand) -> None: ...

typer sees one parameter per field in place of `settings`, with the field's type, default, bounds and help. Options of
methods, which their own signatures declare, are read by `method_options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from sightline.cli.error_reports import reports_errors
from sightline.errors import OptionError
from sightline.settings.options import Option, declared_options, through
from sightline.settings.values import parse_value, split_assignments, without_none

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback when something fails.")]


def command(function: Callable[[Any], None]) -> Callable[..., None]:
    """Return the command that calls `function` with settings of the class that its parameter is annotated with."""
    settings = get_type_hints(function)["settings"]
    fields = declared_options(settings)

    @reports_errors
    @wraps(function)
    def run(debug: bool, **typed: Any) -> None:
        with through("shell"):
            function(settings(**{name: _read(field, typed[name]) for name, field in fields.items()}))

    required_first = sorted(fields.values(), key=lambda field: field.default is not MISSING)
    parameters = [_parameter(field) for field in required_first]
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
    if field.variable is not None:
        facts["envvar"] = field.variable
    info = typer.Argument(**facts) if field.positional else typer.Option(*field.flags, **facts)
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def _typed_kind(field: Option) -> Any:
    """Return the type that typer parses: a list for options that may be repeated, else a single value."""
    inner = without_none(field.kind)
    if inner in (bool, int, float, str, Path) or get_origin(inner) is Literal:
        return field.kind
    if inner == tuple[Path, ...]:
        return list[Path] | None
    repeated = tuple[str, ...] in (inner, *get_args(inner)) or field.read is split_assignments
    return list[str] | None if repeated else str | None


def _read(field: Option, typed: Any) -> Any:
    """Return the value of an option from its command-line form."""
    if typed is None:
        return field.default
    return typed if field.read is None else field.read(typed)


def method_options(given: Mapping[str, Mapping[str, str]], methods: Sequence[str], seed: int | None) -> dict[str, Any]:
    """Return the options of each method from what `split_assignments` returns.

    Values are read by the option's type. `seed` goes to the methods that draw random numbers. Everything is checked
    here, before a model is loaded.
    """
    from sightline.methods import METHODS

    entries = {name: METHODS.get(name) for name in methods}
    chosen: dict[str, dict[str, Any]] = {name: {} for name in entries}
    for owner, texts in sorted(given.items()):  # those of every method first
        for option, text in texts.items():
            if owner and owner not in entries:
                raise OptionError(
                    f"--option {owner}.{option}={text}: the method '{owner}' was not requested; add --method {owner}."
                )
            takers = [owner] if owner else [name for name, entry in entries.items() if option in entry.options]
            for name in takers or methods[:1]:
                chosen[name][option] = parse_value(text, entries[name].option_types.get(option, str))
    for name, entry in entries.items():
        if seed is not None and "seed" in entry.options:
            chosen[name].setdefault("seed", seed)
        entry.check_options(chosen[name])
    return {name: options for name, options in chosen.items() if options}
