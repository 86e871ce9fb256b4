"""The settings of a server: models, limits and timeouts."""

from __future__ import annotations

from dataclasses import dataclass

BYTES_PER_CHARACTER = 12
"""The longest JSON form of one character: an emoji written as two `\\uXXXX` escapes."""

OTHER_BYTES = 65_536
"""Bytes allowed in a request besides the texts."""


@dataclass(frozen=True)
class Settings:
    """Models and limits of one server. All times are in seconds."""

    models: tuple[str, ...] = ()
    """Folders or hub ids; empty for the built-in model."""
    allow_pickle: bool = False
    max_characters: int = 500_000
    """Maximum number of characters of text and pair together."""
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
    hosts: tuple[str, ...] = ()
    """Host names, besides the loopback ones, under which browsers may reach this server."""

    @property
    def max_body(self) -> int:
        """Maximum size of a request body in bytes."""
        return BYTES_PER_CHARACTER * self.max_characters + OTHER_BYTES
