"""Limits on connections: slow clients are disconnected, and new clients are answered however many slow ones there are.

uvicorn bounds only the idle time between requests. `LimitedProtocol` also bounds how long a client may take to send the
head of a request, to send its body and to read the response, and how many connections are open. When a connection above
the limit arrives, the one that has been waiting longest for its client is closed; connections whose request is being
answered are never closed for that reason.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    import resource
except ImportError:  # not available on Windows
    resource = None  # type: ignore[assignment]

from sightline.serve.settings import Settings

RESERVED_DESCRIPTORS = 128
"""File descriptors left for files, pipes, and connections that are being accepted or closed."""
ACCEPTED_AT_ONCE = 32
"""Connections accepted before others are served; at most twice as many are open above the limit."""
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\nConnection: close\r\n"
    b'Content-Length: 72\r\n\r\n{"error": "The server has too many open connections. Try again later."}\n'
)


@dataclass(frozen=True)
class ConnectionLimits:
    """Maximum number of connections, and seconds that a client may take."""

    connections: int
    head: float
    body: float
    response: float


def connection_limits(settings: Settings) -> ConnectionLimits:
    """Return the limits of a server: fewer connections than configured if the process may open only few files."""
    connections = settings.max_connections
    if resource is not None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors != resource.RLIM_INFINITY:
            connections = min(connections, max(8, descriptors - RESERVED_DESCRIPTORS))
    # The application answers a late body with 408; this limit closes what the application no longer reads.
    return ConnectionLimits(
        connections, settings.header_timeout, settings.body_timeout + 1.0, settings.response_timeout
    )


class LimitedProtocol(H11Protocol):
    """One connection with deadlines. It waits for its client to send a head, to send a body, or to read a response."""

    def __init__(self, limits: ConnectionLimits, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._limits = limits
        self._phase: Literal["head", "body", "answer"] = "answer"
        self._phase_start = 0.0
        self._receive_deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing can happen on this connection before its client sends or reads something."""
        return self._phase != "answer" or self._write_deadline is not None

    @property
    def phase_start(self) -> float:
        """Event-loop time at which the current phase began."""
        return self._phase_start

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection; close another one if there are too many."""
        super().connection_made(transport)
        self._update_phase()
        if len(self.connections) > self._limits.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadlines."""
        self._cancel_deadlines()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle data; the deadline of a phase is not extended by single bytes that trickle in."""
        super().data_received(data)
        self._update_phase()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request; the application, which may already have received its head, answers no more.

        uvicorn sends this response while the application may be about to send, or in the middle of, its own.
        """
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._update_phase()

    def pause_writing(self) -> None:
        """Give the client limited time to read what has been sent."""
        super().pause_writing()
        if self._write_deadline is None:
            self._write_deadline = self.loop.call_later(self._limits.response, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def _update_phase(self) -> None:
        """Start the deadline of a new phase, if one has begun."""
        their_state = self.conn.their_state
        phase: Literal["head", "body", "answer"] = (
            "head" if their_state is h11.IDLE else "body" if their_state is h11.SEND_BODY else "answer"
        )
        if phase == self._phase:
            return
        self._phase, self._phase_start = phase, self.loop.time()
        if self._receive_deadline is not None:
            self._receive_deadline.cancel()
            self._receive_deadline = None
        if phase != "answer" and not self.transport.is_closing():
            seconds = self._limits.head if phase == "head" else self._limits.body
            self._receive_deadline = self.loop.call_later(seconds, self.transport.abort)

    def _make_room(self) -> None:
        """Close the connection that has waited longest for its client, or this one if there is none."""
        waiting = [
            connection
            for connection in self.connections
            if isinstance(connection, LimitedProtocol) and connection is not self and connection.waits_for_client
        ]
        if waiting:
            min(waiting, key=lambda connection: connection.phase_start).abandon()
        else:
            self.transport.write(_BUSY)
            self.transport.close()
            self.connections.discard(self)

    def abandon(self) -> None:
        """Close the connection at once and stop counting it."""
        self.connections.discard(self)
        self.transport.abort()

    def _cancel_deadlines(self) -> None:
        for deadline in (self._receive_deadline, self._write_deadline):
            if deadline is not None:
                deadline.cancel()
        self._receive_deadline = self._write_deadline = None
