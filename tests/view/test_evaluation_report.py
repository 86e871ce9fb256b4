"""The report of an evaluation: everything escaped, nothing from outside, the same every time, honest sentences."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from sightline.errors import UsageError
from sightline.evaluation import Curve, Evaluation, Reading, Record
from sightline.evaluation.planted import Found, Planted, PlantedResult
from sightline.evaluation.planted_task import PlantedTask
from sightline.evaluation.sanity import Comparison, SanityResult
from sightline.view.evaluation import write_evaluation
from sightline.view.evaluation_text import evaluation_text

NASTY = "<img src=x onerror=alert(1)>\"'&|$\\x"
RATIOS = np.array([0.0, 0.5, 1.0])


def evaluation(documents=("a", "b", NASTY), **facts) -> Evaluation:
    """`gradient` is much better than `rollout`, which is as good as random orders; one document fails for `rollout`."""
    records, curves = [], {}
    generator = np.random.default_rng(0)
    for number, document in enumerate(documents):
        for method, height in (("gradient", 0.8), ("rollout", 0.2)):
            if method == "rollout" and document == NASTY:
                records += [
                    Record(document, method, metric, None, status="failed", error=f"Failed on {NASTY}.")
                    for metric in ("aopc", "entropy")
                ]
                continue
            value = height + 0.01 * number
            floor = value + generator.normal(0, 0.05) if method == "rollout" else 0.2
            records.append(Record(document, method, "aopc", value, floor, 0.9, calls=3, seconds=0.1 * (1 + height)))
            records.append(Record(document, method, "entropy", 0.5, seconds=0.1))
            floors, ceiling = np.array([0, 0.2, 0.4]), np.array([0, 0.6, 0.9])
            curves[document, method, "aopc"] = Curve(RATIOS, RATIOS * value, floors, ceiling)
    return Evaluation(
        records=tuple(records),
        documents=tuple(documents),
        methods=("rollout", "gradient"),
        metrics=("aopc", "entropy"),
        curves_by=curves,
        skipped={"auprc": f"No rationale {NASTY}.", "token_f1": f"No rationale {NASTY}."},
        settings={"seed": 0, "level": "word", "options": {}},
        provenance={"model": NASTY, "weights": "abc"},
        calls_requested=12,
        calls_made=7,
        seconds=3.2,
        **facts,
    )


def sanity() -> SanityResult:
    found = [
        Comparison(document, method, stage, similarity, similarity, 9)
        for document in ("a", "b")
        for method, similarity in (("gradient", 0.0), ("rollout", 1.0))
        for stage in ("head", "embeddings")
    ]
    chance = {(method, stage): (-0.3, 0.3) for method in ("gradient", "rollout") for stage in ("head", "embeddings")}
    return SanityResult(
        "weight randomisation, cascading", tuple(found), ("gradient", "rollout"), ("head", "embeddings"), chance
    )


def planted() -> PlantedResult:
    found = [Found(number, "gradient", 1.0, 0.05) for number in range(4)]
    return PlantedResult(tuple(found), ("gradient",), Planted(None, (), PlantedTask(), 0, 200, 0.99, 1.0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "out"
    write_evaluation(evaluation(), out, sanity=sanity(), planted=planted(), title=f"A report on {NASTY}")
    return out


def test_nothing_from_a_document_a_label_or_a_model_is_ever_markup(folder):
    page = (folder / "index.html").read_text()
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert re.findall(r"<script", page) == []
    for name in ("failures", "summary"):
        assert "<img" not in (folder / "tables" / f"{name}.md").read_text()
        assert not re.search(r"(?<!\\)\$", (folder / "tables" / f"{name}.tex").read_text())


def test_the_page_loads_nothing_from_outside(folder):
    page = (folder / "index.html").read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; img-src 'self' file:; style-src ")
    assert "unsafe" not in policy
    assert not re.search(r'(src|href)="(https?:|//)', page)
    for target in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert (folder / target).is_file(), target


def test_every_picture_and_table_is_written_in_every_form(folder):
    for name in ("cost", "curves_aopc", "cascade"):
        assert (folder / "figures" / f"{name}.svg").read_text().lstrip().startswith("<?xml")
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for name in ("overview", "summary", "metric_aopc", "metric_entropy", "paired", "sanity", "planted", "failures"):
        assert {path.suffix for path in (folder / "tables").glob(f"{name}.*")} == {".csv", ".tex", ".md"}
    assert not list(folder.rglob("*.part"))


def test_the_evaluation_comes_back_from_the_folder(folder):
    assert Evaluation.load(folder).records == evaluation().records


def test_the_same_evaluation_gives_the_same_files(folder, tmp_path):
    write_evaluation(evaluation(), tmp_path, sanity=sanity(), planted=planted(), title=f"A report on {NASTY}")
    for path in folder.rglob("*"):
        if path.is_file():
            assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes(), path.name


def test_sentences_name_the_best_and_those_that_are_no_better_than_chance():
    reading = Reading(evaluation(documents=tuple("abcdefgh")))
    sentences = reading.metric_sentences("aopc")
    assert sentences[0].startswith("Best by aopc: gradient, 0.835")
    assert sentences[1] == "It is clearly better than every other method."
    assert sentences[2] == "No better than random orders: rollout."
    assert reading.metric_sentences("entropy") == []  # neither direction is better


def test_few_documents_make_nothing_clear():
    assert "Not clearly worse: rollout." in Reading(evaluation()).metric_sentences("aopc")


def test_what_failed_was_left_out_or_cut_short_is_said():
    said = " ".join(Reading(evaluation(complete=False)).state_sentences())
    assert "1 explanation of 1 document failed" in said
    assert "Left out: auprc, token_f1. No rationale" in said
    assert "stopped before its end" in said
    assert "The model read 7 changed documents for 12" in said


def test_the_overview_has_a_row_a_method_and_a_column_a_metric():
    table = Reading(evaluation()).overview()
    assert list(table.columns) == ["method", "aopc", "entropy", "seconds"]
    assert table["method"].tolist() == ["rollout", "gradient"]
    assert table.loc[1, "aopc"] == pytest.approx(0.81)


def test_text_and_json_hold_the_sanity_tests():
    reading = Reading(evaluation())
    text = evaluation_text(reading, sanity=sanity(), planted=planted())
    assert "rollout does not change when every weight is random" in text
    assert "gradient ranks 100% of the planted words first" in text
    content = json.loads(evaluation_text(reading, "json", sanity=sanity(), planted=planted()))
    assert content["sanity"]["verdicts"] == {"gradient": "changed", "rollout": "unchanged"}
    assert content["planted"]["summary"][0]["precision"] == 1.0


def test_a_report_without_any_value_can_be_written(tmp_path):
    records = tuple(Record("a", "gradient", "aopc", None, status="failed", error="No.") for _ in range(1))
    empty = Evaluation(records=records, documents=("a",), methods=("gradient",), metrics=("aopc",))
    page = write_evaluation(empty, tmp_path / "out")
    assert "1 explanation of 1 document failed" in page.read_text()


def test_a_place_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="it is a file"):
        write_evaluation(evaluation(), tmp_path / "file")


def test_a_folder_that_was_used_before_keeps_nothing_of_it_but_what_others_put_there(tmp_path):
    write_evaluation(evaluation(), tmp_path, sanity=sanity())
    (tmp_path / "figures" / "mine.svg").write_text("<svg/>")
    (tmp_path / "notes.txt").write_text("mine")
    assert (tmp_path / "figures" / "cascade.svg").exists()
    write_evaluation(evaluation(), tmp_path)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert not left & {"cascade.svg", "cascade.png", "sanity.csv", "sanity.tex", "sanity.md"}
    assert {"mine.svg", "notes.txt", "cost.svg", "cost.png", "overview.csv"} <= left


def test_a_page_of_someone_else_names_nothing_that_is_removed(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "own.svg").write_text("<svg/>")
    (tmp_path / "index.html").write_text('<a href="figures/own.svg">my figure</a>')
    write_evaluation(evaluation(), tmp_path)
    assert (tmp_path / "figures" / "own.svg").exists()


def test_every_row_of_a_long_table_is_on_the_page(tmp_path):
    names = [f"document-{number}" for number in range(30)] + [NASTY]
    found = evaluation(names)
    broken = [Record(name, "other", "aopc", None, status="failed", error=f"Reason of {name}.") for name in names]
    page = write_evaluation(replace(found, records=(*found.records, *broken)), tmp_path).read_text()
    folded = page.split("<details>")[-1]
    assert "<summary>All 33 rows</summary>" in folded
    assert all(f"Reason of {name}." in folded for name in names[:30])
    assert "<img src=x" not in page
