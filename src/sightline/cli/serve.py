"""`sightline serve`: explain texts in a browser or from other programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.options import AllowPickle, Debug, ModelSources
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting
from sightline.errors import UsageError
from sightline.settings.extras import require

if TYPE_CHECKING:
    from sightline.serve.settings import Settings

TOKEN_VARIABLE = "SIGHTLINE_TOKEN"


@reports_errors
def serve(
    model: ModelSources = None,
    corpus: Annotated[
        str | None,
        typer.Option(metavar="DIR|URI", help="Also show the pages of this run (`sightline run`) under /corpus."),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="NAME", help="Address to listen on; by default, reachable from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port to listen on; 0 for any free port.")
    ] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            envvar=TOKEN_VARIABLE,
            help="Secret that clients must send; required if other machines can reach the server.",
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let other machines use the server without a token.")
    ] = False,
    max_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of tokens per text.")] = 16_384,
    max_characters: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of characters per request.")
    ] = 500_000,
    queue: Annotated[int, typer.Option(min=0, metavar="N", help="Requests that may wait while one is computed.")] = 8,
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time limit per explanation.")] = 600,
    worker_jobs: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Restart the worker process after N jobs to free memory; 0 for never."),
    ] = 200,
    max_connections: Annotated[int, typer.Option(min=8, metavar="N", help="Maximum number of open connections.")] = 256,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another host name under which browsers may reach this server; repeatable."),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    allow_pickle: AllowPickle = False,
    debug: Debug = False,
) -> None:
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
            for package in ("duckdb", "pyarrow", "matplotlib") if corpus is not None else ():
                require(package, "corpus,plots", "Showing a corpus", error=UsageError)
            from sightline.serve.http.guards import is_loopback
            from sightline.serve.http.server import serve as run
            from sightline.serve.settings import Settings

        settings = Settings(
            models=tuple(model or ()),
            allow_pickle=allow_pickle,
            max_characters=max_characters,
            max_tokens=max_tokens,
            queue=queue,
            timeout=timeout,
            worker_jobs=worker_jobs,
            max_connections=max_connections,
            token=_choose_token(token, no_token, host, is_loopback(host)),
            hosts=tuple(allow_host or ()),
            corpus=corpus,
        )
        progress("loading the models", 0, 0)

        def announce(address: str) -> None:
            progress.stop()
            _warn_about_reach(settings, host, is_loopback(host))
            typer.echo(f"Sightline answers at {address} (Ctrl-C stops it)")
            page = address if corpus is None else f"{address}corpus"
            if corpus is not None:
                typer.echo(f"The corpus is at {page}")
            if open_browser:
                _open(page)

        run(settings, host, port, announce)


def _choose_token(token: str | None, no_token: bool, host: str, loopback: bool) -> str | None:
    """Return the token to require, or None; raise UsageError if other machines could use the server unasked."""
    from sightline.serve.http.guards import check_token

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


def _warn_about_reach(settings: Settings, host: str, loopback: bool) -> None:
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
