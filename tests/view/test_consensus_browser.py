"""The consensus in page, terminal and JSON: the words that methods agree on, and the agreement expected by chance."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

from sightline.cli.streams import render
from sightline.models.target import Target
from sightline.results.report import Report
from sightline.view.words.headline import consensus_sentence
from sightline.view.words.terminal import print_report
from tests.sample_explanations import encoding, explanation
from tests.view.conftest import open_view

WORDS = " ".join(f"river the old mill {i}." for i in range(40))
METHODS = ("attcat", "rollout", "gradient")


def report(seed: int = 3) -> Report:
    """Return three methods whose scores share a part, one of them also for another class."""
    encoded, generator = encoding(WORDS), np.random.default_rng(seed)
    shared = generator.standard_normal(len(encoded))
    made = [
        explanation(encoded, shared + 0.5 * generator.standard_normal(len(encoded)), method=name) for name in METHODS
    ]
    return Report.of([*made, explanation(encoded, -shared, target=Target(0, "AI"))])


def test_the_sentence_counts_all_words_and_names_those_with_content():
    made = report()
    agreed = len(made.consensus.words)
    sentence = consensus_sentence(made)
    assert sentence.startswith(
        f"AttCAT, Attention rollout and Gradient norm agree on {agreed} of their 20 highest-ranked words, among them “"
    )
    assert sentence.endswith(" would be expected.")
    assert "“the”" not in sentence
    assert "“.”" not in sentence
    assert consensus_sentence(Report.of([next(iter(made))])) is None


def consensus_of(text: str, strongest: str) -> str:
    """Return the sentence on two methods that give the words of `strongest` the highest scores."""
    encoded = encoding(text)
    scores = [float(token in strongest.split()) for token in encoded.tokens]
    return consensus_sentence(Report.of([explanation(encoded, scores, method=name) for name in METHODS[:2]]))


def test_the_words_named_are_all_that_are_counted_unless_the_sentence_says_otherwise():
    filler = " world" * 16
    assert consensus_of(f"river the old mill river{filler}", "river old mill") == (
        "AttCAT and Attention rollout agree on 4 of their 4 highest-ranked words: “river” (2 times), “old” and “mill”; "
        "by chance 0.8 would be expected."
    )
    # A stop word is counted, but not named.
    assert "agree on 4 of their 4 highest-ranked words, among them “river” (2 times) and “old”; by chance" in (
        consensus_of(f"river the old mill river{filler}", "river old the")
    )


def test_terminal_pipe_and_json_hold_the_consensus():
    made = report()
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    print_report(console, list(made), consensus=consensus_sentence(made))
    assert "highest-ranked words, among them" in console.file.getvalue()
    text = render(made, "text", top=2)
    assert text.startswith("summary\t")
    assert text.splitlines()[-1] == f"consensus\t{consensus_sentence(made)}"
    assert json.loads(render(made, "json", top=2))["consensus"] == made.consensus.to_dict()


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1024, "light"), (1400, "dark"), (1920, "light")])
def test_the_page_lists_the_words_that_all_methods_name(open_page, width, scheme):
    made = report()
    page = open_page(made.to_html(), "#view=compare", viewport={"width": width, "height": 800}, color_scheme=scheme)
    consensus = made.consensus
    finding = page.locator("[data-section=finding]").inner_text()
    assert f"agree on {len(consensus.words)} word" in finding
    assert f"By chance, {consensus.expected:.1f} would be expected" in finding
    listed = page.locator("[data-section=agreed-words]").first.locator("bdi").all_inner_texts()
    assert {text.lower() for text in listed} == {word.text.lower() for word in consensus.words}
    assert page.locator("main").evaluate("main => main.scrollWidth - main.clientWidth") <= 0

    # Fewer methods agree on more words; one method has no consensus.
    page.get_by_label("Gradient norm").uncheck()
    same_target = [each for each in made if each.target == made.first.target]
    two = Report.of(same_target[:2]).consensus
    assert f"agree on {len(two.words)} word" in page.locator("[data-section=finding]").inner_text()
    assert len(two.words) > len(consensus.words)
    page.get_by_label("Attention rollout").uncheck()
    assert "at least two methods" in page.locator("[data-section=finding]").inner_text()


@pytest.mark.browser
def test_a_word_leads_into_the_text_and_a_single_method_agrees_with_none(open_page):
    made = report()
    page = open_page(made.to_html(), "#view=compare")
    word = page.locator("[data-section=agreed-words] button").first
    text = word.locator("bdi").inner_text()
    word.click()
    assert page.locator(".card h2").inner_text() == text
    single = open_page(Report.of([made.first]).to_html())
    open_view(single, "Compare methods")
    assert single.locator("[data-section=agreed-words]").count() == 0
    assert "Only AttCAT explains" in single.locator("[data-section=finding]").inner_text()
