"""The test of level 2.5 %: plans that are alike, p-values against brute force, and its error on random orders."""

from __future__ import annotations

from itertools import combinations
from statistics import mean, stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sightline.metrics.significance import COUNTS, FEW_SETS, LONG, ORDERS, plan_test, run_test, smallest_fall
from sightline.metrics.statistics import share_interval
from sightline.results.verdict import ALPHA


def run(plan, values, order):
    """The test on a model whose value falls by the sum of what each deleted word is worth; and the sets read."""
    read = []

    def without(sets):
        return np.array([-values[list(chosen)].sum() for chosen in sets])

    def read_random(orders):
        read.extend(orders)
        return np.stack([without(plan.sets_of(order)) for order in orders])

    return run_test(plan, 0.0, without(plan.sets_of(order)).tolist(), read_random), read


@given(words=st.integers(2, 400), seed=st.integers(0, 10), comparisons=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_random_sets_are_as_large_and_have_as_many_stop_words_and_none_is_drawn_twice(words, seed, comparisons):
    generator = np.random.default_rng(seed)
    order, fillers = generator.permutation(words), generator.random(words) < 0.4
    for plan in plan_test(order, fillers, generator.integers(1, 4, words), comparisons=comparisons):
        largest = plan.counts[-1]
        assert (plan.margin is None) == (words < LONG)
        assert len(plan.random) <= ((ORDERS + 1) * comparisons - 1 if plan.margin is None else FEW_SETS)
        signatures = {tuple(frozenset(chosen) for chosen in plan.sets_of(order))}
        for drawn in plan.random:
            assert len(set(drawn.tolist())) == largest
            assert fillers[drawn].sum() == fillers[order[:largest]].sum()
            if plan.margin is None:
                assert (fillers[drawn] == fillers[order[:largest]]).all()
            signatures.add(tuple(frozenset(chosen) for chosen in plan.sets_of(drawn)))
        assert len(signatures) == len(plan.random) + 1


def test_where_few_sets_exist_all_are_used():
    (plan,) = plan_test(np.arange(4), np.zeros(4, dtype=bool), np.ones(4, dtype=int))
    assert plan.counts == (1, 2)
    assert len(plan.random) == 4 * 3 - 1


def test_the_largest_set_of_a_long_text_is_one_twentieth_and_sets_have_about_as_many_tokens():
    sizes = np.where(np.arange(400) < 200, 1, 3)
    plan, few = plan_test(np.arange(400)[::-1], np.zeros(400, dtype=bool), sizes)
    assert (plan.counts, few.counts) == ((20,), (3,))
    assert all(abs(sizes[drawn].sum() - 60) <= 6 for drawn in plan.random)


def test_the_p_value_of_a_long_text_is_that_of_its_formula():
    generator = np.random.default_rng(1)
    values = generator.normal(size=300)
    order = np.argsort(-values)
    plan = plan_test(order, np.zeros(300, dtype=bool), np.ones(300, dtype=int))[0]
    trial, _ = run(plan, values, order)
    random = [float(values[drawn].sum()) for drawn in plan.random]
    fall = float(values[order[:15]].sum())
    t = (fall - mean(random)) / (stdev(random) * (1 + 1 / 14) ** 0.5)
    assert trial.p_value == pytest.approx(5 * stats.t.sf(t, 13))
    assert trial.fall == pytest.approx(fall)
    np.testing.assert_allclose(trial.random, random)
    least = smallest_fall(trial.random, 0.1)
    assert 5 * stats.t.sf((least - mean(random)) / (stdev(random) * (1 + 1 / 14) ** 0.5), 13) <= ALPHA + 1e-12
    assert least - max(random) >= 0.1 * (least - mean(random)) - 1e-12


def test_the_p_value_of_a_short_text_is_its_rank_among_all_orders_that_are_read():
    generator = np.random.default_rng(2)
    values = generator.normal(size=30)
    order = np.argsort(-values)
    (plan,) = plan_test(order, np.zeros(30, dtype=bool), np.ones(30, dtype=int))
    assert plan.counts == COUNTS
    trial, read = run(plan, values, order)
    assert (trial.p_value, len(read)) == (1 / 40, ORDERS)


def test_exact_ranks_are_those_of_every_choice_of_words():
    values = np.array([5.0, 1.0, 0.5, 0.2, 0.1])
    order = np.argsort(-values)
    (plan,) = plan_test(order, np.zeros(5, dtype=bool), np.ones(5, dtype=int))
    chains = {
        (frozenset(first), frozenset(second), frozenset(third))
        for first in combinations(range(5), 1)
        for second in combinations(range(5), 2)
        for third in combinations(range(5), 3)
        if set(first) < set(second) < set(third)
    }
    assert plan.counts == (1, 2, 3)
    # As many chains of sets as there are, or as many as the test needs.
    assert len(plan.random) == min(ORDERS, len(chains) - 1)
    assert run(plan, values, order)[0].p_value == 1 / (1 + len(plan.random))


def test_the_test_stops_at_the_first_set_that_does_as_much_and_tests_the_rise_of_a_rise():
    values = np.zeros(200)
    order = np.arange(200)
    plan = plan_test(order, np.zeros(200, dtype=bool), np.ones(200, dtype=int))[0]
    trial, read = run(plan, values, order)
    assert (trial.p_value, len(trial.random), len(read)) == (1.0, 1, 2)
    values[:10] = -1.0
    trial, _ = run(plan, values, order)
    assert trial.direction == -1
    assert trial.p_value <= ALPHA


@pytest.mark.parametrize(("words", "least"), [(30, 0.4), (36, 0.7), (40, 1.0), (60, 1.0), (99, 1.0)])
def test_one_word_that_decides_is_shown_where_it_is_one_of_forty(words, least):
    """No test of this level can do it more often than with probability ALPHA · words."""
    values = np.eye(words)[0]
    hits = []
    for seed in range(60):
        order = np.append(0, 1 + np.random.default_rng(seed).permutation(words - 1))
        (plan,) = plan_test(order, np.zeros(words, dtype=bool), np.ones(words, dtype=int))
        hits.append(run(plan, values, order)[0].p_value <= ALPHA)
    assert least <= np.mean(hits) <= min(1.0, ALPHA * words + 0.1)


def test_first_words_are_as_different_as_possible_and_alike_with_that_of_the_explanation():
    for words in (7, 30, 60):
        frequent = []
        for seed in range(200):
            order = np.random.default_rng(seed).permutation(words)
            (plan,) = plan_test(order, np.zeros(words, dtype=bool), np.ones(words, dtype=int))
            firsts = [int(drawn[0]) for drawn in plan.random]
            times = np.bincount([int(order[0]), *firsts], minlength=words)
            assert len(firsts) == ORDERS
            if words > 7:  # few orders of seven words: some are drawn twice, and replaced
                assert set(times.tolist()) <= {40 // words, 40 // words + 1}
            frequent.append(times[order[0]] > 40 // words)
        extra = (40 % words) * (40 // words + 1) / 40
        assert words == 7 or np.mean(frequent) == pytest.approx(extra, abs=0.12)


def test_a_test_of_several_explanations_reads_fewer_counts():
    ones = np.ones(40, dtype=int)
    for comparisons in (1, 2, 4, 8):
        (plan,) = plan_test(np.arange(40), np.zeros(40, dtype=bool), ones, comparisons=comparisons)
        assert len(plan.random) == 40 * comparisons - 1
        assert (len(plan.random) + 1) * len(plan.counts) <= 170 + 40 * comparisons


@pytest.mark.parametrize("words", [12, 40, 300])
@pytest.mark.parametrize("kind", ["normal", "skewed", "one word decides"])
def test_random_orders_are_said_to_matter_no_more_often_than_the_level(words, kind):
    generator = np.random.default_rng(0)
    hits = []
    for _ in range(400):
        values = generator.normal(size=words) if kind == "normal" else generator.lognormal(0, 1, size=words)
        if kind == "one word decides":
            values = np.where(np.arange(words) == 0, 5.0, 1e-3 * generator.normal(size=words))
        order = generator.permutation(words)
        plans = plan_test(order, np.zeros(words, dtype=bool), np.ones(words, dtype=int))
        trials = [run(plan, values, order)[0] for plan in plans]
        best = min(trials, key=lambda trial: trial.p_value)
        hits.append(best.direction > 0 and len(plans) * best.p_value <= ALPHA)
    _, low, _ = share_interval(hits)
    assert low <= ALPHA
