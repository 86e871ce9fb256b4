"""The steps of a layered method as operators, and what every token holds of every input as matrices.

Methods that multiply layers hand out the readout's row of every R^l (`Explanation.layers`), which is all that an
explanation needs. To study how *every* token mixes:

    C^l   what layer l takes from where, one operator per layer (banded where attention is);
    R^l   (n, n): how much of input token j is in token i after layer l. R^l = C^l ⋯ C^1 for the methods that multiply.

| method | R^l | citation |
|---|---|---|
| `rollout` | C = (Ā + I)/2 with rows that sum to 1 | Abnar & Zuidema 2020 |
| `flow` | maximum flow from token i after layer l to every input, rows divided by their sums | Abnar & Zuidema 2020 |
| `raw_attention` | Ā^l, each layer separately | |
| `norm_rollout`, `globenc` | C = ‖T_ij‖ of the attention block | Kobayashi et al. 2021; Modarressi et al. 2022 |
| `alti` | C = ALTI's contributions to the attention block | Ferrando et al. 2022 |
| `transatt` | C = mean of max(0, ∂y/∂A ⊙ relevance) + I with rows that sum to 1 | Chefer et al. 2021 |

Matrices cost O(L·n·nnz) and L·n² numbers, so they are for short documents; `flow` takes L·n² maximum flows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sightline.attention import Attention
from sightline.attention.arrays import check_dense_size
from sightline.attention.protocol import DENSE_LIMIT
from sightline.errors import OptionError
from sightline.methods.alti import mixing_step
from sightline.methods.attention_weights import fuse_layers
from sightline.methods.decomposition.block import DecompositionKind
from sightline.methods.flow.solve import solve_flow
from sightline.passes.trace import Trace

ContributionMethod = Literal["norm_rollout", "globenc", "alti"]
LayeredMethod = Literal["rollout", "flow", "raw_attention", "norm_rollout", "globenc", "alti", "transatt"]
Matrix = NDArray[np.floating[Any]]
_KINDS: dict[str, tuple[DecompositionKind, bool]] = {
    "norm_rollout": ("norm", False),
    "globenc": ("norm", True),
    "alti": ("alti", False),
}
_OPTIONS: Mapping[str, frozenset[str]] = {
    "rollout": frozenset({"fusion", "head_weights", "residual", "effective"}),
    "flow": frozenset({"fusion", "head_weights", "residual", "effective"}),
    "raw_attention": frozenset({"fusion", "head_weights"}),
    "alti": frozenset({"p", "second_norm"}),
    "transatt": frozenset({"rules"}),
}
"""Options of a method that change its matrices; its other options choose a row or a form of the scores."""


def layer_contributions(
    trace: Trace, method: ContributionMethod = "alti", *, p: int = 1, second_norm: bool = False
) -> list[Attention]:
    """Return C^1 … C^L, one-head operators whose rows sum to 1: all rows, not only those the readout needs."""
    if method not in _KINDS:
        raise OptionError(f"'{method}' has no contributions by layer. Those that have: {', '.join(_KINDS)}.")
    kind, both_norms = _KINDS[method]
    steps = (
        mixing_step(trace, layer, kind, p=p, second_norm=second_norm or both_norms)
        for layer in range(trace.layer_count)
    )
    return [step.attention for step in steps]


def relevance_matrices(trace: Trace, method: LayeredMethod = "rollout", **options: Any) -> Matrix:
    """Return R^1 … R^L, (L, n, n), bottom layer first; refuses documents whose matrices would not fit.

    options: those of the method that change the matrices: `fusion`, `head_weights`, `residual` and `effective` of the
    attention methods, `p` and `second_norm` of `alti`, `rules` of `transatt`.
    """
    if method not in get_args(LayeredMethod):
        raise OptionError(
            f"'{method}' has no relevance matrices. Methods that have: {', '.join(get_args(LayeredMethod))}."
        )
    for name in options:
        if name not in _OPTIONS.get(method, ()):
            raise OptionError(
                f"The matrices of '{method}' have no option '{name}'. "
                f"Options: {', '.join(sorted(_OPTIONS.get(method, ()))) or 'none'}."
            )
    check_dense_size(trace.layer_count, trace.token_count, np.dtype(np.float64).itemsize, DENSE_LIMIT)
    return _MATRICES[method](trace, method, **options)


def _by_contributions(trace: Trace, method: str, **options: Any) -> Matrix:
    steps = layer_contributions(trace, method, **options)  # type: ignore[arg-type]
    return _multiply(steps, residual=False, scaled=False)


def _by_rollout(trace: Trace, method: str, residual: bool = True, **options: Any) -> Matrix:
    return _multiply(fuse_layers(trace, **options), residual=residual)


def _by_relevance(trace: Trace, method: str, **options: Any) -> Matrix:
    from sightline.methods.lrp import positive_products  # methods are listed in the order of their import

    return _multiply(positive_products(trace, **options), residual=True)


def _by_layer(trace: Trace, method: str, **options: Any) -> Matrix:
    return np.stack([layer.dense()[0] for layer in fuse_layers(trace, **options)])


def _by_flow(trace: Trace, method: str, residual: bool = True, **options: Any) -> Matrix:
    layers = fuse_layers(trace, **options)
    tokens = range(trace.token_count)
    return np.stack(
        [
            np.stack([solve_flow(layers[: top + 1], token, residual=residual).normalised for token in tokens])
            for top in range(len(layers))
        ]
    )


_MATRICES: Mapping[str, Callable[..., Matrix]] = {
    "rollout": _by_rollout,
    "flow": _by_flow,
    "raw_attention": _by_layer,
    "transatt": _by_relevance,
    **dict.fromkeys(_KINDS, _by_contributions),
}


def _multiply(steps: list[Attention], *, residual: bool, scaled: bool = True) -> Matrix:
    """Return C^l ⋯ C^1 for every l; C is a step, `residual` adds the identity, `scaled` divides rows by their sums."""
    relevance: Matrix = np.eye(steps[0].tokens)
    relevances = []
    for step in steps:
        carried = step.right(relevance[None])[0]
        if residual:
            carried = carried + relevance
        if scaled:
            sums = step.right(np.ones(step.tokens))[0][:, None] + float(residual)
            carried = np.divide(carried, sums, out=np.zeros_like(carried), where=sums != 0)
        relevance = carried
        relevances.append(relevance)
    return np.stack(relevances)
