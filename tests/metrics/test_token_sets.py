"""Masks, spans and characters describe the same tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError, OptionError
from sightline.metrics import mask_of, spans_of, tokens_in_characters, top_tokens
from sightline.metrics.score_inputs import descending_order, top_order

masks = st.lists(st.booleans(), min_size=1, max_size=30).map(np.array)


@given(masks)
def test_spans_of_a_mask_give_the_mask_back(mask):
    spans = spans_of(mask)
    assert (mask_of(spans, len(mask)) == mask).all()
    assert all(start < end for start, end in spans)
    # Maximal: a false token lies between two spans.
    assert all(later > earlier for earlier, later in zip(spans[:-1, 1], spans[1:, 0], strict=True))


def test_overlapping_and_repeated_spans_mark_a_token_once():
    assert mask_of([[1, 4], [2, 5], [1, 4]], 6).tolist() == [False, True, True, True, True, False]


@pytest.mark.parametrize("span", [[-1, 2], [2, 2], [3, 1], [2, 9]])
def test_spans_outside_the_document_are_refused(span):
    with pytest.raises(InputError, match="does not fit a document of 5 tokens"):
        mask_of([[0, 1], span], 5)


@pytest.mark.parametrize("spans", [[1, 2], [[0.5, 2.0]], [[0, 1, 2]]])
def test_spans_of_another_form_are_refused(spans):
    with pytest.raises(InputError, match=r"shape \(s, 2\)"):
        mask_of(spans, 5)


def test_no_spans_mark_nothing():
    assert not mask_of([], 4).any()
    assert spans_of(np.zeros(4, dtype=bool)).shape == (0, 2)


def test_top_tokens_takes_ties_in_token_order_and_only_kept_tokens():
    scores = [1.0, 3.0, 3.0, 3.0, 2.0]
    assert top_tokens(scores, 2).tolist() == [False, True, True, False, False]
    keep = [True, False, True, True, True]
    assert top_tokens(scores, 3, keep).tolist() == [False, False, True, True, True]
    assert top_tokens(scores, 9, keep).tolist() == keep


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(1, 35))
def test_the_top_of_an_ordering_is_the_ordering_cut(scores, depth):
    vector = np.array(scores, dtype=float)
    expected = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    assert descending_order(vector).tolist() == expected
    assert top_order(vector, depth).tolist() == expected[:depth]


def test_top_tokens_refuses_nothing_to_choose_from_and_no_choice():
    with pytest.raises(InputError, match="every token is masked"):
        top_tokens([1.0, 2.0], 1, [False, False])
    with pytest.raises(OptionError, match="k must be"):
        top_tokens([1.0, 2.0], 0)


def test_tokens_in_characters_are_those_that_share_a_character():
    text = "The movie was terribly good"
    offsets = [(0, 0), (0, 3), (4, 9), (10, 13), (14, 20), (20, 22), (23, 27), (0, 0)]
    start = text.index("terribly")
    marked = tokens_in_characters(offsets, [(start, start + len("terribly")), (23, 24)])
    assert np.flatnonzero(marked).tolist() == [4, 5, 6]
    assert np.flatnonzero(tokens_in_characters(offsets, [(3, 4)])).tolist() == []


def test_a_token_without_characters_is_in_no_span():
    assert tokens_in_characters([(0, 0), (0, 5), (5, 5), (5, 9)], [(0, 9)]).tolist() == [False, True, False, True]


def test_tokens_in_characters_of_a_pair_belong_to_the_segment_requested():
    offsets, segments = [(0, 0), (0, 3), (0, 0), (0, 4), (0, 0)], [-1, 0, -1, 1, -1]
    assert np.flatnonzero(tokens_in_characters(offsets, [(0, 2)], segments=segments)).tolist() == [1]
    assert np.flatnonzero(tokens_in_characters(offsets, [(0, 2)], segments=segments, segment=1)).tolist() == [3]
