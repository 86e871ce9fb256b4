"""A tiny model, a small data set, and the results of a run over it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import sightline as sl
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

LABELS = {0: "AI", 1: "PL", 2: "other"}
NOUNS = ("river", "mill", "world", "cafe", "Miller", "hello")


def rows_of_data(count: int = 24) -> list[dict[str, object]]:
    """Rows of different lengths; the last two repeat the first, and one text is empty."""
    rows: list[dict[str, object]] = [
        {
            "id": f"doc-{number}",
            "text": f"The {NOUNS[number % 6]} {number} is old{' and naive' * (number % 5)}, the Mill old.",
            "label": ("AI", "PL", "other", "unheard-of", None)[number % 5],
            "year": 2000 + number,
        }
        for number in range(count - 3)
    ]
    return [*rows, {**rows[0], "id": "empty", "text": ""}, {**rows[0], "id": "twin"}, {**rows[0], "id": "triplet"}]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with three classes."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_module("bert", dtype=torch.float32, id2label=LABELS).save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def model(model_folder: Path) -> sl.Model:
    return sl.load(model_folder)


@pytest.fixture(scope="session")
def data_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of_data()))
    return path


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory, model: sl.Model, data_file: Path) -> sl.Store:
    """The data set explained for all classes, with the check, in this process."""
    out = tmp_path_factory.mktemp("runs") / "all"
    return sl.run(data_file, model, methods=["attcat", "rollout"], out=out, target="all", check=True)
