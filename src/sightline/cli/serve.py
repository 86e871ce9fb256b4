"""`sightline serve`: explain texts in a browser, or from other programs."""

from __future__ import annotations

from typing import Annotated

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.options import AllowPickle, Debug, ModelSources
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting
from sightline.errors import UsageError


@reports_errors
def serve(
    model: ModelSources = None,
    host: Annotated[
        str, typer.Option(metavar="NAME", help="Address to listen at; only this machine can reach the default.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port to listen at; 0 for any free one.")
    ] = 8000,
    max_tokens: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most tokens of a text that is explained.")
    ] = 16_384,
    max_characters: Annotated[int, typer.Option(min=1, metavar="N", help="Most characters of a request.")] = 500_000,
    queue: Annotated[int, typer.Option(min=0, metavar="N", help="Requests that may wait while one is computed.")] = 8,
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Longest time for one explanation.")] = 600,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name by which browsers may call this server; may be repeated."),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    allow_pickle: AllowPickle = False,
    debug: Debug = False,
) -> None:
    """Explain texts in a browser, or from other programs by HTTP.

    \b
    Examples:
      sightline serve --open
      sightline serve --model my-model --model another-model --port 8080
      curl http://127.0.0.1:8000/api/explain -H 'Content-Type: application/json' -d '{"text": "A short text."}'
    """
    with LateProgress() as progress:
        with starting(progress):
            try:
                from sightline.serve.http.server import serve as run
            except ModuleNotFoundError as error:
                if error.name not in ("fastapi", "uvicorn", "pydantic", "starlette"):
                    raise
                raise UsageError("The server needs FastAPI and uvicorn: pip install 'sightline[serve]'.") from None
            from sightline.serve.http.guards import is_loopback
            from sightline.serve.settings import Settings

        settings = Settings(
            models=tuple(model or ()),
            allow_pickle=allow_pickle,
            max_characters=max_characters,
            max_tokens=max_tokens,
            queue=queue,
            timeout=timeout,
            hosts=tuple(allow_host or ()),
        )
        progress("loading the models", 0, 0)

        def announce(address: str) -> None:
            progress.stop()
            if not is_loopback(host):
                typer.echo(
                    f"Note: listening at {host}: other machines may reach this server. There is no password.",
                    err=True,
                )
            typer.echo(f"Sightline answers at {address} (Ctrl-C stops it)")
            if open_browser:
                _open(address)

        run(settings, host, port, announce)


def _open(address: str) -> None:
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
