"""Intervals, the sign-flip test and Holm's correction, against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sightline.errors import InputError
from sightline.metrics import statistics
from sightline.metrics.statistics import (
    SIGNIFICANCE,
    bootstrap_interval,
    documents_needed,
    holm,
    mean_interval,
    share_interval,
    sign_flip_p,
)


def flip(differences, **options):
    return sign_flip_p(np.array(differences, dtype=float)[:, None], **options)[0]


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=8))
def test_few_documents_are_tested_over_all_signs(differences):
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = sum(abs(total) >= abs(sum(differences)) for total in sums) / len(sums)
    assert flip(differences) == pytest.approx(expected)


def test_many_documents_are_tested_by_random_signs_by_seed():
    generator = np.random.default_rng(0)
    alike, apart = generator.normal(size=200), generator.normal(size=200) + 0.5
    assert flip(apart) == pytest.approx(1 / 10_001)
    assert 0.01 < flip(alike) <= 1.0
    assert flip(alike, seed=3) == flip(alike, seed=3)
    exact = flip(alike[:12], permutations=2**12)
    assert flip(alike[:12], permutations=4000) == pytest.approx(exact, abs=0.03)


def test_no_difference_has_p_one_and_no_document_has_none():
    assert flip([0.0, 0.0]) == 1.0
    assert math.isnan(flip([]))


def test_holm_multiplies_by_what_is_left_and_never_falls():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_leaves_absent_values_absent_and_does_not_count_them():
    adjusted = holm([float("nan"), 0.02, 0.5])
    assert math.isnan(adjusted[0])
    assert adjusted[1:] == pytest.approx([0.04, 0.5])


def test_one_sided_sign_flips_with_holm_find_one_of_five_equal_methods_in_at_most_five_percent():
    generator = np.random.default_rng(0)
    trials = 400
    found = 0
    for trial in range(trials):
        # Five methods on the same twelve documents: a common part makes their differences to chance correlated.
        gains = generator.normal(size=(12, 5)) + generator.normal(size=(12, 1))
        found += min(holm(sign_flip_p(gains, alternative="greater", permutations=500, seed=trial))) < SIGNIFICANCE
    assert found <= stats.binom.ppf(0.999, trials, SIGNIFICANCE)


def test_the_documents_needed_are_the_fewest_that_can_be_significant():
    for pairs in (1, 3, 10, 45):
        needed = documents_needed(pairs)
        smallest = [pairs * flip([1.0] * n, permutations=2**20) for n in (needed - 1, needed)]
        assert smallest[1] < SIGNIFICANCE <= smallest[0]


@pytest.mark.parametrize("documents", [6, 10, 30])
@pytest.mark.parametrize("distribution", ["normal", "lognormal"])
def test_intervals_cover_the_mean_in_at_least_93_percent(documents, distribution):
    generator = np.random.default_rng(7)
    samples = getattr(generator, distribution)(size=(500, documents))
    mean = 0.0 if distribution == "normal" else math.exp(0.5)
    covered = sum(mean in bootstrap_interval(sample, resamples=1000, seed=i) for i, sample in enumerate(samples))
    assert covered >= stats.binom.ppf(0.001, len(samples), 0.93)


def test_the_interval_of_a_mean_holds_it_and_does_not_exist_below_six_documents():
    mean, low, high = mean_interval([1.0, 2.0, 4.0, 0.0, 3.0, 2.0])
    assert mean == pytest.approx(2)
    assert low < mean < high
    for few in ([2.5], [1.0, 2.0, 4.0, 3.0, 5.0]):
        assert mean_interval(few)[0] == pytest.approx(np.mean(few))
        assert all(math.isnan(bound) for bound in mean_interval(few)[1:])
    assert all(math.isnan(bound) for bound in mean_interval([]))
    assert mean_interval([0.5] * 8) == (0.5, 0.5, 0.5)
    with pytest.raises(InputError, match="empty"):
        bootstrap_interval([])


def test_intervals_are_deterministic_and_independent_of_blocks(monkeypatch):
    values = np.random.default_rng(0).standard_normal(30)
    whole = bootstrap_interval(values, seed=3, resamples=100)
    assert bootstrap_interval(values, seed=3, resamples=100) == whole
    assert bootstrap_interval(values, seed=4, resamples=100) != whole
    monkeypatch.setattr(statistics, "BLOCK_ENTRIES", 7 * 30)
    assert bootstrap_interval(values, seed=3, resamples=100) == whole


def test_the_interval_of_a_share_is_exact_also_where_all_are_hits():
    assert share_interval([1, 1, 1, 1]) == pytest.approx((1.0, 0.025 ** (1 / 4), 1.0))


def test_an_interval_stays_within_the_values_that_are_possible():
    shares = [1.0, 1.0, 1.0, 1.0, 1.0, 0.2]
    _, _, beyond = statistics.mean_interval(shares)
    mean, low, high = statistics.mean_interval(shares, within=(0.0, 1.0))
    assert beyond > 1.0
    assert (low, high) == (max(0.0, statistics.mean_interval(shares)[1]), 1.0)
    assert low < mean < high
