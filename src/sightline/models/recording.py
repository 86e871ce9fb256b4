"""What one forward pass shows, and the switch that makes the attention functions show it.

A `Recorder` is handed to the pass through a context variable, so that the observing attention function (and the banded
Longformer encoder) find it without any change to the library's signatures. With no recorder active nothing is kept
and the fastest attention is used.

Shapes: B documents, N tokens of the longest, n of this one, H heads, e width of a head, d = H·e.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from sightline.attention import Attention


class Layout(Protocol):
    """Where the rows of each document lie in a batch tensor."""

    def cut(self, tensor: Tensor, document: int) -> Tensor:
        """Return the rows of one document, (n, ...), without padding."""


@dataclass(frozen=True)
class Padded:
    """Documents stacked and padded on the right: (B, N, ...)."""

    lengths: tuple[int, ...]

    def cut(self, tensor: Tensor, document: int) -> Tensor:
        """Rows of one document, (n, ...)."""
        return tensor[document, : self.lengths[document]]


@dataclass(frozen=True)
class Packed:
    """Documents laid end to end without padding: (sum of lengths, ...)."""

    lengths: tuple[int, ...]

    def cut(self, tensor: Tensor, document: int) -> Tensor:
        """Rows of one document, (n, ...)."""
        start = sum(self.lengths[:document])
        return tensor[start : start + self.lengths[document]]


@dataclass(frozen=True)
class Summary:
    """What most methods need of one layer's attention, made without laying the band out."""

    mean: Attention
    """The mean of the heads."""
    received: Tensor
    """Column sums, (H, n)."""
    rows: Tensor
    """The readout rows: readout · A, (H, n)."""
    gradient_received: Tensor | None
    """Column sums of A ⊙ relu(∂y/∂A), (H, n), where a gradient was given."""


class LayerRecord(Protocol):
    """What the attention of one layer left behind, for the whole batch."""

    @property
    def output(self) -> Tensor:
        """Σ_j A_ij v_j before the output projection, on the autograd path, in `layout`: (..., H·e)."""

    @property
    def layout(self) -> Layout | None:
        """Layout of `output` where it differs from the recorder's (a layer evaluated for few rows), else None."""

    def weights(self, document: int) -> Attention:
        """The attention weights A of one document, made on demand."""

    def gradient(self, document: int, output_gradient: Tensor) -> Attention:
        """∂y/∂A of one document from ∂y/∂output (n, H·e): ∂y/∂A^h_ij = ⟨∂y/∂o^h_i, v^h_j⟩."""

    def summary(self, document: int, readout: Tensor, output_gradient: Tensor | None = None) -> Summary:
        """Sums of A, and of A ⊙ relu(∂y/∂A) given ∂y/∂output as for `gradient`; readout (n,) weighs the rows."""

    def values(self, document: int) -> Tensor:
        """The value vectors v (n, H, e), bias included."""

    def global_values(self, document: int) -> Tensor | None:
        """The value vectors that rows of global tokens mix, where they have their own (Longformer), else None."""

    @property
    def probabilities(self) -> tuple[tuple[Tensor, ...], ...]:
        """A of every document on the autograd path, in parts; empty where a kernel kept it off the path."""

    def assemble(self, document: int, parts: Sequence[Tensor]) -> Attention:
        """Lay tensors shaped like `probabilities[document]` (gradients or relevances of them) out as an operator."""


@dataclass
class Recorder:
    """Collects what one pass shows; filled by the network while the context `recording(recorder)` is open."""

    lengths: tuple[int, ...] = ()
    """Real tokens of each document of the batch."""
    attention: bool = True
    """Keep attention records."""
    readout_only: bool = False
    """The last layer may be evaluated for the readout rows alone (then `hidden` has no entry for its output)."""
    blocks: bool = False
    """Keep what the attention blocks put out."""
    layers: list[LayerRecord] = field(default_factory=list)
    """One record a layer, bottom first."""
    hidden: list[Tensor] = field(default_factory=list)
    """x^0 … x^L on the autograd path: the input of every layer, then the output of the last (missing when partial)."""
    block_outputs: list[Tensor] = field(default_factory=list)
    """y of every layer's attention block, residual and (post-LN) LayerNorm included."""
    second_inputs: list[Tensor] = field(default_factory=list)
    """What every layer's second LayerNorm received."""
    layout: Layout | None = None
    """Layout of `hidden`, of what the blocks put out and of the records' outputs."""
    embeddings: Tensor | None = None
    """Word embeddings (B, N, ·), the leaf of the autograd path; always padded."""


_ACTIVE: ContextVar[Recorder | None] = ContextVar("sightline_recorder", default=None)


def active_recorder() -> Recorder | None:
    """Return the recorder of the pass under way, if any."""
    return _ACTIVE.get()


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Make `recorder` the active one for the passes inside the `with` block."""
    token = _ACTIVE.set(recorder)
    try:
        yield recorder
    finally:
        _ACTIVE.reset(token)
