"""Methods that look at what attention carries: norms of transformed vectors, GlobEnc, ALTI.

Every layer's attention block is split into one vector per source token (`decomposition`), each vector becomes a
contribution c_ij, and the contributions are multiplied through the layers: row r of C^L ⋯ C^1. No identity is added:
the residual is part of the block.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from sightline.methods.decomposition.block import (
    Contributions,
    DecompositionKind,
    attention_block,
    check_reconstruction,
    measure_contributions,
    roll_out_rows,
)
from sightline.methods.registry import Attribution, method
from sightline.passes.trace import Trace
from sightline.settings.values import check_layer


def mixing_step(
    trace: Trace,
    layer: int,
    kind: DecompositionKind,
    rows: list[int] | None = None,
    *,
    p: int = 1,
    second_norm: bool = False,
) -> Contributions:
    """Return C^l of one layer, whose rows sum to 1; with `rows`, only these.

    A prefix of a causal text takes them from the whole text, where they are measured once.
    """

    def measure(of: Trace, rows: list[int] | None) -> Contributions:
        block = attention_block(of, layer)
        error = check_reconstruction(of, layer, block)
        measured = measure_contributions(block, kind=kind, p=p, second_norm=second_norm, rows=rows)
        return replace(measured, error=error)

    longest = trace.longest
    if longest is trace:
        return measure(trace, rows)
    key = ("contributions", kind, p, second_norm, layer)
    return longest.once(key, partial(measure, longest, None)).cut(trace.token_count)


def roll_out_blocks(
    trace: Trace, kind: DecompositionKind, *, p: int = 1, second_norm: bool = False, layer: int = -1
) -> Attribution:
    """Contributions of every layer up to `layer`, multiplied; `layers` holds the readout row of every R^l."""
    top = check_layer(layer, trace.layer_count)
    steps = []
    for index in range(top + 1):
        # Rows of the top layer other than those read out would be multiplied by zero.
        rows = [int(i) for i in np.flatnonzero(trace.readout)] if index == top and index > 0 else None
        steps.append(mixing_step(trace, index, kind, rows, p=p, second_norm=second_norm))
        if trace.progress is not None:
            trace.progress(index + 1, top + 1)
    clipped = sum(step.clipped_rows for step in steps)
    if clipped:
        warnings.warn(f"{clipped} rows had no contributing token and were given to themselves.", stacklevel=3)
    rows_of_all = roll_out_rows([step.attention for step in steps], trace.readout)
    checks = {"reconstruction_error": max(step.error for step in steps), "clipped_rows": clipped}
    return Attribution(rows_of_all[-1], layers=rows_of_all, checks=checks, layer_kind="cumulative")


@method(
    "norm_rollout",
    title="Norm rollout",
    kind="decomposition",
    summary="Norms of the transformed value vectors, residual and LayerNorm included, multiplied through the layers.",
    formula="c_ij = ‖T_i(x_j)‖₂ with rows that sum to 1; s = r · C^L ⋯ C^1",
    citation="Kobayashi et al. 2021",
    needs={"blocks"},
    signed=False,
    class_specific=False,
    cost="one forward pass, then O(nnz·H²)",
    use="Use it to correct attention, cheaply, by what the value vectors carry.",
    avoid="Avoid it for telling classes apart: the scores are the same for every class.",
)
def norm_rollout(trace: Trace, *, layer: int = -1) -> Attribution:
    """‖T_ij‖₂, rows sum to 1, multiplied through the layers."""
    return roll_out_blocks(trace, "norm", layer=layer)


@method(
    "globenc",
    title="GlobEnc",
    kind="decomposition",
    summary="Norms of the transformed vectors after the layer's second LayerNorm, multiplied through the layers.",
    formula="c_ij = ‖L₂(T_i(x_j))‖₂ with rows that sum to 1; s = r · C^L ⋯ C^1",
    citation="Modarressi et al. 2022 (GlobEnc)",
    needs={"blocks"},
    signed=False,
    class_specific=False,
    cost="one forward pass, then O(nnz·H²)",
    use="Use it in place of norm_rollout when the second LayerNorm has outlier weights.",
    avoid="Avoid it for telling classes apart: the scores are the same for every class.",
)
def globenc(trace: Trace, *, layer: int = -1) -> Attribution:
    """‖T_ij‖₂ through both LayerNorms; pre-LN layers have no second one on this path and equal norm_rollout."""
    return roll_out_blocks(trace, "norm", second_norm=True, layer=layer)


@method(
    "alti",
    title="ALTI",
    kind="decomposition",
    summary="How much closer each token's vector brings a block to its output, multiplied through the layers.",
    formula="c_ij = max(0, ‖y_i‖₁ − ‖y_i − T_i(x_j)‖₁) with rows that sum to 1; s = r · C^L ⋯ C^1",
    citation="Ferrando et al. 2022 (ALTI)",
    needs={"blocks"},
    signed=False,
    class_specific=False,
    cost="one forward pass, then O(nnz·H·d) (a few seconds per layer at 4,096 tokens)",
    use="Use it as the most faithful of the methods that follow how tokens are mixed.",
    avoid="Avoid it for telling classes apart: the scores are the same for every class.",
)
def alti(trace: Trace, *, p: Literal[1, 2] = 1, second_norm: bool = False, layer: int = -1) -> Attribution:
    """Aggregated layer-wise token-to-token interactions, ℓ1 distances by default."""
    return roll_out_blocks(trace, "alti", p=p, second_norm=second_norm, layer=layer)
