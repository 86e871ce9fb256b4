"""Running the server: the place it listens at, its worker, and its end."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from sightline.errors import UsageError
from sightline.serve.http.app import create_app
from sightline.serve.http.guards import EVERYWHERE
from sightline.serve.settings import Settings
from sightline.serve.worker.process import WorkerProcess

_GOODBYE = 2
"""Seconds that open connections get when the server is stopped."""


def serve(settings: Settings, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Load the models, listen, and answer until stopped; `announce` is told the address once it answers."""
    with bound_socket(host, port) as listening:
        worker = WorkerProcess(settings)
        try:
            worker.start()
            server = Server(settings, worker, host, lambda: announce(address(host, listening)))
            server.run(sockets=[listening])
            if server.interrupted:  # the library raises it again as well, but not from every place it may reach
                raise KeyboardInterrupt
        finally:
            worker.stop()


class Server(uvicorn.Server):
    """A uvicorn server that says when it answers."""

    def __init__(self, settings: Settings, worker: WorkerProcess, host: str, started: Callable[[], None]) -> None:
        app, self._end_jobs = create_app(settings, worker, host)
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                server_header=False,
                timeout_graceful_shutdown=_GOODBYE,
            )
        )
        self._tell = started
        self.interrupted = False
        """Whether Ctrl-C ended it."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Remember Ctrl-C, then shut down."""
        self.interrupted |= sig == signal.SIGINT
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the jobs first: a page that follows one would otherwise hold its connection until it is cut off."""
        self._end_jobs()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets)
        if self.started:
            self._tell()


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to `host` and `port` (0 for any free one), or say why there is none."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise UsageError(f"There is no address '{host}' on this machine. Use --host 127.0.0.1.") from None
    # The protocol is named because asyncio sends small answers at once only on sockets that say they are TCP.
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise UsageError(f"This machine has no address {host} to listen at. Use --host 127.0.0.1.") from None
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"Cannot listen at {host}, port {port}: {reason}. Choose another with --port.") from None
    return found


def address(host: str, listening: socket.socket) -> str:
    """Return what to type into a browser."""
    port = listening.getsockname()[1]
    if host in EVERYWHERE:
        host = "127.0.0.1" if listening.family == socket.AF_INET else "::1"
    return f"http://[{host.strip('[]')}]:{port}/" if ":" in host else f"http://{host}:{port}/"
