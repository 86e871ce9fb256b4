"""The check of one explanation against random orders of its words."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sightline.errors import OptionError
from sightline.metrics import faithfulness_check, faithfulness_checks, measure_faithfulness
from sightline.metrics.check import GRIDS, _shares
from sightline.model import load
from sightline.perturb import removable_units
from sightline.verdict import judge
from sightline.view.words.sentences import check_sentences, describe_verdict
from tests.metrics import brute_force
from tests.metrics.brute_force import OneAtATime
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "hello old miller! the river mills; the world"


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


def test_the_numbers_are_those_of_one_changed_document_at_a_time(model):
    explanation = model.explain(TEXT, "attcat")
    found = faithfulness_check(model.network, explanation, seed=3)
    encoding, target = explanation.encoding, explanation.target
    runner = OneAtATime(tiny_module(), target.index, model.network.token_ids)
    units = [unit.tokens for unit in removable_units(encoding, target)]
    whole = runner.without(encoding, [], "delete")

    def fall(order):
        counts = [brute_force.count(ratio, len(units)) for ratio in GRIDS[0]]
        removed = [[position for unit in order[:k] for position in units[unit]] for k in counts]
        return sum(whole - runner.without(encoding, one, "delete") for one in removed) / len(removed)

    ranked = brute_force.descending([word.score for word in explanation.words()])
    own = fall(ranked)
    generator = np.random.default_rng(3)
    random = [fall(brute_force.random_order(units, generator.random(len(encoding)))) for _ in range(20)]
    assert found["faithfulness"] == pytest.approx(own, abs=1e-12)
    assert found["random_mean"] == pytest.approx(sum(random) / 20, abs=1e-12)
    assert found["random_beaten"] == sum(one < own - 1e-13 for one in random)
    assert found["random_orderings"] == 20
    assert found["check_calls"] <= 21 * 9 + 1
    checks, curve = faithfulness_checks(model.network, [explanation], seed=3)[0]
    assert checks == found
    assert curve.ratios.tolist() == [0, *GRIDS[0]]
    assert curve.random.shape == (20, 10)
    tenth = [position for unit in ranked[: brute_force.count(0.1, len(units))] for position in units[unit]]
    expected = [whole, runner.without(encoding, tenth, "delete")]
    np.testing.assert_allclose(curve.probabilities[:2], expected, atol=1e-12)
    np.testing.assert_allclose(whole - curve.probabilities[1:].mean(), own, atol=1e-12)
    np.testing.assert_allclose(whole - curve.random[:, 1:].mean(axis=1), random, atol=1e-12)
    assert (curve.random[:, 0] == curve.probabilities[0]).all()


def test_the_best_of_many_random_explanations_beats_others_and_the_worst_does_not(model):
    explanation = model.explain(TEXT, "random")
    generator = np.random.default_rng(0)
    many = [dataclasses.replace(explanation, scores=generator.random(len(explanation.scores))) for _ in range(60)]
    found = [measure_faithfulness(model, one, random_orderings=0, ceiling=False).value for one in many]
    best, worst = (faithfulness_check(model.network, many[pick(found)]) for pick in (np.argmax, np.argmin))
    assert best["random_beaten"] >= 18
    assert worst["random_beaten"] <= 2
    assert best["faithfulness"] > best["random_mean"] > worst["faithfulness"]


def test_a_budget_makes_the_shares_coarser_and_bounds_the_calls(model):
    explanation = model.explain(TEXT, "attcat")
    calls = [faithfulness_check(model.network, explanation, budget=budget)["check_calls"] for budget in (22, 64, 400)]
    assert calls[0] <= 22
    assert calls[0] < calls[1] <= 64
    assert calls[1] < calls[2]
    with pytest.raises(OptionError, match="needs 22 calls"):
        faithfulness_check(model.network, explanation, budget=21)


def test_without_a_budget_long_documents_are_read_at_fewer_shares_and_never_at_none():
    lengths = (100, 1_200, 2_000, 2_500, 4_096, 6_500, 100_000)
    assert [len(_shares(n, 20, None)) for n in lengths] == [9, 5, 3, 3, 2, 1, 1]


def test_explanations_of_one_document_and_class_share_the_random_orders(model):
    explanations = list(model.explain(TEXT, methods=["attcat", "rollout", "gradient"]).values())
    network = model.network
    alone = [faithfulness_check(network, one) for one in explanations]
    together = faithfulness_checks(network, explanations)
    for one, other in zip(alone, together, strict=True):
        assert one == {name: pytest.approx(value, abs=1e-12) for name, value in other.checks.items()}
    other_class = model.explain(TEXT, "rollout", target=(explanations[0].target.index + 1) % 3)
    mixed = faithfulness_checks(network, [explanations[1], other_class])
    assert mixed[0].checks["faithfulness"] != mixed[1].checks["faithfulness"]


def test_ties_count_half_in_the_percentile_and_beat_nobody(model):
    explanation = model.explain("the the", "attcat")
    found = faithfulness_check(model.network, explanation)
    assert found["random_beaten"] == 0
    assert found["faithfulness_percentile"] == 50.0


def test_a_document_of_one_word_says_that_there_is_no_order(model):
    found = faithfulness_check(model.network, model.explain("hello", "attcat"))
    assert list(found) == ["faithfulness_check"]
    assert "fewer than two words" in found["faithfulness_check"]


def test_the_same_seed_gives_the_same_numbers_and_no_ordering_is_refused(model):
    explanation = model.explain(TEXT, "rollout")
    assert faithfulness_check(model.network, explanation) == faithfulness_check(model.network, explanation)
    with pytest.raises(OptionError, match="at least one random ordering"):
        faithfulness_check(model.network, explanation, orderings=0)


def test_a_model_with_one_output_says_that_there_is_nothing_to_lose():
    model = tiny_model(num_labels=1)
    found = faithfulness_check(model.network, model.explain(model.encode(ids=tiny_ids()), "gradient"))
    assert "single output" in found["faithfulness_check"]


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
    for one in (*several.values(), *listed, *by_class.values()):
        assert one.checks["random_orderings"] == 20
        assert one.checks["check_calls"] <= 30
    falls = {label: one.checks["faithfulness"] for label, one in by_class.items()}
    assert len(set(falls.values())) == 3


def test_the_check_is_told_in_a_sentence():
    checks = {"faithfulness": 0.21, "random_mean": 0.05, "random_beaten": 20, "random_orderings": 20}
    checks["faithfulness_percentile"] = 100.0
    assert describe_verdict(judge(checks)).sentences == (
        "Beats 20 of 20 random orders: removing its strongest words lowers the probability by 0.21 on average; "
        "removing random words lowers it by 0.05.",
    )
    assert check_sentences(checks) == []
    (sentence,) = describe_verdict(judge({**checks, "random_beaten": 9})).sentences
    assert "Beats 9 of 20 random orders, no more than chance would" in sentence


def test_checks_of_sampling_and_flow_are_told_in_sentences():
    told = check_sentences({"surrogate_fit": 0.63, "exact": False, "certified": True, "settled_by_bounds": 1})
    assert told == [
        "The linear model it is read from explains 63 % of what was measured.",
        "Combinations of words were drawn at random: the values are estimates.",
        "Every value is certified by a cut of the same size.",
        "Bounds settled 1 token.",
    ]
    assert check_sentences({"settled_by_flow": 0, "certified": False}) == []
