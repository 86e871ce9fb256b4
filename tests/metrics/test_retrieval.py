"""Precision, recall and count at k: set arithmetic, and all orders of equal scores."""

from itertools import chain, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import OptionError
from sightline.metrics import METRICS, SightlineWarning, count_at_k, precision_at_k, recall_at_k, spans_of

documents = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-3, 3), min_size=n, max_size=n).map(lambda scores: np.array(scores, dtype=float)),
        st.lists(st.booleans(), min_size=n, max_size=n).filter(any).map(np.array),
        st.integers(1, 35),
    )
)


def mean_over_ties(scores, measure):
    """The mean of measure(order) over all orders of the tokens by falling score."""
    groups = [np.flatnonzero(scores == score) for score in sorted(set(scores), reverse=True)]
    orders = product(*(permutations(group) for group in groups))
    return np.mean([measure(list(chain(*parts))) for parts in orders])


short_documents = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 2), min_size=n, max_size=n).map(lambda scores: np.array(scores, dtype=float)),
        st.lists(st.booleans(), min_size=n, max_size=n).filter(any).map(np.array),
        st.integers(1, 7),
    )
)


@given(short_documents)
@settings(max_examples=60, deadline=None)
def test_precision_recall_and_count_are_means_over_all_orders_of_equal_scores(document):
    scores, answer, k = document
    hits = mean_over_ties(scores, lambda order: answer[order[:k]].sum())
    spans = spans_of(answer)
    assert count_at_k(scores, spans, k=k) == pytest.approx(hits, abs=1e-12)
    assert precision_at_k(scores, spans, k=k) == pytest.approx(hits / min(k, len(scores)), abs=1e-12)
    assert recall_at_k(scores, spans, k=k) == pytest.approx(hits / answer.sum(), abs=1e-12)


@given(documents)
@settings(max_examples=80, deadline=None)
def test_without_equal_scores_they_are_those_of_the_two_sets(document):
    scores, answer, k = document
    scores = scores + 0.01 * np.arange(len(scores))
    first = set(sorted(range(len(scores)), key=lambda i: -scores[i])[:k])
    wanted = set(np.flatnonzero(answer).tolist())
    spans = spans_of(answer)
    assert count_at_k(scores, spans, k=k) == len(first & wanted)
    assert precision_at_k(scores, spans, k=k) == len(first & wanted) / min(k, len(scores))
    assert recall_at_k(scores, spans, k=k) == len(first & wanted) / len(wanted)


@pytest.mark.parametrize("name", ["precision_at_20", "recall_at_20", "count_at_20"])
def test_equal_scores_get_the_floor_wherever_the_answer_is(name):
    entry = METRICS.get(name)
    for start in (0, 70, 196):
        answer = [[start, start + 4]]
        floor = entry.chance.level(np.arange(200.0), answer, **entry.options)
        assert entry(np.ones(200), answer) == pytest.approx(floor, abs=1e-12)
    assert METRICS.get("precision_at_20")(np.ones(200), [[0, 4]]) == pytest.approx(0.02)


def test_kept_tokens_are_a_document_of_their_own():
    generator = np.random.default_rng(0)
    scores, answer, keep = generator.random(40), generator.random(40) < 0.2, generator.random(40) < 0.6
    for metric in (precision_at_k, recall_at_k, count_at_k):
        alone = metric(scores[keep], spans_of(answer[keep]), k=7)
        assert metric(scores, spans_of(answer), k=7, keep=keep) == alone


@pytest.mark.parametrize("metric", [precision_at_k, recall_at_k, count_at_k])
def test_an_answer_without_tokens_has_no_value_and_a_warning(metric):
    with pytest.warns(SightlineWarning, match="no value"):
        assert np.isnan(metric([1.0, 2.0, 3.0], [], k=2))
    with pytest.warns(SightlineWarning, match="no value"):
        assert np.isnan(metric([1.0, 2.0], [[0, 1]], k=1, keep=[False, True]))


def test_k_must_be_at_least_one():
    with pytest.raises(OptionError, match="at least 1"):
        precision_at_k([1.0, 2.0], [[0, 1]], k=0)


@pytest.mark.parametrize("name", ["precision_at", "recall_at", "count_at"])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_chance_is_the_mean_over_all_orders_of_the_tokens(name, k):
    entry = METRICS.get(f"{name}_{k}")
    answer = [[1, 3], [4, 5]]
    values = [entry(np.array(order, dtype=float), answer) for order in permutations(range(6))]
    assert entry.chance.level(np.zeros(6), answer, **entry.options) == pytest.approx(np.mean(values), abs=1e-12)


def test_the_name_of_a_metric_can_hold_its_k():
    entry = METRICS.get("precision_at_3")
    assert (entry.name, dict(entry.options)) == ("precision_at_3", {"k": 3})
    assert entry.summary == "Share of the 3 highest-scored tokens that lie in the answer."
    assert entry([3.0, 2.0, 1.0, 0.0], [[0, 1]]) == 1 / 3
    assert "count_at_20" in METRICS
    assert "precision_at_0" not in METRICS
    assert "aopc_at_3" not in METRICS
    with pytest.raises(OptionError, match="no metric called 'precision_at_0'"):
        METRICS.get("precision_at_0")
    assert METRICS.get("precision_at_k").options == {"k": 20}
