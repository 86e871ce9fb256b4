"""AnswerCache: a function's answers in a file, by text, so that a model behind an API is asked only once per text.

The file is an SQLite database, so that threads and processes may share it and a killed program leaves it whole. It
belongs to one set of labels and one kind of output; for another model, name another file.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.files.foreign import first_line

_APPLICATION = 0x534C4143
"""SQLite's `application_id` of our files ("SLAC")."""
_AT_ONCE = 500
"""Texts per query; SQLite allows 32,766."""
Texts = tuple[str, ...]
"""A text, or a text and its pair."""


class AnswerCache:
    """Answers (C,) of one function, by question."""

    def __init__(self, path: Path | str, identity: Mapping[str, object]) -> None:
        self.path = Path(path).expanduser()
        self._identity = dict(identity)
        self._lock = threading.Lock()
        described = json.dumps(identity, sort_keys=True)
        try:
            is_new = not self.path.exists() or self.path.stat().st_size == 0
            self._connection = sqlite3.connect(self.path, check_same_thread=False, timeout=60.0)
            with self._connection as connection:
                if is_new:
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute("CREATE TABLE IF NOT EXISTS model (identity TEXT PRIMARY KEY)")
                    connection.execute("CREATE TABLE IF NOT EXISTS answers (asked TEXT PRIMARY KEY, numbers BLOB)")
                    connection.execute("INSERT OR IGNORE INTO model VALUES (?)", (described,))
                elif connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
                    raise InputError(f"'{self.path}' is not a cache of answers: choose another file.")
                known = [row[0] for row in connection.execute("SELECT identity FROM model")]
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"'{self.path}' cannot be used as a cache of answers ({first_line(error)}): choose another file."
            ) from error
        if known != [described]:
            raise InputError(
                f"The answers in '{self.path}' are those of a model with other labels: choose another file."
            )

    def __reduce__(self) -> tuple[type[AnswerCache], tuple[Path, dict[str, object]]]:
        return AnswerCache, (self.path, self._identity)

    def find(self, asked: Sequence[Texts]) -> dict[Texts, NDArray[np.float64]]:
        """Return the answers that are known."""
        keys = {_key(texts): texts for texts in asked}
        found: dict[Texts, NDArray[np.float64]] = {}
        for start in range(0, len(keys), _AT_ONCE):
            part = list(keys)[start : start + _AT_ONCE]
            query = f"SELECT asked, numbers FROM answers WHERE asked IN ({','.join('?' * len(part))})"
            with self._lock:
                rows = self._connection.execute(query, part).fetchall()
            found |= {keys[key]: np.frombuffer(numbers, dtype="<f8").copy() for key, numbers in rows}
        return found

    def add(self, answers: Mapping[Texts, NDArray[np.float64]]) -> None:
        """Store answers; they are in the file when this returns."""
        rows = [(_key(texts), np.asarray(answer, dtype="<f8").tobytes()) for texts, answer in answers.items()]
        with self._lock, self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", rows)


def _key(texts: Texts) -> str:
    return json.dumps(texts, ensure_ascii=False)
