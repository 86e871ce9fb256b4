"""Models with LoRA adapters that are not merged give what the merged model gives, in every method."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from transformers import Conv1D

import sightline as sl
from sightline.errors import UnsupportedError
from sightline.methods import METHODS
from tests.contract.test_contract import QUICK
from tests.tiny_models import tiny_ids, tiny_module

FAMILIES = ("bert", "distilbert", "gpt2", "llama", "longformer", "big_bird", "deberta-v2", "albert")


class LoraLinear(nn.Module):
    """A linear map with a LoRA adapter, built like the layer of PEFT."""

    def __init__(self, base: nn.Module, generator: torch.Generator) -> None:
        super().__init__()
        self.base_layer = base
        inputs, outputs = base.weight.shape if isinstance(base, Conv1D) else base.weight.T.shape
        self.lora_A = nn.ModuleDict({"default": nn.Linear(inputs, 2, bias=False, dtype=base.weight.dtype)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, outputs, bias=False, dtype=base.weight.dtype)})
        self.scaling = {"default": 0.5}
        self.active_adapters = ["default"]
        self.disable_adapters = False
        self.merged = False
        with torch.no_grad():
            for part in (self.lora_A, self.lora_B):
                weight = part["default"].weight
                weight.copy_(torch.randn(weight.shape, generator=generator))

    def forward(self, x):
        result = self.base_layer(x)
        if self.disable_adapters or self.merged:
            return result
        for name in self.active_adapters:
            result = result + self.lora_B[name](self.lora_A[name](x)) * self.scaling[name]
        return result

    def merge(self):
        change = self.scaling["default"] * self.lora_B["default"].weight @ self.lora_A["default"].weight
        with torch.no_grad():
            self.base_layer.weight += change.T if isinstance(self.base_layer, Conv1D) else change
        return self.base_layer


def adapted_and_merged(family, dtype=torch.float64):
    """Return a module whose linear maps in the layers have adapters, and the same module with these merged."""
    module = tiny_module(family, dtype=dtype)
    generator = torch.Generator().manual_seed(1)
    maps = [(path, part) for path, part in module.base_model.named_modules() if isinstance(part, nn.Linear | Conv1D)]
    for path, part in maps:
        parent, _, name = path.rpartition(".")
        setattr(module.base_model.get_submodule(parent), name, LoraLinear(part, generator))
    merged = copy.deepcopy(module)
    for path, _ in maps:
        parent, _, name = path.rpartition(".")
        holder = merged.base_model.get_submodule(parent)
        setattr(holder, name, getattr(holder, name).merge())
    return module, merged


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_method_gives_what_the_merged_model_gives(family):
    module, merged = adapted_and_merged(family)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    ours, expected = sl.load(module), sl.load(merged)
    ids = tiny_ids(family, 9)
    # Some families compute in single precision inside (rotary positions, Longformer's softmax).
    np.testing.assert_allclose(
        ours.predict(ours.encode(ids=ids)).logits, module(torch.tensor([ids])).logits[0].detach(), atol=1e-6
    )
    assert ours.methods_not_offered == expected.methods_not_offered
    for method in set(METHODS.names()) - set(ours.methods_not_offered):
        options = QUICK.get(method, {})
        scores, same = (
            one.explain(one.encode(ids=ids), method, target=1, **options).scores for one in (ours, expected)
        )
        np.testing.assert_allclose(scores, same, rtol=1e-6, atol=1e-9, err_msg=method)
    importance, same = (model.trace(model.encode(ids=ids)).head_importance for model in (ours, expected))
    np.testing.assert_allclose(importance, same, rtol=1e-6)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_disabled_and_merged_adapters_add_nothing():
    for switch in ("disable_adapters", "merged"):
        module, _ = adapted_and_merged("bert")
        for part in module.modules():
            if isinstance(part, LoraLinear):
                setattr(part, switch, True)
        model, ids = sl.load(module), tiny_ids(n=9)
        np.testing.assert_allclose(
            model.predict(model.encode(ids=ids)).logits, module(torch.tensor([ids])).logits[0].detach(), rtol=1e-10
        )


def test_a_training_step_of_the_adapter_is_followed():
    module, _ = adapted_and_merged("bert")
    model, ids = sl.load(module), tiny_ids(n=9)
    model.explain(model.encode(ids=ids), "alti")
    with torch.no_grad():
        module.bert.encoder.layer[1].attention.output.dense.lora_B["default"].weight.mul_(-1)
    fresh = sl.load(module)
    scores, expected = (one.explain(one.encode(ids=ids), "alti").scores for one in (model, fresh))
    np.testing.assert_allclose(scores, expected, rtol=1e-10)


def test_another_kind_of_adapter_is_refused():
    module, _ = adapted_and_merged("bert")
    wrapper = module.bert.encoder.layer[0].attention.output.dense
    wrapper.use_dora = {"default": True}
    with pytest.raises(
        UnsupportedError, match=r"attention\.output\.dense' .*LoraLinear around Linear.* merge it first"
    ):
        sl.load(module)
