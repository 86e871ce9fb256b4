"""Taylor head importance against plain backward passes through the library's own models, head by head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sightline.analysis import (
    head_importance,
    head_importance_of,
    head_importance_per_example,
    normalized_importance,
)
from sightline.api.load import load
from sightline.errors import InputError, OptionError, TargetError, UnsupportedError
from tests.tiny_models import DECODERS, FAMILIES, SINGLE_PRECISION, tiny_ids, tiny_model, tiny_module

HEADS, LAYERS, LABEL = 4, 3, 2


def squares(parameter):
    gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad  # None: was not used
    return (gradient * parameter.detach()).square()


def loss_of(module, family, ids, label):
    """Cross-entropy with gradients in .grad, by the library's own forward and backward."""
    module.requires_grad_(True)
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    if family == "longformer":
        inputs["global_attention_mask"] = torch.tensor([[1] + [0] * (len(ids) - 1)])
    torch.nn.functional.cross_entropy(module(**inputs).logits, torch.tensor([label])).backward()


def slow_importance(module, family, ids, label):
    """(L, H), one head at a time from parameter names."""
    loss_of(module, family, ids, label)
    if family in DECODERS[1:] and family != "gpt_neox":
        return slow_importance_of_groups(module)
    importance = np.zeros((LAYERS, HEADS))
    names = {
        "distilbert": (["attention.q_lin", "attention.k_lin", "attention.v_lin"], "attention.out_lin"),
        "mpnet": ([f"attention.attn.{projection}" for projection in "qkv"], "attention.attn.o"),
        "deberta-v2": (
            [f"attention.self.{projection}_proj" for projection in ("query", "key", "value")],
            "attention.output.dense",
        ),
        "nomic_bert": ([f"self_attn.{projection}_proj" for projection in "qkv"], "self_attn.o_proj"),
        "modernbert": ([], "attn.Wo"),
        "gpt_neox": ([], "attention.dense"),
        "gpt2": ([], "attn.c_proj"),
        "bidirectional-gpt2": ([], "attn.c_proj"),
    }.get(
        family, ([f"attention.self.{projection}" for projection in ("query", "key", "value")], "attention.output.dense")
    )
    projections, out = names
    if family == "longformer":
        projections = [*projections, *(f"{name}_global" for name in projections)]
    base = module.base_model
    layers = {
        "distilbert": lambda: base.transformer.layer,
        **dict.fromkeys(("modernbert", "nomic_bert", "gpt_neox"), lambda: base.layers),
        "gpt2": lambda: base.h,
        "bidirectional-gpt2": lambda: base.h,
    }.get(family, lambda: base.encoder.layer)()
    for number, layer in enumerate(layers):
        for head in range(HEADS):
            rows = slice(head * 8, head * 8 + 8)
            weights = squares(layer.get_submodule(out).weight)
            total = (weights.T if family.endswith("gpt2") else weights)[:, rows].sum()
            for name in projections:
                linear = layer.get_submodule(name)
                total += sum(squares(parameter)[rows].sum() for parameter in linear.parameters())
            if family == "modernbert":
                fused = squares(layer.attn.Wqkv.weight)
                total += sum(fused[part * 32 + head * 8 : part * 32 + head * 8 + 8].sum() for part in range(3))
            if family == "gpt_neox":  # query, key and value of one head lie together
                fused = layer.attention.query_key_value
                total += sum(squares(part)[head * 24 : head * 24 + 24].sum() for part in fused.parameters())
            if family.endswith("gpt2"):  # (in, out) matrices, and a bias
                for fused in (squares(layer.attn.c_attn.weight).T, squares(layer.attn.c_attn.bias)):
                    total += sum(fused[part * 32 + head * 8 : part * 32 + head * 8 + 8].sum() for part in range(3))
            importance[number, head] = float(total)
    return importance


