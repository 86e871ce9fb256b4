"""Words on which methods agree, beside chance."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sightline.analysis.consensus import find_consensus
from sightline.api.load import load
from sightline.errors import InputError, OptionError
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "hello old miller! the river mills; the world"


@pytest.fixture(scope="module")
def explanation():
    return load(tiny_module(), tokenizer=wordpiece()).explain(TEXT, "gradient")


def test_the_consensus_is_the_intersection_of_the_highest_words(explanation):
    generator = np.random.default_rng(0)
    others = [dataclasses.replace(explanation, scores=generator.random(len(explanation.scores))) for _ in range(2)]
    scored = [explanation, *others]
    agreed = find_consensus(scored, k=4)
    tops = [{w.index for w in sorted(exp.words(), key=lambda word: -word.score)[:4]} for exp in scored]
    assert {word.index for word in agreed.words} == set.intersection(*tops)
    assert [word.score for word in agreed.words] == sorted((word.score for word in agreed.words), reverse=True)
    record = agreed.to_dict()
    assert record["agreed"] == len(agreed.words)
    assert record["methods"] == ["gradient", *["gradient (edited)"] * 2]


def test_random_sets_agree_as_often_as_expected(explanation):
    generator = np.random.default_rng(1)
    first_tokens = [word.tokens[0] for word in explanation.words()]

    def draw():
        """One random score per word; random scores of all tokens would favour words of many tokens."""
        scores = np.zeros(len(explanation.scores))
        scores[first_tokens] = 1.0 + generator.random(len(first_tokens))
        return dataclasses.replace(explanation, scores=scores)

    sizes = [len(find_consensus([draw(), draw()], k=3).words) for _ in range(600)]
    assert np.mean(sizes) == pytest.approx(find_consensus([draw(), draw()], k=3).expected, rel=0.1)


def test_a_report_holds_the_consensus_of_its_methods():
    model = load(tiny_module(), tokenizer=wordpiece())
    report = model.report(TEXT, ["gradient", "attcat"], check=False, inside=False)
    record = report.to_dict()
    assert record["consensus"] == report.consensus.to_dict()
    assert record["headline"] == report.headline
    assert report.headline.startswith("The model says ")
    assert model.report(TEXT, ["gradient"], check=False, inside=False).consensus is None


def test_what_cannot_be_compared_is_refused(explanation):
    with pytest.raises(InputError, match="at least two methods"):
        find_consensus([explanation])
    with pytest.raises(OptionError, match="k=99"):
        find_consensus([explanation, explanation], k=99)
