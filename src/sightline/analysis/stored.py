"""Attention on disk: all bands of a long document in a compact file, each weight within a stated error.

A weight a in [0, 1] is kept as the whole number q = round(Q·a^(1/1.8)) and read as (q/Q)^1.8, with Q = ⌈1.8 / 2ε⌉. The
error is at most ε everywhere (the slope of x^1.8 on [0, 1] is at most 1.8) and far less for small weights: at ε = 0.005
a weight of 0.002, the average in a window of 512, is off by 0.0003 at most. Rows sum to 1, so that most q are small:
of all distributions of weights in 513 slots with mean 1/513, the one of largest entropy needs 3.6 bits a slot, and
`archive` comes near the entropy. 12 layers of 12 heads, 4,096 tokens, window 512 therefore stay below 150 MB whatever
the weights, where float32 takes 1.2 GB and the full matrices 9.7 GB.

One layer is in memory at a time, when writing and when reading.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.analysis.archive import Archive, ArchiveWriter, writing
from sightline.analysis.source import AttentionSource, Floats, Progress, tracked
from sightline.attention import Attention, BandedAttention, DenseAttention
from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.text import Encoding
from sightline.trace import Layers

FORMAT = "sightline-attention"
VERSION = 1
WHAT = "attention"
POWER = 1.8
ERROR = 0.005

Quantised = npt.NDArray[np.uint8 | np.uint16]


def store_attention(
    source: AttentionSource, path: str | Path, *, error: float = ERROR, progress: Progress | None = None
) -> StoredAttention:
    """Write the attention of all layers and heads; no weight is off by more than `error` (0.00002 … 0.5)."""
    levels = _levels(error)
    measured, kinds = 0.0, []
    with writing(path) as archive:
        for number in tracked(range(source.layer_count), "storing attention", progress):
            attention = source.attentions[number]
            kinds.append(_facts(attention, number, archive))
            for name, weights in _parts(attention).items():
                stored = quantised(weights, levels)
                measured = max(measured, _largest_error(weights, stored, levels))
                archive.add(f"layer_{number}_{name}", stored)
        archive.add("received", source.received.astype(np.float32))
        archive.finish(
            FORMAT,
            VERSION,
            {
                "encoding": source.encoding.to_dict(),
                "heads": source.head_count,
                "layers": kinds,
                "levels": levels,
                "error": error,
                "measured_error": measured,
            },
        )
    return StoredAttention.load(path)


class StoredAttention:
    """An `AttentionSource` that reads its layers from a file when asked."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._kinds: list[dict[str, Any]] = archive.header["layers"]
        self._levels = int(archive.header["levels"])
        self.encoding: Encoding = Encoding.from_dict(archive.header["encoding"])
        """The document."""
        self.head_count = int(archive.header["heads"])
        """H."""
        self.error = float(archive.header["error"])
        """The largest error a weight could have."""
        self.measured_error = float(archive.header["measured_error"])
        """The largest error there is."""

    @classmethod
    def load(cls, path: str | Path) -> StoredAttention:
        """Open what `store_attention` wrote; layers are read later, when asked for."""
        archive = Archive(path, FORMAT, VERSION, WHAT)
        try:
            return cls(archive)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"'{path}' is damaged: {str(error).rstrip('.')}.") from None

    @property
    def layer_count(self) -> int:
        """L."""
        return len(self._kinds)

    @cached_property
    def attentions(self) -> Sequence[Attention]:
        """A^1 … A^L; few are kept in memory."""
        return Layers(self.layer_count, self._layer)

    @cached_property
    def received(self) -> Floats:
        """Attention received by every token, (L, H, n), as the model had it."""
        return self._archive.array("received")

    def __repr__(self) -> str:
        return f"StoredAttention({len(self.encoding)} tokens, {self.layer_count} layers, {self.head_count} heads)"

    def _layer(self, number: int) -> Attention:
        kind = self._kinds[number]

        def weights(name: str) -> Floats:
            return restored(self._archive.array(f"layer_{number}_{name}"), self._levels)

        if kind["kind"] == "banded":
            return BandedAttention(weights("local"), weights("global_rows"), np.array(kind["global_tokens"], np.int64))
        n = len(self.encoding)
        allowed = np.unpackbits(self._archive.array(f"layer_{number}_allowed"), count=n * n).reshape(n, n)
        return DenseAttention(weights("weights"), allowed.astype(np.bool_))


def quantised(weights: Floats, levels: int) -> Quantised:
    """Return round(Q · a^(1/1.8)) for weights a in [0, 1]."""
    smallest, largest = (float(one) for one in (weights.min(initial=0.0), weights.max(initial=0.0)))
    if smallest < 0 or largest > 1 + 1e-4:
        raise InputError(
            f"Weights of attention lie between 0 and 1, these between {smallest:.3g} and {largest:.3g}: gradients "
            "cannot be stored this way."
        )
    roots = np.power(weights.astype(np.float32, copy=False), np.float32(1 / POWER))
    np.multiply(roots, np.float32(levels), out=roots)
    np.rint(roots, out=roots)
    return np.minimum(roots, levels).astype(np.uint8 if levels < 256 else np.uint16)


def restored(stored: Quantised, levels: int) -> Floats:
    """Return the weights, float32."""
    table = (np.arange(levels + 1) / levels) ** POWER
    return np.asarray(table.astype(np.float32)[stored])


def _levels(error: float) -> int:
    if not 2e-5 <= error <= 0.5:
        raise OptionError(f"error = {error} is outside its range; it must lie between 0.00002 and 0.5.")
    return math.ceil(POWER / (2 * error))


def _largest_error(weights: Floats, stored: Quantised, levels: int) -> float:
    # Head by head: a difference of the whole layer would double the memory.
    pairs = zip(weights, stored, strict=True)
    return max((float(np.abs(restored(code, levels) - true).max(initial=0.0)) for true, code in pairs), default=0.0)


def _parts(attention: Attention) -> dict[str, Floats]:
    """The arrays of weights of one layer."""
    if isinstance(attention, BandedAttention):
        return {"local": attention.local.numpy(), "global_rows": attention.global_rows.numpy()}
    if isinstance(attention, DenseAttention):
        return {"weights": attention.weights.numpy()}
    raise UnsupportedError(f"Attention of type {type(attention).__name__} cannot be stored.")


def _facts(attention: Attention, number: int, archive: ArchiveWriter) -> dict[str, Any]:
    """What the header says of one layer; which positions a dense layer allows goes into an array of bits."""
    if isinstance(attention, BandedAttention):
        return {"kind": "banded", "global_tokens": attention.global_tokens.tolist()}
    allowed = np.stack([attention.allowed(i) for i in range(attention.tokens)])
    archive.add(f"layer_{number}_allowed", np.packbits(allowed))
    return {"kind": "dense"}
