"""Which documents to look at."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.analysis import predict
from sightline.analysis.dataset_inspection import Predictions
from sightline.api.load import load
from sightline.errors import InputError, TargetError, UnsupportedError
from sightline.text import Example
from tests.sample_explanations import encoding
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


ROWS = [("the old mill", 0), ("hello world", 1), ("a river of rivers and mills", 2), {"text": "old", "label": None}]


def made(labels, probabilities):
    """Predictions with chosen numbers."""
    values = np.array(probabilities, dtype=float)
    documents = tuple(encoding("old") for _ in labels)
    examples = tuple(Example(d, id=f"d{i}") for i, d in enumerate(documents))
    return Predictions(examples, documents, ("no", "yes", "maybe"), np.array(labels), values.argmax(axis=1), values)


SAMPLE = made(
    labels=[1, 1, 0, 2, 0, -1],
    probabilities=[[0.1, 0.8, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.05, 0.9, 0.05], [0.5, 0.2, 0.3], [0, 1, 0]],
)


def indices(picks):
    return [pick.index for pick in picks]


def test_outcomes_are_about_one_class_most_confident_first():
    assert indices(SAMPLE.true_positives("yes")) == [0]
    assert indices(SAMPLE.false_positives(1)) == [3, 2]
    assert indices(SAMPLE.true_negatives("YES")) == [4]
    assert indices(SAMPLE.false_negatives("yes")) == [1]
    assert indices(SAMPLE.false_positives("yes", 1)) == [3]
    assert indices(SAMPLE.true_positives("maybe")) == []


def test_documents_without_a_label_have_no_outcome_but_can_be_picked():
    everything = [
        pick.index
        for outcome in (SAMPLE.true_positives, SAMPLE.false_positives, SAMPLE.true_negatives, SAMPLE.false_negatives)
        for pick in outcome("yes")
    ]
    assert sorted(everything) == [0, 1, 2, 3, 4]
    assert SAMPLE.most_confident(1)[0].index == 5
    assert SAMPLE.most_confident(1)[0].label is None
    unlabelled = made([-1, -1], [[1, 0, 0], [0, 1, 0]])
    with pytest.raises(InputError, match="No document of the data set has a label"):
        unlabelled.true_positives("yes")


def test_confidence_orders_by_the_probability_of_the_predicted_class():
    assert indices(SAMPLE.most_confident(3)) == [5, 3, 0]
    assert indices(SAMPLE.least_confident(3)) == [4, 1, 2]


def test_random_picks_repeat_with_the_seed_and_are_never_twice_the_same_document():
    assert SAMPLE.random(4, seed=3) == SAMPLE.random(4, seed=3)
    assert sorted(indices(SAMPLE.random(100))) == list(range(6))
    assert {tuple(indices(SAMPLE.random(3, seed=seed))) for seed in range(10)} > {tuple(indices(SAMPLE.random(3)))}


def test_predictions_equal_those_of_single_documents(model):
    predictions = predict(model, ROWS)
    assert predictions.labels.tolist() == [0, 1, 2, -1]
    for number, row in enumerate(ROWS):
        text = row["text"] if isinstance(row, dict) else row[0]
        alone = model.trace(text).prediction
        assert predictions.predicted[number] == alone.index
        np.testing.assert_allclose(predictions.probabilities[number], alone.probabilities, atol=1e-9)
    frame = predictions.to_frame()
    assert frame["index"].tolist() == [0, 1, 2, 3]
    assert frame.correct.tolist()[:3] == (predictions.labels == predictions.predicted).tolist()[:3]
    assert frame.correct[3] is None


def test_bad_rows_are_named(model):
    with pytest.raises(InputError, match="Row 1 of the data set: "):
        predict(model, ["old", ""])
    with pytest.raises(TargetError, match="Row 0 of the data set: The label 'sunny' is not a class"):
        predict(model, [("old", "sunny")])
    with pytest.raises(InputError, match="The data set is empty"):
        predict(model, [])


def test_other_tasks_have_no_classes_of_documents():
    from transformers import AutoModelForMaskedLM

    other = load(tiny_module(auto=AutoModelForMaskedLM), tokenizer=wordpiece())
    with pytest.raises(UnsupportedError, match="this model does masked lm"):
        predict(other, ["old"])


def test_progress_is_told(model):
    told = []
    predict(model, ROWS, progress=lambda *step: told.append(step))
    assert told[-1] == ("predictions", 4, 4)
