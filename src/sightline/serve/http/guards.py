"""What every request passes before anything else, and what every answer carries.

- The `Host` must be one of ours: else a foreign page could reach a loopback server by DNS rebinding.
- A request that changes something must come from our own page (`Origin`) and be JSON: else a foreign page could post a
  form to us. There are no CORS headers, so that no foreign page can read an answer.
- Answers forbid everything but our own files (content security policy), guessing of types, framing, and caching.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sightline.serve.http.refusal import Refused

_log = logging.getLogger(__name__)

LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class HostNames:
    """Which names a request may call this server by."""

    def __init__(self, bound_to: str, further: Iterable[str] = ()) -> None:
        self._names = {name.casefold() for name in (*LOOPBACK, *further)}
        # Bound to every address, the server has as many names as the machine. A number cannot be rebound by DNS.
        self._any_number = bound_to in EVERYWHERE
        self._names.add(socket.gethostname().casefold() if self._any_number else bound_to.strip("[]").casefold())

    def __contains__(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").casefold()
            urlsplit(f"//{host}").port  # noqa: B018  # raises for a port that is none
        except ValueError:
            return False
        return name in self._names or (self._any_number and _is_number(name))


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, hosts: HostNames) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse what must not come in; add the headers to what goes out."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        answer = self._app if refusal is None else refusal.response()
        try:
            await answer(scope, receive, send_with_headers)
        except Exception:
            # The client has been told already. Left alone, the error would also close its connection under it.
            _log.exception("A request to %s failed.", scope["path"])

    def _refusal(self, method: str, headers: Headers) -> Refused | None:
        host = headers.get("host", "")
        if host not in self._hosts:
            return Refused(
                421, "This server does not answer to that name. Start it with --allow-host NAME to let it do so."
            )
        if method in ("GET", "HEAD", "OPTIONS"):
            return None
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.casefold() != host.casefold():
            return Refused(403, "Only the pages of this server may ask it to do something.")
        if method == "POST" and headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return Refused(415, "Send JSON, with the header Content-Type: application/json.")
        return None


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach a server bound to `host`."""
    return host.casefold() == "localhost" or (_is_number(host.strip("[]")) and _address(host).is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(host.strip("[]"))


def _is_number(host: str) -> bool:
    try:
        _address(host)
    except ValueError:
        return False
    return True
