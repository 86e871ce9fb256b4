"""HTTP requests: valid ones, damaged in their body, headers, path or framing, sent to a server on the loopback."""

from __future__ import annotations

import json
import logging
import re
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import torch

from sightline.errors import InputError
from sightline.files.foreign import printable
from tests.fuzz.mutations import HOSTILE_STRINGS, damage_bytes, damage_json, odd_text, odd_value
from tests.serve.conftest import Running
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

_SECONDS = 30.0
_METHODS = ("attcat", "rollout", "gradient", "lime", "gradient_shap", "occlusion", "absent", "")
_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"lime": {"samples": 10}},
    {"lime": {"samples": 4 * 10**8}},
    {"lime": {"kernel_width": 1e-320}},
    {"gradient_shap": {"noise": 1e308}},
    {"rollout": {"fusion": "max"}},
)
_PATHS = (
    "/api/explain",
    "/api/explain",
    "/api/explain",
    "/api/health",
    "/api/models",
    "/api/methods",
    "/api/metrics",
    "/api/session",
    "/",
    "/static/view.js",
    "/static/../settings.py",
    "/openapi.json",
    "/api/jobs/{job}",
    "/api/jobs/{job}/payload",
    "/api/jobs/absent",
)
_HOSTS = ("127.0.0.1", "127.0.0.1#evil.com", "evil.com", "[", "", "localhost", "127.0.0.1:99999", "[::1]")
_ORIGINS = ("http://127.0.0.1", "http://[", "null", "http://evil.com", "\x80", "file://")


class HttpRequests:
    """A running server; the answer is a proper one, or an error of one sentence, and the server stays up."""

    def prepare(self, workspace: Path) -> None:
        folder = workspace / "model"
        tokenizer = wordpiece()
        tiny_module("bert", vocab_size=len(tokenizer), dtype=torch.float32).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        tempfile.tempdir = str(workspace)  # the sockets between server and worker belong to no case
        self.tracebacks: list[str] = []
        handler = logging.Handler()
        handler.emit = self._note  # type: ignore[method-assign]
        logging.getLogger("uvicorn.error").addHandler(handler)
        logging.getLogger().addHandler(handler)
        self.server = Running(models=(str(folder),), max_characters=5_000, body_timeout=0.3, timeout=20.0)
        self.job = self.server.explain(text="the old miller", methods=["attcat"]).json().get("id", "absent")
        self.address = ("127.0.0.1", int(self.server.url.rpartition(":")[2]))

    def _note(self, record: logging.LogRecord) -> None:
        # uvicorn logs that it cannot refuse a body that turns malformed while the request is already being answered.
        if record.exc_info and getattr(record.exc_info[0], "__name__", "") == "LocalProtocolError":
            return
        if record.exc_info or "Traceback" in record.getMessage():
            self.tracebacks.append(record.getMessage())

    def build(self, random: Random, folder: Path, canary: Path) -> object:
        path = random.choice(_PATHS).replace("{job}", self.job)
        method = "POST" if path in ("/api/explain", "/api/session") else random.choice(("GET", "DELETE", "HEAD", "PUT"))
        if random.random() < 0.1:
            method = random.choice(("GET", "POST", "PATCH", "TRACE", "CONNECT", "X" * 100, "g\x00t"))
        if random.random() < 0.1:
            path += random.choice(
                ("?a=b", "?" + "x" * 3_000, "%00", "%ff", "//", "/..", quote(odd_text(random, 20), errors="replace"))
            )
        host = random.choice(_HOSTS) if random.random() < 0.1 else "127.0.0.1:{port}"
        headers = [("Host", host), ("Content-Type", "application/json"), ("Connection", "close")]
        if random.random() < 0.15:
            headers.append(("Origin", random.choice(_ORIGINS)))
        if random.random() < 0.1:
            headers[1] = (
                "Content-Type",
                random.choice(("text/plain", "", "multipart/form-data", "application/json; x=\x01")),
            )
        if random.random() < 0.1:
            name = random.choice(("Cookie", "Authorization", "Range", "Accept-Encoding", "X-" + "a" * 5_000))
            headers.append((name, random.choice([value for value in HOSTILE_STRINGS if len(value) < 20_000])))
        body = _body(random) if method in ("POST", "PUT", "PATCH") or random.random() < 0.2 else b""
        length: object = len(body)
        if random.random() < 0.1:
            length = random.choice((len(body) + 10, max(0, len(body) - 5), -1, "x", 10**12, "1e3", ""))
        if random.random() < 0.05:
            headers.append(("Transfer-Encoding", random.choice(("chunked", "gzip", "x"))))
        else:
            headers.append(("Content-Length", str(length)))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
        raw = "\r\n".join(lines).encode("utf-8", "replace") + body
        if random.random() < 0.05:
            raw = damage_bytes(random, raw)
        return raw.replace(b"{port}", str(self.address[1]).encode())

    def open(self, case: object, folder: Path) -> str:
        assert isinstance(case, bytes)
        answer = _exchange(self.address, case)
        assert not self.tracebacks, f"the server logged {self.tracebacks.pop()!r}"
        head, _, body = answer.partition(b"\r\n\r\n")
        if case.startswith(b"HEAD "):  # its answer gives the length of a body that is not sent
            body = b""
        length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        if length is not None:  # what follows answers the bytes behind the first request
            body = body[: int(length[1])]
        status = int(head[9:12]) if head.startswith(b"HTTP/1.1 ") else 0
        assert status < 500 or status == 503, f"{status}: {body[:200]!r}"
        assert b"Traceback" not in body
        if status >= 400 and b"application/json" in head.lower():
            sentence = json.loads(body)["error"] if body else "x"
            assert "\n" not in sentence
            assert sentence.strip()
        health = _exchange(self.address, _HEALTH % self.address[1])
        assert health.startswith(b"HTTP/1.1 200"), f"the server is not well: {health[:200]!r}"
        if status >= 400:
            raise InputError(f"{status}: {printable(body.decode(errors='replace'))}")
        return str(status)


_HEALTH = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n"


def _body(random: Random) -> bytes:
    request: dict[str, Any] = {
        "text": odd_text(random, 200) if random.random() < 0.4 else "the old miller",
        "methods": random.sample(_METHODS[:6], k=random.randint(1, 2))
        if random.random() < 0.8
        else [random.choice(_METHODS)],
        "options": random.choice(_OPTIONS),
    }
    optional = ("pair", "target", "seed", "check", "relations", "wait", "model", "quantity", "global_tokens")
    for name in (*optional, "continuation", "max_new_tokens"):
        if random.random() < 0.1:
            request[name] = odd_value(random)
    kind = random.random()
    if kind < 0.4:
        return json.dumps(request).encode()
    if kind < 0.5:
        return random.choice(
            (b"", b"[" * 100_000, b"{", b"\xff\xfe", b'{"text": NaN}', b'{"text": "a", "text": 5}', b"9" * 5_000)
        )
    return damage_json(random, request)


def _exchange(address: tuple[str, int], raw: bytes) -> bytes:
    """Send bytes and return everything that is answered until the server closes the connection."""
    with socket.create_connection(address, timeout=_SECONDS) as connection:
        parts = []
        with suppress(OSError):  # the server may have refused it already
            connection.sendall(raw)
            if not re.search(rb"\n\r?\n", raw):  # the server would wait for the rest of the head
                connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while part := connection.recv(65_536):
                parts.append(part)
        return b"".join(parts)
