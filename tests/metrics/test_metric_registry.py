"""Metrics are found by name, say what they are, and carry how they are called."""

import math
import subprocess
import sys

import numpy as np
import pytest

from sightline.errors import OptionError
from sightline.metrics import METRICS, Plan, list_metrics, metric, rbo
from sightline.metrics.registry import NEEDS, RANDOM_ORDERS, SHUFFLED_SCORES
from sightline.registry import Registry

CONTRACT = (
    *("aopc", "log_odds", "comprehensiveness", "sufficiency", "confidence", "precision_at_k", "recall_at_k"),
    *("cosine", "kendall", "spearman", "rbo", "average_overlap", "jaccard", "entropy"),
    *("token_f1", "auprc", "iou_f1", "special_share"),
)
FACTS = {"name": "new", "higher_is_better": True, "summary": "New.", "citation": "None 2000"}


@pytest.fixture
def registry(monkeypatch):
    registry = Registry("metric")
    monkeypatch.setattr("sightline.metrics.registry.METRICS", registry)
    return registry


@pytest.mark.parametrize("name", CONTRACT)
def test_the_promised_names_exist(name):
    assert METRICS.get(name).name == name


@pytest.mark.parametrize("entry", list_metrics(), ids=lambda entry: entry.name)
def test_every_metric_says_what_it_is_in_one_line_and_where_it_comes_from(entry):
    assert entry.summary.endswith(".")
    assert "\n" not in entry.summary
    assert entry.citation
    assert entry.higher_is_better in (True, False, None)
    assert METRICS.get(entry.name) is entry
    assert entry.facts()["needs"] == sorted(entry.needs)


def test_registered_options_are_used_reported_and_overridden():
    entry = METRICS.get("rbo")
    a, b = np.array([0.1, 0.9, 0.4, 0.3]), np.array([0.2, 0.5, 0.6, 0.1])
    assert entry.options == {"p": 0.9}
    assert entry(a, b) == entry.compute({"scores": a, "other_scores": b}.get) == rbo(a, b, p=0.9)
    assert entry(a, b, p=0.5) == rbo(a, b, p=0.5) != entry(a, b)
    with pytest.raises(TypeError):
        rbo(a, b)


def test_an_unknown_metric_is_answered_with_the_nearest_name():
    with pytest.raises(OptionError, match="Did you mean 'kendall'"):
        METRICS.get("kendal")


def test_the_vocabulary_of_needs_is_described_in_full():
    used = {need for entry in list_metrics() for need in entry.needs}
    assert used <= set(NEEDS)
    assert all(NEEDS.values())


def test_words_outside_the_vocabulary_are_refused_at_registration(registry):
    with pytest.raises(OptionError, match="vocabulary"):
        metric(kind="agreement", needs={"tea"}, **FACTS)(abs)
    with pytest.raises(OptionError, match="vocabulary"):
        metric(kind="tea", needs={"scores"}, **FACTS)(abs)
    with pytest.raises(OptionError, match="range"):
        metric(kind="agreement", needs={"scores"}, range=(1, 0), **FACTS)(abs)
    with pytest.raises(OptionError, match="level='tokens'"):
        metric(kind="dispersion", needs={"special"}, level="units", **FACTS)(abs)
    function = metric(kind="dispersion", needs={"scores"}, **FACTS)(abs)
    assert function is abs
    assert registry.get("new").compute({"scores": -2.0}.get) == 2.0


def by_name(special, scores):
    return 10 * special + scores


def by_place(first, second, *, factor=1.0):
    return factor * (10 * first + second)


def mixed(values, scores, *, compat="unset"):
    assert compat is None
    return 10 * values + scores


SUPPLIED = {"scores": 1.0, "other_scores": 2.0, "special": 3.0, "hidden_states": 4.0, "compat": None}


@pytest.mark.parametrize(
    ("function", "needs", "expected"),
    [
        (by_name, {"scores", "special"}, 31.0),
        (by_place, {"other_scores", "scores"}, 12.0),  # in the order of the vocabulary
        (by_place, {"first": "other_scores", "second": "scores"}, 21.0),
        (mixed, {"scores", "hidden_states"}, 41.0),
    ],
)
def test_needs_are_bound_by_name_then_by_place_or_as_mapped(registry, function, needs, expected):
    metric(kind="dispersion", needs=needs, **FACTS)(function)
    assert registry.get("new").compute(SUPPLIED.__getitem__) == expected


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ({"scores"}, "do not fit its parameters"),
        ({"scores", "special", "answer"}, "do not fit its parameters"),
        ({"third": "scores"}, "no parameter third"),
    ],
)
def test_needs_that_do_not_fit_the_parameters_are_refused(registry, needs, message):
    with pytest.raises(OptionError, match=message):
        metric(kind="dispersion", needs=needs, **FACTS)(by_place)


def test_a_faithfulness_metric_has_a_plan_and_is_given_its_removal_curve(registry):
    def last(probabilities, original, *, ratios):
        return original - probabilities[-1] + 10 * ratios[-1]

    metric(kind="faithfulness", needs={"scores", "model"}, **FACTS)(last)
    entry = registry.get("new")
    assert entry.plan == Plan("remove", "delete", tuple(k / 10 for k in range(11)))
    assert entry.chance is RANDOM_ORDERS
    assert entry.arguments == {"probabilities": "probabilities", "original": "original", "ratios": "ratios"}
    curve = {"probabilities": [0.9, 0.25], "original": 0.5, "ratios": [0.0, 1.0]}
    assert entry.compute(curve.__getitem__) == 10.25


def test_a_faithfulness_metric_that_takes_the_model_runs_it_itself(registry):
    metric(kind="faithfulness", needs={"scores", "model"}, **FACTS)(lambda scores, model: 1.0)
    assert registry.get("new").plan is None
    with pytest.raises(OptionError, match="leave plan= out"):
        metric(kind="faithfulness", needs={"scores", "model"}, plan=Plan(), **FACTS)(lambda scores, model: 1.0)


def test_chance_of_agreement_is_sampled_where_two_explanations_are_all_it_needs(registry):
    metric(kind="agreement", needs={"scores", "other_scores"}, **FACTS)(by_place)
    assert registry.get("new").chance is SHUFFLED_SCORES
    assert registry.get("new").range == (-math.inf, math.inf)


@pytest.mark.slow
def test_importing_the_metrics_loads_neither_torch_nor_scipy_stats():
    heavy = "{'torch', 'transformers', 'pandas', 'numba', 'scipy.stats', 'sklearn'}"
    program = f"import sys, sightline.metrics; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
