"""`sightline inspect`: the summary, the folder, the tables of similarity, and sentences for whatever is wrong."""

from __future__ import annotations

import json
import re

import pytest

from sightline import builtin

pytestmark = pytest.mark.slow

QUICK = ["--top-k", "5"]


def test_the_summary_names_heads_words_relations_and_similarity_beside_chance(sightline, good_model):
    result = sightline("inspect", "doc.txt", "--model", good_model, *QUICK)
    assert result.exit_code == 0, result.stderr
    for heading in (
        "The model says",
        "Most important heads",
        "Words that receive the most attention",
        "Most attended words",
        "Most attending words",
        "Strongest words by attcat",
        "Attention against attcat, all words, with chance levels",
        "Attention against attcat, without stop words and punctuation, with chance levels",
    ):
        assert heading in result.stdout
    assert "\x1b" not in result.stdout
    assert "nan" not in result.stdout.lower()


def test_the_same_request_prints_the_same(sightline, good_model):
    runs = [sightline("inspect", "doc.txt", "--model", good_model, *QUICK).stdout for _ in range(2)]
    assert runs[0] == runs[1]


def test_the_summary_says_how_relations_are_counted_and_lists_one_word(sightline, good_model):
    once = sightline(
        "inspect", "doc.txt", "--model", good_model, "--word", "the", "--stop-words", "none", *QUICK
    ).stdout
    assert (
        "Most attended words (top-5 lists over all layers and heads, each querying token counted once per instance)"
        in once
    )
    assert "Instances of “the” (each querying token counted once per instance)" in once
    pairs = sightline("inspect", "doc.txt", "--model", good_model, "--count", "pairs", *QUICK).stdout
    assert "Most attended words (top-5 lists over all layers and heads, each list of a layer and head counted)" in pairs
    refused = sightline("inspect", "doc.txt", "--model", good_model, "--count", "tokens", "--scaled")
    assert refused.exit_code == 2
    assert "leave out --count tokens" in refused.stderr


def test_similarity_prints_a_row_a_setting_with_a_chance_column(sightline, good_model):
    result = sightline("inspect", "doc.txt", "--model", good_model, "--similarity", "--method", "rollout")
    lines = result.stdout.splitlines()
    assert lines[0] == "Attention against rollout, all words, with chance levels"
    assert lines[1].split("  ")[0] == "layers"
    assert lines[1].count("chance") == 5
    assert [re.split("  +", line)[:2] for line in lines[2:6]] == [
        ["last", "unscaled"],
        ["last", "scaled by document"],
        ["all", "unscaled"],
        ["all", "scaled by document"],
    ]


def test_the_part_of_a_long_text_that_is_not_inspected_is_named_whatever_is_printed(sightline, good_model, tmp_path):
    (tmp_path / "long.txt").write_text("The old mill by the river. " * 400)
    for further in ([], ["--similarity"]):
        result = sightline("inspect", str(tmp_path / "long.txt"), "--model", good_model, *further, *QUICK)
        assert result.exit_code == 0, result.stderr
        assert re.search(r"The document has [\d,]+ tokens; only the first [\d,]+, which the model", result.stderr)
    assert sightline("inspect", "doc.txt", "--model", good_model, *QUICK).stderr == ""


