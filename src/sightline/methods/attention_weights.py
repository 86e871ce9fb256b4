"""Methods that read attention weights: alone, or weighed by the gradient of the target with respect to them.

Notation: A^l (H, n, n), ∂A^l = ∂y/∂A^l, Ā^l the fused heads, r the readout row as a weight vector (n,). Raw attention,
attention received and rollout are row vectors times operators, so a band is never turned into a matrix.

In a causal model token i attends to the tokens up to i, so early tokens lie on many more paths than late ones, and
rollout or flow favours them whatever the attention is. The receptive field of a token is measured by the same method on
attention that says nothing, every row spread evenly over what it may see:

    U^l_ij = 1/|V^l_i| for j in V^l_i, else 0;      s'_j ∝ s_j(A) / s_j(U), scaled to sum 1

where V^l_i are the tokens that token i may see in layer l: those up to i, or the last of them where the layer has a
sliding window. s' is flat exactly when the attention is even. Abnar & Zuidema 2020 treat bidirectional models only;
this correction is Sightline's own reading of "rescale by receptive field", and an option.

Effective attention is the part of attention that reaches the output. Head h writes A^h T^h into its layer, with
T^h = v^h W_O^h (n, d) what it reads from each token. A part of A that T cancels, ãᵀT = 0, changes nothing that follows,
so weights are determined only up to the left null space of T. The effective attention is what is left without it:

    A_eff = A − P(A),   P the projection of every row on the left null space of T,     A_eff T = A T

T has rank at most e, the width of a head. With n ≤ e tokens (and T of full rank) the null space is empty and
A_eff = A; in longer documents a part of dimension n − e is removed. Rows of A_eff need not sum to 1, and weights may be
negative. Brunner et al. 2020, "On Identifiability in Transformers". O(H·n²·e) time per layer, H·n² numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.attention import Attention, BandedAttention, DenseAttention
from sightline.attention.arrays import check_dense_size
from sightline.attention.protocol import DENSE_LIMIT
from sightline.errors import OptionError
from sightline.methods.layer_kind import LayerKind
from sightline.methods.registry import Array, Attribution, Check, method
from sightline.passes.forward import Need
from sightline.passes.trace import Trace
from sightline.settings.values import check_head, check_layer


@method(
    "grads",
    title="Attention gradient",
    kind="gradients",
    summary="Gradient with respect to the last layer's attention, in the readout row, averaged over heads.",
    formula="s_j = mean_h ∂y/∂A^{L,h}_rj",
    citation="baseline of Qiang et al. 2022 (AttCAT)",
    needs={"attention_gradients"},
    signed=True,
    class_specific=True,
    cost="one forward and one backward pass",
    use="Use it as the gradient-only half of attgrads.",
    avoid="Avoid relying on it alone: it shows what a change of attention would do, not what attention carried.",
)
def grads(trace: Trace, *, layer: int = -1) -> Array:
    """Readout row of the head mean of ∂A in one layer."""
    chosen = check_layer(layer, trace.layer_count)
    scores: Array = trace.attention_gradients[chosen].mean().left(trace.readout)[0]
    return scores


@method(
    "attgrads",
    title="Grad-SAM",
    kind="gradients",
    summary="Attention times the positive part of its gradient, averaged over layers, heads and rows.",
    formula="s_j = mean_{l,h,i} (A^l ⊙ relu(∂y/∂A^l))_{h,i,j}",
    citation="Barkan et al. 2021 (Grad-SAM)",
    needs={"attention_gradients"},
    signed=False,
    class_specific=True,
    cost="one forward and one backward pass",
    use="Use it as a class-specific view of the tokens from which attention draws evidence.",
    avoid="Avoid it for finding evidence against the class: negative gradients are dropped.",
    zeros_mean="no attention weight has a positive gradient",
)
def attgrads(trace: Trace) -> Attribution:
    """Column means of A⊙relu(∂A)."""
    layers = trace.gradient_received.mean(axis=1) / trace.token_count
    scores = layers.mean(axis=0)
    return Attribution(scores, layers=layers, layer_kind="averaged")


@method(
    "attention_gradcam",
    title="Attention Grad-CAM",
    kind="gradients",
    summary="Positive part of the last layer's heads, weighted by their mean gradient, in the readout row.",
    formula="w_h = mean_ij ∂y/∂A^{L,h}_ij; s_j = relu(mean_h w_h A^{L,h}_rj)",
    citation="Chefer et al. 2021, after Selvaraju et al. 2017",
    needs={"attention_gradients"},
    signed=False,
    class_specific=True,
    cost="one forward and one backward pass",
    use="Use it as a coarse class-specific attention map.",
    avoid="Avoid it when all head weights may be negative: every score is then zero.",
    zeros_mean="the heads' mean gradients count against the target",
)
def attention_gradcam(trace: Trace, *, layer: int = -1) -> Array:
    """Heads of one layer weighted by their mean gradient; zeros when every weighted entry is negative."""
    chosen = check_layer(layer, trace.layer_count)
    weights = trace.attention_gradients[chosen].received().sum(axis=1) / trace.token_count**2
    rows = trace.readout_rows[chosen]
    scores: Array = np.maximum((weights[:, None] * rows).mean(axis=0), 0)
    return scores


Fusion = Literal["mean", "max", "min"]


def fuse(attention: Attention, fusion: Fusion, weights: Array | None = None) -> Attention:
    """Return one head made of all: their (weighted) mean, maximum or minimum."""
    if weights is not None and fusion != "mean":
        raise OptionError(f"Head weights go with fusion='mean', not '{fusion}'.")
    if fusion == "mean":
        return attention.mean(weights)
    return attention.max() if fusion == "max" else attention.min()


def fuse_layers(
    trace: Trace,
    fusion: Fusion = "mean",
    head_weights: Sequence[Sequence[float]] | None = None,
    effective: bool = False,
) -> list[Attention]:
    """Fuse the heads of every layer; `head_weights` (L, H) weigh them (for example by head importance).

    effective: of the attention that has an effect (`effective_layers`), on short documents.
    """
    weights = None
    if head_weights is not None:
        weights = np.asarray(head_weights, dtype=float)
        if weights.shape != (trace.layer_count, trace.head_count):
            raise OptionError(
                f"Head weights must have the shape (layers, heads) = ({trace.layer_count}, {trace.head_count}), "
                f"not {weights.shape}."
            )
        if (weights < 0).any():
            raise OptionError("Head weights say how much a head counts, so none of them may be below 0.")
    if weights is None and fusion == "mean" and not effective:
        return trace.mean_attentions
    layers = layers_of(trace, effective)
    return [fuse(layer, fusion, None if weights is None else weights[at]) for at, layer in enumerate(layers)]


def layers_of(trace: Trace, effective: bool) -> Sequence[Attention]:
    """Return the attention of every layer, all heads; only that which has an effect if `effective`."""
    return trace.once("effective_layers", lambda: effective_layers(trace)) if effective else trace.attentions


def needs_of_fused(options: dict[str, Any]) -> set[Need]:
    """Return what fused attention needs: the values as well if it is to be effective."""
    return {"attentions", "blocks"} if options["effective"] else {"attentions"}


def _check_fusion_has_effect(head: int | None, fusion: Fusion, head_weights: Sequence[Sequence[float]] | None) -> None:
    """Raise OptionError if heads are to be fused although a single one is chosen."""
    if head is not None and (fusion != "mean" or head_weights is not None):
        raise OptionError(
            "head= chooses one head, so there is nothing to fuse: leave out fusion= and head_weights=, or head=."
        )


@method(
    "raw_attention",
    title="Raw attention",
    kind="attention",
    summary="Attention paid by the readout row in one layer (the last by default), averaged over heads.",
    formula="s_j = Ā^L_rj",
    citation="Vaswani et al. 2017; Jain & Wallace 2019",
    needs={"attentions"},
    signed=False,
    class_specific=False,
    cost="one forward pass",
    use="Use it as the simplest view of what one layer attends to.",
    avoid="Avoid it as an explanation: the values may carry nothing, and lower layers have already mixed the tokens.",
)
def raw_attention(
    trace: Trace,
    *,
    layer: int = -1,
    head: int | None = None,
    fusion: Fusion = "mean",
    head_weights: Sequence[Sequence[float]] | None = None,
) -> Attribution:
    """Row r of A in one layer, of one head or of all fused; `layers` holds the same for every layer."""
    chosen = check_layer(layer, trace.layer_count)
    _check_fusion_has_effect(head, fusion, head_weights)
    if head is not None:
        layers = trace.readout_rows[:, check_head(head, trace.head_count)]
    elif fusion == "mean" and head_weights is None:
        layers = trace.readout_rows.mean(axis=1)  # known from the sweep over the weights
    else:
        layers = np.stack([fused.left(trace.readout)[0] for fused in fuse_layers(trace, fusion, head_weights)])
    return Attribution(layers[chosen], layers=layers, layer_kind="separate")


@method(
    "received_attention",
    title="Received attention",
    kind="attention",
    summary="Attention that each token receives from all tokens, averaged over heads and summed over layers.",
    formula="s_j = Σ_l Σ_i Ā^l_ij",
    citation="Clark et al. 2019 (attention to tokens, averaged)",
    needs={"attentions"},
    signed=False,
    class_specific=False,
    cost="one forward pass",
    use="Use it to find attention sinks and the tokens on which attention concentrates in a long document.",
    avoid="Avoid it for explaining one prediction: it depends on neither the readout nor the class.",
)
def received_attention(
    trace: Trace,
    *,
    layers: Literal["all", "lower", "upper"] | int = "all",
    head: int | None = None,
    fusion: Fusion = "mean",
    head_weights: Sequence[Sequence[float]] | None = None,
) -> Attribution:
    """Column sums, of one head or of all fused; over all layers, the lower or upper half, or one layer."""
    _check_fusion_has_effect(head, fusion, head_weights)
    if head is not None:
        per_layer = trace.received[:, check_head(head, trace.head_count)]
    elif fusion == "mean" and head_weights is None:
        per_layer = trace.received.mean(axis=1)  # known from the sweep over the weights
    else:
        per_layer = np.stack([fused.received()[0] for fused in fuse_layers(trace, fusion, head_weights)])
    half = trace.layer_count // 2
    if not isinstance(layers, str):
        chosen = per_layer[check_layer(layers, trace.layer_count)]
    else:
        # A single layer is both its lower and its upper half.
        part = {"all": per_layer, "lower": per_layer[: half or 1], "upper": per_layer[half:]}[layers]
        chosen = part.sum(axis=0)
    return Attribution(chosen, layers=per_layer, layer_kind="additive" if layers == "all" else "separate")


def rollout_rows(layers: Sequence[Attention], rows: Array, *, residual: bool = True) -> Array:
    """Multiply row vectors by Â^L … Â^1 from the top: R = rows · Π Â^l, with Â = (A + I)/2 scaled to row sums of 1.

    layers: one-head operators, bottom first; rows (n,). Returns (n,). O(L·nnz), never n×n.
    Without `residual` the operators are used as they are, only scaled to row sums of 1.
    """
    vector = np.asarray(rows, dtype=float)
    for attention in reversed(layers):
        sums = attention.right(np.ones(attention.tokens))[0]
        if residual:
            scaled = vector / (sums + 1.0)
            vector = attention.left(scaled)[0] + scaled
        else:
            scaled = np.divide(vector, sums, out=np.zeros_like(vector), where=sums != 0)
            vector = attention.left(scaled)[0]
    return vector


@method(
    "rollout",
    title="Attention rollout",
    kind="attention",
    summary="Attention multiplied through all layers, residual connections included, for the readout row.",
    formula="Â = (Ā + I)/2 with rows that sum to 1; s = r · Â^L ⋯ Â^1",
    citation="Abnar & Zuidema 2020",
    needs=needs_of_fused,
    signed=False,
    class_specific=False,
    cost="one forward pass, then O(L·nnz)",
    use="Use it to see how attention mixes tokens across layers at almost no cost.",
    avoid="Avoid it for telling classes apart: the scores are the same for every class, and deep models flatten them.",
)
def rollout(
    trace: Trace,
    *,
    fusion: Fusion = "mean",
    layer: int = -1,
    head: int | None = None,
    residual: bool = True,
    head_weights: Sequence[Sequence[float]] | None = None,
    receptive_field: bool = False,
    effective: bool = False,
) -> Attribution:
    """Row r of R^layer; `layers` holds the row of every R^l.

    With `head` k the top step is A(layer, k) alone, without residual, times the rollout of the layers below it
    (the single-head form of the paper's appendix). `receptive_field` is for causal models, where early tokens are seen
    by more others: scores are divided by those of even attention and scaled to sum 1. `effective` follows the attention
    that has an effect (Brunner et al. 2020), negative weights as 0; it differs in texts longer than a head is wide.
    """
    top = check_layer(layer, trace.layer_count)
    checks = causal_checks(trace, "rollout", receptive_field)
    first = None
    if head is not None:
        alone = layers_of(trace, effective)[top].head(check_head(head, trace.head_count))
        first = alone.left(trace.readout)[0]
    scores, rows = _roll_out(fuse_layers(trace, fusion, head_weights, effective), trace.readout, top, first, residual)
    if receptive_field:
        even = [even_attention(attention) for attention in trace.mean_attentions]
        even_first = None if first is None else even[top].left(trace.readout)[0]
        even_scores, even_rows = _roll_out(even, trace.readout, top, even_first, residual)
        scores, rows = rescale_by_field(scores, even_scores), rescale_by_field(rows, even_rows)
    cumulative = head is None and top == trace.layer_count - 1
    kind: LayerKind = "cumulative" if cumulative else "separate"
    return Attribution(scores, layers=rows, checks=checks, layer_kind=kind)


def _roll_out(
    layers: Sequence[Attention], readout: Array, top: int, first: Array | None, residual: bool
) -> tuple[Array, Array]:
    """The readout row (n,) of R^top, or the row `first` times the layers below it; and that of every R^l, (L, n)."""
    rows = np.stack([rollout_rows(layers[: layer + 1], readout, residual=residual) for layer in range(len(layers))])
    return (rows[top] if first is None else rollout_rows(layers[:top], first, residual=residual)), rows


def sum_to_one(scores: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return scores / Σ scores, none below 0; all-zero scores stay zero."""
    total = scores.sum()
    share: NDArray[np.floating[Any]] = scores / total if total else scores
    return share


def causal_checks(trace: Trace, name: str, receptive_field: bool) -> dict[str, Check]:
    """Return the check `causal`, warn where scores of a causal model stay as they are; refuse the option elsewhere."""
    causal = trace.causal
    if receptive_field and not causal:
        raise OptionError(
            f"The option 'receptive_field' of '{name}' is for causal models; in this model, tokens attend in both "
            "directions."
        )
    if causal and not receptive_field:
        warnings.warn(
            f"In a causal model {name} favours early tokens, which more tokens can see; "
            "receptive_field=true divides by what even attention would give.",
            stacklevel=3,
        )
    return {"causal": True} if causal else {}


def even_attention(attention: Attention) -> Attention:
    """U of one layer as an operator of one head: every row spread evenly over the tokens it may attend to."""
    seen = torch.from_numpy(np.stack([attention.allowed(i) for i in range(attention.tokens)])).double()
    return DenseAttention((seen / seen.sum(dim=1, keepdim=True))[None])


def rescale_by_field(scores: Array, even: Array) -> NDArray[np.float64]:
    """s / s(U) scaled to sum 1, for scores (n,) or rows of them (L, n); 0 where even attention brings nothing."""
    ratios = np.divide(scores, even, out=np.zeros(scores.shape), where=even > 0)
    shares: NDArray[np.float64] = np.apply_along_axis(sum_to_one, -1, ratios)
    return shares


Values = npt.NDArray[np.float64]


def effective_attention(trace: Trace, layer: int) -> Values:
    """Return A_eff of every head of one layer, (H, n, n); refuses documents whose matrices would not fit.

    Where rows of global tokens read values of their own (Longformer), each row loses the null space of what it reads.
    """
    layer = check_layer(layer, trace.layer_count)
    check_dense_size(trace.head_count, trace.token_count, np.dtype(np.float64).itemsize, DENSE_LIMIT)
    attention, parts = trace.attentions[layer], trace.block(layer)
    weights = np.asarray(attention.dense(), dtype=np.float64)
    effective = _project(weights, parts.values, parts.weights.output_weight)
    if parts.global_values is not None and isinstance(attention, BandedAttention):
        rows = attention.global_tokens.numpy()
        effective[:, rows] = _project(weights[:, rows], parts.global_values, parts.weights.output_weight)
    return effective


def effective_layers(trace: Trace) -> list[Attention]:
    """Return the effective attention of every layer as weights that can be followed through layers.

    Negative weights, which neither a mixture nor a capacity can have, count as 0, and rows are scaled to sum 1 again.
    """
    layers: list[Attention] = []
    for layer in range(trace.layer_count):
        weights = np.maximum(effective_attention(trace, layer), 0)
        sums = weights.sum(axis=-1, keepdims=True)
        layers.append(DenseAttention(np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)))
    return layers


def _project(weights: Values, values: Tensor, output_weight: Tensor) -> Values:
    """Project rows (H, m, n) on the column space of T^h = v^h W_O^h; values (n, H, e), output_weight (d, H·e)."""
    by_head = values.detach().double().transpose(0, 1)  # (H, n, e)
    heads, _, inner = by_head.shape
    projections = output_weight.detach().double().T.reshape(heads, inner, -1)  # (H, e, d)
    # T = V W has the column space and the singular values of V Rᵀ, where Wᵀ = Q R: (n, e) instead of (n, d).
    triangle = torch.linalg.qr(projections.transpose(1, 2), mode="r").R
    basis, sizes, _ = torch.linalg.svd(by_head @ triangle.transpose(1, 2), full_matrices=False)
    tolerance = sizes[:, :1] * max(values.shape[0], output_weight.shape[0]) * torch.finfo(torch.float64).eps
    basis = (basis * (sizes > tolerance)[:, None, :]).numpy()  # (H, n, r), columns of directions below rounding are 0
    return np.asarray(weights @ basis @ basis.transpose(0, 2, 1))
