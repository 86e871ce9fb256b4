"""What a finished result holds cannot be edited, neither in the result itself nor in copies of it."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

from sightline.methods import METHODS
from tests.sample_explanations import encoding, explanation, prediction
from tests.tiny_models import tiny_ids, tiny_model

COPIES = {
    "itself": lambda result: result,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda result: pickle.loads(pickle.dumps(result)),
}


def arrays_of(result):
    """Return all arrays of a result by name, those in dictionaries and in other results included."""
    found = {}
    for name, value in vars(result).items():
        if isinstance(value, np.ndarray):
            found[name] = value
        elif isinstance(value, dict):
            found |= {f"{name}.{key}": array for key, array in value.items() if isinstance(array, np.ndarray)}
        elif type(value).__module__.startswith("sightline."):
            found |= {f"{name}.{key}": array for key, array in arrays_of(value).items()}
    return found


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture(scope="module")
def checked(model):
    options = {"check": True, "check_readings": 12, "artefacts": False}
    return model.explain(model.encode(ids=tiny_ids(n=9)), "attcat", **options)


@pytest.mark.parametrize("how", COPIES)
def test_no_array_of_an_explanation_can_be_written(how, checked):
    arrays = arrays_of(COPIES[how](checked))
    assert {"scores", "layers", "encoding.ids", "encoding.offsets", "encoding.special"} <= set(arrays)
    assert {"prediction.logits", "prediction.probabilities"} <= set(arrays)
    for name, array in arrays.items():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        np.testing.assert_array_equal(array, arrays_of(checked)[name])


@pytest.mark.parametrize("how", COPIES)
def test_extras_and_results_by_hand_cannot_be_written_either(how):
    results = (explanation(extras={"weights": np.ones(3)}), encoding(), prediction())
    for result in (COPIES[how](result) for result in results):
        assert arrays_of(result)
        assert not any(array.flags.writeable for array in arrays_of(result).values())


def test_a_prediction_owns_its_arrays(model):
    trace = model.trace(model.encode(ids=tiny_ids()))
    assert not np.shares_memory(trace.prediction.logits, trace.logits)


TRACED = (
    *("logits", "probabilities", "readout", "received", "readout_rows", "gradient_received", "embeddings", "inputs"),
    *("hidden_states", "embedding_gradient", "input_gradients", "hidden_gradients", "head_importance"),
)


@pytest.mark.parametrize("name", TRACED)
def test_no_array_of_a_trace_can_be_written(name, model):
    trace = model.trace(model.encode(ids=tiny_ids()))
    trace.require("hidden_gradients", "attention_gradients", "head_importance")
    value = getattr(trace, name)
    for array in value if isinstance(value, tuple) else [value]:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("name", [entry.name for entry in METHODS])
def test_every_method_reads_arrays_that_cannot_be_written(name, model):
    if name in model.methods_not_offered:
        pytest.skip("not offered for this model")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not writable.*")
        model.explain(model.encode(ids=tiny_ids(n=6)), name)
