"""`sightline compare`: methods, layers against a reference, and models, printed and written."""

from __future__ import annotations

import csv
import io
import json

import pytest
import torch

from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

pytestmark = pytest.mark.slow

DATA = "text\nThe river runs past the old mill.\nHello old miller the mill is old.\n"


@pytest.fixture
def compare(sightline, tmp_path):
    """Run `sightline compare` on two short texts."""
    (tmp_path / "data.csv").write_text(DATA)
    return lambda *arguments: sightline("compare", "data.csv", *arguments)


@pytest.fixture(scope="session")
def other_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "other"
    labels = {0: "AI", 1: "PL", 2: "other: rest"}
    tiny_module("bert", seed=3, dtype=torch.float32, id2label=labels).save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    return folder


def test_layers_against_a_reference_are_a_table_of_layers_and_methods(compare, good_model, tmp_path):
    arguments = (
        "--model",
        good_model,
        "--layers",
        "--reference",
        "occlusion",
        "--methods",
        "rollout,flow",
        "--magnitude",
    )
    result = compare(*arguments, "-o", "out")
    assert result.exit_code == 0, result.output
    assert result.stderr == "Wrote out/index.html\n"
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Compares the layers of each method with occlusion on 2 documents;")
    header = next(number for number, line in enumerate(lines) if line.split() == ["layer", "rollout", "flow"])
    assert [line.split()[0] for line in lines[header + 1 : header + 4]] == ["0", "1", "2"]
    summary = list(csv.DictReader((tmp_path / "out" / "tables" / "summary.csv").open()))
    chances = [float(row["chance"]) for row in summary]
    low, high = (f"{value:z.2f}".replace("-", "−") for value in (min(chances), max(chances)))
    assert f"Chance levels lie between {low} and {high}." in lines
    assert (tmp_path / "out" / "figures" / "spearman-by-layer.svg").exists()
    rows = list(csv.DictReader((tmp_path / "out" / "tables" / "spearman-by-layer.csv").open()))
    assert [list(row) for row in rows] == [["layer", "rollout", "flow"]] * 3


def test_models_are_compared_on_the_documents_they_agree_about(compare, good_model, other_model, tmp_path):
    arguments = ("--model", good_model, "--model", other_model, "--methods", "gradient,rollout")
    everything = compare(*arguments, "--all-documents", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(everything.stdout)))
    assert [(row["method"], row["first"], row["second"]) for row in rows] == [
        ("gradient", "good", "other"),
        ("rollout", "good", "other"),
    ]
    assert {row["documents"] for row in rows} == {"2"}
    result = compare(*arguments, "--format", "json", "-o", "out")
    content = json.loads(result.stdout)
    assert content["settings"]["same_prediction"] is True
    assert all(row["documents"] + row["missing"] == 2 for row in content["summary"])
    assert "predict the same class" in (tmp_path / "out" / "index.html").read_text()


def test_methods_are_compared_with_each_other(compare, good_model, tmp_path):
    result = compare("--model", good_model, "--methods", "gradient,rollout", "--metrics", "kendall,rbo", "-o", "out")
    assert "kendall: Kendall's tau-b" in result.stdout
    assert (tmp_path / "out" / "figures" / "agreement.png").exists()
    assert (tmp_path / "out" / "tables" / "pairs.csv").exists()
    for form in ("markdown", "latex"):
        assert (
            "kendall"
            in compare(
                "--model", good_model, "--methods", "gradient,rollout", "--metrics", "kendall", "--format", form
            ).stdout
        )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "a", "--model", "b", "--layers"], "leave out --layers and --reference"),
        (["--all-documents"], "give --model at least twice"),
        (["--metrics", "aopc"], "measures faithfulness"),
        (["--methods", "rolout"], "Did you mean 'rollout'?"),
        (["--overwrite"], "--overwrite needs a folder"),
    ],
)
def test_a_wrong_request_is_one_sentence(compare, arguments, sentence):
    result = compare(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
