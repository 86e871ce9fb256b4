"""The agreement statistics against their definitions, written out pair by pair and prefix by prefix."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sightline.errors import InputError, OptionError
from sightline.metrics import (
    METRICS,
    SightlineWarning,
    average_overlap,
    cosine,
    jaccard,
    kendall,
    masked_pair,
    minmax_magnitude,
    rbo,
    spearman,
)
from sightline.metrics.agreement import SHORT, kendall_rows

STATISTICS = {
    "cosine": cosine,
    "normalised cosine": lambda a, b: cosine(a, b, form="normalised"),
    "thresholded cosine": lambda a, b: cosine(a, b, form="thresholded"),
    "kendall": kendall,
    "spearman": spearman,
    "rbo": lambda a, b: rbo(a, b, p=0.9),
    "average_overlap": average_overlap,
    "jaccard": jaccard,
}
RANK_STATISTICS = [name for name in STATISTICS if "cosine" not in name]
every_statistic = pytest.mark.parametrize("name", STATISTICS)

# Few distinct values, so that ties are the rule.
tied_pairs = st.integers(2, 25).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-4, 4), min_size=n, max_size=n).map(np.array)] * 2)
)


def brute_force_order(scores):
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))


def brute_force_tau_b(a, b):
    concordant = discordant = tied_a = tied_b = 0
    pairs = list(itertools.combinations(range(len(a)), 2))
    for i, j in pairs:
        product = np.sign(a[i] - a[j]) * np.sign(b[i] - b[j])
        concordant += product > 0
        discordant += product < 0
        tied_a += a[i] == a[j]
        tied_b += b[i] == b[j]
    return (concordant - discordant) / math.sqrt((len(pairs) - tied_a) * (len(pairs) - tied_b))


def brute_force_overlaps(a, b):
    first, second = brute_force_order(a), brute_force_order(b)
    return [len(set(first[:d]) & set(second[:d])) for d in range(1, len(a) + 1)]


def brute_force_rbo(a, b, p, k):
    overlaps = brute_force_overlaps(a, b)
    head = sum(p**d * overlaps[d - 1] / d for d in range(1, k + 1))
    return overlaps[k - 1] / k * p**k + (1 - p) / p * head


def brute_force_average_overlap(a, b, k):
    return sum(overlap / d for d, overlap in enumerate(brute_force_overlaps(a, b)[:k], start=1)) / k


@pytest.fixture(params=[2, 3, 7, 40, 201])
def pair(request):
    generator = np.random.default_rng(request.param)
    a = generator.standard_normal(request.param)
    return a, 0.5 * a + generator.standard_normal(request.param)


def test_cosine_is_the_normalised_dot_product(pair):
    a, b = pair
    expected = math.fsum(a * b) / math.sqrt(math.fsum(a * a) * math.fsum(b * b))
    assert cosine(a, b) == pytest.approx(expected, abs=1e-13)


def test_normalised_cosine_compares_magnitudes_mapped_onto_the_unit_interval():
    a, b = np.array([-3.0, 1.0, 2.0]), np.array([0.5, 2.5, -1.5])
    assert cosine(a, b, form="normalised") == pytest.approx(cosine([1.0, 0.0, 0.5], [0.0, 1.0, 0.5]), abs=1e-15)


def test_thresholded_cosine_keeps_only_what_is_above_the_quantile():
    a, b = np.arange(20.0), np.roll(np.arange(20.0), 1)
    # Above the 0.85 quantile of 0..19 are 17, 18, 19; b has them one place later, and 19 at the front.
    kept = np.array([17.0, 18.0, 19.0]) / 19
    expected = (kept[1] * kept[0] + kept[2] * kept[1]) / (kept @ kept)
    assert cosine(a, b, form="thresholded", quantile=0.85) == pytest.approx(expected, abs=1e-14)


def test_thresholded_cosine_drops_what_is_equal_to_the_quantile():
    # The 0.75 quantile of 0..4 is 3 itself, so only the last token is left.
    assert cosine([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0, 1.0], form="thresholded", quantile=0.75) == 1.0


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_cosine_does_not_depend_on_scale_even_where_squares_leave_the_range_of_floats(scale):
    a, b = np.array([3.0, 4.0]), np.array([4.0, 3.0])
    assert cosine(a * scale, b) == pytest.approx(0.96, abs=1e-14)


def test_kendall_counts_pairs(pair):
    assert kendall(*pair) == pytest.approx(brute_force_tau_b(*pair), abs=1e-12)


@given(tied_pairs)
@settings(max_examples=60, deadline=None)
def test_kendall_corrects_for_ties(pair):
    a, b = pair
    assume(len(set(a)) > 1 and len(set(b)) > 1)
    assert kendall(a, b) == pytest.approx(brute_force_tau_b(a, b), abs=1e-12)


@pytest.mark.parametrize("n", [2, SHORT, SHORT + 1])
def test_kendall_of_short_and_of_long_vectors_is_that_of_scipy(n):
    generator = np.random.default_rng(n)
    for values in (3, 1000):
        a, b = generator.integers(0, values, (2, n))
        a[:2], b[:2] = (0, 1), (1, 0)
        assert kendall(a, b) == pytest.approx(scipy.stats.kendalltau(a, b).statistic, abs=1e-13)


def test_kendall_of_many_short_rows_does_not_depend_on_their_number():
    rows = np.random.default_rng(0).integers(0, 9, (600, SHORT)).astype(float)
    alone = [kendall(rows[0], rows[i]) for i in (0, 1, 300, 599)]
    assert kendall_rows(rows[0], rows)[[0, 1, 300, 599]].tolist() == pytest.approx(alone, abs=1e-15)


@given(tied_pairs)
@settings(max_examples=60, deadline=None)
def test_spearman_is_that_of_scipy_with_ties(pair):
    a, b = pair
    assume(len(set(a)) > 1 and len(set(b)) > 1)
    assert spearman(a, b) == pytest.approx(scipy.stats.spearmanr(a, b).statistic, abs=1e-12)


def test_spearman_without_ties_follows_from_squared_rank_differences(pair):
    a, b = pair
    n = len(a)
    difference = np.argsort(brute_force_order(a)) - np.argsort(brute_force_order(b))
    assert spearman(a, b) == pytest.approx(1 - 6 * (difference @ difference) / (n * (n * n - 1)), abs=1e-12)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 0.98, 0.999])
def test_rbo_follows_its_definition_by_prefix_sets_at_every_depth(pair, p):
    n = len(pair[0])
    for depth in {1, 2, n // 2 + 1, n}:
        assert rbo(*pair, p=p, depth=depth) == pytest.approx(brute_force_rbo(*pair, p, depth), abs=1e-13)
    assert rbo(*pair, p=p) == rbo(*pair, p=p, depth=n)


@given(tied_pairs, st.floats(0.05, 0.95))
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore::sightline.metrics.SightlineWarning")
def test_rbo_and_average_overlap_rank_equal_scores_in_token_order(pair, p):
    n = len(pair[0])
    assert rbo(*pair, p=p) == pytest.approx(brute_force_rbo(*pair, p, n), abs=1e-13)
    assert average_overlap(*pair) == pytest.approx(brute_force_average_overlap(*pair, n), abs=1e-13)


def test_rbo_is_that_of_the_rbo_package(pair):
    rankings = pytest.importorskip("rbo").RankingSimilarity(*[brute_force_order(scores) for scores in pair])
    assert rbo(*pair, p=0.98) == pytest.approx(rankings.rbo_ext(p=0.98), abs=1e-13)
    assert average_overlap(*pair) == pytest.approx(rankings.rbo(p=1.0), abs=1e-13)


@pytest.mark.parametrize("p", [0.3, 0.9])
def test_rbo_of_a_long_document_is_exact_although_deep_ranks_are_not_sorted(p):
    generator = np.random.default_rng(0)
    a = np.round(generator.standard_normal(700), 1)
    b = a + np.round(generator.standard_normal(700), 1)
    assert rbo(a, b, p=p) == pytest.approx(brute_force_rbo(a, b, p, 700), abs=1e-15)


def test_average_overlap_follows_its_definition_at_every_depth(pair):
    for depth in range(1, min(len(pair[0]), 12) + 1):
        expected = brute_force_average_overlap(*pair, depth)
        assert average_overlap(*pair, depth=depth) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.29, 0.5, 1.0])
def test_jaccard_is_that_of_the_two_top_sets(share):
    generator = np.random.default_rng(3)
    a, b = generator.integers(0, 30, (2, 100)).astype(float)
    k = max(1, round(100 * share))
    first, second = set(brute_force_order(a)[:k]), set(brute_force_order(b)[:k])
    assert jaccard(a, b, share=share) == len(first & second) / len(first | second)


def test_jaccard_compares_at_least_one_token():
    assert jaccard([3.0, 1.0, 2.0], [3.0, 2.0, 1.0]) == 1.0
    assert jaccard([3.0, 1.0, 2.0], [1.0, 2.0, 3.0]) == 0.0


@every_statistic
@given(pair=tied_pairs)
@settings(max_examples=30, deadline=None)
@pytest.mark.filterwarnings("ignore::sightline.metrics.SightlineWarning")
def test_every_statistic_is_symmetric_finite_and_in_range(name, pair):
    a, b = pair
    value = STATISTICS[name](a, b)
    lowest = -1.0 if name in ("cosine", "kendall", "kendall, ties by index", "spearman") else 0.0
    assert lowest <= value <= 1.0
    assert STATISTICS[name](b, a) == pytest.approx(value, abs=1e-14)


@every_statistic
def test_every_statistic_is_one_for_a_vector_with_itself(name, pair):
    assert STATISTICS[name](pair[0], pair[0]) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("name", ["kendall", "spearman", "cosine"])
def test_correlations_are_minus_one_for_opposite_scores(name):
    centred = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    assert STATISTICS[name](centred, -centred) == pytest.approx(-1.0, abs=1e-15)


@pytest.mark.parametrize("name", RANK_STATISTICS)
@given(pair=tied_pairs)
@settings(max_examples=30, deadline=None)
@pytest.mark.filterwarnings("ignore::sightline.metrics.SightlineWarning")
def test_rank_statistics_do_not_change_under_monotone_maps(name, pair):
    a, b = pair
    assert STATISTICS[name](np.exp(a / 2.0), 7.0 * b - 3.0) == STATISTICS[name](a, b)


@every_statistic
@pytest.mark.parametrize(
    ("a", "b"),
    [([2.0], [5.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([0.0, 0.0], [0.0, 0.0])],
    ids=["one token", "one constant vector", "zero vectors"],
)
def test_vectors_that_rank_nothing_have_a_finite_result_and_a_warning(name, a, b):
    if name == "cosine" and any(a):
        assert 0.0 < cosine(a, b) <= 1.0  # a constant vector has a direction
        return
    with pytest.warns(SightlineWarning) as caught:
        value = STATISTICS[name](a, b)
    assert math.isfinite(value)
    assert caught[0].filename == __file__


def test_the_conventions_are_zero_for_correlations_and_token_order_for_overlaps():
    constant, rising = [1.0, 1.0, 1.0], [1.0, 2.0, 3.0]
    with pytest.warns(SightlineWarning, match="equal"):
        assert kendall(constant, rising) == spearman(constant, rising) == 0.0
    with pytest.warns(SightlineWarning, match="norm 0"):
        assert cosine([0.0, 0.0], [1.0, 2.0]) == 0.0
    with pytest.warns(SightlineWarning, match="order of the tokens"):
        assert average_overlap(constant, [3.0, 2.0, 1.0]) == 1.0


@every_statistic
@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([], [], "empty"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], "2 scores and b has 3"),
        ([1.0, float("nan")], [1.0, 2.0], r"a\[1\] is nan"),
        ([1.0, 2.0], [float("inf"), 2.0], r"b\[0\] is inf"),
        ([[1.0], [2.0]], [1.0, 2.0], "shape"),
    ],
)
def test_unusable_vectors_are_refused_in_a_sentence(name, a, b, message):
    with pytest.raises(InputError, match=message):
        STATISTICS[name](a, b)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5, float("nan")])
def test_rbo_refuses_p_outside_its_range(p):
    with pytest.raises(OptionError, match="average_overlap"):
        rbo([1.0, 2.0], [1.0, 2.0], p=p)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: average_overlap(a, a, depth=0),
        lambda a: rbo(a, a, p=0.9, depth=1.5),
        lambda a: jaccard(a, a, share=0.0),
        lambda a: cosine(a, a, form="other"),
        lambda a: cosine(a, a, form="thresholded", quantile=1.0),
        lambda a: masked_pair(a, a, [True, True], "other"),
    ],
)
def test_options_outside_their_range_are_refused(call):
    with pytest.raises(OptionError):
        call([1.0, 2.0])


def test_a_depth_beyond_the_document_means_the_whole_document():
    a, b = [1.0, 2.0, 3.0], [2.0, 1.0, 3.0]
    assert average_overlap(a, b, depth=10) == average_overlap(a, b)


@pytest.mark.parametrize("entry", [entry for entry in METRICS if entry.rows is not None], ids=lambda entry: entry.name)
def test_many_rows_at_once_are_each_row_alone(entry):
    generator = np.random.default_rng(0)
    a, rows = generator.integers(0, 6, 30).astype(float), generator.integers(0, 6, (9, 30)).astype(float)
    expected = [entry(a, row) for row in rows]
    np.testing.assert_allclose(entry.rows(a, rows, **entry.options), expected, rtol=0, atol=1e-15)


def test_dropping_removes_masked_tokens_and_zeroing_keeps_their_places():
    a, b, keep = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]), np.array([True, False, True])
    assert [vector.tolist() for vector in masked_pair(a, b, keep)] == [[1.0, 3.0], [4.0, 6.0]]
    assert [vector.tolist() for vector in masked_pair(a, b, keep, "zero")] == [[1.0, 0.0, 3.0], [4.0, 0.0, 6.0]]


@pytest.mark.parametrize("mode", ["drop", "zero"])
def test_a_filter_that_leaves_nothing_is_refused(mode):
    with pytest.raises(InputError, match="no token"):
        masked_pair([1.0, 2.0], [1.0, 2.0], [False, False], mode)


def test_a_mask_must_be_one_boolean_per_token():
    with pytest.raises(InputError, match="boolean per token"):
        masked_pair([1.0, 2.0], [1.0, 2.0], [1, 0])


def test_zero_masking_makes_unrelated_scores_agree_and_dropping_does_not():
    """The published artefact: tau ≈ .72 and average overlap ≈ .75 for random scores with half of the tokens masked.

    The published tau lies between the two exact treatments of the masked zeros, ties counted (2m / (1 + m) = .667)
    and ties in token order (1 - (1 - m)² = .75), because its sort was not stable.
    """
    generator = np.random.default_rng(0)
    n, documents = 1000, 20
    statistics = {"tau_b": [], "tau": [], "overlap": [], "dropped tau": [], "dropped overlap": []}
    for _ in range(documents):
        a, b = generator.random((2, n))
        keep = generator.permutation(n) < n // 2
        zeroed, dropped = masked_pair(a, b, keep, "zero"), masked_pair(a, b, keep)
        statistics["tau_b"].append(kendall(*zeroed))
        statistics["tau"].append(kendall(*(np.argsort(brute_force_order(scores)) for scores in zeroed)))
        statistics["overlap"].append(average_overlap(*zeroed))
        statistics["dropped tau"].append(kendall(*dropped))
        statistics["dropped overlap"].append(average_overlap(*dropped))
    means = {name: np.mean(values) for name, values in statistics.items()}
    assert means["tau_b"] == pytest.approx(2 / 3, abs=0.01)
    assert means["tau"] == pytest.approx(3 / 4, abs=0.01)
    assert means["tau_b"] < 0.72 < means["tau"]
    assert means["overlap"] == pytest.approx(0.75, abs=0.01)
    assert means["dropped tau"] == pytest.approx(0.0, abs=0.02)
    assert means["dropped overlap"] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_magnitudes_that_are_not_finite_are_refused(value):
    with pytest.raises(InputError, match="NaN or infinite"):
        minmax_magnitude(np.array([1.0, value, 3.0]))
