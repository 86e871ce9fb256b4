"""Maximum flow from one node to many inputs of an attention graph: Dinic's algorithm, lazy where the graph allows it.

Dinic (1970): label every node with its distance to the sink in the residual graph, send flow along shortest paths until
they are blocked, repeat until the source gets no label. What is particular to attention graphs:

- Distances come in *waves*. An arc leads one layer down, cancelling its flow one layer up, so a node of layer x that
  must cancel k times on its way is x + 2k from the sink: a shortest path goes down within a wave, or up into the next
  lower wave. Labelling is one sweep upwards for every wave.
- Nearly every arc is open, so looking at all of them (n² a layer) is needless. `unseen` jumps from one node without a
  label to the next (union-find): a sweep costs about one look for every *node*. `alive` does the same for sending: it
  jumps over nodes from which nothing more can be sent.
- Flow is sent in bulk: a node asked for an amount asks its children in turn and reports the sum, so an arc high up is
  updated once, not once for every path below it. The first round asks only the strongest children of every node;
  otherwise peaky attention trickles through thousands of tiny arcs.

A sink is settled when its flow reaches a given upper bound, or when the source gets no label: the labelled nodes are
then the sink's side of a cut, and its capacity is summed anew from the capacities. Arcs with a residual of at most ε
count as closed; where the cut shows that ε was too coarse, ε shrinks, in the end to 0.

Work arrays are reset in proportion to what was touched. Cost a sink: a few times the nodes that can reach it.
"""

from __future__ import annotations

import numpy as np

from sightline.attention.compiled import compiled
from sightline.methods.flow_graph import Doubles, FlowGraph, Integers, Records
from sightline.methods.flow_work import USED, Indices, Work

BY_BOUNDS, BY_FLOW, BY_CUT, OPEN = 0, 1, 2, 3
"""How a sink was settled: bounds met before anything was sent, flow met the upper bound, minimum cut found; or not."""

CLOSED_SHARE = 1e-4
"""ε at the start, as a share of the gap that is tolerated."""
STRONG_SHARE = 1e-6
"""The first round leaves out amounts below this share of the bound."""


@compiled
def solve(
    graph: FlowGraph, work: Work, strong: Indices, sinks: Integers, tolerance: float, lower: Doubles, upper: Doubles
) -> tuple[Integers, int]:
    """Raise lower (S,) and reduce upper (S,) in place until they meet up to `tolerance`, relative to upper.

    strong: (L·n, k) the k strongest children of every row. Returns how each sink was settled (S,) and the number of
    times flow arrived at a sink.
    """
    how = np.zeros(sinks.size, np.int64)
    used = np.zeros(4 * work.nodes.size, USED)  # place 0 stays empty: 0 ends a list
    augmentations = 0
    q = 0
    while q < sinks.size:
        if lower[q] >= upper[q] * (1.0 - tolerance):
            how[q] = BY_BOUNDS
            q += 1
            continue
        value, cut, how[q], arrivals, filled = _solve_sink(graph, work, used, strong, sinks[q], tolerance, upper[q])
        for e in range(1, filled):
            link = used[e]
            work.flow[link.arc] = 0.0
            work.nodes[link.head].inflow = 0
            work.nodes[link.tail].outflow = 0
        if filled == used.size:  # no room for another used arc: the same sink again with twice the room
            used = np.zeros(2 * used.size, USED)
            continue
        lower[q] = max(lower[q], value)
        upper[q] = min(upper[q], cut)
        augmentations += arrivals
        q += 1
    return how, augmentations


