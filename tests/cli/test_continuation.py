"""`sightline explain --continuation`: text, JSON, CSV and a page, with the numbers of the library."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM

import sightline as sl
from sightline.results.continuation import ContinuationExplanation
from tests.tiny_models import VOCABULARY, tiny_module
from tests.tiny_tokenizers import byte_level

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A tiny Llama that writes, with a byte-level tokenizer."""
    folder, tokenizer = tmp_path_factory.mktemp("models") / "decoder", byte_level()
    size = max(VOCABULARY, len(tokenizer))
    tiny_module("llama", auto=AutoModelForCausalLM, vocab_size=size, dtype=torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def run(sightline, decoder, tmp_path):
    (tmp_path / "prompt.txt").write_text("the old mill\n")
    return lambda *arguments: sightline("explain", "prompt.txt", "--model", decoder, *arguments)


def test_json_loads_as_the_library_explains_without_the_line_break_of_the_file(run, decoder, tmp_path):
    result = run("--continuation", " hello world", "--method", "attcat", "--format", "json")
    (tmp_path / "result.json").write_text(result.stdout)
    expected = sl.load(decoder).explain("the old mill", "attcat", continuation=" hello world")
    loaded = ContinuationExplanation.load(tmp_path / "result.json")
    np.testing.assert_array_equal(loaded.matrix, expected.matrix)
    assert json.loads(result.stdout)["text"] == " hello world"
    both = run("--continuation", " hello", "--methods", "attcat,alti", "--format", "json")
    assert [entry["method"] for entry in json.loads(both.stdout)["continuations"]] == ["attcat", "alti"]


def test_text_lists_the_words_behind_every_generated_word(run):
    lines = run("--continuation", " hello world", "--method", "alti", "--top", "2").stdout.splitlines()
    assert lines[0].startswith("Given continuation, not written by the model: 2 tokens after a prompt of ")
    assert "share" in lines[1]
    assert "log-odds" not in lines[1]
    assert "not checked" in lines[2]
    words = [line for line in lines if line.startswith("  ")]
    assert [line.split()[0] for line in words] == ["hello", "world"]
    assert all(line.count(",") == 1 for line in words)
    assert all(" % " in line for line in words)


def test_a_continuation_without_a_space_is_listed(run):
    lines = run("--continuation", "s", "--method", "alti").stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == ["s"]


def test_csv_has_one_row_per_pair_of_words(run):
    frame = pd.read_csv(io.StringIO(run("--continuation", " hello world", "--format", "csv", "--level", "word").stdout))
    assert list(frame["generated"].unique()) == ["hello", "world"]
    assert len(frame) == 3 + 4


def test_a_page_is_written_and_the_model_can_write_the_text_itself(run, tmp_path):
    result = run("--max-new-tokens", "3", "--method", "gradient", "-o", "page.html")
    assert result.stdout.startswith("Written by the model, always the likeliest next token: 3 tokens after")
    assert "Wrote page.html" in result.stderr
    assert "<h2>Generated</h2>" in (tmp_path / "page.html").read_text()


def test_wrong_requests_end_with_one_sentence(run, sightline, good_model):
    result = run("--continuation", " hello", "--target", "old")
    assert result.exit_code != 0
    assert "every generated token is a target" in result.stderr
    result = sightline("explain", "doc.txt", "--model", good_model, "--continuation", " hello")
    assert result.exit_code != 0
    assert "Only a causal language model continues a text" in result.stderr
