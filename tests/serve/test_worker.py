"""The worker: what it answers when a computation fails in an unusual way."""

from __future__ import annotations

import multiprocessing

import pytest

from sightline.files.children import Channel, Message
from sightline.serve.process import _answer


class RustPanic(BaseException):
    """Like pyo3_runtime.PanicException: raised by native code, and not an Exception."""


class FailingSession:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def explain(self, *_arguments):
        raise self._error


def answer(error: BaseException) -> Message:
    connection, _ = multiprocessing.Pipe()
    return _answer(FailingSession(error), Message("explain", {"id": "job"}, {"request": b"{}"}), Channel(connection))


def test_a_panic_in_native_code_fails_the_job_and_does_not_blame_memory(caplog):
    message = answer(RustPanic("called `Option::unwrap()` on a `None` value"))
    assert (message.kind, message.facts["status"]) == ("failed", 500)
    assert "RustPanic" in message.facts["error"]
    assert "memory" not in message.facts["error"]
    assert "unwrap" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_request_to_stop_is_obeyed(error):
    with pytest.raises(error):
        answer(error())
