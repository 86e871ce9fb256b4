"""A run in an object store is the same run as one in a folder; places that cannot hold one are refused."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pandas as pd
import pytest

import sightline as sl
from sightline.corpus.run_storage import storage_at
from sightline.errors import InputError, OptionError, UsageError
from sightline.files.writing import _part_name, lock_file
from tests.corpus.test_processes import PROGRAM
from tests.plugin_packages import ROOT

SETTINGS = {"methods": ["attcat"], "unit_documents": 4, "measures": ["heads"]}
TABLES = ("tokens", "explanations", "heads", "similarity", "errors", "results", "rows", "texts")
BUCKET = """
import os
from fsspec.implementations.local import LocalFileSystem

class Bucket(LocalFileSystem):
    protocol = "s3"

    def __init__(self, **options):
        super().__init__(auto_mkdir=True, **options)

    @classmethod
    def _strip_protocol(cls, path):
        inside = str(path).removeprefix("s3://")
        root = os.environ["BUCKET_ROOT"]
        return inside if inside.startswith(root) else os.path.join(root, inside)
"""


def rows_of(store: sl.Store) -> dict[str, list[str]]:
    """Return the rows of all tables, sorted, as text."""
    frames = {name: store.sql(f"SELECT * FROM {name}", arrow=True).to_pylist() for name in TABLES}
    return {name: sorted(json.dumps(row) for row in rows) for name, rows in frames.items()}


@pytest.fixture(scope="module")
def in_a_folder(tmp_path_factory, model, data_file):
    return sl.run(data_file, model, out=tmp_path_factory.mktemp("folder") / "run", **SETTINGS)


@pytest.fixture
def uri(request):
    """A prefix in memory that no other test uses."""
    prefix = f"memory://{request.node.name}/run"
    yield prefix
    fsspec.filesystem("memory").rm(f"/{request.node.name}", recursive=True)


def test_a_run_in_an_object_store_is_that_of_a_folder(in_a_folder, model, data_file, uri):
    store = sl.run(data_file, model, out=uri, **SETTINGS)
    assert store.path == uri
    assert rows_of(store) == rows_of(in_a_folder)
    again = sl.open_run(uri)
    assert again.complete
    assert again.document(3).to_dict() == in_a_folder.document(3).to_dict()
    # Sums are added up in the order in which files are read.
    label = again.documents("status = 'done'")["prediction"][0]
    tables = [store.aggregate("type", "attcat", label) for store in (again, in_a_folder)]
    both = [table.sort_values("type", ignore_index=True) for table in tables]
    pd.testing.assert_frame_equal(*both, rtol=1e-12)


def test_a_stopped_run_in_an_object_store_resumes(in_a_folder, model, data_file, uri):
    class StopError(Exception):
        pass

    def stop(progress):
        raise StopError

    with pytest.raises(StopError):
        sl.run(data_file, model, out=uri, progress=stop, **SETTINGS)
    stopped = sl.open_run(uri)
    assert len(stopped.folder.finished_units(stopped.plan.units)) == 1
    assert not stopped.complete
    assert rows_of(sl.run(data_file, model, out=uri, **SETTINGS)) == rows_of(in_a_folder)
    with pytest.raises(UsageError, match=r"different run \(settings.methods"):
        sl.run(data_file, model, out=uri, **{**SETTINGS, "methods": ["rollout"]})


def test_a_prefix_with_foreign_objects_is_refused(model, data_file, uri):
    fsspec.filesystem("memory").pipe_file(f"{uri}/mine.txt", b"mine")
    with pytest.raises(UsageError, match=r"is not empty \('mine.txt'\)"):
        sl.run(data_file, model, out=uri, **SETTINGS)
    with pytest.raises(InputError, match="contains no results"):
        sl.open_run(uri)


def test_a_file_uri_is_a_folder(in_a_folder):
    assert storage_at(f"file://{in_a_folder.path}").path == in_a_folder.path
    assert rows_of(sl.open_run(f"file://{in_a_folder.path}")) == rows_of(in_a_folder)


@pytest.mark.parametrize("place", ["sftp://host/run", "https://host/run", "zip://run::file.zip", "s4://bucket/run"])
def test_a_place_without_whole_files_is_refused(place, model, data_file):
    with pytest.raises(UsageError, match="complete or absent"):
        sl.run(data_file, model, out=place, **SETTINGS)


def test_workers_cannot_share_the_memory_of_a_process(model_folder, data_file):
    with pytest.raises(OptionError, match="exists in this process only"):
        sl.run(data_file, model_folder, out="memory://run", **SETTINGS)


@pytest.mark.skipif(importlib.util.find_spec("gcsfs") is not None, reason="gcsfs is installed")
def test_a_missing_client_is_named():
    with pytest.raises(UsageError, match="gcsfs"):
        sl.open_run("gs://bucket/run")


@pytest.mark.slow
def test_worker_processes_share_an_object_store(in_a_folder, model_folder, data_file, tmp_path):
    (tmp_path / "bucket_plugin.py").write_text(BUCKET)
    info = tmp_path / "bucket_plugin-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bucket_plugin\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[fsspec.specs]\ns3 = bucket_plugin:Bucket\n")
    root = tmp_path / "root"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(sl.__file__).parents[1])]),
        "HF_HUB_OFFLINE": "1",
        "BUCKET_ROOT": str(root),
    }
    settings = json.dumps({**SETTINGS, "workers": 2})
    arguments = [sys.executable, "-c", PROGRAM, str(data_file), str(model_folder), "s3://bucket/run", settings]
    done = subprocess.run(arguments, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert rows_of(sl.open_run(root / "bucket" / "run")) == rows_of(in_a_folder)


@pytest.mark.skipif(os.name == "nt", reason="needs locks of files")
def test_a_run_removes_at_once_what_killed_processes_left_and_nothing_else(tmp_path):
    out, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    for folder in (out / "tokens", elsewhere):
        folder.mkdir(parents=True)
    (out / "link").symlink_to(elsewhere)
    written = out / "tokens" / _part_name()
    keep = [written, elsewhere / _part_name(), out / ".0123456789ab.part", out / "tokens" / "mine.part"]
    before, during = out / "tokens" / _part_name(), out / _part_name()
    for path in (*keep, before):
        path.write_text("half")
    with written.open() as file:
        lock_file(file.fileno())  # as a worker of the killed run that has not ended yet
        with storage_at(out).lock():
            assert not before.exists()
            during.write_text("half")  # as a worker of this run that is killed
        assert not during.exists()
    assert all(path.exists() for path in keep)
