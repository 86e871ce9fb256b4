"""Packages that only some capabilities need: each is part of an extra of the distribution, and is imported here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sightline.errors import UnsupportedError


def require(
    module: str, extra: str, purpose: str, *, instead: str = "", error: type[Exception] = UnsupportedError
) -> Any:
    """Return an optional module; raise `error` with the command that installs it if it cannot be imported.

    purpose: the beginning of the sentence, for example "Drawing figures". extra: its name, or several with commas
    between them. instead: another way to what the user wants, for example "or use engine='local'".
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0].replace("_", "-")
        alternative = f", {instead}" if instead else ""
        raise error(
            f"{purpose} needs the package {package}: pip install 'sightline-xai[{extra}]'{alternative}."
        ) from None
