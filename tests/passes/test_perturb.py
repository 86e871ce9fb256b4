"""Perturbed documents: what is removed, which inputs are the same, and what the model says about them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForTokenClassification,
)

from sightline.api.load import load
from sightline.errors import InputError, OptionError, SizeError, UnsupportedError
from sightline.models.inputs import pad_inputs
from sightline.passes.perturb import (
    Perturbations,
    default_replacement,
    perturb_probability,
    removable_units,
    request_removals,
)
from tests.metrics.brute_force import OneAtATime
from tests.tiny_models import FAMILIES, SINGLE_PRECISION, tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "hello old miller the mills"


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


def perturbations_of(model, encoding, target=1, **options):
    return perturb_probability(model.network, encoding, model.trace(encoding, target).target, **options)


def test_units_are_words_or_tokens_and_never_special(model):
    encoding = model.encode(TEXT)
    target = model.trace(encoding).target
    words, tokens = (removable_units(encoding, target, level) for level in ("word", "token"))
    assert [unit.tokens for unit in words] == [(1,), (2,), (3, 4), (5,), (6, 7)]
    assert [unit.tokens for unit in tokens] == [(i,) for i in range(1, 8)]
    with pytest.raises(OptionError, match="level='page' is not known"):
        removable_units(encoding, target, "page")


def test_a_document_of_specials_has_nothing_to_remove():
    model = tiny_model()
    encoding = model.encode(ids=[101, 102])
    with pytest.raises(InputError, match="no word that could be removed"):
        removable_units(encoding, model.trace(encoding).target)


@pytest.mark.parametrize("replacement", ["delete", "pad", "mask", "unk"])
@pytest.mark.parametrize("pair", [None, "the river"])
def test_probabilities_are_those_of_single_runs_of_the_library(model, replacement, pair):
    encoding = model.encode(TEXT, pair)
    plain = OneAtATime(tiny_module(), 1, model.network.token_ids)
    perturbations = perturbations_of(model, encoding)
    removals = [[], [1], [3, 4], [2, 5, 6], np.flatnonzero(~encoding.special).tolist()]
    keys = [perturbations.request(removed, replacement) for removed in removals]
    perturbations.run()
    expected = [plain.without(encoding, removed, replacement) for removed in removals]
    np.testing.assert_allclose(perturbations.results(keys), expected, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_reads_masked_pads_as_the_library_does(family):
    module = tiny_module(family)
    model = load(tiny_module(family))
    encoding = model.encode(ids=tiny_ids(family, 20))
    pad = int(module.config.pad_token_id or 0)
    gone = [3, 4, 9]
    ids = encoding.ids.copy()
    ids[gone] = pad
    inputs = pad_inputs(model.network, [encoding.replace_ids(ids)], [gone])
    assert np.flatnonzero(inputs["attention_mask"][0].numpy() == 0).tolist() == gone
    with torch.no_grad():
        logits = module(**inputs).logits[0]
    perturbations = perturbations_of(model, encoding, mask_pads=True)
    key = perturbations.request(gone, "pad")
    perturbations.run()
    # The library turns angles, norms or the softmax of these families into single precision on the way.
    tolerance = 1e-7 if family in ("modernbert", "longformer") else 1e-6 if family in SINGLE_PRECISION else 1e-12
    assert perturbations.result(key) == pytest.approx(float(torch.softmax(logits, -1)[1]), abs=tolerance)


def test_masked_and_attended_pads_are_different_inputs_and_masking_hides_what_stood_there(model):
    encoding = model.encode(TEXT)
    attended, masked = perturbations_of(model, encoding), perturbations_of(model, encoding, mask_pads=True)
    keys = attended.request([1, 2], "pad"), masked.request([1, 2], "pad")
    attended.run()
    masked.run()
    assert abs(attended.result(keys[0]) - masked.result(keys[1])) > 1e-9
    other = encoding.ids.copy()
    other[[1, 2]] = 7
    changed = perturbations_of(model, encoding.replace_ids(other), mask_pads=True)
    key = changed.request([1, 2], "pad")
    changed.run()
    assert changed.result(key) == pytest.approx(masked.result(keys[1]), abs=1e-14)


def test_the_same_input_is_run_once_whoever_asks_for_it(model):
    encoding = model.encode("the the mill")
    perturbations = perturbations_of(model, encoding)
    keys = [
        perturbations.request([1], "delete"),
        perturbations.request([2], "delete"),
        perturbations.request([], "mask"),
        perturbations.request([], "delete"),
    ]
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert (perturbations.calls_requested, perturbations.calls_made) == (4, 2)
    before = model.network.forward_passes
    perturbations.run()
    ran = model.network.forward_passes - before
    perturbations.request([1], "delete")
    perturbations.run()
    assert model.network.forward_passes - before == ran
    assert (perturbations.calls_requested, perturbations.calls_made) == (5, 2)


def test_who_asks_first_does_not_matter_to_the_bit(model):
    encoding = model.encode(TEXT)
    removals = [[1], [2], [3, 4], [5, 6], []]
    probabilities = []
    for order in (removals, removals[::-1]):
        perturbations = perturbations_of(model, encoding)
        keys = {tuple(removed): perturbations.request(removed, "delete") for removed in order}
        perturbations.run()
        probabilities.append([perturbations.result(keys[tuple(removed)]) for removed in removals])
    assert probabilities[0] == probabilities[1]


def test_global_tokens_move_with_the_words_and_tell_inputs_apart():
    model = load(tiny_module("longformer"))
    encoding = model.encode(ids=tiny_ids("longformer", 24), global_tokens=[0, 5])
    perturbations = perturbations_of(model, encoding)
    keys = [perturbations.request([2, 3], "delete"), perturbations.request([5], "delete")]
    perturbations.run()
    for key, gone, places in zip(keys, ([2, 3], [5]), ([0, 3], [0]), strict=True):
        ids = torch.tensor([np.delete(encoding.ids, gone).tolist()])
        mask = torch.zeros_like(ids)
        mask[0, places] = 1
        with torch.no_grad():
            logits = model.network.module(input_ids=ids, global_attention_mask=mask).logits[0]
        assert perturbations.result(key) == pytest.approx(float(torch.softmax(logits, -1)[1]), abs=1e-10)


@pytest.mark.parametrize("auto", [AutoModelForMaskedLM, AutoModelForTokenClassification])
def test_a_head_that_reads_a_token_keeps_reading_it_when_others_are_deleted(auto):
    module = tiny_module(auto=auto)
    model = load(module)
    encoding = model.encode(ids=tiny_ids(n=9))
    target = model.trace(encoding, 2, position=5).target
    assert removable_units(encoding, target, "token").of_token[5] == -1
    perturbations = perturb_probability(model.network, encoding, target)
    key = perturbations.request([2, 3, 7], "delete")
    perturbations.run()
    logits = module(torch.tensor([np.delete(encoding.ids, [2, 3, 7]).tolist()])).logits[0, 3]
    assert perturbations.result(key) == pytest.approx(float(torch.softmax(logits, -1)[2]), abs=1e-12)


def test_the_probability_of_an_answer_is_that_of_its_two_ends():
    module = tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2)
    model = load(module)
    encoding = model.encode(ids=tiny_ids(n=9))
    target = model.trace(encoding, (4, 5)).target
    assert removable_units(encoding, target, "token").first_tokens.tolist() == [1, 2, 3, 6, 7]
    perturbations = perturb_probability(model.network, encoding, target)
    key = perturbations.request([1, 2, 6], "delete")
    perturbations.run()
    outputs = module(torch.tensor([np.delete(encoding.ids, [1, 2, 6]).tolist()]))
    start, end = torch.softmax(outputs.start_logits[0], -1)[2], torch.softmax(outputs.end_logits[0], -1)[3]
    assert perturbations.result(key) == pytest.approx(float(start * end), abs=1e-12)


def test_a_single_output_has_no_probability_to_lose():
    model = tiny_model(num_labels=1)
    with pytest.raises(UnsupportedError, match="single output"):
        perturbations_of(model, model.encode(ids=tiny_ids()), 0)


def test_deleting_everything_from_a_document_without_specials_is_refused():
    model = tiny_model()
    encoding = model.encode(ids=[11, 12])
    with pytest.raises(InputError, match="leave nothing to read"):
        perturbations_of(model, encoding).request([0, 1], "delete")


def test_a_token_that_the_head_reads_cannot_be_deleted():
    model = load(tiny_module(auto=AutoModelForTokenClassification))
    encoding = model.encode(ids=tiny_ids(n=9))
    perturbations = perturb_probability(model.network, encoding, model.trace(encoding, 2, position=5).target)
    with pytest.raises(OptionError, match="head reads one of the tokens to delete"):
        perturbations.request([4, 5], "delete")


def test_a_budget_bounds_distinct_documents_and_is_checked_before_anything_runs(model):
    encoding = model.encode("the the mill")
    perturbations = perturbations_of(model, encoding, budget=2)
    before = model.network.forward_passes
    for removed in ([], [1], [2]):  # deleting either "the" leaves the same document
        perturbations.request(removed, "delete")
    assert perturbations.remaining == 0
    assert perturbations.affords()
    assert not perturbations.affords(1)
    perturbations.request([3], "delete")
    assert perturbations.remaining == -1
    with pytest.raises(SizeError, match="3 model calls are needed, the budget is 2"):
        perturbations.run()
    assert model.network.forward_passes == before


def test_sets_of_units_are_evaluated_in_the_order_given_and_progress_is_reported(model):
    encoding = model.encode(TEXT)
    target = model.trace(encoding, 1).target
    units = removable_units(encoding, target)
    sets = [units.positions(removed) for removed in ([], [2], [0, 4], [2])]
    seen = []
    probabilities = perturb_probability(model.network, encoding, target).evaluate(
        sets, "mask", lambda *step: seen.append(step)
    )
    plain = OneAtATime(tiny_module(), 1, model.network.token_ids)
    np.testing.assert_allclose(
        probabilities, [plain.without(encoding, removed, "mask") for removed in sets], atol=1e-12
    )
    assert probabilities[1] == probabilities[3]
    assert seen[-1] == (3, 3)


def test_what_is_read_of_the_logits_is_what_is_kept(model):
    encoding = model.encode(TEXT)
    target = model.trace(encoding, 1).target
    shapes = Perturbations(model.network, encoding, target, lambda logits, _: tuple(logits.shape))
    assert shapes.evaluate([[], [1]], "unk") == [(3,), (3,)]


def test_the_default_replacement_is_the_first_that_the_vocabulary_has(model):
    assert default_replacement(model.network) == "mask"
    assert default_replacement(tiny_model("gpt2").network) in ("pad", "delete")


def test_documents_of_a_language_model_are_read_in_parts_and_one_row_of_each_is_kept(monkeypatch):
    model = tiny_model("llama", auto=AutoModelForCausalLM)
    encoding = model.encode(ids=tiny_ids("llama", 9))
    expected = model.explain(encoding, "occlusion", target=5).scores
    monkeypatch.setattr("sightline.passes.perturb.OUTPUT_BYTES", 3 * 4 * 9 * 128)  # three documents at a time
    steps = []
    explanation = model.explain(encoding, "occlusion", target=5, progress=lambda *step: steps.append(step))
    np.testing.assert_allclose(explanation.scores, expected, atol=1e-12)
    assert steps[-1][1:] == (8, 8)
    removals, keys = request_removals(model.trace(encoding, 5), [[1], [2]], "pad")
    removals.run()
    kept = removals.result(keys[0])
    assert kept.shape == (9, 128)
    assert kept.untyped_storage().nbytes() == 128 * 8
