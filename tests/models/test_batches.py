"""Many documents at once: batches waste little on padding, and no shortcut changes a logit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError, SizeError
from sightline.models.batching import batches_by_length
from tests.tiny_models import FAMILIES, SINGLE_PRECISION, tiny_ids, tiny_model, tiny_module

LENGTHS = (13, 5, 13, 9, 3, 12)


@given(
    lengths=st.lists(st.integers(1, 300), max_size=60),
    tokens=st.integers(1, 2000),
    enough=st.none() | st.integers(1, 2000),
)
def test_every_document_is_in_one_batch_and_batches_are_bounded(lengths, tokens, enough):
    batches = list(batches_by_length(lengths, tokens, enough))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= tokens


def test_a_batch_that_is_large_enough_takes_no_padding():
    lengths = [10] * 5 + [9] * 5 + [8] * 5
    assert [len(batch) for batch in batches_by_length(lengths, 4096)] == [15]
    assert [len(batch) for batch in batches_by_length(lengths, 4096, enough=50)] == [5, 6, 4]
    assert [len(batch) for batch in batches_by_length(lengths, 4096, enough=1)] == [5, 5, 5]


def test_a_batch_is_large_enough_at_fewer_tokens_when_the_layers_are_larger():
    small, large = tiny_model().network, tiny_model(intermediate_size=50_000).network
    assert small.worthwhile_tokens == 4096
    weights = sum(parameter.numel() for layer in large.layers for parameter in layer.parameters())
    assert large.worthwhile_tokens == int(2.5e9 / weights) + 1 < 4096


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_many_documents_equal_the_library_s_on_each(family):
    model = tiny_model(family)
    documents = [tiny_ids(family, n=n, seed=n) for n in LENGTHS]
    many = model.network.run_many([model.encode(ids=ids) for ids in documents])
    tolerance = 1e-5 if family in SINGLE_PRECISION else 1e-11
    for logits, ids in zip(many, documents, strict=True):
        mask = torch.ones(1, len(ids), dtype=torch.long)
        # A new module for each: after a short text, the library's BigBird reads longer ones with full attention too.
        expected = tiny_module(family)(torch.tensor([ids]), attention_mask=mask).logits[0]
        np.testing.assert_allclose(logits, expected.detach(), atol=tolerance)


def test_the_last_layer_is_cut_only_where_the_first_token_is_all_that_is_read():
    seen = []
    model = tiny_model("roberta")
    norm = model.network.layers[-1].get_submodule(model.network.family.output_norm)
    norm.register_forward_hook(lambda _module, _inputs, output: seen.append(output.shape[1]))
    encoding = model.encode(ids=tiny_ids("roberta", n=7))
    model.network.run([encoding, encoding])
    assert model.trace(encoding).hidden_states[-1].shape[0] == 7
    assert seen == [1, 7]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_twin_gives_the_same_logits_from_the_same_weights_and_has_hooks_of_its_own(family):
    network = tiny_model(family).network
    twin = network.twin()
    own, others = dict(network.module.named_parameters()), dict(twin.module.named_parameters())
    assert own.keys() == others.keys()
    assert all(own[name].data_ptr() == others[name].data_ptr() for name in own)
    model = tiny_model(family)
    encodings = [model.encode(ids=tiny_ids(family, n=n, seed=n)) for n in LENGTHS]
    heard = []
    network.module.get_input_embeddings().register_forward_hook(lambda *_: heard.append(1))
    theirs = twin.run_many(encodings)
    assert not heard
    for ours, other in zip(network.run_many(encodings), theirs, strict=True):
        assert torch.equal(ours, other)
    assert heard


def test_memory_that_runs_out_is_reported_in_a_sentence():
    model = tiny_model()
    hook = model.network.module.register_forward_pre_hook(lambda *_: torch.empty(2**52, dtype=torch.uint8) and None)
    with pytest.raises(SizeError, match="not enough memory to run the model .* on 11 tokens"):
        model.trace(model.encode(ids=tiny_ids())).logits  # noqa: B018 (a trace runs when it is read)
    hook.remove()


def test_token_types_that_the_model_does_not_know_are_refused():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids(n=5))
    encoding = replace(encoding, type_ids=np.array([0, 1, 2, 0, 0]))
    with pytest.raises(InputError, match="gives a token the type 2, and the model knows 2 types"):
        model.network.run([encoding])
