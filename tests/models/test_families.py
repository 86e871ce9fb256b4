"""Every family: same logits as the library, its attention and gradients captured, nothing left behind."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightline.errors import UnsupportedError
from sightline.models.families import FAMILIES as KNOWN
from sightline.models.families import family_of
from sightline.models.inputs import pad_inputs
from tests.tiny_models import DECODERS, DENSE_FAMILIES, FAMILIES, SINGLE_PRECISION, tiny_ids, tiny_model, tiny_module

DENSE_FACTS = {"big_bird": {"attention_type": "original_full"}}
"""Block-sparse attention has tests of its own (`test_block_sparse`)."""


def exactness(family: str) -> float:
    return 1e-5 if family in SINGLE_PRECISION else 1e-11


def library_pass(family: str, ids: list[int], target: int):
    """The library's own eager forward: logits, attentions (L, H, n, n) and their gradients for one class."""
    module = tiny_module(family, **DENSE_FACTS.get(family, {}))
    outputs = module(torch.tensor([ids]), output_attentions=True)
    for weights in outputs.attentions:
        weights.retain_grad()
    outputs.logits[0, target].backward()
    attentions = torch.stack([weights[0] for weights in outputs.attentions])
    gradients = torch.stack([weights.grad[0] for weights in outputs.attentions])
    return outputs.logits[0].detach().numpy(), attentions.detach().numpy(), gradients.numpy()


@pytest.mark.parametrize("family", DENSE_FAMILIES)
def test_logits_attention_and_its_gradient_equal_the_library_s(family):
    ids = tiny_ids(family, 13)
    logits, attentions, gradients = library_pass(family, ids, target=1)
    model = tiny_model(family, **DENSE_FACTS.get(family, {}))
    trace = model.trace(model.encode(ids=ids), target=1, quantity="logit")
    tolerance = exactness(family)
    np.testing.assert_allclose(trace.logits, logits, atol=tolerance)
    for layer in range(trace.layer_count):
        np.testing.assert_allclose(trace.attentions[layer].dense(), attentions[layer], atol=tolerance)
        seen = attentions[layer] != 0  # a sliding window forbids some pairs; their gradient means nothing
        np.testing.assert_allclose(
            trace.attention_gradients[layer].dense()[seen], gradients[layer][seen], atol=tolerance
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_float32_logits_equal_the_library_s(family):
    ids = tiny_ids(family, 13)
    expected = tiny_module(family, dtype=torch.float32)(torch.tensor([ids])).logits[0].detach().numpy()
    model = tiny_model(family, dtype=torch.float32)
    # Rounding errors of the tiny Mistral grow with its logits, which reach 3.3.
    scale = np.abs(expected).max() if family == "mistral" else 1.0
    np.testing.assert_allclose(model.trace(model.encode(ids=ids)).logits, expected, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("family", DECODERS)
def test_observed_decoders_compute_what_the_library_computes_bit_for_bit(family):
    ids = tiny_ids(family, 13)
    expected = tiny_module(family, dtype=torch.float32)(torch.tensor([ids])).logits[0].detach().numpy()
    model = tiny_model(family, dtype=torch.float32)
    trace = model.trace(model.encode(ids=ids))
    trace.require("attentions")
    np.testing.assert_array_equal(trace.logits, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_hidden_states_and_embedding_gradient_equal_the_library_s(family):
    ids = tiny_ids(family, 13)
    module = tiny_module(family)
    embedded = module.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
    extra = {"global_attention_mask": torch.eye(1, len(ids), dtype=torch.long)} if family == "longformer" else {}
    outputs = module(inputs_embeds=embedded, attention_mask=torch.ones(1, len(ids)), output_hidden_states=True, **extra)
    outputs.logits[0, 2].backward()
    model = tiny_model(family)
    trace = model.trace(model.encode(ids=ids), target=2, quantity="logit")
    tolerance = exactness(family)
    np.testing.assert_allclose(trace.embedding_gradient, embedded.grad[0].numpy(), atol=tolerance)
    last = len(outputs.hidden_states) - 1
    for layer, expected in enumerate(outputs.hidden_states):
        if family_of(family).pre_norm and layer == last:
            continue  # the library lists the last state after the final norm
        relative = tolerance if family in SINGLE_PRECISION else 1e-7
        np.testing.assert_allclose(
            trace.hidden_states[layer], expected[0].detach().numpy(), rtol=relative, atol=tolerance
        )


@pytest.mark.parametrize("attention", ["banded", "library"])
def test_both_longformer_implementations_show_the_same(attention):
    ids = tiny_ids("longformer", 21)
    model = tiny_model("longformer", attention=attention)
    other = tiny_model("longformer", attention="banded")
    encoding = model.encode(ids=ids, global_tokens=[0, 7])
    trace, expected = model.trace(encoding, target=1), other.trace(encoding, target=1)
    np.testing.assert_allclose(trace.logits, expected.logits, atol=1e-6)
    for layer in range(trace.layer_count):
        np.testing.assert_allclose(trace.attentions[layer].dense(), expected.attentions[layer].dense(), atol=1e-6)
        np.testing.assert_allclose(
            trace.attention_gradients[layer].dense(), expected.attention_gradients[layer].dense(), atol=1e-6
        )
        np.testing.assert_allclose(trace.input_gradients[layer], expected.input_gradients[layer], atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_comes_back_as_unpadded_single_documents(family):
    model = tiny_model(family)
    encodings = [model.encode(ids=tiny_ids(family, n, seed=n)) for n in (5, 17, 11)]
    batch = model.trace(encodings, target=1)
    for encoding, together in zip(encodings, batch, strict=True):
        alone = model.trace(encoding, target=1)
        np.testing.assert_allclose(together.logits, alone.logits, atol=1e-10)
        np.testing.assert_allclose(together.embedding_gradient, alone.embedding_gradient, atol=1e-10)
        for layer in range(alone.layer_count):
            np.testing.assert_allclose(together.hidden_states[layer], alone.hidden_states[layer], atol=1e-10)
            np.testing.assert_allclose(together.attentions[layer].dense(), alone.attentions[layer].dense(), atol=1e-10)
            np.testing.assert_allclose(
                together.attention_gradients[layer].dense(), alone.attention_gradients[layer].dense(), atol=1e-10
            )
    assert model.network.forward_passes >= 1


@pytest.mark.parametrize("family", FAMILIES)
def test_pad_tokens_inside_a_text_do_not_move_the_words_behind_them(family):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 9))
    changed = encoding.ids.copy()
    changed[3] = model.network.token_id("pad")
    plain, padded = (pad_inputs(model.network, [document]) for document in (encoding, encoding.replace_ids(changed)))
    assert torch.equal(plain["position_ids"], padded["position_ids"])
    assert torch.equal(plain["attention_mask"], padded["attention_mask"])


def test_an_unknown_family_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="'gpt_neos' are not supported.* all methods: albert, bert"):
        family_of("gpt_neos")


def test_every_known_family_has_a_tiny_model():
    # T5's encoder has no head for documents: test_t5.
    assert {name for name, family in KNOWN.items() if not family.single_attention} == {*FAMILIES, "t5", "mt5"}
