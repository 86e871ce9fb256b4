"""The prediction without the strongest sentences, against the same deletions made one document at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sightline as sl
from sightline.errors import InputError
from sightline.evaluation.planted_task import FIRST, NEUTRAL, SECOND
from sightline.evaluation.rule_model import rule_model
from sightline.metrics.check import TRIALS, passage_checks, passage_engine
from sightline.results.verdict import LARGEST_CHANCE
from sightline.text.units import units_of
from sightline.view.words.headline import headline
from sightline.view.words.sentences import further_sentences

KEY, OTHER_KEY = FIRST[0], SECOND[0]
PLAIN = [" ".join(NEUTRAL[start : start + 4]) for start in (0, 4, 8, 12)]
PARTS = [PLAIN[0], PLAIN[1], f"{NEUTRAL[1]} {KEY}", PLAIN[2], PLAIN[3], f"{KEY} {NEUTRAL[2]} {NEUTRAL[3]}"]
TEXT = "\n\n".join(PARTS)
"""Six passages; the third and the last hold the word that decides."""


@pytest.fixture(scope="module")
def model() -> sl.Model:
    return rule_model("any")


def explain(model: sl.Model, text: str, *strongest: int) -> sl.Explanation:
    """An explanation whose strongest sentences are these, in this order."""
    explanation = model.explain(text, "gradient")
    sentences = units_of(explanation.encoding, "sentence")
    scores = np.full(len(sentences), 0.1)
    for rank, sentence in enumerate(strongest):
        scores[sentence] = 10.0 - rank
    return replace(explanation, scores=sentences.spread(scores), signed=True, checks={}, removal=None, exchange=None)


def test_the_smallest_number_of_sentences_that_changes_the_prediction_is_found(model: sl.Model) -> None:
    explanation = explain(model, TEXT, 2, 5)
    checks = passage_checks(model.network, explanation)
    rest = "\n\n".join(part for number, part in enumerate(PARTS) if number not in (2, 5))
    expected = model.explain(rest, "random").prediction
    assert checks["passages_removed"] == 2
    assert checks["passages_label"] == expected.label != explanation.prediction.label
    assert checks["passages_probability"] == pytest.approx(expected.probability, abs=1e-6)
    assert checks["passages_share"] == pytest.approx(5 / 21)
    # The other four sentences have four words each; five words take two of them: six pairs.
    assert (checks["passages_random_changed"], checks["passages_trials"]) == (0, 6)


def test_one_of_two_sentences_is_not_enough(model: sl.Model) -> None:
    checks = passage_checks(model.network, explain(model, TEXT, 2, 0, 1))
    assert checks["passages_removed"] == 3
    assert checks["passages_label"] == explain(model, TEXT).prediction.label
    assert "passages_trials" not in checks


def test_draws_of_other_sentences_are_counted_where_they_change_the_prediction_too() -> None:
    """Both words are needed, in one passage each: removing either passage changes the answer."""
    model = rule_model("conjunction")
    parts = [f"{KEY} {PLAIN[0]} {PLAIN[1]}", f"{OTHER_KEY} {NEUTRAL[1]}", *PLAIN[1:]]
    checks = passage_checks(model.network, explain(model, "\n\n".join(parts), 0))
    lengths = np.array([len(part.split()) for part in parts])
    generator = np.random.default_rng(0)
    drawn = set()
    for _ in range(36):
        order = generator.permutation([1, 2, 3, 4])
        taken = next(count for count in range(1, 5) if lengths[order[:count]].sum() >= lengths[0])
        drawn.add(frozenset(order[: min(taken, 3)].tolist()))
    changed = sum(1 in sentences for sentences in drawn)
    assert 0 < changed < len(drawn) < 9
    assert (checks["passages_removed"], checks["passages_random_changed"]) == (1, changed)
    assert checks["passages_trials"] == len(drawn)


def test_a_long_document_has_nine_different_draws(model: sl.Model) -> None:
    parts = [f"{KEY} {NEUTRAL[0]} {NEUTRAL[1]}", *(" ".join(NEUTRAL[i : i + 3]) for i in range(20))]
    checks = passage_checks(model.network, explain(model, "\n\n".join(parts), 0))
    assert (checks["passages_removed"], checks["passages_random_changed"], checks["passages_trials"]) == (1, 0, 9)


def test_sentences_drawn_at_random_are_seldom_the_only_ones_that_change_the_prediction() -> None:
    """Whatever the share of draws that change it: of ten equal draws, each is the only one equally often."""
    generator = np.random.default_rng(0)
    for share in (0.02, 0.1, 0.5):
        changed = generator.random((20_000, 1 + TRIALS)) < share
        assert (changed[:, 0] & ~changed[:, 1:].any(axis=1)).mean() <= LARGEST_CHANCE


def test_numbers_of_sentences_are_tried_until_the_prediction_changes_and_explanations_share_them(
    model: sl.Model,
) -> None:
    explanation = explain(model, TEXT, 2, 5)
    engine = passage_engine(model.network, explanation)
    checks = passage_checks(model.network, explanation, engine=engine)
    assert checks["passages_removed"] == 2
    assert engine.calls_requested == 2 + checks["passages_trials"]
    made = engine.calls_made
    assert passage_checks(model.network, explain(model, TEXT, 2, 5, 1), engine=engine) == checks
    assert engine.calls_requested == 2 * (2 + checks["passages_trials"])
    assert engine.calls_made == made


def test_where_there_is_nothing_to_measure_no_entry_is_made(model: sl.Model) -> None:
    assert passage_checks(model.network, explain(model, "\n\n".join(PARTS[1:4]), 0)) == {}
    other = model.explain(TEXT, "gradient", target=0)
    assert passage_checks(model.network, other) == {}


def test_the_headline_says_what_the_model_would_say(model: sl.Model) -> None:
    explanation = explain(model, TEXT, 2, 5)
    checked = model.check(explanation, artefacts=False)
    label = checked.checks["passages_label"]
    assert (
        f"; without the two strongest sentences of the text (24 % of its words) it would say “{label}”; "
        in headline(checked)
    )
    (sentence, *_) = further_sentences(checked)
    assert sentence.startswith(
        f"Without the 2 strongest sentences of the text (24 % of the words) the model would say “{label}” ("
    )
    assert sentence.endswith(
        "without any of 6 random draws of other sentences with as many words it still says "
        f"“{checked.prediction.label}”."
    )
    any_cut = replace(checked, checks={**checked.checks, "passages_random_changed": 2})
    assert "strongest sentences" not in headline(any_cut)
    assert "but the prediction also changes in 2 of 6 random draws" in further_sentences(any_cut)[0]
    held = model.check(explain(model, TEXT, 2, 0, 1), artefacts=False)
    assert f"the model still says “{held.prediction.label}” (" in further_sentences(held)[0]
    assert "strongest sentences" not in headline(held)


@pytest.mark.parametrize(
    "damage", [{"passages_removed": 0}, {"passages_label": 3}, {"passages_trials": "x"}, {"passages_random_changed": 9}]
)
def test_damaged_entries_of_a_saved_file_are_refused(
    model: sl.Model, tmp_path: Path, damage: dict[str, object]
) -> None:
    path = tmp_path / "saved.json"
    model.check(explain(model, TEXT, 2, 5), artefacts=False).save(path)
    record = json.loads(path.read_text())
    record["checks"] |= damage
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=next(iter(damage))):
        sl.Explanation.load(path)


def test_new_scores_lose_the_entries(model: sl.Model) -> None:
    checked = model.check(explain(model, TEXT, 2, 5), artefacts=False)
    edited = replace(checked, scores=checked.scores * np.arange(len(checked.scores)))
    assert not any(name.startswith("passages") for name in edited.checks)
