"""Half precision: what a conversion costs is measured when the model is loaded; devices give the same numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import sightline as sl
from sightline.models import loading
from tests.tiny_models import tiny_ids, tiny_module

HALF = ("float16", "bfloat16")
GPU = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else None
GPU_METHODS = (
    *("attcat", "rollout", "alti", "integrated_gradients", "layer_conductance"),
    *("lrp", "partial_lrp", "transatt", "attnlrp", "occlusion", "owen"),
)
"""Of every kind that computes on tensors of its own. Apple's GPUs have no double precision: sums move to the CPU."""
needs_gpu = pytest.mark.skipif(GPU is None, reason="no GPU")


@pytest.fixture
def folder(tmp_path):
    tiny_module(dtype=torch.float32).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("dtype", HALF)
def test_the_error_of_a_half_type_is_measured_against_single_precision(folder, dtype):
    half, single = sl.load(folder, dtype=dtype), sl.load(folder)
    assert half.network.dtype == getattr(torch, dtype)
    size = single.network.config.vocab_size
    ids = np.random.default_rng(0).integers(size, size=min(loading.PROBE_TOKENS, single.max_tokens)).tolist()
    exact, rounded = (
        model.network.run([model.encode(ids=ids)])[0].double().detach().numpy() for model in (single, half)
    )
    expected = np.abs(rounded - exact).max() / np.abs(exact).max()
    assert half.network.rounding_error == pytest.approx(expected, rel=1e-9)
    assert 0 < half.network.rounding_error < loading.LARGEST_ERROR
    assert half.provenance()["rounding_error"] == f"{expected:.1e}"
    assert "rounding_error" not in single.provenance()


@pytest.mark.parametrize("dtype", HALF)
def test_a_copy_of_a_model_object_is_converted_and_measured_alike(dtype):
    module = tiny_module(dtype=torch.float32)
    model = sl.load(module, dtype=dtype)
    assert (module.dtype, model.network.dtype) == (torch.float32, getattr(torch, dtype))
    assert model.network.rounding_error is not None
    assert sl.load(model.network.module, dtype=dtype).network.rounding_error is None  # nothing to compare with


def test_a_large_error_is_warned_about(folder, monkeypatch):
    monkeypatch.setattr(loading, "LARGEST_ERROR", 0.0)
    with pytest.warns(UserWarning, match="In bfloat16 the logits of this model are off by"):
        sl.load(folder, dtype="bfloat16")


def test_a_model_in_half_precision_is_explained(folder):
    half, single = sl.load(folder, dtype="bfloat16"), sl.load(folder)
    ids = tiny_ids()
    for method in ("attcat", "rollout", "owen"):
        halved, expected = (model.explain(model.encode(ids=ids), method, target=1) for model in (half, single))
        assert np.isfinite(halved.scores).all()
        assert np.corrcoef(halved.scores, expected.scores)[0, 1] > 0.9


@needs_gpu
@pytest.mark.parametrize("family", ["bert", "longformer"])
@pytest.mark.parametrize("method", GPU_METHODS)
def test_a_gpu_gives_the_scores_of_the_processor(method, family):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = []
        for device in ("cpu", GPU):
            model = sl.load(tiny_module(family, dtype=torch.float32), device=device)
            scores.append(model.explain(model.encode(ids=tiny_ids(family)), method, target=1).scores)
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-3, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize("dtype", HALF)
def test_a_gpu_runs_half_precision(folder, dtype):
    model = sl.load(folder, device=GPU, dtype=dtype)
    assert np.isfinite(model.explain(model.encode(ids=tiny_ids()), "attcat").scores).all()
