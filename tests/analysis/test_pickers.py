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


def test_the_frame_tells_outcomes_and_confidence():
    frame = SAMPLE.to_frame().sort_values("probability", ascending=False, kind="stable")
    assert list(frame.columns) == ["index", "id", "label", "predicted", "probability", "correct"]
    assert frame["id"].tolist() == ["d5", "d3", "d0", "d2", "d1", "d4"]
    yes = frame["predicted"] == "yes"
    assert frame.loc[yes & (frame["correct"] == True), "index"].tolist() == [0]  # noqa: E712 (None without a label)
    assert frame.loc[yes & (frame["correct"] == False), "index"].tolist() == [3, 2]  # noqa: E712
    assert frame.loc[frame["label"].isna(), ["index", "correct"]].values.tolist() == [[5, None]]


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
