"""Faithfulness metrics on curves of probabilities, against their formulas written out."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError, OptionError
from sightline.metrics import METRICS, aopc, area, comprehensiveness, deletion, insertion, log_odds, sufficiency
from sightline.metrics.faithfulness import plan_of
from sightline.metrics.plans import ERASER_BINS, NINTHS, TENTHS, check_ratios

PLANS = {entry.name: entry.plan for entry in METRICS if entry.plan is not None}
PROBABILITY = st.floats(0.0, 1.0)
CURVE = st.lists(PROBABILITY, min_size=1, max_size=11)


@given(CURVE, PROBABILITY)
def test_drops_are_signed_means(curve, original):
    expected = sum(original - p for p in curve) / len(curve)
    for metric in (aopc, comprehensiveness, sufficiency):
        assert metric(curve, original) == pytest.approx(expected, abs=1e-12)


@given(CURVE, PROBABILITY)
def test_the_published_program_averages_absolute_drops(curve, original):
    expected = sum(abs(original - p) for p in curve) / len(curve)
    assert aopc(curve, original, compat="attcat") == pytest.approx(expected, abs=1e-12)


@given(CURVE, PROBABILITY)
def test_log_odds_are_mean_log_ratios_clipped_before_the_logarithm(curve, original):
    expected = sum(math.log(max(p, 1e-12)) - math.log(max(original, 1e-12)) for p in curve) / len(curve)
    assert log_odds(curve, original) == pytest.approx(expected, abs=1e-9)


def test_a_probability_of_zero_has_finite_log_odds():
    assert log_odds([0.0], 1.0) == pytest.approx(math.log(1e-12))
    assert log_odds([0.0], 0.0) == 0.0


@given(st.lists(PROBABILITY, min_size=2, max_size=8))
def test_areas_are_trapezoids_over_the_width(curve):
    shares = [k * k / 100 for k in range(len(curve))]
    steps = [(shares[i + 1] - shares[i]) * (curve[i] + curve[i + 1]) / 2 for i in range(len(curve) - 1)]
    expected = sum(steps) / (shares[-1] - shares[0])
    assert area(curve, shares) == pytest.approx(expected, abs=1e-12)
    assert area(curve[::-1], shares[::-1]) == pytest.approx(expected, abs=1e-12)
    assert insertion(curve, 0.5, ratios=shares) == deletion(curve, 0.9, ratios=shares) == area(curve, shares)
    drops = [0.5 - p for p in curve]
    assert aopc(curve, 0.5, ratios=shares, summary="area") == pytest.approx(area(drops, shares), abs=1e-12)


def test_a_constant_curve_is_its_own_area_and_so_is_a_single_point():
    assert area([0.25, 0.25, 0.25], [0.0, 0.3, 0.5]) == pytest.approx(0.25)
    assert area([0.7], [0.2]) == pytest.approx(0.7)


@pytest.mark.parametrize("name", ["comprehensiveness", "sufficiency"])
def test_the_summary_names_every_share_that_is_averaged(name):
    entry = METRICS.get(name)
    named = [int(number) for number in re.findall(r"\d+", entry.summary)]
    assert named == [round(100 * share) for share in entry.plan.ratios]


def test_every_faithfulness_metric_has_a_plan_and_a_curve():
    names = {entry.name for entry in METRICS if entry.kind == "faithfulness"}
    assert names == set(PLANS)
    for name in names:
        assert METRICS.get(name).needs == {"scores", "model"}
        assert METRICS.get(name).curve.of([0.5, 0.2], 0.5).shape == (2,)


def test_plans_are_those_of_the_definitions():
    assert PLANS["aopc"].replacement == "delete"
    assert PLANS["log_odds"].replacement == "pad"
    assert PLANS["aopc"].ratios == PLANS["log_odds"].ratios == TENTHS == tuple(k / 10 for k in range(11))
    assert PLANS["comprehensiveness"].ratios == PLANS["sufficiency"].ratios == ERASER_BINS
    assert {name for name, plan in PLANS.items() if plan.direction == "keep"} == {"sufficiency", "insertion"}


def test_plans_take_other_replacements_and_ratios():
    plan = plan_of("aopc", replacement="unk", ratios=[0.5, 0.1, 0.5])
    assert (plan.replacement, plan.ratios) == ("unk", (0.1, 0.5))
    assert plan_of("log_odds", compat="attcat").ratios == NINTHS


def test_the_metrics_are_called_by_name_with_a_common_signature():
    for name in PLANS:
        given = {"bounds": (0.0, 0.5, True)} if "bounds" in METRICS.get(name).arguments else {}
        assert math.isfinite(METRICS.get(name)([0.9, 0.4], 0.9, ratios=[0.0, 1.0], **given))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: plan_of("aopk"), "not a faithfulness metric"),
        (lambda: plan_of("aopc", replacement="blank"), "replacement='blank' is not known"),
        (lambda: plan_of("aopc", compat="other"), "compat='other' is not known"),
        (lambda: plan_of("sufficiency", compat="attcat"), "exists for aopc and log_odds"),
        (lambda: plan_of("aopc", compat="attcat", ratios=[0.5]), "leave ratios= out"),
        (lambda: check_ratios([0.5, 1.5]), "shares lie in"),
        (lambda: check_ratios([0.5, math.nan]), "shares lie in"),
        (lambda: check_ratios("few"), "ratios='few' is not a list of shares"),
        (lambda: check_ratios([]), "is not a list of shares"),
        (lambda: aopc([0.5], 0.5, summary="median"), "summary='median' is not known"),
        (lambda: aopc([0.5], 0.5, summary="area"), "give ratios="),
    ],
)
def test_what_does_not_fit_is_reported_in_a_sentence(call, sentence):
    with pytest.raises(OptionError, match=sentence):
        call()


@pytest.mark.parametrize("curve", [[0.5, 1.2], [-0.1], [float("nan")], []])
def test_what_is_no_curve_of_probabilities_is_refused(curve):
    with pytest.raises(InputError):
        aopc(curve, 0.5)


def test_a_curve_needs_as_many_ratios_as_points():
    with pytest.raises(InputError, match="2 points and there are 3 ratios"):
        area(np.array([0.1, 0.2]), [0.0, 0.5, 1.0])
