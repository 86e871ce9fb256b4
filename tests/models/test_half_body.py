"""A copy whose body computes in bfloat16: where there is one, how close it is, and that checks report exact numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightline.api.load import load
from sightline.metrics import check
from sightline.models import half_body
from sightline.models.half_body import bfloat16_copy
from sightline.models.network import Network
from tests.tiny_models import tiny_module

FAMILIES = ("bert", "distilbert", "roberta", "longformer", "modernbert", "deberta-v2", "gpt2")


def single(family="bert"):
    return load(tiny_module(family, dtype=torch.float32))


@pytest.fixture
def capable(monkeypatch):
    """A processor with the instructions, on which every document is long enough."""
    monkeypatch.setattr(half_body, "has_bfloat16", lambda: True)
    monkeypatch.setattr(Network, "worthwhile_tokens", 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_copy_is_close_and_leaves_the_network_as_it_was(family, capable):
    model = single(family)
    network = model.network
    before = network.weights_hash
    encoding = model.encode(ids=[*range(3, 30)])
    copied = bfloat16_copy(network, len(encoding))
    assert copied.module.base_model.dtype == torch.bfloat16
    (exact,), (rough,) = network.run([encoding]), copied.run([encoding])
    assert rough.dtype == torch.float32
    assert 0 < float((exact - rough).abs().max()) < 0.05
    assert network.weights_hash == before
    assert network.dtype == torch.float32


def test_there_is_no_copy_where_it_would_gain_nothing(monkeypatch):
    network = single().network
    monkeypatch.setattr(half_body, "has_bfloat16", lambda: True)
    assert bfloat16_copy(network, network.worthwhile_tokens - 1) is None
    assert bfloat16_copy(network, network.worthwhile_tokens) is not None
    assert bfloat16_copy(network.in_double(), network.worthwhile_tokens) is None
    monkeypatch.setattr(half_body, "has_bfloat16", lambda: False)
    assert bfloat16_copy(network, network.worthwhile_tokens) is None


@pytest.mark.parametrize(("limit", "is_used"), [(1e9, True), (0.0, False)])
def test_a_check_in_bfloat16_reports_exact_numbers_and_says_what_it_used(monkeypatch, capable, limit, is_used):
    monkeypatch.setattr(check, "LARGEST_ROUNDING", limit)
    model = single()
    exp = model.explain(model.encode(ids=[*range(3, 60)]), "gradient", check=True)
    again = model.check(exp)
    for checked in (exp, again):
        assert checked.provenance.get("check_dtype") == ("bfloat16" if is_used else None)
        assert ("check_rounding" in checked.provenance) == is_used
    for count, reading in zip(exp.check.counts, exp.check.without, strict=True):
        order = np.argsort([-word.score for word in exp.words()], kind="stable")[:count]
        tokens = [position for place in order for position in exp.words()[place].tokens]
        (logits,) = model.network.run([exp.encoding.drop(tokens)])
        values = logits.double().numpy()
        rest = np.logaddexp.reduce(np.delete(values, exp.target.index))
        assert reading.value == pytest.approx(values[exp.target.index] - rest, abs=1e-5)


def test_a_label_that_only_rounding_changed_is_not_reported(monkeypatch, capable):
    """With a copy that says the opposite of what it read, the set must still change the label of the model itself."""

    def contradict(network, tokens):
        copied = bfloat16_copy(network, tokens)
        whole = []

        def turn(_head, _inputs, logits):
            whole.append(logits)
            return logits if len(whole) == 1 else logits.flip(-1)

        copied.module.classifier.register_forward_hook(turn)
        return copied

    monkeypatch.setattr(check, "LARGEST_ROUNDING", 1e9)
    monkeypatch.setattr(check, "bfloat16_copy", contradict)
    model = single()
    exp = model.explain(model.encode(ids=[*range(3, 60)]), "gradient", check=True)
    found = exp.check.smallest_set
    assert exp.check.label_changed
    assert found is None or found.label != exp.check.whole.label
