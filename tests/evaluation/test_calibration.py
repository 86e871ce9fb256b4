"""The calibration on numbers of model calls and on real texts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sightline.evaluation.rule_model import clear_documents, rule_model
from sightline.metrics import faithfulness_check
from sightline.metrics.check import plan_counts
from sightline.results.verdict import judge
from tools import calibrate_budgets, calibrate_texts
from tools.calibrate_texts import Selection, Texts
from tools.calibration import BUDGETS, RIGHT, WRONG, Subject, at_budget, measure

DOCUMENTS = clear_documents("any", 300, 3, np.random.default_rng(7))


@pytest.fixture(scope="module")
def model():
    return rule_model("any", 3)


@pytest.fixture(scope="module")
def cases(model):
    first, second, _ = DOCUMENTS
    subject = Subject(first.text, first.deciding, second.text)
    return list(measure(model, [subject], name="any", methods=["attnlrp"], budgets=BUDGETS))


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_smaller_check_is_a_part_of_what_was_measured(model, cases, budget):
    (measured,) = (case for case in cases if case.kind == "attnlrp")
    explanation = model.explain(DOCUMENTS[0].text, "attnlrp")
    direct = faithfulness_check(model.network, explanation, budget=budget)
    derived = at_budget(measured, budget)
    for name, value in direct.items():
        assert derived.checks[name] == pytest.approx(value, abs=1e-6), name
    assert derived.checks["check_calls"] <= budget
    assert derived.level == judge(direct).level
    assert len(derived.curve["counts"]) == len(plan_counts(300, None, budget)[0]) + 1


def test_without_a_budget_it_is_the_check_that_a_user_gets(model, cases):
    (measured,) = (case for case in cases if case.kind == "attnlrp")
    direct = model.check(model.explain(DOCUMENTS[0].text, "attnlrp"), artefacts=False)
    assert at_budget(measured).checks["faithfulness"] == pytest.approx(direct.checks["faithfulness"], abs=1e-6)
    assert at_budget(measured).checks["random_orderings"] == direct.checks["random_orderings"]


def test_a_check_that_was_not_measured_is_refused(cases):
    with pytest.raises(ValueError, match="needs more than was measured"):
        at_budget(cases[0], 200)
    with pytest.raises(ValueError, match="needs more than was measured"):
        at_budget(at_budget(cases[0], 24), 64)


def test_the_table_of_budgets_counts_errors_and_power(cases):
    wrong = [case for case in cases if case.kind in WRONG]
    (truth,) = (case for case in cases if case.kind == RIGHT)
    disguised = [replace(truth, kind="random")]
    header, _, *rows = calibrate_budgets.table([*wrong, truth], [*wrong, truth, *disguised])
    assert header.count("|") == rows[0].count("|")
    assert [row.split("|")[1].strip() for row in rows] == [str(budget) for budget in BUDGETS]
    assert "1 of 2 (50.0%)" in rows[0]  # the worst kind of the reporting half
    assert "1 of 6 (16.7%)" in rows[0]
    assert "1 of 1 (100.0%)" in rows[0]
    assert rows[0].endswith("| 100% |")


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "texts.jsonl"
    rows = [{"text": document.text, "label": document.label, "split": "test"} for document in DOCUMENTS]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_real_texts_are_stored_after_every_document_and_a_run_continues(monkeypatch, model, data, tmp_path):
    monkeypatch.setattr(calibrate_texts, "load", lambda folder: model)

    def run(records, methods=("attnlrp",), budgets=BUDGETS):
        calibrate_texts.measure_texts(
            str(data),
            "folder",
            Selection("test", (200, 400), 2, tokens=100),
            name="planted",
            methods=methods,
            masking_orders=0,
            budgets=budgets,
            records=records,
        )
        return calibrate_texts.load_texts(records)

    whole = run(tmp_path / "whole.json")
    assert whole.documents == 2
    assert len(whole.cases) == 2 * (1 + len(WRONG))
    assert {case.words for case in whole.cases} == {98}  # 100 tokens without [CLS] and [SEP]

    stopped = tmp_path / "stopped.json"
    record = json.loads((tmp_path / "whole.json").read_text())
    first = {**record, "documents": 1, "correct": 1, "cases": record["cases"][: 1 + len(WRONG)]}
    stopped.write_text(json.dumps(first))
    continued = run(stopped)
    assert continued.documents == 2
    for case, other in zip(continued.cases, whole.cases, strict=True):
        assert (case.kind, case.level) == (other.kind, other.level)
        assert case.effect == pytest.approx(other.effect, abs=1e-6)
    default = run(tmp_path / "default.json", budgets=())
    for case, other in zip(default.cases, whole.cases, strict=True):
        assert case.effect == pytest.approx(at_budget(other).effect, abs=1e-6)
    assert "same verdict" in calibrate_texts.table([whole])
    assert "same verdict" not in calibrate_texts.table([default])
    with pytest.raises(SystemExit, match="Choose another file"):
        run(stopped, methods=("attcat",))


def test_the_tables_of_real_texts_leave_out_what_nobody_measured(cases):
    plain = Texts("papers", 1, 1, "2026-01-01", cases, {"budgets": list(BUDGETS)})
    text = calibrate_texts.table([plain])
    assert "masking" not in text
    assert "| papers | `attnlrp` | 1 of 1 |" in text
    masked = replace(plain, cases=[replace(case, masked_effect=0.5) for case in cases])
    assert "effect, masking" in calibrate_texts.table([masked])
    assert "| papers | wrong: random | 0 of 1 |" in text


def test_rescaled_texts_are_those_of_a_model_with_larger_logits(cases):
    larger = rule_model("any", 3)
    head = larger.network.module.classifier.out_proj
    with torch.no_grad():
        head.weight *= 1.7
        head.bias *= 1.7
    first, second, _ = DOCUMENTS
    subject = Subject(first.text, first.deciding, second.text)
    expected = {case.kind: case for case in measure(larger, [subject], name="any", methods=["attnlrp"])}
    rescaled = calibrate_texts.rescale(Texts("texts", 1, 1, "2026-01-01", cases), 1.7)
    assert rescaled.name == "texts, logits × 2"
    for case in rescaled.cases:
        if case.kind != "randomised model":  # its random weights do not come from the changed ones
            derived, direct = at_budget(case), expected[case.kind]
            assert derived.effect == pytest.approx(direct.effect, abs=1e-4)
            assert derived.level == direct.level
            assert derived.checks["probability_empty"] == pytest.approx(direct.checks["probability_empty"], abs=1e-5)


def test_the_fitted_scale_makes_the_labels_likeliest(model, data):
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    rows[0]["label"] = 1 - rows[0]["label"]  # the model is then right on two documents of three
    data.write_text("\n".join(json.dumps(row) for row in rows))
    probabilities = [model.explain(row["text"], "random").prediction.probability for row in rows]
    margins = np.log(probabilities) - np.log1p(-np.array(probabilities))
    scale = calibrate_texts.fit_scale(model, str(data), Selection("test", (200, 400), 3))
    # With about equal margins, the likeliest confidence is the share of right predictions.
    assert 1 / (1 + np.exp(-scale * margins.mean())) == pytest.approx(2 / 3, abs=0.05)


@pytest.mark.parametrize(("tokens", "words"), [(None, 300), (10_000, 300), (50, 48), (2, 0)])
def test_a_text_is_cut_after_a_whole_word(model, tokens, words):
    text = DOCUMENTS[0].text
    cut = calibrate_texts.cut_text(model, text, tokens)
    assert text.startswith(cut)
    assert cut.split() == text.split()[:words]
