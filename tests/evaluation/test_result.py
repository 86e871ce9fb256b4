"""Evaluation: the long table, what it is read as, and saving and loading it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sightline.errors import InputError, OptionError
from sightline.evaluation import Evaluation, MetricCurve, Record

METHODS = ("a", "b")
DOCUMENTS = ("1", "2", "3", "4")
VALUES = {"a": (0.4, 0.5, 0.6, None), "b": (0.1, 0.3, None, 0.2)}


def sample() -> Evaluation:
    records, curves = [], {}
    for method in METHODS:
        for document, value in zip(DOCUMENTS, VALUES[method], strict=True):
            if value is None:
                status = "failed" if method == "a" else "missing"
                records.append(Record(document, method, "aopc", None, seconds=0.5, status=status, error="It broke."))
                continue
            records.append(Record(document, method, "aopc", value, 0.05, 0.7, 3, 0.5))
            series = np.array([0.0, value, 2 * value - 0.0])
            curves[document, method, "aopc"] = MetricCurve(np.array([0.0, 0.5, 1.0]), series, series / 2, None)
    return Evaluation(
        records=tuple(records),
        documents=DOCUMENTS,
        methods=METHODS,
        metrics=("aopc",),
        curves_by=curves,
        skipped={"kendall": "No reference."},
        settings={"seed": 3, "ratios": None},
        provenance={"model": "tiny"},
        calls_requested=20,
        calls_made=10,
        seconds=1.5,
    )


def test_the_long_table_has_a_row_for_every_record_and_says_why_a_value_is_absent():
    frame = sample().to_frame()
    assert len(frame) == 8
    absent = frame[frame["value"].isna()]
    assert absent["status"].tolist() == ["failed", "missing"]
    assert (absent["error"] == "It broke.").all()


def test_means_are_over_the_documents_with_a_value_and_the_others_are_counted():
    summary = sample().summary().set_index("method")
    assert summary.loc["a", "mean"] == pytest.approx(0.5)
    assert summary.loc["b", "mean"] == pytest.approx(0.2)
    assert summary[["documents", "missing", "failed"]].to_numpy().tolist() == [[3, 0, 1], [3, 1, 0]]
    assert summary[["low", "high"]].isna().to_numpy().all()  # three documents have no interval
    assert summary["floor"].tolist() == pytest.approx([0.05, 0.05])
    assert summary["reference"].tolist() == pytest.approx([0.7, 0.7])
    assert summary["seconds"].tolist() == pytest.approx([0.5, 0.5])
    assert summary["higher_is_better"].tolist() == [True, True]


def test_methods_are_paired_on_the_documents_both_have():
    row = sample().paired("aopc").iloc[0]
    assert (row["method"], row["other"], row["documents"], row["better"]) == ("a", "b", 2, "a")
    assert row["difference"] == pytest.approx((0.3 + 0.2) / 2)
    assert row["p"] == row["p_holm"] == 0.5  # two documents, both in one direction: 2 of 4 signs


def test_curves_are_means_over_documents_beside_floor_and_reference():
    curve = sample().curves("a", "aopc")
    assert curve["ratio"].tolist() == [0.0, 0.5, 1.0]
    assert curve["mean"].tolist() == pytest.approx([0.0, 0.5, 1.0])
    assert curve["floor"].tolist() == pytest.approx([0.0, 0.25, 0.5])
    assert curve["reference"].isna().all()
    assert (curve["documents"] == 3).all()


def test_what_was_not_measured_is_answered_with_what_was():
    with pytest.raises(OptionError, match="Did you mean 'aopc'"):
        sample().paired("aopk")
    with pytest.raises(OptionError, match="Measured: a, b"):
        sample().curves("c", "aopc")


def test_failures_are_listed():
    failures = sample().failures()
    assert failures[["document", "method", "status"]].to_numpy().tolist() == [
        ["4", "a", "failed"],
        ["3", "b", "missing"],
    ]


def test_it_says_what_it_holds():
    text = repr(sample())
    assert "2 methods by 1 metrics on 4 documents" in text
    assert "10 model calls made of 20" in text
    assert "0.5" in text


def test_saving_and_loading_keeps_every_bit(tmp_path):
    before = sample()
    before.save(tmp_path / "deep" / "out")
    after = Evaluation.load(tmp_path / "deep" / "out")
    assert after.records == before.records
    for name in ("documents", "methods", "metrics", "skipped", "settings", "provenance", "complete", "calls_made"):
        assert getattr(after, name) == getattr(before, name)
    assert set(after.curves_by) == set(before.curves_by)
    for key, curve in before.curves_by.items():
        np.testing.assert_array_equal(after.curves_by[key].values, curve.values)
        np.testing.assert_array_equal(after.curves_by[key].floor, curve.floor)
        assert after.curves_by[key].reference is None
    assert {path.name for path in (tmp_path / "deep" / "out").iterdir()} == {
        "records.parquet",
        ".sightline.json",
        "curves.parquet",
        "evaluation.json",
    }


def test_an_evaluation_without_documents_is_empty_not_broken(tmp_path):
    empty = Evaluation((), (), METHODS, ("aopc",), complete=False)
    assert empty.summary().empty
    assert empty.curves("a", "aopc").empty
    assert math.isnan(empty.paired("aopc")["p"].iloc[0])
    assert "interrupted" in repr(empty)
    empty.save(tmp_path)
    assert Evaluation.load(tmp_path).records == ()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder: (folder / "evaluation.json").unlink(), "no complete evaluation"),
        (lambda folder: (folder / "curves.parquet").unlink(), "no file"),
        (lambda folder: (folder / "records.parquet").write_bytes(b"no table"), "damaged"),
        (lambda folder: (folder / "evaluation.json").write_text("{}"), "is not an evaluation saved by Sightline"),
        (lambda folder: change(folder, version=99), "newer Sightline"),
        (lambda folder: change(folder, documents=None), "damaged"),
    ],
)
def test_a_damaged_folder_is_refused_with_a_sentence(tmp_path, damage, sentence):
    sample().save(tmp_path)
    damage(tmp_path)
    with pytest.raises(InputError, match=sentence):
        Evaluation.load(tmp_path)


def change(folder, **entries):
    path = folder / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))
