"""Attention that modules return: DeBERTa with every kind of scores, and MPNet."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightline.api.load import load
from sightline.settings.explain import DEFAULT_METHODS
from tests.tiny_models import tiny_ids, tiny_model, tiny_module

RETURNED = ("mpnet", "deberta-v2")
DEBERTA = [
    {"pos_att_type": ["c2p"], "share_att_key": False},
    {"pos_att_type": "p2c|c2p", "share_att_key": False, "position_buckets": -1},
    {"pos_att_type": [], "relative_attention": False, "position_biased_input": True, "type_vocab_size": 2},
]


@pytest.mark.parametrize("family", RETURNED)
def test_weights_times_values_are_the_output(family):
    model = tiny_model(family)
    trace = model.trace([model.encode(ids=tiny_ids(family, n, n)) for n in (9, 12)], target=1)
    for document_trace in trace:
        document_trace.require("attentions")
    records = trace[0].shared.recorder.layers
    for record in records:
        for document, n in enumerate(record.lengths):
            weights = torch.as_tensor(record.weights(document).dense())
            mixed = torch.einsum("hij,jhe->ihe", weights, record.values(document)).flatten(1)
            np.testing.assert_allclose(mixed, record.output[document, :n].detach(), atol=1e-12)


@pytest.mark.parametrize("facts", DEBERTA, ids=["c2p", "both-unshared", "absolute"])
def test_every_kind_of_deberta_equals_the_library(facts):
    ids = tiny_ids("deberta-v2", 13)
    outputs = tiny_module("deberta-v2", **facts)(torch.tensor([ids]), output_attentions=True)
    model = tiny_model("deberta-v2", **facts)
    trace = model.trace(model.encode(ids=ids))
    np.testing.assert_allclose(trace.logits, outputs.logits[0].detach(), atol=1e-11)
    for layer, expected in enumerate(outputs.attentions):
        np.testing.assert_allclose(trace.attentions[layer].dense(), expected[0].detach(), atol=1e-11)


@pytest.mark.parametrize("facts", DEBERTA, ids=["c2p", "both-unshared", "absolute"])
def test_every_kind_of_deberta_has_relevance_rules(facts):
    # One wide head: of eight products with a position, all are negative now and then, and their relevance ends there.
    model = tiny_model("deberta-v2", num_attention_heads=1, **facts)
    explanations = model.explain(
        model.encode(ids=tiny_ids("deberta-v2")), methods=["lrp", "attnlrp", "transatt"], quantity="logit"
    )
    np.testing.assert_allclose(explanations["lrp"].layers.sum(axis=1), 1, rtol=1e-5)
    assert all(np.isfinite(explanation.scores).all() for explanation in explanations.values())
    assert model.default_methods == DEFAULT_METHODS


@pytest.mark.filterwarnings("ignore:Sightline knows only the embeddings")
def test_a_convolution_between_the_layers_leaves_only_embeddings_and_logits():
    facts = {"conv_kernel_size": 3, "conv_act": "gelu"}
    model, module = load(tiny_module("deberta-v2", **facts)), tiny_module("deberta-v2", **facts)
    ids = tiny_ids("deberta-v2")
    expected = module(torch.tensor([ids])).logits[0].detach()
    np.testing.assert_allclose(model.trace(model.encode(ids=ids)).logits, expected, atol=1e-11)
    assert "alti" in model.methods_not_offered
    assert model.default_methods == ("integrated_gradients", "input_x_gradient")


def test_loading_a_module_twice_records_it_once():
    module = tiny_module("mpnet")
    load(module)
    model = load(module)
    trace = model.trace(model.encode(ids=tiny_ids("mpnet")))
    assert len(trace.attentions) == 3
    assert trace.attentions[0].dense().shape == (4, 11, 11)
