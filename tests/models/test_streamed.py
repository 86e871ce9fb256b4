"""Long documents of ModernBERT without kept weights: everything equals what the kept weights give."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightline.analysis.internals import inside
from sightline.analysis.relations import top_partners
from sightline.attention import BandedAttention, DenseAttention, StreamedAttention, streamed
from sightline.errors import SizeError
from sightline.methods.decomposition import block
from sightline.models import streamed_attention as streaming
from tests.tiny_models import tiny_ids, tiny_model, tiny_module

N = 23
METHODS = ["attcat", "rollout", "alti", "flow", "attgrads", "attention_gradcam", "lrp", "transatt", "raw_attention"]


@pytest.fixture
def short_limit(monkeypatch):
    """Stream from eight tokens on, a few rows at a time."""
    monkeypatch.setattr(streaming, "STREAMED_TOKENS", 8)
    monkeypatch.setattr(streamed, "CHUNK_BYTES", 4 * N * 8 * 5)


def traced(**options):
    model = tiny_model("modernbert", **options)
    trace = model.trace(model.encode(ids=tiny_ids("modernbert", N)), target=1)
    trace.require("attentions", "attention_gradients", "hidden_gradients")
    return trace


def test_layers_are_bands_and_streams(short_limit):
    kinds = [type(attention) for attention in traced().attentions]
    assert kinds == [StreamedAttention, BandedAttention, StreamedAttention]


def test_every_quantity_equals_that_of_kept_weights(short_limit):
    ours = traced()
    streamed_numbers = {
        name: getattr(ours, name) for name in ("logits", "received", "readout_rows", "gradient_received")
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "STREAMED_TOKENS", 10**6)
        kept = traced()
        for name, numbers in streamed_numbers.items():
            np.testing.assert_allclose(numbers, getattr(kept, name), atol=1e-12, err_msg=name)
        for layer in range(3):
            weights, gradients = kept.attentions[layer], kept.attention_gradients[layer]
            assert isinstance(weights, DenseAttention)
            np.testing.assert_allclose(ours.attentions[layer].dense(), weights.dense(), atol=1e-12)
            np.testing.assert_allclose(ours.attention_gradients[layer].dense(), gradients.dense(), atol=1e-12)
            np.testing.assert_allclose(ours.mean_attentions[layer].dense(), weights.mean().dense(), atol=1e-12)
            keep = np.arange(N) % 4 != 1
            pairs = zip(top_partners(ours.attentions[layer], 5, keep), top_partners(weights, 5, keep), strict=True)
            for mine, theirs in pairs:
                np.testing.assert_array_equal(mine.indices, theirs.indices)
        for mine, theirs in zip(ours.hidden_gradients, kept.hidden_gradients, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_scores_of_kept_weights(short_limit, method):
    model = tiny_model("modernbert")
    encoding = model.encode(ids=tiny_ids("modernbert", N))
    scores = model.explain(encoding, method, target=1).scores
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "STREAMED_TOKENS", 10**6)
        expected = model.explain(encoding, method, target=1).scores
    np.testing.assert_allclose(scores, expected, atol=1e-9)


def test_the_inside_is_that_of_kept_weights(short_limit):
    ours = inside(traced())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "STREAMED_TOKENS", 10**6)
        kept = inside(traced())
    np.testing.assert_allclose(ours.received, kept.received, atol=1e-6)
    np.testing.assert_allclose(ours.thumbnails, kept.thumbnails, atol=1e-6)
    assert ours.relations.keys() == kept.relations.keys()


def test_documents_of_a_batch_and_hidden_tokens_are_those_of_the_library(short_limit):
    model = tiny_model("modernbert", dtype=torch.float32)
    module = tiny_module("modernbert", dtype=torch.float32)
    encodings = [model.encode(ids=tiny_ids("modernbert", n, n)) for n in (9, 23, 17)]
    for encoding, logits in zip(encodings, model.network.run(encodings), strict=True):
        expected = module(torch.tensor([encoding.ids.tolist()])).logits[0].detach()
        np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    mask = torch.ones(1, 23, dtype=torch.long)
    mask[0, [4, 11]] = 0
    expected = module(torch.tensor([encodings[1].ids.tolist()]), attention_mask=mask).logits[0].detach()
    (logits,) = model.network.run([encodings[1]], hidden=[[4, 11]])
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_contributions_of_too_long_a_document_are_refused_in_words(short_limit, monkeypatch):
    monkeypatch.setattr(block, "DENSE_LIMIT", 1000)
    model = tiny_model("modernbert")
    with pytest.raises(SizeError, match=r"for 23 tokens: choose another method \(for example attcat or rollout\)"):
        model.explain(model.encode(ids=tiny_ids("modernbert", N)), "alti")


def test_the_mean_of_heads_is_computed_in_chunks_of_all_heads(short_limit):
    mean = traced().attentions[0].mean()
    sizes = [rows.shape[1] for _, rows in mean.chunks()]
    assert max(sizes) == 5


def test_decoders_keep_their_weights(short_limit):
    model = tiny_model("gpt2")
    trace = model.trace(model.encode(ids=tiny_ids("gpt2", N)))
    assert isinstance(trace.attentions[0], DenseAttention)
