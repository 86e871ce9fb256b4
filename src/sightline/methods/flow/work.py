"""The work arrays of the attention-flow solver: nodes, arcs in use, lists, and the current path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.methods.flow.graph import Doubles, FlowGraph, Integers, Records

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