def test_a_folder_is_written_with_the_built_in_model(sightline, tmp_path):
    result = sightline("inspect", "doc.txt", "-o", "out", "--similarity", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "Wrote out/index.html\n"
    assert "Attention against attcat, all words, with chance levels" in result.stdout
    names = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    figures = ("head-importance", "attention-maps", "relations", "received", "attcat-similarity", "attcat-layers")
    assert names == {f"{figure}.{end}" for figure in figures for end in ("svg", "png")}
    assert (tmp_path / "out" / "page.html").exists()
    assert (tmp_path / "out" / "tables" / "attcat-by-type.tex").exists()
    assert not list((tmp_path / "out").rglob("*.part"))


def test_a_data_set_is_read_from_a_file(sightline, tmp_path, good_model):
    rows = [{"text": "The old mill.", "label": "AI"}, {"text": "Hello, Miller!", "label": "PL"}, {"text": ""}]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = sightline("inspect", "--data", "data.jsonl", "--model", good_model, *QUICK)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("2 documents.")
    assert "Document 2 was left out" in result.stdout
    limited = sightline("inspect", "--data", "data.jsonl", "--limit", "1", "--model", good_model, *QUICK)
    assert limited.stdout.startswith("1 document")


def test_the_fields_and_the_split_of_a_data_set_can_be_named(sightline, tmp_path, good_model):
    (tmp_path / "data.csv").write_text("review,kind,split\nThe old mill.,AI,test\nHello!,PL,train\n")
    arguments = ["inspect", "--data", "data.csv", "--model", good_model, *QUICK]
    refused = sightline(*arguments)
    assert refused.exit_code == 2
    assert "--text" in refused.stderr
    result = sightline(*arguments, "--text", "review", "--label", "kind", "--split", "test")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("1 document")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "There is nothing to inspect"),
        (["absent.txt"], "There is no file 'absent.txt'"),
        (["doc.txt", "--stop-words", "klingon"], "no list of stop words for 'klingon'"),
        (["doc.txt", "--layer", "14"], "Layer 14 asked for, the model has 3 (0-2)"),
        (["doc.txt", "--head", "9"], "Head 9 asked for, the model has 4 (0-3)"),
        (["doc.txt", "--position", "999"], "Position 999 asked for"),
        (["doc.txt", "--method", "magic"], "magic"),
        (["doc.txt", "--scaled", "--no-head-importance"], "--scaled needs the importance of the heads"),
        (["--data", "absent.csv"], "There is no data set 'absent.csv'"),
        (["doc.txt", "-o", "doc.txt"], "it is a file"),
        (["doc.txt", "--layer", "14", "-o", "new/folder"], "Layer 14 asked for"),
        (["--data", "d.csv", "--pair", "doc.txt"], "--pair needs a text file"),
        (["-", "--pair", "-"], "Only one of the two texts"),
        (["--data", "d.csv", "--check"], "--check needs a text file"),
        (["--data", "d.csv", "--word", "mill"], "--word needs a text file"),
        (["--data", "d.csv", "--effective"], "--effective needs a text file"),
        (["doc.txt", "--rule", "mean-all", "--target", "PL"], "--rule needs a data set"),
        (["--data", "d.csv", "--rule", "mean-all"], "add --target CLASS"),
        (["doc.txt", "--overwrite"], "--overwrite needs a folder"),
        (["doc.txt", "--split", "test"], "--split needs a data set"),
        (["--data", "d.csv", "--global-tokens", "0"], "--global-tokens needs a text file"),
        (["doc.txt", "--target", "all"], "one target"),
    ],
)
def test_a_wrong_request_ends_with_one_sentence_and_code_2(sightline, good_model, tmp_path, arguments, sentence):
    before = sorted(tmp_path.rglob("*"))
    result = sightline("inspect", *arguments, "--model", good_model)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_foreign_page_is_replaced_only_with_overwrite(sightline, tmp_path, good_model):
    page = tmp_path / "site" / "index.html"
    page.parent.mkdir()
    page.write_text("<title>Mine</title>")
    arguments = ["inspect", "doc.txt", "--model", good_model, "-o", "site", *QUICK]
    refused = sightline(*arguments)
    assert refused.exit_code == 2
    assert "was not written by Sightline" in refused.stderr
    assert page.read_text() == "<title>Mine</title>"
    assert list(page.parent.iterdir()) == [page]
    assert sightline(*arguments, "--overwrite").exit_code == 0
    assert "Mine" not in page.read_text()
    assert sightline(*arguments).exit_code == 0  # the page is Sightline's now


def test_a_data_set_is_explained_for_the_target_requested(sightline, tmp_path, good_model):
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in ("The old mill.", "Hello!")))
    for target in ("AI", "PL"):
        result = sightline("inspect", "--data", "data.jsonl", "--target", target, "--model", good_model, *QUICK)
        assert result.exit_code == 0, result.stderr
        assert f"Words in 2 documents, explained for “{target}”, by attcat" in result.stdout


def test_a_check_compares_with_random_orders(sightline, good_model):
    result = sightline("inspect", "doc.txt", "--check", "--model", good_model, *QUICK)
    assert result.exit_code == 0, result.stderr
    assert "It was not compared with random words" not in result.stdout


def test_help_shows_examples(sightline):
    result = sightline("inspect", "--help")
    assert "Examples:" in result.stdout
    assert "sightline inspect letter.txt -o folder" in result.stdout


def test_a_built_in_document_is_inspected_layer_by_layer(sightline):
    document = builtin.documents()["machine_learning"]
    result = sightline("inspect", document, "--layer", "1", "--head", "0", "--no-head-importance", "--top-k", "3")
    assert result.exit_code == 0, result.stderr
    assert "Most important heads" not in result.stdout
    assert "model" in result.stdout
