"""Temporary files are never left behind: not by a failure, not by a signal, and not for long by a killed process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sightline.errors import UsageError
from sightline.files import writing as files
from sightline.files.writing import check_writable, replacing, write_whole
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
WRITER = """
import signal
import sys
from pathlib import Path
from sightline.files.writing import replacing

for name in ("SIGTERM", "SIGHUP"):  # somebody may have started the tests with nohup, which ignores the latter
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
with replacing(Path(sys.argv[1])) as part:
    part.write_text("half")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """A process that is writing `out.txt` and has not finished."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "out.txt")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    yield process
    process.kill()
    process.communicate()


def make_old(path: Path) -> None:
    os.utime(path, (0, 0))


def test_a_read_only_file_is_refused_even_to_the_superuser(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("mine")
    path.chmod(0o444)
    with pytest.raises(UsageError, match="the file is read-only"):
        write_whole(path, "ours")
    assert path.read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_process_removes_the_temporary_file(tmp_path, writer, number):
    (tmp_path / "out.txt").write_text("old")
    writer.send_signal(number)
    assert writer.wait(PATIENCE) == -number
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert (tmp_path / "out.txt").read_text() == "old"


@pytest.mark.skipif(os.name == "nt", reason="needs locks of files")
def test_the_next_write_removes_what_a_killed_process_left(tmp_path, writer):
    writer.kill()
    writer.wait()
    (left,) = tmp_path.iterdir()
    make_old(left)
    write_whole(tmp_path / "other.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]


@pytest.mark.skipif(os.name == "nt", reason="needs locks of files")
def test_the_file_of_a_writer_at_work_stays_however_old_it_is(tmp_path, writer):
    (part,) = tmp_path.iterdir()
    make_old(part)
    write_whole(tmp_path / "other.txt", "new")
    writer.communicate(b"")
    assert (tmp_path / "out.txt").read_text() == "half"


def test_other_hidden_files_stay(tmp_path):
    for name in (".0123456789ab.part", "sightline-1.part", ".sightline-1.txt"):
        (tmp_path / name).write_text("somebody else's")
        make_old(tmp_path / name)
    write_whole(tmp_path / "out.txt", "new")
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_the_program_s_own_handlers_stay(tmp_path):
    def handler(number, frame):
        raise SystemExit(3)

    before = signal.signal(signal.SIGTERM, handler), signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with replacing(tmp_path / "out.txt"):
            assert signal.getsignal(signal.SIGTERM) is handler
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        with pytest.raises(SystemExit), replacing(tmp_path / "out.txt"):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGHUP, before[1])
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert not files._writers


def test_a_thread_writes_as_well(tmp_path):
    thread = threading.Thread(target=write_whole, args=(tmp_path / "out.txt", "new"))
    thread.start()
    thread.join()
    assert (tmp_path / "out.txt").read_text() == "new"


@pytest.mark.parametrize("write", [check_writable, lambda path: write_whole(path, "new")])
def test_a_link_that_leads_back_to_itself_is_refused(tmp_path, write):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for place in (tmp_path / "a", tmp_path / "a" / "page.html"):
        with pytest.raises(UsageError, match="Cannot write"):
            write(place)
    assert len(list(tmp_path.iterdir())) == 2
