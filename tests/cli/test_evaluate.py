"""`sightline evaluate` and `sightline metrics`: real runs on the built-in model; bad requests get one sentence."""

from __future__ import annotations

import csv
import io
import json
import re
from inspect import signature

import pytest

from sightline.cli.evaluate import evaluate as command
from sightline.evaluation import Evaluation
from sightline.metrics import METRICS
from sightline.metrics.measurement import RANDOM_ORDERINGS

pytestmark = pytest.mark.slow

DATA = (
    "id,text,label\n"
    'ml,"Gradient descent trains the network on labelled examples of images.",1\n'
    'pl,"The compiler checks the types of every function before it runs.",0\n'
    "none,,1\n"
)
QUICK = ("--methods", "random,gradient", "--metrics", "aopc,entropy")


@pytest.fixture
def evaluate(sightline, tmp_path):
    """Run `sightline evaluate` on three rows, one of them without text, with the built-in model."""
    (tmp_path / "data.csv").write_text(DATA)

    def run(*arguments, data="data.csv"):
        return sightline("evaluate", data, *arguments)

    return run


def test_the_text_says_what_was_measured_and_what_is_best(evaluate):
    result = evaluate(*QUICK)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("2 methods explained 3 documents. The words that a method ranks highest")
    assert "\nMeasured 2 methods by 2 metrics on 3 documents" in result.stdout
    assert "2 explanations of 1 document failed; the others are unaffected. Reason" in result.stdout
    assert "3 documents cannot tell methods apart" in result.stdout
    assert "Best by aopc: " in result.stdout
    assert result.stderr == ""


def test_the_text_shows_means_floor_reference_documents_and_cost_and_no_colour(evaluate):
    rows = {row["method"]: row for row in json.loads(evaluate(*QUICK, "--format", "json").stdout)["summary"][:2]}
    lines = evaluate(*QUICK).stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("method"))
    assert lines[start].split() == ["method", "aopc", "↑", "seconds"]
    table = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in lines[start + 1 : start + 6])
    assert set(table) == {"random", "gradient", "random orders (floor)", "one at a time (reference)", "documents"}
    for method, row in rows.items():
        mean, seconds = map(float, re.findall(r"-?[\d.]+", table[method].replace("−", "-")))
        assert mean == pytest.approx(row["mean"], abs=0.005)
        assert row["low"] is None  # of two documents
        assert seconds > 0
        assert float(table["random orders (floor)"].replace("−", "-")) == pytest.approx(row["floor"], abs=0.005)
        assert float(table["one at a time (reference)"].replace("−", "-")) == pytest.approx(row["reference"], abs=0.005)
    assert table["documents"] == "2"
    assert not any("\x1b" in line for line in lines)


def test_the_folder_holds_everything_and_can_be_loaded(evaluate, tmp_path):
    result = evaluate(*QUICK, "--limit", "2", "--seed", "5", "-o", "new/out")
    assert result.exit_code == 0, result.output
    assert result.stderr == "Wrote new/out/index.html\n"
    out = tmp_path / "new" / "out"
    tables = ("overview_faithfulness", "overview_dispersion", "summary", "metric_aopc", "metric_entropy", "paired")
    expected = {f"tables/{name}.{form}" for name in tables for form in ("csv", "md", "tex")}
    expected |= {f"figures/{name}.{form}" for name in ("overview", "cost", "curves_aopc") for form in ("svg", "png")}
    expected |= {".sightline.json", "index.html", "records.csv", "records.parquet", "curves.parquet", "evaluation.json"}
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} == expected
    assert "The built-in model on data.csv" in (out / "index.html").read_text(encoding="utf-8")
    loaded = Evaluation.load(out)
    assert loaded.documents == ("ml", "pl")
    assert loaded.seed == 5
    rows = list(csv.DictReader(io.StringIO((out / "records.csv").read_text())))
    assert len(rows) == len(loaded.records) == 2 * 2 * 2


def test_the_same_seed_prints_the_same_numbers(evaluate):
    def means():
        rows = csv.DictReader(io.StringIO(evaluate(*QUICK, "--format", "csv").stdout))
        return [(row["method"], row["metric"], row["mean"], row["low"], row["high"], row["floor"]) for row in rows]

    assert means() == means()


