"""The web application: the API, the page, and what is said when something is not there."""

from __future__ import annotations

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
from sightline.serve.http.guards import Guard, HostNames
from sightline.serve.http.refusal import Refused
from sightline.serve.http.requests import parameter_sentence
from sightline.serve.http.routes import router
from sightline.serve.settings import Settings
from sightline.serve.worker.dispatcher import Dispatcher
from sightline.serve.worker.process import WorkerProcess
from sightline.view.page import assets

DESCRIPTION = """Explains what Transformer text models say about documents: which words, and how far to trust that.

`POST /api/explain` is all most programs need. Errors are `{"error": "a sentence"}`."""

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_OWN_FILES = ("server.css", "server.js", "icon.svg")
_VIEW_FILES: dict[str, Callable[[], str]] = {"view.css": assets.style, "view.js": assets.script}


def create_app(
    settings: Settings, worker: WorkerProcess, host: str = "127.0.0.1"
) -> tuple[ASGIApp, Callable[[], None]]:
    """Return the application, and what ends its jobs before it is stopped.

    `worker` must have been started, and is ended with the application.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        dispatcher = Dispatcher(settings, worker)
        app.state.dispatcher = dispatcher
        dispatcher.start()
        yield
        await dispatcher.stop()

    # The library's own documentation pages load scripts from elsewhere; the description itself is served.
    app = FastAPI(
        title="Sightline",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(router)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _nothing_here)
    app.add_exception_handler(RequestValidationError, _bad_parameter)
    app.add_exception_handler(Exception, _failed)
    app.add_api_route("/", _page, include_in_schema=False)
    app.add_api_route("/static/{name}", _file, include_in_schema=False)
    return Guard(app, HostNames(host, settings.hosts)), lambda: app.state.dispatcher.end_jobs()


async def _page() -> Response:
    return _sent("index.html", _own_file("index.html"))


async def _file(name: str) -> Response:
    # Only names on these lists are ever looked up: no path is made of what a browser asks.
    if name in _OWN_FILES:
        return _sent(name, _own_file(name))
    if name in _VIEW_FILES:
        return _sent(name, _VIEW_FILES[name]().encode())
    raise Refused(404, f"There is no file '{name[:60]}' here.")


@cache
def _own_file(name: str) -> bytes:
    return resources.files("sightline.serve").joinpath("static", name).read_bytes()


def _sent(name: str, content: bytes) -> Response:
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]])


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error.response()


async def _nothing_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        sentence = f"{request.method} is not possible here."
    elif error.status_code == 404:
        sentence = f"There is nothing at {request.url.path[:100]}. The API is described in /openapi.json."
    else:
        sentence = str(error.detail)
    return Refused(error.status_code, sentence, error.headers).response()


async def _bad_parameter(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return Refused(422, parameter_sentence(error.errors())).response()


async def _failed(_request: Request, _error: Exception) -> Response:
    return Refused(500, "Something failed inside the server. Its log says where.").response()