@compiled
def _solve_sink(
    graph: FlowGraph, work: Work, used: Records, strong: Indices, sink: int, tolerance: float, bound: float
) -> tuple[float, float, int, int, int]:
    """Send to one sink until the flow meets `bound` or a cut.

    Returns the flow, the cut, how it was settled, how often flow arrived, and how many places of `used` are taken.
    """
    slack = 0.5 * tolerance * bound
    epsilon = CLOSED_SHARE * tolerance * bound
    total, arrivals, filled = 0.0, 0, 1
    first_round = True
    while bound - total > slack:
        waves = _label(graph, work, used, sink, epsilon, first_round)
        if waves >= 0 and first_round:
            least = max(epsilon, STRONG_SHARE * bound)
            starts = _group(graph, work, waves)
            amount, times, filled = _send(
                graph, work, used, filled, strong, starts, sink, least, bound - total, slack, True
            )
            total += amount
            arrivals += times
        if waves >= 0 and filled < used.size and bound - total > slack:
            starts = _group(graph, work, waves)
            amount, times, filled = _send(
                graph, work, used, filled, strong, starts, sink, epsilon, bound - total, slack, False
            )
            total += amount
            arrivals += times
        if filled == used.size:
            return total, bound, OPEN, arrivals, filled
        if waves < 0 and not first_round:
            cut = _cut_capacity(graph, work, sink)
            if cut - total <= tolerance * cut:
                return total, cut, BY_CUT, arrivals, filled
            if epsilon == 0.0:
                return total, cut, OPEN, arrivals, filled
            epsilon = 1e-3 * epsilon if epsilon > 1e-22 * bound else 0.0
        first_round = False
    return total, bound, BY_FLOW, arrivals, filled


@compiled
def _next(successor: Indices, place: int) -> int:
    """The first place from `place` on that is still in the list (union-find with path halving)."""
    while successor[place] != place:
        successor[place] = successor[successor[place]]
        place = successor[place]
    return place


@compiled
def _arc(rows: Records, place: Integers, row: int, j: int) -> int:
    """The arc of a row to token j, or -1."""
    r = rows[row]
    if r.columns >= 0 and place[j] >= 0:
        return int(r.columns + place[j] * place.size)
    if r.low <= j < r.high:
        return int(r.first + j)
    return -1


@compiled
def _label(graph: FlowGraph, work: Work, used: Records, sink: int, epsilon: float, narrow: bool) -> int:
    """Give every node that can still reach the sink its wave; returns the wave of the source, -1 if it gets none.

    narrow: do not go through the columns of global tokens. Everybody reaches every sink through them, by so little that
    sending first along windows and global rows often closes that way and keeps later searches near the sink.
    """
    capacity, rows, seen, place = graph.capacity, graph.rows, graph.seen, graph.place
    nodes, unseen, found, counts, flow = work.nodes, work.unseen, work.found, work.counts, work.flow
    n = place.size
    top = rows.size // n
    for x in range(top + 1):
        for f in range(counts[x]):
            i = found[x * n + f]
            nodes[x * n + i].wave = -1
            unseen[x * (n + 1) + i] = x * (n + 1) + i
    counts[:] = 0
    _mark(work, n, 0, sink, 0)
    begin = np.zeros(top + 1, np.int64)  # where the current wave begins in `found`
    wave = 0
    while True:
        for x in range(top):
            list_above = (x + 1) * (n + 1)
            for f in range(begin[x], counts[x]):
                j = found[x * n + f]
                if x + 1 == top:
                    arc = _arc(rows, place, x * n + graph.source, j)
                    if arc >= 0 and capacity[arc] - flow[arc] > epsilon:
                        _mark(work, n, top, graph.source, wave)
                        return wave
                    continue
                if not (narrow and place[j] >= 0):
                    stop = list_above + seen[x * n + j].high
                    p = _next(unseen, list_above + seen[x * n + j].low)
                    while p < stop:
                        arc = _arc(rows, place, x * n + p - list_above, j)
                        if arc >= 0 and capacity[arc] - flow[arc] > epsilon:
                            _mark(work, n, x + 1, p - list_above, wave)
                        p = _next(unseen, p + 1)
                for i in graph.global_tokens:
                    if nodes[(x + 1) * n + i].wave < 0:
                        arc = _arc(rows, place, x * n + i, j)
                        if arc >= 0 and capacity[arc] - flow[arc] > epsilon:
                            _mark(work, n, x + 1, i, wave)
        last = begin
        begin = counts.copy()
        wave += 1
        for x in range(2, top):
            for f in range(last[x], begin[x]):
                e = nodes[x * n + found[x * n + f]].outflow
                while e > 0:
                    if nodes[used[e].head].wave < 0 and flow[used[e].arc] > epsilon:
                        _mark(work, n, x - 1, used[e].head - (x - 1) * n, wave)
                    e = used[e].next_out
        if counts.sum() == begin.sum():
            return -1


