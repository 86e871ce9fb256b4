"""What the caller has set in torch changes nothing, and several threads may use one trace."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from sightline.methods import METHODS
from tests.contract.test_contract import QUICK
from tests.tiny_models import tiny_ids, tiny_model


@contextmanager
def double_by_default():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


CONTEXTS = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "double by default": double_by_default,
}


def explain_all(model, document):
    methods = sorted(set(METHODS.names()) - set(model.methods_not_offered))
    return {name: model.explain(document, name, target=1, **QUICK.get(name, {})).scores for name in methods}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("family", ["bert", "longformer", "llama"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_no_context_of_the_caller_changes_a_result(context, family):
    model = tiny_model(family, dtype=torch.float32)
    document = model.encode(ids=tiny_ids(family, 9))
    expected, logits = explain_all(model, document), model.predict(document).logits
    default = torch.get_default_dtype()
    with CONTEXTS[context]():
        scores = explain_all(model, document)
        np.testing.assert_array_equal(model.predict(document).logits, logits)
        loaded = tiny_model(family, dtype=torch.float32)
        trace = model.trace(document)
        gradients = trace.embedding_gradient
    np.testing.assert_array_equal(gradients, model.trace(document).embedding_gradient)
    assert torch.get_default_dtype() == default
    for name, values in expected.items():
        np.testing.assert_array_equal(scores[name], values, err_msg=name)
    assert np.isfinite(loaded.explain(document, "gradient").scores).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_default_device_of_the_caller_holds_nothing():
    model = tiny_model("bert", dtype=torch.float32)
    document = model.encode(ids=tiny_ids("bert", 9))
    expected, logits = explain_all(model, document), model.predict(document).logits
    with torch.device("meta"):
        scores = explain_all(model, document)
        np.testing.assert_array_equal(model.predict(document).logits, logits)
    for name, values in expected.items():
        np.testing.assert_array_equal(scores[name], values, err_msg=name)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_threads_may_share_a_trace():
    model = tiny_model("bert")
    document = model.encode(ids=tiny_ids("bert", 30))
    methods = ["gradient", "attcat", "rollout", "alti", "lrp", "transatt"] * 4
    expected = {name: model.explain(document, name).scores for name in methods}
    for _ in range(5):
        trace = model.trace(document)
        with ThreadPoolExecutor(8) as pool:
            explained = list(pool.map(lambda name, trace=trace: model.explain(trace, name), methods))
            gradients = list(pool.map(lambda _, trace=trace: trace.embedding_gradient, range(8)))
        for name, explanation in zip(methods, explained, strict=True):
            np.testing.assert_allclose(explanation.scores, expected[name], rtol=1e-9, atol=1e-12)
        assert all(np.array_equal(gradient, gradients[0]) for gradient in gradients)
