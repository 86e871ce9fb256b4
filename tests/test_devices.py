"""Everything runs on a device whose tensors do not mix with those of the CPU (`far_device`).

The tests run in a process of their own. At the first backward of a process torch counts the devices it will
differentiate on, so that one registered later fails there; and tests that follow should not meet a device they did not
ask for.
"""

from __future__ import annotations

import copy
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import torch

import sightline as sl
from sightline.api.load import load
from sightline.methods import METHODS
from sightline.models.inputs import find_global_tokens
from tests.contract.test_contract import QUICK
from tests.far_device import set_up
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

FAMILIES = ("bert", "longformer", "big_bird", "gpt2")
UNSTABLE = {"partial_lrp", "lrp"}
"""Methods that divide by sums near zero, so that the order of additions shows."""
STOPPED = {"decompx", "alti_logit"}
"""Methods during whose backward torch aborts on its private-use backend: they are not tested on another device."""
TEXTS = ["The river runs past the old mill.", "Hello, Miller! The mill is old.", "The old river."]


@pytest.fixture(scope="module")
def apart():
    """A function that runs another one in the process that has the device."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=begin) as pool:
        yield lambda function, *args: pool.submit(function, *args).result()


def begin():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    set_up()


def test_the_device_mixes_with_no_other_and_becomes_no_array(apart):
    apart(mix_devices)


def mix_devices():
    far = torch.arange(6.0).reshape(2, 3).to("far")
    assert far.device.type == "far"
    assert (far * 2).sum().item() == 30
    np.testing.assert_array_equal(far.cpu().numpy(), torch.arange(6.0).reshape(2, 3).numpy())
    with pytest.raises(RuntimeError, match="expected all tensors on the device far:0, found cpu"):
        far + torch.ones(3)
    for read in (far.numpy, lambda: np.asarray(far)):
        with pytest.raises(RuntimeError, match="not supported"):
            read()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_method_runs_on_another_device(family, dtype, apart):
    apart(run_every_method, family, dtype)


def run_every_method(family, dtype):
    near = tiny_model(family, dtype=dtype)
    far = copy.deepcopy(near).to("far")
    assert far.device.type == "far"
    ids = tiny_ids(family, 12)
    encodings = near.encode(ids=ids), far.encode(ids=ids)
    assert find_global_tokens(near.network, encodings[0]) == find_global_tokens(far.network, encodings[1])
    np.testing.assert_allclose(
        far.predict(encodings[1]).probabilities,
        near.predict(encodings[0]).probabilities,
        atol=1e-6 if dtype == torch.float32 else 0.02,
    )
    left_out = {*near.methods_not_offered, *STOPPED}
    for name in [name for name in METHODS.names() if name not in left_out]:
        options = QUICK.get(name, {})
        explanation = far.explain(encodings[1], name, **options)
        assert np.isfinite(explanation.scores).all(), name
        assert explanation.provenance["weights"] == near.network.weights_hash
        if dtype == torch.float32:
            expected = near.explain(encodings[0], name, **options).scores
            tolerance = (0.02 if name in UNSTABLE else 1e-4) * np.abs(expected).max()
            np.testing.assert_allclose(explanation.scores, expected, atol=tolerance, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_check_report_evaluation_and_a_corpus_run_on_another_device(family, dtype, tmp_path, apart):
    apart(check_report_evaluate_and_run, family, dtype, tmp_path)


def check_report_evaluate_and_run(family, dtype, tmp_path):
    tokenizer = wordpiece()
    model = load(tiny_module(family, dtype=dtype, vocab_size=max(128, len(tokenizer))), tokenizer=tokenizer).to("far")
    assert model.explain(TEXTS[0], "input_x_gradient", check=True, check_readings=40).verdict is not None
    report = model.report(TEXTS[1], ["attcat"], check=False)
    assert report.inside is not None
    assert "<html" in report.to_html()
    rows = [{"text": text, "label": number % 2} for number, text in enumerate(TEXTS)]
    evaluation = sl.evaluate(model, rows, methods=["attcat", "occlusion"], metrics=["comprehensiveness"])
    summary = evaluation.summary()
    assert summary["failed"].sum() == 0
    assert np.isfinite(summary["mean"]).all()
    store = sl.run(TEXTS, model, methods=["attcat"], out=tmp_path / "run")
    assert len(store.documents()) == len(TEXTS)
