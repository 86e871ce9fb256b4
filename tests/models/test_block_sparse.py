"""BigBird's block-sparse attention against the library's, and its records against attention written out densely."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering

from sightline.api.load import load
from sightline.attention import BandedAttention, DenseAttention
from sightline.errors import ModelError
from sightline.models.block_sparse import BlockSparseSelfAttention, use_blocks
from tests.tiny_models import tiny_ids, tiny_model, tiny_module

FACTS = {"block_size": 4, "num_random_blocks": 2}
"""Sparse beyond 36 tokens."""
LENGTHS = [9, 36, 37, 41, 44, 70]


def library_logits(ids: list[int], **facts: object) -> np.ndarray:
    return tiny_module("big_bird", **{**FACTS, **facts})(torch.tensor([ids])).logits[0].detach().numpy()


def dense_attention(ids: list[int]) -> list[np.ndarray]:
    """Return A of every layer, computed one block of rows at a time from hidden states of the library's own encoder.

    Which keys a row reads, and how often, is written out as in the paper: the first block counts 1 + r times.
    """
    module = tiny_module("big_bird", **FACTS)
    hidden = module(torch.tensor([ids]), output_hidden_states=True).hidden_states
    b, r, n = FACTS["block_size"], FACTS["num_random_blocks"], len(ids)
    blocks = -(-n // b)
    copies = np.ones((n, n))
    if n > (5 + 2 * r) * b:
        for i in range(n):
            row = i // b
            if row in (0, blocks - 1):
                continue
            for j in range(n):
                near = abs(j // b - row) <= 1 or j // b in (0, blocks - 1)
                copies[i, j] = near + (r if j // b == 0 else 0)
    result = []
    for layer, x in zip(module.base_model.encoder.layer, hidden, strict=False):
        attention = layer.attention.self
        query, key = (
            projection(x[0, :n]).view(n, 4, -1).transpose(0, 1) for projection in (attention.query, attention.key)
        )
        scores = (query @ key.transpose(1, 2) / query.shape[-1] ** 0.5).detach().numpy()
        weights = copies * np.exp(scores - scores.max(-1, keepdims=True))
        result.append(weights / weights.sum(-1, keepdims=True))
    return result


@pytest.mark.parametrize("n", LENGTHS)
def test_logits_are_those_of_the_library(n):
    ids = tiny_ids("big_bird", n)
    model = tiny_model("big_bird", **FACTS)
    assert model.max_tokens == 130
    trace = model.trace(model.encode(ids=ids))
    np.testing.assert_allclose(trace.logits, library_logits(ids), atol=1e-11)


@pytest.mark.parametrize("n", LENGTHS)
def test_weights_are_those_of_a_dense_reconstruction(n):
    ids = tiny_ids("big_bird", n)
    model = tiny_model("big_bird", **FACTS)
    trace = model.trace(model.encode(ids=ids))
    for layer, expected in enumerate(dense_attention(ids)):
        attention = trace.attentions[layer]
        assert isinstance(attention, BandedAttention if n > 36 else DenseAttention)
        np.testing.assert_allclose(attention.dense(), expected, atol=1e-12)
        np.testing.assert_allclose(trace.received[layer], expected.sum(1), atol=1e-11)
        np.testing.assert_allclose(trace.readout_rows[layer], expected[:, 0], atol=1e-12)
        full = DenseAttention(expected, np.stack([attention.allowed(i) for i in range(n)]))
        for ours, theirs in (
            (attention.top_attended(7), full.top_attended(7)),
            (attention.top_attending(7), full.top_attending(7)),
        ):
            np.testing.assert_allclose(ours.values, theirs.values, atol=1e-12)


def test_every_row_sums_to_one_although_the_weights_of_the_library_do_not():
    ids = tiny_ids("big_bird", 41)
    model = tiny_model("big_bird", **FACTS)
    trace = model.trace(model.encode(ids=ids))
    np.testing.assert_allclose(trace.attentions[0].right(np.ones(41)), 1, atol=1e-12)
    returned = tiny_module("big_bird", **FACTS)(torch.tensor([ids]), output_attentions=True).attentions[0]
    assert float(returned[0, :, 4:40].detach().sum(-1).max()) < 1


@pytest.mark.parametrize("n", [12, 41])
def test_gradients_of_weights_are_those_of_finite_differences(n):
    """∂y/∂A = ⟨∂y/∂o, v⟩, and ∂y/∂o · o summed is what scaling the output of the attention changes."""
    model = tiny_model("big_bird", **FACTS)
    trace = model.trace(model.encode(ids=tiny_ids("big_bird", n)), target=1, quantity="logit")
    gradients = [np.asarray(layer.dense()) for layer in trace.attention_gradients]
    module = model.network.module
    for number, layer in enumerate(module.base_model.encoder.layer):
        attention = layer.attention.self

        def scale(_module, _args, output, factor=1.0):
            return output[0] * factor, None

        values = []
        for factor in (1 + 1e-6, 1 - 1e-6):
            handle = attention.register_forward_hook(lambda m, a, o, f=factor: scale(m, a, o, f))
            values.append(float(model.network.run([trace.encoding])[0][1]))
            handle.remove()
        slope = (values[0] - values[1]) / 2e-6
        weights = trace.attentions[number].dense()
        assert (gradients[number] * weights).sum() == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_attcat_is_the_sum_over_the_dense_attention():
    """AttCAT: the mean over heads of received attention times ⟨∂y/∂x, x⟩, summed over layers."""
    ids = tiny_ids("big_bird", 45)
    model = tiny_model("big_bird", **FACTS)
    encoding = model.encode(ids=ids)
    trace = model.trace(encoding, target=1)
    expected = np.zeros(45)
    for attention, x, gradient in zip(dense_attention(ids), trace.inputs, trace.input_gradients, strict=True):
        expected += attention.mean(0).mean(0) * (x * gradient).sum(-1)
    scores = model.explain(encoding, "attcat", target=1).scores
    np.testing.assert_allclose(scores / np.abs(scores).max(), expected / np.abs(expected).max(), atol=1e-9)


def test_rollout_is_the_product_of_the_dense_matrices():
    ids = tiny_ids("big_bird", 45)
    model = tiny_model("big_bird", **FACTS)
    row = np.eye(45)[0]
    for attention in reversed(dense_attention(ids)):
        mixed = 0.5 * attention.mean(0) + 0.5 * np.eye(45)
        row = row @ mixed
    np.testing.assert_allclose(model.explain(model.encode(ids=ids), "rollout").scores, row, atol=1e-11)


def test_a_document_of_a_batch_is_read_as_if_it_were_alone():
    model = tiny_model("big_bird", **FACTS)
    encodings = [model.encode(ids=tiny_ids("big_bird", n, n)) for n in (9, 38, 61)]
    together = model.network.run(encodings)
    for encoding, logits in zip(encodings, together, strict=True):
        np.testing.assert_allclose(logits, library_logits(encoding.ids.tolist()), atol=1e-11)


@pytest.mark.parametrize("n", [20, 41])
def test_hidden_tokens_are_those_of_an_attention_mask(n):
    ids = tiny_ids("big_bird", n)
    model = tiny_model("big_bird", **FACTS)
    mask = torch.ones(1, n, dtype=torch.long)
    mask[0, [3, 17]] = 0
    expected = tiny_module("big_bird", **FACTS)(torch.tensor([ids]), attention_mask=mask).logits[0].detach()
    (logits,) = model.network.run([model.encode(ids=ids)], hidden=[[3, 17]])
    np.testing.assert_allclose(logits, expected, atol=1e-11)


def test_full_attention_stays_full_and_answers_are_explained():
    ids = tiny_ids("big_bird", 60)
    model = tiny_model("big_bird", attention_type="original_full")
    trace = model.trace(model.encode(ids=ids))
    np.testing.assert_allclose(trace.logits, library_logits(ids, attention_type="original_full"), atol=1e-11)
    assert isinstance(trace.attentions[0], DenseAttention)
    answers = load(tiny_module("big_bird", auto=AutoModelForQuestionAnswering, num_labels=2, **FACTS))
    assert answers.explain(answers.encode(ids=ids), "attcat").scores.shape == (60,)


def test_a_library_that_chooses_other_random_blocks_is_noticed():
    module = tiny_module("big_bird", **FACTS)
    module.config.num_random_blocks = 1
    with pytest.raises(ModelError, match="random blocks may be chosen in another way"):
        use_blocks(module)


def test_loading_twice_replaces_the_attention_once():
    module = load(tiny_module("big_bird", **FACTS)).network.module
    attention = load(module).network.module.base_model.encoder.layer[0].attention.self
    assert isinstance(attention, BlockSparseSelfAttention)
    assert type(attention.query) is torch.nn.Linear
