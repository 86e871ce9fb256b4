"""Relevance through decoders written out by hand: RMSNorm, rotary positions, shared keys and values, gated products.

Llama, and Gemma 2 with norms behind its blocks, bent scores and sliding windows.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax

from sightline.api.load import load
from sightline.methods.lrp import propagate
from sightline.methods.relevance import rules as relevance_rules
from sightline.methods.relevance.operations import is_rms_norm
from sightline.methods.relevance.rules import ATTENTION_AWARE, CLASSIC, POSITIVE
from tests.methods.relevance_reference import Linear, add_back, product_back
from tests.tiny_models import DECODERS, tiny_ids, tiny_model, tiny_module

RULES = {rules.name: rules for rules in (POSITIVE, CLASSIC, ATTENTION_AWARE)}
HEADS, GROUPS = 4, 2


def double_precision_model(family):
    """A model whose norms compute in double precision; the library's do not."""
    module = tiny_module(family).requires_grad_(False)  # the gains below are constants, not variables
    for norm in filter(is_rms_norm, module.modules()):
        norm.forward = lambda x, norm=norm: gain(norm) * x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    return load(module)


def gain(norm):
    return 1 + norm.weight if type(norm).__name__ == "Gemma2RMSNorm" else norm.weight


def linear(module):
    weight = module.weight.detach().numpy()
    return Linear(weight, np.zeros(len(weight)))


def normalise(module, x):
    return gain(module).detach().numpy() * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def split(rows, heads):
    return rows.reshape(len(rows), heads, -1).transpose(1, 0, 2)


def join(heads):
    return heads.transpose(1, 0, 2).reshape(heads.shape[1], -1)


def rotate_half(x):
    half = x.shape[-1] // 2
    return np.concatenate((-x[..., half:], x[..., :half]), -1)


def rotate_half_back(R):
    half = R.shape[-1] // 2
    return np.concatenate((R[..., half:], R[..., :half]), -1)


def rotation_back(R, x, cos, sin, rules):
    straight, turned = add_back(R, x * cos, rotate_half(x) * sin, rules)
    return np.where(cos == 0, 0, straight) + rotate_half_back(np.where(sin == 0, 0, turned))


