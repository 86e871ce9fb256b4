"""Planted words are a known truth: the model needs them, some methods find them, and chance does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightline.errors import OptionError
from sightline.evaluation.planted import Planted, PlantedResult, plant, planted_shortcuts
from sightline.evaluation.planted_model import predicted, train, word_tokenizer
from sightline.evaluation.planted_task import DISTRACTORS, FIRST, LABELS, NEUTRAL, SECOND, PlantedTask
from sightline.evaluation.sanity import label_permutation

METHODS = ["integrated_gradients", "gradient", "attnlrp", "occlusion", "random"]


@pytest.fixture(scope="module")
def setting() -> Planted:
    return plant(0, documents=30)


@pytest.fixture(scope="module")
def result(setting) -> PlantedResult:
    return planted_shortcuts(METHODS, setting=setting)


def test_documents_hold_the_planted_words_of_their_class_and_no_other():
    task = PlantedTask(shortest=9, longest=15, planted=3)
    for document in task.documents(300, np.random.default_rng(0)):
        words = document.text.split()
        assert 9 <= len(words) <= 15
        own = (FIRST, SECOND, ())[document.label]
        assert tuple(place for place, word in enumerate(words) if word in FIRST + SECOND) == document.planted
        assert all(words[place] in own for place in document.planted)
        assert len(document.planted) == (3 if own else 0)
        assert sum(word in DISTRACTORS for word in words) == 3


def test_nothing_but_the_planted_words_says_anything_about_the_label():
    documents = PlantedTask().documents(6000, np.random.default_rng(1))
    labels = np.array([document.label for document in documents])
    held = [frozenset(document.text.split()) for document in documents]
    for word in (*NEUTRAL, *DISTRACTORS):
        holds = np.array([word in words for words in held])
        shares = [holds[labels == label].mean() for label in range(len(LABELS))]
        # Each share has a standard error below 0.012: more than five of them apart would be a leak.
        assert max(shares) - min(shares) < 0.06, word


def test_planted_words_stand_anywhere():
    documents = PlantedTask(shortest=12, longest=12).documents(1200, np.random.default_rng(2), labels=2)
    counts = np.bincount([place for document in documents for place in document.planted], minlength=12)
    assert counts.min() > 60  # 100 expected, standard deviation 9.6


def test_the_vocabularies_do_not_overlap_and_every_word_is_a_token():
    words = [*NEUTRAL, *FIRST, *SECOND, *DISTRACTORS]
    assert len(set(words)) == len(words)
    tokenizer = word_tokenizer()
    ids = tokenizer(" ".join(words))["input_ids"]
    assert len(ids) == len(words) + 2
    assert tokenizer.unk_token_id not in ids


def test_the_model_learns_the_task_and_needs_the_planted_words(setting):
    assert setting.accuracy > 0.95
    assert setting.decisive > 0.95
    assert setting.model.labels == LABELS


def test_methods_that_follow_the_model_find_the_planted_words(result):
    precision = result.summary().set_index("method")["precision"]
    assert (precision[["integrated_gradients", "gradient", "attnlrp", "occlusion"]] > 0.8).all()
    assert result.summary().set_index("method").loc["integrated_gradients", "better_than_chance"]


def test_random_scores_are_at_chance(result):
    row = result.summary().set_index("method").loc["random"]
    assert row["low"] <= row["chance"] <= row["high"]
    assert not row["better_than_chance"]
    assert "no better than chance" in next(one for one in result.sentences() if one.startswith("random"))


def test_precision_is_the_share_of_planted_words_among_the_first(setting, result):
    frame = result.to_frame().set_index(["document", "method"])
    for number, document in enumerate(setting.documents[:10]):
        explanation = setting.model.explain(document.text, method="gradient")
        first = max(explanation.words(), key=lambda word: word.score)
        assert frame.loc[(number, "gradient"), "precision"] == float(first.index in document.planted)
        assert frame.loc[(number, "gradient"), "chance"] == 1 / len(document.text.split())


def test_the_same_seed_gives_the_same_model_and_the_caller_s_random_state_stays():
    documents = PlantedTask().documents(64, np.random.default_rng(0))
    labels = [document.label for document in documents]
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = train(documents, labels, steps=5, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert train(documents, labels, steps=5, seed=1).network.weights_hash == first.network.weights_hash
    assert train(documents, labels, steps=5, seed=2).network.weights_hash != first.network.weights_hash


def test_a_model_that_has_not_learnt_is_said():
    result = planted_shortcuts(["random"], documents=4, steps=2)
    assert result.planted.accuracy < 0.95
    assert "has NOT learnt the task" in result.sentences()[0]
    assert "no known truth here" in result.sentences()[1]


def test_a_model_trained_on_labels_in_random_order_knows_nothing_and_explains_otherwise(setting):
    quick = Planted(setting.model, setting.documents, setting.task, setting.seed, 40, 1.0, 1.0)
    permuted = quick.permuted_model
    texts = [document.text for document in setting.documents]
    right = np.equal(predicted(permuted, texts), [document.label for document in setting.documents])
    assert right.mean() < 0.8
    result = label_permutation(setting.model, texts[:10], ["integrated_gradients", "random"], compare_with=permuted)
    assert result.verdicts() == {"integrated_gradients": "changed", "random": "unchanged"}


def test_impossible_tasks_are_refused():
    with pytest.raises(OptionError, match="planted=0"):
        plant(planted=0)
    with pytest.raises(OptionError, match="the shortest needs at least 6 words"):
        plant(planted=2, shortest=5)
    with pytest.raises(OptionError, match="documents=0"):
        plant(documents=0)
    with pytest.raises(OptionError, match="Did you mean 'gradient'?"):
        planted_shortcuts(["gradeint"])
