"""Model folders, good and bad, and a way to call the command line in this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import byte_level, wordpiece

DOCUMENT = "The river runs past the old mill.\n\nHello, Miller! The mill is old.\n"
LABELS = {0: "AI", 1: "PL", 2: "other: rest"}


@pytest.fixture(scope="session")
def good_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with tokenizer that classifies into AI, PL and "other: rest"."""
    folder = tmp_path_factory.mktemp("models") / "good"
    tiny_module("bert", dtype=torch.float32, id2label=LABELS).save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Longformer with a byte-level tokenizer, which knows every character."""
    folder = tmp_path_factory.mktemp("models") / "long"
    tiny_module("longformer", dtype=torch.float32, vocab_size=400).save_pretrained(folder)
    byte_level().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def bad_models(tmp_path_factory: pytest.TempPathFactory, good_model: Path) -> Path:
    """A folder of model folders, each with one thing wrong; the names say what."""
    root = tmp_path_factory.mktemp("bad")

    def spoil(name: str, change: Callable[[Path], Any]) -> None:
        shutil.copytree(good_model, root / name)
        change(root / name)

    def rewrite_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    def as_pickle(folder: Path) -> None:
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()

    def without_tokenizer(folder: Path) -> None:
        for file in folder.glob("*token*"):
            file.unlink()

    def set_config(folder: Path, **facts: Any) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | facts))

    spoil("no_config", lambda folder: (folder / "config.json").unlink())
    spoil("broken_config", lambda folder: (folder / "config.json").write_text("{"))
    spoil("unknown_family", lambda folder: set_config(folder, model_type="mystery"))
    spoil("no_weights", lambda folder: (folder / "model.safetensors").unlink())
    spoil("pickle", as_pickle)
    spoil("broken_weights", lambda folder: (folder / "model.safetensors").write_bytes(b"\x00" * 100))
    spoil("missing_weights", lambda folder: rewrite_weights(folder, lambda weights: weights.pop("classifier.weight")))
    spoil(
        "unexpected_weights",
        lambda folder: rewrite_weights(folder, lambda weights: weights.update(extra=torch.zeros(2))),
    )
    spoil("misshapen_weights", lambda folder: set_config(folder, hidden_size=16))
    spoil("no_tokenizer", without_tokenizer)
    (root / "data_set").mkdir()
    (root / "data_set" / "train.csv").write_text("text,label\nThe old mill,PL\n")
    (root / "no_folder.csv").write_text("text,label\nThe old mill,PL\n")
    spoil("large_tokenizer", lambda folder: byte_level().save_pretrained(folder))
    return root


@pytest.fixture
def sightline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Call the command line in an empty folder that holds `doc.txt`."""
    from sightline.cli.app import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "doc.txt").write_text(DOCUMENT, encoding="utf-8")

    def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)

    return run
