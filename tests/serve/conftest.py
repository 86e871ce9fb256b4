"""Servers that really run: uvicorn on a free loopback port, a worker process with the built-in model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import torch
from transformers import AutoModelForCausalLM

from sightline.serve.dispatcher import Job, JobProgress
from sightline.serve.process import WorkerProcess
from sightline.serve.server import Server, address, bound_socket
from sightline.settings.serving import ServerLimits
from tests.patience import PATIENCE, wait_for
from tests.tiny_models import VOCABULARY, tiny_module
from tests.tiny_tokenizers import byte_level

TEXT = "The compiler infers the types of all expressions.\nA neural network learns from data."
LONG_TEXT = "The compiler infers the types of all expressions, and a neural network learns from data. " * 60
PATIENT = {"text": LONG_TEXT, "methods": ["occlusion"]}
"""Takes about a minute and reports several times a second."""
STUBBORN = {"text": TEXT, "methods": ["lime"], "options": {"lime": {"samples": 20_000}}}
"""Takes about a minute and is silent for seconds: all samples are drawn before the model runs."""


async def _fails() -> None:
    """What a mistake of ours in a handler would be."""
    raise RuntimeError("secret")


class Running:
    """A server in a thread of this process, its worker in a process of its own."""

    def __init__(self, **settings: Any) -> None:
        self._socket = bound_socket("127.0.0.1", 0)
        self.url = address("127.0.0.1", self._socket).rstrip("/")
        self._worker = WorkerProcess(ServerLimits(**settings)).start()
        started = threading.Event()
        self._server = Server(ServerLimits(**settings), self._worker, "127.0.0.1", started.set)
        self._server.config.app._app.add_api_route("/fails", _fails, include_in_schema=False)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        assert started.wait(PATIENCE)
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE)
        self._submitted: list[str] = []

    def explain(self, **request: Any) -> httpx.Response:
        return self.client.post("/api/explain", json=request)

    def submit(self, **request: Any) -> str:
        """Queue a job and return its id."""
        answer = self.explain(wait=False, **request)
        assert answer.status_code == 202, answer.text
        self._submitted.append(answer.json()["id"])
        return self._submitted[-1]

    def job(self, job: str) -> dict[str, Any]:
        return self.client.get(f"/api/jobs/{job}").json()

    def until(self, job: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until something is true of a job."""
        state: dict[str, Any] = {}

        def update() -> bool:
            state.update(self.job(job))
            return reached(state)

        wait_for(update, lambda: str(state))
        return state

    def health(self) -> dict[str, Any]:
        return self.client.get("/api/health").json()

    def idle(self) -> bool:
        """Whether nothing runs or waits and a worker is there."""
        health = self.health()
        return health["status"] == "ok" and not health["running"] and not health["waiting"]

    def drop_jobs(self) -> None:
        """Cancel whatever a test left, failed or not, so that the next one finds an empty queue."""
        while self._submitted:
            self.client.delete(f"/api/jobs/{self._submitted.pop()}")
        wait_for(self.idle)

    @property
    def worker(self) -> psutil.Process:
        """The process that computes."""
        return psutil.Process(self._server.config.app._app.state.dispatcher._worker.pid)

    @contextmanager
    def held_at(self, stage: str) -> Iterator[None]:
        """Stop the worker when it reports progress of a stage: a browser sees the stage however slow the machine is."""
        held: list[psutil.Process] = []
        advance = Job.advance

        def advance_and_hold(job: Job, progress: JobProgress) -> None:
            advance(job, progress)
            if not held and progress.stage == stage and progress.done:
                held.append(self.worker)
                held[0].suspend()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Job, "advance", advance_and_hold)
            try:
                yield
            finally:
                for worker in held:
                    worker.resume()

    def stop(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._worker.stop()
        self._socket.close()
        assert not self._thread.is_alive()


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    """A server with ordinary limits, except that few jobs are kept and a busy machine has time to report."""
    running = Running(kept_jobs=4, max_characters=20_000, max_tokens=2_000, queue=2, grace=60.0)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def impatient() -> Iterator[Running]:
    """A server that ends what takes longer than four seconds and lets nobody wait."""
    running = Running(timeout=4.0, grace=0.0, queue=0)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def decoder(tmp_path_factory) -> Path:
    """A tiny Llama with random weights that writes text."""
    folder, tokenizer = tmp_path_factory.mktemp("models") / "decoder", byte_level()
    size = max(VOCABULARY, len(tokenizer))
    tiny_module("llama", auto=AutoModelForCausalLM, vocab_size=size, dtype=torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def writing(decoder) -> Iterator[Running]:
    """A server with a decoder."""
    running = Running(models=(str(decoder),), max_characters=1_000)
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def _leaves_no_jobs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let no test find the jobs of another."""
    yield
    for name in {"server", "impatient", "writing"} & set(request.fixturenames):
        request.getfixturevalue(name).drop_jobs()


@pytest.fixture
def result(server: Running) -> dict[str, Any]:
    """What `POST /api/explain` answers for a short text and two methods."""
    return server.explain(text=TEXT, methods=["attcat", "rollout"]).json()