def test_a_pipe_gets_the_summary_in_the_form_requested(evaluate):
    quickest = ("--methods", "random,gradient", "--metrics", "entropy,special_share")
    rows = list(csv.DictReader(io.StringIO(evaluate(*quickest, "--format", "csv").stdout)))
    assert [(row["method"], row["metric"]) for row in rows] == [
        (method, metric) for metric in ("entropy", "special_share") for method in ("random", "gradient")
    ]
    assert {row["documents"] for row in rows} == {"2"}
    content = json.loads(evaluate(*quickest, "--format", "json").stdout)
    assert [row["mean"] for row in content["summary"]] == [float(row["mean"]) for row in rows]
    assert content["summary"][0]["floor"] is None  # entropy has none, and JSON has no NaN
    assert evaluate(*quickest, "--format", "markdown").stdout.startswith("| method | metric | mean |")
    assert "\\toprule" in evaluate(*quickest, "--format", "latex").stdout


def test_repeated_names_and_lists_are_the_same(evaluate):
    listed = evaluate("--methods", "random,gradient", "--metrics", "entropy", "--format", "csv").stdout
    repeated = evaluate("--method", "random", "--method", "gradient", "--metric", "entropy", "--format", "csv").stdout
    assert [line.split(",")[:5] for line in listed.splitlines()] == [
        line.split(",")[:5] for line in repeated.splitlines()
    ]


def test_options_reach_the_methods_and_the_evaluation(evaluate):
    arguments = ("--option", "rollout.fusion=max", "--level", "token", "--target", "label", "--replacement", "mask")
    result = evaluate("--methods", "rollout", "--metrics", "aopc", *arguments, "--format", "json")
    settings = json.loads(result.stdout)["settings"]
    assert settings["options"] == {"rollout": {"fusion": "max"}}
    assert (settings["level"], settings["target"], settings["replacement"]) == ("token", "label", "mask")


def test_how_faithfulness_is_measured_can_be_chosen(evaluate):
    arguments = ("--ratios", "50%,0,0.25", "--mask-pads", "--random-orderings", "2", "--no-reference-order")
    content = json.loads(
        evaluate("--methods", "gradient", "--metrics", "log_odds", *arguments, "--format", "json").stdout
    )
    settings = content["settings"]
    assert settings["ratios"] == [0.0, 0.25, 0.5]
    assert (settings["mask_pads"], settings["random_orderings"], settings["reference_order"]) == (True, 2, False)
    (row,) = content["summary"]
    assert (row["calls"], row["reference"]) == (3.0, None)
    assert row["floor"] is not None


def test_the_floor_is_made_of_as_many_orders_as_in_the_library():
    assert signature(command).parameters["random_orderings"].default == RANDOM_ORDERINGS


def test_the_published_program_s_variant_can_be_requested(evaluate):
    result = evaluate("--methods", "gradient", "--compat", "attcat", "--format", "json")
    content = json.loads(result.stdout)
    assert content["settings"]["compat"] == "attcat"
    assert {"aopc", "log_odds", "confidence"} <= {row["metric"] for row in content["summary"]}
    assert content["skipped"]["sufficiency"] == "The published program that compat='attcat' follows has no such metric."


def test_agreement_is_measured_against_a_reference(evaluate):
    arguments = ("--methods", "input_x_gradient,gradient", "--metrics", "spearman", "--reference", "gradient")
    rows = {row["method"]: row for row in json.loads(evaluate(*arguments, "--format", "json").stdout)["summary"]}
    assert -1 < rows["input_x_gradient"]["mean"] < 1
    assert rows["gradient"]["documents"] == 0  # a method is not compared with itself


