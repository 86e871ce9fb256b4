"""What one forward pass records, and the switch that turns recording on.

The `Recorder` of a pass is a context variable, so that the observing attention function and the banded Longformer
encoder find it without any change to the library's signatures. With no active recorder, nothing is recorded and the
fastest attention is used.

Shapes: B documents, N tokens of the longest, n of this one, H heads, e width of a head, d = H·e.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

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
    """Sums of one layer's attention that most methods need, computed without laying the band out."""

    mean: Attention
    """The mean of the heads."""
    received: Tensor
    """Column sums, (H, n)."""
    rows: Tensor
    """The readout rows: readout · A, (H, n)."""
    gradient_received: Tensor | None
    """Column sums of A ⊙ relu(∂y/∂A), (H, n), where a gradient was given."""


class LayerRecord(Protocol):
    """The recorded attention of one layer, for the whole batch."""

    @property
    def output(self) -> Tensor:
        """Σ_j A_ij v_j before the output projection, on the autograd path, in `layout`: (..., H·e)."""

    @property
    def layout(self) -> Layout | None:
        """Layout of `output` where it differs from the recorder's (a layer evaluated for few rows), else None."""

    def weights(self, document: int) -> Attention:
        """Return the attention weights A of one document, computed on demand."""

    def gradient(self, document: int, output_gradient: Tensor) -> Attention:
        """Return ∂y/∂A of one document from ∂y/∂output (n, H·e): ∂y/∂A^h_ij = ⟨∂y/∂o^h_i, v^h_j⟩."""

    def summary(self, document: int, readout: Tensor, output_gradient: Tensor | None = None) -> Summary:
        """Return sums of A, and of A ⊙ relu(∂y/∂A) given ∂y/∂output as in `gradient`; readout (n,) weights the rows."""

    def values(self, document: int) -> Tensor:
        """Return the value vectors v (n, H, e), bias included."""

    def global_values(self, document: int) -> Tensor | None:
        """Return the value vectors that rows of global tokens mix if they differ (Longformer), else None."""

    @property
    def probabilities(self) -> tuple[tuple[Tensor, ...], ...]:
        """A of every document on the autograd path, in parts; empty where a kernel kept it off the path."""

    def assemble(self, document: int, parts: Sequence[Tensor]) -> Attention:
        """Return tensors shaped like `probabilities[document]` (their gradients or relevances) as an operator.

        Instead of all heads they may hold one number for all of them, such as the mean.
        """


class PlainLayerRecord(LayerRecord, Protocol):
    """The attention of one layer that ran by ordinary operations, as it does when relevance is propagated."""

    def gradient_parts(self, document: int, output_gradient: Tensor) -> Iterator[Tensor]:
        """Yield ∂y/∂A in the parts of `probabilities[document]`, from ∂y/∂output as in `gradient`.

        The axis of heads is the third from the end. Entries of pairs that may not attend mean nothing.
        """


@dataclass
class Recorder:
    """Collects what one pass computes; the network fills it inside the context `recording(recorder)`."""

    lengths: tuple[int, ...] = ()
    """Real tokens of each document of the batch."""
    attention: bool = True
    """Whether to record attention."""
    plain: bool = False
    """Whether attention must run by ordinary operations, with its weights on the autograd path."""
    readout_only: bool = False
    """Whether the last layer may be evaluated for the readout rows only (`hidden` then lacks its output)."""
    blocks: bool = False
    """Whether to record the outputs of the attention blocks."""
    layers: list[LayerRecord] = field(default_factory=list)
    """One record per layer, bottom first."""
    hidden: list[Tensor] = field(default_factory=list)
    """x^0 … x^L on the autograd path: the input of every layer, then the output of the last (missing when partial)."""
    block_outputs: list[Tensor] = field(default_factory=list)
    """y of every layer's attention block, residual and (post-LN) LayerNorm included."""
    second_inputs: list[Tensor] = field(default_factory=list)
    """Input of the second LayerNorm of every layer."""
    layout: Layout | None = None
    """Layout of `hidden`, of `block_outputs` and of the outputs of `layers`."""
    pending: dict[str, Tensor] = field(default_factory=dict)
    """Parts of the layer that is running, where they are collected one by one (`observe.observe_returned`)."""
    embeddings: Tensor | None = None
    """Word embeddings (B, N, ·), the leaf of the autograd path; always padded."""

    @property
    def needs_readout_only(self) -> bool:
        """Whether nothing of the last layer is wanted but what the readout rows become."""
        return self.readout_only and not (self.attention or self.blocks)

    def cut(self, tensor: Tensor, document: int) -> Tensor:
        """Return the rows of one document of a tensor in `layout`."""
        assert self.layout is not None
        return self.layout.cut(tensor, document)

    def check_complete(self, layers: int) -> None:
        """Raise RuntimeError unless each of so many layers was recorded: a missing one would shift all results."""
        if self.attention and len(self.layers) != layers:
            raise RuntimeError(f"attention of {len(self.layers)} of {layers} layers was recorded")
        if len(self.hidden) not in ({layers, layers + 1} if self.readout_only else {layers + 1}):
            raise RuntimeError(f"{len(self.hidden)} hidden states were recorded for {layers} layers")


@contextmanager
def with_attribute(owner: Any, name: str, value: object) -> Iterator[None]:
    """Give an attribute of `owner` another value inside the block; one that it lacks is None afterwards."""
    before = getattr(owner, name, None)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


_ACTIVE: ContextVar[Recorder | None] = ContextVar("sightline_recorder", default=None)


def active_recorder() -> Recorder | None:
    """Return the recorder of the running pass, or None."""
    return _ACTIVE.get()


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Make `recorder` the active one for the passes inside the `with` block."""
    token = _ACTIVE.set(recorder)
    try:
        yield recorder
    finally:
        _ACTIVE.reset(token)
