"""The pages of a corpus, for a server started with `--corpus`: the index, and reading pages rendered on request.

The worker renders them, like every page: a store may come from a stranger, and a page that takes too long or too much
memory ends the worker, not the server. They wait for the explanation that is running. The pages allow their own style
and script by hash; both are sent with the policy that they state themselves.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from sightline.serve.limits import CORPUS_ADDRESS
from sightline.serve.refusal import Refusal
from sightline.serve.worker.jobs import Job
from sightline.view.corpus_page import content_policy as index_policy
from sightline.view.page.html import content_policy as reading_policy

_LARGEST_ROW = 2**63 - 1
_FRAMING = "; frame-ancestors 'none'"
"""Cannot be stated in a page, only in a header."""

router = APIRouter(prefix=CORPUS_ADDRESS, include_in_schema=False)


@router.get("")
async def send_index(request: Request) -> HTMLResponse:
    """Send the index."""
    return await _send(request, None, index_policy())


@router.get("/documents/{row}")
async def send_document(request: Request, row: Annotated[int, Path(ge=0, le=_LARGEST_ROW)]) -> HTMLResponse:
    """Send the reading page of the document in a row of the data set."""
    return await _send(request, row, reading_policy())


async def _send(request: Request, row: int | None, policy: str) -> HTMLResponse:
    question = {"about": "corpus", "row": row}
    try:
        message = await request.app.state.dispatcher.ask(Job(b"{}", "", []), question)
    except Refusal as refusal:
        # The address is at fault, not the request.
        raise (Refusal(404, str(refusal)) if refusal.status == 422 else refusal) from None
    return HTMLResponse(message.parts["answer"], headers={"Content-Security-Policy": policy + _FRAMING})
