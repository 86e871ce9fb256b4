"""A run is resumed only with the data and the model that it was started with, whatever about them has changed."""

from __future__ import annotations

import os
import re
import shutil

import pytest

import sightline as sl
from sightline.corpus.manifest import describe_data
from sightline.errors import UsageError

METHODS = ["attcat"]


def labelled_folder(folder):
    for label in ("good", "bad"):
        (folder / label).mkdir(parents=True)
        for number in range(3):
            (folder / label / f"{label}{number}.txt").write_text(f"The {label} mill {number} is old.")
    return folder


def test_files_that_were_moved_between_label_folders_are_another_data_set(model, tmp_path):
    data = labelled_folder(tmp_path / "data")
    sl.run(data, model, METHODS, out=tmp_path / "run")
    (data / "good" / "good0.txt").rename(data / "bad" / "good0.txt")
    with pytest.raises(UsageError, match=r"data\.sha256: the data were changed, or a file was moved or renamed"):
        sl.run(data, model, METHODS, out=tmp_path / "run")
    (data / "bad" / "good0.txt").rename(data / "good" / "good0.txt")
    assert sl.run(data, model, METHODS, out=tmp_path / "run").complete


def test_a_file_with_another_content_of_the_same_size_and_time_is_another_data_set(model, tmp_path):
    data = labelled_folder(tmp_path / "data")
    sl.run(data, model, METHODS, out=tmp_path / "run")
    file = data / "good" / "good0.txt"
    before = file.stat()
    file.write_text(file.read_text().replace("old", "new"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(UsageError, match=r"data\.sha256"):
        sl.run(data, model, METHODS, out=tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("tokenizer.json", '"lowercase": true', '"lowercase": false', "model.tokenizer: its tokenizer has changed"),
        ("config.json", '"layer_norm_eps": 1e-12', '"layer_norm_eps": 0.1', "model.config: the settings in its config"),
        ("tokenizer_config.json", '"unk_token": "[UNK]"', '"unk_token": "[MASK]"', "model.tokenizer"),
    ],
)
def test_a_model_with_other_files_beside_its_weights_is_another_model(
    file, old, new, named, model_folder, data_file, tmp_path
):
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    sl.run(data_file, sl.load(folder), METHODS, out=tmp_path / "run")
    path = folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match=re.escape(named)):
        sl.run(data_file, sl.load(folder), METHODS, out=tmp_path / "run")


@pytest.mark.slow
def test_a_copy_of_a_model_is_the_same_model(model, model_folder, data_file, tmp_path):
    sl.run(data_file, model, METHODS, out=tmp_path / "run")
    shutil.copytree(model_folder, tmp_path / "copy")
    (tmp_path / "copy" / "README.md").write_text("A copy.")
    copy = sl.load(tmp_path / "copy")
    copy.tokenizer("The mill.", truncation=True, max_length=3, padding="max_length")
    assert sl.run(data_file, copy, METHODS, out=tmp_path / "run").complete


def test_two_data_sets_of_the_hub_are_told_apart():
    first, second = (describe_data(f"hf://{name}") for name in ("imdb", "sst2"))
    assert first["hub"] != second["hub"]
