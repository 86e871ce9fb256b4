"""A model object that a user hands over: nothing about it changes, and its weights are not copied."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, TextClassificationPipeline

import sightline as sl
from sightline.errors import OptionError, UnsupportedError
from tests.models.test_single_attention import tiny_single
from tests.tiny_models import FAMILIES, UNSEEN_FACTS, tiny_ids, tiny_module
from tests.tiny_tokenizers import wordpiece


def snapshot(module):
    """Return everything about a module that a user could notice, as values that can be compared."""
    return {
        "state": {name: (tensor.dtype, tensor.numpy().tobytes()) for name, tensor in module.state_dict().items()},
        "parameters": {name: (id(p), p.requires_grad, p.data_ptr()) for name, p in module.named_parameters()},
        "modules": {name: (id(part), type(part), part.training) for name, part in module.named_modules()},
        "attributes": {name: sorted(vars(part)) for name, part in module.named_modules()},
        "hooks": {
            name: {key: list(value) for key, value in vars(part).items() if "_hooks" in key and value}
            for name, part in module.named_modules()
        },
        "config": module.config.to_dict(),
        "attention": module.config._attn_implementation,
    }


def train_one_step(module, ids):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    module(input_ids=torch.tensor([ids]), labels=torch.tensor([0])).loss.backward()
    assert any(parameter.grad is not None for parameter in module.parameters())
    optimizer.step()
    return any(not torch.equal(before[name], parameter) for name, parameter in module.named_parameters())


def call_everything(model, ids):
    encoding = model.encode(ids=ids)
    wanted = ("gradient", "attcat", "rollout", "alti", "lrp")
    methods = [name for name in wanted if name not in model.methods_not_offered]
    explained = model.explain(encoding, methods=methods, target=0)
    model.check(explained["gradient"], check_readings=12)
    model.predict(encoding)
    trace = model.trace([encoding, encoding])[0]
    assert len(trace.probabilities) == 3
    if model.network.sees_inside and not model.network.family.single_attention:
        model.report(encoding, methods=["gradient"], check=False)
        assert trace.attentions[0].heads
    model.explain(encoding, "occlusion")


@pytest.mark.parametrize("family", [*FAMILIES, *UNSEEN_FACTS])
@pytest.mark.filterwarnings("ignore:Sightline knows only the embeddings")
def test_no_family_is_changed_and_a_training_step_works_afterwards(family):
    module = tiny_module(family, dtype=torch.float32).train()
    ids = tiny_ids(family, 9)
    before = snapshot(module)
    model = sl.load(module)
    call_everything(model, ids)
    assert snapshot(module) == before
    assert train_one_step(module, ids)


def test_a_model_with_a_single_attention_is_not_changed():
    module = tiny_single(dtype=torch.float32).train()
    before = snapshot(module)
    call_everything(sl.load(module), tiny_ids(n=9))
    assert snapshot(module) == before


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("family", ["bert", "longformer", "big_bird", "deberta-v2", "gpt2"])
def test_another_number_type_is_that_of_a_copy(family, dtype):
    module = tiny_module(family, dtype=torch.float32).train()
    before = snapshot(module)
    model = sl.load(module, dtype=dtype)
    assert model.network.dtype == getattr(torch, dtype)
    model.explain(model.encode(ids=tiny_ids(family)), "gradient")
    assert snapshot(module) == before


def test_the_model_of_a_pipeline_is_not_changed_by_a_check_a_report_or_an_evaluation():
    tokenizer = wordpiece()
    module = tiny_module(vocab_size=len(tokenizer), dtype=torch.float32).train()
    module.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    hooked = []
    module.bert.register_forward_hook(lambda *_: hooked.append(1))
    pipeline = TextClassificationPipeline(model=module, tokenizer=tokenizer)
    before = snapshot(module)
    model = sl.load(pipeline)
    model.explain("the cat sat on the mat", check=True)
    model.report("the cat sat on the mat")
    model.inspect("the cat sat on the mat")
    rows = [{"text": "the cat sat on the mat", "label": 0}, {"text": "a dog ran", "label": 1}]
    sl.evaluate(model, rows, methods=["gradient"], metrics=["comprehensiveness"])
    assert snapshot(module) == before
    assert hooked  # what users hang on the model is part of it


def test_training_from_a_pipeline_leaves_its_weights_alone(tmp_path):
    tokenizer = wordpiece()
    module = tiny_module(vocab_size=len(tokenizer), dtype=torch.float32).train()
    before = snapshot(module)
    rows = [{"text": f"the cat sat {word}", "label": number % 2} for number, word in enumerate("abcdefghijkl")]
    pipeline = TextClassificationPipeline(model=module, tokenizer=tokenizer)
    sl.lab.train(rows, pipeline, out=tmp_path / "trained", max_steps=2, learning_rate=0.01)
    assert snapshot(module) == before


def test_weights_are_shared_and_tied_weights_stay_tied():
    module = tiny_module("bert", auto=AutoModelForMaskedLM, dtype=torch.float32)
    own = sl.load(module, task="masked_lm").network.module
    ours = dict(own.named_parameters())
    assert own is not module
    for name, parameter in module.named_parameters():
        assert ours[name] is not parameter
        assert ours[name].data_ptr() == parameter.data_ptr()
    assert own.get_output_embeddings().weight is own.get_input_embeddings().weight


@pytest.mark.parametrize("family", ["bert", "longformer", "big_bird", "gpt2"])
def test_memory_grows_by_less_than_a_twentieth_of_the_weights(family):
    module = tiny_module(family, dtype=torch.float32, vocab_size=20_000)
    own = sl.load(module).network.module
    theirs = {tensor.untyped_storage().data_ptr() for tensor in module.state_dict(keep_vars=True).values()}
    new = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for part in own.modules()
        for tensor in (*part.parameters(), *part.buffers())
    }
    weights = sum(tensor.nbytes for tensor in module.state_dict().values())
    assert sum(size for place, size in new.items() if place not in theirs) < 0.05 * weights


def test_a_module_that_keeps_a_tensor_with_its_graph_is_explained():
    module = tiny_module(dtype=torch.float32)
    module.last = torch.ones(2, requires_grad=True) * 2
    model = sl.load(module)
    assert np.isfinite(model.explain(model.encode(ids=tiny_ids()), "lrp", 0).scores).all()
    assert module.last.grad_fn is not None


def test_a_module_that_cannot_be_copied_is_refused_in_a_sentence():
    module = tiny_module(dtype=torch.float32)
    module.lock = threading.Lock()
    with pytest.raises(UnsupportedError, match="holds something that cannot be copied"):
        sl.load(module)


def test_a_module_in_training_mode_is_explained_without_dropout():
    module = tiny_module(dtype=torch.float32, hidden_dropout_prob=0.5)
    model = sl.load(module)
    encoding = model.encode(ids=tiny_ids())
    expected = model.explain(encoding, "gradient", 0).scores
    module.train()
    np.testing.assert_array_equal(model.explain(encoding, "gradient", 0).scores, expected)
    model.network.module.train()
    np.testing.assert_array_equal(model.explain(encoding, "gradient", 0).scores, expected)


def change_by_optimizer(module):
    train_one_step(module.train(), tiny_ids())


def change_in_place(module):
    with torch.no_grad():
        module.classifier.bias.add_(1)


def change_data(module):
    module.bert.encoder.layer[0].output.dense.weight.data.mul_(1.5)


def load_others(module):
    module.load_state_dict(tiny_module(seed=1, dtype=torch.float32).state_dict())


@pytest.mark.parametrize("change", [change_by_optimizer, change_in_place, change_data, load_others])
def test_changed_weights_are_read_and_have_their_own_hash(change):
    module = tiny_module(dtype=torch.float32)
    model = sl.load(module)
    encoding = model.encode(ids=tiny_ids())
    trace, first = model.trace(encoding, 0), model.explain(encoding, "input_x_gradient", 0)
    model.explain(trace, "gradient")
    change(module)
    second, fresh = (m.explain(encoding, "input_x_gradient", 0) for m in (model, sl.load(module)))
    np.testing.assert_array_equal(second.scores, fresh.scores)
    assert second.provenance["weights"] == fresh.provenance["weights"] != first.provenance["weights"]
    with pytest.raises(OptionError, match="weights of the model have changed"):
        model.explain(trace, "gradient")