BAD_REQUESTS = {
    "missing file": (["absent.csv"], "There is no data set 'absent.csv'"),
    "missing column": (["--text", "txt"], "no field 'txt'. Did you mean 'text'?"),
    "missing label column": (["--label", "gold"], "no field 'gold', requested as label"),
    "missing split column": (["--split", "test"], "has no field 'split'"),
    "unknown method": (["--methods", "atcat"], "Did you mean 'attcat'?"),
    "unknown metric": (["--metrics", "aopcc"], "Did you mean 'aopc'?"),
    "all and more": (["--methods", "all,attcat"], "'all' cannot be combined"),
    "nothing to overwrite": (["--overwrite"], "--overwrite needs a folder"),
    "no metric at k": (["--metrics", "aopc", "--k", "5"], "k has no effect"),
    "no names": (["--metrics", ","], "contains no name"),
    "metric the data cannot supply": (["--metrics", "token_f1"], "has no field 'rationale'"),
    "option of no method": (
        ["--methods", "random", "--option", "rollout.fusion=max"],
        "the method 'rollout' was not requested",
    ),
    "unknown reference": (["--reference", "oclusion", "--metrics", "spearman"], "Did you mean 'occlusion'?"),
    "ratios that are no numbers": (["--ratios", "0,a few"], "--ratios 0,a few is not a list of shares"),
    "depths that are no numbers": (["--k", "5,many"], "--k 5,many is not a list of whole numbers from 1 up"),
    "a depth of zero": (["--k", "0"], "--k 0 is not a list of whole numbers from 1 up"),
    "ratios out of range": (["--ratios", "0,10,20"], "shares lie in [0, 1], and 10 % is 0.1"),
    "ratios of the published program": (["--compat", "attcat", "--ratios", "0,0.5"], "leave ratios= out"),
    "output is a file": (["-o", "data.csv"], "it is a file. Name a folder"),
    "missing model": (["--model", "./absent"], "There is no model folder"),
    "missing model and a new folder": (["--model", "./absent", "-o", "new/out"], "There is no model folder"),
    "a file above the new folder": (["-o", "data.csv/out"], "Cannot write into 'data.csv/out': 'data.csv' is a file."),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_bad_request_gets_one_sentence(evaluate, tmp_path, name):
    arguments, says = BAD_REQUESTS[name]
    data = {"data": arguments[0], "arguments": []} if name == "missing file" else {"data": "data.csv"}
    before = sorted(tmp_path.rglob("*"))
    result = evaluate(*data.get("arguments", arguments), data=data["data"])
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty: it has no rows"),
        (b"text,label\n", "is empty: it has no rows"),
        (b"text\ncaf\xe9 au lait\n", "Line 2 of 'bad.csv' is not UTF-8"),
        (b"text,label\na, b, c\n", "line 2 has 3 cells"),
        (b"PK\x03\x04\x00\x00 a workbook", "'bad.csv' is not text: line 1 contains NUL bytes"),
    ],
)
def test_a_bad_data_set_gets_one_sentence(evaluate, tmp_path, content, says):
    (tmp_path / "bad.csv").write_bytes(content)
    result = evaluate(data="bad.csv")
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_labels_to_explain_must_be_there(evaluate, tmp_path):
    (tmp_path / "bare.csv").write_text("text\nThe compiler checks the types.\n")
    result = evaluate("--target", "label", data="bare.csv")
    assert result.exit_code == 2
    assert "no row of 'bare.csv' has a label in the field 'label'" in result.stderr


def test_metrics_long_and_json_say_everything(sightline):
    long, records = sightline("metrics", "--long").stdout, json.loads(sightline("metrics", "--json").stdout)
    assert [record["name"] for record in records] == METRICS.names()
    for metric, record in zip(METRICS, records, strict=True):
        assert record["higher_is_better"] == metric.higher_is_better
        assert f"{metric.name}: {metric.summary}" in long
        assert metric.citation in long


@pytest.mark.parametrize("command", ["evaluate", "metrics"])
def test_help_gives_examples(sightline, command):
    result = sightline(command, "--help")
    assert result.exit_code == 0
    assert f"  sightline {command}" in result.stdout


def test_a_run_that_measures_nothing_fails_and_says_why(evaluate, tmp_path):
    (tmp_path / "other.csv").write_text("text,label\nThe network learns its weights.,banana\n")
    result = evaluate(*QUICK, "--target", "label", data="other.csv")
    assert result.exit_code == 1
    assert "banana" in result.stdout
    assert result.stderr == "Error: Nothing could be measured; see the reasons above.\n"
