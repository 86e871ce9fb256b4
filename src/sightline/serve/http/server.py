"""Running the server: listening socket, worker, start and shutdown."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from sightline.errors import UsageError
from sightline.serve.http.app import create_app
from sightline.serve.http.guards import ALL_INTERFACES
from sightline.serve.limits import ServerLimits
from sightline.serve.worker.process import WorkerProcess

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
