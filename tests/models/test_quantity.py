"""The log-odds of a class: their value and gradient against brute force, and where p tends to 1."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightline.models.target import Target
from sightline.models.task import TaskFacts
from sightline.models.tasks import TASKS


def _task(name: str = "sequence_classification", classes: int = 3, **facts: bool):
    return TASKS[name](TaskFacts(tuple(f"LABEL_{c}" for c in range(classes)), **facts))


def _gradient(task, logits, target):
    leaf = logits.clone().requires_grad_()
    task.value(leaf, target, "log_odds").backward()
    return leaf.grad


def test_the_log_odds_are_those_of_the_probability_with_their_gradient():
    logits = torch.tensor([0.3, -1.2, 2.0, 0.7], dtype=torch.float64)
    p = torch.softmax(logits, dim=0)
    for c in range(4):
        target = Target(c, "c")
        value = _task(classes=4).value(logits, target, "log_odds")
        assert float(value) == pytest.approx(float(torch.log(p[c] / (1 - p[c]))), abs=1e-12)
        expected = -p / (1 - p[c])
        expected[c] = 1.0
        torch.testing.assert_close(_gradient(_task(classes=4), logits, target), expected, rtol=0, atol=1e-12)


def test_two_classes_have_the_difference_of_their_logits():
    logits = torch.tensor([0.3, -1.2])
    assert _task(classes=2).value(logits, Target(1, "c"), "log_odds") == logits[1] - logits[0]


def test_a_contrast_is_between_two_classes():
    logits = torch.tensor([0.3, -1.2, 2.0])
    value = _task().value(logits, Target(0, "a", contrast=1, contrast_label="b"), "log_odds")
    assert value == logits[0] - logits[1]


@pytest.mark.parametrize(("classes", "facts"), [(1, {}), (3, {"multi_label": True})])
def test_a_class_without_competitors_has_its_logit(classes, facts):
    logits = torch.linspace(-1.0, 2.0, classes)
    assert _task(classes=classes, **facts).value(logits, Target(0, "c"), "log_odds") == logits[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_value_and_gradient_stay_exact_where_the_model_is_certain(dtype):
    logits = torch.tensor([60.0, 1.0, 2.0], dtype=dtype)
    target = Target(0, "c")
    assert float(_task().value(logits, target, "log_odds")) == pytest.approx(60 - np.log(np.e + np.e**2), rel=1e-6)
    others = torch.softmax(logits[1:].float(), dim=0)
    expected = torch.tensor([1.0, -others[0], -others[1]])
    torch.testing.assert_close(_gradient(_task(), logits, target).float(), expected, rtol=0, atol=5e-3)


def test_an_answer_has_the_log_odds_of_its_start_and_its_end():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    value = _task("question_answering").value(logits, Target(None, "a", span=(1, 3)), "log_odds")
    p = torch.softmax(logits, dim=0)
    odds = p / (1 - p)
    assert float(value) == pytest.approx(float(torch.log(odds[1, 0]) + torch.log(odds[3, 1])), abs=1e-12)


def test_the_log_odds_of_a_batch_do_not_change_with_what_is_added_to_all_logits():
    generator = torch.Generator().manual_seed(1)
    for name, shape, target in [
        ("sequence_classification", (3,), Target(2, "c")),
        ("token_classification", (4, 3), Target(1, "c", position=2)),
        ("masked_lm", (4, 3), Target(0, "c", position=3)),
        ("question_answering", (4, 2), Target(None, "a", span=(1, 2))),
    ]:
        logits = torch.randn(*shape, generator=generator, dtype=torch.float64)
        task = _task(name)
        for added in (-7.0, 0.5, 300.0):
            moved = task.value(logits + added, target, "log_odds")
            assert float(moved) == pytest.approx(float(task.value(logits, target, "log_odds")), abs=1e-11)
