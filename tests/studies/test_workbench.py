"""Results of a study are stored whole, found again by what produced them, and read back bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sightline_studies
from sightline.errors import InputError, ModelError, OptionError, UsageError
from sightline.text import Example
from sightline_studies import STUDIES
from sightline_studies import workbench as workbench_module
from sightline_studies.data import DataSources, divide, draw
from sightline_studies.tables import Printed, printed, published, read_published, rows_of, tabulate
from sightline_studies.verdicts import Accuracy, Case, Finding, Measured, in_words, shared_difference, two_digits
from sightline_studies.view import join_intervals
from sightline_studies.workbench import Workbench, digest_of, to_plain
from tools import studies as copying

PUBLISHED = Path(sightline_studies.__file__).parent / "published"
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
    ("effect", "control", "verdict", "artefact"),
    [
        ((0.3, 0.2, 0.4), None, "agrees", "not tested"),
        ((0.3, -0.1, 0.4), None, "cannot tell", "not tested"),
        ((0.3, np.nan, np.nan), None, "cannot tell", "not tested"),
        ((-0.3, -0.4, -0.2), None, "disagrees", "not tested"),
        ((-0.3, -0.4, -0.2), (0.25, 0.1, 0.35), "disagrees", "no"),
        # The control shows the opposite of the claim as much as the model does: that says nothing about the claim.
        ((-0.3, -0.4, -0.2), (-0.25, -0.35, -0.1), "cannot tell", "yes"),
        ((0.3, 0.2, 0.4), (0.25, 0.1, 0.35), "agrees", "yes"),
        ((0.3, 0.2, 0.4), (0.1, 0.05, 0.15), "agrees", "no"),
        # The difference decides: 0.2, of which 0.05 to 0.35 and −0.12 to 0.53 are the intervals.
        ((0.3, 0.2, 0.4), (0.1, -0.2, 0.21), "agrees", "no"),
        ((0.3, 0.2, 0.4), (0.1, -0.2, 0.4), "agrees", "cannot tell"),
        ((0.3, 0.2, 0.4), (0.1, np.nan, np.nan), "agrees", "not tested"),
        # The control is larger than the effect.
        ((0.14, 0.01, 0.27), (0.45, -0.03, 0.93), "agrees", "cannot tell"),
        ((0.14, 0.01, 0.27), (0.45, 0.2, 0.7), "agrees", "yes"),
    ],
)
def test_verdicts_follow_from_intervals(effect, control, verdict, artefact):
    other = None if control is None else Measured(*control, 9)
    case = Case("a", Measured(*effect, 9), control=other)
    assert (case.verdict, case.artefact) == (verdict, artefact)
    flipped = Case(
        "a",
        Measured(-effect[0], -effect[2], -effect[1], 9),
        control=None if control is None else Measured(-control[0], -control[2], -control[1], 9),
        below=True,
    )
    assert (flipped.verdict, flipped.artefact) == (verdict, artefact)


def test_a_claim_may_name_a_bound_or_the_printed_number():
    measured = Measured(0.7, 0.65, 0.75, 9)
    assert [Case("a", measured, bound=bound).verdict for bound in (0.6, 0.7, 0.8)] == [
        "agrees",
        "cannot tell",
        "disagrees",
    ]
    verdicts = [Case("a", measured, (printed,), within=0.1).verdict for printed in (0.7, 0.8, 0.9)]
    assert verdicts == ["agrees", "cannot tell", "disagrees"]
    unrelated = Measured(0.0, 0.0, 0.0, 9)
    near = Case("a", Measured(0.02, -0.05, 0.05, 9), (0.018,), unrelated, within=0.1)
    assert (near.verdict, near.artefact) == ("agrees", "yes")
    assert Case("a", measured, (0.7,), unrelated, within=0.1).artefact == "no"


def test_the_effect_that_a_sample_would_have_shown_is_2_8_standard_errors():
    generator = np.random.default_rng(0)
    measured = Measured.of(generator.normal(0.0, 2.0, 400))
    assert measured.detectable == pytest.approx(2.8 * 2.0 / 20, rel=0.1)
    shown = sum(Measured.of(generator.normal(measured.detectable, 2.0, 400), seed).above_zero for seed in range(150))
    assert 0.68 <= shown / 150 <= 0.92  # 80 %, give or take four standard errors


def test_an_effect_that_is_as_large_in_the_control_is_seldom_no_artefact():
    generator = np.random.default_rng(0)
    cases = [
        Case("a", Measured.of(generator.normal(1.0, 1.0, 40)), (), Measured.of(generator.normal(1.0, 1.0, 8)))
        for _ in range(120)
    ]
    assert [case.artefact for case in cases].count("no") <= 6  # 5 % of 120
    assert {case.verdict for case in cases} == {"agrees"}


def test_a_claim_is_judged_by_the_cases_that_decide():
    holds, opposite, open_ = (Measured(*ends, 9) for ends in ((0.5, 0.4, 0.6), (-0.5, -0.6, -0.4), (0.1, -0.2, 0.4)))

    def verdict(*effects, aside=()):
        cases = [Case(str(number), effect) for number, effect in enumerate(effects)]
        return Finding(ATTCAT.claims[0], [*cases, *(Case("x", each, set_aside="a toy model") for each in aside)])

    assert verdict(holds, holds, open_).verdict == "agrees"
    assert verdict(holds, open_).verdict == "cannot tell"
    assert verdict(holds, holds, opposite).verdict == "cannot tell"
    assert verdict(holds, opposite).verdict == "disagrees"
    assert verdict(opposite, open_, open_).verdict == "disagrees"
    assert verdict(holds, aside=[opposite, opposite]).verdict == "agrees"
    nothing = verdict(Measured.of([]), aside=[holds])
    assert (nothing.verdict, nothing.deciding, nothing.artefact) == ("cannot tell", [], "not tested")
    assert verdict(holds, open_).detectable == open_.detectable
    assert nothing.detectable == holds.detectable  # of the cases that were set aside, if none decides
    assert np.isnan(verdict(Measured.of([])).detectable)
    assert shared_difference({"a": 1.0}, {"b": 1.0}).documents == 0


def test_a_claim_that_cannot_be_told_says_why_in_one_line():
    holds, opposite, open_ = (Measured(*ends, 9) for ends in ((0.5, 0.4, 0.6), (-0.5, -0.6, -0.4), (0.1, -0.2, 0.4)))
    few, toy = Measured.of([0.1, 0.2]), "a toy model (twice)"

    def reason(*cases):
        return Finding(ATTCAT.claims[0], cases).reason

    assert reason(Case("a", holds)) == reason(Case("a", opposite)) == ""
    assert reason() == reason(Case("a", Measured.of([]))) == "not measured: see “Left out”"
    assert reason(Case("a", holds, set_aside=toy), Case("b", holds, set_aside=toy)) == "a toy model"
    assert reason(Case("a", holds), Case("b", holds), Case("c", opposite)) == "cases contradict each other"
    assert reason(Case("a", holds), Case("b", open_)) == "the interval allows both in 1 of 2"
    assert reason(Case("a", few)) == "too few documents for an interval in 1 of 1"
    assert reason(Case("a", opposite, control=opposite)) == "the control shows as much in 1 of 1"
    assert Case("a", holds, set_aside=toy).reason == toy
    assert Case("a", holds).reason == ""


def test_accuracy_stands_beside_the_largest_class():
    entries = [{"predicted": 1, "label": "1"}, {"predicted": 0, "label": 1}, {"predicted": 0, "label": 0}]
    accuracy = Accuracy.of([*entries, {"predicted": 1, "label": 1}])
    assert (accuracy.measured.value, accuracy.majority, accuracy.gain.value) == (0.75, 0.75, 0.0)
    assert not accuracy.gain.above_zero
    assert Accuracy.of([{"predicted": n % 2, "label": n % 2} for n in range(9)]).gain.above_zero


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


def test_a_standard_deviation_stands_between_mean_and_interval():
    frame = pd.DataFrame(
        {"BERT": [0.55, np.nan], "BERT_std": [0.19, np.nan], "ours": [0.5, 0.4], "ours_std": [0.2, 0.1]}
    )
    assert join_intervals(frame.assign(ours_low=0.4, ours_high=0.6)).to_dict("list") == {
        "BERT": ["0.55 ± 0.19", "–"],
        "ours": ["0.50 ± 0.20 (0.40 to 0.60)", "0.40 ± 0.10 (0.40 to 0.60)"],
    }


def test_a_table_is_computed_from_its_description():
    values = {"a": [0.0, 1.0, np.nan, 2.0], "b": []}
    table = tabulate(
        rows_of(name=values, k=(1, 2)),
        {
            "printed": lambda keys: Printed(0.3, 0.1) if keys["name"] == "a" else Printed(),
            "measured": lambda keys: values[keys["name"]],
            "total": lambda keys: keys["k"] * 2,
        },
        std=True,
    )
    assert table["k"].tolist() == [1, 2, 1, 2]
    assert table["total"].tolist() == [2, 4, 2, 4]
    assert table.loc[0, ["printed", "printed_std", "measured", "measured_std"]].tolist() == [0.3, 0.1, 1.0, 1.0]
    assert table.loc[2, ["printed", "measured", "measured_low"]].isna().all()


def test_printed_numbers_are_found_by_their_row():
    where = {"data": "SST2", "model": "BERT", "method": "ALTI"}
    assert printed("alti_spearman", "spearman_mean", "spearman_std", **where) == Printed(0.55, 0.19)
    assert published("attcat_faithfulness", "kendall_confidence", method="RawAtt") == ()
    assert np.isnan(printed("alti_spearman", "spearman_mean", data="SST2").value)  # several rows


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.csv")), ids=lambda path: path.stem)
def test_every_printed_number_has_its_place_in_the_paper(path):
    rows = read_published(path.stem)
    assert rows
    for row in rows:
        assert row.get("source") or row.get("table"), row
        assert None not in row
        assert None not in row.values()


def test_differences_are_paired_by_document():
    measured = shared_difference({"a": 1.0, "b": 5.0, "c": 9.0}, {"b": 4.0, "a": 0.0})
    assert (measured.value, measured.documents) == (1.0, 2)
