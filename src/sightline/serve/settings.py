"""What whoever starts the server decides: models, limits, patience."""

from __future__ import annotations

from dataclasses import dataclass

BYTES_A_CHARACTER = 12
"""The most JSON needs for one character: an emoji written as two `\\uXXXX` escapes."""

OTHER_BYTES = 65_536
"""Room in a request for everything besides the texts."""


@dataclass(frozen=True)
class Settings:
    """The limits of one server. All times are in seconds."""

    models: tuple[str, ...] = ()
    """Folders or hub ids; empty for the built-in model."""
    allow_pickle: bool = False
    max_characters: int = 500_000
    """Longest text (and pair, counted together) that is accepted."""
    max_tokens: int = 16_384
    """Most tokens that are explained; a model's own limit may be lower and then truncates, as everywhere."""
    queue: int = 8
    """Explanations that may wait while one runs; the next one is answered with 429."""
    timeout: float = 600.0
    """How long one explanation may run."""
    grace: float = 1.0
    """How long a cancelled explanation may take to stop by itself before its process is ended."""
    kept_jobs: int = 32
    """Finished jobs whose results can still be fetched."""
    kept_bytes: int = 400_000_000
    """Bytes of results kept at once; the latest is kept whatever its size."""
    hosts: tuple[str, ...] = ()
    """Names besides the loopback ones by which browsers may call this server."""

    @property
    def max_body(self) -> int:
        """Bytes a request body may have."""
        return BYTES_A_CHARACTER * self.max_characters + OTHER_BYTES
