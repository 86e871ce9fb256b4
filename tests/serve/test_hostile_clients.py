"""Hostile clients: malformed headers, disconnects, bodies that never arrive, connection floods, costly options."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from sightline.serve.requests import OPTION_RANGES
from tests.patience import PATIENCE, wait_for
from tests.serve.conftest import PATIENT, TEXT, Running

pytestmark = pytest.mark.slow

HEAD = b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def strict() -> Iterator[Running]:
    """A server with a short timeout, few connections and a worker that is replaced after two jobs."""
    running = Running(body_timeout=1.0, max_connections=20, worker_jobs=2, max_tokens=2_000)
    yield running
    running.stop()


@contextmanager
def connect(server: Running) -> Iterator[socket.socket]:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        yield connection


def read_all(connection: socket.socket) -> bytes:
    """Return everything that is sent until the server closes the connection."""
    received = b""
    try:
        while chunk := connection.recv(65_536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize(
    "origin", ["http://[", "http://[::1", "//", "http://127.0.0.1:x", "null", "http://a@b@c", "\xff"]
)
def test_a_malformed_origin_is_refused_and_not_logged(server, caplog, origin):
    headers = {"Origin": origin.encode("latin-1")}
    answer = server.client.post("/api/explain", json={"text": TEXT}, headers=headers)
    assert answer.status_code == 403
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1#evil.com", "127.0.0.1/evil", "a@127.0.0.1", "127.0.0.1?x", "127.0.0.1\\x"])
def test_a_host_that_parsers_could_read_in_two_ways_is_refused(server, host):
    assert server.client.get("/api/health", headers={"Host": host}).status_code in (400, 421)


def test_a_disconnect_in_the_middle_of_a_body_is_not_an_error(server, caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            with connect(server) as connection:
                connection.sendall(HEAD + b'Content-Length: 1000\r\n\r\n{"text": "')
        for _ in range(20):
            assert server.health()["status"] == "ok"
            time.sleep(0.02)
    assert caplog.text == ""


@pytest.mark.parametrize("head", [HEAD, b"DELETE /api/jobs/absent HTTP/1.1\r\nHost: 127.0.0.1M\r\n"])
def test_a_malformed_body_is_answered_once(server, head):
    with connect(server) as connection:
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\nno chunk\r\n")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert server.health()["status"] == "ok"


def test_a_body_that_turns_malformed_while_it_is_answered_closes_the_connection(server):
    job = server.submit(**PATIENT)
    with connect(server) as connection:
        connection.sendall(
            f"GET /api/jobs/{job}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.sendall(b"no chunk\r\n")
        assert b"HTTP/1.1 400" not in read_all(connection)
    server.client.delete(f"/api/jobs/{job}")
    assert server.health()["status"] == "ok"


def test_a_body_that_never_arrives_is_answered_with_a_sentence(strict):
    with connect(strict) as connection:
        connection.sendall(HEAD + b'Content-Length: 1000\r\n\r\n{"text": "')
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["error"] == "The request did not arrive within 1 seconds. Send it again."


def test_a_body_that_nobody_reads_is_cut_off(strict):
    with connect(strict) as connection:
        connection.sendall(b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_requests_on_more_connections_than_the_limit_are_refused(strict):
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connect(strict)).sendall(b"GET /api/he")
        wait_for(lambda: httpx.get(f"{strict.url}/api/health").status_code == 503)
    wait_for(lambda: httpx.get(f"{strict.url}/api/health").status_code == 200)


def test_a_worker_is_replaced_after_its_jobs_and_no_queued_job_is_lost(strict):
    wait_for(strict.idle)
    first = strict.worker.pid
    jobs = [strict.submit(text=f"{TEXT} {number}", methods=["random"]) for number in range(5)]
    for job in jobs:
        strict.until(job, lambda state: state["status"] == "done")
    wait_for(strict.idle)
    assert strict.worker.pid != first


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("lime", {"samples": 400_000_000}),
        ("lime", {"kernel_width": 1e-320}),
        ("lime", {"ridge": 1e300}),
        ("gradient_shap", {"noise": 1e308}),
        ("gradient_shap", {"samples": 10**12}),
        ("integrated_gradients", {"steps": 10**9}),
        ("integrated_gradients", {"baseline": [1e308, 0.0]}),
        ("random", {"seed": 10**30}),
        ("rollout", {"head_weights": [1e300]}),
    ],
)
def test_options_beyond_the_ceilings_of_the_server_are_refused_with_their_range(server, method, options):
    answer = server.explain(text=TEXT, methods=[method], options={method: options})
    assert answer.status_code == 422
    assert f"of {method} is outside the range of this server" in answer.json()["error"]


@pytest.mark.parametrize("bound", [0, 1])
@pytest.mark.parametrize(
    ("method", "option"), [("lime", "kernel_width"), ("lime", "ridge"), ("gradient_shap", "noise"), ("random", "seed")]
)
def test_values_at_the_ceilings_can_be_computed(server, method, option, bound):
    value = OPTION_RANGES[option][bound]
    answer = server.explain(text=TEXT, methods=[method], options={method: {option: value}})
    assert answer.status_code == 200, answer.text
