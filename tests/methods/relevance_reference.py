"""Relevance propagation through a post-LN encoder written out by hand in numpy: dense, without ε, without autograd.

Serves BERT-like models, DistilBERT, Longformer (whose band is a mask here and whose global rows are dense rows),
BigBird (likewise, with keys that occur several times), MPNet (constants in the scores) and DeBERTa (products with
positions).
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
        for family in ("bert", "roberta", "longformer", "big_bird")
    },
}
PLACES["big_bird"]["layers"] = "bert.encoder.layer"
PLACES["mpnet"] = {
    **PLACES["roberta"],
    "layers": "mpnet.encoder.layer",
    **{name: f"attention.attn.{name[0]}" for name in ("query", "key", "value", "output")},
    "first_norm": "attention.LayerNorm",
}
PLACES["deberta-v2"] = {
    **PLACES["bert"],
    "layers": "deberta.encoder.layer",
    **{name: f"attention.self.{name}_proj" for name in ("query", "key", "value")},
    "head": ("pooler.dense", "classifier"),
}


def gelu(z):
    return z * (1 + erf(z / np.sqrt(2))) / 2


def gelu_new(z):
    return z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2


HEAD_ACTIVATIONS = {"distilbert": lambda z: np.maximum(z, 0), "deberta-v2": gelu, "big_bird": gelu_new}
"""Where it is not tanh."""


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
    bias: np.ndarray | float = 0.0
    """Added to the scores. Positive rules give it nothing; of the constant term of softmax it takes its part."""

    def forward(self, x):
        self.x = x
        self.q, self.k, self.v = (self.split(project(x)) for project in (self.query, self.key, self.value))
        self.q = self.q[:, self.rows]
        self.scores = self.score()
        self.A = softmax(np.where(self.allowed, self.scores + self.bias, -np.inf), axis=-1)
        return self.join(self.A @ self.v)

    def score(self):
        return self.q @ self.k.transpose(0, 2, 1) / np.sqrt(self.q.shape[-1])

    def back(self, R, rules):
        R_A, R_v = product_back(self.split(R), self.A, self.v)
        R_scores = R_A
        if rules == "attention_aware":
            R_scores = self.scores * (R_A - self.A * R_A.sum(-1, keepdims=True))
            self.absorbed = R_A.sum() - R_scores.sum()
        R_q_rows, R_k = self.score_back(R_scores, rules)
        R_q = np.zeros_like(self.v)
        R_q[:, self.rows] = R_q_rows
        parts = zip((self.query, self.key, self.value), (R_q, R_k, R_v), strict=True)
        return R_A, sum(project.back(self.join(part), self.x, rules) for project, part in parts)

    def score_back(self, R, rules):
        R_q, R_k = product_back(R, self.q, self.k.transpose(0, 2, 1))
        return R_q, R_k.transpose(0, 2, 1)

    def split(self, rows):
        return rows.reshape(len(rows), self.heads, -1).transpose(1, 0, 2)

    def join(self, heads):
        return heads.transpose(1, 0, 2).reshape(heads.shape[1], -1)


@dataclass
class Disentangled(Attention):
    """DeBERTa: s_ij = (q_i·k_j + q_i·P_δ(i,j) + k_j·Q_δ(i,j)) / √(3e), P and Q being keys and queries of distances."""

    positions: np.ndarray = None
    """Vectors of distances (2·span, d)."""
    distance: np.ndarray = None
    """δ (n, n), which of them."""

    def score(self):
        self.position_key, self.position_query = (self.split(map_(self.positions)) for map_ in (self.key, self.query))
        scale = float(np.sqrt(np.float32(3 * self.q.shape[-1])))  # the library's root has single precision
        i, j = np.indices(self.distance.shape)
        self.content = self.q @ self.k.transpose(0, 2, 1) / scale
        self.from_query = (self.q @ self.position_key.transpose(0, 2, 1))[:, i, self.distance] / scale
        self.from_key = (self.k @ self.position_query.transpose(0, 2, 1))[:, j, self.distance] / scale
        return self.content + self.from_query + self.from_key

    def score_back(self, R, rules):
        R_content, R_position = add_back(R, self.content, self.from_query + self.from_key, rules)
        R_from_query, R_from_key = add_back(R_position, self.from_query, self.from_key, rules)
        R_q, R_k = super().score_back(R_content, rules)
        for head in range(self.heads):
            at_query, at_key = np.zeros((2, len(self.distance), len(self.positions)))
            i, j = np.indices(self.distance.shape)
            np.add.at(at_query, (i, self.distance), R_from_query[head])
            np.add.at(at_key, (j, self.distance), R_from_key[head])
            R_q[head] += Linear(self.position_key[head], 0.0).back(at_query, self.q[head], rules)
            R_k[head] += Linear(self.position_query[head], 0.0).back(at_key, self.k[head], rules)
        return R_q, R_k


def log_distances(n, buckets, longest):
    """δ(i, j) of n tokens: near distances as they are, far ones in buckets of growing width, shifted to begin at 0."""
    far = buckets // 2
    distance = np.subtract.outer(np.arange(n), np.arange(n))
    steps = np.ceil(np.log(np.maximum(np.abs(distance), far) / far) / np.log((longest - 1) / far) * (far - 1)) + far
    return np.where(np.abs(distance) <= far, distance, steps * np.sign(distance)).astype(int) + buckets


@dataclass
class Reference:
    logits: np.ndarray
    hidden: list = field(default_factory=list)
    attentions: list = field(default_factory=list)
    absorbed: float = 0.0
    """By the constant terms of softmax."""


def reference(module, first_hidden, target, rules, global_tokens=(), window=None, bias=0.0):
    """R(x^0) … R(x^L) and R(A^1) … R(A^L) for the logit `target`, from x^0 (n, d).

    `bias` is added to the scores: those of positions, -∞ at pairs that do not attend, log c for a key that occurs c
    times.
    """
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
    if family == "deberta-v2":
        vectors = module.deberta.encoder.get_rel_embedding().detach().numpy()
        distance = log_distances(n, module.config.position_buckets, module.config.max_position_embeddings)

    x, steps = first_hidden, []
    for layer in module.get_submodule(places["layers"]):
        names = [places[part] for part in ("query", "key", "value")]
        projections = [linear(layer, p) for p in names]
        if family == "deberta-v2":
            groups = [Disentangled(*projections, heads, local, near, positions=vectors, distance=distance)]
        else:
            groups = [Attention(*projections, heads, local, (near | is_global)[local], bias)]
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
        bent = (gelu_new if family == "big_bird" else gelu)(wide(y))
        steps.append((x, groups, mixed, output, projected, first, y, wide, bent, narrow, second))
        x = second(narrow(bent) + y)

    dense, final = (linear(module, path) for path in places["head"])
    pooled = HEAD_ACTIVATIONS.get(family, np.tanh)(dense(x[:1]))
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
