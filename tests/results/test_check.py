"""Checks are stored whole, read back equal, and refused when damaged."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from sightline.results.check import Reading
from sightline.results.explanation import Explanation
from tests.sample_explanations import check_of, explanation, smallest_set_of, words_of


def checked():
    explained = explanation()
    flips = Reading(-0.5, "AI", 0.6, 0.4)
    facts = {"searched": 2, "path": ((1, Reading(1.5, "PL", 0.8, 0.8)), (2, flips)), "without_tested": flips}
    facts |= {"smallest_set": smallest_set_of(explained, 0, 1), "named": words_of(explained, 0)}
    return replace(explained, check=check_of(explained, 0, 1, opposing=words_of(explained, 2)[0], **facts))


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_a_check_is_read_back_as_it_was_saved(tmp_path, suffix):
    saved = checked()
    saved.save(tmp_path / f"explanation{suffix}")
    assert Explanation.load(tmp_path / f"explanation{suffix}").check == saved.check


def test_a_check_belongs_to_the_scores_it_was_made_for():
    saved = checked()
    assert replace(saved, scores=saved.scores + 1.0).check is None
    assert replace(explanation(), scores=np.arange(len(saved.scores)) / 7, check=saved.check).check is None


DAMAGE = {
    "matters": "perhaps",
    "p_value": 1.5,
    "counts": [0, 2],
    "without": [],
    "random": [[1.0, 2.0]],
    "path": [[1]],
    "whole": {"value": 1.0},
    "calls": -1,
    "named": [{"text": "a"}],
    "empty": {"value": float("inf"), "label": "AI", "label_probability": 0.5, "probability": 0.5},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_check_is_refused(name):
    record = json.loads(json.dumps(checked().to_dict()))
    record["check"][name] = DAMAGE[name]
    with pytest.raises(ValueError, match="check"):
        Explanation.from_record(record)


def test_a_tested_word_must_be_where_the_document_has_it():
    record = json.loads(json.dumps(checked().to_dict()))
    for change in ({"start": 90}, {"index": 1}, {"tokens": [0]}):
        damaged = copy.deepcopy(record)
        damaged["check"]["named"][0].update(change)
        with pytest.raises(ValueError, match="check.named"):
            Explanation.from_record(damaged)
