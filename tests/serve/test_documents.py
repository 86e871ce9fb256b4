"""Documents sent to the server come back as text."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from fastapi import FastAPI

from sightline.serve import documents
from sightline.serve.refusal import Refusal
from sightline.serve.requests import PendingBytes
from sightline.serve.server import _answer_refusal
from sightline.settings.serving import DOCUMENT_BYTES
from tests.serve.conftest import Running
from tests.text.documents.samples import docx, paragraph, pdf

pytestmark = pytest.mark.slow
BINARY = {"Content-Type": "application/octet-stream"}


def send(server: Running, name: str, content: bytes, **headers: str) -> tuple[int, dict[str, object]]:
    answer = server.client.post("/api/document", params={"name": name}, content=content, headers={**BINARY, **headers})
    return answer.status_code, answer.json()


def test_documents_of_every_format_come_back_as_text(server: Running) -> None:
    assert send(server, "a.docx", docx(paragraph("The mill."), **{"word__comments.xml": "<x/>"})) == (
        200,
        {
            "text": "The mill.\n",
            "format": "docx",
            "notices": ["The text leaves out the comments of the document."],
        },
    )
    assert send(server, "a.pdf", pdf(["The mill."]))[1]["text"] == "The mill.\n"
    assert send(server, "a.html", b"<p>The mill.")[1]["text"] == "The mill.\n"
    assert send(server, "a.txt", "\ufeffThe “mill”.".encode())[1] == {
        "text": "The “mill”.",
        "format": "text",
        "notices": [],
    }


@pytest.mark.parametrize(
    ("content", "status", "sentence"),
    [
        (b"PK\x03\x04", 422, "“a” is a ZIP archive"),
        (b"", 422, "The document is empty"),
        (b"old\x00mill", 422, "“a” is not text: more than a tenth of it is NUL bytes"),
        (b"x" * 30_000, 413, "“a” has 30,000 characters; this server accepts at most"),
        (b"%PDF-1.4 nothing", 422, "“a” is damaged"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(server: Running, content: bytes, status: int, sentence: str) -> None:
    answered, body = send(server, "a", content)
    assert answered == status
    assert sentence in str(body["error"])


def test_large_documents_and_more_than_two_at_a_time_are_refused(server: Running) -> None:
    status, body = send(server, "a", b"x" * (DOCUMENT_BYTES + 1))
    assert (status, "larger" in str(body["error"]) or "most" in str(body["error"])) == (413, True)
    state = server._server.config.app._app.state
    places, state.document_places = state.document_places, asyncio.Semaphore(0)
    try:
        assert send(server, "a", b"The mill.") == (
            429,
            {"error": "The server is reading other documents. Try again in a few seconds."},
        )
    finally:
        state.document_places = places
    assert send(server, "a", b"The mill.")[0] == 200


def test_a_page_of_another_site_cannot_send_a_document(server: Running) -> None:
    assert send(server, "a", b"text", Origin="http://evil.example")[0] == 403
    assert send(server, "a", b"text", **{"Content-Type": "text/plain"})[0] == 415
    assert server.client.post("/api/explain", content=b"{}", headers=BINARY).status_code == 415
    assert server.client.post("/api/document", content=b"text", headers=BINARY).status_code == 422


def test_a_document_that_is_read_while_the_server_stops_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server cancels the requests that take longer than its shutdown may; that is no failure of the server."""
    monkeypatch.setattr(documents, "SECONDS", 1)
    app = FastAPI()
    app.include_router(documents.router)
    app.add_exception_handler(Refusal, _answer_refusal)
    app.state.pending = PendingBytes(1_000)
    app.state.document_places = places = asyncio.Semaphore(1)

    async def stop_while_reading() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            answer = asyncio.create_task(
                client.post(documents.PATH, params={"name": "a.html"}, content=b"<p>The mill.", headers=BINARY)
            )
            while not places.locked():
                await asyncio.sleep(0)
            answer.cancel()
            return await answer

    with ThreadPoolExecutor(1) as thread:  # a browser test may have left a running loop in this one
        answer = thread.submit(asyncio.run, stop_while_reading()).result()
    assert (answer.status_code, answer.json()) == (503, {"error": "The server is stopping."})
    assert not places.locked()
