"""The route that turns an uploaded document into text, as `sightline explain contract.docx` does.

The document is read in a process with limits (`text.documents`), so it needs no worker and no place in the queue.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from sightline.errors import InputError
from sightline.serve.http import schemas
from sightline.serve.http.requests import read_body
from sightline.serve.limits import DOCUMENT_BYTES
from sightline.serve.refusal import Refusal
from sightline.text import check_text
from sightline.text.documents import decode_document

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
