"""Error answers: an HTTP status and a sentence, always sent in the same JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from sightline.files.foreign import printable

_LONGEST_SENTENCE = 2_000


class Refusal(Exception):  # noqa: N818  # an answer, not a fault
    """Raised to end a request with an HTTP status, a sentence and optional headers."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Return the response `{"error": sentence}`, in ASCII and on one line, so that any sentence is safe to send.

        A sentence may quote the request; a client may print it.
        """
        body = json.dumps({"error": printable(" ".join(str(self).split()), _LONGEST_SENTENCE)})
        return Response(body, self.status, self.headers, media_type="application/json")


def queue_full(retry_after: int) -> Refusal:
    """Return the 429 answer for a full queue."""
    sentence = f"The server is busy and its queue is full. Try again in {retry_after} seconds."
    return Refusal(429, sentence, {"Retry-After": str(retry_after)})
