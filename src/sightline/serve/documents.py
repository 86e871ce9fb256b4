"""Documents: the text of an uploaded one, and for a server started with `--corpus` the pages of a run.

An uploaded document is read as `sightline explain contract.docx` does, in a process with limits (`text.documents`), so
it needs no worker and no place in the queue.

The worker renders the pages of a corpus, like every page: a store may come from a stranger, and a page that takes too
long or too much memory ends the worker, not the server. They wait for the explanation that is running. The pages allow
their own style and script by hash; both are sent with the policy that they state themselves.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from sightline.errors import InputError
from sightline.serve import schemas
from sightline.serve.dispatcher import Job
from sightline.serve.refusal import Refusal
from sightline.serve.requests import read_body
from sightline.settings.serving import CORPUS_ADDRESS, DOCUMENT_BYTES
from sightline.text import check_text
from sightline.text.documents import decode_document
from sightline.view.page.html import content_policy

PATH = "/api/document"
SECONDS = 30
"""Time that one document may take."""

router = APIRouter()


@router.post(
    PATH,
    tags=["explanations"],
    response_model=schemas.DocumentAnswer,
    responses={status: {"model": schemas.ErrorAnswer} for status in (413, 415, 422, 429)},
    openapi_extra={
        "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
    },
)
async def read_document(
    request: Request, name: Annotated[str, Query(max_length=255, description="The name of the file.")]
) -> Response:
    """Return the text of a document: plain text, HTML, .docx, .odt or .pdf, sent as it is."""
    content = await read_body(request, DOCUMENT_BYTES, request.app.state.pending)
    places: asyncio.Semaphore = request.app.state.document_places
    if places.locked():
        raise Refusal(429, "The server is reading other documents. Try again in a few seconds.", {"Retry-After": "5"})
    read = partial(decode_document, content, f"“{name}”", suffix=PurePosixPath(name).suffix, seconds=SECONDS)
    try:
        async with places:
            document = await asyncio.to_thread(read)
        check_text(document.text, "document")
    except InputError as error:
        raise Refusal(422, str(error)) from None
    except asyncio.CancelledError:
        raise Refusal(503, "The server is stopping.") from None
    longest = request.app.state.dispatcher.settings.max_characters
    if len(document.text) > longest:
        sentence = f"“{name}” has {len(document.text):,} characters; this server accepts at most {longest:,}."
        raise Refusal(413, sentence)
    return JSONResponse({"text": document.text, "format": document.format, "notices": list(document.notices)})


_LARGEST_ROW = 2**63 - 1
_FRAMING = "; frame-ancestors 'none'"
"""Cannot be stated in a page, only in a header."""

corpus_router = APIRouter(prefix=CORPUS_ADDRESS, include_in_schema=False)


@corpus_router.get("")
async def send_index(request: Request) -> HTMLResponse:
    """Send the index."""
    from sightline.view.corpus_page import content_policy  # needs the extra `corpus`

    return await _send(request, None, content_policy())


@corpus_router.get("/documents/{row}")
async def send_document(request: Request, row: Annotated[int, Path(ge=0, le=_LARGEST_ROW)]) -> HTMLResponse:
    """Send the reading page of the document in a row of the data set."""
    return await _send(request, row, content_policy())


async def _send(request: Request, row: int | None, policy: str) -> HTMLResponse:
    question = {"about": "corpus", "row": row}
    try:
        message = await request.app.state.dispatcher.ask(Job(b"{}", "", []), question)
    except Refusal as refusal:
        # The address is at fault, not the request.
        raise (Refusal(404, str(refusal)) if refusal.status == 422 else refusal) from None
    return HTMLResponse(message.parts["answer"], headers={"Content-Security-Policy": policy + _FRAMING})
