"""Relevance propagation through a post-LN encoder written out by hand in numpy: dense, without ε, without autograd.

Serves BERT-like models, DistilBERT and Longformer (whose band is a mask here and whose global rows are dense rows).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import erf, softmax

PLACES = {
    "distilbert": {
        "layers": "distilbert.transformer.layer",
        "query": "attention.q_lin",
        "key": "attention.k_lin",
        "value": "attention.v_lin",
        "output": "attention.out_lin",
        "first_norm": "sa_layer_norm",
        "wide": "ffn.lin1",
        "narrow": "ffn.lin2",
        "second_norm": "output_layer_norm",
        "head": ("pre_classifier", "classifier"),
    },
    **{
        family: {
            "layers": f"{family}.encoder.layer",
            "query": "attention.self.query",
            "key": "attention.self.key",
            "value": "attention.self.value",
            "output": "attention.output.dense",
            "first_norm": "attention.output.LayerNorm",
            "wide": "intermediate.dense",
            "narrow": "output.dense",
            "second_norm": "output.LayerNorm",
            "head": ("bert.pooler.dense", "classifier")
            if family == "bert"
            else ("classifier.dense", "classifier.out_proj"),
        }
        for family in ("bert", "roberta", "longformer")
    },
}


def over(R, total):
    """R / total, 0 where total is 0."""
    return np.divide(R, total, out=np.zeros(np.broadcast_shapes(R.shape, total.shape)), where=total != 0)


@dataclass
class Linear:
    weight: np.ndarray
    bias: np.ndarray

    def __call__(self, x):
        return x @ self.weight.T + self.bias

    def back(self, R, x, rules):
        z = x[:, None, :] * self.weight
        if rules == "attention_aware":
            return (z * over(R, z.sum(-1) + self.bias)[:, :, None]).sum(1)
        z = np.maximum(z, 0)
        if rules == "positive":
            return (z * over(R, z.sum(-1))[:, :, None]).sum(1)
        above = np.where(x[:, None, :] > 0, z, 0)
        below = z - above
        return sum((part * over(R, part.sum(-1))[:, :, None]).sum(1) for part in (above, below))


@dataclass
class Norm:
    gain: np.ndarray
    bias: np.ndarray
    eps: float

    def __call__(self, x):
        return (x - x.mean(-1, keepdims=True)) / self.deviation(x) * self.gain + self.bias

    def deviation(self, x):
        return np.sqrt(x.var(-1, keepdims=True) + self.eps)

    def back(self, R, x, rules):
        if rules != "attention_aware":
            return R
        d = x.shape[-1]
        # y_j = Σ_i M_ji x_i + β_j with M = diag(γ/σ)(I − 1/d)
        M = (self.gain / self.deviation(x))[:, :, None] * (np.eye(d) - 1 / d)
        return (M * x[:, None, :] * (R / self(x))[:, :, None]).sum(1)


def add_back(R, a, b, rules):
    first, second = a * over(R, a + b), b * over(R, a + b)
    if rules != "positive":
        return first, second
    both = abs(first.sum()) + abs(second.sum())
    return tuple(
        side * (abs(side.sum()) / both * R.sum() / side.sum() if side.sum() else 0) for side in (first, second)
    )


def product_back(R, a, b):
    """(H, i, k)·(H, k, j)."""
    terms = a[:, :, :, None] * b[:, None, :, :] * over(R, a @ b)[:, :, None, :] / 2
    return terms.sum(3), terms.sum(1)


@dataclass
class Attention:
    """Rows `rows` of one layer's attention with projections of their own."""

    query: Linear
    key: Linear
    value: Linear
    heads: int
    rows: np.ndarray
    allowed: np.ndarray

    def forward(self, x):
        self.x = x
        self.q, self.k, self.v = (self.split(project(x)) for project in (self.query, self.key, self.value))
        self.q = self.q[:, self.rows]
        self.scores = self.q @ self.k.transpose(0, 2, 1) / np.sqrt(self.q.shape[-1])
        self.A = softmax(np.where(self.allowed, self.scores, -np.inf), axis=-1)
        return self.join(self.A @ self.v)

    def back(self, R, rules):
        R_A, R_v = product_back(self.split(R), self.A, self.v)
        R_scores = R_A
        if rules == "attention_aware":
            R_scores = self.scores * (R_A - self.A * R_A.sum(-1, keepdims=True))
            self.absorbed = R_A.sum() - R_scores.sum()
        R_q_rows, R_k = product_back(R_scores, self.q, self.k.transpose(0, 2, 1))
        R_q = np.zeros_like(self.v)
        R_q[:, self.rows] = R_q_rows
        parts = zip((self.query, self.key, self.value), (R_q, R_k.transpose(0, 2, 1), R_v), strict=True)
        return R_A, sum(project.back(self.join(part), self.x, rules) for project, part in parts)

    def split(self, rows):
        return rows.reshape(len(rows), self.heads, -1).transpose(1, 0, 2)

    def join(self, heads):
        return heads.transpose(1, 0, 2).reshape(heads.shape[1], -1)


