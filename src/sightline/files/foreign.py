"""Read untrusted files: only regular files inside their folder, and JSON only within stated limits.

Nothing here trusts the file. A file is opened only if its resolved path stays inside the folder it belongs to and it is
a regular file, so that a link to a device or to another part of the disk is refused; JSON is refused when it is larger
or more deeply nested than any legitimate file of its kind.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from sightline.errors import SightlineError

JSON_DEPTH = 64
"""Maximum nesting; known files have fewer than ten levels."""
_SHOWN = 60


def regular_file(folder: Path, name: str, error: type[SightlineError]) -> Path | None:
    """Return the path of `name` inside `folder`, or None if there is none; raise `error` if it must not be read.

    Links are followed. The file they lead to has to be inside the folder or, for a snapshot of the hub's cache
    (`…/snapshots/<revision>`), in the `blobs` folder beside it, where the cache keeps all files.
    """
    path = folder / name
    try:
        if "\0" in name or (not path.exists() and not path.is_symlink()):
            return None
        root, target = folder.resolve(), path.resolve(strict=True)
        allowed = [root, root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [root]
        if not any(target.is_relative_to(place) for place in allowed):
            raise error(f"'{quote(name)}' in '{folder}' leads out of the folder; files outside it are not read.")
        if not target.is_file():
            raise error(f"'{quote(name)}' in '{folder}' is not a regular file.")
    except (OSError, RuntimeError) as problem:  # a name too long, a loop of links, no permission
        reason = getattr(problem, "strerror", None) or "the link leads nowhere"
        raise error(f"'{quote(name)}' in '{folder}' cannot be opened: {reason}.") from None
    return target


def check_regular(path: Path, error: type[SightlineError]) -> None:
    """Raise `error` if `path` leads to something other than a regular file: a device or a pipe may never end."""
    try:
        regular = path.is_file() or not path.exists()
    except (OSError, ValueError) as problem:  # a name that is not possible on any file system
        raise error(f"Cannot read '{quote(str(path))}': {getattr(problem, 'strerror', None) or problem}.") from None
    if not regular:
        kind = "a folder" if path.is_dir() else "a device or a pipe"
        raise error(f"Cannot read '{quote(str(path))}': it is {kind}, not a regular file.")


def read_json(path: Path, *, limit: int, error: type[SightlineError], name: str | None = None) -> Any:
    """Return the content of a JSON file of at most `limit` bytes, or raise `error` with the reason.

    Besides invalid JSON, nesting beyond `JSON_DEPTH`, integers of more than 4,300 digits, NaN and infinity are refused.
    `name`: how the message refers to the file.
    """
    label = name or f"'{path}'"
    try:
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as problem:
        raise error(f"{label} could not be read: {problem.strerror or 'it cannot be opened'}.") from None
    if len(raw) > limit:
        raise error(f"{label} could not be read: it is larger than {limit:,} bytes.")
    return parse_json(raw, error=error, name=label)


def read_object(
    folder: Path, name: str, *, limit: int, error: type[SightlineError], label: str | None = None
) -> dict[str, Any] | None:
    """Return the content of a JSON file of a folder, which must be an object; None if there is no such file.

    `label`: how messages refer to the file.
    """
    path = regular_file(folder, name, error)
    if path is None:
        return None
    label = label or f"'{name}' in '{folder}'"
    content = read_json(path, limit=limit, error=error, name=label)
    if not isinstance(content, dict):
        raise error(f"{label} is {quote(content)}, not a JSON object with settings.")
    return content


def parse_json(raw: bytes, *, error: type[SightlineError], name: str) -> Any:
    """Return the value of the JSON text `raw`, under the limits of `read_json`."""

    def refuse(reason: str) -> NoReturn:
        raise error(f"{name} could not be read: {reason}.") from None

    def refuse_constant(constant: str) -> NoReturn:
        refuse(f"it contains {constant}, which is not a JSON number")

    try:
        content = json.loads(raw.decode("utf-8-sig"), parse_constant=refuse_constant)
    except UnicodeDecodeError:
        refuse("it is not UTF-8")
    except json.JSONDecodeError as problem:
        refuse(f"it is not valid JSON (line {problem.lineno}, column {problem.colno})")
    except ValueError:
        refuse("it contains a number of more than 4,300 digits")
    except RecursionError:
        refuse(f"it is nested more than {JSON_DEPTH} levels deep")
    if depth_exceeds(content, JSON_DEPTH):
        refuse(f"it is nested more than {JSON_DEPTH} levels deep")
    return content


def looks_binary(text: str | bytes) -> bool:
    """Whether more than a tenth of `text` is NUL: UTF-16 without its mark, or no text at all.

    A few are no reason to refuse a text: converters of PDF files write them for characters they do not know.
    """
    nul: Any = "\0" if isinstance(text, str) else b"\0"
    return 10 * text.count(nul) > len(text)


def quote(value: object) -> str:
    """Return an untrusted value for use in a message: on one line, printable, and cut off after a few words."""
    return printable(value if isinstance(value, str) else _plain(value), _SHOWN)


def printable(text: str, longest: int = 300) -> str:
    """Return untrusted text for use in a message: no line breaks, no terminal escapes, at most `longest` characters."""
    text = "".join(character if character.isprintable() else "�" for character in text[: longest + 1])
    return text if len(text) <= longest else f"{text[:longest]}…"


def first_line(error: BaseException) -> str:
    """Return the first line of a library's exception as the end of a sentence; of "Wrong field:", also the next."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    end = next((place for place, line in enumerate(lines) if not line.endswith(":")), len(lines)) + 1
    text = printable(" ".join(lines[:end]) or type(error).__name__)
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**30:
        return "an integer of more than 30 digits"
    return json.dumps(value, default=repr)


def depth_exceeds(content: Any, limit: int = JSON_DEPTH) -> bool:
    """Whether lists and objects are nested more than `limit` levels deep."""
    level = [content]
    for _ in range(limit + 1):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        level = [value for value in inner if isinstance(value, dict | list)]
        if not level:
            return False
    return True
