"""What is said before a check: the first answer, and the time the check will take if that is long."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sightline.cli.progress_bar import CheckTime, LateProgress, first_answer
from sightline.metrics.check import TEST_STAGE
from sightline.results.report import Report
from sightline.view.words.headline import headline
from tests.sample_explanations import encoding, explanation


def make_report(methods: int = 2, explain_seconds: float = 3.0) -> Report:
    encoded = encoding("the old mill and the river")
    scores = [3.0 if token == "mill" else 0.1 for token in encoded.tokens]
    return Report(
        {f"m{number}": explanation(encoded, scores) for number in range(methods)}, seconds={"explain": explain_seconds}
    )


def say(per_call: float, calls: int, *, done: int = 1, artefacts: bool = True, every: bool = False) -> str:
    """What is printed when the first `done` calls of a check took `per_call` seconds each."""
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    times = iter([100.0, 100.0 + done * per_call])
    with LateProgress(console) as progress:
        watch = CheckTime(progress, every=every, artefacts=artefacts, clock=lambda: next(times))
        watch.explained(make_report())
        watch(TEST_STAGE, 0, calls)
        for step in range(done, calls + 1):
            watch(TEST_STAGE, step, calls)
    return console.file.getvalue()


def test_a_long_check_is_announced_once_with_its_time():
    # 17 calls for the test, about 15 for the smallest set, two runs of the method.
    seconds = 10 * (17 + 15) + 2 * 3
    assert say(10.0, 17) == f"The check takes about {seconds / 60:.0f} min; --no-check leaves it out.\n"
    assert say(10.0, 17, done=7) == say(10.0, 17)
    assert say(0.2, 17) == ""


@pytest.mark.parametrize(("artefacts", "every"), [(False, False), (True, True)])
def test_the_estimate_knows_what_the_check_does(artefacts, every):
    seconds = (2 if every else 1) * (10 * (17 + 15) + (6 if artefacts else 0))
    assert f"about {seconds / 60:.0f} min;" in say(10.0, 17, artefacts=artefacts, every=every)


def test_the_first_answer_is_the_headline_without_a_verdict():
    report = make_report()
    sentence = headline(report.first)
    answer = first_answer(report)
    assert answer.endswith(" (not checked yet).")
    assert sentence.startswith(answer.removesuffix(" (not checked yet)."))
    assert "“mill”" in answer
