"""Models whose rule is known by construction, long documents, and the calibration of the verdict on them."""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from sightline.errors import OptionError
from sightline.evaluation import planted_at_length
from sightline.evaluation.planted_task import FIRST, SECOND
from sightline.evaluation.rule_model import (
    PLACES,
    RULES,
    STRENGTHS,
    _write_classifier,
    clear_documents,
    rule_document,
    rule_model,
)
from sightline.results.verdict import SMALLEST_EFFECT
from tools.calibration import (
    CHOSEN_ERROR,
    RIGHT,
    WRONG,
    Case,
    Subject,
    choose_threshold,
    measure,
    share_held,
)


@pytest.fixture(scope="module")
def models():
    return {rule: rule_model(rule, 0) for rule in RULES}


def test_the_weights_of_the_classifier_do_not_depend_on_where_arrays_lie_in_memory(models):
    """They are the exact solution rounded once, so that every process makes the same model."""
    module = copy.deepcopy(models["any"].network.module)
    states = torch.tensor([[0.1, -0.2], [3.1, -0.1], [0.2, 2.9], [3.0, 2.8]])
    with torch.no_grad():
        _write_classifier(module, states, STRENGTHS["any"])
    system = np.column_stack([torch.tanh(0.2 * states).double().numpy(), np.ones(4)])
    margin = np.array([0.0, 1.0, 0.0, 1.0]) * STRENGTHS["any"][0] + STRENGTHS["any"][2]
    solution = np.linalg.lstsq(system, margin)[0].astype(np.float32)
    head = module.classifier.out_proj
    assert (head.weight[1, :2].detach().numpy() == solution[:2] / 2).all()
    assert head.bias[1].item() == solution[2] / 2


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("words", [40, 700])
def test_the_model_answers_as_the_rule_does_at_every_length(models, rule, words):
    generator = np.random.default_rng(words)
    for first in (0, 1, 2):
        for second in (0, 1):
            document = rule_document(rule, words, generator, first=first, second=second)
            prediction = models[rule].explain(document.text, "random").prediction
            assert prediction.index == document.label
            assert prediction.probability > 0.6


@pytest.mark.parametrize("rule", RULES)
def test_the_deciding_words_are_those_whose_removal_changes_the_answer(models, rule):
    for document in clear_documents(rule, 60, 8, np.random.default_rng(1)):
        words = document.text.split()
        assert document.deciding
        assert {words[place] for place in document.deciding} <= {*FIRST, *SECOND}
        rest = " ".join(word for place, word in enumerate(words) if place not in document.deciding)
        assert models[rule].explain(rest, "random").prediction.index != document.label


def test_words_are_planted_in_the_third_that_is_requested():
    for number, place in enumerate(PLACES):
        document = rule_document("any", 300, np.random.default_rng(number), first=2, place=place)
        assert all(number * 100 <= position < (number + 1) * 100 for position in document.deciding)
    with pytest.raises(OptionError, match="Unknown rule"):
        rule_document("never", 300, np.random.default_rng(0))
    with pytest.raises(OptionError, match="too short"):
        rule_document("any", 5, np.random.default_rng(0))


def test_methods_find_the_words_beyond_the_first_window():
    result = planted_at_length(["attnlrp", "random"], lengths=[300], rules=["exception"], documents=2)
    by_place = result.summary("place").set_index(["method", "place"])["precision"]
    assert all(by_place["attnlrp", place] >= 0.75 for place in PLACES)
    assert all(by_place["random", place] < 0.5 for place in PLACES)
    assert result.summary().set_index("method").loc["attnlrp", "documents"] == 6


def test_the_truth_holds_up_and_wrong_explanations_do_not(models):
    documents = clear_documents("exception", 120, 4, np.random.default_rng(3))
    subjects = [
        Subject(document.text, document.deciding, documents[number - 1].text)
        for number, document in enumerate(documents)
    ]
    cases = list(measure(models["exception"], subjects, name="exception"))
    assert {case.kind for case in cases} == {RIGHT, *WRONG}
    truth = [case for case in cases if case.kind == RIGHT]
    assert all(case.effect >= SMALLEST_EFFECT and case.precision == 1.0 for case in truth)
    # A random order that happens to begin with the deciding word does as well.
    assert sum(case.level == "holds" for case in truth) >= 3
    held = [case.level == "holds" for case in cases if case.kind in WRONG]
    assert np.mean(held) <= 0.1
    for case in cases:
        assert (case.level == "holds") == case.holds(SMALLEST_EFFECT)


def test_measures_that_the_verdict_does_not_use_agree_with_the_truth(models):
    """Masking the deciding words, and a rationale that marks them, for the truth and for scores without information."""
    (document,) = clear_documents("any", 80, 1, np.random.default_rng(5))
    places = [match.span() for match in re.finditer(r"\S+", document.text)]
    rationale = tuple(places[place] for place in document.deciding)
    subject = Subject(document.text, document.deciding, document.text, rationale, document.label)
    cases = {case.kind: case for case in measure(models["any"], [subject], name="any", masking_orders=3)}
    truth, random = cases[RIGHT], cases["random"]
    share = len(document.deciding) / 80
    assert truth.masked_effect == pytest.approx(truth.effect, abs=0.5)
    assert truth.masked_effect > 1 > random.masked_effect
    assert truth.token_f1 == pytest.approx(1 - share)
    assert truth.auprc > 0.9
    assert abs(random.auprc) < 0.5
    wrong_label = replace(subject, label=1 - document.label)
    assert all(case.auprc is None for case in measure(models["any"], [wrong_label], name="any"))
    assert all(case.masked_effect is None for case in measure(models["any"], [wrong_label], name="any"))


def test_a_default_class_that_nothing_decides_is_named(models):
    document = rule_document("any", 60, np.random.default_rng(0), first=0)
    verdict = models["any"].check(models["any"].explain(document.text, "attnlrp")).verdict
    assert verdict.level == "weak"
    assert verdict.reasons[0] == "nothing_decides"


def case(kind: str, effect: float, chance: float = 0.1) -> Case:
    return Case("model", 100, kind, None, "weak", "small_effect", effect, chance, 0.0)


def test_the_threshold_is_the_smallest_that_keeps_the_error_of_every_kind():
    cases = [case(kind, 0.01 * number) for kind in WRONG for number in range(100)]
    cases += [case(RIGHT, 1.5), case("random", 1.9, chance=0.2)]
    effect = choose_threshold(cases)
    assert effect == 1.0
    assert all(share_held(cases, kind, effect) <= CHOSEN_ERROR for kind in WRONG)
    assert any(share_held(cases, kind, effect - 0.05) > CHOSEN_ERROR for kind in WRONG)
    assert share_held(cases, RIGHT, effect) == 1.0
    with pytest.raises(ValueError, match="no threshold"):
        choose_threshold([case("random", 5.0)])
