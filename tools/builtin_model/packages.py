"""The pinned list of packages, and which licences may enter the corpus."""

from __future__ import annotations

import re
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

SIDES = ("PL", "AI")  # index = class number: 0 programming languages, 1 artificial intelligence
NEITHER = "neither"
"""Packages about anything else, from which the model learns to stay undecided."""
SPLITS = ("train", "validation", "test")

_PERMISSIVE = re.compile(r"\b(BSD|MIT|Apache|APACHE|PSF|Python Software Foundation|ISC|Expat)\b|BSD-|MIT-|Apache-")
_NOT_PERMISSIVE = re.compile(
    r"GPL|General Public|Affero|Mozilla|\bMPL\b|Eclipse|\bEPL\b|CDDL|Creative Commons|CC-BY|Commons Clause"
    r"|Business Source|Proprietary",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Package:
    """One line of packages.toml: a package at one version, its side, its part of the split, its licence.

    `words` names files of the wheel that list everyday words; they count as prose beside the docstrings.
    """

    name: str
    version: str
    side: str
    split: str
    licence: str
    words: Sequence[str] = ()


def read_packages(path: Path | None = None) -> list[Package]:
    """Read packages.toml; refuse a package listed twice, an unknown side or split, or a licence not permissive."""
    path = path or Path(__file__).with_name("packages.toml")
    packages = [Package(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["package"]]
    names = [normalised(package.name) for package in packages]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path.name} lists {', '.join(twice)} more than once. A package belongs to one split only.")
    for package in packages:
        if package.side not in (*SIDES, NEITHER) or package.split not in SPLITS:
            raise ValueError(f"{package.name}: side must be one of {(*SIDES, NEITHER)} and split one of {SPLITS}.")
        if not is_permissive(package.licence):
            raise ValueError(f"{package.name}: the licence {package.licence!r} is not permissive.")
    return packages


def normalised(name: str) -> str:
    """Return a package name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_permissive(licence: str) -> bool:
    """Say whether a licence statement names a BSD, MIT, Apache, PSF or ISC licence and nothing stricter."""
    return bool(_PERMISSIVE.search(licence)) and not _NOT_PERMISSIVE.search(licence)


def wheel_metadata(wheel: Path) -> Message:
    """Return the METADATA file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        return HeaderParser().parsestr(archive.read(name).decode("utf-8", errors="replace"))


def stated_licence(metadata: Message) -> str:
    """Return the licence that a wheel's metadata states: expression, else classifiers, else the free field's title.

    Every statement made is kept, so that a package that says "MIT" in one field and "GPL" in another is refused.
    """
    statements = []
    if expression := metadata.get("License-Expression"):
        statements.append(expression)
    statements += [
        classifier.rsplit("::", 1)[-1].strip()
        for classifier in metadata.get_all("Classifier", [])
        if classifier.startswith("License ::") and not classifier.endswith("OSI Approved")
    ]
    free = (metadata.get("License") or "").strip()
    if free and free != "UNKNOWN":
        statements.append(_title_of_licence_text(free))
    return "; ".join(dict.fromkeys(statements))


def _title_of_licence_text(text: str) -> str:
    """Shorten a whole licence text, pasted into the metadata, to its name."""
    if len(text) <= 80 and "\n" not in text:
        return text
    signs = {
        "Permission is hereby granted, free of charge": "MIT License (full text)",
        "Redistribution and use in source and binary forms": "BSD License (full text)",
        "Apache License": "Apache License (full text)",
    }
    flat = " ".join(text.split())
    if _NOT_PERMISSIVE.search(flat):
        return f"mentions {_NOT_PERMISSIVE.search(flat)[0]}"  # type: ignore[index]
    return next((name for sign, name in signs.items() if sign in flat), flat[:80])