@compiled
def _mark(work: Work, n: int, x: int, i: int, wave: int) -> None:
    """Label node (x, i)."""
    work.nodes[x * n + i].wave = wave
    work.unseen[x * (n + 1) + i] = x * (n + 1) + i + 1
    work.found[x * n + work.counts[x]] = i
    work.counts[x] += 1


@compiled
def _cut_capacity(graph: FlowGraph, work: Work, sink: int) -> float:
    """Capacity of all arcs that enter a labelled node from one without label, after a search that missed the source."""
    capacity, rows, seen, place = graph.capacity, graph.rows, graph.seen, graph.place
    n = place.size
    top = rows.size // n
    total = 0.0
    for x in range(top):
        list_above = (x + 1) * (n + 1)
        for f in range(work.counts[x]):
            j = work.found[x * n + f]
            if x + 1 == top:
                arc = _arc(rows, place, x * n + graph.source, j)
                total += capacity[arc] if arc >= 0 else 0.0
                continue
            low, high = seen[x * n + j].low, seen[x * n + j].high
            p = _next(work.unseen, list_above + low)
            while p < list_above + high:
                arc = _arc(rows, place, x * n + p - list_above, j)
                total += capacity[arc] if arc >= 0 else 0.0
                p = _next(work.unseen, p + 1)
            for i in graph.global_tokens:
                if work.nodes[(x + 1) * n + i].wave < 0 and not low <= i < high:
                    arc = _arc(rows, place, x * n + i, j)
                    total += capacity[arc] if arc >= 0 else 0.0
    return total


