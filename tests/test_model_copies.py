"""A model can be pickled and copied, and a list of documents is predicted in bounded batches."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

from tests.tiny_models import tiny_ids, tiny_model


def explain(model, ids):
    return model.explain(model.encode(ids=ids), "attcat", 0).scores


@pytest.mark.parametrize("family", ["bert", "longformer", "big_bird", "deberta-v2", "gpt2"])
def test_a_pickled_or_copied_model_gives_the_same_scores(family):
    model = tiny_model(family)
    expected = explain(model, tiny_ids(family))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(explain(other, tiny_ids(family)), expected)
        assert other.provenance() == model.provenance()


@pytest.mark.slow
def test_a_model_explains_in_a_spawned_process():
    model = tiny_model()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        scores = pool.apply(explain, (model, tiny_ids()))
    np.testing.assert_array_equal(scores, explain(model, tiny_ids()))


def test_a_list_is_predicted_in_bounded_batches_as_single_documents_are(monkeypatch):
    model = tiny_model()
    encodings = [model.encode(ids=tiny_ids(n=3 + n % 40, seed=n)) for n in range(60)]
    sizes = []
    run = model.network.run
    monkeypatch.setattr(
        model.network, "run", lambda batch, **options: sizes.append(len(batch)) or run(batch, **options)
    )
    together = model.predict(encodings)
    assert len(sizes) > 1
    assert sum(sizes) == len(encodings)
    for encoding, prediction in zip(encodings, together, strict=True):
        np.testing.assert_allclose(prediction.logits, model.predict(encoding).logits, rtol=1e-9)
