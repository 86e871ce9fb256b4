"""Ranks of special tokens and punctuation, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from sightline.analysis import token_ranks
from tests.sample_explanations import encoding, explanation


def test_every_special_token_and_each_sign_has_its_own_rank():
    first, second = (explanation(encoding(text)) for text in ("Hello, old mill. The river, too.", "The mill is old."))
    frame = token_ranks([first, second]).set_index("token")
    assert frame.index.tolist() == ["[CLS]", "[SEP]", ",", "."]
    for token, instances in (("[CLS]", 2), ("[SEP]", 2), (",", 2), (".", 3)):
        means = []
        for document in (first, second):
            ranks = rankdata(np.abs(document.scores)) / len(document.scores)
            places = [i for i, name in enumerate(document.tokens) if name == token]
            if places:
                means.append(ranks[places].mean())
        assert frame.loc[token, "rank"] == pytest.approx(np.mean(means), abs=1e-12)
        assert frame.loc[token, "documents"] == len(means)
        assert frame.loc[token, "instances"] == instances
    n = len(first.scores)
    assert frame.loc[",", "chance"] == pytest.approx((n + 1) / (2 * n))
    assert frame[["low", "high"]].isna().to_numpy().all()  # two documents have no interval
    six = token_ranks([first, second] * 3).set_index("token")
    assert six.loc["[CLS]", "low"] < six.loc["[CLS]", "rank"] < six.loc["[CLS]", "high"]
    assert np.isnan(six.loc[",", "low"])  # only three of the six hold a comma


def test_other_tokens_can_be_requested_and_none_gives_an_empty_table():
    frame = token_ranks([explanation(encoding("The mill is old."))], ("mill", "giraffe"))
    assert frame["token"].tolist() == ["[CLS]", "[SEP]", "mill"]
    assert len(token_ranks([])) == 0