@compiled
def _group(graph: FlowGraph, work: Work, waves: int) -> Integers:
    """Fill `members` and bring all of them to life; returns where each wave begins, (L+1, waves+2)."""
    nodes, members, alive = work.nodes, work.members, work.alive
    n = graph.place.size
    everyone = np.arange(n).astype(np.int32)
    starts = np.zeros((nodes.size // n, waves + 2), np.int64)
    for x in range(nodes.size // n):
        start = starts[x]
        labelled = work.found[x * n : x * n + work.counts[x]]
        tokens = np.sort(labelled) if 16 * labelled.size < n else everyone
        for i in tokens:
            node = nodes[x * n + i]
            node.stage = 0
            if 0 <= node.wave <= waves:
                start[node.wave + 1] += 1
        start[0] = x * (n + 1)
        for wave in range(waves + 1):
            start[wave + 1] += start[wave]
        fill = start.copy()
        for i in tokens:
            node = nodes[x * n + i]
            if 0 <= node.wave <= waves:
                members[fill[node.wave]] = i
                node.position = fill[node.wave]
                fill[node.wave] += 1
        for p in range(start[0], start[waves + 1] + 1):
            alive[p] = p
    return starts


@compiled
def _send(
    graph: FlowGraph,
    work: Work,
    used: Records,
    filled: int,
    strong: Indices,
    starts: Integers,
    sink: int,
    epsilon: float,
    wanted: float,
    slack: float,
    strong_only: bool,
) -> tuple[float, int, int]:
    """Send up to `wanted` along the labels; returns the amount, how often it arrived, and places of `used` taken.

    Ends when the way is blocked, or earlier when it meets almost only dead ends: then new labels are cheaper.
    """
    capacity, nodes, alive, flow = graph.capacity, work.nodes, work.alive, work.flow
    path, path_arc, asked, sent = work.path, work.path_arc, work.asked, work.sent
    n = graph.place.size
    patience = nodes.size // 16 + 64
    living = work.counts.sum()
    arrivals, dead_ends, depth = 0, 0, 0
    path[0] = nodes.size - n + graph.source
    asked[0] = wanted
    sent[0] = 0.0
    while True:
        v = path[depth]
        left = asked[depth] - sent[depth]
        arc, child = -1, -1
        if v < n:  # the sink
            sent[depth] = left
            arrivals += 1
            dead_ends = 0
        elif left > (max(slack, epsilon) if depth == 0 else epsilon):
            if arrivals == 0 or dead_ends < patience or living < patience:
                arc, child = _next_child(graph, work, used, strong, starts, v, sink, epsilon, strong_only)
            if arc < 0:
                alive[nodes[v].position] = nodes[v].position + 1
                dead_ends += 1
                living -= 1
        if arc >= 0:
            path_arc[depth] = arc
            depth += 1
            path[depth] = child
            asked[depth] = min(left, flow[arc] if child > v else capacity[arc] - flow[arc])
            sent[depth] = 0.0
            continue
        if depth == 0:
            return sent[0], arrivals, filled
        amount = sent[depth]
        depth -= 1
        if amount == 0.0:
            continue
        sent[depth] += amount
        arc = path_arc[depth]
        tail = path[depth]
        if v > tail:
            flow[arc] -= amount
            continue
        if flow[arc] == 0.0:
            link = used[filled]
            link.arc, link.tail, link.head = arc, tail, v
            link.next_in, link.next_out = nodes[v].inflow, nodes[tail].outflow
            nodes[v].inflow = nodes[tail].outflow = filled
            filled += 1
            if filled == used.size:
                return sent[0], arrivals, filled
        # the capacity itself, so that rounding never leaves a used-up arc open
        flow[arc] = capacity[arc] if amount == capacity[arc] - flow[arc] else flow[arc] + amount


@compiled
def _next_child(
    graph: FlowGraph,
    work: Work,
    used: Records,
    strong: Indices,
    starts: Integers,
    v: int,
    sink: int,
    epsilon: float,
    strong_only: bool,
) -> tuple[int, int]:
    """The next child node v can ask, with the arc to it; -1 for none.

    Stages: the sink's own column, the k strongest children, the window from the straight line to the sink onwards, the
    window before it, global columns, cancelling. A child is asked again until its arc is closed or it is dead.
    """
    capacity, rows, place, global_tokens = graph.capacity, graph.rows, graph.place, graph.global_tokens
    nodes, members, alive, flow = work.nodes, work.members, work.alive, work.flow
    n = place.size
    row = v - n
    x = row // n
    below = x * n
    i = row - below
    node, r = nodes[v], rows[row]
    wave = node.wave
    line = i + (sink - i) // (x + 1)
    window, columns, cancel = strong.shape[1] + 1, strong.shape[1] + 3, strong.shape[1] + 4
    while node.stage < window:
        j = sink if node.stage == 0 else strong[row, node.stage - 1]
        # in a band, a strong child (often the token itself) that lags behind on the way to the sink can wait
        lags = r.high - r.low < n and 4 * abs(j - sink) > x * (r.high - r.low) and abs(j - sink) > abs(line - sink)
        child = nodes[below + j]
        if not lags and child.wave == wave and alive[child.position] == child.position:
            arc = _arc(rows, place, row, j)
            if arc >= 0 and capacity[arc] - flow[arc] > epsilon:
                return arc, below + j
        node.stage += 1
        if x == 0 or (strong_only and node.stage == window):
            node.stage = cancel
            node.pointer = node.inflow
        elif node.stage == window:
            node.pointer = _first_member(members, starts[x, wave], starts[x, wave + 1], max(line, r.low))
    while node.stage < columns:
        stop = r.high if node.stage == window else min(r.high, line)
        p = _next(alive, node.pointer)
        while p < starts[x, wave + 1] and members[p] < stop:
            arc = r.first + members[p]
            if capacity[arc] - flow[arc] > epsilon:
                node.pointer = p
                return arc, below + members[p]
            p = _next(alive, p + 1)
        node.stage += 1
        node.pointer = 0
        if node.stage < columns:
            node.pointer = _first_member(members, starts[x, wave], starts[x, wave + 1], r.low)
    if node.stage == columns:
        while r.columns >= 0 and node.pointer < global_tokens.size:
            child = nodes[below + global_tokens[node.pointer]]
            arc = r.columns + node.pointer * n
            if child.wave == wave and alive[child.position] == child.position and capacity[arc] - flow[arc] > epsilon:
                return arc, below + global_tokens[node.pointer]
            node.pointer += 1
        node.stage = cancel
        node.pointer = node.inflow
    while node.pointer > 0:
        link = used[node.pointer]
        child = nodes[link.tail]
        if child.wave == wave - 1 and alive[child.position] == child.position and flow[link.arc] > epsilon:
            return link.arc, link.tail
        node.pointer = link.next_in
    return -1, -1


@compiled
def _first_member(members: Indices, begin: int, end: int, low: int) -> int:
    """The first place in members[begin:end] of a token ≥ low."""
    while begin < end:
        middle = (begin + end) // 2
        if members[middle] < low:
            begin = middle + 1
        else:
            end = middle
    return begin
