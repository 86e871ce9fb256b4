"""One file of named arrays and a JSON header: a zip archive whose entries are compressed byte streams.

Numbers of several bytes are laid out byte by byte (all first bytes, then all second ones …) and compressed by runs and
Huffman codes alone: small numbers without repeating patterns come within a few per cent of their entropy, where coders
that look for matches (zstd, ordinary zlib) find spurious ones and lose a tenth.
An archive is written array by array, so that a large result never has to be in memory at once, and read the same way.
Nothing in it is ever executed; shapes and sizes are checked against the header before an array is made.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError
from sightline.files import replacing

HEADER = "header.json"
DTYPES = ("|u1", "<u2", "<u4", "<i8", "<f2", "<f4", "<f8")


class ArchiveWriter:
    """Takes arrays one by one and, at the end, the header."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._arrays: dict[str, dict[str, Any]] = {}

    def add(self, name: str, array: npt.NDArray[Any]) -> None:
        """Write one array, in little-endian order."""
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        if plain.dtype.str not in DTYPES:
            raise TypeError(f"the array '{name}' has type {plain.dtype}, which an archive does not hold")
        self._arrays[name] = {"dtype": plain.dtype.str, "shape": plain.shape}
        planes = plain.reshape(-1).view(np.uint8).reshape(-1, plain.itemsize).T.tobytes()
        coder = zlib.compressobj(strategy=zlib.Z_RLE)
        self._archive.writestr(f"{name}.zlib", coder.compress(planes) + coder.flush())

    def finish(self, kind: str, version: int, header: Mapping[str, Any]) -> None:
        """Write the header: what the file is, and where its arrays lie."""
        full = {"format": kind, "version": version, "arrays": self._arrays, **header}
        self._archive.writestr(HEADER, json.dumps(full, allow_nan=False), zipfile.ZIP_DEFLATED)


@contextmanager
def writing(path: str | Path) -> Iterator[ArchiveWriter]:
    """Open an archive that takes its name when the block ends well and is removed when it does not."""
    with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        yield ArchiveWriter(archive)


class Archive:
    """An archive open for reading; every array is read when asked for."""

    def __init__(self, path: str | Path, kind: str, version: int, what: str) -> None:
        self.path = Path(path)
        self._what = what
        with self._reading():
            header = json.loads(self._bytes(HEADER))
            if not isinstance(header, dict) or header.get("format") != kind:
                raise InputError(f"'{self.path}' holds no {what} saved by Sightline.")
            if header["version"] > version:
                raise InputError(
                    f"'{self.path}' was written by a newer Sightline (format {header['version']}, this one reads up to "
                    f"{version}). Update Sightline to read it."
                )
        self.header: dict[str, Any] = header

    def array(self, name: str) -> npt.NDArray[Any]:
        """Return one array."""
        with self._reading():
            facts = self.header["arrays"][name]
            dtype, shape = facts["dtype"], tuple(int(length) for length in facts["shape"])
            if dtype not in DTYPES or min(shape, default=0) < 0:
                raise ValueError(f"the array '{name}' is not one of ours")
            size = math.prod(shape) * np.dtype(dtype).itemsize
            decoder = zlib.decompressobj()
            planes = decoder.decompress(self._bytes(f"{name}.zlib"), size + 1)  # never more than is expected
            if len(planes) != size or not decoder.eof:
                raise ValueError(f"the array '{name}' is not as long as the header says")
            numbers = np.frombuffer(planes, dtype=np.uint8).reshape(np.dtype(dtype).itemsize, -1).T
            array: npt.NDArray[Any] = np.ascontiguousarray(numbers).view(dtype).reshape(shape)
            return array

    def _bytes(self, entry: str) -> bytes:
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(entry)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what a missing or damaged file causes into a sentence."""
        try:
            yield
        except FileNotFoundError:
            raise InputError(f"There is no file '{self.path}'.") from None
        except zlib.error:
            raise InputError(f"'{self.path}' is damaged: its content does not match its checksum.") from None
        except zipfile.BadZipFile:
            raise InputError(f"'{self.path}' holds no {self._what} saved by Sightline, or is damaged.") from None
        except OSError as error:
            reason = (error.strerror or str(error).splitlines()[0] or "it is damaged").lower().rstrip(".")
            raise InputError(f"Cannot read '{self.path}': {reason}.") from None
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"'{self.path}' is damaged: {str(error).rstrip('.')}.") from None
