"""How far to trust an explanation: one judgement by named thresholds, the same sentences wherever it is shown."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.cli.output import render
from sightline.results.explanation import Explanation, RemovalCurve
from sightline.results.report import Report
from sightline.results.verdict import (
    LARGEST_CHANCE,
    LARGEST_SPECIAL_SHARE,
    SMALLEST_EFFECT,
    SMALLEST_STAKE,
    find_stake,
    judge,
)
from sightline.view.words.lists import common_count, describe_verdicts
from sightline.view.words.sentences import MARKS, VerdictText, check_sentences, describe_verdict
from tests.sample_explanations import explanation
from tests.sample_pages import build


def checks(
    fall: float = 0.5, chance: float = 0.1, beaten: int = 20, orders: int = 20, stake: float = 0.4, **others
) -> dict:
    numbers = {"faithfulness": fall, "random_mean": chance, "random_beaten": beaten, "random_orderings": orders}
    telling = {
        "removed_words": 25,
        "removed_share": 0.01,
        "probability": 0.85,
        "probability_without": 0.37,
        "probability_without_random": 0.8512,
        "probability_empty": 0.2,
    }
    percentile = 100.0 * beaten / orders
    return {**numbers, "stake": stake, **telling, "faithfulness_percentile": percentile, "check_calls": 64, **others}


EDGE = 0.4 * SMALLEST_EFFECT


@pytest.mark.parametrize(
    ("fall", "chance", "beaten", "level"),
    [
        (0.84, -0.003, 20, "holds"),
        (0.5, 0.1, 19, "holds"),
        (0.5, 0.1, 18, "weak"),
        (0.5, 0.1, 11, "weak"),
        (0.5, 0.1, 10, "poor"),
        (-0.1, 0.1, 0, "poor"),
        (EDGE + 1e-9, 0.0, 20, "holds"),
        (EDGE - 1e-9, 0.0, 20, "weak"),
        (0.5, 0.5 - EDGE + 0.001, 20, "weak"),  # random words take nearly as much away
    ],
)
def test_an_explanation_holds_up_if_it_beats_chance_by_a_fall_that_matters(fall, chance, beaten, level):
    assert judge(checks(fall, chance, beaten)).level == level


def test_the_fall_is_measured_against_what_would_change_the_prediction():
    """At 55 % a fall of 0.06 loses the decision; at 99.9 % it is small."""
    narrow, wide = find_stake(0.55, 0.45), find_stake(0.999, 0.001)
    assert (narrow, wide) == (pytest.approx(0.05), pytest.approx(0.499))
    assert judge(checks(0.059, 0.0, stake=narrow)).level == "holds"
    assert judge(checks(0.059, 0.0, stake=wide)).reasons[0] == "small_effect"


def test_the_stake_is_half_the_lead_or_half_the_probability_of_a_class_that_does_not_lead():
    assert find_stake(0.6, 0.3) == pytest.approx(0.15)
    assert find_stake(0.3, None) == pytest.approx(0.15)
    assert find_stake(0.9, 0.8, multi_label=True) == pytest.approx(0.4)
    assert find_stake(0.3, None, multi_label=True) == pytest.approx(0.15)
    assert find_stake(0.500001, 0.499999) == SMALLEST_STAKE


def test_a_prediction_that_stays_without_any_word_is_not_the_fault_of_the_explanation():
    nothing = {"probability": 0.97, "probability_without": 0.969, "probability_empty": 0.98}
    verdict = judge(checks(0.001, 0.002, 3, stake=0.47, **nothing))
    assert (verdict.level, verdict.reasons) == ("weak", ("nothing_decides",))
    first, *_ = describe_verdict(verdict).sentences
    assert first == "Nothing in the text decides: with every word removed, the probability is 98 %."
    # The text decides if the prediction changes without it, or if the strongest words or sentences change it.
    assert judge(checks(0.001, 0.002, 3, stake=0.47, **nothing, passages_trials=3)).level == "poor"
    assert judge(checks(0.001, 0.002, 3, stake=0.47, **{**nothing, "probability_empty": 0.2})).level == "poor"
    assert judge(checks(0.6, 0.002, 20, stake=0.47, **{**nothing, "probability_without": 0.1})).level == "holds"
    # An empty text with another label: two classes near a tie, or a third one that overtakes.
    tie = {"probability": 0.51, "probability_without": 0.50, "probability_empty": 0.49}
    assert judge(checks(0.001, 0.002, 3, stake=0.05, **tie)).reasons == ("nothing_decides",)
    assert judge(checks(0.001, 0.002, 3, stake=0.05, **tie, empty_says_same=False)).level == "poor"


def test_a_check_of_an_earlier_version_counts_as_not_made():
    old = {"faithfulness": 0.5, "random_mean": 0.1, "random_beaten": 20, "random_orderings": 20}
    assert judge(old).level == "unchecked"


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


def described(checks: dict) -> VerdictText:
    return describe_verdict(judge(checks))


def test_the_sentence_names_how_many_words_were_removed():
    assert described(checks(special_share=0.081)).sentences == (
        "Without its 25 strongest words (1.0 % of the text) the probability falls from 85 % to 37 %; without 25 random "
        "words it stays at 85 %.",
        "It beats 20 of 20 random orders.",
        "Special tokens carry 8.1 % of the total of all tokens.",
    )
    removal = {"removed_words": 1, "removed_share": 0.2, "probability": 0.99971, "probability_without_random": 0.999}
    assert described(checks(**removal)).sentences[0] == (
        "Without its strongest word (20 % of the text) the probability falls from > 99.9 % to 37 %; without a random "
        "word it falls to 99.9 %."
    )
    rising = described(checks(-0.1, 0.1, 7, probability_without=0.9))
    assert "the probability rises from 85 % to 90 %" in rising.sentences[0]


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        (checks(0.3, 0.1, 15), "It beats 15 of 20 random orders, too few to rule out chance."),
        (checks(0.02, 0.0, 20), "It beats 20 of 20 random orders, but not by enough."),
        (checks(-0.1, 0.1, 7), "It beats 7 of 20 random orders, no more than chance would."),
    ],
)
def test_the_reason_is_told_in_a_sentence(measured, sentence):
    assert described(measured).sentences[1] == sentence


def test_a_verdict_says_first_what_it_means_for_a_reader():
    nothing = {"probability": 0.97, "probability_without": 0.969, "probability_empty": 0.98, "stake": 0.47}
    for numbers, meaning in (
        (checks(), "The model relies on these words; its answer may still be wrong."),
        (checks(0.3, 0.1, 15), "Read this as “not shown”: explanations that are known to be wrong often get this "),
        (
            checks(0.02, 0.0, 20),
            "These words matter to the model more than random words, but not by enough to hold up.",
        ),
        (checks(-0.1, 0.1, 7), "These words matter to the model no more than words chosen at random."),
        (checks(0.001, 0.002, 3, **nothing), "Nothing in the text decides: with every word removed, "),
        (checks(untrained=True), "Some weights of this model are random"),
        ({}, "It was not compared with random words."),
    ):
        assert described(numbers).all_sentences[0].startswith(meaning)


def test_a_small_effect_is_compared_with_what_would_hold_up():
    numbers = checks(0.02, 0.0, 20)
    needed = f"{100 * SMALLEST_EFFECT * numbers['stake']:.0f} percentage points"
    assert described(numbers).sentences[2] == (
        "Averaged over all numbers of removed words, the probability falls by 2.0 percentage points more than with "
        f"random words; to hold up, the difference would have to be {needed}."
    )


@pytest.mark.parametrize(("beaten", "level"), [(20, "holds"), (15, "weak"), (3, "poor")])
def test_the_verdict_tells_if_an_empty_text_is_judged_alike(beaten, level):
    assert "an empty text" not in " ".join(described(checks(beaten=beaten, probability_empty=0.1)).sentences)
    said = described(checks(beaten=beaten, probability_empty=0.99))
    assert said.level == level
    assert said.sentences[2].startswith("With every word removed, the probability is 99 %: the model says the same")


COUNTS = [0, 10, 50, 100]


def measured(method: str, own: int, *without: float) -> Explanation:
    """Return an explanation whose probability is 0.9 and falls to `without` at 10, 50 and 100 removed words.

    `own` is the count that tells most about it; random words change nothing.
    """
    at = COUNTS.index(own) - 1
    telling = {"removed_words": own, "removed_share": own / 1000, "probability_without_random": 0.9}
    numbers = checks(**telling, probability=0.9, probability_without=without[at])
    curve = RemovalCurve(np.array(COUNTS) / 1000, [0.9, *without], [[0.9] * 4] * 20, COUNTS)
    return explanation(method=method, checks=numbers, removal=curve)


def test_sentences_of_several_explanations_name_the_same_number_of_words():
    shown = [measured("attcat", 50, 0.8, 0.3, 0.28), measured("alti", 100, 0.85, 0.4, 0.35)]
    alone = [describe_verdict(each.verdict).sentences[0] for each in shown]
    assert ["its 50 " in alone[0], "its 100 " in alone[1]] == [True, True]
    texts = describe_verdicts(shown)
    assert [text.sentences[:2] for text in texts] == [
        (
            "Without its 50 strongest words (5.0 % of the text) the probability falls from 90 % to 30 %; without 50 "
            "random words it stays at 90 %.",
            "It beats 20 of 20 random orders.",
        ),
        (
            "Without its 50 strongest words (5.0 % of the text) the probability falls from 90 % to 40 %; without 50 "
            "random words it stays at 90 %.",
            "It beats 20 of 20 random orders.",
        ),
    ]
    # The page, its curves, the terminal and a pipe say the same.
    shown_on_page = build(shown).json
    assert [one["verdict"]["sentences"] for one in shown_on_page["explanations"]] == [
        list(text.sentences) for text in texts
    ]
    assert [note.split(". ", 1)[1] for note in shown_on_page["curves"][0]["notes"]] == [
        text.sentences[0] for text in texts
    ]
    piped = render(Report.of(shown), "text", top=1)
    assert piped.count("Without its 50 strongest words") == 2


def test_a_sentence_that_loses_by_the_common_number_adds_its_own():
    early, late = measured("attcat", 10, 0.2, 0.15, 0.15), measured("alti", 100, 0.9, 0.85, 0.3)
    common = common_count([early.removal, late.removal])
    assert common == 100
    first, second = describe_verdicts([early, late])
    assert "its 100 strongest words" in first.sentences[0]
    assert "larger" not in " ".join(first.sentences)  # 0.75 below random words instead of 0.7
    assert "its 100 strongest words" in second.sentences[0]
    numbers = {**early.verdict.numbers}
    compared = {**numbers, "removed_words": 100, "probability_without": 0.6}
    assert describe_verdict(early.verdict, compared).sentences[1] == (
        "Without 10 words the difference is larger: 20 %, and 90 % for random words."
    )


def test_a_difference_that_percentages_do_not_show_is_not_named():
    verdict = measured("attcat", 10, 0.891, 0.9, 0.9).verdict
    compared = {**verdict.numbers, "removed_words": 100, "probability_without": 0.9}
    assert "larger" not in " ".join(describe_verdict(verdict, compared).sentences)


def test_a_single_explanation_names_its_own_number_of_words():
    alone = measured("attcat", 100, 0.8, 0.5, 0.3)
    (text,) = describe_verdicts([alone])
    assert text == describe_verdict(alone.verdict)
    assert common_count([alone.removal, None]) is None
    # Orders that are never better than random words have no count that tells.
    useless = measured("random", 10, 0.9, 0.95, 0.95)
    assert common_count([useless.removal, useless.removal]) is None
    assert common_count([useless.removal, alone.removal]) == 100


def test_without_a_check_it_is_reported_how_to_get_one():
    verdict = described({"special_share": 0.2})
    assert verdict.level == "unchecked"
    for way in ("check=True", "--check", "server"):
        assert way in verdict.sentences[0]
    impossible = described({"faithfulness_check": "The document has fewer than two words to put in order."})
    assert impossible.level == "unchecked"
    assert impossible.sentences == (
        "It could not be compared with random words. The document has fewer than two words to put in order.",
    )
    assert described({}).warning is None


def test_more_than_half_on_special_tokens_is_a_warning_whatever_the_level():
    for measured in (checks(), checks(beaten=2), {}):
        fine = described({**measured, "special_share": LARGEST_SPECIAL_SHARE})
        warned = described({**measured, "special_share": LARGEST_SPECIAL_SHARE + 0.01})
        assert fine.warning is None
        assert "51 %" in warned.warning
        assert warned.level == fine.level
        assert not any("pecial tokens" in sentence for sentence in warned.sentences)


def test_a_model_with_random_weights_is_not_to_be_trusted():
    assert described(checks(untrained=True)).level == "poor"
    assert "random" in described({"untrained": True}).sentences[0]
    assert described(checks(untrained=False)).level == "holds"


def test_relevance_that_is_not_conserved_is_said_in_words():
    checks = {"relevance_given": 2.0, "relevance_kept": 1.5, "conservation_error": 0.25}
    (sentence,) = check_sentences(checks)
    assert sentence == (
        "The sum of the scores differs from the explained output by 25 % of that output, which goes to bias terms of "
        "the model."
    )
    (sentence,) = check_sentences({**checks, "conservation_error": 1.39})
    assert sentence.endswith("Rely on the order of the words, not on the sizes of their scores.")


def test_page_and_notebook_give_the_same_verdict_and_say_nothing_twice():
    for measured in (checks(special_share=0.6), checks(beaten=15, special_share=0.1), checks(beaten=2), {}):
        exp = explanation(checks={"completeness_gap": 0.003, **measured})
        expected = describe_verdict(exp.verdict)
        shown = build([exp]).json["explanations"][0]
        assert shown["verdict"]["level"] == expected.level
        assert shown["verdict"]["words"] == expected.words
        assert shown["verdict"]["sentences"] == list(expected.sentences)
        assert shown["verdict"].get("warning") == expected.warning
        told = check_sentences(exp.checks)
        assert shown["checks"] == told
        assert told[0] == "The scores add up to the explained difference within 0.3 % (completeness gap)."
        assert not any("random orders" in sentence or "pecial tokens" in sentence for sentence in told)
        fragment = exp._repr_html_()
        shape, words = MARKS[expected.level]
        assert f"{shape} {words}." in fragment
        assert fragment.index(words) < fragment.index("overflow:auto")
        assert all(fragment.count(sentence) == 1 for sentence in expected.sentences)
        assert expected.warning is None or fragment.count(expected.warning) == 1
