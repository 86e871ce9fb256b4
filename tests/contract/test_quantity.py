"""What is explained depends on the prediction alone: every class-specific method, every task, two forms of one head."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from sightline.api.load import load
from sightline.methods import METHODS
from sightline.view.page.payload import build
from tests.contract.test_contract import QUICK
from tests.tiny_models import tiny_ids, tiny_module
from tests.tiny_tokenizers import wordpiece

POSITIVE_RULES = {"lrp", "partial_lrp", "transatt"}
"""Each logit is propagated by itself, divided in proportion to what is positive in it, which a sum with something else
changes; `tests/methods/test_relevance.py` tests how they are combined."""
METHODS_OF_A_CLASS = [
    name for name in METHODS.names() if METHODS.get(name).class_specific and name not in POSITIVE_RULES
]
HEADS = {
    "sequence_classification": ("bert", AutoModelForSequenceClassification, "classifier", {}),
    "token_classification": ("bert", AutoModelForTokenClassification, "classifier", {"position": 3}),
    "masked_lm": ("bert", AutoModelForMaskedLM, "cls.predictions.decoder", {"position": 3}),
    "causal_lm": ("gpt2", AutoModelForCausalLM, "lm_head", {}),
    "question_answering": ("bert", AutoModelForQuestionAnswering, "qa_outputs", {"target": (3, 5)}),
}


class Shifted(nn.Module):
    """A head that adds to all logits the same number, a function of the document as its first row shows it."""

    def __init__(self, head: nn.Linear) -> None:
        super().__init__()
        self.head = head
        self.shift = nn.Linear(head.in_features, 1, dtype=head.weight.dtype)
        nn.init.normal_(self.shift.weight, generator=torch.Generator().manual_seed(9))

    @property
    def weight(self) -> nn.Parameter:
        return self.head.weight

    @property
    def bias(self) -> nn.Parameter:
        return self.head.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x) + self.shift(x if x.ndim == 2 else x[:, :1])


@cache
def _pair(task):
    """Return a model, and the same model with something added to all logits."""
    family, auto, name, request = HEADS[task]
    facts = {"tie_word_embeddings": False} | ({"num_labels": 2} if task == "question_answering" else {})
    plain, moved = (tiny_module(family, auto=auto, **facts) for _ in range(2))
    place, _, attribute = name.rpartition(".")
    owner = moved.get_submodule(place)
    setattr(owner, attribute, Shifted(getattr(owner, attribute)))
    return load(plain), load(moved), plain.config.model_type, request


def _scores(model, name, family, request, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        encoding = model.encode(ids=tiny_ids(family, 9))
        return model.explain(encoding, name, **request, **QUICK.get(name, {}), **options).scores


@pytest.mark.parametrize("name", METHODS_OF_A_CLASS)
@pytest.mark.parametrize("task", HEADS)
def test_scores_do_not_change_with_what_is_added_to_all_logits(task, name):
    plain, moved, family, request = _pair(task)
    if name in plain.methods_not_offered:
        pytest.skip("not offered")
    expected = _scores(plain, name, family, request)
    assert np.abs(expected).max() > 0 or not METHODS.get(name).signed
    np.testing.assert_allclose(
        _scores(moved, name, family, request), expected, rtol=0, atol=1e-6 * np.abs(expected).max()
    )


def test_the_logit_changes_with_what_is_added_to_all_logits():
    plain, moved, family, request = _pair("sequence_classification")
    before, after = (_scores(model, "input_x_gradient", family, request, quantity="logit") for model in (plain, moved))
    assert np.abs(after - before).max() > 0.01 * np.abs(before).max()


@cache
def _with_rows(first: float, second: float):
    """Return a model of two classes with logits (first · z, second · z), z a linear function of the document."""
    module = tiny_module(num_labels=2)
    with torch.no_grad():
        for parameter in (module.classifier.weight, module.classifier.bias):
            parameter.copy_(torch.stack([first * parameter[1], second * parameter[1]]))
    return load(module, tokenizer=wordpiece())


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("name", METHODS_OF_A_CLASS)
def test_two_forms_of_a_head_of_two_classes_have_the_same_scores(name, target):
    one, both = (_scores(_with_rows(*rows), name, "bert", {"target": target}) for rows in ((0, 1), (-0.5, 0.5)))
    np.testing.assert_allclose(one, both, rtol=0, atol=1e-6 * np.abs(both).max())
    assert np.abs(both).max() > 0


def test_two_forms_of_a_head_of_two_classes_have_the_same_page():
    texts, numbers = [], []
    for rows in ((0, 1), (-0.5, 0.5)):
        page = build(_with_rows(*rows).report("hello world, the old miller naive", ["attnlrp", "input_x_gradient"]))
        for shown in (page.json, *page.json["explanations"]):  # the hash of the weights is another one
            shown.pop("made", None)
            shown.pop("facts", None)
            (shown.get("check") or {}).pop("fingerprint", None)  # of the scores, to the last bit
        texts.append(page.json)
        numbers.append(page.arrays)
    assert texts[0] == _approximately(texts[1])
    for name, values in numbers[0].items():
        np.testing.assert_allclose(
            values.astype(float), numbers[1][name].astype(float), rtol=0, atol=1e-5, err_msg=name
        )


def _approximately(value):
    if isinstance(value, dict):
        return {name: _approximately(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_approximately(part) for part in value)
    return pytest.approx(value, rel=1e-5, abs=1e-9) if isinstance(value, float) else value
