"""Child processes: what they send arrives, their death is noticed, and none of them outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from sightline.corpus.data_files import MissingSplitError
from sightline.errors import InputError, ModelError
from sightline.files.children import Channel, Child, Message, ask_program, wait_for_messages
from tests.patience import wait_for

pytestmark = pytest.mark.slow


def echo(channel: Channel, name: str) -> None:
    """Send every message back, and what this process is."""
    facts = {"name": name, "threads": os.environ.get("OMP_NUM_THREADS"), "safe_path": sys.flags.safe_path}
    channel.send(Message("ready", facts))
    while (message := channel.receive()) is not None:
        channel.send(message)


def ignore_requests_to_end(channel: Channel) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    channel.send(Message("ready"))
    time.sleep(1_000)


@pytest.fixture
def children():
    started = []
    yield lambda *arguments, **settings: started.append(Child("test", *arguments, **settings).start()) or started[-1]
    for child in started:
        child.stop()


def test_a_message_comes_back_as_it_was_sent(children, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    child = children(echo, "Ada", one_thread=True)
    assert child.receive().facts == {"name": "Ada", "threads": "1", "safe_path": True}
    assert "OMP_NUM_THREADS" not in os.environ
    message = Message(
        "question", {"words": ["mill", "é"], "share": 0.5}, {"first": b"\x00\xff", "second": b"x" * 10**6}
    )
    child.send(message)
    assert child.receive() == message
    with pytest.raises(ValueError, match="its header announces"):
        Message.unpack(message.pack() + b"more")


def test_a_killed_child_is_noticed_and_sending_to_it_raises_nothing(children):
    first, second = children(echo, "first"), children(echo, "second")
    for child in (first, second):
        assert child.receive().kind == "ready"
    psutil.Process(first.pid).kill()
    assert wait_for_messages([first, second]) == [first]
    assert first.receive() is None
    assert first.exit_code() == -signal.SIGKILL
    first.send(Message("question"))
    second.send(Message("question"))
    assert second.receive().kind == "question"


def test_ctrl_c_is_left_to_the_parent_and_what_does_not_end_is_killed(children):
    stubborn = children(ignore_requests_to_end)
    assert stubborn.receive().kind == "ready"
    psutil.Process(stubborn.pid).send_signal(signal.SIGINT)
    assert stubborn.alive
    stubborn.stop()
    assert stubborn.exit_code() == -signal.SIGKILL
    assert not stubborn.alive


def test_a_child_that_was_never_started_can_be_stopped():
    child = Child("test", echo, "nobody")
    child.stop()
    assert (child.pid, child.alive, child.exit_code()) == (None, False, None)


def test_a_child_ends_with_a_parent_that_is_killed():
    program = (
        "import time\n"
        "from sightline.files.children import Child\n"
        "from tests.files.test_children import ignore_requests_to_end\n"
        "if __name__ == '__main__':\n"
        "    child = Child('test', ignore_requests_to_end).start()\n"
        "    child.receive()\n"
        "    print(child.pid, flush=True)\n"
        "    time.sleep(1_000)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_an_error_arrives_as_its_public_type():
    for error, kind in ((ModelError("It is damaged."), ModelError), (MissingSplitError("No test."), InputError)):
        received = Message.unpack(Message.unable(error).pack()).error()
        assert (type(received), str(received)) == (kind, str(error))


def test_a_program_answers_with_its_last_line_or_not_at_all():
    assert ask_program("json.tool", ["--compact"], b'{"text": "mill"}', 60) == {"text": "mill"}
    assert ask_program("json.tool", ["--compact"], b"[1]", 60) == {}
    assert ask_program("json.tool", [], b"no JSON", 60) == {}
    with pytest.raises(TimeoutError, match="within 0.1 seconds"):
        ask_program("http.server", ["0"], b"", 0.1)
