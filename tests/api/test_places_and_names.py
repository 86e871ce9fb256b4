"""Devices, lists of pairs, other names of methods, and `python -m sightline.cli`."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import sightline as sl
from sightline.errors import OptionError
from sightline.methods import METHODS
from tests.tiny_models import tiny_ids, tiny_module


def test_a_model_moves_and_the_object_it_came_from_stays():
    module = tiny_module("bert")
    model = sl.load(module)
    before = model.predict(model.encode(ids=tiny_ids())).logits
    assert model.to("meta") is model
    assert model.device.type == "meta"
    assert module.device == torch.device("cpu")
    again = sl.load(module).to("cpu")
    np.testing.assert_array_equal(again.predict(again.encode(ids=tiny_ids())).logits, before)
    with pytest.raises(OptionError, match="device 'nowhere'"):
        again.to("nowhere")
    with pytest.raises(OptionError, match="no device"):
        sl.load(lambda texts: [[0.5, 0.5]] * len(texts), labels=["a", "b"]).to("cpu")


def test_a_list_may_hold_pairs():
    model = sl.load()
    first, second = "The compiler learns.", "It guesses from programs."
    (paired, single) = model.predict([(first, second), first])
    assert paired.probability == pytest.approx(model.predict(model.encode(first, second)).probability, rel=1e-5)
    assert single.probability == pytest.approx(model.predict(first).probability, rel=1e-5)
    explained = model.explain([(first, second)], "input_x_gradient")[0]
    alone = model.explain(first, "input_x_gradient", pair=second)
    np.testing.assert_allclose(explained.scores, alone.scores, rtol=1e-4, atol=1e-6)
    assert explained.encoding.pair == second


@pytest.mark.parametrize(
    ("alias", "name"), [("ig", "integrated_gradients"), ("shap", "kernel_shap"), ("gradxinput", "input_x_gradient")]
)
def test_methods_are_found_by_the_names_of_other_libraries(alias, name):
    assert METHODS.get(alias) is METHODS.get(name)
    assert alias not in METHODS.names()


def test_an_explanation_carries_the_method_s_own_name():
    assert sl.load().explain("The compiler learns.", "gradxinput").method == "input_x_gradient"


@pytest.mark.slow
def test_the_command_line_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "sightline.cli", "--help"], capture_output=True, text=True, check=True)
    assert "explain" in done.stdout
