"""Confidence: Kendall's tau-b between classes."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from sightline.errors import InputError, OptionError, TargetError
from sightline.metrics import METRICS, SightlineWarning, confidence, confidence_published


def test_confidence_is_the_mean_tau_b_with_every_other_class():
    rows = np.random.default_rng(0).integers(0, 5, (4, 12)).astype(float)
    expected = np.mean([kendalltau(rows[2], rows[c]).statistic for c in (0, 1, 3)])
    assert confidence(rows, 2) == pytest.approx(expected, abs=1e-13)


def test_an_explanation_that_ignores_the_class_has_confidence_one():
    assert confidence(np.tile([0.1, 0.4, 0.2, 0.3], (3, 1)), 0) == pytest.approx(1.0, abs=1e-15)


def test_the_published_variant_correlates_index_lists():
    rows = np.array([[0.1, 0.7, 0.2, 0.9], [0.8, 0.3, 0.4, 0.1]])
    assert confidence(rows, 0, compat="attcat") == kendalltau([3, 1, 2, 0], [0, 2, 1, 3]).statistic
    with pytest.raises(OptionError, match="attcat"):
        confidence(rows, 0, compat="other")


def test_the_two_definitions_are_two_metrics_with_their_own_names():
    rows = np.random.default_rng(1).normal(size=(3, 15))
    order = [sorted(range(15), key=lambda i: -row[i]) for row in rows]
    expected = np.mean([kendalltau(order[1], order[c]).statistic for c in (0, 2)])
    assert confidence_published(rows, 1) == pytest.approx(expected, abs=1e-13)
    assert METRICS.get("confidence_published").level == "tokens"  # specials included, as in the published program
    assert "published AttCAT program" in METRICS.get("confidence_published").summary
    assert "not the number in its tables" in METRICS.get("confidence").summary


def test_opposite_rankings_are_minus_one_by_the_scores_and_near_zero_by_the_positions():
    generator = np.random.default_rng(2)
    published = []
    for _ in range(400):
        scores = generator.normal(size=20)
        assert confidence([scores, -scores], 0) == pytest.approx(-1.0, abs=1e-13)
        published.append(confidence_published([scores, -scores], 0))
    assert abs(np.mean(published)) < 0.1


def test_constant_scores_count_zero_with_a_warning():
    with pytest.warns(SightlineWarning, match="equal"):
        assert confidence([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], 0) == 0.0


def test_one_class_or_a_class_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="two classes or more"):
        confidence([[1.0, 2.0]], 0)
    with pytest.raises(TargetError, match="Class 2 asked for"):
        confidence([[1.0, 2.0], [2.0, 1.0]], 2)
