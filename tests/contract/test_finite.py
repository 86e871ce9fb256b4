"""No NaN leaves a method: whatever the weights, however short the document, scores are finite or a sentence says why.

Random tiny models of two layers, their weights scaled from a thousandth to a thousand, with parts put to zero or made
constant: nothing but zeros, zero LayerNorm gains, one embedding for all words, a head that says nothing, no attention.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.api.load import load
from sightline.errors import SightlineError
from sightline.methods import METHODS
from tests.contract.test_contract import QUICK
from tests.tiny_models import FIRST_AND_LAST, tiny_ids, tiny_module

pytestmark = pytest.mark.slow

DAMAGES = ("none", "all_zero", "zero_gains", "constant_embeddings", "silent_head", "zero_attention")
# How the families call these parts.
EMBEDDINGS, ATTENTION, HEADS = ("embeddings", "wte", "wpe"), ("attention", "attn."), ("classifier", "head", "score")


def damaged_model(family, damage, scale, dtype, seed):
    """A random model with every weight matrix multiplied by `scale` and one thing put to an extreme."""
    module = tiny_module(family, seed=seed, dtype=dtype, num_hidden_layers=2)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            is_gain = parameter.ndim == 1 and name.endswith("weight")
            if not is_gain:
                parameter.mul_(scale)
            if damage == "all_zero" or (damage == "zero_gains" and is_gain):
                parameter.zero_()
            if damage == "constant_embeddings" and any(part in name for part in EMBEDDINGS):
                parameter.copy_(parameter.flatten()[0].expand(parameter.shape))
            if damage == "silent_head" and name.startswith(HEADS):
                parameter.zero_()
            if damage == "zero_attention" and any(part in name for part in ATTENTION) and not is_gain:
                parameter.zero_()
    return load(module)


@st.composite
def documents(draw, family):
    """Ids of one to eight tokens: with or without marks around them, or nothing but marks."""
    first, last = FIRST_AND_LAST.get(family, (101, 102))
    words = draw(st.lists(st.integers(10, 99), min_size=0, max_size=6))
    return draw(st.sampled_from([[first, *words, last], [first, *words], words or [last], [first] * (len(words) + 1)]))


@pytest.mark.parametrize("family", ["bert", "modernbert", "longformer", "gpt2"])
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("error:.*(invalid value|divide by zero):RuntimeWarning")
@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    data=st.data(),
    damage=st.sampled_from(DAMAGES),
    exponent=st.sampled_from([-3, -2, -1, 0, 1, 2, 3]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 5),
)
def test_scores_are_finite_or_a_sentence_says_why(family, data, damage, exponent, dtype, seed):
    model = damaged_model(family, damage, 10.0**exponent, dtype, seed)
    encoding = model.encode(ids=data.draw(documents(family)))
    for name in METHODS.names():
        try:
            explanation = model.explain(encoding, name, **QUICK.get(name, {}))
        except SightlineError:
            continue
        assert explanation.scores.shape == (len(encoding),), name
        assert np.isfinite(explanation.scores).all(), name
        assert all(np.isfinite(value) for value in explanation.checks.values() if isinstance(value, float)), name


# Relevance that is divided again and again loses most of its digits in half precision.
ROUGH_IN_HALF = {"lrp", "attnlrp"}


@pytest.mark.parametrize("name", sorted(METHODS.names()))
@pytest.mark.parametrize("family", ["bert", "longformer"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_in_half_precision_is_explained_in_single_precision_or_better(family, name):
    ids = tiny_ids(family)
    # Both have the same weights, so that only the arithmetic is compared.
    modules = (tiny_module(family, dtype=torch.float16).to(dtype) for dtype in (torch.float16, torch.float64))
    half, whole = (load(module) for module in modules)
    scores, exact = (
        model.explain(model.encode(ids=ids), name, **QUICK.get(name, {})).scores for model in (half, whole)
    )
    assert scores.dtype in (np.float32, np.float64)
    if name not in ROUGH_IN_HALF:
        np.testing.assert_allclose(scores, exact, atol=0.02 * np.abs(exact).max())
