"""The pages of a corpus, for a server started with `--corpus`: the index, and reading pages rendered on request.

Pages are rendered from the store in a thread, one at a time, so that the server keeps answering. As many requests as
explanations may wait. The pages allow their own style and script by hash; both are sent with the policy that they
state themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse

from sightline.corpus.store import Store
from sightline.corpus.summary import summarise
from sightline.errors import InputError
from sightline.serve.refusal import Refusal, queue_full
from sightline.view.corpus.page import content_policy as index_policy
from sightline.view.corpus.page import render_corpus
from sightline.view.page.html import content_policy as reading_policy

ADDRESS = "/corpus"
RETRY_AFTER = 5
_LARGEST_ROW = 2**63 - 1
_FRAMING = "; frame-ancestors 'none'"
"""Cannot be stated in a page, only in a header."""


class CorpusPages:
    """Renders the pages of the run in a folder, or at a URI."""

    def __init__(self, path: str, queue: int) -> None:
        self._store = Store(path)
        self._queue = queue
        self._waiting = 0
        self._rendering = asyncio.Lock()
        self._finished = -1
        self._index = ""

    async def render_index(self) -> str:
        """Return the index, with links to the reading pages of all explained documents that it lists."""
        return await self._render(self._current_index)

    async def render_document(self, row: int) -> str:
        """Return the reading page of the document in a row of the data set."""
        return await self._render(lambda: self._store.document(row).to_html())

    async def _render(self, render: Callable[[], str]) -> str:
        if self._waiting > self._queue:
            raise queue_full(RETRY_AFTER)
        self._waiting += 1
        try:
            async with self._rendering:
                return await asyncio.to_thread(render)
        except InputError as error:
            raise Refusal(404, str(error)) from None
        finally:
            self._waiting -= 1

    def _current_index(self) -> str:
        """Return the index; it is rendered again when the run has finished further units."""
        finished = len(self._store.folder.finished_units(self._store.plan.units))
        if finished != self._finished:
            self._store = Store(self._store.path)
            summary = summarise(self._store)
            explained = summary.documents.loc[summary.documents["status"] == "done", "row"]
            self._index = render_corpus(summary, {int(row): f"{ADDRESS}/documents/{row}" for row in explained})
            self._finished = finished
        return self._index


def corpus_router(pages: CorpusPages) -> APIRouter:
    """Return the routes of a corpus."""
    router = APIRouter(prefix=ADDRESS, include_in_schema=False)

    @router.get("")
    async def send_index() -> HTMLResponse:
        return _page(await pages.render_index(), index_policy())

    @router.get("/documents/{row}")
    async def send_document(row: Annotated[int, Path(ge=0, le=_LARGEST_ROW)]) -> HTMLResponse:
        return _page(await pages.render_document(row), reading_policy())

    return router


def _page(html: str, policy: str) -> HTMLResponse:
    return HTMLResponse(html, headers={"Content-Security-Policy": policy + _FRAMING})
