"""Settings of the server: models, limits and timeouts."""

from __future__ import annotations

from dataclasses import dataclass

from sightline.settings.explain import BUILT_IN, MODEL, PICKLE
from sightline.settings.options import Settings, option

TOKEN_VARIABLE = "SIGHTLINE_TOKEN"


@dataclass(frozen=True, kw_only=True)
class ServeSettings(Settings):
    """Models and limits of a server. All times are in seconds."""

    models: tuple[str, ...] = option((), flag="--model", metavar="PATH", help=f"{MODEL}; may be repeated. {BUILT_IN}")
    corpus: str | None = option(
        None, metavar="DIR|URI", help="Also show the pages of this run (`sightline run`) under /corpus."
    )
    token: str | None = option(
        None,
        metavar="TEXT",
        variable=TOKEN_VARIABLE,
        help="Secret that clients must send; required if other machines can reach the server.",
    )
    max_tokens: int = option(16_384, low=1, metavar="N", help="Maximum number of tokens per text.")
    """A model's own limit may be lower and then truncates the text."""
    max_characters: int = option(500_000, low=1, metavar="N", help="Maximum number of characters per request.")
    """Of text, pair and continuation together."""
    queue: int = option(8, low=0, metavar="N", help="Requests that may wait while one is computed.")
    """Further requests are answered with 429."""
    timeout: float = option(600, low=1, metavar="SECONDS", help="Time limit per explanation.")
    worker_jobs: int = option(
        200, low=0, metavar="N", help="Restart the worker process after N jobs to free memory; 0 for never."
    )
    """Jobs and questions after which an idle worker is replaced."""
    max_connections: int = option(256, low=8, metavar="N", help="Maximum number of open connections.")
    """Requests on further ones are answered with 503."""
    hosts: tuple[str, ...] = option(
        (),
        flag="--allow-host",
        metavar="NAME",
        help="Another host name under which browsers may reach this server; repeatable.",
    )
    """Besides the loopback ones."""
    allow_pickle: bool = option(False, help=PICKLE)


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
