"""Results of a study are stored whole, found again by what produced them, and read back bit for bit."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from sightline.errors import InputError, ModelError, OptionError, UsageError
from sightline.text import Example
from sightline_studies import STUDIES
from sightline_studies import workbench as workbench_module
from sightline_studies.data import DataSources, divide, draw
from sightline_studies.study import (
    Accuracy,
    Curve,
    Finding,
    Measured,
    Tally,
    in_words,
    judge,
    shared_difference,
    two_digits,
    without_unlearnt,
)
from sightline_studies.view import join_intervals
from sightline_studies.workbench import Workbench, digest_of, to_plain
from tools import studies as copying

ATTCAT = STUDIES["attcat"]


def bench_in(folder, **options):
    return Workbench(ATTCAT, folder, size="tiny", **options)


def test_a_step_is_computed_once(tmp_path):
    bench = bench_in(tmp_path)
    calls = []

    def compute():
        calls.append(1)
        return {"value": 0.1 + 0.2, "missing": float("nan"), "array": np.arange(3)}

    first = bench.step("thing", {"a": 1}, compute)
    second = bench_in(tmp_path).step("thing", {"a": 1}, compute)
    assert first == second == {"value": 0.1 + 0.2, "missing": None, "array": [0, 1, 2]}
    assert len(calls) == 1


def test_a_part_of_another_length_is_damaged(tmp_path):
    rows = [Example(f"text {number}", id=str(number)) for number in range(4)]
    measure = bench_in(tmp_path).measure_documents
    measure("ids", {}, rows, lambda part: [row.id for row in part], at_once=2)
    path = sorted((tmp_path / "results").glob("ids-*.json"))[0]
    for content in ("[]", "{}", '["0"]', "null"):
        path.write_text(content)
        with pytest.raises(InputError, match="is damaged. Delete it and run the study again"):
            measure("ids", {}, rows, lambda part: [row.id for row in part], at_once=2)


def test_models_in_folders_of_one_name_are_told_apart(tmp_path):
    for parent in ("a", "b"):
        (tmp_path / parent / "model").mkdir(parents=True)
        (tmp_path / parent / "model" / "config.json").write_text(json.dumps({"from": parent}))
    first, second = (str(tmp_path / parent / "model") for parent in ("a", "b"))
    bench = bench_in(tmp_path / "study", models={"sentiment": first, "squad": second, "base": first})
    assert [bench.given_model(role).name for role in ("sentiment", "squad")] == ["model (sentiment)", "model (squad)"]
    alone = bench_in(tmp_path / "study", models={"sentiment": first, "base": first})
    assert alone.given_model("sentiment").name == "model"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("{folder}", "given as model 'base', holds no model: it has no config.json"),
        ("{folder}/nowhere", "There is no model folder '.*nowhere', given as model 'base'"),
        ("", "There is no model folder ''|holds no model"),
        ("bert-base-uncased", "There is no model folder 'bert-base-uncased'.*a hub id such as owner/name"),
    ],
)
def test_a_model_that_cannot_be_one_is_named_before_anything_is_computed(source, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        bench_in(tmp_path / "study", models={"base": source.format(folder=tmp_path)})


def test_a_damaged_model_of_the_study_is_named(tmp_path):
    rows = [Example(f"the old mill {number}", label=number % 2, id=str(number)) for number in range(8)]
    bench = bench_in(tmp_path)
    options = {"sizes": {"n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 32}, "epochs": 1}
    assert len(bench.trained_model("tiny", rows, "new-encoder", **options).model.labels) == 2
    (weights,) = (tmp_path / "models").glob("tiny-*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ModelError, match="which this study trained, is damaged. Delete the folder"):
        _ = bench.trained_model("tiny", rows, "new-encoder", **options).model


def test_a_chosen_number_of_documents_bounds_the_controls(tmp_path):
    bench = Workbench(STUDIES["flow"], tmp_path, size="small", documents=6)
    assert (bench.number("documents"), bench.number("control"), bench.number("tested")) == (6, 6, 600)


def test_a_damaged_result_is_named(tmp_path):
    bench = bench_in(tmp_path)
    bench.step("thing", {}, lambda: 1)
    (path,) = (tmp_path / "results").glob("thing-*.json")
    path.write_text("[1, ")
    with pytest.raises(InputError, match="is damaged. Delete it and run the study again"):
        bench.step("thing", {}, lambda: 1)


@pytest.mark.parametrize(
    "change", [{"identity": {"a": 2}}, {"name": "other"}, {"seed": 1}], ids=["settings", "step", "seed"]
)
def test_another_setting_never_meets_a_stored_result(change, tmp_path):
    bench_in(tmp_path).step("thing", {"a": 1}, lambda: "stored")
    bench = bench_in(tmp_path, seed=change.get("seed", 0))
    assert bench.step(change.get("name", "thing"), change.get("identity", {"a": 1}), lambda: "new") == "new"


def test_documents_are_stored_in_parts_and_a_failure_loses_only_its_own(tmp_path):
    rows = [Example(f"text {number}", id=str(number)) for number in range(7)]

    def measure(part):
        if any(row.id == "5" for row in part):
            raise KeyboardInterrupt
        return [row.id for row in part]

    with pytest.raises(KeyboardInterrupt):
        bench_in(tmp_path).measure_documents("ids", {}, rows, measure, at_once=2)
    assert len(list((tmp_path / "results").glob("ids-*.json"))) == 2
    bench = bench_in(tmp_path)
    assert bench.measure_documents("ids", {}, rows, lambda part: [row.id for row in part], at_once=2) == list("0123456")
    assert bench.computed == 2
    assert not list((tmp_path / "results").glob(".sightline-*"))


def test_identities_do_not_depend_on_the_order_of_settings():
    assert digest_of({"a": 1, "b": (2.0, None)}) == digest_of({"b": [2.0, None], "a": 1})
    assert json.dumps(to_plain({"x": np.float32(0.5), 1: [np.nan]})) == '{"x": 0.5, "1": [null]}'


def test_a_folder_serves_the_data_sets_that_it_names(tmp_path):
    (tmp_path / "qqp").mkdir()
    for path in (tmp_path / "sst2.csv", tmp_path / "qqp" / "qqp.jsonl"):
        path.write_text("text,label\na,1\n")
    sources = DataSources(ATTCAT, [str(tmp_path)])
    assert {name: path.rpartition("/")[2] for name, path in sources.paths.items()} == {
        "sst2": "sst2.csv",
        "qqp": "qqp.jsonl",
    }


def test_rows_are_divided_by_split_and_by_source(tmp_path):
    path = tmp_path / "mixed.jsonl"
    rows = [
        {"text": f"{source} {split} {number}", "label": number % 2, "split": split, "source": source}
        for source in ("amazon", "yelp")
        for split in ("train", "test")
        for number in range(3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = DataSources(ATTCAT, [f"yelp={path}"])
    data = sources.read("yelp", list, documents=10, training=2)
    assert len(DataSources(ATTCAT, [f"sst2={path}"]).read("sst2", list, documents=10).test) == 6
    assert sorted(str(row.text) for row in data.test) == ["yelp test 0", "yelp test 1", "yelp test 2"]
    assert all(str(row.text).startswith("yelp train") for row in data.train)
    assert len(data.train) == 2


def test_a_file_without_splits_gives_no_row_twice(tmp_path):
    path = tmp_path / "sst2.csv"
    path.write_text("text,label\n" + "".join(f"row {number},{number % 2}\n" for number in range(10)))
    data = DataSources(ATTCAT, [str(path)]).read("sst2", list, documents=4, training=5)
    assert len(data.test) == 4
    assert len({str(row.text) for row in (*data.test, *data.train)}) == 9


def test_rows_of_one_text_are_measured_or_trained_on_and_never_both():
    rows = [Example(f"context {number // 5}", pair=f"question {number}") for number in range(100)]
    train, test = divide(rows, 20, 50, seed=1)
    assert (len(train), len(test)) == (50, 20)
    assert not {row.text for row in train} & {row.text for row in test}
    train, test = divide(rows, 90, 500, seed=1)  # too few for both
    assert (len(train), len(test)) == (50, 50)


def test_training_rows_come_from_validation_rows_or_are_held_apart_if_there_are_no_others(tmp_path):
    def read(*splits):
        path = tmp_path / f"{'-'.join(splits)}.jsonl"
        rows = [
            {"text": f"{split} {number}", "label": number % 2, "split": split}
            for split in splits
            for number in range(9)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return DataSources(ATTCAT, [f"sst2={path}"]).read("sst2", list, documents=4, training=5)

    for splits, measured, trained in (
        (("train", "validation", "test"), "test", "train"),
        (("validation", "test"), "test", "validation"),
        (("validation", "train"), "validation", "train"),
        (("test",), "test", "test"),
        (("validation",), "validation", "validation"),
    ):
        data = read(*splits)
        assert {str(row.text).split()[0] for row in data.test} == {measured}
        assert {str(row.text).split()[0] for row in data.train} == {trained}
        assert len({str(row.text) for row in (*data.test, *data.train)}) == 9


def test_a_wrong_row_is_named_wherever_its_file_is(tmp_path):
    (tmp_path / "split").mkdir()
    path = tmp_path / "split" / "rows.jsonl"
    path.write_text('{"text": "a", "label": 1, "split": "validation"}\n{"text": 3, "label": 1, "split": "test"}\n')
    with pytest.raises(InputError, match="line 2"):
        DataSources(ATTCAT, [f"sst2={path}"]).read("sst2", list, documents=5)


def test_rows_without_a_source_belong_to_none(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{"text": f"other {number}"} for number in range(1100)] + [{"text": "mine", "source": "yelp"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [str(row.text) for row in DataSources(ATTCAT, [f"yelp={path}"]).read("yelp", list, documents=5).test] == [
        "mine"
    ]


def test_data_without_a_text_are_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": " "}\n')
    with pytest.raises(InputError, match="No row of 'rows.jsonl' has a text to measure"):
        DataSources(ATTCAT, [f"sst2={path}"]).read("sst2", list, documents=5)


def test_a_file_that_names_data_sets_as_sources_serves_them(tmp_path):
    rows = [{"text": name, "label": 1, "source": name} for name in ("amazon", "yelp", "elsewhere")]
    (tmp_path / "sentences").mkdir()
    (tmp_path / "sentences" / "sentences.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "sst2.csv").write_text("text,label\na,1\n")
    (tmp_path / "notes.json").write_text("{}")
    sources = DataSources(ATTCAT, [str(tmp_path)])
    assert sorted(sources.paths) == ["amazon", "sst2", "yelp"]
    assert [str(row.text) for row in sources.read("yelp", list, documents=5).test] == ["yelp"]


def test_a_draw_is_seeded_and_leaves_out_empty_rows():
    rows = [Example(text) for text in ("a", "", "b", " ", "c")]
    assert sorted(str(row.text) for row in draw(rows, 9, 0)) == ["a", "b", "c"]
    assert draw(rows, 2, 3) == draw(rows, 3, 3)[:2]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("missing.csv", "There is no data 'missing.csv'"),
        (".", "holds no data set of the study 'attcat'"),
        ("sst2=", "--data sst2= names no file"),
        ("sst=rows.csv", "The study 'attcat' has no data set 'sst'. It reads: sst2, qqp"),
    ],
)
def test_data_that_are_not_there_are_named(source, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=sentence):
        DataSources(ATTCAT, [source])


def test_the_page_of_a_study_is_copied_with_its_figures(tmp_path, monkeypatch):
    folder = tmp_path / "flow"
    (folder / "figures").mkdir(parents=True)
    parts = [f"### {name}\n\n![{name}](figures/{name}.png)\n\nA sentence.\n\n" for name in ("map", "text")]
    (folder / "study.md").write_text("".join(parts) + "## End\n")
    for name in ("map", "text"):
        (folder / "figures" / f"{name}.png").write_bytes(name.encode())
    monkeypatch.setattr(copying, "PAGES", tmp_path / "docs")
    page = copying.copy_study(folder, without=["text"])
    assert page.read_text() == parts[0].replace("figures/", "figures/flow-") + "## End\n"
    assert [path.name for path in (tmp_path / "docs" / "figures").iterdir()] == ["flow-map.png"]
    assert "text.png" in copying.copy_study(folder).read_text()


def test_a_folder_belongs_to_one_study(tmp_path):
    bench_in(tmp_path)
    bench_in(tmp_path)
    with pytest.raises(UsageError, match="holds the study 'attcat', which would be replaced. Name another"):
        Workbench(STUDIES["flow"], tmp_path, size="tiny")
    (tmp_path / ".sightline.json").write_text("{}")
    with pytest.raises(InputError, match=r"sightline.json' is damaged"):
        bench_in(tmp_path)


def test_checkpoints_that_a_kill_left_beside_a_complete_model_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(workbench_module, "load", lambda source: source)
    subject = bench_in(tmp_path).trained_model("verbs", [Example("a", label=0)], "new-encoder")
    folder = tmp_path / "models" / f"verbs-{subject.identity}"
    checkpoint = folder.with_name(f"{folder.name}.training") / "checkpoint-1"
    for path in (folder, checkpoint):
        path.mkdir(parents=True)
    assert subject.model == str(folder)
    assert [path.name for path in (tmp_path / "models").iterdir()] == [folder.name]


def test_a_role_that_the_study_does_not_have_is_refused(tmp_path):
    with pytest.raises(OptionError, match="no model 'judge'. It takes: sentiment"):
        bench_in(tmp_path, models={"judge": "x"})


@pytest.mark.parametrize(
    ("effect", "control", "verdict"),
    [
        ((0.3, 0.2, 0.4), None, "confirmed"),
        ((0.3, -0.1, 0.4), None, "undecided"),
        ((0.3, np.nan, np.nan), None, "undecided"),
        ((-0.3, -0.4, -0.2), None, "contradicted"),
        ((-0.3, -0.4, -0.2), (0.25, 0.1, 0.35), "contradicted"),
        ((0.3, 0.2, 0.4), (0.25, 0.1, 0.35), "artefact"),
        ((0.3, 0.2, 0.4), (0.1, 0.05, 0.15), "confirmed"),
        # The difference decides: 0.2, of which 0.05 to 0.35 and −0.12 to 0.53 are the intervals.
        ((0.3, 0.2, 0.4), (0.1, -0.2, 0.21), "confirmed"),
        ((0.3, 0.2, 0.4), (0.1, -0.2, 0.4), "undecided"),
        ((0.3, 0.2, 0.4), (0.1, np.nan, np.nan), "undecided"),
        # The control is larger than the effect.
        ((0.14, 0.01, 0.27), (0.45, -0.03, 0.93), "undecided"),
        ((0.14, 0.01, 0.27), (0.45, 0.2, 0.7), "artefact"),
    ],
)
def test_verdicts_follow_from_intervals(effect, control, verdict):
    assert judge(Measured(*effect, 9), None if control is None else Measured(*control, 9)) == verdict


def test_an_effect_that_is_as_large_in_the_control_is_seldom_confirmed():
    generator = np.random.default_rng(0)
    verdicts = Counter(
        judge(Measured.of(generator.normal(1.0, 1.0, 40)), Measured.of(generator.normal(1.0, 1.0, 8)))
        for _ in range(120)
    )
    assert verdicts["confirmed"] <= 6  # 5 % of 120
    assert verdicts["contradicted"] == 0


def test_nothing_measured_is_not_a_verdict():
    assert judge(Measured.of([])) == "not measured"
    assert shared_difference({"a": 1.0}, {"b": 1.0}).documents == 0


def test_a_claim_about_all_models_is_judged_where_it_holds_least():
    groups = {
        "a": Measured(0.5, 0.4, 0.6, 9),
        "b": Measured(0.6, -0.1, 0.9, 9),
        "c": Measured(-0.05, -0.08, -0.02, 9),
        "none": Measured.of([]),
    }
    tally = Tally(groups)
    assert tally.weakest == ("c", groups["c"])  # it speaks against the claim, and b for nothing
    assert (tally.held, len(tally.known)) == (1, 3)
    assert tally.in_words() == "in 1 of 3 cases (the opposite in 1, undecided in 1)"
    assert Tally({"a": groups["a"]}).in_words() == "in 1 of 1 cases"
    controlled = Tally({"a": groups["a"], "d": Measured(0.9, 0.8, 1.0, 9)}, {"d": Measured(0.9, 0.7, 1.1, 9)})
    assert controlled.weakest[0] == "d"
    assert controlled.in_words() == "in 1 of 2 cases (as much in the control in 1)"
    assert Tally({"none": Measured.of([])}).weakest[1].documents == 0


def test_models_that_have_learnt_nothing_are_named_and_do_not_count():
    finding = Finding(ATTCAT.claims[0], "confirmed", "It holds.", measured=Measured(0.5, 0.4, 0.6, 9))
    assert without_unlearnt(finding, [], 3) is finding
    some = without_unlearnt(finding, ["a", "b"], 3)
    assert (some.verdict, some.measured) == ("confirmed", finding.measured)
    assert some.evidence.endswith("Left out, because they have not learnt the task: 2 of 3 models (a, b).")
    none = without_unlearnt(finding, ["a", "b", "c"], 3)
    assert (none.verdict, none.measured) == ("not measured", None)
    assert "It holds" not in none.evidence
    assert "table of accuracies" in without_unlearnt(finding, list("abcdefgh"), 9).evidence


def test_accuracy_stands_beside_the_largest_class():
    entries = [{"predicted": 1, "label": "1"}, {"predicted": 0, "label": 1}, {"predicted": 0, "label": 0}]
    accuracy = Accuracy.of([*entries, {"predicted": 1, "label": 1}])
    assert (accuracy.measured.value, accuracy.majority, accuracy.gain.value) == (0.75, 0.75, 0.0)
    assert judge(accuracy.gain) == "undecided"
    assert judge(Accuracy.of([{"predicted": n % 2, "label": n % 2} for n in range(9)]).gain) == "confirmed"


def test_a_short_curve_is_continued_by_gaps():
    curve = Curve.of("a", [Measured(0.5, 0.4, 0.6, 9)], places=2)
    assert (curve.values[0], curve.low[0], curve.high[0]) == (0.5, 0.4, 0.6)
    assert all(len(column) == 2 and np.isnan(column[1]) for column in (curve.values, curve.low, curve.high))


def test_numbers_in_words_have_two_digits_and_no_negative_zero():
    assert in_words(Measured(-0.00001, -0.25, 0.1, 1200)) == "0 (−0.25 to 0.10, 1,200 documents)"
    assert in_words(Measured.of([])) == "no value"
    numbers = (0.3749, 0.00808, -0.000463, 12.3, 1.0, 0.0)
    assert [two_digits(number) for number in numbers] == ["0.37", "0.0081", "−0.0005", "12", "1.0", "0"]


def test_a_mean_is_shown_in_one_cell_with_its_interval():
    frame = pd.DataFrame(
        {"model": ["a", "b"], "mean": [0.5, np.nan], "low": [0.4, np.nan], "high": [0.61, np.nan], "documents": [9, 0]}
    )
    assert join_intervals(frame).to_dict("list") == {
        "model": ["a", "b"],
        "mean": ["0.50 (0.40 to 0.61)", "–"],
        "documents": [9, 0],
    }
    named = pd.DataFrame({"tau_b": [-1.0], "tau_b_low": [-1.0], "tau_b_high": [-0.987], "tau_b_chance": [0.0123]})
    assert join_intervals(named).to_dict("list") == {"tau_b": ["−1.0 (−1.0 to −0.99)"], "tau_b_chance": [0.0123]}


def test_differences_are_paired_by_document():
    measured = shared_difference({"a": 1.0, "b": 5.0, "c": 9.0}, {"b": 4.0, "a": 0.0})
    assert (measured.value, measured.documents) == (1.0, 2)
