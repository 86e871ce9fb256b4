"""Sparse projections in the heads of Transformers: dense and on the band against brute force, with gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sightline as sl
from sightline.attention.projections import Projection
from sightline.errors import ModelError, UnsupportedError, UsageError
from sightline.methods.applicability import RELEVANCE
from sightline.models.longformer.band_kernel import BandPlan, window_attention
from tests.tiny_models import tiny_ids, tiny_model, tiny_module

NAMES = ("softmax", "sparsemax", "entmax15", "entmax1.3", "sparsegen0.4")


def band(tokens=13, window=3, name="softmax", block_rows=5):
    masked = torch.zeros(tokens, dtype=torch.bool)
    masked[7] = True
    plan = BandPlan.make(
        torch.tensor([0, 4]), masked, window, torch.float64, block_rows, projection=Projection.named(name)
    )
    generator = torch.Generator().manual_seed(1)
    return plan, [2 * torch.randn(tokens, 2, 4, generator=generator, dtype=torch.float64) for _ in range(3)]


def dense_rows(plan, query, key, value, keep=None):
    """Window rows by the full matrix: (n, H, e)."""
    n = plan.tokens
    scores = torch.einsum("ihe,jhe->hij", query, key) / query.shape[-1] ** 0.5
    places = torch.arange(n)
    is_global = torch.isin(places, plan.global_tokens)
    near = (places[:, None] - places[None, :]).abs() <= plan.window
    allowed = (near | is_global[None, :]) & ~plan.masked[None, :]
    blank = is_global | plan.masked
    allowed[blank] = True
    weights = plan.projection(scores.masked_fill(~allowed, -torch.inf))
    output = torch.einsum("hij,jhe->ihe", weights, value)
    return output.masked_fill(blank[:, None, None], 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_band_equals_the_full_matrix(name):
    plan, tensors = band(name=name)
    leaves = [[tensor.clone().requires_grad_() for tensor in tensors] for _ in range(2)]
    on_band, expected = window_attention(*leaves[0], [plan]), dense_rows(plan, *leaves[1])
    torch.testing.assert_close(on_band, expected, rtol=0, atol=1e-11)
    weights = torch.randn(on_band.shape, generator=torch.Generator().manual_seed(2), dtype=on_band.dtype)
    gradients = [
        torch.autograd.grad(output, own, weights) for output, own in ((on_band, leaves[0]), (expected, leaves[1]))
    ]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dropout", [0.0, pytest.param(0.4, marks=pytest.mark.slow)])
def test_gradients_on_the_band_are_those_of_finite_differences(name, dropout):
    plan, tensors = band(tokens=9, window=2, name=name)

    def run(*inputs):
        torch.manual_seed(3)  # the same weights are dropped at every call
        return window_attention(*inputs, [plan], dropout)

    with torch.random.fork_rng(devices=[]):
        assert torch.autograd.gradcheck(run, [tensor.clone().requires_grad_() for tensor in tensors])


def test_dropout_keeps_the_mean_and_differs_between_calls():
    plan, tensors = band()
    whole = window_attention(*tensors, [plan])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        runs = torch.stack([window_attention(*tensors, [plan], 0.3) for _ in range(2000)])
    assert not torch.equal(runs[0], runs[1])
    torch.testing.assert_close(runs.mean(dim=0), whole, rtol=0, atol=0.2)


@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer"])
@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_heads_of_a_model_use_the_projection(family, name):
    module = tiny_module(family)
    module.config.attention_projection = name
    model = sl.load(module)
    plain = tiny_model(family)
    ids = tiny_ids(family, 13)
    trace = model.trace(model.encode(ids=ids), target=1)
    for attention in trace.attentions:
        np.testing.assert_allclose(attention.dense().sum(-1), 1, atol=1e-9)
    assert (trace.attentions[0].dense()[..., 1:, :] == 0).mean() > (
        plain.trace(plain.encode(ids=ids)).attentions[0].dense()[..., 1:, :] == 0
    ).mean()
    # One pass that records and one that does not compute the same.
    np.testing.assert_allclose(model.network.run([model.encode(ids=ids)])[0].numpy(), trace.logits, atol=1e-9)


def test_the_gradient_through_sparse_heads_is_that_of_finite_differences():
    for family in ("bert", "longformer"):
        module = tiny_module(family, num_hidden_layers=2)
        module.config.attention_projection = "entmax15"
        model = sl.load(module)
        trace = model.trace(model.encode(ids=tiny_ids(family, 9)), target=1, quantity="logit")
        points = torch.from_numpy(trace.embeddings)[None]
        step = 1e-6 * torch.randn(points.shape, generator=torch.Generator().manual_seed(0), dtype=points.dtype)
        up, down = (float(model.network.run([trace.encoding], given={"word": points + s})[0][1]) for s in (step, -step))
        expected = float((torch.from_numpy(trace.embedding_gradient) * step[0]).sum())
        assert (up - down) / 2 == pytest.approx(expected, rel=1e-4)


def test_a_converted_folder_keeps_its_projection_and_trains(tmp_path):
    tiny_module("bert", dtype=torch.float32).save_pretrained(tmp_path / "bert")
    conversion = sl.lab.convert(tmp_path / "bert", "same", out=tmp_path / "sparse", attention="entmax15")
    assert (conversion.attention, conversion.difference) == ("entmax15", None)
    model = sl.load(tmp_path / "sparse")
    assert model.network.config.attention_projection == "entmax15"
    long = sl.lab.convert(tmp_path / "bert", out=tmp_path / "long", positions=200, window=16, attention="sparsemax")
    model = sl.load(long.folder)
    attention = model.trace(model.encode(ids=tiny_ids("bert", 60))).attentions[0]
    assert (attention.row(30) == 0).any()


def test_a_sparse_model_becomes_a_longformer_with_the_same_sparse_heads(tmp_path):
    tiny_module("bert", dtype=torch.float32).save_pretrained(tmp_path / "bert")
    sl.lab.convert(tmp_path / "bert", "same", out=tmp_path / "sparse", attention="entmax15")
    long = sl.lab.convert(tmp_path / "sparse", out=tmp_path / "long", positions=200, window=16)
    assert long.attention == "entmax15"
    assert long.difference < 1e-5
    assert sl.load(long.folder).network.config.attention_projection == "entmax15"
    back = sl.lab.convert(tmp_path / "sparse", "same", out=tmp_path / "back", attention="softmax")
    ids = tiny_ids("bert", 20)
    first, second = (sl.load(folder) for folder in (tmp_path / "bert", back.folder))
    np.testing.assert_array_equal(
        first.trace(first.encode(ids=ids)).logits, second.trace(second.encode(ids=ids)).logits
    )


@pytest.mark.parametrize("attention", [None, "softmax"])
def test_a_conversion_that_would_change_nothing_is_refused(attention, tmp_path):
    tiny_module("bert", dtype=torch.float32).save_pretrained(tmp_path / "bert")
    with pytest.raises(UsageError, match="use softmax already"):
        sl.lab.convert(tmp_path / "bert", "same", out=tmp_path / "sparse", attention=attention)
    assert not (tmp_path / "sparse").exists()


def test_what_cannot_run_with_sparse_heads_says_so():
    module = tiny_module("bert")
    module.config.attention_projection = "entmax15"
    model = sl.load(module)
    encoding = model.encode(ids=tiny_ids("bert"))
    for name in RELEVANCE:
        with pytest.raises(UnsupportedError, match="sparse"):
            model.explain(encoding, name)
    module = tiny_module("longformer")
    module.config.attention_projection = "entmax15"
    with pytest.raises((ModelError, UnsupportedError), match="banded"):
        sl.load(module, attention="library")


def test_training_on_the_band_follows_the_library(tmp_path):
    """The same steps with the library's attention and with ours, without dropout: the same losses."""
    from sightline.models.longformer.encoder import use_banded

    losses = {}
    for banded in (False, True):
        module = tiny_module(
            "longformer", dtype=torch.float32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        module.train()
        if banded:
            use_banded(module)
        optimiser = torch.optim.AdamW(module.parameters(), lr=1e-3)
        losses[banded] = []
        for number in range(6):
            ids = torch.tensor([tiny_ids("longformer", 40, seed=number), tiny_ids("longformer", 40, seed=number + 50)])
            loss = module(ids, labels=torch.tensor([number % 3, 0])).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses[banded].append(loss.item())
    np.testing.assert_allclose(losses[True], losses[False], atol=1e-3)


def test_attention_dropout_is_active_in_training_only():
    from sightline.models.longformer.encoder import use_banded

    module = tiny_module("longformer", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5)
    use_banded(module)
    ids = torch.tensor([tiny_ids("longformer", 30)])
    with torch.random.fork_rng(devices=[]):
        assert torch.equal(module(ids).logits, module(ids).logits)
        module.train()
        assert not torch.equal(module(ids).logits, module(ids).logits)
