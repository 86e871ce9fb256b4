"""The command line: thin commands over the library. Heavy imports happen inside the commands, so that help is quick."""

from sightline.cli.app import main

__all__ = ["main"]