@dataclass
class Reference:
    logits: np.ndarray
    hidden: list = field(default_factory=list)
    attentions: list = field(default_factory=list)
    absorbed: float = 0.0
    """By the constant terms of softmax."""


def reference(module, first_hidden, target, rules, global_tokens=(), window=None):
    """R(x^0) … R(x^L) and R(A^1) … R(A^L) for the logit `target`, from x^0 (n, d)."""
    family = module.config.model_type
    places = PLACES[family]

    def linear(owner, path):
        submodule = owner.get_submodule(path)
        return Linear(submodule.weight.detach().numpy(), submodule.bias.detach().numpy())

    def norm(owner, path):
        submodule = owner.get_submodule(path)
        return Norm(submodule.weight.detach().numpy(), submodule.bias.detach().numpy(), submodule.eps)

    n, heads = len(first_hidden), module.config.num_attention_heads
    is_global = np.isin(np.arange(n), global_tokens)
    near = np.ones((n, n), bool) if window is None else abs(np.subtract.outer(range(n), range(n))) <= window
    local = np.flatnonzero(~is_global)

    x, steps = first_hidden, []
    for layer in module.get_submodule(places["layers"]):
        names = [places[part] for part in ("query", "key", "value")]
        groups = [Attention(*(linear(layer, p) for p in names), heads, local, (near | is_global)[local])]
        if len(global_tokens):
            everywhere = np.ones((len(global_tokens), n), bool)
            own = (linear(layer, f"{p}_global") for p in names)
            groups.append(Attention(*own, heads, np.flatnonzero(is_global), everywhere))
        mixed = np.zeros_like(x)
        for group in groups:
            mixed[group.rows] = group.forward(x)
        output, wide, narrow = (linear(layer, places[p]) for p in ("output", "wide", "narrow"))
        first, second = norm(layer, places["first_norm"]), norm(layer, places["second_norm"])
        projected = output(mixed)
        y = first(projected + x)
        bent = wide(y) * (1 + erf(wide(y) / np.sqrt(2))) / 2
        steps.append((x, groups, mixed, output, projected, first, y, wide, bent, narrow, second))
        x = second(narrow(bent) + y)

    dense, final = (linear(module, path) for path in places["head"])
    pooled = np.maximum(dense(x[:1]), 0) if family == "distilbert" else np.tanh(dense(x[:1]))
    result = Reference(final(pooled)[0])
    seed = np.zeros_like(result.logits)
    seed[target] = result.logits[target] if rules == "attention_aware" else 1
    R = np.zeros_like(x)
    R[:1] = dense.back(final.back(seed[None], pooled, rules), x[:1], rules)
    result.hidden.append(R)
    for x, groups, mixed, output, projected, first, y, wide, bent, narrow, second in reversed(steps):
        fed = narrow(bent)
        R_fed, R_y = add_back(second.back(R, fed + y, rules), fed, y, rules)
        R_y = R_y + wide.back(narrow.back(R_fed, bent, rules), y, rules)
        R_projected, R = add_back(first.back(R_y, projected + x, rules), projected, x, rules)
        R_mixed = output.back(R_projected, mixed, rules)
        R_attention = np.zeros((heads, n, n))
        for group in groups:
            R_attention[:, group.rows], part = group.back(R_mixed[group.rows], rules)
            R = R + part
            result.absorbed += getattr(group, "absorbed", 0.0)
        result.hidden.insert(0, R)
        result.attentions.insert(0, R_attention)
    return result
