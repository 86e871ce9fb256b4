"""The extremes of AOPC over all orders, against every permutation; and AOPC between them, on a model."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from sightline.api.load import load
from sightline.metrics import aopc, measure_faithfulness, normalized_aopc
from sightline.metrics.plans import EXACT, PARTS, TENTHS, extremes, unit_counts
from sightline.passes.perturb import removable_units
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece


class Game:
    """A fall for every set of removed units: random, or the sum of what single units add."""

    def __init__(self, seed, units=0, *, additive=False):
        self.generator = np.random.default_rng(seed)
        self.weights = self.generator.normal(size=units) if additive else None
        self.known: dict[tuple[int, ...], float] = {}

    def fall(self, chosen):
        key = tuple(sorted(chosen))
        if self.weights is not None:
            return float(self.weights[list(key)].sum())
        return self.known.setdefault(key, float(self.generator.normal()))

    def __call__(self, sets):
        return np.array([self.fall(chosen) for chosen in sets])

    def mean(self, order, ratios):
        return np.mean([self.fall(order[:count]) for count in unit_counts(ratios, len(order))])


@pytest.mark.parametrize("ratios", [TENTHS, (0.0, 0.5, 0.6), (1.0,)])
@pytest.mark.parametrize("units", [1, 2, 3, 5, 6])
def test_extremes_of_few_words_are_those_of_all_permutations(units, ratios):
    game = Game(units)
    bounds = extremes(game, units, ratios)
    means = [game.mean(order, ratios) for order in permutations(range(units))]
    assert bounds.exact
    np.testing.assert_allclose(bounds[:2], (min(means), max(means)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("units", [EXACT + 1, 20, PARTS])
def test_the_beam_finds_the_extremes_where_words_add_up(units):
    game = Game(units, units, additive=True)
    bounds = extremes(game, units, TENTHS)
    order = np.argsort(game.weights)
    assert not bounds.exact
    expected = [game.mean(chosen.tolist(), TENTHS) for chosen in (order, order[::-1])]
    np.testing.assert_allclose(bounds[:2], expected, rtol=0, atol=1e-12)


def test_the_beam_stays_between_the_extremes_of_all_orders():
    units, ratios = EXACT + 1, (0.0, 0.2, 0.4)
    game = Game(0)
    bounds = extremes(game, units, ratios)
    means = [game.mean(order + (0,) * (units - 4), ratios) for order in permutations(range(units), 4)]
    assert min(means) - 1e-12 <= bounds.low <= np.mean(means) <= bounds.high <= max(means) + 1e-12


def test_a_long_document_takes_a_bounded_number_of_runs():
    seen: list[int] = []
    game = Game(3, 4000, additive=True)

    def count(sets):
        seen.append(len(sets))
        return game(sets)

    extremes(count, 4000, TENTHS)
    assert sum(seen) < 300


def test_normalized_aopc_is_the_place_between_the_extremes():
    curve, original = [0.9, 0.5, 0.1], 0.9
    value = aopc(curve, original)
    assert normalized_aopc(curve, original, bounds=(value - 0.1, value + 0.3, True)) == pytest.approx(0.25, abs=1e-12)
    assert normalized_aopc(curve, original, bounds=(value, value, True)) == 0.5


def test_the_best_order_of_a_document_has_one_and_the_worst_zero():
    model = load(tiny_module(), tokenizer=wordpiece())
    explanation = model.explain(model.encode("hello old miller river"), "random")
    units = removable_units(explanation.encoding, explanation.target)
    values = {}
    for order in permutations(range(len(units))):
        scores = np.zeros(len(explanation.encoding))
        for rank, unit in enumerate(order):
            positions = units.tokens[unit]
            scores[positions] = (len(units) - rank) / len(positions)
        found = measure_faithfulness(
            model, replace(explanation, scores=scores), "aopc", random_orderings=0, reference_order=False
        )
        values[order] = found.value, scores
    low, high = min(value for value, _ in values.values()), max(value for value, _ in values.values())
    assert high > low
    for order in (min(values, key=lambda o: values[o][0]), max(values, key=lambda o: values[o][0]), (0, 1, 2, 3)):
        value, scores = values[order]
        found = measure_faithfulness(
            model, replace(explanation, scores=scores), "normalized_aopc", random_orderings=0, reference_order=False
        )
        assert found.value == pytest.approx((value - low) / (high - low), abs=1e-9)
        assert found.bounds is not None
        assert found.bounds.exact
