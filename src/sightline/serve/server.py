"""The server: listening socket, worker and shutdown; and the web application with its error handlers and the page."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources
from types import FrameType

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from sightline import __version__
from sightline.errors import UsageError
from sightline.serve import documents
from sightline.serve.dispatcher import Dispatcher
from sightline.serve.guards import ALL_INTERFACES, Access, Guard, HostNames
from sightline.serve.process import WorkerProcess
from sightline.serve.refusal import Refusal
from sightline.serve.requests import PendingBytes, describe_parameter_error
from sightline.serve.routes import router
from sightline.settings.serving import DOCUMENTS_AT_ONCE, ServerLimits
from sightline.view.page.html import script, style

_IDLE_SECONDS = 5
"""How long a connection may stay open between two requests."""
_SHUTDOWN_SECONDS = 2
"""How long open connections may take to finish when the server is stopped."""


def serve(settings: ServerLimits, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Load the models and answer requests until stopped; call `announce` with the address once it is ready."""
    with bound_socket(host, port) as listening:
        worker = WorkerProcess(settings)
        try:
            worker.start()
            server = Server(settings, worker, host, lambda: announce(address(host, listening)))
            server.run(sockets=[listening])
            if server.interrupted:  # uvicorn raises it again only in some cases
                raise KeyboardInterrupt
        finally:
            worker.stop()


class Server(uvicorn.Server):
    """A uvicorn server that reports when it is ready."""

    def __init__(self, settings: ServerLimits, worker: WorkerProcess, host: str, on_ready: Callable[[], None]) -> None:
        app, self._end_jobs = create_app(settings, worker, host)
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                server_header=False,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                timeout_keep_alive=_IDLE_SECONDS,
                limit_concurrency=settings.max_connections + 1,  # from this number on, uvicorn answers with 503
                http="h11",
                ws="none",
            )
        )
        self._on_ready = on_ready
        self.interrupted = False
        """Whether it was stopped by Ctrl-C."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Record Ctrl-C and shut down."""
        self.interrupted |= sig == signal.SIGINT
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Fail unfinished jobs first; a page that follows one would otherwise keep its connection open."""
        self._end_jobs()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call `on_ready`."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to `host` and `port` (0 for any free port); raise UsageError if that fails."""
    try:
        family, kind, protocol, _, address_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise UsageError(f"There is no address '{host}' on this machine. Use --host 127.0.0.1.") from None
    # asyncio disables Nagle's algorithm only on sockets whose protocol is given as TCP.
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address_)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise UsageError(f"This machine has no address {host} to listen on. Use --host 127.0.0.1.") from None
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"Cannot listen on {host}, port {port}: {reason}. Choose another with --port.") from None
    return listening


def address(host: str, listening: socket.socket) -> str:
    """Return the URL to open in a browser."""
    port = listening.getsockname()[1]
    if host in ALL_INTERFACES:
        host = "127.0.0.1" if listening.family == socket.AF_INET else "::1"
    return f"http://[{host.strip('[]')}]:{port}/" if ":" in host else f"http://{host}:{port}/"


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
        app.include_router(documents.corpus_router)
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
