"""Answers that are not results: an HTTP status and a sentence, and the one form in which errors are sent."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response


class Refused(Exception):  # noqa: N818  # an answer, not a fault
    """A request that ends with an HTTP status, a sentence, and further headers."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Return the answer: `{"error": sentence}`, in ASCII so that no sentence can break it."""
        body = json.dumps({"error": str(self)})
        return Response(body, self.status, self.headers, media_type="application/json")


def busy(retry_after: int) -> Refused:
    """Return the answer when the queue is full."""
    sentence = f"The server is busy and its queue is full. Try again in {retry_after} seconds."
    return Refused(429, sentence, {"Retry-After": str(retry_after)})
