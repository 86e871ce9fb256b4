"""The check of one explanation against random orders of its words."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.api.model import load
from sightline.errors import OptionError
from sightline.evaluation.rule_model import clear_documents, rule_model
from sightline.metrics import faithfulness_check, faithfulness_checks
from sightline.metrics.check import log_weights, plan_counts, scale_counts
from sightline.passes.perturb import removable_units
from sightline.results.verdict import SMALLEST_STAKE, TIE
from sightline.view.words.headline import headline
from sightline.view.words.sentences import check_sentences, describe_verdict
from tests.metrics import brute_force
from tests.metrics.brute_force import OneAtATime
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "hello old miller! the river mills; the world"


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


def area(counts, values):
    """The trapezoidal rule over ln k, divided by the width; the plain mean of a single value."""
    if len(counts) == 1:
        return values[0]
    parts = [
        (math.log(right) - math.log(left)) * (a + b) / 2
        for (left, right), (a, b) in zip(pairwise(counts), pairwise(values), strict=True)
    ]
    return sum(parts) / (math.log(counts[-1]) - math.log(counts[0]))


@pytest.mark.parametrize("replacement", ["delete", "mask"])
def test_the_numbers_are_those_of_one_changed_document_at_a_time(model, replacement):
    text = " ".join([TEXT] * 4)
    explanation = model.explain(text, "attcat")
    measured = faithfulness_check(model.network, explanation, seed=3, replacement=replacement)
    encoding, target = explanation.encoding, explanation.target
    runner = OneAtATime(tiny_module(), target.index, model.network.token_ids)
    units = [unit.tokens for unit in removable_units(encoding, target)]
    whole = runner.without(encoding, [], replacement)
    counts = [1, 2, 5]

    def without(order, k):
        return runner.without(encoding, [position for unit in order[:k] for position in units[unit]], replacement)

    def fall(order):
        return area(counts, [whole - without(order, k) for k in counts])

    ranked = brute_force.descending([word.score for word in explanation.words()])
    own = fall(ranked)
    generator = np.random.default_rng(3)
    orders = [generator.permutation(len(units)).tolist() for _ in range(19)]
    random = [fall(order) for order in orders]
    assert measured["faithfulness"] == pytest.approx(own, abs=1e-12)
    assert measured["random_mean"] == pytest.approx(sum(random) / 19, abs=1e-12)
    stake = (whole - sorted(explanation.prediction.probabilities)[-2]) / 2
    assert measured["stake"] == pytest.approx(max(stake, SMALLEST_STAKE), abs=1e-6)
    assert measured["random_beaten"] == sum(fall < own - TIE * measured["stake"] for fall in random)
    assert measured["random_orderings"] == 19
    assert measured["check_calls"] <= 64
    everything = [position for unit in units for position in unit]
    assert measured["probability_empty"] == pytest.approx(runner.without(encoding, everything, replacement), abs=1e-12)

    ((checks, curve),) = faithfulness_checks(model.network, [explanation], seed=3, replacement=replacement)
    assert checks == measured
    assert curve.counts.tolist() == [0, *counts]
    assert curve.replacement == replacement
    np.testing.assert_allclose(curve.ratios, curve.counts / len(units))
    np.testing.assert_allclose(curve.probabilities, [whole, *(without(ranked, k) for k in counts)], atol=1e-12)
    for row, order in zip(curve.random, orders, strict=True):
        np.testing.assert_allclose(row, [whole, *(without(order, k) for k in counts)], atol=1e-12)

    place = curve.counts.tolist().index(measured["removed_words"])
    differences = curve.random.mean(axis=0) - curve.probabilities
    assert differences[place] >= 0.9 * differences[1:].max()
    assert measured["removed_share"] == measured["removed_words"] / len(units)
    assert measured["probability_without"] == curve.probabilities[place]
    assert measured["probability_without_random"] == pytest.approx(curve.random[:, place].mean())


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (2, [1]),
        (4, [1, 2]),
        (8, [1, 2]),
        (10, [1, 2, 5]),
        (49, [1, 2, 5]),
        (50, [1, 2, 5, 10]),
        (3_000, [1, 2, 5, 10, 20, 50, 100, 200, 500]),
        (5_000, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000]),
    ],
)
def test_counts_are_on_a_logarithmic_scale_up_to_a_fifth_of_the_words(words, counts):
    assert scale_counts(words).tolist() == counts


@pytest.mark.parametrize("words", [2, 10, 60, 200, 1_000, 5_000, 100_000])
@pytest.mark.parametrize("budget", [12, 30, 64, 200])
def test_the_plan_keeps_the_budget_and_both_ends_of_the_scale(words, budget):
    counts, orders = plan_counts(words, None, budget)
    assert len(counts) * (orders + 1) + 2 <= budget
    assert orders >= 9
    assert orders <= 20
    assert counts[-1] == scale_counts(words)[-1]
    assert len(counts) == 1 or counts[0] == 1
    assert set(counts) <= set(scale_counts(words))
    assert len(set(counts)) == len(counts)


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=12, unique=True))
def test_the_weights_are_those_of_the_area_over_the_logarithm(counts):
    counts = sorted(counts)
    weights = log_weights(np.array(counts))
    assert weights.sum() == pytest.approx(1.0)
    values = np.random.default_rng(len(counts)).random(len(counts))
    assert weights @ values == pytest.approx(area(counts, values.tolist()))


def test_the_best_of_many_random_explanations_beats_others_and_the_worst_does_not(model):
    explanation = model.explain(TEXT, "random")
    generator = np.random.default_rng(0)
    many = [dataclasses.replace(explanation, scores=generator.random(len(explanation.scores))) for _ in range(60)]
    checks = [faithfulness_check(model.network, scored) for scored in many]
    falls = [document_checks["faithfulness"] for document_checks in checks]
    best, worst = checks[int(np.argmax(falls))], checks[int(np.argmin(falls))]
    assert best["random_beaten"] >= 16
    assert worst["random_beaten"] <= 2
    assert best["faithfulness"] > best["random_mean"] > worst["faithfulness"]


@pytest.mark.parametrize(
    ("whole", "empty", "says_same"),
    [
        ((0.51, 0.49), (0.49, 0.51), False),
        ((0.51, 0.49), (0.505, 0.495), True),
        ((0.40, 0.35, 0.25), (0.40, 0.56, 0.04), False),
        ((0.40, 0.35, 0.25), (0.40, 0.30, 0.30), True),
    ],
)
def test_an_empty_text_with_another_label_is_not_said_to_be_judged_alike(whole, empty, says_same):
    module, tokenizer = tiny_module(num_labels=len(whole)), wordpiece()
    with torch.no_grad():  # the head that gives the whole and the empty text exactly these probabilities
        ids = [tokenizer(text, return_tensors="pt")["input_ids"] for text in (TEXT, "")]
        pooled = torch.cat([module.bert(input_ids).pooler_output for input_ids in ids])
        logits = torch.tensor([whole, empty], dtype=torch.float64).log()
        module.classifier.weight.copy_((torch.linalg.pinv(pooled) @ logits).T)
        module.classifier.bias.zero_()
    relabelling = load(module, tokenizer=tokenizer)
    explanation = relabelling.check(relabelling.explain(TEXT, "random"))
    assert explanation.checks["probability"] == pytest.approx(whole[0])
    assert explanation.checks["probability_empty"] == pytest.approx(empty[0])
    assert explanation.checks["empty_says_same"] is says_same
    told = " ".join([headline(explanation), *describe_verdict(explanation.verdict).sentences])
    if not says_same:
        assert "othing in the text decides" not in told
        assert "empty text" not in told
    else:
        assert "othing in the text decides" in told or "empty text" in told


def test_a_budget_makes_the_scale_coarser_and_bounds_the_calls(model):
    explanation = model.explain(" ".join([TEXT] * 4), "attcat")
    calls = [faithfulness_check(model.network, explanation, budget=budget)["check_calls"] for budget in (12, 40, 64)]
    assert calls[0] <= 12
    assert calls[0] < calls[1] <= 40
    assert calls[1] < calls[2] <= 64
    with pytest.raises(OptionError, match="at least 4 model calls; the budget is 3"):
        faithfulness_check(model.network, explanation, budget=3)
    with pytest.raises(OptionError, match="20 random orderings needs at least 23 model calls; the budget is 22"):
        faithfulness_check(model.network, explanation, orderings=20, budget=22)


def test_a_long_document_is_checked_with_fewer_calls_unless_a_budget_or_orders_are_given():
    model = rule_model("any", 1)
    documents = [clear_documents("any", words, 1, np.random.default_rng(words))[0] for words in (999, 1_000)]
    short, long = (model.explain(document.text, "gradient") for document in documents)

    def calls(explanation, **options):
        checks = faithfulness_check(model.network, explanation, **options)
        assert checks["random_orderings"] >= 9
        return checks["check_calls"]

    assert 32 < calls(short) <= 64
    assert 22 < calls(long) <= 32
    assert 32 < calls(long, budget=64) <= 64
    assert 32 < calls(long, orderings=9) <= 64
    assert calls(short, budget=32) <= 32


def test_the_same_seed_gives_the_same_check_of_a_long_document_whatever_is_checked_beside_it():
    model = rule_model("exception", 1)
    (document,) = clear_documents("exception", 1_200, 1, np.random.default_rng(2))
    gradient, random = model.explain(document.text, methods=["gradient", "random"]).values()
    alone, again = (faithfulness_checks(model.network, [gradient], seed=5)[0] for _ in range(2))
    beside = faithfulness_checks(model.network, [random, gradient], seed=5)[1]
    other_seed = faithfulness_checks(model.network, [gradient], seed=6)[0]
    assert alone.checks == again.checks
    assert beside.checks == {name: pytest.approx(value, abs=1e-6) for name, value in alone.checks.items()}
    np.testing.assert_array_equal(alone.curve.random, again.curve.random)
    assert (alone.curve.random != other_seed.curve.random).any()


def test_deleting_and_masking_can_be_compared(model):
    explanation = model.explain(TEXT, "attcat")
    deleted, masked, both = (model.check(explanation, replacement=how) for how in ("delete", "mask", "both"))
    assert both.checks["faithfulness"] == deleted.checks["faithfulness"]
    assert both.checks["mask_faithfulness"] == masked.checks["faithfulness"]
    assert both.checks["mask_level"] == masked.verdict.level
    assert both.checks["replacements_agree"] == (masked.verdict.level == deleted.verdict.level)
    assert both.verdict.level == deleted.verdict.level
    assert any("masking" in sentence for sentence in check_sentences(both.checks))
    with pytest.raises(OptionError, match="replacement='burn' is not known"):
        model.check(explanation, replacement="burn")


def test_a_check_belongs_to_the_scores_it_was_made_for(model):
    checked = model.check(model.explain(TEXT, "attcat"))
    assert checked.verdict.level != "unchecked"
    edited = dataclasses.replace(checked, scores=checked.scores[::-1])
    assert edited.verdict.level == "unchecked"
    assert edited.removal is None
    assert not {"faithfulness", "stake", "check_calls"} & set(edited.checks)
    assert edited.checks["untrained"] == checked.checks["untrained"]
    again = model.check(edited)
    assert again.verdict.level != "unchecked"
    renamed = dataclasses.replace(checked, method="renamed")
    assert renamed.verdict == checked.verdict


def test_explanations_of_one_document_and_class_share_the_random_orders(model):
    explanations = list(model.explain(TEXT, methods=["attcat", "rollout", "gradient"]).values())
    network = model.network
    alone = [faithfulness_check(network, explanation) for explanation in explanations]
    together = faithfulness_checks(network, explanations)
    for explanation, other in zip(alone, together, strict=True):
        assert explanation == {name: pytest.approx(value, abs=1e-12) for name, value in other.checks.items()}
    other_class = model.explain(TEXT, "rollout", target=(explanations[0].target.index + 1) % 3)
    mixed = faithfulness_checks(network, [explanations[1], other_class])
    assert mixed[0].checks["faithfulness"] != mixed[1].checks["faithfulness"]


def test_ties_count_half_in_the_percentile_and_beat_nobody(model):
    explanation = model.explain("the the", "attcat")
    checks = faithfulness_check(model.network, explanation)
    assert checks["random_beaten"] == 0
    assert checks["faithfulness_percentile"] == 50.0


def test_a_document_of_one_word_says_that_there_is_no_order(model):
    checks = faithfulness_check(model.network, model.explain("hello", "attcat"))
    assert list(checks) == ["faithfulness_check"]
    assert "fewer than two words" in checks["faithfulness_check"]


def test_the_same_seed_gives_the_same_numbers_and_no_ordering_is_refused(model):
    explanation = model.explain(TEXT, "rollout")
    assert faithfulness_check(model.network, explanation) == faithfulness_check(model.network, explanation)
    with pytest.raises(OptionError, match="at least one random ordering"):
        faithfulness_check(model.network, explanation, orderings=0)


def test_a_model_with_one_output_says_that_there_is_nothing_to_lose():
    model = tiny_model(num_labels=1)
    checks = faithfulness_check(model.network, model.explain(model.encode(ids=tiny_ids()), "gradient"))
    assert "single output" in checks["faithfulness_check"]


def test_explaining_with_check_adds_the_numbers_to_the_checks(model):
    plain, checked = (model.explain(TEXT, "attcat", check=check) for check in (False, True))
    assert "faithfulness" not in plain.checks
    assert plain.checks == {name: checked.checks[name] for name in plain.checks}
    expected, curve = faithfulness_checks(model.network, [plain])[0]
    assert {name: checked.checks[name] for name in expected} == expected
    assert plain.removal is None
    np.testing.assert_array_equal(checked.removal.random, curve.random)
    np.testing.assert_array_equal(plain.scores, checked.scores)


def test_the_check_comes_with_every_form_of_asking_and_keeps_its_budget(model):
    several = model.explain(TEXT, methods=["attcat", "rollout"], check=True, check_budget=30)
    listed = model.explain([TEXT, "old river mill"], "attcat", check=True, check_budget=30)
    by_class = model.explain(TEXT, "attcat", target="all", check=True, check_budget=30)
    for explanation in (*several.values(), *listed, *by_class.values()):
        assert explanation.checks["random_orderings"] >= 9
        assert explanation.checks["check_calls"] <= 30
    falls = {label: explanation.checks["faithfulness"] for label, explanation in by_class.items()}
    assert len(set(falls.values())) == 3


def test_checks_of_sampling_and_flow_are_told_in_sentences():
    told = check_sentences({"surrogate_fit": 0.63, "exact": False, "certified": True, "settled_by_bounds": 1})
    assert told == [
        "The linear model behind the scores explains 63 % of what was measured.",
        "Combinations of words were drawn at random: the values are estimates.",
        "Every value is certified by a cut of the same size.",
        "Bounds settled 1 token.",
    ]
    assert check_sentences({"settled_by_flow": 0, "certified": False}) == []


@pytest.mark.parametrize("option", [{"check_replacement": "mask"}, {"check_budget": 40}, {"artefacts": False}])
def test_options_of_the_check_are_refused_without_it(model, tmp_path, option):
    name = next(iter(option))
    for call in (model.explain, model.report):
        with pytest.raises(OptionError, match=f"{name}.* belongs to the check"):
            call(TEXT, check=False, **option)
    if name == "check_budget":
        with pytest.raises(OptionError, match="check_budget belongs to the check"):
            sl.run([TEXT], model, out=tmp_path / "run", **option)