class Layer:
    """One decoder layer, forwards and back."""

    activation = staticmethod(lambda gate: gate / (1 + np.exp(-gate)))
    before_feed_forward = "post_attention_layernorm"

    def __init__(self, layer, cos, sin):
        self.layer, self.cos, self.sin = layer, cos, sin
        attention, mlp = layer.self_attn, layer.mlp
        self.scaling = attention.scaling
        names = ("q_proj", "k_proj", "v_proj", "o_proj")
        self.to_query, self.to_key, self.to_value, self.to_output = (linear(getattr(attention, n)) for n in names)
        self.gate, self.up, self.down = (linear(getattr(mlp, n)) for n in ("gate_proj", "up_proj", "down_proj"))

    def forward(self, x):
        n = len(x)
        self.x = x
        self.h = normalise(self.layer.input_layernorm, x)
        self.q, self.k, self.v = (
            split(project(self.h), heads)
            for project, heads in ((self.to_query, HEADS), (self.to_key, GROUPS), (self.to_value, GROUPS))
        )
        q, k = (part * self.cos + rotate_half(part) * self.sin for part in (self.q, self.k))
        self.turned_q, self.turned_k = q, k.repeat(HEADS // GROUPS, axis=0)
        self.values = self.v.repeat(HEADS // GROUPS, axis=0)
        scores = self.bend(self.turned_q @ self.turned_k.transpose(0, 2, 1) * self.scaling)
        seen = self.seen(n)
        self.scores = np.where(seen, scores, 0)
        self.A = softmax(np.where(seen, scores, -np.inf), axis=-1)
        self.mixed = join(self.A @ self.values)
        self.attended = self.behind_attention(self.to_output(self.mixed))
        self.y = x + self.attended
        self.h2 = normalise(getattr(self.layer, self.before_feed_forward), self.y)
        self.gated = self.activation(self.gate(self.h2)) * self.up(self.h2)
        self.fed = self.behind_feed_forward(self.down(self.gated))
        return self.y + self.fed

    def bend(self, scores):
        return scores

    def seen(self, n):
        return np.tri(n, dtype=bool)

    def behind_attention(self, output):
        return output

    def behind_feed_forward(self, output):
        return output

    def back(self, R, rules):
        R_y, R_fed = add_back(R, self.y, self.fed, rules)
        half = self.down.back(R_fed, self.gated, rules) / 2
        R_y = R_y + self.gate.back(half, self.h2, rules) + self.up.back(half, self.h2, rules)
        R_x, R_attended = add_back(R_y, self.x, self.attended, rules)
        R_A, R_v = product_back(split(self.to_output.back(R_attended, self.mixed, rules), HEADS), self.A, self.values)
        R_scores = R_A
        if rules == "attention_aware":
            R_scores = self.scores * (R_A - self.A * R_A.sum(-1, keepdims=True))
        # Masked scores are zero here and their relevance is zero, so the quotient has to be that of the products.
        R_q, R_k = product_back(R_scores, self.turned_q, self.turned_k.transpose(0, 2, 1))
        R_k = self.of_groups(R_k.transpose(0, 2, 1))
        R_q = rotation_back(R_q, self.q, self.cos, self.sin, rules)
        R_k = rotation_back(R_k, self.k, self.cos, self.sin, rules)
        for project, part in ((self.to_query, R_q), (self.to_key, R_k), (self.to_value, self.of_groups(R_v))):
            R_x = R_x + project.back(join(part), self.h, rules)
        return R_A, R_x

    @staticmethod
    def of_groups(R):
        return R.reshape(GROUPS, HEADS // GROUPS, *R.shape[1:]).sum(1)


class GemmaLayer(Layer):
    """Norms behind both blocks and the bend of the scores hand relevance on as it is."""

    activation = staticmethod(lambda gate: gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3))) / 2)
    before_feed_forward = "pre_feedforward_layernorm"

    def bend(self, scores):
        return 1.5 * np.tanh(scores / 1.5)

    def seen(self, n):
        distance = np.subtract.outer(np.arange(n), np.arange(n))
        return (distance >= 0) & (distance < (self.layer.self_attn.sliding_window or n))

    def behind_attention(self, output):
        return normalise(self.layer.post_attention_layernorm, output)

    def behind_feed_forward(self, output):
        return normalise(self.layer.post_feedforward_layernorm, output)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(("family", "kind"), [("llama", Layer), ("gemma2", GemmaLayer)])
def test_relevance_of_layers_and_attention_is_that_of_the_rules_by_hand(family, kind, rules, monkeypatch):
    monkeypatch.setattr(relevance_rules, "EPSILON", 0.0)
    model = double_precision_model(family)
    module = model.network.module
    ids = tiny_ids(family, 9)
    trace = model.trace(model.encode(ids=ids), 1, quantity="logit")
    trace.require("attention_relevance")
    relevance = propagate(trace, RULES[rules], whole_attention=True)

    x = trace.hidden_states[0]
    cos, sin = (part[0].numpy() for part in module.model.rotary_emb(torch.from_numpy(x), torch.arange(len(x))[None]))
    layers = [kind(layer, cos, sin) for layer in module.model.layers]
    for layer in layers:
        x = layer.forward(x)
    last = normalise(module.model.norm, x[-1:])
    score = linear(module.score)
    np.testing.assert_allclose(trace.logits, score(last)[0], atol=1e-12)
    seed = np.zeros((1, 3))
    seed[0, 1] = score(last)[0, 1] if rules == "attention_aware" else 1
    R = np.zeros_like(x)
    R[-1:] = score.back(seed, last, rules)
    hidden, attentions = [R], []
    for layer in reversed(layers):
        R_A, R = layer.back(R, rules)
        hidden.insert(0, R)
        attentions.insert(0, R_A)
    for ours, by_hand in zip(relevance.hidden, hidden, strict=True):
        assert np.abs(ours - by_hand).max() <= 1e-9 * np.abs(by_hand).max()
    for (ours,), by_hand in zip(relevance.attentions, attentions, strict=True):
        assert np.abs(np.asarray(ours) - by_hand).max() <= 1e-9 * np.abs(by_hand).max()


@pytest.mark.parametrize("family", DECODERS[1:])
def test_every_norm_of_the_rms_families_is_known(family):
    module = tiny_model(family).network.module
    norms = [part for name, part in module.named_modules() if "norm" in name.rsplit(".", 1)[-1]]
    assert norms
    assert all(is_rms_norm(norm) == (family not in ("phi", "gpt_neox")) for norm in norms)
