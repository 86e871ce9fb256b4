"""Help, version, the list of methods, typed option values, the progress bar; and that help stays quick."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Literal

import pytest
from rich.console import Console

from sightline import __version__
from sightline.cli.progress import LateProgress
from sightline.cli.values import parsed_target, typed
from sightline.methods import METHODS
from sightline.metrics import METRICS


@pytest.mark.parametrize("command", [[], ["explain"], ["methods"], ["demo"]])
def test_help_says_what_the_command_does_and_gives_examples(sightline, command):
    result = sightline(*command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: {' '.join(['sightline', *command])}")
    if command != ["methods"]:
        assert "  sightline demo" in result.stdout or "  sightline explain" in result.stdout


def test_help_needs_none_of_the_heavy_libraries():
    check = "import sys, sightline.cli; print({'torch', 'transformers', 'pandas', 'numpy', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout == "set()\n"


def test_version(sightline):
    assert sightline("--version").stdout == f"sightline {__version__}\n"


@pytest.mark.parametrize(("command", "registry"), [("methods", METHODS), ("metrics", METRICS)])
def test_lists_name_every_entry_once_with_its_line_and_its_facts_as_json(sightline, command, registry):
    lines = sightline(command).stdout.splitlines()
    assert [line.split()[0] for line in lines] == registry.names()
    assert all(entry.summary in line for entry, line in zip(registry, lines, strict=True))
    assert json.loads(sightline(command, "--json").stdout) == [entry.facts() for entry in registry]


def test_methods_long_and_json_say_everything(sightline):
    long, records = sightline("methods", "--long").stdout, json.loads(sightline("methods", "--json").stdout)
    assert [record["name"] for record in records] == METHODS.names()
    for method, record in zip(METHODS, records, strict=True):
        assert set(record["options"]) == set(method.options)
        for fact in (method.formula, method.citation, method.cost, method.use, method.avoid):
            assert fact in long


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", int, 3),
        ("3", float, 3.0),
        ("0.5", float, 0.5),
        ("3", int | float, 3),
        ("none", int | None, None),
        ("7", int | None, 7),
        ("true", bool, True),
        ("No", bool, False),
        ("max", Literal["mean", "max"], "max"),
        ("2", Literal[1, 2], 2),
        ("0.5, 1", Sequence[float] | None, [0.5, 1.0]),
        ("none", str, "none"),
        ("x", int, "x"),
    ],
)
def test_option_values_are_read_by_their_type(text, kind, value):
    found = typed(text, kind)
    assert found == value
    assert type(found) is type(value)


def test_a_colon_is_a_contrast_only_when_no_label_has_it():
    labels = ("a", "b:c", "c")
    assert parsed_target("b:c", labels) == "b:c"
    assert parsed_target("a:b:c", labels) == ("a", "b:c")
    assert parsed_target("b:c:a", labels) == ("b:c", "a")
    assert parsed_target("0:2", labels) == ("0", "2")
    assert parsed_target("x:y", labels) == ("x", "y")
    assert parsed_target(None, labels) is None


def progress_output(seconds: float, patience: float = 0.1, terminal: bool = True) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=80)
    with LateProgress(console, patience=patience) as progress:
        progress("reading", 1, 4)
        time.sleep(seconds)
        progress("reading", 2, 4)
    return console.file.getvalue()


def test_the_progress_bar_appears_only_late_and_only_for_a_person():
    assert progress_output(0.0, patience=60.0) == ""
    assert progress_output(0.4, terminal=False) == ""
    assert "reading" in progress_output(0.4)
