"""Heads: what is predicted, what is explained, and which rows are read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForQuestionAnswering, AutoModelForTokenClassification

from sightline.errors import InputError, OptionError, TargetError, UnsupportedError
from sightline.model import load
from sightline.models.tasks import TASKS, task_class
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece


def test_the_predicted_class_is_explained_by_default():
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()))
    assert trace.target.index == int(np.argmax(trace.logits)) == trace.prediction.index
    assert trace.value == pytest.approx(trace.logits.max())
    np.testing.assert_allclose(trace.probabilities, np.exp(trace.logits) / np.exp(trace.logits).sum())


@pytest.mark.parametrize("wanted", [1, "1", "LABEL_1", "label_1", np.int64(1)])
def test_a_class_is_named_by_number_or_label(wanted):
    model = tiny_model()
    assert model.trace(model.encode(ids=tiny_ids()), target=wanted).target.index == 1


def test_a_contrast_is_the_difference_of_two_logits():
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()), target=(2, "LABEL_0"))
    assert trace.value == pytest.approx(trace.logits[2] - trace.logits[0])
    assert trace.target.description() == "logit of 'LABEL_2' minus 'LABEL_0'"


def test_the_gradient_of_a_contrast_is_the_difference_of_gradients():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids())
    first, second, both = (model.trace(encoding, target=t).embedding_gradient for t in (2, 0, (2, 0)))
    np.testing.assert_allclose(both, first - second, atol=1e-12)


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("logit", lambda z: z[1]),
        ("probability", lambda z: np.exp(z[1]) / np.exp(z).sum()),
        ("log_probability", lambda z: z[1] - np.log(np.exp(z).sum())),
    ],
)
def test_quantities(quantity, value):
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()), target=1, quantity=quantity)
    assert trace.value == pytest.approx(value(trace.logits))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (3, r"Class 3 asked for, the model has 3 classes \(0-2\)"),
        (-1, "Class -1 asked for"),
        ("LABEL_9", "There is no label 'LABEL_9'. Did you mean"),
        ((1, 1), "two different classes"),
        ((0, 1, 2), "A contrast names two classes"),
        (True, "class number or a label"),
    ],
)
def test_a_target_that_does_not_exist_is_refused(wanted, message):
    model = tiny_model()
    with pytest.raises(TargetError, match=message):
        model.explain(model.encode(ids=tiny_ids()), target=wanted)


def test_an_unknown_quantity_is_refused():
    model = tiny_model()
    with pytest.raises(OptionError, match="no target quantity 'odds'"):
        model.explain(model.encode(ids=tiny_ids()), quantity="odds")


def test_mean_pooling_reads_every_row_alike():
    model = tiny_model("modernbert", classifier_pooling="mean")
    trace = model.trace(model.encode(ids=tiny_ids("modernbert", 8)))
    np.testing.assert_allclose(trace.readout, np.full(8, 1 / 8))


def test_multi_label_heads_use_independent_probabilities():
    model = tiny_model(problem_type="multi_label_classification")
    trace = model.trace(model.encode(ids=tiny_ids()))
    np.testing.assert_allclose(trace.probabilities, 1 / (1 + np.exp(-trace.logits)))


def test_token_classification_explains_the_token_asked_for():
    model = load(tiny_module(auto=AutoModelForTokenClassification))
    encoding = model.encode(ids=tiny_ids())
    trace = model.trace(encoding, target=1, position=4)
    assert trace.target.position == 4
    assert np.flatnonzero(trace.readout).tolist() == [4]
    expected = model.network.module(torch.tensor([encoding.ids.tolist()])).logits[0, 4]
    np.testing.assert_allclose(trace.logits, expected.detach().numpy(), atol=1e-10)
    with pytest.raises(TargetError, match="Token 99 asked for, the document has 11"):
        model.explain(encoding, position=99)


def test_masked_language_models_explain_the_mask():
    tokenizer = wordpiece()
    module = tiny_module(auto=AutoModelForMaskedLM, vocab_size=max(128, len(tokenizer)))
    model = load(module, tokenizer=tokenizer)
    text = f"the {tokenizer.mask_token} sat"
    encoding = model.encode(text)
    trace = model.trace(encoding)
    place = encoding.ids.tolist().index(tokenizer.mask_token_id)
    assert trace.target.position == place
    assert len(trace.prediction.labels) == 50
    assert trace.prediction.labels[0] == trace.prediction.label
    assert np.flatnonzero(trace.readout).tolist() == [place]
    with pytest.raises(InputError, match="no mask token"):
        model.explain("the cat sat")


def test_question_answering_explains_the_best_span_of_the_second_text():
    tokenizer = wordpiece()
    module = tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2, vocab_size=max(128, len(tokenizer)))
    model = load(module, tokenizer=tokenizer)
    encoding = model.encode("who sat?", "the cat sat on the mat")
    trace = model.trace(encoding)
    first, last = trace.target.span
    assert first <= last
    assert encoding.segments[first] == encoding.segments[last] == 1
    assert trace.prediction.label in "the cat sat on the mat"
    outputs = module(**model.network.inputs([encoding]))
    assert trace.value == pytest.approx(float(outputs.start_logits[0, first] + outputs.end_logits[0, last]))
    # No other allowed span scores higher.
    start, end = outputs.start_logits[0].detach().numpy(), outputs.end_logits[0].detach().numpy()
    places = np.flatnonzero(encoding.segments == 1)
    best = max(start[i] + end[j] for i in places for j in places if i <= j)
    assert trace.value == pytest.approx(best)
    with pytest.raises(TargetError, match="before it begins"):
        model.explain(encoding, target=(5, 4))
    with pytest.raises(TargetError, match="pair of token numbers"):
        model.explain(encoding, target=("cat", "mat"))


def test_the_task_comes_from_the_architecture_or_is_asked_for():
    assert task_class(None, ["RobertaForMaskedLM"]) is TASKS["masked_lm"]
    with pytest.raises(UnsupportedError, match="found: BertModel"):
        task_class(None, ["BertModel"])
    with pytest.raises(OptionError, match="no task 'translation'"):
        task_class("translation", None)


def test_predictions_are_equal_when_all_their_numbers_are():
    model = tiny_model("bert")
    first, again, other = (model.trace(model.encode(ids=tiny_ids("bert", n))).prediction for n in (9, 9, 8))
    assert first == again
    assert hash(first) == hash(again)
    assert first != other
    assert first != "first"


def test_bare_ids_of_a_longformer_give_the_question_global_attention_as_the_library_does():
    module = tiny_module("longformer", auto=AutoModelForQuestionAnswering, num_labels=2)
    ids = [0, 10, 11, 2, 2, *range(20, 30), 2]
    outputs = module(torch.tensor([ids]))
    model = load(module)
    encoding = model.encode(ids=ids)
    assert model.network.global_tokens(encoding) == (0, 1, 2)
    (logits,) = model.network.run([encoding])
    expected = torch.stack([outputs.start_logits[0], outputs.end_logits[0]], dim=-1)
    np.testing.assert_allclose(logits.reshape(expected.shape).numpy(), expected.detach().numpy(), atol=1e-6)
