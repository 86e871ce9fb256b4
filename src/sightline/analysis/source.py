"""Source of attention: the part of a trace that maps, relations and totals need, and the check of head weights.

Shapes: n tokens, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.attention import Attention, BandedAttention
from sightline.errors import InputError
from sightline.progress import Progress
from sightline.text import Encoding

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Booleans: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T")


class AttentionSource(Protocol):
    """What a Trace offers the functions of this package."""

    @property
    def encoding(self) -> Encoding:
        """The document."""

    @property
    def layer_count(self) -> int:
        """L."""

    @property
    def head_count(self) -> int:
        """H."""

    @property
    def attentions(self) -> Sequence[Attention]:
        """A^1 … A^L, made on demand."""

    @property
    def received(self) -> Floats:
        """Attention received by every token, summed over rows, (L, H, n)."""


def is_banded(source: AttentionSource) -> bool:
    """Return whether attention is a window plus global tokens (Longformer)."""
    return isinstance(source.attentions[0], BandedAttention)


def check_head_weights(weights: npt.ArrayLike | None, layers: int, heads: int) -> npt.NDArray[np.float64]:
    """Return head weights (L, H), all 1 for None ("unscaled"); raise InputError if the shape or a value is wrong."""
    if weights is None:
        return np.ones((layers, heads))
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (layers, heads):
        raise InputError(f"Head weights have shape {array.shape}; the model has {layers} layers of {heads} heads.")
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError("Head weights must be finite and not negative; head_importance() gives such weights.")
    return array


def weighted_mean(values: Floats, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return Σ_h w_h·v_h / Σ_h w_h over the first axis; 0 where all weights are 0."""
    total = weights.sum()
    if total == 0:
        return np.zeros(values.shape[weights.ndim :])
    return np.tensordot(weights / total, values, axes=weights.ndim)


def track(items: Sequence[T], stage: str, progress: Progress | None) -> Iterator[T]:
    """Yield the items one by one and report to `progress` how many are done."""
    for done, item in enumerate(items):
        if progress is not None:
            progress(stage, done, len(items))
        yield item
    if progress is not None:
        progress(stage, len(items), len(items))
