"""`sightline serve`: explain texts in a browser or from other programs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sightline.cli.declared import command
from sightline.cli.progress_bar import LateProgress, starting
from sightline.errors import UsageError
from sightline.settings.extras import require
from sightline.settings.options import option
from sightline.settings.serving import TOKEN_VARIABLE, ServeSettings

if TYPE_CHECKING:
    from sightline.settings.serving import ServerLimits


@dataclass(frozen=True, kw_only=True)
class ServeCommand(ServeSettings):
    """Options of `sightline serve`."""

    host: str = option(
        "127.0.0.1", metavar="NAME", help="Address to listen on; by default, reachable from this machine only."
    )
    port: int = option(8000, low=0, high=65535, metavar="N", help="Port to listen on; 0 for any free port.")
    no_token: bool = option(False, help="Let other machines use the server without a token.")
    open_browser: bool = option(False, flag="--open", help="Open the page in a browser.")


@command
def serve(settings: ServeCommand) -> None:
    """Explain texts in a browser, or from other programs over HTTP.

    \b
    Examples:
      sightline serve --open
      sightline serve --model my-model --model another-model --port 8080
      sightline serve --model my-model --corpus explained --open
      SIGHTLINE_TOKEN=... sightline serve --host 0.0.0.0
      curl http://127.0.0.1:8000/api/explain -H 'Content-Type: application/json' -d '{"text": "A short text."}'
    """
    with LateProgress() as progress:
        with starting(progress):
            for package in ("fastapi", "uvicorn"):  # they need the others of the extra
                require(package, "serve", "The server", error=UsageError)
            for package in ("duckdb", "pyarrow", "matplotlib") if settings.corpus is not None else ():
                require(package, "corpus,plots", "Showing a corpus", error=UsageError)
            from sightline.serve.guards import is_loopback
            from sightline.serve.server import serve as run
            from sightline.settings.serving import ServerLimits

        host = settings.host
        token = _choose_token(settings.token, settings.no_token, host, is_loopback(host))
        limits = ServerLimits(**settings.keywords(ServerLimits) | {"token": token})
        progress("loading the models", 0, 0)

        def announce(address: str) -> None:
            progress.stop()
            _warn_about_reach(limits, host, is_loopback(host))
            typer.echo(f"Sightline answers at {address} (Ctrl-C stops it)")
            page = address if settings.corpus is None else f"{address}corpus"
            if settings.corpus is not None:
                typer.echo(f"The corpus is at {page}")
            if settings.open_browser:
                _open(page)

        run(limits, host, settings.port, announce)


def _choose_token(token: str | None, no_token: bool, host: str, loopback: bool) -> str | None:
    """Return the token to require, or None; raise UsageError if other machines could use it without one."""
    from sightline.serve.guards import check_token

    if no_token:
        if token is not None and token != os.environ.get(TOKEN_VARIABLE):
            raise UsageError("--token and --no-token contradict each other: leave one out.")
        if token is None and loopback:
            raise UsageError(f"--no-token has no effect: only this machine can reach a server at {host}. Leave it out.")
        return None
    if token is None and not loopback:
        raise UsageError(
            f"Other machines can reach a server at {host}: choose a secret with --token or SIGHTLINE_TOKEN, "
            "or let everyone use it with --no-token."
        )
    return None if token is None else check_token(token)


def _warn_about_reach(settings: ServerLimits, host: str, loopback: bool) -> None:
    if loopback:
        return
    protection = (
        "everyone who can reach it may use it"
        if settings.token is None
        else "the token and all texts are sent unencrypted unless a proxy adds HTTPS"
    )
    typer.echo(f"Note: other machines can reach this server at {host}; {protection}.", err=True)


def _open(address: str) -> None:
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
