"""Tables of the most positive and negative words."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from sightline.analysis import TokenFilter, attributions_by_position, attributions_by_type, attributions_over_dataset
from sightline.errors import InputError, OptionError
from sightline.metrics.statistics import RESAMPLES, resample_counts
from sightline.models import Target
from tests.sample_explanations import encoding, explanation


def explained(text, **scores):
    """An explanation whose words have these scores (a word of two tokens: half each), 0 for others."""
    document = encoding(text)
    values = np.zeros(len(document))
    for word, positions in zip(document.words, document.word_positions(), strict=True):
        values[positions] = scores.get(word.text, 0.0) / max(1, len(positions))
    return explanation(document, values)


def listed(rows):
    return [(row.text, row.score) for row in rows]


def test_by_position_ranks_every_word_where_it_is():
    table = attributions_by_position(explained("the river The miller", the=1.0, The=3.0, miller=-2.0, river=-0.5))
    assert listed(table.positive) == [("The", 3.0), ("the", 1.0)]
    assert listed(table.negative) == [("miller", -2.0), ("river", -0.5)]
    assert [row.position for row in table.positive] == [3, 1]


def test_by_type_puts_instances_together_whatever_their_case():
    explanation = explained("the river The river", the=1.0, The=3.0, river=-0.5)
    assert listed(attributions_by_type(explanation).positive) == [("the", 4.0)]
    assert listed(attributions_by_type(explanation, aggregate="mean").positive) == [("the", 2.0)]
    assert listed(attributions_by_type(explanation).negative) == [("river", -1.0)]
    assert attributions_by_type(explanation).negative[0].instances == 2
    with pytest.raises(OptionError, match="aggregate='max' is not known"):
        attributions_by_type(explanation, aggregate="max")


def test_sub_words_on_request():
    table = attributions_by_position(explained("miller", miller=1.0), level="token")
    assert listed(table.positive) == [("mill", 0.5), ("er", 0.5)]


def test_over_a_data_set_each_document_counts_once():
    first = explained("river river old", river=1.0, old=-1.0)
    second = explained("river world", river=4.0, world=9.0)
    table = attributions_over_dataset([first, second])
    assert listed(table.positive) == [("world", 9.0), ("river", 2.5)]  # mean of 1 and 4, not of 1, 1 and 4
    river = table.positive[1]
    assert (river.instances, river.documents) == (3, 2)
    assert listed(attributions_over_dataset([first, second], least_documents=2).positive) == [("river", 2.5)]


def test_over_all_documents_the_instances_of_a_word_are_summed():
    first = explained("river river old", river=1.0, old=-1.0)
    second = explained("river world", river=4.0, world=9.0)
    third = explained("old", old=-5.0)
    table = attributions_over_dataset([first, second, third], rule="mean-all")
    assert listed(table.positive) == [("world", 3.0), ("river", 2.0)]  # (1 + 1 + 4) / 3 for the river
    assert listed(table.negative) == [("old", -2.0)]
    frame = table.to_frame()
    assert frame.columns.tolist()[3:6] == ["score", "low", "high"]
    assert frame.columns[frame.isna().any()].tolist() == ["low", "high"]  # words in two documents have no interval


@pytest.mark.parametrize("rule", ["mean-all", "mean-present"])
def test_intervals_over_a_data_set_are_studentised_over_resampled_documents(rule):
    scores = np.random.default_rng(0).standard_normal(12) + 1.0
    documents = [explained("river river" if d % 3 else "old", river=float(s)) for d, s in enumerate(scores)]
    row = attributions_over_dataset(documents, rule=rule).positive[0]
    absent, instances = (np.nan, 1) if rule == "mean-present" else (0.0, 2)
    per_document = np.array([s * instances if d % 3 else absent for d, s in enumerate(scores)])

    def moments(values):
        known = values[~np.isnan(values)]
        return known.mean(), known.std(ddof=1) / np.sqrt(len(known))

    mean, error = moments(per_document)
    assert row.score == pytest.approx(mean)
    studentised = []
    for counts in np.concatenate(list(resample_counts(12, RESAMPLES, 0))):
        drawn = np.repeat(per_document, counts.astype(int))
        if len(set(drawn[~np.isnan(drawn)])) > 1:
            drawn_mean, drawn_error = moments(drawn)
            studentised.append((drawn_mean - mean) / drawn_error)
    tail = 0.025 * 8 / (8 + 12)  # eight documents hold the word
    low, high = np.quantile([*studentised, 0.0], [tail, 1 - tail])
    student = t.ppf(0.975, 7)
    assert row.low == pytest.approx(mean - max(high, student) * error)
    assert row.high == pytest.approx(mean - min(low, -student) * error)


def test_the_mean_over_all_documents_needs_one_target():
    one = explained("old", old=1.0)
    other = explanation(target=Target(0, "AI"))
    with pytest.raises(InputError, match="explained for AI, PL; explain all for one target"):
        attributions_over_dataset([one, other], rule="mean-all")
    with pytest.raises(OptionError, match="rule='median' is not known"):
        attributions_over_dataset([one], rule="median")


def test_dropped_words_are_not_ranked():
    explanation = explained("the river, old", the=9.0, river=1.0, old=-1.0, **{",": 5.0})
    table = attributions_by_position(explanation, filter=TokenFilter())
    assert listed(table.positive) == [("river", 1.0)]
    assert listed(table.negative) == [("old", -1.0)]


def test_fewer_words_than_requested_and_nothing_at_all_are_fine():
    assert len(attributions_by_position(explained("old", old=1.0), 50).positive) == 1
    empty = attributions_by_type(explained("the is", the=1.0), filter=TokenFilter())
    assert (empty.positive, empty.negative) == ((), ())
    assert empty.note == "Nothing is left to rank: the filter drops every word."
    assert attributions_by_position(explained("old")).note == "All scores are 0: there is nothing to rank."
    frame = empty.to_frame()
    assert (len(frame), frame.columns.tolist()) == (
        0,
        ["sign", "rank", "text", "score", "position", "instances", "documents"],
    )


def test_the_frame_lists_both_signs_without_gaps():
    frame = attributions_by_type(explained("river old world", river=1.0, old=-1.0, world=2.0)).to_frame()
    assert frame[["sign", "rank", "text"]].values.tolist() == [["+", 1, "world"], ["+", 2, "river"], ["-", 1, "old"]]
    assert not frame.isna().any(axis=None)


def test_what_cannot_be_averaged_is_refused():
    with pytest.raises(InputError, match="at least one explanation"):
        attributions_over_dataset([])
    other = explanation(method="rollout")
    with pytest.raises(InputError, match="several methods cannot be averaged: attcat, rollout"):
        attributions_over_dataset([explained("old", old=1.0), other])
    with pytest.raises(OptionError, match="k must be a whole number of at least 1, not 0"):
        attributions_by_position(other, 0)


@pytest.mark.parametrize("level", ["sentence", "paragraph"])
def test_a_filter_drops_a_sentence_only_if_none_of_its_words_is_left(level):
    gap = " " if level == "sentence" else "\n\n"
    explanation = explained(f"The river is old.{gap}And it was.{gap}Miller!", The=1.0, river=2.0, was=5.0, Miller=1.0)
    table = attributions_by_position(explanation, level=level, filter=TokenFilter())
    assert listed(table.positive) == [("The river is old.", 3.0), ("Miller!", 1.0)]
    assert TokenFilter().keep(explanation.encoding, level).tolist() == [True, False, True]
