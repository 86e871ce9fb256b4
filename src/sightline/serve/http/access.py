"""Access by token: who may use a server that other machines can reach.

Programs send `Authorization: Bearer TOKEN` with every request. The page sends the token once to `POST /api/session` and
receives a cookie whose value is random and valid until the server stops, so that the token itself is not stored in the
browser. Tokens are compared in constant time. Without a token everything is open.
"""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers

from sightline.errors import UsageError

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