def slow_importance_of_groups(module):
    """(L, H) of a decoder whose query heads share keys and values; a head has its part of what a group shares."""
    config, importance = module.config, np.zeros((LAYERS, HEADS))
    size = HEADS // config.num_key_value_heads
    for number, layer in enumerate(module.base_model.layers):
        attention = layer.self_attn
        width = attention.head_dim
        out = squares((attention.dense if config.model_type == "phi" else attention.o_proj).weight)
        if config.model_type == "phi3":
            blocks = [[part] for part in squares(attention.qkv_proj.weight).split(width)]
            query, key, value = blocks[:HEADS], blocks[HEADS : HEADS + HEADS // size], blocks[-(HEADS // size) :]
        else:
            query, key, value = (
                list(zip(*(squares(parameter).split(width) for parameter in projection.parameters()), strict=True))
                for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
            )
        for head in range(HEADS):
            shared = sum(float(part.sum()) for side in (key, value) for part in side[head // size])
            own = sum(float(part.sum()) for part in query[head])
            importance[number, head] = float(out[:, head * width : (head + 1) * width].sum()) + own + shared / size
    return importance


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "albert"])
def test_is_the_sum_of_squared_products_of_weight_and_gradient(family):
    ids = tiny_ids(family, 13)
    model = tiny_model(family)
    importance = head_importance_per_example(model, [model.encode(ids=ids)], [LABEL])
    # Where the library computes parts in single precision, the loaded model is the reference.
    module = tiny_model(family).network.module if family in SINGLE_PRECISION else tiny_module(family)
    assert importance.shape == (1, LAYERS, HEADS)
    np.testing.assert_allclose(importance[0], slow_importance(module, family, ids, LABEL), rtol=1e-9)


def test_of_albert_belongs_to_each_use_of_the_shared_weights():
    ids = tiny_ids("albert", 9)
    shared = tiny_module("albert")
    apart = tiny_module("albert", num_hidden_groups=LAYERS)  # the same weights, once for every layer
    groups = apart.base_model.encoder.albert_layer_groups
    state = shared.state_dict()
    prefix = "albert.encoder.albert_layer_groups."
    apart.load_state_dict({name: state[name.replace(prefix + name.removeprefix(prefix)[0], prefix + "0", 1)] if
                           name.startswith(prefix) else state[name] for name in apart.state_dict()})  # fmt: skip
    loss_of(apart, "albert", ids, LABEL)
    expected = np.zeros((LAYERS, HEADS))
    for number, group in enumerate(groups):
        attention = group.albert_layers[0].attention
        for head in range(HEADS):
            rows = slice(head * 8, head * 8 + 8)
            inner = [attention.query, attention.key, attention.value]
            expected[number, head] = sum(
                float(squares(linear.weight)[rows].sum() + squares(linear.bias)[rows].sum()) for linear in inner
            ) + float(squares(attention.dense.weight)[:, rows].sum())
    model = tiny_model("albert")
    importance = head_importance_per_example(model, model.encode(ids=ids), [LABEL])
    np.testing.assert_allclose(importance[0], expected, rtol=1e-9)


def test_longformer_gradients_reach_every_projection_with_several_global_tokens():
    model = tiny_model("longformer")
    encoding = model.encode(ids=tiny_ids("longformer", 30), global_tokens=[0, 7, 20])
    library = tiny_model("longformer", attention="library")
    ours, theirs = (head_importance_per_example(loaded, encoding, [1]) for loaded in (model, library))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)  # the library's softmax has single precision


def test_without_labels_the_predicted_class_counts():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids())
    predicted = model.trace(encoding).prediction.index
    importance = head_importance_per_example(model, encoding)
    np.testing.assert_array_equal(importance, head_importance_per_example(model, encoding, [predicted]))
    np.testing.assert_array_equal(importance, head_importance_per_example(model, encoding, [None]))
    assert not np.array_equal(importance, head_importance_per_example(model, encoding, [(predicted + 1) % 3]))


def test_of_a_data_set_is_the_mean_of_its_examples():
    model = tiny_model("roberta")
    encodings = [model.encode(ids=tiny_ids("roberta", n, seed=n)) for n in (5, 12, 8)]
    labels = ["LABEL_0", "LABEL_2", "LABEL_1"]
    each = np.concatenate(
        [head_importance_per_example(model, [e], [c]) for e, c in zip(encodings, labels, strict=True)]
    )
    np.testing.assert_array_equal(head_importance_per_example(model, encodings, labels), each)
    np.testing.assert_array_equal(head_importance(model, encodings, labels, None), each.mean(axis=0))


def test_normalisations():
    values = np.array([[1.0, 3.0], [2.0, 5.0]])
    np.testing.assert_array_equal(normalized_importance(values, "minmax"), [[0, 0.5], [0.25, 1]])
    np.testing.assert_array_equal(normalized_importance(values, "sum"), values / 11)
    np.testing.assert_array_equal(normalized_importance(values, "raw"), values)
    np.testing.assert_array_equal(normalized_importance(values, None), values)
    for normalize in ("minmax", "sum"):  # heads that are all alike, also all 0, weigh alike
        for constant in (0.0, 2.0):
            flat = normalized_importance(np.full((2, 3), constant), normalize)
            assert flat.min() == flat.max() > 0
    with pytest.raises(OptionError, match="normalize='softmax' is not known"):
        head_importance(tiny_model(), "x", normalize="softmax")


