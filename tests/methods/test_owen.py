"""Owen values against enumeration of all orderings, and what sampling promises."""

from __future__ import annotations

from itertools import combinations, permutations, product
from math import comb

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForTokenClassification

from sightline.api.load import load
from sightline.errors import OptionError
from sightline.methods.owen import (
    count_exact_coalitions,
    exact_owen_values,
    least_sampled_calls,
    sample_owen_values,
)
from sightline.text.hierarchy import ROOT, Hierarchy, HierarchyScores, build_hierarchy
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "Hello old world. The river!\n\nThe mill. Old river."
LONG_TEXT = "\n\n".join(f"{TEXT} {TEXT.lower()}" for _ in range(12))

FLAT = [0, 1, 2, 3, 4, 5]
TWO_LEVELS = [[0, 1, 2], [3], [4, 5]]
THREE_LEVELS = [[[0, 1], [2]], [[3, 4, 5]], [[6], [7, 8]]]
SHAPES = {"flat": FLAT, "two levels": TWO_LEVELS, "three levels": THREE_LEVELS}


def tree_of(shape) -> Hierarchy:
    """The hierarchy of a nested list of token positions."""
    tokens, children, parents = [[]], [[]], [-1]

    def add(entry, parent):
        node = len(tokens)
        tokens.append([])
        children.append([])
        parents.append(parent)
        children[parent].append(node)
        if isinstance(entry, int):
            tokens[node] = [entry]
        else:
            for part in entry:
                add(part, node)
            tokens[node] = sorted(t for child in children[node] for t in tokens[child])

    for entry in shape:
        add(entry, ROOT)
    tokens[ROOT] = sorted(t for child in children[ROOT] for t in tokens[child])
    levels = tuple("document" if parent < 0 else "word" for parent in parents)
    return Hierarchy(levels, tuple(map(np.array, tokens)), tuple(map(tuple, children)), tuple(parents))


def orderings(shape):
    """All orders of the tokens in which no part starts before another one is complete."""
    if isinstance(shape, int):
        yield [shape]
        return
    for order in permutations(shape):
        for parts in product(*(list(orderings(part)) for part in order)):
            yield [token for part in parts for token in part]


def game_of(tokens: int, seed: int = 0, interactions: int | None = None):
    """A random game; with `interactions`, a sum of terms of at most so many tokens. Also the coalitions evaluated."""
    generator = np.random.default_rng(seed)
    digits = 2 ** np.arange(tokens)
    coalitions = (np.arange(2**tokens)[:, None] & digits) > 0
    sizes = coalitions.sum(axis=1)
    terms = np.where(sizes <= (tokens if interactions is None else interactions), generator.normal(size=2**tokens), 0.0)
    contained = (np.arange(2**tokens)[:, None] & np.arange(2**tokens)) == np.arange(2**tokens)
    table = contained @ terms
    seen: set[int] = set()

    def value(masks):
        numbers = ~np.array(masks) @ digits
        seen.update(numbers.tolist())
        return table[numbers]

    return value, seen


def absent(tokens: int, present) -> np.ndarray:
    mask = np.ones(tokens, dtype=bool)
    mask[list(present)] = False
    return mask


def brute_force(shape, value) -> np.ndarray:
    count = sum(1 for _ in next(orderings(shape)))
    totals, number = np.zeros(count), 0
    for order in orderings(shape):
        steps = value([absent(count, order[:k]) for k in range(count + 1)])
        totals[order] += np.diff(steps)
        number += 1
    return totals / number


def leaf_values(tree: Hierarchy, values) -> np.ndarray:
    return tree.spread(values, len(tree.tokens[ROOT]))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_exact_values_average_all_orderings_that_keep_units_together(shape):
    tree = tree_of(shape)
    count = len(tree.tokens[ROOT])
    value, seen = game_of(count)
    result = exact_owen_values(tree, value)
    assert len(seen) <= count_exact_coalitions(tree, 10**6)
    np.testing.assert_allclose(leaf_values(tree, result.values), brute_force(shape, value), atol=1e-10)
    for node, children in enumerate(tree.children):
        if children:
            assert sum(result.values[child] for child in children) == pytest.approx(result.values[node], abs=1e-10)


