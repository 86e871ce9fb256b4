"""Messages between the server and its worker: a JSON header and named byte strings, nothing that could execute.

Layout: 4 bytes length of the header (little-endian) · header, UTF-8 JSON · the parts, one after the other. The header's
"parts" lists [name, length] in order. The server hands parts on to browsers as they are and never parses them, which
keeps its event loop free however large a result is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Frame:
    """One message: what it is (`kind`), plain facts, and byte strings by name."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, bytes] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the message as bytes."""
        listed = [[name, len(part)] for name, part in self.parts.items()]
        header = json.dumps({"kind": self.kind, "facts": dict(self.facts), "parts": listed}, allow_nan=False).encode()
        return b"".join((_LENGTH.pack(len(header)), header, *self.parts.values()))

    @classmethod
    def unpack(cls, data: bytes) -> Frame:
        """Read what `pack` wrote."""
        (length,) = _LENGTH.unpack_from(data)
        start = _LENGTH.size + length
        header = json.loads(data[_LENGTH.size : start])
        parts = {}
        for name, size in header["parts"]:
            parts[name] = data[start : start + size]
            start += size
        if start != len(data):
            raise ValueError(f"a message of {len(data)} bytes announces {start}")
        return cls(header["kind"], header["facts"], parts)
