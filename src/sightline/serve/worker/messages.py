"""Messages between the server and its worker: a JSON header and named byte strings; reading one executes nothing.

Layout: length of the header (4 bytes, little-endian) · header (UTF-8 JSON) · the parts, concatenated. The header's
"parts" lists [name, length] in order. The server forwards parts to browsers without parsing them, so its event loop
stays responsive however large a result is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Message:
    """One message: its `kind`, JSON-serialisable facts, and byte strings by name."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, bytes] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the message as bytes."""
        lengths = [[name, len(part)] for name, part in self.parts.items()]
        header = json.dumps({"kind": self.kind, "facts": dict(self.facts), "parts": lengths}, allow_nan=False).encode()
        return b"".join((_LENGTH.pack(len(header)), header, *self.parts.values()))

    @classmethod
    def unpack(cls, data: bytes) -> Message:
        """Return the message that `pack` encoded."""
        (length,) = _LENGTH.unpack_from(data)
        start = _LENGTH.size + length
        header = json.loads(data[_LENGTH.size : start])
        parts = {}
        for name, size in header["parts"]:
            parts[name] = data[start : start + size]
            start += size
        if start != len(data):
            raise ValueError(f"The message has {len(data)} bytes; its header announces {start}.")
        return cls(header["kind"], header["facts"], parts)
