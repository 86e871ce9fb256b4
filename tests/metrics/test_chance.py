"""Chance levels: exact expectations, enumeration, determinism."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from sightline.errors import OptionError
from sightline.metrics import METRICS, SightlineWarning, chance_level, kendall, rbo, statistics
from sightline.metrics.chance import TokenScores
from sightline.metrics.score_inputs import without_conventions
from tests.sample_units import bare_units

pytestmark = pytest.mark.slow


@pytest.fixture
def pair():
    generator = np.random.default_rng(1)
    return generator.standard_normal(60), generator.standard_normal(60)


def test_chance_of_kendall_and_spearman_is_zero_with_the_known_spread(pair):
    n = 60
    for name, variance in (("kendall", (4 * n + 10) / (9 * n * (n - 1))), ("spearman", 1 / (n - 1))):
        level = chance_level(name, *pair, permutations=2000)
        deviation = variance**0.5
        assert level.mean == pytest.approx(0.0, abs=5 * deviation / 2000**0.5)
        assert level.low == pytest.approx(-1.96 * deviation, abs=0.2 * deviation)
        assert level.high == pytest.approx(1.96 * deviation, abs=0.2 * deviation)


def test_chance_of_average_overlap_is_about_one_half(pair):
    level = chance_level("average_overlap", *pair, permutations=2000)
    assert level.mean == pytest.approx(61 / 120, abs=0.005)


def test_chance_of_cosine_is_that_of_the_means(pair):
    a, b = np.abs(pair[0]), np.abs(pair[1])
    expected = 60 * a.mean() * b.mean() / (np.linalg.norm(a) * np.linalg.norm(b))
    assert chance_level("cosine", a, b, permutations=2000).mean == pytest.approx(expected, abs=0.01)


def test_chance_approaches_the_mean_over_all_permutations():
    a, b = np.array([3.0, 1.0, 2.0, 5.0, 1.0]), np.array([1.0, 0.0, 0.0, 4.0, 2.0])
    every = [rbo(a, np.array(order), p=0.7) for order in itertools.permutations(b)]
    level = chance_level("rbo", a, b, p=0.7, permutations=20000)
    assert level.mean == pytest.approx(np.mean(every), abs=0.005)
    assert level.low == pytest.approx(np.quantile(every, 0.025), abs=1e-9)


def test_a_metric_without_a_form_for_many_rows_has_the_same_level(pair, monkeypatch):
    by_rows = chance_level("rbo", *pair, permutations=50)
    slow = replace(METRICS.get("rbo"), rows=None)
    monkeypatch.setattr(METRICS, "get", lambda name: slow)
    in_a_loop = chance_level("rbo", *pair, permutations=50)
    assert (by_rows.mean, by_rows.low, by_rows.high) == pytest.approx((in_a_loop.mean, in_a_loop.low, in_a_loop.high))


def test_the_same_seed_gives_the_same_level_and_another_seed_another(pair):
    first, again = (chance_level("kendall", *pair, seed=4, permutations=40) for _ in range(2))
    assert first == again
    assert first != chance_level("kendall", *pair, seed=5, permutations=40)


def test_the_level_does_not_depend_on_the_size_of_the_blocks(pair, monkeypatch):
    whole = chance_level("average_overlap", *pair, permutations=50)
    monkeypatch.setattr(statistics, "BLOCK_ENTRIES", 7 * 60)
    assert chance_level("average_overlap", *pair, permutations=50) == whole


def test_unrelated_scores_lie_within_the_level_and_related_ones_above(pair):
    a, unrelated = pair
    related = a + 0.3 * unrelated
    assert kendall(a, unrelated) in chance_level("kendall", a, unrelated)
    assert kendall(a, related) > chance_level("kendall", a, related).high


def test_constant_scores_have_a_finite_level():
    level = chance_level("kendall", np.ones(5), np.arange(5.0), permutations=10)
    assert (level.mean, level.low, level.high) == (0.0, 0.0, 0.0)


def test_a_level_is_refused_for_other_kinds_of_metrics_and_impossible_numbers(pair):
    with pytest.raises(OptionError, match="dispersion"):
        chance_level("entropy", *pair)
    with pytest.raises(OptionError, match="permutations"):
        chance_level("kendall", *pair, permutations=0)
    with pytest.raises(OptionError, match="kendall"):
        chance_level("kendal", *pair)


def test_options_of_the_metric_are_those_of_the_level(pair):
    level = chance_level("average_overlap", *pair, depth=6, permutations=500)
    assert level.mean == pytest.approx(7 / 120, abs=0.01)


def words_of_many_tokens(seed=0, words=12):
    """Scores of tokens, and the word of each: words of one to four tokens, and a special at either end."""
    generator = np.random.default_rng(seed)
    word = np.repeat(np.arange(words), generator.integers(1, 5, size=words))
    word = np.concatenate([[-1], word, [-1]])
    return TokenScores(generator.exponential(size=word.size), bare_units(word))


def test_tokens_are_shuffled_among_the_kept_words_and_summed_again():
    tokens = words_of_many_tokens()
    kept = np.arange(12) % 3 > 0
    rows = tokens.shuffle(200, np.random.default_rng(0), kept)
    assert rows.shape == (200, 12)
    sums = np.array([tokens.scores[tokens.units.of_token == word].sum() for word in range(12)])
    np.testing.assert_allclose(tokens.sums(), sums)
    np.testing.assert_array_equal(rows[:, ~kept], np.tile(sums[~kept], (200, 1)))
    np.testing.assert_allclose(rows.sum(axis=1), sums.sum())
    # A word's expected sum is its number of tokens times the mean score of those that move.
    moving = np.isin(tokens.units.of_token, np.flatnonzero(kept))
    sizes = np.array([(tokens.units.of_token == word).sum() for word in range(12)])
    many = tokens.shuffle(20_000, np.random.default_rng(1), kept).mean(axis=0)
    np.testing.assert_allclose(many[kept], sizes[kept] * tokens.scores[moving].mean(), rtol=0.03)


def test_words_chosen_from_tokens_keep_their_sums():
    tokens = words_of_many_tokens()
    np.testing.assert_allclose(tokens.select([7, 2, 5]).sums(), tokens.sums()[[7, 2, 5]])
    with pytest.raises(ValueError, match="one per token"):
        TokenScores(np.ones(3), bare_units([0, 0])).sums()


@pytest.mark.parametrize("name", ["kendall", "spearman", "average_overlap", "cosine"])
def test_unrelated_sums_over_tokens_agree_no_better_than_chance(name):
    inside = {"tokens": 0, "words": 0}
    for seed in range(40):
        b = words_of_many_tokens(seed, words=150)
        a = b.units.fold(np.random.default_rng([seed, 1]).exponential(size=b.scores.size))
        value = METRICS.get(name)(a, b.sums())
        inside["tokens"] += value in chance_level(name, a, b.sums(), permutations=100, tokens=b)
        inside["words"] += value in chance_level(name, a, b.sums(), permutations=100)
    assert inside["tokens"] >= 33  # 38 are expected of 40
    assert inside["words"] < 5


def test_conventions_are_refused_in_the_thread_that_asks_and_in_no_other():
    inside, go_on = threading.Event(), threading.Event()

    def refuse():
        with without_conventions():
            inside.set()
            go_on.wait(30)
            return kendall(np.ones(3), np.arange(3.0))

    with ThreadPoolExecutor(1) as other:
        refused = other.submit(refuse)
        inside.wait(30)
        with pytest.warns(SightlineWarning, match="ranks nothing"):
            assert kendall(np.ones(3), np.arange(3.0)) == 0
        go_on.set()
        with pytest.raises(SightlineWarning, match="ranks nothing"):
            refused.result()
