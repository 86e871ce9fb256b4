"""Relevance through T5's encoder written out by hand: scores without a scale, plus learned scores of distances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from sightline.api.load import load
from sightline.methods.lrp import propagate
from sightline.methods.relevance import rules as relevance_rules
from sightline.methods.relevance.operations import is_rms_norm
from sightline.methods.relevance.rules import ATTENTION_AWARE, CLASSIC, POSITIVE
from tests.methods.relevance_reference import Linear, add_back, gelu_new, product_back
from tests.methods.test_decoder_relevance import join, linear, normalise, split
from tests.models.test_t5 import document, t5

RULES = {rules.name: rules for rules in (POSITIVE, CLASSIC, ATTENTION_AWARE)}
HEADS = 4
TARGET, POSITION = 1, 2


def double_precision_model(**facts):
    module = t5(**facts)
    for norm in filter(is_rms_norm, module.modules()):
        norm.forward = lambda x, norm=norm: norm.weight * x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    return load(module)


class Block:
    """One layer of the encoder, forwards and back."""

    def __init__(self, block, bias):
        attention, fed = block.layer
        self.norms, self.bias = (attention.layer_norm, fed.layer_norm), bias
        self.to_query, self.to_key, self.to_value, self.to_output = (
            linear(getattr(attention.SelfAttention, name)) for name in "qkvo"
        )
        dense = fed.DenseReluDense
        self.gated = hasattr(dense, "wi_0")
        self.wide = [linear(getattr(dense, name)) for name in (("wi_0", "wi_1") if self.gated else ("wi",))]
        self.narrow = linear(dense.wo)

    def forward(self, x):
        self.x, self.h = x, normalise(self.norms[0], x)
        self.q, self.k, self.v = (split(m(self.h), HEADS) for m in (self.to_query, self.to_key, self.to_value))
        self.scores = self.q @ self.k.transpose(0, 2, 1)
        self.A = softmax(self.scores + self.bias, axis=-1)
        self.mixed = join(self.A @ self.v)
        self.attended = self.to_output(self.mixed)
        self.y = x + self.attended
        self.h2 = normalise(self.norms[1], self.y)
        wide = [project(self.h2) for project in self.wide]
        self.inner = gelu_new(wide[0]) * wide[1] if self.gated else np.maximum(wide[0], 0)
        self.fed = self.narrow(self.inner)
        return self.y + self.fed

    def back(self, R, rules):
        R_y, R_fed = add_back(R, self.y, self.fed, rules)
        R_inner = self.narrow.back(R_fed, self.inner, rules) / len(self.wide)
        R_y = R_y + sum(project.back(R_inner, self.h2, rules) for project in self.wide)
        R_x, R_attended = add_back(R_y, self.x, self.attended, rules)
        R_A, R_v = product_back(split(self.to_output.back(R_attended, self.mixed, rules), HEADS), self.A, self.v)
        R_scores = R_A
        if rules == "attention_aware":
            R_scores = self.scores * (R_A - self.A * R_A.sum(-1, keepdims=True))
        R_q, R_k = product_back(R_scores, self.q, self.k.transpose(0, 2, 1))
        parts = zip((self.to_query, self.to_key, self.to_value), (R_q, R_k.transpose(0, 2, 1), R_v), strict=True)
        return R_A, R_x + sum(project.back(join(part), self.h, rules) for project, part in parts)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kind", ["relu", "gated-gelu"])
def test_relevance_of_layers_and_attention_is_that_of_the_rules_by_hand(kind, rules, monkeypatch):
    monkeypatch.setattr(relevance_rules, "EPSILON", 0.0)
    model = double_precision_model(feed_forward_proj=kind)
    module, encoding = model.network.module, document(model)
    trace = model.trace(encoding, TARGET, position=POSITION, quantity="logit")
    trace.require("attention_relevance")
    relevance = propagate(trace, RULES[rules], whole_attention=True)

    encoder, n = module.transformer.encoder, len(encoding)
    bias = encoder.block[0].layer[0].SelfAttention.compute_bias(n, n).detach()[0].numpy()
    assert np.abs(bias).max() > 0.1
    x, blocks = trace.hidden_states[0], [Block(block, bias) for block in encoder.block]
    for block in blocks:
        x = block.forward(x)
    last = normalise(encoder.final_layer_norm, x)
    head = Linear(module.classifier.weight.detach().numpy(), module.classifier.bias.detach().numpy())
    np.testing.assert_allclose(trace.logits, head(last)[POSITION], atol=1e-12)
    seed = np.zeros((n, 3))
    seed[POSITION, TARGET] = trace.logits[TARGET] if rules == "attention_aware" else 1
    R = head.back(seed, last, rules)
    hidden, attentions = [R], []
    for block in reversed(blocks):
        R_A, R = block.back(R, rules)
        hidden.insert(0, R)
        attentions.insert(0, R_A)
    for ours, by_hand in zip(relevance.hidden, hidden, strict=True):
        assert np.abs(ours - by_hand).max() <= 1e-9 * np.abs(by_hand).max()
    for (ours,), by_hand in zip(relevance.attentions, attentions, strict=True):
        assert np.abs(np.asarray(ours) - by_hand).max() <= 1e-9 * np.abs(by_hand).max()


def test_positive_rules_keep_the_whole_relevance_and_positions_take_none_of_it():
    model = load(t5())
    explanation = model.explain(document(model), "lrp", TARGET, position=POSITION, quantity="logit")
    np.testing.assert_allclose(explanation.layers.sum(axis=1), 1, rtol=1e-5)
