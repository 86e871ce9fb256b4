"""Worker processes may die at any moment, with or without their parent, and nothing is lost or computed differently."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import sightline as sl
from tests.corpus.conftest import rows_of_data
from tests.corpus.lethal_plugin import SOURCE
from tests.corpus.test_run import contents
from tests.plugin_packages import ROOT, install_plugin

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("SIGHTLINE_TEST_KILLS", "4"))
PROGRAM = """
import json, sys
import sightline as sl

if __name__ == "__main__":
    data, model, out, settings = sys.argv[1:]
    sl.run(data, model, out=out, **json.loads(settings))
"""


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    install_plugin(folder, "lethal_methods", SOURCE, ("sightline.methods",))
    return folder


def start(plugins, data, model, out, **settings) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(plugins), str(Path(sl.__file__).parents[1])])
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(data), str(model), str(out), json.dumps(settings)],
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate()
    assert process.returncode == 0, errors[-2000:]


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        children = psutil.Process(process.pid).children()
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    except psutil.Error:
        return []


def test_processes_give_what_one_process_gives(plugins, model, model_folder, data_file, tmp_path):
    settings = {"methods": ["attcat", "rollout"], "unit_documents": 4}
    finish(start(plugins, data_file, model_folder, tmp_path / "two", workers=2, **settings))
    alone = sl.run(data_file, model, out=tmp_path / "one", **settings)
    assert contents(tmp_path / "two") == contents(alone.path)


def test_a_document_that_kills_its_worker_is_recorded_and_the_others_run(plugins, model_folder, tmp_path):
    texts = [f"The mill {number}." for number in range(6)] + ["poison in the river", "a poison in the mill"]
    data = tmp_path / "data.txt.jsonl"
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    settings = {"methods": ["lethal"], "measures": [], "workers": 1}
    finish(start(plugins, data, model_folder, tmp_path / "run", **settings))
    frame = sl.open_run(tmp_path / "run").documents()
    assert frame["status"].tolist() == ["done"] * 6 + ["failed"] * 2
    assert frame["error"][6] == "The process ended 2 times while explaining it."


def test_killed_at_random_moments_a_run_ends_with_the_rows_of_an_undisturbed_one(plugins, model_folder, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows_of_data(60)))
    settings = {"methods": ["slow", "attcat"], "unit_documents": 4, "workers": 2}
    finish(start(plugins, data, model_folder, tmp_path / "undisturbed", **settings))
    seed = int(time.time())
    print(f"seed {seed}")  # noqa: T201  # shown if the test fails
    generator = random.Random(seed)
    out = tmp_path / "killed"
    process = start(plugins, data, model_folder, out, **settings)
    kills, restarts = 0, 0
    while kills < KILLS:
        workers = workers_of(process)
        time.sleep(generator.uniform(0.0, 1.0))
        if process.poll() is not None:
            assert process.returncode in (0, -signal.SIGKILL)
            process.communicate()
            if process.returncode == 0 and restarts > KILLS:
                break
            restarts += 1
            for file in sorted((out / "documents").glob("*"))[:3]:
                file.unlink()  # there is work left for the next start
            process = start(plugins, data, model_folder, out, **settings)
        elif workers and generator.random() < 0.6:
            victim = generator.choice(workers)
            if victim.is_running():
                victim.kill()
                kills += 1
        elif (out / "plan").exists():
            process.kill()
            kills += 1
    process.communicate()
    assert kills >= min(KILLS, 3)
    # A document that was hit by two kills of one start counts as poison: it is taken up again.
    finish(start(plugins, data, model_folder, out, retry_failed=True, **settings))
    assert contents(out) == contents(tmp_path / "undisturbed")
    assert not list(out.rglob("*.part"))


def test_a_worker_that_cannot_load_the_model_stops_the_run_with_its_reason(plugins, model_folder, data_file, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(model_folder, copy)
    process = start(plugins, data_file, copy, tmp_path / "run", methods=["slow"], measures=[], workers=1)
    while not (tmp_path / "run" / "manifest.json").exists() and process.poll() is None:
        time.sleep(0.01)
    (copy / "config.json").write_text("{}")
    _, errors = process.communicate()
    # The worker may have read the file before it was damaged: then the run ends well.
    assert process.returncode == 0 or "does not name the family" in errors


def test_a_program_starts_workers_that_import_nothing_from_the_current_folder(model_folder, data_file, tmp_path):
    """A program of the user's may run inside a folder that came from elsewhere."""
    here, program = tmp_path / "here", tmp_path / "program.py"
    here.mkdir()
    (here / "multiprocessing.py").write_text("open('executed', 'w').close()\n")
    program.write_text(PROGRAM)
    settings = json.dumps({"methods": ["attcat"], "measures": [], "workers": 1})
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, program, data_file, model_folder, tmp_path / "out", settings],
        env={**environment, "PYTHONPATH": str(Path(sl.__file__).parents[1]), "HF_HUB_OFFLINE": "1"},
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (here / "executed").exists()
    assert done.returncode == 0, done.stderr[-2000:]
