"""Intervals, the sign-flip test and Holm's correction, against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.evaluation.statistics import holm, mean_interval, sign_flip_p


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=8))
def test_few_documents_are_tested_over_all_signs(differences):
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = sum(abs(total) >= abs(sum(differences)) for total in sums) / len(sums)
    assert sign_flip_p(differences) == pytest.approx(expected)


def test_many_documents_are_tested_by_random_signs_by_seed():
    generator = np.random.default_rng(0)
    alike, apart = generator.normal(size=200), generator.normal(size=200) + 0.5
    assert sign_flip_p(apart) == pytest.approx(1 / 10_001)
    assert 0.01 < sign_flip_p(alike) <= 1.0
    assert sign_flip_p(alike, seed=3) == sign_flip_p(alike, seed=3)
    exact = sign_flip_p(alike[:12], permutations=2**12)
    assert sign_flip_p(alike[:12], permutations=4000) == pytest.approx(exact, abs=0.03)


def test_no_difference_has_p_one_and_no_document_has_none():
    assert sign_flip_p([0.0, 0.0]) == 1.0
    assert math.isnan(sign_flip_p([]))


def test_holm_multiplies_by_what_is_left_and_never_falls():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_leaves_absent_values_absent_and_does_not_count_them():
    adjusted = holm([float("nan"), 0.02, 0.5])
    assert math.isnan(adjusted[0])
    assert adjusted[1:] == pytest.approx([0.04, 0.5])


def test_the_interval_of_a_mean_holds_it_and_shrinks_to_one_value():
    mean, low, high = mean_interval([1.0, 2.0, 4.0])
    assert mean == pytest.approx(7 / 3)
    assert low < mean < high
    assert mean_interval([2.5]) == (2.5, 2.5, 2.5)
    assert all(math.isnan(bound) for bound in mean_interval([]))
