"""Help, version, the list of methods, typed option values, the progress bar; and that help stays quick."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
import typer
from rich.console import Console

from sightline import __version__
from sightline.api.load import load
from sightline.cli.app import EXAMPLES, app
from sightline.cli.progress_bar import LateProgress, describe_seconds, starting
from sightline.errors import OptionError, UsageError
from sightline.methods import METHODS
from sightline.metrics import METRICS
from sightline.serve.requests import ExplainRequest
from sightline.settings.explain import DEFAULT_METHODS
from sightline.settings.values import parse_value, split_names
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
GROUP = typer.main.get_command(app)
COMMANDS = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}


@pytest.mark.parametrize("command", [[], ["explain"], ["methods"], ["demo"]])
def test_help_says_what_the_command_does_and_gives_examples(sightline, command):
    result = sightline(*command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: {' '.join(['sightline', *command])}")
    if command != ["methods"]:
        assert "  sightline demo" in result.stdout or "  sightline explain" in result.stdout


@pytest.mark.slow
def test_help_needs_none_of_the_heavy_libraries():
    heavy = {"torch", "transformers", "pandas", "numpy", "rich"}
    check = f"""
import sys
from sightline.cli.app import app
app(["--help"], standalone_mode=False)
print({heavy} & set(sys.modules))"""
    help = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout
    assert help.startswith("Usage: ")
    assert help.endswith("\nset()\n")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="a terminal is needed")
@pytest.mark.parametrize(
    ("arguments", "example"),
    [
        ([], "    sightline methods --long                        what each method computes and when to use it"),
        (["explain"], "    cat letter.txt | sightline explain - --format json > letter.json"),
    ],
)
def test_help_in_a_terminal_keeps_every_example_on_a_line_of_its_own(arguments, example):
    ours, theirs = os.openpty()
    program = [sys.executable, "-c", "from sightline.cli import main; main()", *arguments, "--help"]
    with subprocess.Popen(program, stdout=theirs, stderr=theirs, stdin=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux says that the other side has closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0
    assert example in shown.decode().splitlines()


def shown_commands() -> list[str]:
    """Every command line in the documentation and in the examples of the help, without its remark."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
    blocks = [block for page in pages for block in re.findall(r"```(?:sh)?\n(.*?)```", page.read_text(), re.DOTALL)]
    helps = [inspect.getdoc(command.callback) or "" for command in COMMANDS.values()]
    lines = [line for text in (*blocks, EXAMPLES, *helps) for line in text.splitlines()]
    # In the documentation a remark comes after "#", in the help after two spaces.
    matches = [re.search(r"^\s*(?:.*\| )?sightline (\w.*?)(?: +#.*|  .*| > .*)?$", line) for line in lines]
    return sorted({match[1] for match in matches if match})


def test_every_command_that_is_shown_exists_with_all_its_options():
    shown = shown_commands()
    assert {line.split()[0] for line in shown} == set(COMMANDS)
    for line in shown:
        name, *arguments = shlex.split(line)
        COMMANDS[name].make_context(name, arguments)  # an unknown option or value is an exception


def test_help_python_and_server_share_the_default_methods(sightline):
    library = load()
    assert library.explain("the old mill").method == DEFAULT_METHODS[0]
    assert list(library.report("the old mill", check=False, inside=False).explanations) == list(DEFAULT_METHODS)
    assert ExplainRequest(text="the old mill").methods is None  # the worker asks the model for its own
    assert f"[default: {', '.join(DEFAULT_METHODS)}]" in " ".join(sightline("explain", "--help").stdout.split())


def test_version(sightline):
    assert sightline("--version").stdout == f"sightline {__version__}\n"


def test_python_m_runs_the_command_line_and_imports_nothing_from_the_current_folder(tmp_path):
    (tmp_path / "typer.py").write_text("raise SystemExit('code of the folder ran')")
    command = [sys.executable, "-m", "sightline", "--version"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, f"sightline {__version__}", "")


@pytest.mark.parametrize(("command", "registry"), [("methods", METHODS), ("metrics", METRICS)])
def test_lists_name_every_entry_once_with_its_line_and_its_facts_as_json(sightline, command, registry):
    lines = {line.split()[0]: line for line in sightline(command).stdout.splitlines() if ". " in f"{line} "}
    assert sorted(lines) == sorted(registry.names())
    assert all(lines[entry.name].endswith(entry.summary) for entry in registry)
    assert json.loads(sightline(command, "--json").stdout) == [entry.facts() for entry in registry]


