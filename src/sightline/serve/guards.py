"""Checks on every request, and security headers on every response.

- `Host` must name this server; otherwise a foreign page could reach a loopback server by DNS rebinding.
- A request that changes something must be JSON, or a document of binary type, and, if sent by a page, come from our own
  (`Origin`); otherwise a foreign page could post a form to the server. There are no CORS headers, so no foreign page
  can read a response.
- Response headers allow only our own files (content security policy) and forbid type sniffing, framing and caching.

`Access` says who may use a server that other machines can reach. Programs send `Authorization: Bearer TOKEN` with every
request. The page sends the token once to `POST /api/session` and receives a cookie whose value is random and valid
until the server stops, so that the token itself is not stored in the browser. Tokens are compared in constant time.
Without a token everything is open.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import secrets
import socket
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sightline.errors import UsageError
from sightline.serve import documents
from sightline.serve.refusal import Refusal

SHORTEST_TOKEN = 16
COOKIE = "sightline-session"
_OPEN_PATHS = frozenset({"/", "/openapi.json", "/api/health", "/api/session"})
"""The page, its files and the state of the server contain nothing about any text."""


class Access:
    """Decides whether a request may be answered."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._session = secrets.token_urlsafe(32)

    def allows(self, path: str, headers: Headers) -> bool:
        """Return whether a request for `path` is open to all or proves that its sender knows the token."""
        if self._token is None or path in _OPEN_PATHS or path.startswith("/static/"):
            return True
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(credentials.strip()):
            return True
        return secrets.compare_digest(_session_of(headers).encode(), self._session.encode())

    def is_token(self, text: str) -> bool:
        """Return whether `text` is the token."""
        return self._token is None or secrets.compare_digest(text.encode(), self._token.encode())

    def cookie(self) -> str:
        """Return the Set-Cookie header for a page that has sent the token."""
        return f"{COOKIE}={self._session}; Path=/; HttpOnly; SameSite=Strict"


def check_token(token: str) -> str:
    """Return `token` unchanged; raise UsageError if it is too short or cannot be sent in a header."""
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"The token must have at least {SHORTEST_TOKEN} ASCII characters and no spaces. "
            "Generate one with: python -c 'import secrets; print(secrets.token_urlsafe())'."
        )
    return token


def _session_of(headers: Headers) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


_log = logging.getLogger(__name__)

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[0-9a-z._-]+)(:[0-9]{1,5})?", re.IGNORECASE)
"""A name or an address and an optional port: nothing that a URL parser could split differently."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ALL_INTERFACES = ("0.0.0.0", "::", "")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-src 'self'; "
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
    """The host names under which requests may address this server."""

    def __init__(self, bound_to: str, additional: Iterable[str] = ()) -> None:
        self._names = {name.casefold() for name in (*LOOPBACK, *additional)}
        # On all interfaces, any IP address of the machine is valid; DNS rebinding needs a name, not a number.
        self._any_address = bound_to in ALL_INTERFACES
        self._names.add(socket.gethostname().casefold() if self._any_address else bound_to.strip("[]").casefold())

    def __contains__(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match["name"].strip("[]").casefold()
        return name in self._names or (self._any_address and _is_address(name))


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, hosts: HostNames, access: Access, body_timeout: float) -> None:
        self._app = app
        self._hosts = hosts
        self._access = access
        self._body_timeout = body_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse forbidden requests; add the security headers to every response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope["method"], scope["path"], Headers(scope=scope))
        answer = self._app if refusal is None else refusal.response()
        try:
            await answer(scope, self._limit_body_time(receive), send_with_headers)
        except ClientDisconnect:
            return  # a client may disconnect at any time; there is nothing left to do
        except Exception:
            # The client already has its answer; if the error escaped, uvicorn would also close the connection.
            _log.exception("A request to %s failed.", scope["path"])

    def _limit_body_time(self, receive: Receive) -> Receive:
        """Return `receive`, except that a body which has not arrived in time is answered with 408."""
        deadline = asyncio.get_running_loop().time() + self._body_timeout
        complete = False

        async def receive_in_time() -> Message:
            nonlocal complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                sentence = f"The request did not arrive within {self._body_timeout:g} seconds. Send it again."
                raise Refusal(408, sentence, {"Connection": "close"}) from None
            complete = not message.get("more_body", False)
            return message

        return receive_in_time

    def _refusal(self, method: str, path: str, headers: Headers) -> Refusal | None:
        host = headers.get("host", "")
        if host not in self._hosts:
            return Refusal(
                421, "This server does not answer to that host name. Start it with --allow-host NAME to allow it."
            )
        if not self._access.allows(path, headers):
            sentence = "This server requires its token. Send the header Authorization: Bearer TOKEN, or open its page."
            return Refusal(401, sentence, {"WWW-Authenticate": "Bearer"})
        if method in ("GET", "HEAD", "OPTIONS"):
            return None
        origin = headers.get("origin")
        if origin is not None and origin.casefold() not in (f"http://{host}".casefold(), f"https://{host}".casefold()):
            return Refusal(403, "Requests from pages of other sites are not allowed.")
        # Neither type can be sent by a form of a foreign page, nor by its script without asking this server first.
        kind = "application/octet-stream" if path == documents.PATH else "application/json"
        if method == "POST" and headers.get("content-type", "").split(";")[0].strip().lower() != kind:
            what = "the file as it is" if path == documents.PATH else "JSON"
            return Refusal(415, f"Send {what}, with the header Content-Type: {kind}.")
        return None


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach a server bound to `host`."""
    return host.casefold() == "localhost" or (_is_address(host.strip("[]")) and _address(host).is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(host.strip("[]"))


def _is_address(host: str) -> bool:
    try:
        _address(host)
    except ValueError:
        return False
    return True
