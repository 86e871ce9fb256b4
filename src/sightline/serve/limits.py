"""The settings of a server: models, limits and timeouts."""

from __future__ import annotations

from dataclasses import dataclass

from sightline.settings.serving import ServeSettings

BYTES_PER_CHARACTER = 12
"""The longest JSON form of one character: an emoji written as two `\\uXXXX` escapes."""

OTHER_BYTES = 65_536
"""Bytes allowed in a request besides the texts."""
DOCUMENT_BYTES = 20_000_000
"""Maximum size of an uploaded document."""
DOCUMENTS_AT_ONCE = 2
"""Documents that are read at the same time, each in a process that may take 2 GB."""

CORPUS_ADDRESS = "/corpus"
"""Where the pages of a corpus are."""

PENDING_BODIES = 8
"""Number of bodies of maximum size that may be held in memory while they are received."""


@dataclass(frozen=True, kw_only=True)
class ServerLimits(ServeSettings):
    """What a server is started with, and limits that no option sets."""

    grace: float = 1.0
    """How long a cancelled explanation may take to stop before its process is killed."""
    kept_jobs: int = 32
    """Number of finished jobs whose results are kept."""
    kept_bytes: int = 400_000_000
    """Total size of the results kept; the latest is kept whatever its size."""
    worker_memory: int | None = None
    """Bytes that the worker may take beyond its loaded models; None for four fifths of the machine's memory."""
    body_timeout: float = 60.0
    """How long a client may take to send the body of a request."""

    @property
    def max_pending_bytes(self) -> int:
        """Maximum size of all request bodies that are being received at once."""
        return PENDING_BODIES * self.max_body + DOCUMENTS_AT_ONCE * DOCUMENT_BYTES

    @property
    def max_body(self) -> int:
        """Maximum size of a request body in bytes."""
        return BYTES_PER_CHARACTER * self.max_characters + OTHER_BYTES
