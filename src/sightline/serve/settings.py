"""The settings of a server: models, limits and timeouts."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Settings:
    """Models and limits of one server. All times are in seconds."""

    models: tuple[str, ...] = ()
    """Folders or hub ids; empty for the built-in model."""
    allow_pickle: bool = False
    max_characters: int = 500_000
    """Maximum number of characters of text, pair and continuation together."""
    max_tokens: int = 16_384
    """Maximum number of tokens; a model's own limit may be lower and then truncates the text."""
    queue: int = 8
    """Explanations that may wait while one runs; further requests are answered with 429."""
    timeout: float = 600.0
    """Maximum run time of one explanation."""
    grace: float = 1.0
    """How long a cancelled explanation may take to stop before its process is killed."""
    kept_jobs: int = 32
    """Number of finished jobs whose results are kept."""
    kept_bytes: int = 400_000_000
    """Total size of the results kept; the latest is kept whatever its size."""
    worker_jobs: int = 200
    """Jobs and questions after which an idle worker is replaced, to return its memory; 0 for never."""
    worker_memory: int | None = None
    """Bytes that the worker may take beyond its loaded models; None for four fifths of the machine's memory."""
    max_connections: int = 256
    """Connections open at once; requests on further ones are answered with 503."""
    body_timeout: float = 60.0
    """How long a client may take to send the body of a request."""
    token: str | None = None
    """Secret that clients must send; None for a server that is open to everyone who can reach it."""
    corpus: str | None = None
    """Folder or URI of a run whose pages are shown under /corpus."""
    hosts: tuple[str, ...] = ()
    """Host names, besides the loopback ones, under which browsers may reach this server."""

    @property
    def max_pending_bytes(self) -> int:
        """Maximum size of all request bodies that are being received at once."""
        return PENDING_BODIES * self.max_body + DOCUMENTS_AT_ONCE * DOCUMENT_BYTES

    @property
    def max_body(self) -> int:
        """Maximum size of a request body in bytes."""
        return BYTES_PER_CHARACTER * self.max_characters + OTHER_BYTES
