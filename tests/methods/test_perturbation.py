"""Occlusion and leave-one-out against single runs of the library's model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

from sightline.api.load import load
from sightline.errors import OptionError
from sightline.models.inputs import pad_inputs
from sightline.text.hierarchy import HierarchyScores
from sightline.text.units import LEVELS
from tests.tiny_models import FAMILIES, SINGLE_PRECISION, tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "Hello old world. The millers river! The mill"
SENTENCES = [[1, 2, 3, 4], [5, 6, 7, 8, 9, 10], [11, 12]]
TARGET = 1


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


def library_logits(ids) -> torch.Tensor:
    return tiny_module()(torch.tensor([list(ids)])).logits[0].detach()


MEASURES = {
    "log_odds": lambda logits: logits[TARGET] - torch.logsumexp(logits[[0, 2]], 0),
    "probability": lambda logits: torch.softmax(logits, -1)[TARGET],
    "logit": lambda logits: logits[TARGET],
    "log_probability": lambda logits: torch.log_softmax(logits, -1)[TARGET],
    "margin": lambda logits: logits[TARGET] - max(logits[0], logits[2]),
}


@pytest.mark.parametrize("quantity", MEASURES)
@pytest.mark.parametrize("replacement", ["mask", "unk", "pad", "delete"])
def test_a_sentence_is_taken_away_as_a_whole_and_shared_by_its_tokens(model, replacement, quantity):
    encoding = model.encode(TEXT)
    explanation = model.explain(
        encoding, "occlusion", target=TARGET, level="sentence", replacement=replacement, quantity=quantity
    )
    expected = np.zeros(len(encoding))
    whole = MEASURES[quantity](library_logits(encoding.ids))
    for sentence in SENTENCES:
        ids = encoding.ids.copy()
        if replacement == "delete":
            ids = np.delete(ids, sentence)
        else:
            ids[sentence] = getattr(model.tokenizer, f"{replacement}_token_id")
        expected[sentence] = float(whole - MEASURES[quantity](library_logits(ids))) / len(sentence)
    np.testing.assert_allclose(explanation.scores, expected, atol=1e-12)
    assert explanation.checks["model_calls"] == 4
    assert explanation.target.quantity == quantity


@pytest.mark.parametrize("replacement", ["mask", "unk", "pad"])
def test_special_tokens_are_blanked_out_if_asked(model, replacement):
    encoding = model.encode(TEXT)
    explanation = model.explain(
        encoding, "occlusion", target=TARGET, special=True, replacement=replacement, quantity="probability"
    )
    whole = MEASURES["probability"](library_logits(encoding.ids))
    for position in range(len(encoding)):
        ids = encoding.ids.copy()
        ids[position] = getattr(model.tokenizer, f"{replacement}_token_id")
        expected = float(whole - MEASURES["probability"](library_logits(ids)))
        assert explanation.scores[position] == pytest.approx(expected, abs=1e-12)
    assert explanation.scores[encoding.special].all()
    for options in ({"level": "word"}, {"replacement": "delete"}, {"budget": 5}):
        with pytest.raises(OptionError, match="pecial"):
            model.explain(encoding, "occlusion", special=True, **options)


def test_a_word_of_several_tokens_is_taken_away_as_a_whole(model):
    encoding = model.encode(TEXT)
    explanation = model.explain(encoding, "occlusion", target=TARGET, level="word", replacement="mask")
    ids = encoding.ids.copy()
    assert encoding.tokens[6:9] == ("mill", "er", "s")
    ids[6:9] = model.tokenizer.mask_token_id
    drop = MEASURES["log_odds"](library_logits(encoding.ids)) - MEASURES["log_odds"](library_logits(ids))
    np.testing.assert_allclose(explanation.scores[6:9], float(drop) / 3, atol=1e-12)


def test_the_same_document_is_read_once():
    model = tiny_model()
    encoding = model.encode(ids=[101, 7, 0, 0, 7, 102])
    assert model.explain(encoding, "occlusion", replacement="pad").checks["model_calls"] == 3
    # Of two equal neighbours either may be deleted with the same result.
    encoding = model.encode(ids=[101, 7, 7, 102])
    assert model.explain(encoding, "occlusion", replacement="delete").checks["model_calls"] == 2


def test_a_budget_too_small_for_every_unit_is_spent_from_coarse_to_fine(model):
    text = f"{TEXT}\n\nThe old world. Hello river mill old the"
    encoding = model.encode(text)
    complete = model.explain(encoding, "occlusion", target=TARGET, level="word", budget=None)
    assert "measured_share" not in complete.checks
    explanation = model.explain(encoding, "occlusion", target=TARGET, level="word", budget=12)
    assert explanation.checks["model_calls"] <= 12
    assert 0 < explanation.checks["measured_share"] < 1
    measured = HierarchyScores.from_extras(explanation.extras)
    whole = MEASURES["log_odds"](library_logits(encoding.ids))
    for first, last, score in zip(measured.unit_first, measured.unit_last, measured.unit_score, strict=True):
        ids = encoding.ids.copy()
        ids[first : last + 1] = model.tokenizer.mask_token_id
        assert score == pytest.approx(float(whole - MEASURES["log_odds"](library_logits(ids))), abs=1e-12)
    # Refined is the paragraph with the larger effect.
    paragraphs = np.flatnonzero(measured.unit_parent == 0)
    largest = paragraphs[np.abs(measured.unit_score[paragraphs]).argmax()]
    assert (measured.unit_parent == largest).any()
    # Words that were measured have the scores they have without a budget.
    words = measured.unit_level == LEVELS.index("word")
    for first, last in zip(measured.unit_first[words], measured.unit_last[words], strict=True):
        np.testing.assert_allclose(explanation.scores[first : last + 1], complete.scores[first : last + 1], atol=1e-12)


def test_a_budget_that_cannot_be_kept_is_refused_before_anything_runs(model):
    encoding = model.encode(TEXT)
    before = model.network.forward_passes
    with pytest.raises(OptionError, match="needs at least 3 model calls, the budget is 2"):
        model.explain(encoding, "occlusion", budget=2)
    assert model.network.forward_passes == before
    assert model.explain(encoding, "occlusion", level="sentence", budget=4).checks["model_calls"] == 4


def test_progress_is_told_until_the_end(model):
    seen = []
    model.explain(TEXT, "occlusion", progress=lambda *step: seen.append(step))
    assert seen[0] == ("occlusion", 0, 1)
    assert seen[-1] == ("occlusion", 13, 13)


def test_deleting_is_refused_where_the_model_reads_single_tokens():
    model = load(tiny_module(auto=AutoModelForMaskedLM), tokenizer=wordpiece())
    with pytest.raises(OptionError, match="reads single tokens, and deleting others would move them"):
        model.explain("hello [MASK] river", "occlusion", replacement="delete")


def test_the_quantity_is_named_in_the_result_and_may_be_the_method_s_own(model):
    assert model.explain(TEXT, "occlusion", level="sentence").target.quantity == "log_odds"
    own = model.explain(TEXT, methods=["occlusion", "gradient"], occlusion={"quantity": "probability"})
    assert [explanation.target.quantity for explanation in own.values()] == ["probability", "log_odds"]
    assert model.explain(TEXT, "gradient", quantity="margin").target.quantity == "margin"


def test_the_margin_is_that_of_the_best_other_class():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids())
    logits = model.trace(encoding).logits
    for target in range(3):
        margin = model.trace(encoding, target, quantity="margin").value
        assert margin == pytest.approx(logits[target] - np.delete(logits, target).max(), abs=1e-12)
    contrast = model.trace(encoding, (0, 2), quantity="margin").value
    assert contrast == pytest.approx(logits[0] - logits[2], abs=1e-12)


@pytest.mark.parametrize("replacement", ["zero", "mean"])
@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_leave_one_out_wipes_one_row_of_one_layer_s_input(family, layer, replacement):
    ids = tiny_ids(family, 8)
    module = tiny_module(family)
    mine = tiny_model(family)
    runs = 0
    place = -1

    def hook(_module, args, kwargs):
        nonlocal runs
        runs += 1
        if runs == layer + 1 and place >= 0:
            hidden = (args[0] if args else kwargs["hidden_states"]).clone()
            hidden[0, place] = 0 if replacement == "zero" else hidden[0, : len(ids)].mean(0)
            return ((hidden, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": hidden})
        return None

    layers = mine.network.family.layers(module.base_model, module.config)
    for distinct in {id(distinct): distinct for distinct in layers}.values():
        distinct.register_forward_pre_hook(hook, with_kwargs=True)
    inputs = pad_inputs(mine.network, [mine.encode(ids=ids)])
    probabilities = []
    for place in (-1, *range(len(ids))):  # noqa: B007 (the hook reads it)
        runs = 0
        probabilities.append(float(torch.softmax(module(**inputs).logits[0].detach(), -1)[TARGET]))
    expected = probabilities[0] - np.array(probabilities[1:])
    explanation = mine.explain(
        mine.encode(ids=ids),
        "leave_one_out",
        target=TARGET,
        quantity="probability",
        layer=layer,
        replacement=replacement,
    )
    # The library computes these families' softmax in single precision, we do not.
    np.testing.assert_allclose(explanation.scores, expected, atol=1e-6 if family in SINGLE_PRECISION else 1e-12)
    assert np.abs(explanation.scores).max() > 1e-4


@pytest.mark.parametrize("method", ["occlusion", "leave_one_out", "lime", "kernel_shap"])
def test_a_model_with_one_output_is_explained_by_its_logit_for_its_probability_is_always_one(method):
    regression = tiny_model(num_labels=1)
    encoding = regression.encode(ids=tiny_ids())
    explanation = regression.explain(encoding, method)
    assert explanation.target.quantity == "logit"
    assert np.abs(explanation.scores).max() > 1e-4
    np.testing.assert_array_equal(explanation.scores, regression.explain(encoding, method, quantity="logit").scores)
    with pytest.raises(OptionError, match="a single output, which has no probability"):
        regression.explain(encoding, method, quantity="probability")
