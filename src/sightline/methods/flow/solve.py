"""Attention flow: how much could reach the readout from each input token if every attention weight were a pipe.

Node (x, i) is token i after x layers; the arc (x, i) → (x-1, j) has capacity Â^x_ij, the weight with which token i
attends to token j in layer x, residual connection included: Â = (A + I), rows divided by their sums. The score of
token t is the maximum flow from (L, r) to (0, t) (Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers").

Exact, with a certificate for every token: a flow of that value was found, and a bound or a cut shows that there is none
larger. Capacities may be any non-negative numbers; rows need not sum to one (single heads, maxima of heads).

Cost: one pass over the weights, then about the number of *nodes* L·n per token (kernel.py explains why not n²). Memory:
16 bytes per stored weight, so a band takes the memory of a band.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from sightline.attention import Attention, DenseAttention
from sightline.errors import InputError, OptionError
from sightline.methods.flow.graph import Doubles, Integers, build_graph
from sightline.progress import StepProgress

STRONG_CHILDREN = 8
"""How many children per node the first round of the solver asks."""
SINKS_AT_ONCE = 32
"""Progress is reported, and the user can interrupt, after this many sinks."""

Layers = npt.NDArray[np.floating] | Tensor | Sequence[Attention | npt.ArrayLike]


@dataclass(frozen=True)
class FlowResult:
    """Maximum flows, with what certifies them; S sinks, all n inputs unless some were chosen."""

    values: Doubles
    """(S,) the flows found, counted from the arcs that carry them."""
    upper: Doubles
    """(S,) capacities of cuts that no flow can exceed."""
    tolerance: float
    """Largest gap (upper - value) / upper that counts as closed."""
    settled_by_bounds: int
    """Sinks whose bounds met without any search."""
    settled_by_flow: int
    """Sinks whose flow was sent until it met the bound from the first pass."""
    settled_by_cut: int
    """Sinks for which a minimum cut was searched."""
    augmentations: int
    """How often flow arrived at a sink."""

    @property
    def gap(self) -> float:
        """Largest difference between a cut and the flow found."""
        return float(np.max(self.upper - self.values, initial=0.0))

    @property
    def certified(self) -> bool:
        """Whether every flow is the maximum up to the tolerance."""
        return bool(np.all(self.upper - self.values <= self.tolerance * self.upper))

    @property
    def normalised(self) -> Doubles:
        """The values divided by their sum, (S,); zeros if nothing flows."""
        total = self.values.sum()
        return self.values / total if total > 0 else self.values.copy()


def attention_flow(stack: Layers, source: int | npt.ArrayLike) -> Doubles:
    """Maximum flow from one token of the top layer to every input token, (n,), not normalised.

    stack: capacities (L, n, n), bottom layer first, residual connection included. See `solve_flow` for other forms.
    """
    return solve_flow(stack, source).values


def solve_flow(
    layers: Layers,
    source: int | npt.ArrayLike,
    *,
    sinks: Sequence[int] | Integers | None = None,
    residual: bool = False,
    tolerance: float = 1e-10,
    progress: StepProgress | None = None,
) -> FlowResult:
    """Maximum flow to the inputs, with its certificate.

    layers: capacities (L, n, n), or a sequence of operators with one head each (dense, banded or mixed), bottom first.
    source: the token at the top from which the flow starts. Or capacities (n,) of arcs from one extra node to the
        tokens at the top: the readout weights of a model that averages tokens, or a row of a single head, which then
        stands above the layers given (the single-head form).
    sinks: inputs to solve for, all by default; results are in this order.
    residual: add the identity to every layer and divide the rows by their sums first.
    tolerance: gap between flow and cut, relative to the cut, at which a token is settled.
    progress: called with the number of sinks done and of all sinks.
    """
    operators = _operators(layers)
    start = _source(source, operators[0].tokens if operators else None)
    if not 0.0 <= tolerance < 1.0:
        raise OptionError(f"The tolerance is a share of the flow, at least 0 and below 1, not {tolerance!r}.")

    # Imported here because numba takes half a second to load.
    from sightline.methods.flow import kernel
    from sightline.methods.flow.bounds import bound_flows, strongest_children
    from sightline.methods.flow.graph import make_work

    graph = build_graph(operators, start, residual)
    chosen = _sinks(sinks, len(graph.place))
    lower, upper = (bound[chosen] for bound in bound_flows(graph))
    strong = strongest_children(graph, STRONG_CHILDREN)
    work = make_work(graph)
    how = np.empty(len(chosen), dtype=np.int64)
    augmentations = 0
    for first in range(0, len(chosen), SINKS_AT_ONCE):
        part = slice(first, first + SINKS_AT_ONCE)
        how[part], arrivals = kernel.solve(
            graph, work, strong, chosen[part], float(tolerance), lower[part], upper[part]
        )
        augmentations += arrivals
        if progress is not None:
            progress(min(part.stop, len(chosen)), len(chosen))
    return FlowResult(
        values=lower,
        upper=np.maximum(upper, lower),  # rounding may leave a cut a few ulps below the flow that fills it
        tolerance=float(tolerance),
        settled_by_bounds=int(np.sum(how == kernel.BY_BOUNDS)),
        settled_by_flow=int(np.sum(how == kernel.BY_FLOW)),
        settled_by_cut=int(np.sum(how == kernel.BY_CUT)),
        augmentations=augmentations,
    )


def _operators(layers: Layers) -> list[Attention]:
    """The layers as one-head operators over the same tokens."""
    if isinstance(layers, np.ndarray | Tensor) and (layers.ndim != 3 or layers.shape[1] != layers.shape[2]):
        raise InputError(f"A stack of layers has shape (L, n, n), not {tuple(layers.shape)}.")
    operators = [layer if isinstance(layer, Attention) else DenseAttention(layer) for layer in layers]
    for x, operator_ in enumerate(operators):
        if operator_.heads != 1:
            raise InputError(
                f"Layer {x} has {operator_.heads} heads; flow needs one. Fuse them with mean(), max() or min(), or "
                "choose one with head(h)."
            )
        if operator_.tokens != operators[0].tokens:
            raise InputError(f"Layer {x} has {operator_.tokens} tokens, layer 0 has {operators[0].tokens}.")
    return operators


def _source(source: int | npt.ArrayLike, tokens: int | None) -> int | Doubles:
    """The source as a token, or as capacities (n,)."""
    if np.ndim(source) == 0:
        try:
            token = operator.index(source)  # type: ignore[arg-type]
        except TypeError:
            raise OptionError(f"The source is a token's position or {tokens} capacities, not {source!r}.") from None
        if tokens is None:
            raise InputError(
                "No layers were given for the flow to pass; give at least one, or capacities as the source."
            )
        if not 0 <= token < tokens:
            raise OptionError(f"Token {token} asked for as the source, there are {tokens} (0-{tokens - 1}).")
        return token
    capacities = np.asarray(source, dtype=np.float64)
    if capacities.ndim != 1 or capacities.size == 0 or capacities.size != (tokens or capacities.size):
        raise InputError(f"Capacities of the source have shape ({tokens or 'n'},), not {capacities.shape}.")
    if not np.isfinite(capacities).all() or capacities.min() < 0:
        raise InputError("Capacities of the source must be finite numbers of at least 0.")
    return capacities


def _sinks(sinks: Sequence[int] | Integers | None, tokens: int) -> Integers:
    """The inputs to solve for as an index array."""
    if sinks is None:
        return np.arange(tokens)
    chosen = np.asarray(sinks)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise OptionError(f"`sinks` is a list of positions, not {chosen.dtype} of shape {chosen.shape}.")
    if chosen.size and (chosen.min() < 0 or chosen.max() >= tokens):
        raise OptionError(f"`sinks` reach outside the {tokens} tokens (0-{tokens - 1}).")
    return chosen.astype(np.int64)