def test_a_flat_hierarchy_gives_shapley_values():
    count = 10
    value, _ = game_of(count, interactions=4)
    result = exact_owen_values(tree_of(list(range(count))), value)
    shapley = np.zeros(count)
    for token in range(count):
        others = [other for other in range(count) if other != token]
        for size in range(count):
            groups = list(combinations(others, size))
            with_token = value([absent(count, (*group, token)) for group in groups])
            without = value([absent(count, group) for group in groups])
            shapley[token] += (with_token - without).sum() / (count * comb(count - 1, size))
    np.testing.assert_allclose(leaf_values(tree_of(list(range(count))), result.values), shapley, atol=1e-10)


def budgeted(value, seen, budget):
    """The game, and how many of its evaluations are left."""
    return value, lambda: budget - len(seen)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_sampled_values_are_exact_where_no_more_than_two_tokens_interact(shape):
    tree = tree_of(shape)
    value, remaining = budgeted(*game_of(len(tree.tokens[ROOT]), interactions=2), budget=100)
    sampled = sample_owen_values(tree, value, remaining, seed=3)
    exact = exact_owen_values(tree, value)
    np.testing.assert_allclose(leaf_values(tree, sampled.values), leaf_values(tree, exact.values), atol=1e-10)
    assert max(sampled.errors.values()) < 1e-10


@pytest.mark.parametrize("budget", [12, 20, 30, 60])
def test_sampled_values_add_up_at_every_level_within_the_budget(budget):
    tree = tree_of(THREE_LEVELS)
    evaluate, seen = game_of(9)
    value, remaining = budgeted(evaluate, seen, budget)
    result = sample_owen_values(tree, value, remaining, seed=1)
    assert least_sampled_calls(tree) <= len(seen) <= budget
    assert result.values[ROOT] == pytest.approx(result.ends[1] - result.ends[0])
    for node, children in enumerate(tree.children):
        measured = [child in result.values for child in children]
        assert all(measured) or not any(measured)
        if children and all(measured):
            assert sum(result.values[child] for child in children) == pytest.approx(result.values[node], abs=1e-10)


def test_sampled_values_approach_the_exact_ones_and_their_errors_say_how_closely():
    tree = tree_of(THREE_LEVELS)
    value, _ = game_of(9, interactions=4)
    exact = exact_owen_values(tree, value).values
    results = []
    for seed in range(200):
        evaluate, seen = game_of(9, interactions=4)
        results.append(sample_owen_values(tree, *budgeted(evaluate, seen, 60), seed=seed))
    for node in exact:
        draws = np.array([result.values[node] for result in results])
        spread = draws.std(ddof=1)
        assert abs(draws.mean() - exact[node]) <= 4 * spread / np.sqrt(len(draws)) + 1e-9
        stated = np.sqrt(np.mean([result.errors[node] ** 2 for result in results]))
        assert stated == pytest.approx(spread, rel=0.35, abs=1e-9)


def test_the_unit_with_the_largest_contribution_is_refined_first():
    tree = tree_of([[0, 1, 2], [3, 4, 5], [6, 7, 8]])

    def value(coalitions):
        return np.array([5.0 * ~mask[4] + 1.0 * ~mask[0] for mask in coalitions])

    calls = 2 + 4 * 2 + 4 * 2
    spent: set[bytes] = set()

    def counted(coalitions):
        spent.update(mask.tobytes() for mask in coalitions)
        return value(coalitions)

    result = sample_owen_values(tree, counted, lambda: calls - len(spent), seed=0)
    scores = tree.spread(result.values, 9)
    np.testing.assert_allclose(scores[3:6], [0, 5, 0], atol=1e-12)
    assert all(child in result.values for child in tree.children[tree.children[ROOT][1]])


# On a model -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


