"""Several processes work on one study: nothing is computed twice, nobody waits without need, the bytes are the same."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from sightline.errors import UsageError
from sightline.text import Example
from sightline_studies import STUDIES, run_study
from sightline_studies.sharing import BusyError, Turn, assistants, claim, one_thread
from sightline_studies.workbench import Workbench

ATTCAT = STUDIES["attcat"]
HOLD = """
import sys
from pathlib import Path
from sightline_studies.sharing import claim
with claim(Path(sys.argv[1]), wait=True):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def held(tmp_path):
    """A lock that another process holds, and that process."""
    path = tmp_path / "lock"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield path, process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("content", [b"my notes\n", b"1\n2\n", None], ids=["notes", "numbers", "folder"])
def test_what_others_put_in_the_place_of_a_lock_stays(content, tmp_path):
    path = tmp_path / ".table.json.lock"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(UsageError, match=r"\.table\.json\.lock"), claim(path, wait=False):
        raise AssertionError("the lock was given away")
    assert path.is_dir() if content is None else path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"123\n"])
def test_the_lock_of_a_killed_process_is_taken(content, tmp_path):
    path = tmp_path / ".table.json.lock"
    path.write_bytes(content)
    with claim(path, wait=False):
        assert path.read_bytes() == f"{os.getpid()}\n".encode()
    assert not path.exists()


def test_processes_begin_at_different_places_and_take_everything():
    orders = [Turn(number, 3).order("abcdef") for number in range(3)]
    assert orders == [list("abcdef"), list("cdefab"), list("efabcd")]
    assert Turn().order([]) == []


def test_what_another_process_holds_is_busy(held):
    path, _ = held
    with pytest.raises(BusyError), claim(path, wait=False):
        raise AssertionError("the lock was given away")


@pytest.mark.parametrize("end", ["finished", "killed"])
def test_a_lock_is_free_when_its_process_ends_however_it_ends(held, end):
    path, process = held
    if end == "killed":
        process.kill()
    else:
        process.communicate("\n")
    with claim(path, wait=True):
        pass
    assert not path.exists()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs processes that can be stopped")
def test_whoever_waits_for_a_stopped_process_says_for_which(held):
    path, holder = held
    os.kill(holder.pid, signal.SIGSTOP)
    waiting = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = waiting.stderr.readline()
        assert f"Waiting for process {holder.pid}, which is computing 'lock' of this study." in line
        os.kill(holder.pid, signal.SIGCONT)
        holder.communicate("\n")
        assert waiting.stdout.readline() == "held\n"
        assert path.read_text() == f"{waiting.pid}\n"
    finally:
        waiting.kill()
        assert waiting.communicate()[1] == ""


def test_nothing_is_written_through_a_link_in_the_place_of_a_lock(tmp_path):
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "lock").symlink_to(tmp_path / "notes")
    with pytest.raises(UsageError, match="is a link"), claim(tmp_path / "lock", wait=True):
        raise AssertionError("the link was followed")
    assert (tmp_path / "notes").read_text() == "mine"


def test_a_lock_that_was_waited_for_keeps_a_third_process_out(tmp_path):
    path, waiting, inside, leave = tmp_path / "lock", threading.Event(), threading.Event(), threading.Event()

    def wait_and_hold():
        waiting.set()
        with claim(path, wait=True):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=wait_and_hold)
    with claim(path, wait=False):
        thread.start()
        waiting.wait(60)
        time.sleep(0.2)  # until it waits for the file that is removed here
    try:
        assert inside.wait(60)
        with pytest.raises(BusyError), claim(path, wait=False):
            raise AssertionError("two hold the lock")
    finally:
        leave.set()
        thread.join()


def test_a_lock_is_released_when_the_work_fails(tmp_path):
    with pytest.raises(ZeroDivisionError), claim(tmp_path / "lock", wait=False):
        raise ZeroDivisionError
    with claim(tmp_path / "lock", wait=False):
        pass
    assert list(tmp_path.iterdir()) == []


def test_tasks_that_wait_for_another_process_are_done_last(tmp_path):
    bench = Workbench(ATTCAT, tmp_path, size="tiny", turn=Turn(0, 2))
    busy = [True]
    calls = []

    def wait_for_other():
        calls.append("first")
        if busy and busy.pop():
            raise BusyError
        return 1

    def go_on():
        calls.append("second")
        return 2

    assert bench.each({"first": wait_for_other, "second": go_on}) == {"first": 1, "second": 2}
    assert calls == ["first", "second", "first"]


def test_parts_of_another_process_are_waited_for_only_when_the_others_are_done(tmp_path):
    rows = [Example(f"text {number}", id=str(number)) for number in range(4)]
    bench = Workbench(ATTCAT, tmp_path, size="tiny")
    tried, measured = [], []

    def measure(part):
        tried.append(part[0].id)
        if part[0].id == "0" and tried.count("0") == 1:
            raise BusyError  # as if the model of this part were trained elsewhere
        measured.append(part[0].id)
        return [row.id for row in part]

    assert bench.measure_documents("ids", {}, rows, measure, at_once=1) == list("0123")
    assert measured == list("1230")


def store_and_end(folder, turn):
    """Compute all results of a folder in the order of this process."""
    bench = Workbench(ATTCAT, folder, size="tiny", turn=turn)
    bench.each({number: lambda n=number: bench.step(f"step{n}", {}, os.getpid) for number in range(6)})


def running_assistants():
    """The assistants of this process; other tests may have left children of their own."""
    return [process for process in mp.active_children() if process.name == "sightline-study"]


@pytest.mark.slow
def test_assistants_compute_and_are_gone_afterwards(tmp_path):
    with assistants(2, store_and_end, {"folder": tmp_path}):
        (process,) = running_assistants()
        process.join()
    bench = Workbench(ATTCAT, tmp_path, size="tiny")
    assert {bench.step(f"step{number}", {}, os.getpid) for number in range(6)} == {process.pid}
    assert not running_assistants()


def test_one_thread_is_used_inside_and_the_former_number_afterwards():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sparse", "flow"])
def test_two_processes_store_the_bytes_that_one_stores(name, tmp_path):
    for workers in (1, 2):
        run_study(name, tmp_path / str(workers), size="tiny", workers=workers)
    alone, shared = ({path.name: path for path in (tmp_path / n / "results").iterdir()} for n in ("1", "2"))
    assert sorted(alone) == sorted(shared)
    for file, path in alone.items():
        assert file.startswith("provenance") or path.read_bytes() == shared[file].read_bytes()
