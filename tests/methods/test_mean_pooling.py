"""Methods that follow attention, on a head that averages all rows: each against a computation by hand in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightline.api.load import load
from sightline.methods.relevance.mode import propagate
from sightline.methods.relevance.rules import RULE_SETS
from tests.models.test_tasks import MeanPooled
from tests.tiny_models import randomise, tiny_ids, tiny_module

N = 9
LAYERS = 3


@pytest.fixture(scope="module")
def pooled():
    """A mean-pooled classifier, loaded, and the passes that the library's own encoder makes."""
    config = tiny_module().config
    module = randomise(MeanPooled(config)).double()
    ids = tiny_ids(n=N)
    library = randomise(MeanPooled(config)).double()
    library.config._attn_implementation = "eager"
    outputs = library.bert(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
    model = load(module, task="sequence_classification")
    return model, model.encode(ids=ids), library.bert.encoder.layer, outputs


def attentions(outputs) -> list[np.ndarray]:
    return [weights[0].detach().numpy() for weights in outputs.attentions]


def from_every_row(matrices: list[np.ndarray]) -> np.ndarray:
    """The mean over all rows of M^L ⋯ M^1, written out as a matrix product."""
    product = np.eye(N)
    for matrix in matrices:
        product = matrix @ product
    return product.mean(0)


def test_raw_attention_is_the_mean_of_all_rows(pooled):
    model, encoding, _, outputs = pooled
    for layer in range(LAYERS):
        scores = model.explain(encoding, "raw_attention", layer=layer).scores
        np.testing.assert_allclose(scores, attentions(outputs)[layer].mean((0, 1)), atol=1e-12)


def test_rollout_starts_from_every_row(pooled):
    model, encoding, _, outputs = pooled
    matrices = [0.5 * weights.mean(0) + 0.5 * np.eye(N) for weights in attentions(outputs)]
    scores = model.explain(encoding, "rollout").scores
    np.testing.assert_allclose(scores, from_every_row(matrices), atol=1e-12)
    assert np.abs(scores - model.trace(encoding).mean_attentions[0].dense()[0, 0]).max() > 1e-3


def contributions_by_hand(layer, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """c_ij = max(0, ‖y_i‖₁ - ‖y_i - T_ij‖₁), rows divided by their sums, one vector at a time."""
    attention, block = layer.attention.self, layer.attention.output
    heads, n, _ = weights.shape
    value = attention.value(torch.from_numpy(x)).detach().numpy().reshape(n, heads, -1)
    projection = block.dense.weight.detach().numpy()
    gain, shift = (tensor.detach().numpy() for tensor in (block.LayerNorm.weight, block.LayerNorm.bias))
    by_head = projection.reshape(len(projection), heads, -1)
    table = np.zeros((n, n))
    for i in range(n):
        vectors = np.zeros((n, len(projection)))
        for j in range(n):
            for h in range(heads):
                vectors[j] += weights[h, i, j] * by_head[:, h] @ value[j, h]
        vectors[i] += x[i]
        received = vectors.sum(0) + block.dense.bias.detach().numpy()
        deviation = np.sqrt(received.var() + block.LayerNorm.eps)
        output = gain * (received - received.mean()) / deviation + shift
        for j in range(n):
            transformed = gain * (vectors[j] - vectors[j].mean()) / deviation
            table[i, j] = max(0.0, np.abs(output).sum() - np.abs(output - transformed).sum())
    return table / table.sum(1, keepdims=True)


def test_alti_starts_from_every_row(pooled):
    model, encoding, layers, outputs = pooled
    hidden = [states[0].detach().numpy() for states in outputs.hidden_states]
    tables = [
        contributions_by_hand(layer, x, weights)
        for layer, x, weights in zip(layers, hidden, attentions(outputs), strict=False)
    ]
    np.testing.assert_allclose(model.explain(encoding, "alti").scores, from_every_row(tables), atol=1e-10)


def test_transatt_starts_from_every_row(pooled):
    """From the relevances and gradients of the weights, which have tests of their own."""
    model, encoding, _, _ = pooled
    trace = model.trace(encoding, target=1)
    trace.require("attention_gradients", "attention_relevance")
    relevance = propagate(trace, RULE_SETS["positive"], whole_attention=True)
    relevances = [np.asarray(whole.dense()) for (whole,) in relevance.attentions]
    gradients = [np.asarray(layer.dense()) for layer in trace.attention_gradients]
    matrices = []
    for weights, gradient in zip(relevances, gradients, strict=True):
        matrix = np.maximum(weights * gradient, 0).mean(0) + np.eye(N)
        matrices.append(matrix / matrix.sum(1, keepdims=True))
    scores = model.explain(encoding, "transatt", target=1).scores
    np.testing.assert_allclose(scores, from_every_row(matrices), atol=1e-12)
