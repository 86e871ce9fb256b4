"""Files that are either complete or absent.

A file is written under a temporary name in its own folder and takes its real name in one step, so that a reader never
meets half of it and a crash leaves the old one untouched.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sightline.errors import UsageError

LONGEST_NAME = 255
"""Bytes a file name may have on every common file system."""


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it becomes `path` when the block ends well and is removed when it does not.

    A link is followed to the file it names; what is no ordinary file (`/dev/null`, a pipe) is yielded as it is.
    """
    path = Path(path)
    part = _temporary_file(path)
    if part is None:
        try:
            yield path
        except BrokenPipeError:  # the reader has seen enough
            raise
        except OSError as error:
            raise _cannot_write(path, error) from error
        return
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path.resolve())
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path | str, content: str | bytes) -> None:
    """Write `content` (text as UTF-8) to `path`, wholly or not at all."""
    with replacing(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def check_writable(path: Path | str) -> None:
    """Raise a `UsageError` now if `path` could not be written later; leaves nothing behind."""
    part = _temporary_file(Path(path))
    if part is not None:
        part.unlink()


def _temporary_file(path: Path) -> Path | None:
    """Create an empty file beside `path`, or return None when `path` is a device or pipe and is written directly.

    Creating it is the only sure test of a place: permissions alone say yes on a read-only disk. It takes the
    permissions of the file it will replace, or those that new files have here.
    """
    try:
        if path.is_dir():
            raise UsageError(f"Cannot write '{path}': it is a folder. Name a file inside it.")
        if len(os.fsencode(path.name)) > LONGEST_NAME:
            raise UsageError(f"Cannot write '{path.name[:40]}…': the name is longer than {LONGEST_NAME} bytes.")
        final = path.resolve()
        if not final.parent.is_dir():
            if final.parent.exists():
                raise UsageError(f"Cannot write '{path}': '{final.parent}' is a file, not a folder.")
            raise UsageError(f"Cannot write '{path}': the folder '{final.parent}' does not exist. Create it first.")
        if final.exists() and not final.is_file():
            return None
        if final.exists() and not os.access(final, os.W_OK):
            raise UsageError(f"Cannot write '{path}': the file is read-only. Choose another place.")
        part = final.with_name(f".{secrets.token_hex(6)}.part")
        part.touch(exist_ok=False)
        if final.exists():
            shutil.copymode(final, part)
    except OSError as error:
        raise _cannot_write(path, error) from None
    return part


def _cannot_write(path: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(f"Cannot write '{path}': {reason}. Choose another place.")
