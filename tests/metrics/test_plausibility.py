"""Plausibility against human rationales: set arithmetic, scikit-learn, and ERASER's counting written out."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, f1_score, precision_recall_curve

from sightline.errors import OptionError
from sightline.metrics import METRICS, SightlineWarning, auprc, iou_f1, spans_of, token_f1, top_tokens
from tests.metrics.test_retrieval import mean_over_ties

# Scores with ties, and a rationale with at least one token.
documents = st.integers(2, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-5, 5), min_size=n, max_size=n).map(lambda scores: np.array(scores, dtype=float)),
        st.lists(st.booleans(), min_size=n, max_size=n).filter(any).map(np.array),
    )
)


# Few enough tokens to go through every order.
short_documents = st.integers(2, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 2), min_size=n, max_size=n).map(lambda scores: np.array(scores, dtype=float)),
        st.lists(st.booleans(), min_size=n, max_size=n).filter(any).map(np.array),
    )
)


def untied(scores):
    """Scores of which no two are equal; the same order where they were not."""
    return scores + 0.01 * np.random.default_rng(0).permutation(len(scores))


@given(documents, st.integers(1, 45))
@settings(max_examples=80, deadline=None)
def test_token_f1_is_that_of_scikit_learn(document, k):
    scores, gold = untied(document[0]), document[1]
    assert token_f1(scores, spans_of(gold), k=k) == pytest.approx(f1_score(gold, top_tokens(scores, k)), abs=1e-12)


@given(documents)
@settings(max_examples=80, deadline=None)
def test_auprc_is_average_precision_and_its_linear_form_the_trapezoid_area(document):
    scores, gold = untied(document[0]), document[1]
    assert auprc(scores, spans_of(gold)) == pytest.approx(average_precision_score(gold, scores), abs=1e-12)
    precision, recall, _ = precision_recall_curve(gold, scores)
    assert auprc(scores, spans_of(gold), interpolation="linear") == pytest.approx(auc(recall, precision), abs=1e-12)


@pytest.mark.parametrize(
    ("metric", "options"),
    [(token_f1, {}), (token_f1, {"k": 2}), (auprc, {}), (auprc, {"interpolation": "linear"}), (iou_f1, {"k": 3})],
)
@given(document=short_documents)
@settings(max_examples=25, deadline=None)
def test_every_value_is_the_mean_over_all_orders_of_equal_scores(metric, options, document):
    scores, gold = document
    spans = spans_of(gold)

    def measure(order):
        ranks = np.empty(len(order))
        ranks[order] = -np.arange(len(order))
        return metric(ranks, spans, **options)

    assert metric(scores, spans, **options) == pytest.approx(mean_over_ties(scores, measure), abs=1e-12)


@pytest.mark.parametrize("metric", [token_f1, auprc, iou_f1])
def test_equal_scores_get_the_floor_wherever_the_rationale_is(metric):
    level = METRICS.get(metric.__name__).chance.level
    for start in (0, 20, 26):
        rationale = [[start, start + 4]]
        floor = level(np.arange(30.0), rationale)
        assert metric(np.ones(30), rationale) == floor
        assert floor == level(np.zeros(30), rationale) < 0.25


@pytest.mark.parametrize("metric", [token_f1, auprc])
def test_scores_without_information_get_the_floor_on_average(metric):
    """Documents of 30 tokens, 4 of them marked; every token scored 0 or 1 at random."""
    generator = np.random.default_rng(0)
    rationale = [[3, 5], [20, 22]]
    values = [metric(generator.integers(2, size=30).astype(float), rationale) for _ in range(3000)]
    floor = METRICS.get(metric.__name__).chance.level(np.zeros(30), rationale)
    assert np.mean(values) == pytest.approx(floor, abs=4 * np.std(values) / np.sqrt(len(values)))


def brute_force_iou_f1(scores, gold_spans, k, threshold=0.5):
    chosen = np.flatnonzero(top_tokens(scores, k))
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1)
    predicted_runs = [set(run.tolist()) for run in runs]
    gold = [set(range(start, end)) for start, end in gold_spans]
    hit_found = sum(any(len(f & g) / len(f | g) >= threshold for g in gold) for f in predicted_runs)
    hit_gold = sum(any(len(f & g) / len(f | g) >= threshold for f in predicted_runs) for g in gold)
    precision, recall = hit_found / len(predicted_runs), hit_gold / len(gold)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@given(documents, st.integers(1, 45), st.sampled_from([0.1, 0.5, 1.0]))
@settings(max_examples=80, deadline=None)
def test_iou_f1_counts_matching_spans(document, k, threshold):
    scores, gold = untied(document[0]), document[1]
    spans = spans_of(gold)
    expected = brute_force_iou_f1(scores, spans, k, threshold)
    assert iou_f1(scores, spans, k=k, threshold=threshold) == pytest.approx(expected, abs=1e-12)


def test_iou_f1_matches_each_of_several_overlapping_spans_by_itself():
    scores = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    # The chosen span [1, 4) shares 3 of 5 tokens with [0, 5), all of [1, 4), and 1 of 4 with [3, 5).
    assert iou_f1(scores, [[0, 5], [1, 4], [3, 5]], k=3) == pytest.approx(2 * 1 * (2 / 3) / (1 + 2 / 3))


def test_iou_f1_never_passes_one_when_two_halves_match_one_span():
    scores = np.array([1.0, 0.0, 1.0])
    assert iou_f1(scores, [[0, 2], [1, 3]], k=2) == 1.0
    assert iou_f1(np.array([1.0, 0.0, 1.0, 0.0]), [[0, 2]], k=2) == pytest.approx(2 / 3)


@pytest.mark.parametrize("metric", [token_f1, auprc, iou_f1])
def test_a_perfect_ranking_scores_one_and_the_reverse_little(metric):
    gold = np.array([0, 0, 1, 1, 0, 0, 1, 0, 0, 0], dtype=bool)
    assert metric(gold + 0.01 * np.arange(10), spans_of(gold)) == 1.0
    assert metric(-1.0 * gold, spans_of(gold)) < 0.5


@pytest.mark.parametrize("metric", [token_f1, auprc])
def test_tokens_outside_keep_are_neither_chosen_nor_requested(metric):
    generator = np.random.default_rng(0)
    scores, gold, keep = generator.random(50), generator.random(50) < 0.3, generator.random(50) < 0.7
    assert metric(scores, spans_of(gold), keep=keep) == metric(scores[keep], spans_of(gold[keep]))


def test_iou_f1_keeps_the_places_of_tokens_outside_keep():
    scores, keep = np.array([9.0, 1.0, 1.0, 0.0]), np.array([False, True, True, True])
    assert iou_f1(scores, [[1, 3]], keep=keep) == 1.0


def test_random_scores_have_an_auprc_near_the_share_of_the_rationale():
    generator = np.random.default_rng(0)
    gold = np.arange(2000) % 5 == 0
    values = [auprc(generator.random(2000), spans_of(gold)) for _ in range(20)]
    assert np.mean(values) == pytest.approx(0.2, abs=0.01)


def test_share_chooses_a_share_of_the_tokens():
    scores, rationale = np.arange(20.0), [[15, 20]]
    assert token_f1(scores, rationale, share=0.1) == token_f1(scores, rationale, k=2) == pytest.approx(4 / 7)


@pytest.mark.parametrize("metric", [token_f1, auprc, iou_f1])
def test_a_rationale_without_tokens_has_no_value_and_a_warning(metric):
    with pytest.warns(SightlineWarning, match="no value"):
        assert np.isnan(metric([1.0, 2.0], []))
    with pytest.warns(SightlineWarning, match="no value"):
        assert np.isnan(metric([1.0, 2.0], [[0, 1]], keep=[False, True]))


def test_options_that_contradict_or_do_not_exist_are_refused():
    with pytest.raises(OptionError, match="give one of them"):
        token_f1([1.0, 2.0], [[0, 1]], k=1, share=0.5)
    with pytest.raises(OptionError, match="interpolation"):
        auprc([1.0, 2.0], [[0, 1]], interpolation="cubic")
    with pytest.raises(OptionError, match="threshold"):
        iou_f1([1.0, 2.0], [[0, 1]], threshold=0.0)


@pytest.mark.parametrize("options", [{}, {"k": 2}, {"share": 0.5}, {"threshold": 0.3}])
def test_the_chance_level_of_iou_f1_is_the_mean_over_all_choices(options):
    n, rationale = 7, [[1, 3], [4, 5]]
    k = options.get("k", 3)  # three rationale tokens; half of seven tokens are three
    rest = {"threshold": options.get("threshold", 0.5)}
    values = []
    for chosen in combinations(range(n), k):
        scores = np.zeros(n)
        scores[list(chosen)] = 1.0
        values.append(iou_f1(scores, rationale, k=k, **rest))
    entry = METRICS.get("iou_f1")
    level = entry.chance.level(np.zeros(n), rationale, **{**entry.options, **options})
    assert level == pytest.approx(np.mean(values), abs=1e-12)


def test_the_chance_level_of_iou_f1_is_close_where_choices_are_too_many_to_go_through():
    """One rationale of 2 of 200 tokens: 19,900 choices, of which we know every value."""
    values = []
    for chosen in combinations(range(200), 2):
        runs = [set(chosen)] if chosen[1] == chosen[0] + 1 else [{chosen[0]}, {chosen[1]}]
        matched = sum(2 * len(run & {7, 8}) >= len(run | {7, 8}) for run in runs)
        values.append(2 * (matched / len(runs)) / (matched / len(runs) + 1) if matched else 0.0)
    level = METRICS.get("iou_f1").chance.level(np.zeros(200), [[7, 9]])
    assert level == pytest.approx(np.mean(values), abs=0.005)
