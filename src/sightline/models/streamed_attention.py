"""Long documents of models that read all pairs of tokens: attention in chunks of rows, no (H, n, n) array kept.

From `STREAMED_TOKENS` tokens on, the observing attention function records queries, keys and values instead of weights.
Layers with a sliding window (ModernBERT: two of three) run on their band with the kernel of Longformer's; full layers
run the library's fused kernel, and their weights are recomputed, a chunk of rows at a time, when sums of them are
needed (`StreamedAttention`).

Memory O(n·d) per layer and one chunk, where weights take H·n² numbers: 3.2 GB per layer of base shape at 8,192 tokens.
Time: one more product q·kᵀ and softmax per operation and full layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from sightline.attention import Attention, BandedAttention
from sightline.attention.arrays import HALF
from sightline.attention.streamed import StreamedAttention
from sightline.models.longformer.band_kernel import BandPlan, window_attention, window_weight_gradient, window_weights
from sightline.models.longformer.record import window_sums
from sightline.models.recording import Recorder, Summary

STREAMED_TOKENS = 2048
"""Length from which weights are not kept: 200 MB per layer with 12 heads."""


@dataclass(frozen=True)
class StreamedRecord:
    """The attention of one layer for a padded batch; query, key and value (B, H, N, e), detached."""

    query: Tensor
    key: Tensor
    value: Tensor
    masked: Tensor | None
    """(B, N) bool: keys that no token attends to."""
    window: int | None
    """One-sided window of a sliding layer."""
    output: Tensor
    """Σ_j A_ij v_j (B, N, H, e), on the autograd path."""
    lengths: tuple[int, ...]
    layout: None = None
    probabilities: tuple[tuple[Tensor, ...], ...] = ()

    @torch.no_grad()
    def weights(self, document: int) -> Attention:
        """A of one document: a band in a sliding layer, else computed row by row."""
        if self.window is not None:
            plan = self._plan(document)
            return _band(window_weights(self._rows(self.query, document), self._rows(self.key, document), plan))
        query, key = (self._heads(batch, document) for batch in (self.query, self.key))
        masked = self._masked(document)
        query = query * query.shape[-1] ** -0.5

        def rows(heads: slice, start: int, stop: int) -> Tensor:
            scores = query[heads, start:stop] @ key[heads].transpose(1, 2)
            return torch.softmax(scores if masked is None else scores.masked_fill(masked, -torch.inf), dim=-1)

        return self._streamed(rows, query, key, masked)

    @torch.no_grad()
    def gradient(self, document: int, output_gradient: Tensor) -> Attention:
        """∂y/∂A^h_ij = ⟨∂y/∂o^h_i, v^h_j⟩ from ∂y/∂o (n, H, e) or (n, H·e)."""
        values = self.values(document)
        gradient = output_gradient.reshape(values.shape)
        if self.window is not None:
            return _band(window_weight_gradient(gradient, values, self._plan(document)))
        left, right = (_wide(tensor).transpose(0, 1) for tensor in (gradient, values))
        masked = self._masked(document)

        def rows(heads: slice, start: int, stop: int) -> Tensor:
            products = left[heads, start:stop] @ right[heads].transpose(1, 2)
            return products if masked is None else products.masked_fill(masked, 0)

        return self._streamed(rows, left, right, masked)

    @torch.no_grad()
    def summary(self, document: int, readout: Tensor, output_gradient: Tensor | None = None) -> Summary:
        """Sums of A, and of A ⊙ relu(∂y/∂A), in one sweep over the rows."""
        if self.window is not None:
            query, key, value = (self._rows(batch, document) for batch in (self.query, self.key, self.value))
            gradient = None if output_gradient is None else _wide(output_gradient).reshape(value.shape)
            sums = window_sums(query, key, value, self._plan(document), readout.to(query), gradient)
            return Summary(_band(sums.mean), sums.received, sums.rows, sums.gradient_received)
        weights = self.weights(document)
        assert isinstance(weights, StreamedAttention)
        if output_gradient is not None:
            positive = weights.multiply(self.gradient(document, output_gradient).relu()).received()
        received, row_sums = (torch.zeros(weights.heads, weights.tokens, dtype=self._dtype) for _ in range(2))
        for start, rows in weights.chunks():
            received += rows.sum(1)
            row_weights = readout[start : start + rows.shape[1]].to(rows)
            if bool(row_weights.any()):
                row_sums += torch.matmul(row_weights, rows)
        return Summary(
            mean=weights.mean(),
            received=received,
            rows=row_sums,
            gradient_received=None if output_gradient is None else torch.from_numpy(positive),
        )

    def values(self, document: int) -> Tensor:
        """v (n, H, e)."""
        return self._rows(self.value, document)

    def global_values(self, document: int) -> None:
        """None: every row mixes the same values."""

    def assemble(self, document: int, parts: Sequence[Tensor]) -> Attention:
        """Raise: relevance runs by ordinary operations, which keep the weights."""
        raise NotImplementedError("streamed attention is not on the autograd path")

    @property
    def _dtype(self) -> torch.dtype:
        return torch.float32 if self.query.dtype in HALF else self.query.dtype

    def _streamed(self, rows: Any, left: Tensor, right: Tensor, masked: Tensor | None) -> StreamedAttention:
        stored = left.nbytes + right.nbytes
        return StreamedAttention(rows, len(left), left.shape[1], self._dtype, masked, stored)

    def _heads(self, batch: Tensor, document: int) -> Tensor:
        """(H, n, e) in the precision of the weights."""
        return _wide(batch[document, :, : self.lengths[document]])

    def _rows(self, batch: Tensor, document: int) -> Tensor:
        """(n, H, e)."""
        return self._heads(batch, document).transpose(0, 1)

    def _masked(self, document: int) -> Tensor | None:
        masked = None if self.masked is None else self.masked[document, : self.lengths[document]].cpu()
        return None if masked is None or not bool(masked.any()) else masked

    def _plan(self, document: int) -> BandPlan:
        assert self.window is not None
        masked = self._masked(document)
        nothing = torch.zeros(self.lengths[document], dtype=torch.bool)
        return _window_plan(nothing if masked is None else masked, self.window, self._dtype)


def streams(module: nn.Module, query: Tensor, key: Tensor, recorder: Recorder | None) -> bool:
    """Whether attention of this call is not kept: long documents of models that read in both directions."""
    plain = recorder is not None and recorder.plain
    both_ways = not getattr(module, "is_causal", False) and query.shape[1] == key.shape[1]
    return both_ways and not plain and query.shape[2] == key.shape[2] >= STREAMED_TOKENS


def stream_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    sliding_window: int | None,
    recorder: Recorder | None,
) -> Tensor:
    """Return Σ_j A_ij v_j (B, N, H, e) of query, key and value (B, H, N, e), and record them if `recorder` is given.

    mask: (B, 1, N, N), added to the scores or boolean. sliding_window: w + 1, as the library passes it.
    """
    # A token attends to itself in every layer unless it is masked.
    masked = None
    if mask is not None:
        diagonal = mask[:, 0].diagonal(dim1=-2, dim2=-1)
        masked = (~diagonal if mask.dtype == torch.bool else diagonal != 0).expand(len(query), -1)
        masked = masked if bool(masked.any()) else None
    window = None if sliding_window is None else sliding_window - 1
    if window is None:
        output = _full_attention(query, key, value, masked).transpose(1, 2).contiguous()
    else:
        lengths = (query.shape[2],) * len(query) if recorder is None else recorder.lengths
        documents = []
        for document, n in enumerate(lengths):
            hidden = torch.zeros(n, dtype=torch.bool, device=query.device) if masked is None else masked[document, :n]
            q, k, v = (batch[document, :, :n].transpose(0, 1) for batch in (query, key, value))
            rows = window_attention(q, k, v, [_window_plan(hidden, window, query.dtype)])
            documents.append(pad(rows, (0, 0, 0, 0, 0, query.shape[2] - n)))
        output = torch.stack(documents)
    if recorder is not None:
        q, k, v = (tensor.detach() for tensor in (query, key, value))
        recorder.layers.append(StreamedRecord(q, k, v, masked, window, output, recorder.lengths))
    return output


def _full_attention(query: Tensor, key: Tensor, value: Tensor, masked: Tensor | None) -> Tensor:
    """Σ_j A_ij v_j (B, H, N, e); explicit in double precision, because the fused kernel's exponential is single."""
    if query.dtype != torch.float64:
        allowed = None if masked is None else ~masked[:, None, None]
        mixed: Tensor = scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        return mixed
    scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
    scores = scores if masked is None else scores.masked_fill(masked[:, None, None], -torch.inf)
    return torch.matmul(torch.softmax(scores, dim=-1), value)


def _window_plan(masked: Tensor, window: int, dtype: torch.dtype) -> BandPlan:
    nothing = torch.zeros(0, dtype=torch.long, device=masked.device)
    return BandPlan.make(nothing, masked, min(window, len(masked)), dtype)


def _band(local: Tensor) -> BandedAttention:
    heads, tokens, _ = local.shape
    return BandedAttention(local, local.new_zeros(heads, 0, tokens), torch.zeros(0, dtype=torch.long))


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in HALF else tensor
