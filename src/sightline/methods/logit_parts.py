"""Decompositions of the logit by tokens: DecompX and ALTI-Logit. Signed, class-specific, and they add up.

The target is a sum of parts that belong to rows of single layers: what a bias, a feed-forward block or an attention
block adds there. A row of layer l is a mixture of tokens, R^l = C^l ⋯ C^1 (`matrices`), and its parts are shared out
accordingly. As a row vector from the top, so that no matrix of two tokens is made,

    u ← 0;  for l = L … 1:  u ← (u + after^l) · C^l + before^l;  s = u + what belongs to the tokens themselves

with after^l the parts of the rows of layer l behind its attention and before^l those in front of it. The rows of C sum
to 1, so Σ s is the sum of all parts. For log-odds, the sum is Σ_j w_j z_j with w = ∂y/∂z fixed at the prediction, which
for two classes is y.
"""

from __future__ import annotations

import numpy as np
import torch

from sightline.methods.alti import mixing_step
from sightline.methods.decomposition.block import (
    DecompositionKind,
    attention_block,
    check_reconstruction,
    project_updates,
)
from sightline.methods.decomposition.slopes import linear_parts
from sightline.methods.registry import Array, Attribution, method
from sightline.passes.trace import Trace


def share_out(trace: Trace, kind: DecompositionKind, before: Array, after: Array) -> Array:
    """Return the parts of every layer's rows, before and after (L, n), as scores of tokens by layer (L, n)."""
    shares = np.zeros_like(before)
    count = len(before)
    for layer in reversed(range(count)):
        shares[layer] += after[layer]
        rows = np.flatnonzero(shares.any(axis=0)).tolist()
        if rows:
            step = mixing_step(trace, layer, kind, None if len(rows) == trace.token_count else rows).attention
            shares[layer:] = [step.left(row)[0] for row in shares[layer:]]
        shares[layer] += before[layer]
        if trace.progress is not None:
            trace.progress(count - layer, count)
    return shares


@method(
    "decompx",
    title="DecompX",
    kind="decomposition",
    summary="Signed part of each token in the target: linear maps as they are, activations and norms by their slopes.",
    formula="s_i = ⟨x^0_i, G^0_i⟩ + shares of the biases; Σ_i s_i = y",
    citation="Modarressi et al. 2023 (DecompX)",
    needs={"blocks", "hidden_states", "relevance"},
    signed=True,
    class_specific=True,
    cost="one forward pass, one backward pass layer by layer, then O(nnz·H²)",
    use="Use it as a signed decomposition that is exact: the scores add up to the logit or the log-odds.",
    avoid="Avoid reading it as an effect: what a token contributes with all slopes held fixed is not what its removal "
    "changes.",
)
def decompx(trace: Trace) -> Attribution:
    """⟨x^0_i, G^0_i⟩, G^0 the gradient with attention, the deviations of norms and slopes f(z)/z held fixed.

    A bias belongs to the row in which it is added, and is shared out in proportion to the norms of the vectors that are
    mixed there (norm rollout). The paper shares it out by the n vectors that n tokens have in every row instead, which
    takes n forward passes; without biases the two are the same. Checks: the share of the target's size that biases
    make up, and the error of the sum.
    """
    parts = linear_parts(trace)
    top = np.zeros_like(parts.after)
    top[-1] = parts.head * trace.readout
    biases = share_out(trace, "norm", parts.before, parts.after + top).sum(axis=0)
    size = np.abs(parts.embeddings).sum() + np.abs(biases).sum()
    share = float(np.abs(biases).sum() / size) if size else 0.0
    return Attribution(parts.embeddings + biases, checks={"decomposition_error": parts.error, "bias_share": share})


@method(
    "alti_logit",
    title="ALTI-Logit",
    kind="decomposition",
    summary="What every block adds to the target, shared out among the tokens by ALTI's mixing up to that block.",
    formula="s = r ⊙ ⟨x^0, D^0⟩ + Σ_l (attention^l · R^{l-1} + rest^l · R^l); Σ_i s_i = y",
    citation="Ferrando et al. 2023 (ALTI-Logit)",
    needs={"blocks", "hidden_states", "relevance"},
    signed=True,
    class_specific=True,
    cost="one forward pass, one backward pass layer by layer, then O(nnz·H·d)",
    use="Use it to see, layer by layer, which blocks write the decision and from which tokens they take it.",
    avoid="Avoid it where single tokens of a mixture differ in sign: ALTI's mixing is not signed, the update is.",
)
def alti_logit(trace: Trace) -> Attribution:
    """Updates of the rows that the head reads, along the direction of the target; `layers` holds those of every layer.

    The direction D^L is the target's gradient with respect to x^L with the head's slopes held fixed; through the norms
    of post-LN layers, with their deviations held fixed, it is D^l with respect to the residual of every layer below.
    In layer l, attention adds ⟨T_rj, D⟩ from row j, which is a mixture of tokens R^{l-1}; biases and feed-forward block
    add the rest in row r, a mixture R^l. The first layer also holds what the embedding of row r brings itself, the last
    one the biases of the head.
    """
    parts = linear_parts(trace)
    direction = torch.tensor(parts.top_slopes)
    states = trace.hidden_states
    before, after = np.zeros((2, trace.layer_count, trace.token_count))
    error = parts.error
    for layer in reversed(range(trace.layer_count)):
        block = attention_block(trace, layer)
        error = max(error, check_reconstruction(trace, layer, block))
        written = (states[layer + 1] * direction.numpy()).sum(axis=-1, dtype=float)
        if block.second_norm is not None and block.second_input is not None:
            deviation = block.second_norm.deviation(block.second_input)
            direction = block.second_norm.transposed(direction) / deviation
        updates, direction = project_updates(block, direction)
        carried = (states[layer] * direction.numpy()).sum(axis=-1, dtype=float)
        before[layer] = updates.left(np.ones(trace.token_count))[0]
        after[layer] = written - carried - updates.right(np.ones(trace.token_count))[0]
    after[-1] += parts.head * trace.readout
    layers = share_out(trace, "alti", before, after)
    layers[0] += carried
    return Attribution(layers.sum(axis=0), layers=layers, checks={"decomposition_error": error}, layer_kind="additive")
