"""An option is one field: the command line, the server, Python and every message derive from it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from sightline.api.load import load
from sightline.api.model import Model
from sightline.cli.declared import command
from sightline.cli.explain import ExplainCommand
from sightline.errors import OptionError
from sightline.models.target import Target
from sightline.serve.requests import ExplainRequest, request_schema
from sightline.settings.explain import ExplainSettings
from sightline.settings.options import declared_options, option, through, unused
from sightline.settings.values import fits, without_none


@dataclass(frozen=True, kw_only=True)
class Extended(ExplainSettings):
    """The settings of an explanation and two options more."""

    shade: Literal["dark", "light"] | None = option(None, help="How dark the page is.")
    pages: int = option(1, low=1, high=9, flag="--page-count", server=3, help="Number of pages.")

    rules = (
        unused("shade", when=lambda settings: settings.pages == 2, reason="needs another number: leave {pages} out."),
    )


def run(*arguments: str) -> Any:
    made: list[Extended] = []

    @command
    def show(settings: Extended) -> None:
        made.append(settings)

    app = typer.Typer(rich_markup_mode=None)
    app.command()(show)
    result = CliRunner().invoke(app, list(arguments))
    return made[0] if made else result


def test_a_new_field_is_an_option_of_the_command():
    made = run("--shade", "dark", "--page-count", "4", "--method", "attcat,rollout", "--global-tokens", "0,3")
    assert (made.shade, made.pages, made.methods, made.global_tokens) == ("dark", 4, ("attcat", "rollout"), (0, 3))
    shown = " ".join(run("--help").stdout.split())
    assert "How dark the page is." in shown
    assert "1<=x<=9" in shown
    assert run("--page-count", "10").exit_code == run("--shade", "grey").exit_code == 2


def test_a_new_field_is_a_field_of_the_request_within_the_bounds_of_the_server():
    assert Extended.from_record({"shade": "light", "pages": 3}).pages == 3
    with pytest.raises(OptionError, match="The field 'pages' must be a whole number from 1 to 3"):
        Extended.from_record({"pages": 4})
    with pytest.raises(OptionError, match="There is no field 'truncate'"):
        Extended.from_record({"truncate": True})
    properties = request_schema(Extended)["properties"]
    assert properties["pages"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 3,
        "default": 1,
        "description": "Number of pages.",
    }
    assert properties["shade"]["anyOf"][0]["enum"] == ["dark", "light"]
    assert "truncate" not in properties


def test_every_door_refuses_the_same_and_spells_it_in_its_own_way():
    with pytest.raises(OptionError, match=r"^pages must be a whole number from 1 to 9, not 10\.$"):
        Extended(pages=10)
    with pytest.raises(OptionError, match="shade='grey' is not known. Use one of: dark, light."):
        Extended(shade="grey")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^shade needs another number: leave pages out") as python:
        Extended(shade="dark", pages=2)
    assert "--shade needs another number: leave --page-count out." in run("--shade", "dark", "--page-count", "2").output
    with through("request"), pytest.raises(OptionError, match="The field 'shade' needs another number"):
        Extended(shade="dark", pages=2)
    assert "--" not in str(python.value)


def test_a_switch_is_spelled_as_it_was_set():
    with pytest.raises(OptionError, match="^artefacts=False belongs to the check, which is not made: add check=True"):
        ExplainSettings(check=False, artefacts=False)
    result = run("--no-check", "--no-artefacts")
    assert "--no-artefacts belongs to the check, which is not made: add --check, or leave it out." in result.output


def test_requests_report_up_to_three_problems():
    with pytest.raises(OptionError) as error:
        ExplainRequest.from_record({"text": 5, "wait": 1, "seed": "a", "position": 0.5})
    assert str(error.value).count("must be") == 3


@pytest.mark.parametrize("function", [load, Model.encode, Model.explain, Model.report])
def test_keywords_have_the_types_and_defaults_of_the_fields(function):
    fields = declared_options(ExplainCommand)
    hints = typing.get_type_hints(function, localns={"Model": Model, "Target": Target})
    others = ("options", "output")  # which mean something else there
    shared = [name for name in inspect.signature(function).parameters if name in fields and name not in others]
    assert shared
    for name in shared:
        parameter = inspect.signature(function).parameters[name]
        if fields[name].default is not None and parameter.default is not None:
            assert parameter.default == fields[name].default, name
        kinds = typing.get_args(without_none(fields[name].kind)) or (without_none(fields[name].kind),)
        if set(kinds) <= {bool, int, str} and name not in {"target", "quantity"}:
            assert all(kind in (hints[name], *typing.get_args(hints[name])) for kind in kinds), name


@pytest.mark.parametrize(
    ("value", "kind", "is_accepted"),
    [
        (np.float32(1), float, True),
        (float("nan"), float, False),
        (True, int, False),
        (np.int64(3), int, True),
        (np.array([1.0]), Literal["a"], False),
        ([1, 2], tuple[int, ...], True),
        ([1, "a"], tuple[int, ...], False),
        (("a", 1), tuple[int | str, int | str], True),
        (("a",), tuple[int | str, int | str], False),
        ({"a": {"b": 1}}, Mapping[str, Mapping[str, Any]], True),
        ({"a": 1}, Mapping[str, Mapping[str, Any]], False),
        ("ab", tuple[str, ...], False),
        ([], tuple[str, ...], True),
    ],
)
def test_a_value_fits_its_type(value, kind, is_accepted):
    assert fits(value, kind) is is_accepted
