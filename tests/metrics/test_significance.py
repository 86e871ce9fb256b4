"""The test of level 2.5 %: plans that are alike, p-values against brute force, and its error on random orders."""

from __future__ import annotations

from itertools import permutations
from statistics import mean, stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sightline.metrics.significance import (
    COUNTS,
    FEW_SETS,
    LONG,
    ORDERS,
    SETS,
    WEIGHTS,
    count_orders,
    plan_test,
    run_rank_test,
    run_test,
    smallest_fall,
)
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

    own = without(plan.sets_of(order)).tolist()
    if plan.margin is None:
        return run_rank_test(plan, order, 0.0, own, without(plan.probes)), read
    return run_test(plan, 0.0, own, read_random), read


@given(words=st.integers(2, 400), seed=st.integers(0, 10))
@settings(max_examples=60, deadline=None)
def test_random_sets_are_as_large_and_have_as_many_stop_words_and_none_is_drawn_twice(words, seed):
    generator = np.random.default_rng(seed)
    order, fillers = generator.permutation(words), generator.random(words) < 0.4
    for plan in plan_test(order, fillers, generator.integers(1, 4, words)):
        largest = plan.counts[-1]
        assert (plan.margin is None) == (words < LONG)
        assert len(plan.random) <= (SETS if plan.margin is None else FEW_SETS)
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


@pytest.mark.parametrize("seed", range(6))
def test_the_p_value_of_a_short_text_is_its_rank_among_all_orders_of_its_kinds(seed):
    """Effects that add up are found exactly; the rank is that among all orders, but for the error of drawing them."""
    generator = np.random.default_rng(seed)
    values, order = generator.normal(size=7), generator.permutation(7)
    fillers, sizes = np.array([1, 0, 0, 0, 0, 1, 0], dtype=bool), np.array([1, 1, 2, 1, 3, 1, 1])
    (plan,) = plan_test(order, fillers, sizes)
    trial, read = run(plan, values, order)
    assert not read
    assert len(plan.random) <= SETS
    kinds = [(bool(fillers[word]), bool(sizes[word] > 1) and not fillers[word]) for word in range(7)]
    alike = [each for each in permutations(range(7)) if [kinds[w] for w in each] == [kinds[w] for w in order]]
    assert count_orders(plan, order) == len(alike) - 1 == 2 * 2 * 6 - 1
    sums = np.array([trial.direction * values[list(each)] @ np.arange(WEIGHTS, WEIGHTS - 7, -1) for each in alike])
    own = sums[alike.index(tuple(order.tolist()))]
    exact = float((sums >= own - 1e-9).mean())
    assert trial.p_value == pytest.approx(exact, abs=5 * (exact * (1 - exact) / ORDERS) ** 0.5 + 1 / (1 + ORDERS))


def test_words_that_say_the_same_have_an_effect_though_one_alone_has_none():
    """Two of twenty words decide, and either is enough."""
    order = np.arange(20)
    (plan,) = plan_test(order, np.zeros(20, dtype=bool), np.ones(20, dtype=int))

    def values(sets):
        return np.array([0.0 if {0, 1} - set(chosen) else -5.0 for chosen in (each.tolist() for each in sets)])

    own = values([order[:count] for count in plan.counts])
    trial = run_rank_test(plan, order, 0.0, own.tolist(), values(plan.probes))
    assert trial.p_value <= ALPHA


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


@pytest.mark.parametrize(("words", "least", "most"), [(12, 0.0, 0.0), (25, 0.0, 0.1), (60, 0.9, 1.0), (99, 1.0, 1.0)])
def test_one_word_that_decides_alone_is_shown_where_it_is_one_of_forty(words, least, most):
    """A random order puts it first with probability 1 / words, so no test of this level can do better."""
    values = np.eye(words)[0]
    hits = []
    for seed in range(40):
        order = np.append(0, 1 + np.random.default_rng(seed).permutation(words - 1))
        (plan,) = plan_test(order, np.zeros(words, dtype=bool), np.ones(words, dtype=int))
        hits.append(run(plan, values, order)[0].p_value <= ALPHA)
    assert least <= np.mean(hits) <= most


@pytest.mark.parametrize("readings", [8, 20, 45, 60, 100])
@pytest.mark.parametrize("words", [6, 30, 99, 300])
def test_a_plan_reads_no_more_than_it_may(words, readings):
    for plan in plan_test(np.arange(words), np.zeros(words, dtype=bool), np.ones(words, dtype=int), readings=readings):
        assert len(plan.random) >= 1
        assert 2 + len(plan.counts) * (1 + len(plan.random)) + len(plan.probes) <= readings
        assert not plan.probes or len(plan.probes) >= words
    assert plan_test(np.arange(30), np.zeros(30, dtype=bool), np.ones(30, dtype=int))[0].counts == COUNTS


@pytest.mark.parametrize("words", [12, 40, 300])
@pytest.mark.parametrize("kind", ["normal", "skewed", "one word decides"])
def test_random_orders_are_said_to_matter_no_more_often_than_the_level(words, kind):
    generator = np.random.default_rng(0)
    hits = []
    for _ in range(400):
        values = generator.normal(size=words) if kind == "normal" else generator.lognormal(0, 1, size=words)
        if kind == "one word decides":
            values = np.where(np.arange(words) == 0, 5.0, 1e-3 * generator.normal(size=words))
        sizes = generator.integers(1, 3, words)
        order = generator.permutation(words)
        if words < LONG:  # words of several tokens matter more, and come first
            values, order = values * sizes, order[np.argsort(-sizes[order], kind="stable")]
        plans = plan_test(order, np.zeros(words, dtype=bool), sizes)
        trials = [run(plan, values, order)[0] for plan in plans]
        best = min(trials, key=lambda trial: trial.p_value)
        hits.append(best.direction > 0 and len(plans) * best.p_value <= ALPHA)
    _, low, _ = share_interval(hits)
    assert low <= ALPHA
