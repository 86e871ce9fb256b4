"""Several processes that run one study together: each result is computed by one of them.

Every process runs the whole study in the same folder. Stored results are read, missing ones are computed under a lock,
and those in progress elsewhere are postponed; each process begins at another place (`Turn.order`), so that they seldom
collide. Results are read back from their files in the order of the study, so that tables do not depend on which process
computed them.

A lock is an open file, which holds the id of its process: the system releases it when the process ends, however it
ends. A process that is stopped, or on another machine, keeps it; whoever waits for it says so.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sightline.errors import UsageError
from sightline.files.children import Channel, Child
from sightline.files.ownership import own_path
from sightline.files.writing import lock_file

T = TypeVar("T")
FIRST_NOTICE, NEXT_NOTICE = 2.0, 300.0
"""Interval in seconds at which a waiting process reports which process holds the lock."""
_POLL = 0.05
_LOCK = re.compile(rb"(\d{1,20}\n)?")
"""The content of a lock; a process that was killed may have written nothing."""


class BusyError(Exception):
    """Another process is computing this result."""


@dataclass(frozen=True)
class Turn:
    """The index of this process among those of a study."""

    number: int = 0
    """0 is the process that was asked for the study; the others assist it."""
    processes: int = 1

    def order(self, items: Sequence[T]) -> list[T]:
        """Return the items in the order in which this process takes them: rotated to its own start."""
        start = len(items) * self.number // self.processes
        return [*items[start:], *items[:start]]


@contextmanager
def claim(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock `path`, which is removed afterwards; if another process holds it, wait or raise BusyError.

    After waiting, check first whether the result exists now.
    """
    descriptor = _open_locked(path, wait)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _open_locked(path: Path, wait: bool) -> int:
    """Return the open and locked file at `path`.

    The previous holder removes the lock file; a lock on a removed file protects nothing, so a new file is created.
    """
    while True:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(own_path(path.parent, path.name), flags, 0o644)
        except OSError as error:
            raise UsageError(f"Cannot lock '{path}': {error.strerror}. Choose another folder.") from None
        try:
            if wait:
                _wait_for(descriptor, path)
            elif lock_file(descriptor) is False:
                raise BusyError(path.name)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    _check_own(descriptor, path)
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _check_own(descriptor: int, path: Path) -> None:
    """Raise UsageError unless an open file is empty or holds the id of a process, as locks do."""
    if not (stat.S_ISREG(os.fstat(descriptor).st_mode) and _LOCK.fullmatch(os.read(descriptor, 50))):
        raise UsageError(f"'{path}' was not written by Sightline and is in the way of a lock. Move it.")
    os.lseek(descriptor, 0, os.SEEK_SET)


def _wait_for(descriptor: int, path: Path) -> None:
    """Wait until the file is locked; report from time to time which process holds the lock, unless an assistant does.

    Without locks (Windows, some network drives) there is no waiting: at worst, two processes compute the same result.
    """
    began = time.monotonic()
    notice = FIRST_NOTICE
    while lock_file(descriptor) is False:
        if time.monotonic() - began >= notice:
            notice += NEXT_NOTICE
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            if holder not in {str(process.pid) for process in mp.active_children()}:
                name = f"process {holder}" if holder.isdecimal() else "another process"
                result = path.name.removeprefix(".").removesuffix(".lock")
                sys.stderr.write(
                    f"Waiting for {name}, which is computing '{result}' of this study. If it was stopped, continue or "
                    "end it.\n"
                )
                sys.stderr.flush()
        time.sleep(_POLL)


@contextmanager
def assistants(processes: int, run: Callable[..., object], arguments: Mapping[str, Any]) -> Iterator[None]:
    """Let `processes` − 1 further processes call `run(**arguments, turn=…)` while the block runs.

    run: a function of a module, since the new processes import it. They print nothing and end with the block: this
    process computes what they have not, and meets their errors itself.
    """
    with ExitStack() as stack:
        for number in range(1, processes):
            call = (run, dict(arguments), Turn(number, processes))
            assistant = Child("sightline-study", _assist, *call, one_thread=True).start()
            stack.callback(assistant.stop)
        yield


def _assist(_: Channel, run: Callable[..., object], arguments: Mapping[str, Any], turn: Turn) -> None:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere), suppress(Exception):
        run(**arguments, turn=turn)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread inside the block: sums have the same order, whatever the number of processes."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
