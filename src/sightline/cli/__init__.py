"""The command line: thin commands over the library. Heavy imports happen inside the commands, so that help is quick."""

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the installed `sightline` program."""
    # The current folder may hold other people's files, such as a downloaded model: no process that is started from here
    # imports a module from it. (Python puts it on the path of every process that multiprocessing starts.)
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        # Here and not above, so that Ctrl-C is answered from the first moment on.
        from sightline.cli.app import app

        app(prog_name="sightline")
    except KeyboardInterrupt:
        from sightline.cli.error_reports import report_interrupt

        sys.exit(report_interrupt())
