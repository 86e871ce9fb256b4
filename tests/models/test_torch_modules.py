"""A torch module of any make is a model: what it returns is explained, and it is not changed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import sightline as sl
from sightline.errors import ModelError, OptionError, UnsupportedError
from tests.tiny_models import tiny_ids, tiny_module

LABELS = ["no", "yes"]


def draw(module):
    """Give a module weights that do not depend on what ran before."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))


class Bag(nn.Module):
    """The mean of word vectors under a linear map; `form` says how the logits are returned."""

    def __init__(self, form="tensor", tables=1, size=60):
        super().__init__()
        self.words = nn.Embedding(size, 6, padding_idx=0)
        self.more = nn.ModuleList(nn.Embedding(3, 6) for _ in range(tables - 1))
        self.out = nn.Linear(6, 1 if form == "one" else 2)
        self.form = form
        draw(self)

    def forward(self, ids):
        logits = self.out(torch.tanh(self.words(ids)).mean(dim=1))
        forms = {
            "tuple": lambda: (logits, ids),
            "logits": lambda: SimpleNamespace(logits=logits),
            "dictionary": lambda: {"loss": None, "logits": logits},
            "one": lambda: logits[:, 0],
            "wrong": lambda: logits.sum(),
        }
        return forms.get(self.form, lambda: logits)()


class Headed(nn.Module):
    """An encoder of transformers under a home-made head: the mean of all tokens."""

    def __init__(self, family):
        super().__init__()
        self.encoder = tiny_module(family, dtype=torch.float64).base_model
        self.head = nn.Linear(self.encoder.config.hidden_size, 2).double()
        draw(self.head)

    def forward(self, input_ids, attention_mask=None):
        hidden = self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state
        return self.head(torch.tanh(hidden).mean(dim=1))


@pytest.mark.parametrize("form", ["tensor", "tuple", "logits", "dictionary", "one"])
def test_logits_are_read_in_every_form(form):
    module = Bag(form).double().eval()
    model = load_quietly(module)
    ids = [5, 9, 7, 30]
    with torch.no_grad():
        plain = Bag(form).double()
        plain.load_state_dict(module.state_dict())
        plain.form = "tensor"
        expected = plain(torch.tensor([ids]))[0]
    expected = torch.stack([torch.zeros_like(expected[0]), expected[0]]) if form == "one" else expected
    np.testing.assert_allclose(model.predict(model.encode(ids=ids)).logits, expected, rtol=1e-12)


def load_quietly(module, **options):
    with pytest.warns(UserWarning, match="only the embeddings and logits"):
        return sl.load(module, labels=LABELS, **options)


def test_gradients_and_black_boxes_explain_a_module_without_known_layers():
    module = Bag().double()
    model = load_quietly(module)
    encoding = model.encode(ids=[5, 9, 7, 30])
    integrated = model.explain(encoding, "integrated_gradients", target="yes", quantity="logit")
    assert integrated.checks["completeness_gap"] < 1e-3
    table = module.words.weight.detach().clone()[[5, 9, 7, 30]].requires_grad_()
    module.out(torch.tanh(table).mean(dim=0))[1].backward()
    expected = (table * table.grad).sum(dim=1).detach()
    by_gradient = model.explain(encoding, "input_x_gradient", target="yes", quantity="logit")
    np.testing.assert_allclose(by_gradient.scores, expected, rtol=1e-9)
    for method in ("gradient_shap", "occlusion", "owen", "lime", "kernel_shap"):
        assert np.isfinite(model.explain(encoding, method).scores).all()
    assert "rollout" in model.methods_not_offered


@pytest.mark.parametrize("family", ["bert", "roberta", "longformer", "gpt2"])
def test_an_encoder_of_a_known_family_under_a_home_made_head_gets_everything(family):
    module = Headed(family).eval()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    ids = tiny_ids(family, 9)
    with torch.no_grad():
        expected = module(torch.tensor([ids]))[0]
    model = sl.load(module, labels=LABELS)
    encoding = model.encode(ids=ids)
    precision = 1e-6 if family == "longformer" else 1e-9  # the library's softmax is in single precision
    np.testing.assert_allclose(model.predict(encoding).logits, expected, rtol=precision, atol=1e-12)
    trace = model.trace(encoding)
    assert trace.attentions[0].heads
    np.testing.assert_allclose(trace.readout.sum(), 1)
    assert (trace.readout > 0).all()
    explained = model.explain(encoding, methods=["attcat", "rollout", "integrated_gradients", "occlusion"])
    assert explained["integrated_gradients"].checks["completeness_gap"] < 1e-2
    longer = model.encode(ids=tiny_ids(family, 11, seed=1))
    together = model.explain([encoding, longer], "attcat")
    np.testing.assert_allclose(together[0].scores, explained["attcat"].scores, rtol=1e-9, atol=1e-12)
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert module.encoder.config.id2label != {0: "no", 1: "yes"}


def test_the_table_of_words_is_found_or_named():
    with pytest.raises(OptionError, match=r"2 tables of embeddings \(words, more.0\)"):
        sl.load(Bag(tables=2), labels=LABELS)
    assert load_quietly(Bag(tables=2), embeddings="words").network.tables["word"].num_embeddings == 60
    with pytest.raises(OptionError, match="no table of embeddings 'embed'"):
        sl.load(Bag(), labels=LABELS, embeddings="embed")


def test_what_is_missing_or_wrong_is_said():
    with pytest.raises(OptionError, match="labels="):
        sl.load(Bag())
    with pytest.raises(ModelError, match="must return logits"):
        sl.load(Bag("wrong"), labels=LABELS)
    with pytest.raises(OptionError, match="labels"):
        sl.load(tiny_module("bert"), labels=LABELS)


def test_compiled_and_wrapped_models_are_unwrapped_and_others_are_refused_by_name():
    module = tiny_module("bert", dtype=torch.float64)
    ids = tiny_ids("bert", 7)
    expected = sl.load(module).predict(sl.load(module).encode(ids=ids)).logits

    class Peft(nn.Module):
        def __init__(self, prompt=False):
            super().__init__()
            self.peft_config = {"default": SimpleNamespace(is_prompt_learning=prompt)}

        def get_base_model(self):
            return module

    class CrossEncoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.tokenizer = module, None

    for wrapper in (torch.compile(module), Peft(), CrossEncoder()):
        model = sl.load(wrapper)
        np.testing.assert_array_equal(model.predict(model.encode(ids=ids)).logits, expected)

    class SentenceTransformer(nn.Sequential):
        pass

    with pytest.raises(UnsupportedError, match="learned vectors before the text"):
        sl.load(Peft(prompt=True))
    with pytest.raises(UnsupportedError, match="save it"):
        sl.load(SentenceTransformer())
    module.hf_device_map = {"a": 0, "b": 1}
    with pytest.raises(UnsupportedError, match="device_map"):
        sl.load(module)
    del module.hf_device_map
    module.config.quantization_config = {"bits": 4}
    with pytest.raises(UnsupportedError, match="quantised"):
        sl.load(module)
