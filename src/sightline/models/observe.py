"""Attention observed while a model of transformers runs: by its attention interface, or as its modules return it.

**One attention function for every family that uses transformers' attention interface.** While a recorder is active, it
computes A = softmax(q kᵀ·scale + mask) explicitly and records A, v and the output; else it calls the library's fused
kernel. Logits are the same either way up to single-precision rounding. Long documents are observed without keeping A
(`models/streamed_attention`).

**Families whose code does not call the interface.** DeBERTa and MPNet compute A = softmax(scores) in their
self-attention module and return it when they are asked for it (`output_attentions`). Hooks ask for it while a recorder
is active, and collect three tensors of the same run, all on the autograd path:

    A (B, H, N, N)      the second output of the self-attention module
    v (B, N, H·e)       the output of its value projection
    o (B, N, H·e)       Σ_j A_ij v_j, the input of the output projection

The scores may be anything: in DeBERTa they are sums of content-to-content, content-to-position and position-to-content
products (He et al. 2021). The mixing of values by A is the same as everywhere, and that is all that methods use. The
model's own code runs, so there is nothing to be verified but that A · v = o, which a test does.

The hooks stay on the module: a layer that runs again in a backward pass is observed as well. They keep no state
(copies of a module share them); what is collected belongs to the active recorder.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from sightline.attention import Attention, DenseAttention
from sightline.attention.projections import SOFTMAX, projection_of
from sightline.models.families import Family
from sightline.models.recording import Recorder, Summary, active_recorder
from sightline.models.streamed_attention import stream_attention, streams

OBSERVING = "sightline"
"""The name under which the observing function is registered with transformers."""


@dataclass
class DenseRecord:
    """Attention of one layer for a padded batch: weights (B, H, N, N), value (B, H, N, e), output (B, N, H, e)."""

    weight_batch: Tensor
    value_batch: Tensor
    output: Tensor
    mask: Tensor | None
    lengths: tuple[int, ...]
    layout: None = None

    def weights(self, document: int) -> Attention:
        """A of one document, (H, n, n), with the pairs that a sliding or causal mask allows."""
        n = self.lengths[document]
        return DenseAttention(self.weight_batch[document, :, :n, :n].detach(), allowed=self._allowed(document))

    def gradient(self, document: int, output_gradient: Tensor) -> Attention:
        """∂y/∂A^h_ij = ⟨∂y/∂o^h_i, v^h_j⟩ from ∂y/∂o (n, H, e) or (n, H·e); zero where the mask forbids a weight."""
        return DenseAttention(self._gradient(document, output_gradient), allowed=self._allowed(document))

    def summary(self, document: int, readout: Tensor, output_gradient: Tensor | None = None) -> Summary:
        """Sums of A, and of A ⊙ relu(∂y/∂A)."""
        n = self.lengths[document]
        weights = self.weight_batch[document, :, :n, :n].detach()
        return Summary(
            mean=DenseAttention(weights.mean(dim=0, keepdim=True), allowed=self._allowed(document)),
            received=weights.sum(dim=1),
            rows=torch.matmul(readout.to(weights), weights),
            gradient_received=None
            if output_gradient is None
            else (weights * self._gradient(document, output_gradient).relu_()).sum(dim=1),
        )

    def values(self, document: int) -> Tensor:
        """v (n, H, e)."""
        return self.value_batch[document, :, : self.lengths[document]].detach().transpose(0, 1)

    def global_values(self, document: int) -> None:
        """None: every row mixes the same values."""

    @property
    def probabilities(self) -> tuple[tuple[Tensor, ...], ...]:
        """A on the autograd path: the padded batch, the same for every document."""
        return ((self.weight_batch,),) * len(self.lengths)

    def assemble(self, document: int, parts: Sequence[Tensor]) -> Attention:
        """Cut one document out of a tensor shaped like the weights; zero where the mask forbids a weight."""
        n, allowed = self.lengths[document], self._allowed(document)
        cut = parts[0][document, :, :n, :n].detach()
        return DenseAttention(cut if allowed is None else cut * allowed, allowed=allowed)

    def gradient_parts(self, document: int, output_gradient: Tensor) -> Iterator[Tensor]:
        """∂y/∂A (1, H, N, N), zero at the padding."""
        padding = self.weight_batch.shape[-1] - self.lengths[document]
        yield nn.functional.pad(self._gradient(document, output_gradient), (0, padding, 0, padding))[None]

    def _gradient(self, document: int, output_gradient: Tensor) -> Tensor:
        values = self.values(document).transpose(0, 1)
        gradient = output_gradient.reshape(values.shape[1], values.shape[0], -1).transpose(0, 1)
        allowed = self._allowed(document)
        products = gradient @ values.transpose(1, 2)
        return products if allowed is None else products * allowed

    def _allowed(self, document: int) -> Tensor | None:
        """Return which pairs (n, n) the mask allows, or None if it allows all of them."""
        if self.mask is None:
            return None
        n = self.lengths[document]
        mask = self.mask[document if self.mask.shape[0] > 1 else 0, 0, :n, :n]
        allowed = mask if mask.dtype == torch.bool else mask == 0
        return None if bool(allowed.all()) else allowed


def observing_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention as the library does and pass it to the active recorder.

    Shapes: q (B, H, N, e); k, v (B, G, N, e), where each of the G heads serves H/G query heads (G = H in encoders).
    What is recorded has H heads: the values of a group are repeated. `position_bias` (1, H, N, N) is added to the
    scores (T5); `softcap` c bends them to c·tanh(scores/c) (Gemma 2).
    """
    recorder = active_recorder()
    observed = recorder is not None and recorder.attention
    projection = projection_of(module.config)
    plain_scores = position_bias is None and softcap is None and projection == SOFTMAX
    plain_scores = plain_scores and scaling in (None, query.shape[-1] ** -0.5)
    if plain_scores and not dropout and streams(module, query, key, recorder):
        window = kwargs.get("sliding_window")
        if observed or window is not None:
            given = recorder if observed else None
            return stream_attention(query, key, value, attention_mask, window, given), None
    # The fused kernel's exponential has single precision at best, so double precision is computed explicitly. It has no
    # bend for scores either.
    if not observed and query.dtype != torch.float64 and projection == SOFTMAX and softcap is None:
        fused: Any = AttentionInterface()["sdpa"]
        kwargs.pop("is_causal", None)
        if position_bias is not None:
            kwargs["position_bias"] = position_bias
        output, _ = fused(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=False, **kwargs
        )
        return output, None
    key, value = _repeat_heads(key, query.shape[1]), _repeat_heads(value, query.shape[1])
    scores = torch.matmul(query, key.transpose(2, 3)) * (scaling if scaling is not None else query.shape[-1] ** -0.5)
    if position_bias is not None:
        scores = scores + position_bias
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = nn.functional.softmax(scores, dim=-1) if projection == SOFTMAX else projection(scores)
    used = nn.functional.dropout(weights, dropout) if dropout else weights
    output = torch.matmul(used, value).transpose(1, 2).contiguous()
    if recorder is not None and recorder.attention:
        recorder.layers.append(DenseRecord(weights, value, output, attention_mask, recorder.lengths))
    return output, weights