def test_methods_are_listed_by_kind_with_their_cost(sightline):
    lines = sightline("methods").stdout.splitlines()
    headings = [line for line in lines if line and not line.startswith(" ")]
    assert headings == ["Attention", "Gradients", "Decomposition", "Relevance", "Perturbation", "Baseline"]
    perturbation = "\n".join(lines[lines.index("Perturbation") :])
    assert re.search(r"  occlusion +one forward pass per token.* +Signed change", perturbation)


def test_methods_long_and_json_say_everything(sightline):
    long, records = sightline("methods", "--long").stdout, json.loads(sightline("methods", "--json").stdout)
    assert [record["name"] for record in records] == METHODS.names()
    for method, record in zip(METHODS, records, strict=True):
        assert set(record["options"]) == set(method.options)
        for fact in (method.formula, method.citation, method.cost, method.use, method.avoid):
            assert fact in long


@pytest.mark.parametrize(("command", "names"), [("methods", ["rollout", "attcat"]), ("metrics", ["aopc"])])
def test_named_entries_are_described_in_full(sightline, command, names):
    output = sightline(command, *names).stdout
    assert [line.split(":")[0] for line in output.splitlines() if line and line[0] != " "] == names
    assert output == "\n".join(sightline(command, name).stdout for name in names)
    assert output.split("\n\n")[0] in sightline(command, "--long").stdout
    assert [entry["name"] for entry in json.loads(sightline(command, *names, "--json").stdout)] == names
    unknown = sightline(command, "atcat")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "There is no" in unknown.stderr


@pytest.mark.parametrize("name", [3, None, ["attcat"]])
def test_a_name_that_is_not_a_string_is_refused_with_a_sentence(name):
    with pytest.raises(OptionError, match="chosen by its name, a string, not "):
        METHODS.get(name)


def test_names_come_repeated_or_with_commas_each_once():
    assert split_names(["attcat, rollout", "flow", "attcat,"]) == ("attcat", "rollout", "flow")
    with pytest.raises(UsageError, match="contains no name"):
        split_names([" ,"])


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
    parsed = parse_value(text, kind)
    assert parsed == value
    assert type(parsed) is type(value)


def progress_output(seconds: float, patience: float = 0.1, terminal: bool = True, total: int = 4_000) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, color_system=None, width=80)
    with LateProgress(console, patience=patience) as progress:
        progress("reading", 1, total)
        time.sleep(seconds)
        progress("reading", 2, total)
    return console.file.getvalue()


def test_the_progress_bar_appears_only_late_and_only_for_a_person():
    assert progress_output(0.0, patience=60.0) == ""
    assert progress_output(1.0, terminal=False) == ""
    assert "reading" in progress_output(1.0)


def test_the_progress_bar_counts_only_what_has_a_known_end():
    assert "2/4,000" in progress_output(1.0)
    unknown = progress_output(1.0, total=0)
    assert "reading" in unknown
    assert "/" not in unknown


def test_the_progress_bar_says_how_much_time_is_left():
    assert re.search(r"2/4,000, about \d+ (s|min|h) left", progress_output(1.0))
    assert "left" not in progress_output(1.0, total=0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (38.6, "39 s"), (89, "89 s"), (95, "2 min"), (3600, "60 min"), (7300, "2 h")]
)
def test_estimates_are_as_exact_as_they_can_be(seconds, text):
    assert describe_seconds(seconds) == text


@pytest.mark.parametrize(
    ("patience", "terminal", "appears"), [(0.1, True, True), (60.0, True, False), (0.1, False, False)]
)
def test_an_announcement_appears_while_the_work_goes_on_and_only_for_a_person(patience, terminal, appears):
    console = Console(file=io.StringIO(), force_terminal=terminal, color_system=None, width=80)
    with LateProgress(console, patience=patience) as progress:
        progress.announce("The model says [bold] “AI”.")
        time.sleep(1.0)
    assert ("The model says [bold] “AI”." in console.file.getvalue()) == appears


@pytest.mark.slow
def test_an_interrupt_while_the_libraries_load_ends_the_process_at_once():
    program = """
import os, signal, sys, time
from sightline.cli.progress_bar import starting
with starting(lambda stage, done, total: print(stage, flush=True)):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except BaseException:
        print("a library swallowed it")
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "starting\n", "Stopped.\n")


def test_an_interrupt_after_the_libraries_have_loaded_is_an_exception_again():
    before = signal.getsignal(signal.SIGINT)
    with starting(lambda stage, done, total: None):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_before_the_command_is_known_is_answered_too():
    program = """
import sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "sightline.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from sightline.cli import main
main()
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "Stopped.\n")
