"""Faithfulness measured on models: equal to one changed document at a time in plain Python, floor and reference too."""

from __future__ import annotations

import numpy as np
import pytest

import sightline as sl
from sightline import builtin
from sightline.api.load import load
from sightline.errors import InputError, OptionError, SizeError
from sightline.metrics import measure_faithfulness, measure_scores
from sightline.metrics.measurement import FaithfulnessSettings
from sightline.metrics.plans import NINTHS, Plan
from sightline.passes.perturb import removable_units
from tests.metrics import brute_force
from tests.metrics.brute_force import OneAtATime
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

pytestmark = pytest.mark.slow

TEXT = "hello old miller! the river mills; the world"
PLANS = {entry.name: entry.plan for entry in sl.metrics.METRICS if entry.plan is not None}
METRICS = tuple(PLANS)
BETWEEN_ORDERS = {"normalized_aopc"}
"""Metrics that are scaled by all orders of a document: `test_orderings.py`."""


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


@pytest.mark.parametrize("level", ["word", "token"])
@pytest.mark.parametrize("pair", [None, "old river"])
def test_every_metric_with_floor_and_reference_equals_one_changed_document_at_a_time(model, level, pair):
    encoding = model.encode(TEXT, pair)
    target = model.trace(encoding).target
    scores = np.random.default_rng(3).normal(size=len(encoding))
    result = measure_scores(
        model.network,
        encoding,
        target,
        {"mine": scores},
        METRICS,
        FaithfulnessSettings(level=level, random_orderings=2),
        seed=7,
    )
    runner = OneAtATime(tiny_module(), target.index, model.network.token_ids)
    units = [unit.tokens for unit in removable_units(encoding, target, level)]
    own = brute_force.descending([sum(scores[i] for i in unit) for unit in units])
    generator = np.random.default_rng(7)
    draws = [brute_force.random_order(units, generator.random(len(encoding))) for _ in range(2)]
    whole = runner.without(encoding, [], "delete")
    for metric, plan in PLANS.items():
        if metric in BETWEEN_ORDERS:
            continue
        measurement = result.by["mine", metric]

        def measured(order, metric=metric, plan=plan):
            p = brute_force.curve(runner, encoding, units, order, plan)
            return brute_force.value(metric, p, whole, plan.ratios)

        assert measurement.value == pytest.approx(measured(own), abs=1e-12)
        assert measurement.floor == pytest.approx(sum(map(measured, draws)) / 2, abs=1e-12)
        oracle = brute_force.oracle_order(runner, encoding, units, plan.replacement)
        assert measurement.reference == pytest.approx(measured(oracle), abs=1e-12)
        assert measurement.ratios.tolist() == list(plan.ratios)
        assert measurement.calls == len(plan.ratios)
    assert result.calls_made < result.calls_requested


def test_masked_pads_other_replacements_and_ratios_equal_one_at_a_time(model):
    encoding = model.encode(TEXT)
    explanation = model.explain(encoding, "attcat", target=2)
    plan = Plan("remove", "pad", (0.2, 0.5, 0.9))
    measured = measure_faithfulness(
        model, explanation, "aopc", replacement="pad", ratios=plan.ratios, mask_pads=True, random_orderings=0
    )
    runner = OneAtATime(tiny_module(), 2, model.network.token_ids)
    units = [unit.tokens for unit in removable_units(encoding, explanation.target, "word")]
    order = brute_force.descending([word.score for word in explanation.words()])
    p = brute_force.curve(runner, encoding, units, order, plan, mask_pads=True)
    whole = runner.without(encoding, [], "pad")
    np.testing.assert_allclose(measured.curve, [whole - probability for probability in p], atol=1e-12)
    assert measured.floor is None
    assert measured.reference is not None


def test_the_published_variant_counts_all_tokens_and_never_removes_the_last_ranked():
    model = tiny_model(num_labels=2)
    encoding = model.encode(ids=tiny_ids(n=14, seed=4))
    runner = OneAtATime(tiny_module(num_labels=2), 0, {"pad": 0})
    target = model.trace(encoding, 0).target
    generator = np.random.default_rng(0)
    signed = generator.normal(size=14)
    signed[[0, 13]] = 0.0
    positive = np.abs(signed)
    for scores in (signed, positive):
        last = min(range(14), key=lambda i: (scores[i], -i))
        order = [i for i in brute_force.descending(scores) if i not in (0, 13, last)]
        for replacement in ("delete", "pad"):
            settings = FaithfulnessSettings(
                compat="attcat", replacement=replacement, random_orderings=0, reference_order=False
            )
            measured = measure_scores(model.network, encoding, target, {"": scores}, ["aopc", "log_odds"], settings)
            whole = runner.without(encoding, [], "delete")
            p = [runner.without(encoding, order[: round(ratio * 14)], replacement) for ratio in NINTHS]
            assert measured.by["", "aopc"].value == pytest.approx(
                sum(abs(whole - probability) for probability in p) / 9, abs=1e-12
            )
            expected = brute_force.value("log_odds", p, whole, NINTHS)
            assert measured.by["", "log_odds"].value == pytest.approx(expected, abs=1e-12)


