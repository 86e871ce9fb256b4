"""Encodings, traces and explanations of another model are refused; those of the same vocabulary or weights are not."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import sightline as sl
from sightline.analysis import head_importance, predict
from sightline.errors import InputError, OptionError, UsageError
from sightline.metrics import measure_faithfulness
from sightline.results.explanation import Explanation
from sightline.results.explanation_storage import DocumentRecord
from sightline.results.report import Report
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import byte_level, wordpiece

TEXT = "The river runs past the old mill."


def model_of(tokenizer, family="bert", seed=0):
    return sl.load(tiny_module(family, vocab_size=1_000, seed=seed), tokenizer=tokenizer)


@pytest.fixture(scope="module")
def bert():
    return model_of(wordpiece())


@pytest.fixture(scope="module")
def roberta():
    return model_of(byte_level(), "roberta")


DOORS = {
    "explain": lambda model, encoding: model.explain(encoding, "gradient"),
    "explain a list": lambda model, encoding: model.explain([encoding], "gradient"),
    "predict": lambda model, encoding: model.predict(encoding),
    "predict a list": lambda model, encoding: model.predict([encoding, encoding]),
    "trace": lambda model, encoding: model.trace(encoding),
    "report": lambda model, encoding: model.report(encoding, check=False),
    "inspect": lambda model, encoding: model.inspect(encoding),
    "head importance": lambda model, encoding: head_importance(model, encoding),
    "predictions": lambda model, encoding: predict(model, [encoding]),
    "run": lambda model, encoding: model.network.run([encoding]),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_door_takes_an_encoding_of_another_vocabulary(door, bert, roberta):
    with pytest.raises(InputError, match=r"made for another model.*encode it with encode\(\) of this model"):
        DOORS[door](roberta, bert.encode(TEXT))


@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_an_encoding_of_the_same_vocabulary(door, bert):
    DOORS[door](model_of(wordpiece(), seed=1), bert.encode(TEXT))


def test_a_prompt_of_another_vocabulary_is_not_continued(bert):
    writer = sl.load(tiny_module("gpt2", auto=AutoModelForCausalLM, vocab_size=1_000), tokenizer=byte_level())
    with pytest.raises(InputError, match="made for another model"):
        writer.explain(bert.encode(TEXT), "gradient", max_new_tokens=1)
    assert len(writer.explain(writer.encode(TEXT), "gradient", max_new_tokens=1).rows) == 1


def test_changed_documents_windows_and_ids_keep_their_vocabulary(bert, roberta):
    encoding = bert.encode(TEXT)
    long = bert.encode(" ".join([TEXT] * 60))
    assert long.windows is not None
    changed = (encoding.drop([2]), encoding.replace_ids(encoding.ids), long, bert.encode(ids=encoding.ids))
    stored = DocumentRecord.read(DocumentRecord.plain(encoding)).document()
    for document in (*changed, pickle.loads(pickle.dumps(encoding)), stored):
        assert document.vocabulary == encoding.vocabulary
        bert.predict(document)
        with pytest.raises(InputError, match="made for another model"):
            roberta.predict(document)


def test_encodings_without_a_vocabulary_are_accepted(bert, roberta):
    by_hand = dataclasses.replace(bert.encode(TEXT), vocabulary=None)
    assert roberta.explain(by_hand, "gradient").encoding is by_hand
    assert by_hand == bert.encode(TEXT) != dataclasses.replace(by_hand, vocabulary="another")
    without_tokenizer = sl.load(tiny_module(vocab_size=1_000))
    assert without_tokenizer.predict(bert.encode(TEXT)).logits.shape == bert.predict(TEXT).logits.shape


def test_a_copied_model_and_one_whose_tokenizer_has_grown_read_their_own_encodings():
    model = model_of(wordpiece())
    before = model.encode(TEXT)
    copied = copy.deepcopy(model)
    copied.predict(before)
    copied.tokenizer.add_tokens(["millwheel"])
    copied.predict(copied.encode(TEXT))
    with pytest.raises(InputError, match="made for another model"):
        copied.predict(before)


CHECKS = {
    "check": lambda model, explanation: model.check(explanation, check_readings=12),
    "measure_faithfulness": lambda model, explanation: measure_faithfulness(model, explanation),
}


@pytest.mark.parametrize("door", CHECKS)
def test_no_check_takes_an_explanation_of_other_weights(door, bert, tmp_path):
    explanation = bert.explain(TEXT, "gradient")
    explanation.save(tmp_path / "saved.json")
    other = model_of(wordpiece(), seed=1)
    for foreign in (explanation, Explanation.load(tmp_path / "saved.json"), copy.copy(explanation)):
        CHECKS[door](bert, foreign)
        with pytest.raises(InputError, match=r"made with other weights \('.*' in float64\).*explain the document"):
            CHECKS[door](other, foreign)


def test_explanations_without_a_provenance_are_checked_by_their_vocabulary(bert, roberta):
    foreign = dataclasses.replace(bert.explain(TEXT, "gradient"), provenance={})
    assert bert.check(foreign, check_readings=12).check is not None
    with pytest.raises(InputError, match="made for another model"):
        roberta.check(foreign)


def test_weights_that_changed_after_an_explanation_are_other_weights():
    module = tiny_module(vocab_size=1_000)
    model = sl.load(module, tokenizer=wordpiece())
    explanation = model.explain(TEXT, "gradient")
    with torch.no_grad():
        module.classifier.weight.add_(0.5)
    with pytest.raises(InputError, match="made with other weights"):
        model.check(explanation)


def test_a_trace_of_another_model_is_refused(bert, roberta):
    for door in (roberta.explain, roberta.report):
        with pytest.raises(OptionError, match="made by another model"):
            door(bert.trace(TEXT))


def test_a_report_shows_one_model(bert):
    first, second = (model.explain(TEXT, "gradient") for model in (bert, model_of(wordpiece(), seed=1)))
    with pytest.raises(UsageError, match=r"one model.*different weights \('.*' and '.*'\)"):
        Report.of([first, second])
    by_hand = dataclasses.replace(second, provenance={})
    hostile = dataclasses.replace(first, provenance={**first.provenance, "weights": [first.provenance["weights"]]})
    assert len(Report.of([first, by_hand])) == 2
    with pytest.raises(UsageError, match="one model"):
        Report.of([first, hostile])


def test_vocabularies_are_told_apart_by_their_ids():
    assert model_of(wordpiece()).encode(TEXT).vocabulary == model_of(wordpiece()).encode(TEXT).vocabulary
    assert np.unique([model_of(reader()).encode(TEXT).vocabulary for reader in (wordpiece, byte_level)]).size == 2
