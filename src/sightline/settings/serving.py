"""Settings of the server."""

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
