"""`sightline study` prints the claims, writes the page, and says in one sentence what is wrong."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow


def test_help_shows_examples(sightline):
    done = sightline("study", "--help")
    assert done.exit_code == 0
    assert "sightline study attcat --size tiny --out attcat" in done.output


def test_a_study_prints_its_claims_and_writes_a_page(sightline, tmp_path):
    done = sightline("study", "attcat", "--size", "tiny", "--documents", "3", "--out", "out")
    assert done.exit_code == 0, done.output
    assert "highest AOPC" in done.stdout
    assert (tmp_path / "out" / "index.html").is_file()


def test_a_study_reads_given_rows_with_a_given_model(sightline, good_model, tmp_path):
    rows = [{"text": "The mill is old.", "label": 0}, {"text": "Hello, Miller! The river runs.", "label": 1}] * 3
    path = tmp_path / "<b>rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = sightline("study", "attcat", "--size", "tiny", "--data", path, "--model", good_model, "--out", "out")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "out" / "index.html").read_text()
    assert "&lt;b&gt;rows.jsonl" in page
    assert "<b>rows" not in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("atcat", "--out", "out"), "There is no study 'atcat'. Did you mean 'attcat'?"),
        (
            ("flow", "--model", "classifier=m", "--out", "out"),
            "has no model 'classifier'. It takes: sentiment, mlm, base.",
        ),
        (("flow", "--model", "base=nowhere/at/all", "--out", "out"), "There is no model folder 'nowhere/at/all'"),
        (
            ("flow", "--data", "sst=rows.csv", "--out", "out"),
            "has no data set 'sst'. It reads: sva, sst2, pronouns, snli",
        ),
        (("attcat", "--data", "no.csv", "--out", "out"), "There is no data 'no.csv'."),
        (("attcat", "--out", "doc.txt"), "is a file. Name a folder."),
        (("attcat", "--size", "paper", "--out", "out"), "or give all data and models as files with --data and --model"),
    ],
)
def test_a_bad_request_ends_with_a_sentence(arguments, sentence, sightline, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    done = sightline("study", *arguments)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.output
