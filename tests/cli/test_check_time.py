"""What is said before a check: the first answer, and the time the check will take if that is long."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sightline.api.checking import CHECK_STAGE
from sightline.cli.progress import CheckTime, LateProgress, first_answer
from sightline.results.report import Report
from sightline.view.words.headline import headline
from tests.sample_explanations import encoding, explanation


def make_report(methods: int = 2, explain_seconds: float = 3.0) -> Report:
    encoded = encoding("the old mill and the river")
    scores = [3.0 if token == "mill" else 0.1 for token in encoded.tokens]
    return Report(
        {f"m{number}": explanation(encoded, scores) for number in range(methods)}, seconds={"explain": explain_seconds}
    )


def say(first_call: float, calls: int, *, done: int = 1, artefacts: bool = True, replacements: int = 1) -> str:
    """What is printed when the first `done` calls of a check took `first_call` seconds each."""
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    times = iter([100.0, 100.0 + done * first_call])
    with LateProgress(console) as progress:
        watch = CheckTime(progress, replacements=replacements, artefacts=artefacts, clock=lambda: next(times))
        watch.explained(make_report())
        watch(CHECK_STAGE, 0, 0)
        for step in range(done, calls + 1):
            watch(CHECK_STAGE, step, calls)
    return console.file.getvalue()


def test_a_long_check_is_announced_once_with_its_time_and_a_shorter_one():
    # 62 calls, a tenth more for the second method, 8 for deleted sentences per method, two runs of the methods.
    assert say(10.0, 62) == (
        f"The check takes about {(10 * (62 * 1.1 + 16) + 6) / 60:.0f} min, with --check-calls 32 about "
        f"{(10 * (32 * 1.1 + 16) + 6) / 60:.0f} min; --no-check leaves it out.\n"
    )
    assert say(10.0, 62, done=7) == say(10.0, 62)


def test_a_check_that_is_short_or_already_small_needs_no_advice():
    assert say(0.2, 62) == ""
    assert say(2.0, 22) == f"The check takes about {2 * (22 * 1.1 + 16) + 6:.0f} s; --no-check leaves it out.\n"


@pytest.mark.parametrize(("artefacts", "replacements"), [(False, 1), (True, 2)])
def test_the_estimate_knows_what_the_check_does(artefacts, replacements):
    seconds = 10 * (replacements * 62 * 1.1 + 16) + (6 if artefacts else 0)
    assert f"about {seconds / 60:.0f} min," in say(10.0, 62, artefacts=artefacts, replacements=replacements)


def test_the_first_answer_is_the_headline_without_a_verdict():
    report = make_report()
    sentence = headline(report.first)
    answer = first_answer(report)
    assert answer.endswith(" (not checked yet).")
    assert sentence.startswith(answer.removesuffix(" (not checked yet)."))
    assert "“mill”" in answer
