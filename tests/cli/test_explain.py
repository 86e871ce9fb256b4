"""`sightline explain`: forms of output, options, pairs, targets; the same numbers as the library gives."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from sightline.api.load import load
from sightline.api.model import Model
from sightline.results.explanation import Explanation
from tests.cli.conftest import DOCUMENT
from tests.models.test_sentence_folders import make_folder
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow


def test_json_is_one_document_that_loads_as_the_library_explains(sightline, tmp_path, good_model):
    result = sightline("explain", "doc.txt", "--model", good_model, "--format", "json")
    record = json.loads(result.stdout)
    expected = load(good_model).explain(DOCUMENT)
    assert record["scores"] == expected.scores.tolist()
    assert record["verdict"] == {**expected.verdict.to_dict(), "level": "unchecked"}
    assert [word["text"] for word in record["words"]] == [word.text for word in expected.words()]
    assert [word["score"] for word in record["words"]] == [word.score for word in expected.words()]
    (tmp_path / "saved.json").write_text(result.stdout)
    assert Explanation.load(tmp_path / "saved.json").scores.tobytes() == expected.scores.tobytes()


def test_several_methods_come_in_one_json_document(sightline, good_model):
    result = sightline(
        "explain", "doc.txt", "--model", good_model, "--method", "attcat", "--method", "rollout", "--format", "json"
    )
    assert [exp["method"] for exp in json.loads(result.stdout)["explanations"]] == ["attcat", "rollout"]


def test_methods_may_be_repeated_or_listed(sightline, good_model):
    repeated = sightline("explain", "doc.txt", "--model", good_model, "--method", "cat", "--method", "rollout")
    listed = sightline("explain", "doc.txt", "--model", good_model, "--methods", "cat,rollout")
    assert listed.stdout == repeated.stdout
    assert listed.stdout.count("method\t") == 2


def test_the_form_requested_may_have_any_name(sightline, tmp_path, good_model):
    result = sightline("explain", "doc.txt", "--model", good_model, "-o", "letter.data", "--format", "json")
    assert result.exit_code == 0
    json.loads((tmp_path / "letter.data").read_text())


def test_csv_has_a_row_a_token_and_method(sightline, good_model):
    result = sightline(
        "explain", "doc.txt", "--model", good_model, "--method", "attcat", "--method", "cat", "--format", "csv"
    )
    table = pd.read_csv(io.StringIO(result.stdout))
    expected = load(good_model).explain(DOCUMENT, methods=["attcat", "cat"])
    scores = np.concatenate([exp.scores for exp in expected.values()])
    assert table["score"].to_numpy().astype(scores.dtype).tobytes() == scores.tobytes()
    assert set(table["method"]) == {"attcat", "cat"}


@pytest.mark.parametrize("level", ["word", "sentence"])
def test_rows_may_be_words_or_sentences(sightline, good_model, level):
    arguments = ("explain", "doc.txt", "--model", good_model, "--level", level, "--format")
    expected = load(good_model).explain(DOCUMENT).units(level)
    table = pd.read_csv(io.StringIO(sightline(*arguments, "csv").stdout))
    assert table[level].tolist() == [unit.text for unit in expected]
    np.testing.assert_allclose(table["score"], [unit.score for unit in expected], rtol=1e-12)
    record = json.loads(sightline(*arguments, "json").stdout)
    assert [row["score"] for row in record[f"{level}s"]] == [unit.score for unit in expected]
    assert "words" in record


def test_text_is_plain_and_stable_when_piped(sightline, good_model):
    runs = [sightline("explain", "doc.txt", "--model", good_model).stdout for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0].startswith("summary\tThe model says ")
    assert "\nmethod\tattnlrp\npredicted\t" in runs[0]
    assert "\x1b" not in runs[0]
    assert not set("│─╭╮╰╯━┃") & set(runs[0])


def test_a_person_at_a_terminal_gets_colours_and_no_page_is_poured_out(sightline, good_model, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = sightline("explain", "doc.txt", "--model", good_model).stdout
    assert "\x1b[" in text
    assert "The model says" in text
    page = sightline("explain", "doc.txt", "--model", good_model, "--format", "html")
    assert page.exit_code == 2
    assert "with -o page.html" in page.stderr


@pytest.mark.parametrize(
    ("name", "start"), [("p.html", "<!doctype html>"), ("p.json", "{"), ("p.csv", '"method",'), ("p.txt", "summary\t")]
)
def test_the_form_follows_the_name_of_the_output_file(sightline, tmp_path, good_model, name, start):
    result = sightline("explain", "doc.txt", "--model", good_model, "-o", name)
    assert result.exit_code == 0
    assert result.stderr == f"Wrote {name}\n"
    # Whoever writes a page still reads the answer in the terminal.
    answer = name == "p.html"
    assert all((f"{line}\t" in result.stdout) == answer for line in ("predicted", "trust", "side\trank"))
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert {path.name for path in tmp_path.iterdir()} == {"doc.txt", name}


def test_one_run_writes_several_files_and_answers_once(sightline, tmp_path, good_model):
    result = sightline("explain", "doc.txt", "--model", good_model, "-o", "p.html", "-o", "p.json", "-o", "p.svg")
    assert result.stderr == "Wrote p.html\nWrote p.json\nWrote p.svg\n"
    assert result.stdout.count("predicted\t") == 2  # once for each method of the page
    assert {path.name for path in tmp_path.iterdir()} == {"doc.txt", "p.html", "p.json", "p.svg"}
    refused = sightline("explain", "doc.txt", "--model", good_model, "-o", "a.json", "-o", "b.csv", "--format", "csv")
    assert refused.exit_code == 2
    assert "--format is for one output" in refused.stderr


def test_standard_input_is_read_for_a_dash(sightline, good_model):
    assert (
        sightline("explain", "-", "--model", good_model, stdin=DOCUMENT).stdout
        == sightline("explain", "doc.txt", "--model", good_model).stdout
    )


def test_a_pair_is_given_as_a_second_file(sightline, tmp_path, good_model):
    (tmp_path / "second.txt").write_text("hello world")
    record = json.loads(
        sightline("explain", "doc.txt", "--pair", "second.txt", "--model", good_model, "--format", "json").stdout
    )
    assert record["encoding"]["pair"] == "hello world"
    assert record["scores"] == load(good_model).explain(DOCUMENT, pair="hello world").scores.tolist()


@pytest.mark.parametrize(
    ("asked", "target"),
    [
        ("AI", "AI"),
        ("ai", "AI"),
        ("1", 1),
        ("AI:PL", ("AI", "PL")),
        ("2:0", (2, 0)),
        ("other: rest", "other: rest"),
        ("other: rest:PL", ("other: rest", "PL")),
    ],
)
def test_targets_are_labels_numbers_or_contrasts(sightline, good_model, asked, target):
    record = json.loads(
        sightline(
            "explain",
            "doc.txt",
            "--model",
            good_model,
            "--target",
            asked,
            "--quantity",
            "probability",
            "--format",
            "json",
        ).stdout
    )
    expected = load(good_model).explain(DOCUMENT, target=target, quantity="probability")
    assert record["target"]["description"] == expected.target.description()
    assert record["scores"] == expected.scores.tolist()


@pytest.mark.parametrize("form", ["text", "json", "csv", "html"])
def test_all_classes_come_in_every_form(sightline, good_model, form):
    arguments = ["--target", "all", "--method", "cat", "--method", "rollout", "--format", form]
    result = sightline("explain", "doc.txt", "--model", good_model, *arguments)
    expected = load(good_model).explain(DOCUMENT, methods=["cat", "rollout"], target="all").explanations
    # The predicted class comes first.
    pairs = [(method, label) for method in ("cat", "rollout") for label in ("PL", "AI", "other: rest")]
    assert all(set(by_class) == {"PL", "AI", "other: rest"} for by_class in expected.values())
    scores = [expected[method][label].scores for method, label in pairs]
    if form == "text":
        blocks = [
            dict(line.split("\t")[:2] for line in block.splitlines()) for block in result.stdout.split("\n\n")[::2]
        ]
        del blocks[len(pairs) :]
        assert [(block["method"], block["target"]) for block in blocks] == [
            (method, f"log-odds of '{label}'") for method, label in pairs
        ]
    elif form == "json":
        explanations = json.loads(result.stdout)["explanations"]
        assert [(entry["method"], entry["target"]["label"]) for entry in explanations] == pairs
        assert [entry["scores"] for entry in explanations] == [row.tolist() for row in scores]
    elif form == "csv":
        table = pd.read_csv(io.StringIO(result.stdout), float_precision="round_trip")
        groups = {pair: group["score"].to_numpy() for pair, group in table.groupby(["method", "target"], sort=False)}
        assert list(groups) == pairs
        assert all(a.astype(b.dtype).tobytes() == b.tobytes() for a, b in zip(groups.values(), scores, strict=True))
    else:
        assert all(f"log-odds of '{label}'" in result.stdout for _, label in pairs)


def test_options_are_typed_and_go_to_the_methods_that_have_them(sightline, good_model):
    arguments = ["--method", "cat", "--method", "raw_attention", "--method", "random", "--seed", "5"]
    arguments += ["--option", "hidden=output", "--option", "raw_attention.layer=0"]
    printed = json.loads(sightline("explain", "doc.txt", "--model", good_model, *arguments, "--format", "json").stdout)
    options = {exp["method"]: exp["options"] for exp in printed["explanations"]}
    assert options["cat"]["hidden"] == "output"
    assert options["raw_attention"]["layer"] == 0
    assert options["random"]["seed"] == 5


def test_global_tokens_reach_the_encoding(sightline, long_model):
    result = sightline("explain", "doc.txt", "--model", long_model, "--global-tokens", "0,3", "--format", "json")
    assert json.loads(result.stdout)["encoding"]["global_tokens"] == [0, 3]


def test_truncation_is_always_said(sightline, tmp_path, good_model):
    (tmp_path / "doc.txt").write_text("the old mill " * 200)
    result = sightline("explain", "doc.txt", "--model", good_model, "--truncate")
    assert "more were cut off" in result.stdout


@pytest.mark.parametrize(
    ("rule", "sentence"), [("mean", "the mean of their scores"), ("max", "the largest score of every class")]
)
def test_a_long_text_is_read_in_windows_by_the_rule(sightline, tmp_path, good_model, rule, sentence):
    (tmp_path / "doc.txt").write_text("the old mill " * 200)
    result = sightline("explain", "doc.txt", "--model", good_model, "--windows", rule)
    assert "overlapping windows" in result.stdout
    assert sentence in result.stdout


def test_the_task_is_named_on_the_command_line(sightline, tmp_path, good_model):
    (tmp_path / "doc.txt").write_text("the old mill")
    assert sightline("explain", "doc.txt", "--model", good_model, "--task", "sequence_classification").exit_code == 0
    wrong = sightline("explain", "doc.txt", "--model", good_model, "--task", "singing")
    assert "There is no task 'singing'" in wrong.stderr


def run_for_real(*arguments: str, cwd, **options):
    program = [sys.executable, "-c", "from sightline.cli import main; main()", *map(str, arguments)]
    return subprocess.Popen(program, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_real_process_fails_with_a_sentence_and_its_exit_code(tmp_path):
    process = run_for_real("explain", "absent.txt", cwd=tmp_path)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, "")
    assert err == "Error: There is no file 'absent.txt'. Give a document, or - for standard input.\n"


def test_a_reader_that_stops_early_is_not_an_error(tmp_path, good_model):
    (tmp_path / "doc.txt").write_text(DOCUMENT)
    process = run_for_real("explain", "doc.txt", "--model", good_model, "--format", "html", cwd=tmp_path)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=PATIENCE) == 0


def test_check_says_what_deleting_words_showed(sightline, good_model):
    plain = sightline("explain", "doc.txt", "--model", good_model, "--format", "json")
    assert "check" not in json.loads(plain.stdout)
    done = json.loads(sightline("explain", "doc.txt", "--model", good_model, "--check", "--format", "json").stdout)
    assert done["verdict"]["matters"] in ("yes", "not_shown", "opposite", "too_small")
    assert done["verdict"]["calls"] == done["check"]["calls"] > 0


def test_the_first_of_several_methods_is_checked_and_all_on_request(sightline, good_model):
    arguments = ("explain", "doc.txt", "--model", good_model, "--methods", "attcat,rollout", "--format", "json")
    for further, levels in ((["--check"], [False, True]), (["--check", "--check-all"], [False, False])):
        record = json.loads(sightline(*arguments, *further).stdout)
        assert [one["verdict"]["level"] == "unchecked" for one in record["explanations"]] == levels


@pytest.mark.parametrize(
    ("arguments", "checked"),
    [
        (["-o", "page.html"], True),
        (["-o", "page.html", "--no-check"], False),
        (["-o", "page.html", "--target", "all"], False),
        (["-o", "page.html", "--target", "all", "--check"], True),
    ],
)
def test_a_page_of_one_class_shows_the_check_unless_it_is_declined(sightline, tmp_path, good_model, arguments, checked):
    result = sightline("explain", "doc.txt", "--model", good_model, "--method", "attcat", *arguments)
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert ('"level":"unchecked"' not in page) == checked


def test_a_page_takes_one_forward_for_scores_and_inside(sightline, good_model, monkeypatch):
    networks = []
    monkeypatch.setattr("sightline.api.model.Model.__init__", remembering(Model.__init__, networks))
    arguments = ("--method", "attcat", "--no-check", "-o", "page.html")
    result = sightline("explain", "doc.txt", "--model", good_model, *arguments)
    assert result.exit_code == 0, result.stderr
    assert [network.forward_passes for network in networks] == [1]


def remembering(init, networks):
    """The constructor of Model, noting the network of every model that is made."""

    def made(self, network, tokenizer=None):
        networks.append(network)
        init(self, network, tokenizer)

    return made


def test_readings_are_bounded_and_too_few_are_refused(sightline, good_model):
    arguments = ("explain", "doc.txt", "--model", good_model, "--check", "--format", "json", "--check-readings")
    for readings in (8, 20):
        assert json.loads(sightline(*arguments, str(readings)).stdout)["verdict"]["calls"] <= readings
    assert sightline(*arguments, "7").exit_code == 2


@pytest.mark.parametrize("option", [("--no-artefacts",), ("--check-all",), ("--check-readings", "20")])
def test_options_of_the_check_without_a_check_are_refused(sightline, good_model, option):
    result = sightline("explain", "doc.txt", "--model", good_model, *option)
    assert result.exit_code == 2
    assert f"{option[0]} belongs to the check" in result.stderr
    assert sightline("explain", "doc.txt", "--model", good_model, "--check", *option).exit_code == 0


def test_the_similarity_to_a_text_is_explained(sightline, tmp_path, good_model):
    make_folder(tmp_path / "similarity", dense=False, normalise=True)
    arguments = ("explain", "doc.txt", "--model", tmp_path / "similarity", "--method", "gradient", "--format", "json")
    record = json.loads(sightline(*arguments, "--similar-to", "the old mill").stdout)
    expected = load(tmp_path / "similarity", similar_to="the old mill").explain(DOCUMENT, "gradient")
    assert record["scores"] == expected.scores.tolist()
    assert record["provenance"]["similar_to"] == "the old mill"
    assert "--similar-to TEXT" in sightline(*arguments).stderr
    assert "--similar-to" in sightline("explain", "doc.txt", "--model", good_model, "--similar-to", "a").stderr


@pytest.mark.parametrize(
    ("name", "start"), [("figure.svg", b"<?xml"), ("figure.png", b"\x89PNG"), ("figure.pdf", b"%PDF")]
)
def test_the_highlighted_text_is_written_as_a_figure(sightline, tmp_path, good_model, name, start):
    result = sightline("explain", "doc.txt", "--model", good_model, "-o", name)
    assert result.exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(start)
    assert result.stdout.startswith("summary\t")


def test_a_figure_names_the_true_class_by_label_or_number(sightline, tmp_path, good_model):
    for given in ("pl", "1"):
        result = sightline("explain", "doc.txt", "--model", good_model, "--true-label", given, "-o", "figure.svg")
        assert result.exit_code == 0, result.stderr
        assert "true label “PL”" in (tmp_path / "figure.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [["--format", "png"], ["--format", "png", "-o", "figure.svg"]])
def test_a_figure_is_never_printed_nor_written_under_another_suffix(sightline, good_model, arguments):
    result = sightline("explain", "doc.txt", "--model", good_model, *arguments)
    assert result.exit_code == 2
    assert "use -o figure.png" in result.stderr
