"""Write files and folders so that they are either complete or absent.

They are written under a temporary name in the same folder and renamed in one step, so that a reader never sees half of
a file and a crash leaves the old one untouched.

The temporary file or folder is removed when writing fails and when the process is terminated (SIGTERM, SIGHUP). What a
killed process left behind is removed when something is written to the same folder again. It must be certain that it is
ours and abandoned: its name ends with check digits of the random number in it, which no other program writes, and
nobody holds the lock that a writer has on it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from sightline.errors import UsageError

LONGEST_NAME = 255
"""Maximum length of a file name in bytes, on every common file system."""
_PART = re.compile(r"\.sightline-([0-9a-f]{16})-([0-9a-f]{16})\.part")
_SECONDS_UNTIL_LOCKED = 60.0
"""A temporary file younger than this may belong to a writer that has not locked it yet."""
_TERMINATING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

_writers: dict[Path, int] = {}
"""Temporary files that are being written, and the processes that write them: a forked process inherits this."""
_cleaned_folders: set[Path] = set()
"""The folders in which this process has already removed abandoned files."""


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path next to `path`; it is renamed to `path` when the block succeeds and removed when it fails.

    Links are followed; a `path` that is not a regular file (`/dev/null`, a pipe) is yielded itself.
    """
    path = Path(path)
    with _temporary_file(path) as part:
        if part is None:
            try:
                yield path
            except BrokenPipeError:  # the reader closed the pipe
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


def write_whole(path: Path | str, content: str | bytes) -> None:
    """Write `content` (text as UTF-8) to `path`, completely or not at all."""
    with replacing(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def write_or_return(text: str, path: Path | str | None) -> str | Path:
    """Return `text`; with a path, write it there and return the path, since a notebook shows what a cell returns."""
    if path is None:
        return text
    write_whole(path, text)
    return Path(path)


def check_writable(path: Path | str, inputs: Iterable[Path | str | None] = ()) -> None:
    """Raise a `UsageError` now if `path` could not be written later; leaves nothing behind.

    inputs: what the command reads. A path that is one of these files, or that is a file in one of these folders, is
    refused.
    """
    path = Path(path)
    with _temporary_file(path):
        pass
    if path.is_file():
        for source in inputs:
            if source is not None and is_within(path, source):
                raise UsageError(f"Cannot write '{path}': it is read by this command. Choose another path.")


def is_within(path: Path | str, place: Path | str) -> bool:
    """Say whether an existing `path` is the file or folder `place`, or inside it, links followed."""
    try:
        return Path(path).resolve(strict=True).is_relative_to(Path(place).expanduser().resolve(strict=True))
    except (OSError, RuntimeError, ValueError):  # "-", the id of a hub model, a loop of links
        return False


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `folder` at the end of the block, or removed if the block fails.

    `folder` may exist if it is empty.
    """
    part = folder.with_name(_part_name())
    with _remove_on_signal(part):
        part.mkdir()
        lock = None if os.name == "nt" else _open_to_lock(part)  # Windows cannot open folders
        try:
            if lock is not None:
                lock_file(lock)
            _remove_abandoned(folder.parent)
            yield part
            part.rename(folder)
        finally:
            if lock is not None:
                os.close(lock)
            _remove(part)


def is_part(name: str) -> bool:
    """Say whether a name is that of a temporary file or folder of Sightline."""
    match = _PART.fullmatch(name)
    return match is not None and match[2] == _check_digits(match[1])


def _part_name() -> str:
    token = secrets.token_hex(8)
    return f".sightline-{token}-{_check_digits(token)}.part"


def _check_digits(token: str) -> str:
    return hashlib.blake2b(token.encode(), digest_size=8, person=b"sightline").hexdigest()


@contextmanager
def _temporary_file(path: Path) -> Iterator[Path | None]:
    """Create an empty file next to `path` and remove it at the end of the block, if it still has that name.

    Yields None when `path` is a device or pipe, which is written directly. Creating the file is the only reliable test:
    on a read-only disk, permissions alone are misleading. The file has the permissions of the file it will replace, or
    the default ones.
    """
    final = _final_path(path)
    if final is None:
        yield None
        return
    part = final.with_name(_part_name())
    with _remove_on_signal(part):
        try:
            lock = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
            if final.exists():
                shutil.copymode(final, part)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise _cannot_write(path, error) from None
        try:
            lock_file(lock)
            _remove_abandoned(final.parent)
            yield part
        finally:
            os.close(lock)
            part.unlink(missing_ok=True)


def _final_path(path: Path) -> Path | None:
    """Return the path that links lead to, or None for a device or pipe; raise UsageError if no file can be there."""
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
        # The superuser may write everything, but a file that nobody may write is still read-only.
        if final.exists() and not (os.access(final, os.W_OK) and final.stat().st_mode & 0o222):
            raise UsageError(f"Cannot write '{path}': the file is read-only. Choose another path.")
    except OSError as error:
        raise _cannot_write(path, error) from None
    except RuntimeError:  # what pathlib raises for a loop of links
        raise UsageError(f"Cannot write '{path}': the link leads back to itself. Choose another path.") from None
    except ValueError:
        raise UsageError("Cannot write a file whose name contains a NUL character.") from None
    return final


@contextmanager
def _remove_on_signal(part: Path) -> Iterator[None]:
    """Remove `part` if a signal terminates the process inside the block; the process still terminates.

    A program that handles the signal itself keeps its handler, and should leave the block as usual. Only the main
    thread can handle signals.
    """
    _writers[part] = os.getpid()
    handled = []
    if threading.current_thread() is threading.main_thread():
        handled = [number for number in _TERMINATING_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _remove_and_exit)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        _writers.pop(part, None)


def _remove_and_exit(number: int, frame: FrameType | None) -> None:
    for part, process in list(_writers.items()):
        if process == os.getpid():
            with suppress(OSError):
                _remove(part)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def lock_file(descriptor: int) -> bool | None:
    """Lock an open file against other processes, until it is closed.

    Return True if it is locked now, False if another process holds the lock, and None where there are no locks: on
    Windows, and on some network drives.
    """
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _open_to_lock(part: Path) -> int:
    return os.open(part, (os.O_RDONLY if part.is_dir() else os.O_WRONLY) | getattr(os, "O_NOFOLLOW", 0))


def _remove(part: Path) -> None:
    """Remove a temporary file or folder if it still has that name."""
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.unlink(missing_ok=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove old temporary files and folders that no process is writing any more, once per folder and process."""
    if folder not in _cleaned_folders:
        _cleaned_folders.add(folder)
        remove_parts(folder, _SECONDS_UNTIL_LOCKED)


def remove_parts(folder: Path, seconds: float = 0.0) -> None:
    """Remove temporary files and folders that no process is writing and that are at least `seconds` old.

    Without a minimum age, nobody else may begin to write to the folder meanwhile.
    """
    newest = time.time() - seconds
    with suppress(OSError):
        for part in [path for path in folder.iterdir() if is_part(path.name)]:
            with suppress(OSError):
                if seconds and part.lstat().st_mtime > newest:
                    continue
                descriptor = _open_to_lock(part)
                try:
                    if lock_file(descriptor):
                        _remove(part)
                finally:
                    os.close(descriptor)


def _cannot_write(path: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    advice = "Free some space, or choose another path" if error.errno == errno.ENOSPC else "Choose another path"
    return UsageError(f"Cannot write '{path}': {reason}. {advice}.")
