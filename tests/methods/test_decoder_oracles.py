"""Decoders against captum: gradients and integrated gradients of the next token, as rows of a continuation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import LayerGradientXActivation, LayerIntegratedGradients
from transformers import AutoModelForCausalLM

from tests.tiny_models import DECODERS, SINGLE_PRECISION, tiny_ids, tiny_model, tiny_module

PROMPT, GENERATED = tiny_ids("llama", 9)[:8], [40, 55, 33]
PAD, STEPS = 0, 12


def captum_rows(family, attribution_class, **options):
    """Scores of each generated token, every row from a call of captum on the library's model."""
    module = tiny_module(family, auto=AutoModelForCausalLM)

    def next_logits(inputs):
        return module(inputs).logits[:, -1]

    attribution = attribution_class(next_logits, module.get_input_embeddings())
    rows = []
    for number, token in enumerate(GENERATED):
        ids = torch.tensor([[*PROMPT, *GENERATED[:number]]])
        given = {"baselines": torch.where(ids == 101, ids, PAD)} if "n_steps" in options else {}
        scores = attribution.attribute(ids, target=token, **given, **options)
        rows.append(scores[0].sum(-1).detach().numpy())
    return rows


@pytest.mark.parametrize("family", DECODERS)
def test_input_times_gradient_is_captum_s(family):
    model = tiny_model(family, auto=AutoModelForCausalLM)
    result = model.explain(model.encode(ids=PROMPT), "input_x_gradient", continuation=GENERATED, quantity="logit")
    tolerance = 1e-5 if family in SINGLE_PRECISION else 1e-10
    for row, expected in zip(result.rows, captum_rows(family, LayerGradientXActivation), strict=True):
        np.testing.assert_allclose(row.scores, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("family", DECODERS)
def test_integrated_gradients_are_captum_s(family):
    model = tiny_model(family, auto=AutoModelForCausalLM)
    result = model.explain(
        model.encode(ids=PROMPT),
        "integrated_gradients",
        continuation=GENERATED,
        embeddings="word",
        steps=STEPS,
        quantity="logit",
    )
    tolerance = 1e-4 if family in SINGLE_PRECISION else 1e-7  # captum weighs its steps in single precision
    expected_rows = captum_rows(family, LayerIntegratedGradients, n_steps=STEPS, method="gausslegendre")
    for row, expected in zip(result.rows, expected_rows, strict=True):
        np.testing.assert_allclose(row.scores, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