def _repeat_heads(grouped: Tensor, heads: int) -> Tensor:
    """Return (B, H, N, e) from (B, G, N, e): head h of H belongs to group h·G/H."""
    groups = grouped.shape[1]
    if groups == heads:
        return grouped
    return grouped.unsqueeze(2).expand(-1, -1, heads // groups, -1, -1).flatten(1, 2)


# At import, because a model that was unpickled in another process needs them as well.
AttentionInterface.register(OBSERVING, observing_attention)
AttentionMaskInterface.register(OBSERVING, AttentionMaskInterface()["eager"])


MARK = "sightline_observed"


def observe_returned(layers: list[nn.Module], family: Family) -> None:
    """Add the hooks to every layer (idempotent)."""
    assert family.attention_module is not None
    for layer in layers:
        attention: Any = layer.get_submodule(family.attention_module)
        if getattr(attention, MARK, False):
            continue
        setattr(attention, MARK, True)
        attention.register_forward_pre_hook(_ask_for_weights, with_kwargs=True)
        attention.register_forward_hook(_take_weights)
        layer.get_submodule(family.value).register_forward_hook(_take_value)
        layer.get_submodule(family.attention_output).register_forward_pre_hook(_take_output)


def _observing() -> Recorder | None:
    recorder = active_recorder()
    return recorder if recorder is not None and recorder.attention else None


def _ask_for_weights(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    signature = inspect.signature(module.forward)
    if _observing() is None or "output_attentions" not in signature.parameters:
        return None
    call = signature.bind(*args, **kwargs)
    call.arguments["output_attentions"] = True
    return call.args, call.kwargs


def _take_weights(_module: nn.Module, _args: Any, output: tuple[Tensor, ...]) -> None:
    if len(output) > 1:  # not asked for otherwise
        _take("weights", output[1])


def _take_value(_module: nn.Module, _args: Any, output: Tensor) -> None:
    _take("value", output)


def _take_output(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
    _take("output", args[0])


def _take(name: str, tensor: Tensor) -> None:
    """Collect one of the three tensors; with the last of them, record the layer."""
    recorder = _observing()
    if recorder is None:
        return
    recorder.pending[name] = tensor
    if len(recorder.pending) == 3:
        weights, value, output = (recorder.pending.pop(part) for part in ("weights", "value", "output"))
        value = value.view(*value.shape[:2], weights.shape[1], -1).transpose(1, 2)
        recorder.layers.append(DenseRecord(weights, value, output, None, recorder.lengths))
