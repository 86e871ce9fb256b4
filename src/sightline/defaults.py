"""Choices that several doors share: Python, command line, server and inspection use the same ones.

Nothing is imported here, so that `sightline --help` can name them without loading a library.
"""

from __future__ import annotations

DEFAULT_METHODS = ("attcat",)
"""Methods that explain a document unless others are asked for; the first one where a single method is wanted."""
