"""Every kind of bad input gets one clear sentence and the right exit code, no traceback, and leaves no file behind."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sightline.cli.streams import read_text
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow

# name: (bytes of the document or None for the good one, arguments, exit code, what the sentence says)
BAD_TEXTS = {
    "empty text": (b"", 2, "is empty"),
    "only spaces": (b" \n\t \xc2\xa0 \n", 2, "white space"),
    "only a byte-order mark": (b"\xef\xbb\xbf", 2, "is empty"),
    "ten megabytes": (b"old mill \n" * 1_000_000, 2, "10,000,000 characters"),
    "fifty megabytes": (b"old mill \n" * 5_000_000, 2, "larger than 40 MB"),
    "NUL bytes": (b"old\x00mill", 2, "more than a tenth of it is NUL bytes"),
    "lone surrogate": (b"old \xed\xa0\x80 mill", 2, "byte 0xed at position 4"),
    "invalid UTF-8": (b"old \xff mill", 2, "byte 0xff at position 4"),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, 2, "is not a text file: it holds binary data"),
    "old encoding": ("Müller über café, naïve Größe. ".encode("cp1252") * 20, 2, "Save it as UTF-8"),
    "half a UTF-16 character": ("old mill".encode("utf-16")[:-1], 2, "not valid UTF-16"),
    "archive": (b"PK\x03\x04 old mill", 2, "is a ZIP archive"),
    "damaged PDF": (b"%PDF-1.7 old mill", 2, "is damaged"),
    "RTF": (b"{\\rtf1 old mill}", 2, "save it as .docx"),
}
BAD_ARGUMENTS = {
    "unknown method": (["--method", "atcat"], 2, "Did you mean 'attcat'?"),
    "methods without a name": (["--method", ","], 2, "contains no name"),
    "unknown option": (
        ["--method", "attcat", "--option", "hiden=input"],
        2,
        "has no option 'hiden'. Did you mean 'hidden'?",
    ),
    "option without value": (["--option", "hidden"], 2, "not of the form key=value"),
    "option of another method": (["--option", "rollout.fusion=max"], 2, "add --method rollout"),
    "option with a wrong value": (
        ["--method", "attcat", "--option", "hidden=middle"],
        2,
        "must be one of 'input', 'output', not 'middle'",
    ),
    "layer out of range": (
        ["--method", "raw_attention", "--option", "layer=14"],
        2,
        "Layer 14 asked for, the model has 3",
    ),
    "unknown target": (["--target", "Ai2"], 2, "no label 'Ai2'"),
    "class out of range": (["--target", "7"], 2, "Class 7 asked for, the model has 3 classes (0-2)"),
    "negative class": (["--target", "-1"], 2, "Class -1 asked for"),
    "unknown contrast": (["--target", "AI:XL"], 2, "no label 'XL'"),
    "contrast with itself": (["--target", "PL:1"], 2, "two different classes"),
    "unknown quantity": (["--quantity", "odds"], 2, "odds"),
    "unknown format": (["--format", "docx"], 2, "docx"),
    "position for a classifier": (["--position", "3"], 2, "classifies documents"),
    "global tokens in BERT": (["--global-tokens", "0,3"], 2, "only in Longformer"),
    "global tokens that are no numbers": (["--global-tokens", "first"], 2, "not a list of token positions"),
    "true label without a figure": (["--true-label", "PL"], 2, "named in figures only"),
    "true label that is no class": (["--true-label", "XX", "-o", "figure.svg"], 2, "There is no label 'XX'"),
    "output in a missing folder": (["-o", "absent/page.html"], 2, "does not exist"),
    "output in an unknown form": (["-o", "page.docx"], 2, "Use .html, .json, .csv, .txt, .svg, .png or .pdf"),
    "output is a folder": (["-o", "."], 2, "is a folder"),
    "output below a file": (["-o", "doc.txt/page.html"], 2, "is a file, not a folder"),
    "output where nobody may write": (["-o", "/proc/page.html"], 2, "Cannot write '/proc/page.html'"),
    "a head that the checkpoint lacks": (
        ["--task", "question_answering"],
        1,
        "has no head for question_answering: leave out task=",
    ),
    "missing pair": (["--pair", "absent.txt"], 2, "no file 'absent.txt'"),
    "device as pair": (["--pair", "/dev/null"], 2, "'/dev/null' is a device"),
}
BAD_MODELS = {
    "no_such_folder": (2, "There is no model folder"),
    "no_config": (1, "has no config.json"),
    "data_set": (2, "has no config.json, so it is not a model folder"),
    "no_folder.csv": (2, "is a file; give the folder that holds config.json"),
    "broken_config": (1, "config"),
    "unknown_family": (1, "mystery"),
    "no_weights": (1, "has no weights"),
    "pickle": (1, "--allow-pickle"),
    "broken_weights": (1, "could not be read"),
    "missing_weights": (1, "1 missing (for example classifier.weight)"),
    "unexpected_weights": (1, "1 unexpected (for example extra)"),
    "misshapen_weights": (1, "of another shape"),
    "no_tokenizer": (1, "has no tokenizer"),
    "large_tokenizer": (1, "tokenizer"),
}
CASES = [
    *(pytest.param(content, [], None, code, says, id=name) for name, (content, code, says) in BAD_TEXTS.items()),
    *(
        pytest.param(None, arguments, None, code, says, id=name)
        for name, (arguments, code, says) in BAD_ARGUMENTS.items()
    ),
    *(pytest.param(None, [], model, code, says, id=model) for model, (code, says) in BAD_MODELS.items()),
    pytest.param(
        "日本語のテキスト、漢字ばかり".encode(), [], None, 1, "unknown", id="text the tokenizer does not know"
    ),
]


@pytest.mark.parametrize(("content", "arguments", "model", "code", "says"), CASES)
def test_bad_input_gets_one_sentence(
    sightline, tmp_path, good_model, bad_models, content, arguments, model, code, says
):
    if content is not None:
        (tmp_path / "doc.txt").write_bytes(content)
    folder = good_model if model is None else bad_models / model
    output = [] if "-o" in arguments else ["-o", "out.html"]
    before = sorted(tmp_path.rglob("*"))
    result = sightline("explain", "doc.txt", "--model", folder, *output, *arguments)
    assert result.exit_code == code, result.output
    assert says in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    sentences = [line for line in result.stderr.splitlines() if not line.startswith(("Usage:", "Try "))]
    assert len(list(filter(None, sentences))) == 1
    assert sentences[-1].startswith("Error: ")
    assert sentences[-1].endswith((".", "?"))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["absent.txt"], "There is no file 'absent.txt'"),
        (["."], "is a folder"),
        (["-", "--pair", "-"], "Only one of the two texts"),
    ],
)
def test_the_text_itself_must_be_a_readable_file(sightline, good_model, arguments, says):
    result = sightline("explain", *arguments, "--model", good_model)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize(
    "text",
    ["שלום עולם, old mill", "مرحبا بالعالم", "👩‍👩‍👧‍👦 🎉 old 𝔘 mill", "old\u202emill\u2028river", "\ufeffold mill"],
    ids=["Hebrew", "Arabic", "emoji", "direction marks", "byte-order mark"],
)
@pytest.mark.parametrize("form", ["text", "json", "html", "csv"])
def test_unusual_text_is_explained_like_any_other(sightline, tmp_path, long_model, text, form):
    (tmp_path / "doc.txt").write_text(text, encoding="utf-8")
    result = sightline("explain", "doc.txt", "--model", long_model, "--format", form)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    assert len(result.stdout) > 50


def test_allowed_pickle_and_random_weights_work_and_are_marked(sightline, bad_models):
    assert sightline("explain", "doc.txt", "--model", bad_models / "pickle", "--allow-pickle").exit_code == 0
    result = sightline("explain", "doc.txt", "--model", bad_models / "missing_weights", "--allow-random")
    assert result.exit_code == 0
    assert "notice\tSome weights of this model are random" in result.stdout


def test_debug_shows_the_traceback(sightline, good_model):
    result = sightline("explain", "doc.txt", "--model", good_model, "--target", "7", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("Error: Class 7 asked for, the model has 3 classes (0-2).\n")


def test_an_existing_output_file_survives_a_failure(sightline, tmp_path, good_model):
    (tmp_path / "out.html").write_text("precious")
    assert sightline("explain", "doc.txt", "--model", good_model, "--target", "7", "-o", "out.html").exit_code == 2
    assert (tmp_path / "out.html").read_text() == "precious"


@pytest.mark.parametrize(
    ("failure", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "Stopped."),
        (MemoryError(), 1, "Not enough memory"),
        (ZeroDivisionError("float division"), 1, "ZeroDivisionError: float division"),
    ],
)
def test_interrupts_and_surprises_end_with_a_sentence_too(
    sightline, tmp_path, good_model, monkeypatch, failure, code, says
):
    def fail(*arguments, **options):
        raise failure

    monkeypatch.setattr("sightline.api.model.Model.report", fail)
    result = sightline("explain", "doc.txt", "--model", good_model, "-o", "out.html")
    assert result.exit_code == code
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is needed")
def test_a_full_disk_behind_the_standard_output_is_reported():
    command = [sys.executable, "-c", "from sightline.cli import main; main()", "methods", "--json"]
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert result.returncode == 1
    assert result.stderr == "Error: The disk is full. Free some space, or write elsewhere.\n"


@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_labels_and_column_names_cannot_write_to_the_terminal(sightline, tmp_path, good_model, debug):
    folder = tmp_path / "model"
    shutil.copytree(good_model, folder)
    config = json.loads((folder / "config.json").read_text())
    hostile = "\x1b]0;owned\x07\x1b[2J\u202egood\nError: none"
    config["id2label"]["0"] = hostile
    config["label2id"] = {label: int(number) for number, label in config["id2label"].items()}
    (folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "data.csv").write_text(f'"{hostile}",label\nx,1\n')
    for command in (["explain", "doc.txt", "--target", "absent"], ["evaluate", "data.csv"]):
        result = sightline(*command, "--model", folder, *debug)
        assert result.exit_code == 2, result.output
        assert all(character.isprintable() or character == "\n" for character in result.stderr), result.stderr
        if not debug:  # a traceback has many lines
            assert len(result.stderr.splitlines()) == 1, result.stderr


def test_an_output_that_links_to_itself_is_refused_with_a_sentence(sightline, tmp_path, good_model):
    (tmp_path / "out.html").symlink_to(tmp_path / "out.html")
    result = sightline("explain", "doc.txt", "--model", good_model, "-o", "out.html")
    assert result.exit_code == 2
    assert "Cannot write 'out.html': the link leads back to itself" in result.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are needed")
def test_a_pipe_that_nobody_writes_to_is_waited_for_with_a_message(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    os.mkfifo(tmp_path / "pipe")
    texts = []
    reader = threading.Thread(target=lambda: texts.append(read_text(str(tmp_path / "pipe"))), daemon=True)
    reader.start()
    shown, end = "", time.monotonic() + PATIENCE
    while "Waiting for another program to write to" not in shown and time.monotonic() < end:
        time.sleep(0.05)
        shown += capsys.readouterr().err
    assert "/pipe'." in shown
    assert not texts
    (tmp_path / "pipe").write_text("the old mill")
    reader.join(PATIENCE)
    assert texts == ["the old mill"]


def test_a_pipe_is_read_by_name_and_a_device_is_refused(good_model, tmp_path):
    shown = f"{sys.executable} -c 'from sightline.cli import main; main()' explain"
    options = f"--model {shlex.quote(str(good_model))} --method attcat --no-check"
    for command, says in (
        (f"{shown} <(echo the old mill) {options}", None),
        (f"echo the old mill | {shown} /dev/stdin {options}", None),
        (f"{shown} /dev/stdin {options} < doc.txt", None),
        (f"{shown} /dev/zero {options}", "Error: '/dev/zero' is a device: give a document, or - for standard input.\n"),
        (f"{shown} /dev/stdin {options} < /dev/zero", "Error: '/dev/stdin' is a device"),
        (f"{shown} - {options} < /dev/zero", "Error: Standard input is larger than 40 MB"),
    ):
        (tmp_path / "doc.txt").write_text("the old mill")
        result = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE, check=False
        )
        assert result.returncode == (0 if says is None else 2), (command, result.stderr)
        assert says is None or result.stderr.startswith(says), (command, result.stderr)
