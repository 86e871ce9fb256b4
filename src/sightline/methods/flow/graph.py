"""The layered graph of attention flow, dense or banded, in one flat layout.

Node (x, i): token i after x layers; x = 0 are the inputs, x = L the output of the top layer. Node number v = x·n + i.
The arc (x, i) → (x-1, j) has capacity C^x_ij, the weight with which token i attends to token j in layer x, residual
connection included. All arcs of a layer go one step down, so every path from the source to an input has L arcs.

A *row* holds the arcs that leave one node; row v - n belongs to node v. Its arcs to the tokens low ≤ j < high lie side
by side in `capacity`, the arc to j at first + j: the whole row of a dense layer, the window of a band. Outside its
window a row of a band has one arc to every global token, at columns + n·(its place among them); `columns` is -1 for
rows that have none (dense layers, rows of global tokens, which reach everybody anyway). Every weight has one arc.

`Work` holds the arrays of the solver: nodes, arcs in use, lists, and the current path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.attention import Attention, BandedAttention
from sightline.errors import InputError

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Records = npt.NDArray[np.void]

ROW = np.dtype([("first", np.int64), ("columns", np.int64), ("low", np.int32), ("high", np.int32)], align=True)
COLUMN = np.dtype([("low", np.int32), ("high", np.int32)], align=True)


class FlowGraph(NamedTuple):
    """Capacities and where they lie; L layers of n tokens."""

    capacity: Doubles
    """(arcs,)"""
    rows: Records
    """(L·n,) of ROW: the arcs that leave node v, at v - n."""
    seen: Records
    """(L·n,) of COLUMN: the tokens low ≤ i < high whose rows may reach node v; global tokens reach it besides. In the
    top layer that is the source alone."""
    global_tokens: Integers
    """(G,) positions with global attention; empty for dense graphs."""
    place: Integers
    """(n,) place of a token among the global tokens, -1 for all others."""
    source: int
    """Token of the top layer from which the flow starts."""


def build_graph(layers: Sequence[Attention], source: int | Doubles, residual: bool) -> FlowGraph:
    """Lay out one-head operators, bottom layer first, as a graph; a band takes the memory of a band.

    source: a token of the top layer, or capacities (n,) of arcs from an extra node to the tokens of the top layer.
    residual: use (A + I), each row divided by its sum, instead of A.
    """
    tokens = layers[0].tokens if layers else np.size(source)
    global_tokens = _global_tokens(layers)
    extra = not isinstance(source, int)
    depth = len(layers) + extra
    rows = np.empty((depth, tokens), dtype=ROW)
    seen = np.empty((depth, tokens), dtype=COLUMN)
    sizes = [_arcs(layer) for layer in layers] + [tokens] * extra
    capacity = np.empty(sum(sizes))
    begin = 0
    for x, layer in enumerate(layers):
        part = capacity[begin : begin + sizes[x]]
        if isinstance(layer, BandedAttention):
            _lay_band(layer, part, rows[x], seen[x], residual)
        else:
            _lay_matrix(layer, part, rows[x], seen[x], residual)
        with np.errstate(over="ignore"):
            total = part.sum()
        if part.min() < 0 or not np.isfinite(total):
            raise InputError(
                f"Layer {x} holds negative or too large weights; a capacity is a finite number of at least 0. "
                "Use relu() or abs() first if these are gradients."
            )
        rows[x]["first"] += begin
        rows[x]["columns"][rows[x]["columns"] >= 0] += begin
        begin += sizes[x]
    if extra:
        # One row serves every node of the extra layer: only node 0 of it, the source, is ever visited.
        capacity[begin:] = source
        rows[-1] = (begin, -1, 0, tokens)
    start = 0 if extra else int(source)
    seen[-1] = (start, start + 1)
    place = np.full(tokens, -1)
    place[global_tokens] = np.arange(len(global_tokens))
    return FlowGraph(capacity, rows.ravel(), seen.ravel(), global_tokens, place, start)


def _global_tokens(layers: Sequence[Attention]) -> Integers:
    """The global tokens that all banded layers share, (G,)."""
    sets = [layer.global_tokens.numpy() for layer in layers if isinstance(layer, BandedAttention)]
    for x, other in enumerate(sets):
        if not np.array_equal(other, sets[0]):
            raise InputError(
                f"All banded layers must have the same global tokens in the same order, but layer {x} has "
                f"{other.tolist()} where another has {sets[0].tolist()}."
            )
    return np.array(sets[0] if sets else [], dtype=np.int64)


def _arcs(layer: Attention) -> int:
    """Number of stored weights of a one-head layer."""
    if isinstance(layer, BandedAttention):
        return layer.local.numel() + layer.global_rows.numel()
    return layer.tokens**2


def _lay_matrix(layer: Attention, capacity: Doubles, rows: Records, seen: Records, residual: bool) -> None:
    """Write a dense layer: capacity (n²,), rows and seen (n,)."""
    n = layer.tokens
    matrix = capacity.reshape(n, n)
    matrix[:] = layer.dense()[0]
    if residual:
        np.einsum("ii->i", matrix)[:] += 1.0
        matrix /= matrix.sum(axis=1, keepdims=True)
    rows["first"] = np.arange(n) * n
    rows["columns"] = -1
    rows["low"], rows["high"] = 0, n
    seen["low"], seen["high"] = 0, n


def _lay_band(layer: BandedAttention, capacity: Doubles, rows: Records, seen: Records, residual: bool) -> None:
    """Write a banded layer: its slots, then its global rows."""
    n, w = layer.tokens, layer.window
    global_tokens = layer.global_tokens.numpy()
    G, width = len(global_tokens), 2 * layer.window + 1
    window = capacity[: n * width].reshape(n, width)
    columns = capacity[n * width : n * (width + G)].reshape(G, n)
    global_rows = capacity[n * (width + G) :].reshape(G, n)
    slots = layer.local[0].numpy()
    window[:] = slots[:, G:]
    columns[:] = slots[:, :G].T
    global_rows[:] = layer.global_rows[0].numpy()
    if residual:
        ordinary = np.ones(n)
        ordinary[global_tokens] = 0.0
        window[:, w] += ordinary
        sums = window.sum(axis=1) + columns.sum(axis=0)
        sums[global_tokens] = 1.0
        window /= sums[:, None]
        columns /= sums
        global_rows[np.arange(G), global_tokens] += 1.0
        global_rows /= global_rows.sum(axis=1, keepdims=True)
    i = np.arange(n)
    rows["columns"] = n * width + i
    rows["first"] = i * width + w - i  # slot w of the window is the token itself
    rows["low"], rows["high"] = np.maximum(i - w, 0), np.minimum(i + w + 1, n)
    seen["low"], seen["high"] = rows["low"], rows["high"]
    rows["columns"][global_tokens] = -1
    rows["first"][global_tokens] = n * (width + G) + np.arange(G) * n
    rows["low"][global_tokens], rows["high"][global_tokens] = 0, n
    seen["low"][global_tokens], seen["high"][global_tokens] = 0, n


Indices = npt.NDArray[np.int32]

NODE = np.dtype(
    [
        ("wave", np.int32),  # how often flow must be cancelled on the way to the sink; -1 without label
        ("position", np.int32),  # place in `members`
        ("stage", np.int32),  # which kind of child is asked next: see kernel.py
        ("pointer", np.int32),  # and which one of that kind
        ("inflow", np.int32),  # first of the used arcs that enter the node; 0 for none
        ("outflow", np.int32),  # first of the used arcs that leave it
    ],
    align=True,
)
# Arcs that carry, or carried, flow to the current sink, from place 1 on, so that 0 ends a list; `arc` of place 0 counts
# them.
USED = np.dtype(
    [
        ("arc", np.int64),
        ("tail", np.int32),
        ("head", np.int32),
        ("next_in", np.int32),  # next used arc into the same head
        ("next_out", np.int32),  # next used arc out of the same tail
    ],
    align=True,
)


class Work(NamedTuple):
    """Arrays reused for every sink; N = (L+1)·n nodes. Lists of a layer have n+1 places, so that they can end."""

    nodes: Records
    """(N,) of NODE."""
    unseen: Indices
    """((L+1)·(n+1),) union-find: the next token of the layer without a label."""
    labelled: Indices
    """(N,) the tokens of each layer in the order in which they got their labels."""
    counts: Integers
    """(L+1,) how many of them."""
    members: Indices
    """((L+1)·(n+1),) the labelled tokens of each layer, ordered by wave, then by position in the text."""
    alive: Indices
    """((L+1)·(n+1),) union-find: the next place of `members` from which something may still be sent."""
    flow: Doubles
    """(arcs,) flow to the current sink."""
    balance: Doubles
    """(N,) what enters a node less what leaves it, while the flow is counted; else zeros."""
    path: Indices
    """(N+1,) nodes from the source to the one that is asked now."""
    path_arc: Integers
    """(N+1,) arc from each of them to the next."""
    asked: Doubles
    """(N+1,) how much each of them was asked for."""
    sent: Doubles
    """(N+1,) how much of it was sent."""


def make_work(graph: FlowGraph) -> Work:
    """Allocate the work arrays of a graph."""
    tokens = len(graph.place)
    layers = len(graph.rows) // tokens
    places, nodes = (layers + 1) * (tokens + 1), (layers + 1) * tokens
    unlabelled = np.zeros(nodes, dtype=NODE)
    unlabelled["wave"] = -1
    return Work(
        nodes=unlabelled,
        unseen=np.arange(places, dtype=np.int32),
        labelled=np.zeros(nodes, dtype=np.int32),
        counts=np.zeros(layers + 1, dtype=np.int64),
        members=np.zeros(places, dtype=np.int32),
        alive=np.zeros(places, dtype=np.int32),
        flow=np.zeros(len(graph.capacity)),
        balance=np.zeros(nodes),
        path=np.zeros(nodes + 1, dtype=np.int32),
        path_arc=np.zeros(nodes + 1, dtype=np.int64),
        asked=np.zeros(nodes + 1),
        sent=np.zeros(nodes + 1),
    )
