"""The command line: thin commands over the library. Heavy imports happen inside the commands, so that help is quick."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the installed `sightline` program."""
    try:
        # Here and not above, so that Ctrl-C is answered from the first moment on.
        from sightline.cli.app import app

        app(prog_name="sightline")
    except KeyboardInterrupt:
        from sightline.cli.errors import report_interrupt

        sys.exit(report_interrupt())
