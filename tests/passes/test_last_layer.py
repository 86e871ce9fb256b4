"""A pass that needs only the readout rows of the last layer computes no others, and its results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tiny_models import tiny_ids, tiny_model


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "albert", "gpt2", "modernbert"])
def test_gradients_are_those_of_all_rows_of_the_last_layer(family):
    model = tiny_model(family)
    encodings = [model.encode(ids=tiny_ids(family, n)) for n in (12, 9)]
    whole = model.trace(encodings)
    whole[0].require("hidden_states", "gradients")
    for trace, alone in zip(whole, model.trace(encodings), strict=True):
        np.testing.assert_allclose(alone.embedding_gradient, trace.embedding_gradient, atol=1e-6)
        np.testing.assert_allclose(alone.logits, trace.logits, atol=1e-6)


def test_the_last_feed_forward_block_runs_on_one_row(monkeypatch):
    model = tiny_model()
    rows = []
    block = model.network.layers[-1].output.dense
    handle = block.register_forward_hook(lambda _module, args, _output: rows.append(args[0].shape[1]))
    encoding = model.encode(ids=tiny_ids(n=12))
    model.explain(encoding, "input_x_gradient")
    model.explain(encoding, methods=["input_x_gradient", "attcat"])
    handle.remove()
    assert rows == [1, 12]


def test_relevance_after_gradients_of_the_same_trace_is_that_of_its_own_pass():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids(n=12))
    trace = model.trace(encoding)
    model.explain(trace, "input_x_gradient")
    for method in ("attnlrp", "lrp", "integrated_gradients", "alti"):
        after = model.explain(trace, method).scores
        np.testing.assert_allclose(after, model.explain(encoding, method).scores, atol=1e-9)