def test_the_published_variant_leaves_out_short_documents():
    model = tiny_model()
    with pytest.raises(InputError, match="fewer than 10"):
        measure_faithfulness(model, model.explain(model.encode(ids=tiny_ids(n=9)), "attcat"), compat="attcat")


def test_explanations_share_their_calls_and_do_not_change_each_other(model):
    encoding = model.encode(TEXT)
    target = model.trace(encoding).target
    generator = np.random.default_rng(1)
    scores = {name: generator.normal(size=len(encoding)) for name in "abc"}
    settings = FaithfulnessSettings(random_orderings=1)
    together = measure_scores(model.network, encoding, target, scores, METRICS, settings)
    backwards = measure_scores(model.network, encoding, target, dict(reversed(scores.items())), METRICS[::-1], settings)
    made = 0
    for name, vector in scores.items():
        alone = measure_scores(model.network, encoding, target, {name: vector}, METRICS, settings)
        made += alone.calls_made
        for metric in METRICS:
            assert together.by[name, metric].value == pytest.approx(alone.by[name, metric].value, abs=1e-13)
            assert together.by[name, metric].value == backwards.by[name, metric].value
            assert together.by[name, metric].floor == backwards.by[name, metric].floor
    assert together.calls_made < made


def test_shares_nought_and_all_are_the_same_for_every_explanation(model):
    encoding = model.encode(TEXT)
    target = model.trace(encoding).target
    generator = np.random.default_rng(1)
    scores = {str(i): generator.normal(size=len(encoding)) for i in range(6)}
    settings = FaithfulnessSettings(ratios=(0.0, 1.0), random_orderings=3, reference_order=False)
    measured = measure_scores(model.network, encoding, target, scores, ["aopc", "comprehensiveness"], settings)
    assert measured.calls_made == 2
    assert measured.calls_requested == 1 + (6 + 3) * 2 * 2


def test_text_shorter_than_the_bins_has_defined_values(model):
    encoding = model.encode("hello")
    measured = measure_scores(
        model.network,
        encoding,
        model.trace(encoding).target,
        {"": np.ones(len(encoding))},
        METRICS,
        FaithfulnessSettings(),
    )
    for measurement in measured.by.values():
        assert np.isfinite(measurement.curve).all()
        assert measurement.value == pytest.approx(measurement.floor, abs=1e-12)
        assert measurement.value == pytest.approx(measurement.reference, abs=1e-12)


def test_a_budget_drops_the_reference_first_and_refuses_the_rest_before_anything_runs(model):
    explanation = model.explain(TEXT, "attcat")
    full = measure_faithfulness(model, explanation)
    frugal = measure_faithfulness(model, explanation, budget=60)
    assert full.reference is not None
    assert frugal.reference is None
    assert frugal.value == pytest.approx(full.value, abs=1e-13)
    before = model.network.forward_passes
    with pytest.raises(SizeError, match="the budget is 5"):
        measure_faithfulness(model, explanation, budget=5)
    assert model.network.forward_passes == before


def test_unknown_metrics_are_refused_with_the_names_there_are(model):
    with pytest.raises(OptionError, match="Use one of: aopc"):
        measure_faithfulness(model, model.explain(TEXT, "attcat"), "kendall")


def test_random_never_beats_the_floor_beyond_its_interval():
    """On the built-in model: the mean of random explanations lies in the interval of the floor, for every metric."""
    model = sl.load()
    text = builtin.documents()["learned_compilers"].read_text()
    encoding = model.encode(text[:250])
    target = model.trace(encoding).target
    draws = {str(seed): model.explain(encoding, "random", seed=seed).scores for seed in range(10)}
    measured = measure_scores(
        model.network,
        encoding,
        target,
        draws,
        METRICS,
        FaithfulnessSettings(random_orderings=10, reference_order=False),
        seed=5,
    )
    for metric in METRICS:
        values = np.array([measured.by[name, metric].value for name in draws])
        floor = measured.by["0", metric].floor
        half_width = 3.0 * values.std(ddof=1) * np.sqrt(2 / 10)
        assert abs(values.mean() - floor) <= half_width + 1e-12, metric
