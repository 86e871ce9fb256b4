"""Bounds of the maximum flow to every sink, from one pass over all arcs of an attention graph.

**Upper bound.** u^x_j, the most that can pass node (x, j), from the top down, with s the source and C^x the capacities:

    u^{x-1}_j = min( min(c_sj, u^x_s) + min(Σ_{i≠s} min(c_ij, u^x_i), E^x),  Σ_k C^{x-1}_jk,  U )

- no arc carries more than its capacity or than passes its tail: this takes the better of cutting an arc and cutting
  whatever feeds its tail, so it covers all cuts around the sink's own column (j, j, …, j);
- E^x, the capacity of all arcs that leave the source's own column (s, s, …, s) above layer x: what arrives from another
  column has left it once, so this covers the cuts around that column;
- what enters a node must leave it (inputs excepted), and U is the capacity out of the source.

No row has to sum to one. u^0_t bounds the maximum flow to input t.

**Lower bound.** Every node passes on what it receives, at most what it can, in the proportion of its capacities. This
is a flow; with rows that sum to one it is attention rollout (Abnar & Zuidema 2020).

How far they go, tried on one document each with two trained models of six layers, from the first token. Dense, 512
tokens: the upper bound was the maximum flow for every token, so that flow need only be sent until it is met, and no cut
was searched. Band, 4,097 tokens: it was 5.7 times too high in the median, as most of what leaves the source leads
nowhere near the sink; the minimum cut was searched for all but one token. Cuts around all that can reach the sink were
1.2 times too high in the median and the minimum for 2 of 111 tokens only, so they are not tried here. The lower bound
met the upper one for no token of either: rollout spreads over all inputs. Nor did flows drawn up from the sink and
joined half-way to rollout from above (38 % too low in the median on the dense document). What the two bounds do settle
without a search are single layers and tokens that nothing reaches.

Cost: O(arcs) time, O(L·n) memory.
"""

from __future__ import annotations

import numpy as np

from sightline.attention.compiled import compiled
from sightline.methods.flow.graph import Doubles, FlowGraph, Indices


@compiled
def bound_flows(graph: FlowGraph) -> tuple[Doubles, Doubles]:
    """Return a lower and an upper bound (n,) of the maximum flow to every input."""
    capacity, rows, global_tokens, source = graph.capacity, graph.rows, graph.global_tokens, graph.source
    n = graph.place.size
    leaving = np.zeros(rows.size)  # Σ_k C_jk of every row
    for row in range(rows.size):
        r = rows[row]
        for j in range(r.low, r.high):
            leaving[row] += capacity[r.first + j]
        if r.columns >= 0:
            for g in range(global_tokens.size):
                leaving[row] += capacity[r.columns + g * n]
    supply = leaving[rows.size - n + source]
    most = np.zeros(n)
    received = np.zeros(n)
    most[source] = received[source] = supply
    escaped = 0.0
    for x in range(rows.size // n - 1, -1, -1):
        from_source = np.zeros(n)
        from_others = np.zeros(n)
        passed = np.zeros(n)
        for i in range(n):
            if most[i] == 0.0:
                continue
            r = rows[x * n + i]
            arriving = from_source if i == source else from_others
            share = min(1.0, received[i] / leaving[x * n + i])
            for j in range(r.low, r.high):
                arriving[j] += min(capacity[r.first + j], most[i])
                passed[j] += capacity[r.first + j] * share
            if r.columns >= 0:
                for g in range(global_tokens.size):
                    j = global_tokens[g]
                    arriving[j] += min(capacity[r.columns + g * n], most[i])
                    passed[j] += capacity[r.columns + g * n] * share
        for j in range(n):
            most[j] = min(from_source[j] + min(from_others[j], escaped), supply)
            if x > 0:
                most[j] = min(most[j], leaving[(x - 1) * n + j])
        from_source[source] = 0.0  # left out rather than subtracted, which would cancel what is small beside it
        escaped += from_source.sum()
        received = passed
    return received, most


@compiled
def strongest_children(graph: FlowGraph, k: int) -> Indices:
    """Tokens that the k largest capacities of every row lead to, largest first, (L·n, k); the own one fills gaps."""
    capacity, rows = graph.capacity, graph.rows
    n = graph.place.size
    children = np.zeros((rows.size, k), np.int32)
    best = np.zeros(k)
    for row in range(rows.size):
        r = rows[row]
        children[row] = row % n
        best[:] = 0.0
        columns = graph.global_tokens.size if r.columns >= 0 else 0
        for candidate in range(r.low - columns, r.high):
            g = r.low - 1 - candidate  # global columns come first, as candidates below the window
            j = graph.global_tokens[g] if g >= 0 else candidate
            c = capacity[r.columns + g * n] if g >= 0 else capacity[r.first + j]
            if c > best[k - 1]:
                p = k - 1
                while p > 0 and best[p - 1] < c:
                    best[p] = best[p - 1]
                    children[row, p] = children[row, p - 1]
                    p -= 1
                best[p] = c
                children[row, p] = j
    return children
