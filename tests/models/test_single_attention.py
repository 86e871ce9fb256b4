"""Models with a single attention: their arithmetic by hand, and every public door that a Transformer has."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sightline as sl
from sightline.errors import OptionError, UnsupportedError
from sightline.methods import METHODS
from sightline.methods.applicability import TOKEN_TO_TOKEN
from sightline.models.single_attention import (
    BilstmAttentionConfig,
    BilstmAttentionForSequenceClassification,
    TransformerAttentionConfig,
    TransformerAttentionForSequenceClassification,
)
from tests.contract.test_contract import QUICK

CLASSES = {
    "bilstm-attention": (BilstmAttentionConfig, BilstmAttentionForSequenceClassification),
    "transformer-attention": (TransformerAttentionConfig, TransformerAttentionForSequenceClassification),
}
FIRST, LAST = 101, 102


def tiny_single(family="bilstm-attention", *, seed=0, dtype=torch.float64, **facts):
    """A random model of one family with marks that get no weight."""
    config_class, model_class = CLASSES[family]
    sizes = {"vocab_size": 128, "hidden_size": 16, "num_labels": 3, "unattended_ids": [FIRST, LAST]}
    if family == "bilstm-attention":
        sizes["embedding_size"] = 12
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = model_class(config_class(**{**sizes, **facts}))
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(2)
    return module.to(dtype).eval()


def ids_of(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [FIRST, *torch.randint(10, 100, (n - 2,), generator=generator).tolist(), LAST][:n]


@pytest.fixture(scope="module", params=CLASSES)
def model(request):
    return sl.load(tiny_single(request.param))


@pytest.mark.parametrize("projection", ["softmax", "sparsemax", "entmax15", "sparsegen0.5"])
@pytest.mark.parametrize("scoring", ["additive", "dot"])
def test_logits_and_weights_by_hand(scoring, projection):
    module = tiny_single(scoring=scoring, projection=projection)
    ids = torch.tensor([ids_of(9)])
    state = module.state_dict()
    with torch.no_grad():
        hidden = module.model.encoder.rnn(module.model.embeddings(ids))[0][0]
        query = state["model.attention.query.weight"][0]
        if scoring == "additive":
            dense = torch.tanh(hidden @ state["model.attention.dense.weight"].T + state["model.attention.dense.bias"])
            scores = dense @ query
        else:
            scores = hidden @ query / hidden.shape[-1] ** 0.5
        kind = projection.rstrip("0123456789.")
        weights = torch.zeros(9, dtype=torch.float64)
        weights[1:-1] = sl.lab.project(scores[1:-1], kind, lam=0.5)
        expected = state["classifier.weight"] @ (weights @ hidden) + state["classifier.bias"]
    model = sl.load(module)
    trace = model.trace(model.encode(ids=ids[0].tolist()))
    np.testing.assert_allclose(trace.logits, expected, atol=1e-12)
    np.testing.assert_allclose(trace.attentions[0].row(4)[0], weights, atol=1e-12)
    by_method = model.explain(model.encode(ids=ids[0].tolist()), "raw_attention").scores
    np.testing.assert_allclose(by_method, weights, atol=1e-12)


def test_the_gradient_of_the_weights_is_that_of_finite_differences(model):
    encoding = model.encode(ids=ids_of(7))
    trace = model.trace(encoding, target=1, quantity="logit")
    module = model.network.module
    with torch.no_grad():
        hidden, attended = module.model.encode(torch.tensor([encoding.ids.tolist()]), None)
        weights = module.model.attention.weights(hidden, attended)
        step = 1e-6 * torch.eye(7, dtype=torch.float64)
        up, down = (module.decode(((weights + s)[:, :, None] * hidden).sum(1))[:, 1] for s in (step, -step))
    np.testing.assert_allclose(trace.attention_gradients[0].row(0)[0], (up - down).numpy() / 2e-6, atol=1e-7)


def test_a_saved_folder_loads_again(tmp_path):
    for family in CLASSES:
        module = tiny_single(family, dtype=torch.float32, projection="entmax15")
        module.save_pretrained(tmp_path / family)
        loaded = sl.load(tmp_path / family)
        expected = module(torch.tensor([ids_of(8)])).logits[0].detach().numpy()
        np.testing.assert_allclose(loaded.trace(loaded.encode(ids=ids_of(8))).logits, expected, rtol=1e-5, atol=1e-6)
        assert loaded.network.config.projection == "entmax15"


def test_padding_and_batches_change_nothing(model):
    encodings = [model.encode(ids=ids_of(n, seed=n)) for n in (4, 9, 6)]
    for encoding, together in zip(encodings, model.trace(encodings, target=2), strict=True):
        alone = model.trace(encoding, target=2)
        np.testing.assert_allclose(together.logits, alone.logits, atol=1e-12)
        np.testing.assert_allclose(together.embedding_gradient, alone.embedding_gradient, atol=1e-12)
        np.testing.assert_allclose(together.attentions[0].row(0), alone.attentions[0].row(0), atol=1e-12)


@pytest.mark.parametrize("name", METHODS.names())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_method_applies_or_says_why_not_before_anything_runs(model, name):
    encoding = model.encode(ids=ids_of(8))
    passes = model.network.forward_passes
    if name in TOKEN_TO_TOKEN:
        with pytest.raises(UnsupportedError, match=rf"'{name}' follows attention from token to token"):
            model.explain(encoding, name)
        assert model.network.forward_passes == passes
        return
    explanation = model.explain(encoding, name, target=1, **QUICK.get(name, {}))
    assert explanation.scores.shape == (8,)
    assert np.isfinite(explanation.scores).all()
    assert model.explain(encoding, name, target=1, **QUICK.get(name, {})).scores.tolist() == explanation.scores.tolist()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("ids", [[FIRST], [FIRST, LAST], [17], [0, 0]])
def test_documents_of_nothing_but_marks_or_pads_are_read(model, ids):
    explanation = model.explain(model.encode(ids=ids), "raw_attention")
    assert explanation.scores.sum() == pytest.approx(1)


def test_integrated_gradients_are_complete(model):
    encoding = model.encode(ids=ids_of(8))
    assert abs(model.explain(encoding, "integrated_gradients", target=0).checks["completeness_gap"]) < 0.02


def test_head_importance_says_that_there_are_no_heads(model):
    with pytest.raises(UnsupportedError, match="single attention"):
        sl.analysis.head_importance(model, [model.encode(ids=ids_of(6))])


def test_configs_with_impossible_values_are_refused():
    with pytest.raises(OptionError, match="Unknown scoring 'cosine'"):
        BilstmAttentionConfig(scoring="cosine")
    with pytest.raises(OptionError, match="alpha >= 1"):
        BilstmAttentionConfig(projection="entmax0.5")
    with pytest.raises(OptionError, match="lam < 1"):
        BilstmAttentionConfig(projection="sparsegen1.0")
    with pytest.raises(OptionError, match="cannot be divided among 3 heads"):
        TransformerAttentionConfig(hidden_size=16, encoder_heads=3)


def test_gpt2_blocks_without_mask_see_what_comes_later():
    from tests.tiny_models import tiny_ids, tiny_model

    model = tiny_model("bidirectional-gpt2")
    ids = tiny_ids("bidirectional-gpt2", 8)
    trace = model.trace(model.encode(ids=ids))
    assert (trace.attentions[0].dense() > 0).all()
    changed = model.trace(model.encode(ids=[*ids[:-1], 55]))
    assert not np.allclose(trace.logits, changed.logits)