@pytest.mark.parametrize("family", ["bert", "albert", "longformer"])
def test_leaves_the_model_as_it_was_even_after_an_error(family):
    model = tiny_model(family)
    module = model.network.module
    before = {name: (id(parameter), parameter.clone()) for name, parameter in module.named_parameters()}
    encoding = model.encode(ids=tiny_ids(family))
    head_importance(model, encoding)
    with pytest.raises(TargetError):
        head_importance(model, encoding, [7])
    for name, parameter in module.named_parameters():
        assert id(parameter) == before[name][0]
        assert torch.equal(parameter, before[name][1])
        assert not parameter.requires_grad
        assert parameter.grad is None
    assert not any(layer._forward_pre_hooks for layer in model.network.layers)


def test_says_what_it_cannot_do():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids())
    with pytest.raises(InputError, match="2 labels were given for 1 documents"):
        head_importance(model, [encoding], [0, 1])
    with pytest.raises(InputError, match="the list is empty"):
        head_importance(model, [])
    regression = tiny_model(num_labels=1)
    with pytest.raises(UnsupportedError, match="a single output"):
        head_importance(regression, regression.encode(ids=tiny_ids()))
    model.network.family = replace(model.network.family, query="attention.self")
    with pytest.raises(UnsupportedError, match="does not know where the heads of a 'bert' model keep their weights"):
        head_importance(model, encoding)


def test_progress_is_told():
    model, told = tiny_model(), []
    encodings = [model.encode(ids=tiny_ids(n=n)) for n in (4, 5)]
    head_importance(model, encodings, progress=lambda *step: told.append(step))
    assert told == [("head importance", 0, 2), ("head importance", 1, 2), ("head importance", 2, 2)]


def test_a_sure_prediction_keeps_its_digits_in_single_precision():
    """∂𝓛/∂logits is 1 − p: taken in single precision it would be off by several per cent at p = 1 − 1e-6."""
    importance = {}
    for dtype in (torch.float32, torch.float64):
        module = tiny_module(dtype=dtype)
        with torch.no_grad():
            module.classifier.weight.zero_()
            module.classifier.weight[LABEL, 0] = 1e-3  # importance of the heads hangs on it
            module.classifier.bias.copy_(torch.tensor([0.0, 0.0, 14.5]))
        model = load(module)
        importance[dtype] = head_importance_per_example(model, [model.encode(ids=tiny_ids())], [LABEL])
    np.testing.assert_allclose(importance[torch.float32], importance[torch.float64], rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_of_a_trace_agrees_with_the_loss_and_runs_one_forward_and_one_backward(family):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 13))
    expected = head_importance(model, encoding, [LABEL], "sum")
    passes = model.network.forward_passes, model.network.backward_passes
    trace = model.trace(encoding, LABEL, quantity="log_probability")
    trace.require("head_importance", "attention_gradients")
    gradients = [trace.embedding_gradient, *(gradient.received() for gradient in trace.attention_gradients)]
    np.testing.assert_allclose(head_importance_of(trace, "sum"), expected, rtol=1e-9)
    assert (model.network.forward_passes - passes[0], model.network.backward_passes - passes[1]) == (1, 1)
    plain = model.trace(encoding, LABEL, quantity="log_probability")
    without = [plain.embedding_gradient, *(gradient.received() for gradient in plain.attention_gradients)]
    # The plain pass computes the last layer for the rows that the head reads, in products of another shape.
    for kept_gradient, gradient in zip(gradients, without, strict=True):
        np.testing.assert_allclose(kept_gradient, gradient, rtol=0, atol=1e-13)


def test_of_a_trace_depends_on_what_the_trace_explains():
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()), 0)
    trace.require("head_importance")
    importance = trace.head_importance
    other = trace.with_target(1)
    assert not np.allclose(importance, other.head_importance)
    contrast = trace.with_target((0, 1)).head_importance  # (∂(y₀ − y₁)/∂w · w)² is at most 2 (a² + b²)
    assert (contrast <= 2 * (importance + other.head_importance) + 1e-12).all()


def test_of_a_trace_in_a_batch_is_that_of_the_document_alone():
    model = tiny_model("roberta")
    encodings = [model.encode(ids=tiny_ids("roberta", n, seed=n)) for n in (5, 12)]
    for trace, encoding in zip(model.trace(encodings), encodings, strict=True):
        np.testing.assert_allclose(trace.head_importance, model.trace(encoding).head_importance, rtol=1e-9)


def test_a_model_with_one_output_has_an_importance_of_its_output():
    model = tiny_model(num_labels=1)
    trace = model.trace(model.encode(ids=tiny_ids()))
    assert (head_importance_of(trace, "raw") > 0).all()


def test_an_unsupported_family_is_refused_before_the_pass_changes():
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()))
    model.network.family = replace(model.network.family, query="attention.self")
    with pytest.raises(UnsupportedError, match="keep their weights"):
        trace.require("head_importance")
    assert trace.received.shape == (LAYERS, HEADS, len(trace.encoding))
