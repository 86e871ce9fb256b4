"""How far to trust an explanation: one judgement by named thresholds, the same sentences wherever it is shown."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.verdict import LARGEST_CHANCE, LARGEST_SPECIAL_SHARE, SMALLEST_FALL, judge
from sightline.view.words.sentences import MARKS, VerdictText, check_sentences, describe_verdict
from tests.sample_explanations import explanation
from tests.sample_pages import build


def checks(fall: float = 0.5, chance: float = 0.1, beaten: int = 20, orders: int = 20, **others) -> dict:
    found = {"faithfulness": fall, "random_mean": chance, "random_beaten": beaten, "random_orderings": orders}
    return {**found, "faithfulness_percentile": 100.0 * beaten / orders, "check_calls": 64, **others}


@pytest.mark.parametrize(
    ("fall", "chance", "beaten", "level"),
    [
        (0.84, -0.003, 20, "holds"),
        (0.5, 0.1, 19, "holds"),
        (0.5, 0.1, 18, "weak"),
        (0.5, 0.1, 11, "weak"),
        (0.5, 0.1, 10, "poor"),
        (-0.1, 0.1, 0, "poor"),
        (SMALLEST_FALL, 0.0, 20, "holds"),
        (SMALLEST_FALL - 0.001, 0.0, 20, "weak"),
        (0.5, 0.5 - SMALLEST_FALL + 0.001, 20, "weak"),  # random words take nearly as much away
        (0.01, -0.3, 20, "weak"),  # random words raise the probability: its own still hardly lower it
    ],
)
def test_an_explanation_holds_up_if_it_beats_chance_by_a_fall_that_matters(fall, chance, beaten, level):
    assert judge(checks(fall, chance, beaten)).level == level


@pytest.mark.parametrize("orders", [1, 5, 8, 9, 10, 20, 40, 100])
def test_a_random_order_seldom_holds_up(orders):
    """Ranks of an order among R others are equally likely: the share that holds up is at most the chance allowed."""
    levels = [judge(checks(beaten=beaten, orders=orders)).level for beaten in range(orders + 1)]
    share = levels.count("holds") / (orders + 1)
    assert share <= LARGEST_CHANCE
    assert ("holds" in levels) == (orders >= 9)
    assert levels.index("poor") == 0
    # Beating more orders is never worse.
    assert levels == sorted(levels, key=["poor", "weak", "holds"].index)


def test_twenty_orders_need_nineteen_beaten():
    simulated = np.random.default_rng(0).random((20_000, 21)).argsort(axis=1).argsort(axis=1)[:, 0]
    assert np.mean(simulated >= 19) == pytest.approx(2 / 21, abs=0.01)
    assert 2 / 21 <= LARGEST_CHANCE < 3 / 21


def described(checks: dict) -> VerdictText:
    return describe_verdict(judge(checks))


def test_the_reason_is_told_in_a_sentence():
    assert described(checks(0.837, -0.00291, 20, special_share=0.081)).sentences == (
        "Beats 20 of 20 random orders: removing its strongest words lowers the probability by 0.84 on average; "
        "removing random words raises it by 0.0029.",
        "Special tokens carry 8.1 % of the total.",
    )
    (weak,) = described(checks(0.3, 0.1, 15)).sentences
    assert weak.startswith("Beats 15 of 20 random orders, too few to rule out chance: ")
    (small,) = described(checks(0.0002, 0.0, 20)).sentences
    assert small == (
        "Beats 20 of 20 random orders, but by little: removing its strongest words lowers the probability by less than "
        "0.001 on average; removing random words leaves it as it is."
    )
    (poor,) = described(checks(-0.1, 0.1, 7)).sentences
    assert poor.startswith("Beats 7 of 20 random orders, no more than chance would: ")
    assert "raises the probability by 0.1 on" in poor


def test_without_a_check_it_is_said_how_to_get_one():
    found = described({"special_share": 0.2})
    assert found.level == "unchecked"
    for way in ("check=True", "--check", "server"):
        assert way in found.sentences[0]
    impossible = described({"faithfulness_check": "The document has fewer than two words to put in order."})
    assert impossible.level == "unchecked"
    assert impossible.sentences == (
        "It could not be compared with random orders. The document has fewer than two words to put in order.",
    )
    assert described({}).warning is None


def test_more_than_half_on_special_tokens_is_a_warning_whatever_the_level():
    for found in (checks(), checks(beaten=2), {}):
        fine = described({**found, "special_share": LARGEST_SPECIAL_SHARE})
        warned = described({**found, "special_share": LARGEST_SPECIAL_SHARE + 0.01})
        assert fine.warning is None
        assert "51 %" in warned.warning
        assert warned.level == fine.level
        assert not any("pecial tokens" in sentence for sentence in warned.sentences)


def test_a_model_with_random_weights_is_not_to_be_trusted():
    assert described(checks(untrained=True)).level == "poor"
    assert "random" in described({"untrained": True}).sentences[0]
    assert described(checks(untrained=False)).level == "holds"


def test_page_and_notebook_give_the_same_verdict_and_say_nothing_twice():
    for found in (checks(special_share=0.6), checks(beaten=15, special_share=0.1), checks(beaten=2), {}):
        exp = explanation(checks={"completeness_gap": 0.003, **found})
        expected = describe_verdict(exp.verdict)
        shown = build([exp]).json["explanations"][0]
        assert shown["verdict"]["level"] == expected.level
        assert shown["verdict"]["words"] == expected.words
        assert shown["verdict"]["sentences"] == list(expected.sentences)
        assert shown["verdict"].get("warning") == expected.warning
        told = check_sentences(exp.checks)
        assert shown["checks"] == told
        assert told[0] == "The completeness gap is 0.3 %."
        assert not any("random orders" in sentence or "pecial tokens" in sentence for sentence in told)
        fragment = exp._repr_html_()
        shape, words = MARKS[expected.level]
        assert f"{shape} {words}." in fragment
        assert fragment.index(words) < fragment.index("overflow:auto")
        assert all(fragment.count(sentence) == 1 for sentence in expected.sentences)
        assert expected.warning is None or fragment.count(expected.warning) == 1
