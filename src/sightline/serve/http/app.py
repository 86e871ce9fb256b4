"""The web application: the API, the page with its static files, and the error handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from sightline import __version__
from sightline.serve.http import documents
from sightline.serve.http.guards import Access, Guard, HostNames
from sightline.serve.http.requests import PendingBytes, describe_parameter_error
from sightline.serve.http.routes import router
from sightline.serve.limits import DOCUMENTS_AT_ONCE, ServerLimits
from sightline.serve.refusal import Refusal
from sightline.serve.worker.dispatcher import Dispatcher
from sightline.serve.worker.process import WorkerProcess
from sightline.view.page.html import script, style

DESCRIPTION = """Explains predictions of Transformer text models: which words caused them, how far to trust that.

Most programs need only `POST /api/explain`. Errors have the form `{"error": "one sentence"}`."""

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_PAGE_FILES = ("server.css", "server.js", "icon.svg")
_VIEW_FILES: dict[str, Callable[[], str]] = {"view.css": style, "view.js": script}


def create_app(
    settings: ServerLimits, worker: WorkerProcess, host: str = "127.0.0.1"
) -> tuple[ASGIApp, Callable[[], None]]:
    """Return the application and a function that fails its unfinished jobs before it is stopped.

    `worker` must have been started; it is stopped with the application.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        dispatcher = Dispatcher(settings, worker)
        app.state.dispatcher = dispatcher
        dispatcher.start()
        yield
        await dispatcher.stop()

    # FastAPI's documentation pages load scripts from a CDN, so only /openapi.json is served.
    app = FastAPI(
        title="Sightline",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.access = Access(settings.token)
    app.state.pending = PendingBytes(settings.max_pending_bytes)
    app.state.document_places = asyncio.Semaphore(DOCUMENTS_AT_ONCE)
    app.include_router(router)
    app.include_router(documents.router)
    if settings.corpus is not None:
        from sightline.serve.http import corpus  # needs the extra `corpus`

        app.include_router(corpus.router)
    app.add_exception_handler(Refusal, _answer_refusal)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_parameter)
    app.add_exception_handler(Exception, _answer_failure)
    app.add_api_route("/", _send_page, include_in_schema=False)
    app.add_api_route("/static/{name}", _send_file, include_in_schema=False)
    guard = Guard(app, HostNames(host, settings.hosts), app.state.access, settings.body_timeout)
    return guard, lambda: app.state.dispatcher.end_jobs()


async def _send_page() -> Response:
    return _static_response("index.html", _read_page_file("index.html"))


async def _send_file(name: str) -> Response:
    # Only the names on these lists are looked up; no path is built from the request.
    if name in _PAGE_FILES:
        return _static_response(name, _read_page_file(name))
    if name in _VIEW_FILES:
        return _static_response(name, _VIEW_FILES[name]().encode())
    raise Refusal(404, f"There is no file '{name[:60]}'.")


@cache
def _read_page_file(name: str) -> bytes:
    return resources.files("sightline.serve").joinpath("static", name).read_bytes()


def _static_response(name: str, content: bytes) -> Response:
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]])


async def _answer_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        sentence = f"The method {request.method} is not allowed for this address."
    elif error.status_code == 404:
        sentence = f"There is nothing at {request.url.path[:100]}. The API is described in /openapi.json."
    else:
        sentence = str(error.detail)
    return Refusal(error.status_code, sentence, error.headers).response()


async def _answer_invalid_parameter(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return Refusal(422, describe_parameter_error(error.errors())).response()


async def _answer_failure(_request: Request, _error: Exception) -> Response:
    return Refusal(500, "The server failed to answer this request. Its log has the details.").response()