def test_a_short_document_gets_exact_values_of_the_model(model):
    encoding = model.encode(TEXT)
    explanation = model.explain(encoding, "owen", target=1, budget=2000)
    tree = build_hierarchy(encoding, "word")
    mask_id, module = model.tokenizer.mask_token_id, tiny_module()

    def value(coalitions):
        rows = []
        for mask in coalitions:
            ids = encoding.ids.copy()
            ids[: len(mask)][mask] = mask_id
            rows.append(ids)
        logits = module(torch.tensor(np.array(rows))).logits.detach()
        return torch.softmax(logits, -1)[:, 1].logit().numpy()

    def nest(node):
        return [nest(child) for child in tree.children[node]] or node

    totals, number = dict.fromkeys(range(len(tree)), 0.0), 0
    cache: dict[tuple[int, ...], float] = {}

    def cached(present):
        key = tuple(sorted(present))
        if key not in cache:
            mask = np.zeros(len(encoding), dtype=bool)
            mask[tree.tokens[ROOT]] = True
            for node in present:
                mask[tree.tokens[node]] = False
            cache[key] = float(value([mask])[0])
        return cache[key]

    for order in orderings(nest(ROOT)):
        for k, node in enumerate(order):
            totals[node] += cached(order[: k + 1]) - cached(order[:k])
        number += 1
    expected = np.zeros(len(encoding))
    for node in (node for node in range(len(tree)) if not tree.children[node]):
        expected[tree.tokens[node]] = totals[node] / number / len(tree.tokens[node])
    np.testing.assert_allclose(explanation.scores, expected, atol=1e-10)
    assert explanation.checks["exact"] is True
    assert explanation.checks["measured_share"] == 1
    assert explanation.checks["completeness_gap"] < 1e-6


def test_a_long_document_is_answered_within_the_budget(model):
    encoding = model.encode(LONG_TEXT)
    before = model.network.forward_passes
    explanation = model.explain(encoding, "owen")
    assert explanation.checks["model_calls"] <= 200
    assert model.network.forward_passes > before
    assert explanation.checks["exact"] is False
    assert explanation.checks["completeness_gap"] < 1e-6
    assert 0 < explanation.checks["measured_share"] <= 1
    measured = HierarchyScores.from_extras(explanation.extras)
    assert measured is not None
    for row in set(measured.unit_parent.tolist()) - {-1}:
        inside = measured.unit_score[measured.unit_parent == row].sum()
        assert inside == pytest.approx(measured.unit_score[row], abs=1e-9)
    np.testing.assert_array_equal(explanation.scores[encoding.special], 0)
    assert explanation.extras["standard_errors"].shape == explanation.scores.shape


def test_seeds_decide_the_orderings(model):
    first, again, other = (model.explain(LONG_TEXT, "owen", seed=seed, budget=100).scores for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


def test_classes_explained_together_share_the_calls_and_get_their_own_values(model):
    every = model.explain(TEXT, "owen", target="all", budget=2000)
    for target, explanation in enumerate(every.by_target().values()):
        single = model.explain(TEXT, "owen", target=target, budget=2000)
        np.testing.assert_allclose(explanation.scores, single.scores, atol=1e-12)


def test_a_budget_that_cannot_be_kept_is_refused(model):
    encoding = model.encode(LONG_TEXT, truncate=True)
    with pytest.raises(OptionError, match="need at least 14 model calls, the budget is 13"):
        model.explain(encoding, "owen", budget=13)
    assert model.explain(encoding, "owen", budget=14).checks["model_calls"] <= 14
    with pytest.raises(OptionError, match="branching must be a whole number of at least 2, not 1"):
        model.explain(encoding, "owen", branching=1)


def test_ids_without_words_are_units_as_well():
    model = tiny_model()
    explanation = model.explain(model.encode(ids=tiny_ids()), "owen")
    assert explanation.checks["completeness_gap"] < 1e-6


@pytest.mark.parametrize("auto", [AutoModelForTokenClassification, AutoModelForMaskedLM])
def test_the_token_that_the_head_reads_gets_its_shapley_value(auto):
    model = tiny_model(auto=auto)
    encoding = model.encode(ids=tiny_ids(n=7))  # one sentence, so that Owen values are Shapley values
    owen, shap = (model.explain(encoding, name, position=3, replacement="unk") for name in ("owen", "kernel_shap"))
    assert owen.checks["exact"]
    assert shap.checks["exact"]
    np.testing.assert_allclose(owen.scores, shap.scores, atol=1e-12)
    assert abs(owen.scores[3]) > 1e-6
