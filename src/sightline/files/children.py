"""Child processes as their parent sees them: start one, exchange messages with it, detect that it has ended, stop it.

There are two kinds. `ask_program` gives one request to a short program, such as the reader of foreign documents, and
returns its answer. A `Child` answers messages for as long as it is needed, such as a worker that has loaded a model.

A child imports nothing from the current folder, which may hold other people's files, and ends with its parent, however
that ends. It limits itself (`sightline.files.processes`), since only it knows when it has imported what it needs.
Nothing that a child sends is executed in the parent: messages are JSON and bytes.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Self, TypeVar

from sightline import errors
from sightline.errors import SightlineError

_LENGTH = struct.Struct("<I")
_STOP_SECONDS = 2.0
"""How long a process may take to end before it is killed."""
_SAFE_PATH = {"PYTHONSAFEPATH": "1"}
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "TOKENIZERS_PARALLELISM": "false",
}


def ask_program(module: str, arguments: Sequence[str], request: bytes, seconds: float) -> dict[str, Any]:
    """Return the JSON object that `python -m module` writes as its last line when it gets `request`.

    Return an empty one if it ended without an answer (out of memory, a crash in a parser), whatever the reason. Raise
    TimeoutError if it takes longer than `seconds`; it is ended then.
    """
    command = [sys.executable, "-P", "-m", module, *arguments]  # -P: import nothing from the current folder
    try:
        # Warnings about a damaged file may be endless; nobody reads them.
        done = subprocess.run(
            command, input=request, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False
        )
        answer = json.loads(b"".join(done.stdout.splitlines()[-1:]))
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"'{module}' did not answer within {seconds:g} seconds.") from None
    except (OSError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


@dataclass(frozen=True)
class Message:
    """One message between a process and its child: its `kind`, JSON-serialisable facts, and byte strings by name.

    Layout: length of the header (4 bytes, little-endian) · header (UTF-8 JSON) · the parts, concatenated. The header's
    "parts" lists [name, length] in order.
    """

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, bytes] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the message as bytes."""
        lengths = [[name, len(part)] for name, part in self.parts.items()]
        header = json.dumps({"kind": self.kind, "facts": dict(self.facts), "parts": lengths}, allow_nan=False).encode()
        return b"".join((_LENGTH.pack(len(header)), header, *self.parts.values()))

    @classmethod
    def unpack(cls, data: bytes) -> Message:
        """Return the message that `pack` encoded."""
        (length,) = _LENGTH.unpack_from(data)
        start = _LENGTH.size + length
        header = json.loads(data[_LENGTH.size : start])
        parts = {}
        for name, size in header["parts"]:
            parts[name] = data[start : start + size]
            start += size
        if start != len(data):
            raise ValueError(f"The message has {len(data)} bytes; its header announces {start}.")
        return cls(header["kind"], header["facts"], parts)

    @classmethod
    def unable(cls, error: SightlineError) -> Message:
        """Return the message by which a child reports an error that ends it."""
        public = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        return cls("unable", {"error": str(error), "type": public.__name__})

    def error(self) -> SightlineError:
        """Return the error of such a message, of the same type or its nearest public base."""
        error: SightlineError = getattr(errors, self.facts["type"])(self.facts["error"])
        return error


class Channel:
    """One end of the connection between a process and its child."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, message: Message) -> None:
        """Send a message; if the other process has ended, do nothing, since the next `receive` reports it."""
        with suppress(OSError):
            self.connection.send_bytes(message.pack())

    def receive(self) -> Message | None:
        """Wait for the next message and return it; return None if the other process has ended."""
        try:
            return Message.unpack(self.connection.recv_bytes())
        except (EOFError, OSError):
            return None


class Child(Channel):
    """A process that calls `run(channel, *arguments)`, a function of a module.

    It is not interrupted by Ctrl-C, which reaches every process of a terminal: its parent stops it.

    one_thread: compute with one thread, because two threads on one core are slower than one.
    preload: modules that a fork server imports once for all children, where there is one, so that replacing a child
        does not cost the imports again. A plain fork is never used: other threads of this process may hold locks.
    """

    def __init__(
        self,
        name: str,
        run: Callable[..., None],
        *arguments: object,
        one_thread: bool = False,
        preload: Sequence[str] = (),
    ) -> None:
        serves = preload and "forkserver" in mp.get_all_start_methods()
        context: Any = mp.get_context("forkserver" if serves else "spawn")
        if serves:
            context.set_forkserver_preload([*preload])
        ours, self._child_end = context.Pipe()
        super().__init__(ours)
        self._environment = {**_SAFE_PATH, **(_ONE_THREAD if one_thread else {})}
        self._process = context.Process(
            target=_run_child, args=(run, self._child_end, *arguments), name=name, daemon=True
        )

    @property
    def pid(self) -> int | None:
        """The process id; None before `start`."""
        pid: int | None = self._process.pid
        return pid

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return bool(self._process.is_alive())

    def start(self) -> Self:
        """Start the process."""
        with _environment(self._environment):
            self._process.start()
        self._child_end.close()  # so that reading ends when the process ends
        return self

    def terminate(self) -> None:
        """Ask the process to end, without waiting; it removes its temporary files."""
        if self.pid is not None:
            self._process.terminate()

    def stop(self) -> None:
        """Stop the process, by force if necessary; do nothing if it was never started."""
        self.terminate()
        if self.exit_code() is None and self.pid is not None:
            self._process.kill()
            self._process.join()

    def exit_code(self) -> int | None:
        """Return the exit code of a process that is ending; None if it does not end, or was never started."""
        if self.pid is None:
            return None
        self._process.join(_STOP_SECONDS)
        code: int | None = self._process.exitcode
        return code


_Child = TypeVar("_Child", bound=Child)


def wait_for_messages(children: Sequence[_Child]) -> list[_Child]:
    """Wait until a child has sent a message or ended, and return all children that have."""
    by_connection: dict[Any, _Child] = {child.connection: child for child in children}
    return [by_connection[connection] for connection in wait(list(by_connection))]


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables inside the block: a new process inherits them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _run_child(run: Callable[..., None], connection: Connection, *arguments: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    run(Channel(connection), *arguments)


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended for any reason, even during a long computation."""
    parent = mp.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
