"""Ray finishes what local processes began, with the same results, although an actor is killed in between."""

from __future__ import annotations

import json
import threading
import time

import psutil
import pytest

import sightline as sl
from sightline.errors import UsageError
from tests.corpus.conftest import rows_of_data
from tests.corpus.test_run import contents

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow


class StopError(Exception):
    """Raised to stop a run."""


def kill_an_actor(killed: list[int]) -> None:
    """Kill the first process that runs our actor, as soon as there is one."""
    for _ in range(1200):
        for process in psutil.Process().children(recursive=True):
            try:
                if "_UnitActor" in " ".join(process.cmdline()) or "MapWorker" in process.name():
                    process.kill()
                    killed.append(process.pid)
                    return
            except psutil.Error:
                continue
        time.sleep(0.05)


def test_ray_continues_a_local_run_and_survives_the_death_of_an_actor(model, model_folder, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows_of_data(40)))
    settings = {"methods": ["attcat"], "unit_documents": 4}
    expected = sl.run(data, model, out=tmp_path / "expected", **settings)

    def stop(progress):
        raise StopError

    out = tmp_path / "run"
    with pytest.raises(StopError):
        sl.run(data, model, out=out, progress=stop, **settings)
    killed: list[int] = []
    threading.Thread(target=kill_an_actor, args=(killed,), daemon=True).start()
    seen = []
    sl.run(
        data, model_folder, out=out, engine="ray", workers=2, progress=lambda state: seen.append(state.done), **settings
    )
    assert killed
    assert not ray.is_initialized()
    assert seen[-1] == 38 - 4
    assert contents(out) == contents(expected.path)


def test_an_address_without_a_cluster_is_reported(model_folder, data_file, tmp_path):
    with pytest.raises(UsageError, match="No Ray cluster can be reached at '127.0.0.1:1'"):
        sl.run(data_file, model_folder, out=tmp_path / "run", engine="ray", address="127.0.0.1:1", methods=["attcat"])
