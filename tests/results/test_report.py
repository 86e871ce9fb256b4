"""Report: what a page shows of one document, the same through every door, saved and loaded bit for bit."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import zipfile

import numpy as np
import pytest

from sightline.api.load import load
from sightline.errors import InputError, OptionError, UsageError
from sightline.metrics.check import TEST_STAGE
from sightline.models.target import Target
from sightline.results.check import Artefact, Exchange
from sightline.results.explanation import Explanation, fingerprint_scores
from sightline.results.report import Report
from sightline.view.page.payload import build
from tests.sample_explanations import check_of, encoding, explanation
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece
from tests.view.sample_inside import banded_inside, sample_inside

TEXT = "hello old miller! the river mills; the world"


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


def test_a_report_holds_what_explain_inside_and_check_give(model):
    report = model.report(TEXT, ["attcat", "rollout"], rollout={"fusion": "max"})
    expected = model.explain(TEXT, methods=["attcat", "rollout"], rollout={"fusion": "max"}, check=True)
    assert list(report.explanations) == ["attcat", "rollout"]
    for name, wanted in expected.items():
        made = report.explanations[name]
        np.testing.assert_array_equal(made.scores, wanted.scores)
        assert made.checks == wanted.checks
        assert made.options == wanted.options
        assert report.verdicts[name] == wanted.verdict
        assert made.check == wanted.check
    assert report.inside.tokens == len(report.encoding)
    assert report.inside.importance.shape == (report.inside.layers, report.inside.heads)
    assert set(report.seconds) == {"explain", "inside", "check"}
    assert report.provenance == model.provenance()
    assert report.prediction == report.first.prediction
    assert len(report) == 2


def test_the_explanations_are_handed_out_before_they_are_checked(model):
    stages, early = [], []

    def hand_out(report):
        stages.append("explained")
        early.append(report)

    def follow(stage, _done, _total):
        stages.append(stage)

    report = model.report(TEXT, ["attcat", "rollout"], progress=follow, on_explained=hand_out)
    assert [explanation.verdict.level for explanation in early[0]] == ["unchecked", "unchecked"]
    assert [explanation.verdict.level == "unchecked" for explanation in report] == [False, True]
    for first, last in zip(early[0], report, strict=True):
        np.testing.assert_array_equal(first.scores, last.scores)
    assert stages.index("rollout") < stages.index("explained") < stages.index(TEST_STAGE)
    assert early[0].seconds == {"explain": report.seconds["explain"]}


def test_parts_of_a_report_can_be_left_out_and_the_default_method_is_the_same_as_for_explain(model):
    report = model.report(TEXT, check=False, inside=False)
    np.testing.assert_array_equal(report.first.scores, model.explain(TEXT).scores)
    assert report.inside is None
    assert report.first.verdict.level == "unchecked"
    assert list(report.seconds) == ["explain"]


def test_every_class_is_kept_by_its_label(model):
    report = model.report(TEXT, ["attcat", "rollout"], "all", check=False)
    labels = list(model.labels)
    predicted = report.prediction.label
    assert predicted != labels[0], "a model that predicts the first class shows no difference"
    shown_labels = [predicted, *(label for label in labels if label != predicted)]
    assert [(entry.method, entry.label) for entry in report.entries()] == [
        (method, label) for method in ("attcat", "rollout") for label in shown_labels
    ]
    assert list(report.verdicts["attcat"]) == labels
    names = [shown["target"]["name"] for shown in build(report).json["explanations"]]
    assert names == [f"“{label}”" for label in shown_labels] * 2


def test_a_trace_brings_its_own_target(model):
    trace = model.trace(TEXT, 1)
    report = model.report(trace, ["attcat"], check=False)
    assert report.first.target.index == 1
    with pytest.raises(OptionError, match="has its own"):
        model.report(trace, ["attcat"], 0)
    with pytest.raises(InputError, match="one text"):
        model.report([TEXT, TEXT])


def test_a_report_is_of_one_document_and_never_empty():
    with pytest.raises(UsageError, match="at least one"):
        Report({})
    with pytest.raises(UsageError, match="different texts"):
        Report({"a": explanation(encoding("old mill")), "b": explanation(encoding("old river"))})
    with pytest.raises(InputError, match="trace of the same document"):
        Report({"a": explanation(encoding("old mill"))}, inside=sample_inside(encoding("the old mill")))


def test_runs_and_targets_of_one_method_get_names_of_their_own():
    encoded = encoding()
    first, second = (explanation(encoded, target=Target(i, label)) for i, label in enumerate(("AI", "PL")))
    assert list(Report.of([first, first]).explanations) == ["attcat 1", "attcat 2"]
    assert list(Report.of([first, second]).explanations["attcat"]) == ["AI", "PL"]
    logit, probability = (explanation(encoded, target=Target(1, "PL", quantity=q)) for q in ("logit", "probability"))
    assert list(Report.of([logit, probability]).explanations["attcat"]) == ["logit of 'PL'", "probability of 'PL'"]


@pytest.mark.parametrize("target", [None, "all"])
def test_saving_and_loading_gives_the_same_report_bit_for_bit(model, tmp_path, target):
    report = model.report(TEXT, ["attcat", "rollout"], target, check=target is None)
    report.save(tmp_path / "report.zip")
    loaded = Report.load(tmp_path / "report.zip")
    for made, read in zip(report.entries(), loaded.entries(), strict=True):
        assert made[:2] == read[:2]
        assert made.explanation.scores.tobytes() == read.explanation.scores.tobytes()
        assert made.explanation.scores.dtype == read.explanation.scores.dtype
        assert made.explanation.to_dict() == read.explanation.to_dict()
        assert read.explanation.encoding is loaded.encoding
    before, after = build(report), build(loaded)
    assert before.json == after.json
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(array, after.arrays[name])
    for name in ("received", "thumbnails", "images", "importance"):
        assert getattr(report.inside, name).tobytes() == getattr(loaded.inside, name).tobytes()
    assert loaded.seconds == report.seconds
    assert loaded.to_dict() == report.to_dict()


def test_straightened_windows_are_saved_too(tmp_path):
    encoded = encoding(" ".join(["old mill"] * 40))
    report = Report({"attcat": explanation(encoded)}, inside=banded_inside(encoded))
    report.save(tmp_path / "report.zip")
    loaded = Report.load(tmp_path / "report.zip")
    for made, read in zip(report.inside.windows, loaded.inside.windows, strict=True):
        assert made.tobytes() == read.tobytes()
    damaged = dataclasses.replace(report.inside, windows=report.inside.windows._replace(reach=np.array([3, 10_000])))
    Report({"attcat": explanation(encoded)}, inside=damaged).save(tmp_path / "damaged.zip")
    with pytest.raises(InputError, match="stay within the document"):
        Report.load(tmp_path / "damaged.zip")


def test_a_report_without_inside_is_saved_too(tmp_path):
    Report({"attcat": explanation()}).save(tmp_path / "report.zip")
    assert Report.load(tmp_path / "report.zip").inside is None


def test_files_that_are_not_reports_are_named_in_a_sentence(tmp_path):
    path = tmp_path / "report.zip"
    with pytest.raises(UsageError, match="saved in a .zip file"):
        Report({"attcat": explanation()}).save(tmp_path / "report.json")
    with pytest.raises(InputError, match="There is no file"):
        Report.load(path)
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match="is damaged"):
        Report.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.json", "{}")
    with pytest.raises(InputError, match="not a report"):
        Report.load(path)
    for content, message in [
        ({"format": "other"}, "not a report"),
        ({"format": "sightline-report", "version": 2}, "newer Sightline"),
        ({"format": "sightline-report", "version": 1, "inside": None}, "'documents' is missing"),
    ]:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("report.json", json.dumps(content))
        with pytest.raises(InputError, match=message):
            Report.load(path)


def test_an_array_that_holds_objects_is_not_unpickled(model, tmp_path):
    path = tmp_path / "report.zip"
    model.report(TEXT, check=False).save(path)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    np.save(tmp_path / "bad.npy", np.array([{}], dtype=object), allow_pickle=True)
    content["inside/received.npy"] = (tmp_path / "bad.npy").read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    with pytest.raises(InputError, match="is damaged"):
        Report.load(path)


def test_a_report_is_plain_json(model):
    record = model.report(TEXT, ["attcat"]).to_dict()
    again = json.loads(json.dumps(record, allow_nan=False))
    assert again == record
    attcat = record["explanations"]["attcat"]
    assert attcat["verdict"]["level"] in ("holds", "weak", "poor")
    assert attcat["words"][0]["text"] == "hello"
    assert len(record["inside"]["relations"]["all"]["attended"]["partners"]) == len(attcat["scores"])
    assert Explanation.from_record(attcat).to_dict() == attcat


def test_nothing_of_the_method_survives_other_scores(model):
    checked = model.explain(TEXT, "attnlrp", check=True)
    assert checked.layers is not None
    assert "conservation_error" in checked.checks
    edited = dataclasses.replace(checked, scores=checked.scores[::-1])
    assert edited.method == "attnlrp (edited)"
    assert (edited.layers, edited.layer_kind, edited.check, edited.exchange) == (None, None, None, None)
    assert (edited.options, edited.extras, set(edited.checks)) == ({}, {}, {"untrained"})
    assert "AttnLRP" not in edited.to_html().partition("</title>")[0]
    assert dataclasses.replace(edited, scores=checked.scores).method == "attnlrp (edited)"
    again = model.check(edited)
    assert again.method == edited.method
    assert "conservation_error" not in again.checks
    named = dataclasses.replace(checked, scores=-checked.scores, layers=-checked.layers, method="mine")
    assert (named.method, named.layer_kind) == ("mine", checked.layer_kind)
    same = dataclasses.replace(checked, scores=checked.scores.copy())
    for kept in (same, copy.deepcopy(checked), pickle.loads(pickle.dumps(checked))):
        assert kept.to_dict() == checked.to_dict()
    assert pickle.loads(pickle.dumps(edited)).method == edited.method


def test_an_explanation_of_something_else_keeps_nothing_that_was_measured_for_the_first(model):
    checked = model.check(model.explain(TEXT, "attcat"))
    other = model.explain(f"{TEXT} and then some", "attcat", target=0 if checked.target.index else 1)
    document = dataclasses.replace(checked.encoding, text=checked.encoding.text.upper())
    for change in ({"target": other.target}, {"prediction": other.prediction}, {"encoding": document}):
        changed = dataclasses.replace(checked, **change)
        assert changed.method == "attcat (edited)"
        assert changed.verdict.level == "unchecked"
        assert (changed.layers, changed.exchange) == (None, None)
        assert not changed.checks.keys() - {"untrained"}
    equal = {name: dataclasses.replace(getattr(checked, name)) for name in ("target", "encoding")}
    same = dataclasses.replace(checked, **equal, provenance={"by": "hand"})
    assert (same.method, same.verdict) == (checked.method, checked.verdict)


def test_any_scores_can_be_checked(model):
    plain = model.explain(TEXT, "attcat")
    checked = model.explain(TEXT, "attcat", check=True)
    again = model.check(plain)
    assert again.checks == checked.checks
    assert again.verdict == checked.verdict
    assert again.check == checked.check
    reversed_ = model.check(dataclasses.replace(checked, scores=-checked.scores))
    assert reversed_.check.without != checked.check.without
    on_special = np.where(checked.encoding.special, 1.0, 0.1)
    assert model.check(dataclasses.replace(checked, scores=on_special)).checks["special_share"] != pytest.approx(
        checked.checks["special_share"]
    )
    foreign = Explanation("mine", on_special, plain.encoding, plain.target, plain.prediction)
    assert model.check(foreign).verdict.level in ("holds", "weak", "poor")
    with pytest.raises(InputError, match="can be checked"):
        model.check("text")


def test_a_check_that_is_not_possible_says_why_and_replaces_an_earlier_one(model):
    word = model.explain("miller", "gradient")
    stale = dataclasses.replace(word, check=check_of(word))
    checked = model.check(stale)
    assert checked.check is None
    assert checked.verdict.level == "unchecked"
    assert checked.verdict.reasons[0] == "not_comparable"
    assert "fewer than two words" in checked.verdict.detail


def test_a_figure_shows_every_explanation_with_its_verdict_its_total_and_the_headline(model, tmp_path):
    report = model.report(TEXT, ["attcat", "rollout"], check=False)
    figure = report.plot(tmp_path / "figure.svg")
    said = [text.get_text().replace("\n", " ") for axes in figure.axes for text in axes.texts]
    said += [text.get_text().replace("\n", " ") for text in figure.texts]
    total = f"{report.first.scores.sum():+.3g}".replace("-", "−")
    assert f"AttCAT: not checked. Total score {total}." in said
    assert "Attention rollout: not checked. Total score 1." in said
    assert any(text.startswith("Predicted “") for text in said)
    assert any(report.headline in text for text in said)
    assert (tmp_path / "figure.svg").read_text().startswith("<?xml")
    assert len(report.first.plot().axes) == 2  # the text and its scale of colours
    with pytest.raises(UsageError, match="figures are written as svg, png, pdf"):
        report.plot(tmp_path / "figure.gif")


def test_a_figure_names_the_true_label_beside_the_prediction(model):
    report = model.report(TEXT, ["attcat"], check=False)
    titles = [text.get_text() for text in report.first.plot(true_label="other").texts]
    assert any(title.endswith("), true label “other”") and title.startswith("Predicted “") for title in titles)
    assert not any("true label" in text.get_text() for text in report.plot().texts)


def test_a_figure_explains_dotted_lines_only_where_a_word_has_one():
    scored = explanation()
    assert {artefact.reason for artefact in scored.artefacts} == {"special"}
    said = " ".join(text.get_text() for text in scored.plot().texts)
    assert "Dotted" not in said


def test_a_figure_marks_artefacts_and_repeats_warnings():
    scored = explanation(checks={"special_share": 0.9})
    exchange = Exchange(2, 3, (Artefact((2,), "position", 1.0, 0.0),), fingerprint_scores(scored.scores))
    marked = dataclasses.replace(scored, exchange=exchange)
    figure = Report({"attcat": marked}).plot()
    assert [line.get_linestyle() for line in figure.axes[0].lines] == [":"]
    said = " ".join(text.get_text().replace("\n", " ") for text in figure.texts)
    assert "Dotted: the score belongs to the position, not to the word." in said
    assert not Report({"attcat": scored}).plot().axes[0].lines
