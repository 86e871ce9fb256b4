"""Changed documents: what is removed, what is the same input, and what the model says about it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForMaskedLM, AutoModelForQuestionAnswering, AutoModelForTokenClassification

from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.metrics.perturbed import Probes, removable_units, removed_positions, unit_counts, unit_scores
from sightline.model import load
from tests.metrics.brute_force import OneAtATime
from tests.tiny_models import FAMILIES, tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "hello old miller the mills"


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


def probes_of(model, encoding, target=1, **options):
    return Probes(model.network, encoding, model.trace(encoding, target).target, **options)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=11), st.integers(1, 300))
def test_shares_stand_for_whole_units_and_a_share_above_nothing_for_one_at_least(ratios, units):
    for ratio, count in zip(ratios, unit_counts(ratios, units), strict=True):
        assert (count == 0) == (ratio == 0)
        assert count <= units
        assert abs(count - ratio * units) <= 0.5 + 1e-6 or count == 1
    assert unit_counts([0.35, 0.5, 1.0], 10).tolist() == [4, 5, 10]
    assert unit_counts([0.0, 0.1, 0.2, 1.0], 1).tolist() == [0, 1, 1, 1]


def test_units_are_words_or_tokens_and_never_special(model):
    encoding = model.encode(TEXT)
    target = model.trace(encoding).target
    assert removable_units(encoding, target, "word") == [[1], [2], [3, 4], [5], [6, 7]]
    assert removable_units(encoding, target, "token") == [[i] for i in range(1, 8)]
    assert unit_scores(np.arange(9.0), [[1], [3, 4]]).tolist() == [1.0, 7.0]
    with pytest.raises(OptionError, match="level='page' is not known"):
        removable_units(encoding, target, "page")


def test_a_document_of_specials_has_nothing_to_remove():
    model = tiny_model()
    encoding = model.encode(ids=[101, 102])
    with pytest.raises(InputError, match="no word that could be removed"):
        removable_units(encoding, model.trace(encoding).target)


def test_the_first_units_of_an_order_are_removed_or_kept():
    units = [[1], [2, 3], [5]]
    assert removed_positions([1, 2, 0], units, [0, 1, 3], "remove") == [[], [2, 3], [1, 2, 3, 5]]
    assert removed_positions([1, 2, 0], units, [0, 1, 3], "keep") == [[1, 2, 3, 5], [1, 5], []]


@pytest.mark.parametrize("replacement", ["delete", "pad", "mask", "unk"])
@pytest.mark.parametrize("pair", [None, "the river"])
def test_probabilities_are_those_of_single_runs_of_the_library(model, replacement, pair):
    encoding = model.encode(TEXT, pair)
    plain = OneAtATime(tiny_module(), 1, model.network.token_ids)
    probes = probes_of(model, encoding)
    removals = [[], [1], [3, 4], [2, 5, 6], np.flatnonzero(~encoding.special).tolist()]
    keys = [probes.ask(removed, replacement) for removed in removals]
    probes.run()
    expected = [plain.without(encoding, removed, replacement) for removed in removals]
    np.testing.assert_allclose(probes.curve(keys), expected, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_reads_masked_pads_as_the_library_does(family):
    module = tiny_module(family)
    model = load(tiny_module(family))
    encoding = model.encode(ids=tiny_ids(family, 20))
    pad = int(module.config.pad_token_id or 0)
    gone = [3, 4, 9]
    ids = encoding.ids.copy()
    ids[gone] = pad
    inputs = model.network.inputs([encoding.replace_ids(ids)], [gone])
    assert np.flatnonzero(inputs["attention_mask"][0].numpy() == 0).tolist() == gone
    with torch.no_grad():
        logits = module(**inputs).logits[0]
    probes = probes_of(model, encoding, mask_pads=True)
    key = probes.ask(gone, "pad")
    probes.run()
    # The library turns ModernBERT's angles and Longformer's softmax into single precision on the way.
    tolerance = 1e-7 if family in ("modernbert", "longformer") else 1e-12
    assert probes.probability(key) == pytest.approx(float(torch.softmax(logits, -1)[1]), abs=tolerance)


def test_masked_and_attended_pads_are_different_inputs_and_masking_hides_what_stood_there(model):
    encoding = model.encode(TEXT)
    attended, masked = probes_of(model, encoding), probes_of(model, encoding, mask_pads=True)
    keys = attended.ask([1, 2], "pad"), masked.ask([1, 2], "pad")
    attended.run()
    masked.run()
    assert abs(attended.probability(keys[0]) - masked.probability(keys[1])) > 1e-9
    other = encoding.ids.copy()
    other[[1, 2]] = 7
    changed = probes_of(model, encoding.replace_ids(other), mask_pads=True)
    key = changed.ask([1, 2], "pad")
    changed.run()
    assert changed.probability(key) == pytest.approx(masked.probability(keys[1]), abs=1e-14)


def test_the_same_input_is_run_once_whoever_asks_for_it(model):
    encoding = model.encode("the the mill")
    probes = probes_of(model, encoding)
    keys = [probes.ask([1], "delete"), probes.ask([2], "delete"), probes.ask([], "mask"), probes.ask([], "delete")]
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert (probes.calls_requested, probes.calls_made) == (4, 2)
    before = model.network.forward_passes
    probes.run()
    ran = model.network.forward_passes - before
    probes.ask([1], "delete")
    probes.run()
    assert model.network.forward_passes - before == ran
    assert (probes.calls_requested, probes.calls_made) == (5, 2)


def test_who_asks_first_does_not_matter_to_the_bit(model):
    encoding = model.encode(TEXT)
    removals = [[1], [2], [3, 4], [5, 6], []]
    found = []
    for order in (removals, removals[::-1]):
        probes = probes_of(model, encoding)
        keys = {tuple(removed): probes.ask(removed, "delete") for removed in order}
        probes.run()
        found.append([probes.probability(keys[tuple(removed)]) for removed in removals])
    assert found[0] == found[1]


def test_global_tokens_move_with_the_words_and_tell_inputs_apart():
    module = tiny_module("longformer")
    model = load(module)
    encoding = model.encode(ids=tiny_ids("longformer", 24), global_tokens=[0, 5])
    probes = probes_of(model, encoding)
    keys = [probes.ask([2, 3], "delete"), probes.ask([5], "delete")]
    probes.run()
    for key, gone, places in zip(keys, ([2, 3], [5]), ([0, 3], [0]), strict=True):
        ids = torch.tensor([np.delete(encoding.ids, gone).tolist()])
        mask = torch.zeros_like(ids)
        mask[0, places] = 1
        with torch.no_grad():
            logits = module(input_ids=ids, global_attention_mask=mask).logits[0]
        assert probes.probability(key) == pytest.approx(float(torch.softmax(logits, -1)[1]), abs=1e-10)


@pytest.mark.parametrize("auto", [AutoModelForMaskedLM, AutoModelForTokenClassification])
def test_a_head_that_reads_a_token_keeps_reading_it_when_others_are_deleted(auto):
    module = tiny_module(auto=auto)
    model = load(module)
    encoding = model.encode(ids=tiny_ids(n=9))
    target = model.trace(encoding, 2, position=5).target
    assert [5] not in removable_units(encoding, target, "token")
    probes = Probes(model.network, encoding, target)
    key = probes.ask([2, 3, 7], "delete")
    probes.run()
    logits = module(torch.tensor([np.delete(encoding.ids, [2, 3, 7]).tolist()])).logits[0, 3]
    assert probes.probability(key) == pytest.approx(float(torch.softmax(logits, -1)[2]), abs=1e-12)


def test_the_probability_of_an_answer_is_that_of_its_two_ends():
    module = tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2)
    model = load(module)
    encoding = model.encode(ids=tiny_ids(n=9))
    target = model.trace(encoding, (4, 5)).target
    assert removable_units(encoding, target, "token") == [[1], [2], [3], [6], [7]]
    probes = Probes(model.network, encoding, target)
    key = probes.ask([1, 2, 6], "delete")
    probes.run()
    outputs = module(torch.tensor([np.delete(encoding.ids, [1, 2, 6]).tolist()]))
    start, end = torch.softmax(outputs.start_logits[0], -1)[2], torch.softmax(outputs.end_logits[0], -1)[3]
    assert probes.probability(key) == pytest.approx(float(start * end), abs=1e-12)


def test_a_single_output_has_no_probability_to_lose():
    model = tiny_model(num_labels=1)
    with pytest.raises(UnsupportedError, match="single output"):
        probes_of(model, model.encode(ids=tiny_ids()), 0)


def test_deleting_everything_from_a_document_without_specials_is_refused():
    model = tiny_model()
    encoding = model.encode(ids=[11, 12])
    with pytest.raises(InputError, match="leave nothing to read"):
        probes_of(model, encoding).ask([0, 1], "delete")
