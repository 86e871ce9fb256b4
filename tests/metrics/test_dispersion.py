"""Entropy, special tokens and anisotropy against their definitions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from sightline.errors import InputError
from sightline.metrics import (
    SightlineWarning,
    anisotropy,
    cosine,
    normalised_entropy,
    normalised_rank,
    special_rank,
    special_share,
)

scores_with_mass = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30).filter(lambda scores: any(scores))


@given(scores_with_mass)
def test_entropy_is_that_of_the_magnitudes_over_log_n(scores):
    expected = entropy(np.abs(scores) / np.max(np.abs(scores))) / math.log(len(scores))
    assert normalised_entropy(scores) == pytest.approx(expected, abs=1e-12)
    assert 0.0 <= normalised_entropy(scores) <= 1.0


def test_entropy_is_zero_on_one_token_one_when_even_and_ignores_sign_and_scale():
    assert normalised_entropy([0.0, 0.0, -3.0]) == 0.0
    assert normalised_entropy([2.0, -2.0, 2.0]) == pytest.approx(1.0, abs=1e-15)
    scores = np.array([1.0, -2.0, 0.5])
    for scale in (1e-300, -1.0, 1e308):
        assert normalised_entropy(scale / 4 * scores) == pytest.approx(normalised_entropy(scores), abs=1e-14)


def test_entropy_of_one_token_and_of_zeros_is_a_convention_with_a_warning():
    with pytest.warns(SightlineWarning, match="one token"):
        assert normalised_entropy([4.0]) == 0.0
    with pytest.warns(SightlineWarning, match="All scores are 0"):
        assert normalised_entropy([0.0, 0.0]) == 1.0


def test_special_share_is_the_share_of_magnitude():
    assert special_share([-3.0, 1.0, -1.0, 5.0], [True, False, False, True]) == 0.8
    assert special_share([1.0, 2.0], [False, False]) == 0.0
    with pytest.warns(SightlineWarning, match="no mass"):
        assert special_share([0.0, 0.0], [True, False]) == 0.0


def test_normalised_rank_runs_from_one_over_n_to_one_and_averages_ties():
    assert normalised_rank([0.3, 0.9, 0.5, 0.1]).tolist() == [0.5, 1.0, 0.75, 0.25]
    assert normalised_rank([2.0, 1.0, 2.0, 3.0]).tolist() == [0.625, 0.25, 0.625, 1.0]


def test_special_rank_is_the_mean_rank_by_magnitude():
    assert special_rank([-9.0, 1.0, 2.0, 3.0], [True, False, False, True]) == (1.0 + 0.75) / 2
    with pytest.warns(SightlineWarning, match="no special token"):
        assert special_rank([1.0, 2.0], [False, False]) == 0.0


def test_special_tokens_like_any_other_rank_in_the_middle():
    generator = np.random.default_rng(0)
    special = np.arange(50) < 5
    values = [special_rank(generator.standard_normal(50), special) for _ in range(400)]
    assert np.mean(values) == pytest.approx(51 / 100, abs=0.02)


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_anisotropy_is_the_mean_cosine_over_all_pairs(shift):
    rows = np.random.default_rng(0).standard_normal((12, 5)) + shift
    expected = np.mean([cosine(a, b) for a, b in itertools.combinations(rows, 2)])
    assert anisotropy(rows) == pytest.approx(expected, abs=1e-13)


def test_anisotropy_counts_a_zero_vector_as_no_similarity_with_a_warning():
    with pytest.warns(SightlineWarning, match="norm 0"):
        assert anisotropy([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]]) == pytest.approx(1 / 3)


def test_anisotropy_of_one_vector_warns_and_of_no_matrix_is_refused():
    with pytest.warns(SightlineWarning, match="one vector"):
        assert anisotropy([[1.0, 2.0]]) == 0.0
    with pytest.raises(InputError, match=r"\(n, d\)"):
        anisotropy([1.0, 2.0])
