"""`sightline serve`: what it says, what it refuses before anything runs, and that nothing outlives it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys

import httpx
import psutil
import pytest

from tests.patience import PATIENCE, wait_for

pytestmark = pytest.mark.slow

# Tests that run in the background of a shell inherit from it that Ctrl-C is ignored.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from sightline.cli import main
main()
"""
COMMAND = [sys.executable, "-c", PROGRAM, "serve", "--port", "0"]
NOTE = "Note: other machines can reach this server at 0.0.0.0; "


def test_help_gives_examples_and_says_that_only_this_machine_is_served(sightline):
    result = sightline("serve", "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: sightline serve")
    assert "sightline serve --model my-model --model another-model" in result.stdout
    for option in ("--host", "--port", "--max-tokens", "--max-characters", "--queue", "--timeout", "--open"):
        assert option in result.stdout
    assert "127.0.0.1" in result.stdout


def test_without_its_libraries_it_says_what_to_install(sightline, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "sightline.serve.server", raising=False)
    result = sightline("serve")
    assert result.exit_code == 2
    assert result.stderr == "Error: The server needs the package uvicorn: pip install 'sightline-xai[serve]'.\n"


def test_a_port_in_use_is_reported_before_a_model_is_loaded(sightline):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = sightline("serve", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 2
    assert "address already in use. Choose another with --port." in result.stderr


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_refused_in_one_sentence(sightline, host):
    result = sightline("serve", "--host", host, "--port", "0", "--no-token")
    assert result.exit_code == 2
    assert re.fullmatch(rf"Error: .* no address .*{host}.* Use --host 127\.0\.0\.1\.\n", result.stderr)


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (["--no-token"], "everyone who can reach it may use it."),
        (["--token", "a-long-enough-token"], "the token and all texts are sent unencrypted unless a proxy adds HTTPS."),
    ],
)
def test_an_address_that_others_can_reach_is_noted_once_the_server_answers(sightline, options, note, monkeypatch):
    """A server of its own at such an address is in the test of Ctrl-C."""
    before = []

    def answer(limits, host, port, announce):
        before.append((host, port))
        announce("http://127.0.0.1:8000/")

    monkeypatch.setattr("sightline.serve.server.serve", answer)
    result = sightline("serve", "--host", "0.0.0.0", "--port", "0", *options)
    assert before == [("0.0.0.0", 0)]
    assert result.stderr == f"{NOTE}{note}\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "my-host"])
def test_an_address_that_others_can_reach_needs_a_token_or_a_clear_no(sightline, host):
    result = sightline("serve", "--host", host, "--port", "0")
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: Other machines can reach a server at {host}: choose a secret with --token or SIGHTLINE_TOKEN, or let "
        "everyone use it with --no-token.\n"
    )


def test_a_short_token_is_refused(sightline):
    result = sightline("serve", "--port", "0", "--token", "short")
    assert result.exit_code == 2
    assert "The token must have at least 16 ASCII characters and no spaces." in result.stderr


def test_a_model_that_cannot_be_loaded_ends_it_with_a_sentence(sightline, tmp_path):
    result = sightline("serve", "--port", "0", "--model", tmp_path / "nothing")
    assert result.exit_code == 2
    assert "nothing" in result.stderr
    assert "Traceback" not in result.stderr


def test_ctrl_c_while_the_models_load_stops_it_without_a_complaint():
    process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # The forerunner of the worker imports the libraries, while this process waits for it.
    wait_for(lambda: psutil.Process(process.pid).children())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (130, "Stopped.\n")


@pytest.fixture
def started(request, good_model, long_model):
    """The command in a process of its own, with two models and further options; yields the process and its address."""
    command = [*COMMAND, "--model", str(good_model), "--model", str(long_model), *getattr(request, "param", [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    address = re.fullmatch(r"Sightline answers at (http://127\.0\.0\.1:\d+)/ \(Ctrl-C stops it\)\n", line)
    assert address, line + process.stderr.read()
    yield process, address[1]
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_it_serves_the_models_given_and_a_killed_server_leaves_nothing_behind(started):
    process, url = started
    assert [entry["name"] for entry in httpx.get(f"{url}/api/models", timeout=PATIENCE).json()] == ["good", "long"]
    for model, labels in (("good", 3), ("long", 3)):
        answer = httpx.post(f"{url}/api/explain", json={"text": "The old mill.", "model": model}, timeout=PATIENCE)
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == model
        assert len(answer.json()["prediction"]["classes"]) == labels
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.send_signal(signal.SIGKILL)
    wait_for(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in family))


@pytest.mark.parametrize("started", [["--host", "0.0.0.0", "--no-token"]], indirect=True)
def test_ctrl_c_stops_it_and_its_worker_even_while_somebody_follows_a_job(started):
    process, url = started
    request = {"text": "The old mill. " * 150, "model": "long", "methods": ["lime"], "wait": False}
    request["options"] = {"lime": {"samples": 20_000}}
    job = httpx.post(f"{url}/api/explain", json=request, timeout=PATIENCE).json()["id"]
    following = httpx.Client(timeout=PATIENCE).stream("GET", f"{url}/api/jobs/{job}/events")
    assert following.__enter__().status_code == 200
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (130, f"{NOTE}everyone who can reach it may use it.\nStopped.\n")
    _, alive = psutil.wait_procs(family, timeout=PATIENCE)
    assert not alive
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
