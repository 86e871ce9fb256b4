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
count as closed; where the cut shows that ε was too coarse, ε shrinks, in the end to 0. The value of a flow is counted
anew from the arcs that carry it. So neither side of the certificate rests on the search having gone right.

Work arrays are reset in proportion to what was touched. Cost a sink: a few times the nodes that can reach it.

All compiled functions that call each other stand in this one file: numba keeps the machine code of the outermost, and
looks only at that one's file to see whether it is still up to date.
"""

from __future__ import annotations

import numpy as np

from sightline.attention.compiled import compiled
from sightline.methods.flow.graph import USED, Doubles, FlowGraph, Indices, Integers, Records, Work

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
    how = np.full(sinks.size, BY_BOUNDS)
    used = np.zeros(4 * work.nodes.size, USED)
    augmentations = 0
    for q in range(sinks.size):
        if lower[q] >= upper[q] * (1.0 - tolerance):
            continue
        while True:
            cut, how[q], arrivals = _solve_sink(graph, work, used, strong, sinks[q], tolerance, upper[q])
            full = used[0].arc + 1 == used.size
            value = _take_back(graph, work, used, sinks[q])
            if not full:
                break
            used = np.zeros(2 * used.size, USED)
        lower[q] = max(lower[q], value)
        upper[q] = min(upper[q], cut)
        augmentations += arrivals
    return how, augmentations


@compiled
def _solve_sink(
    graph: FlowGraph, work: Work, used: Records, strong: Indices, sink: int, tolerance: float, bound: float
) -> tuple[float, int, int]:
    """Send to one sink until the flow meets `bound` or a cut.

    Returns the cut, how the sink was settled, and how often flow arrived. Stops early when `used` is full.
    """
    slack = 0.5 * tolerance * bound
    epsilon = CLOSED_SHARE * tolerance * bound
    total, arrivals, waves = 0.0, 0, -1
    strong_only, new_labels = True, True
    while bound - total > slack:
        if new_labels:
            waves = _label(graph, work, used, sink, epsilon, strong_only)
        if waves >= 0:
            starts = _group(graph, work, waves)
            least = max(epsilon, STRONG_SHARE * bound) if strong_only else epsilon
            amount, times = _send(graph, work, used, strong, starts, sink, least, bound - total, slack, strong_only)
            total += amount
            arrivals += times
            if used[0].arc + 1 == used.size or (amount == 0.0 and new_labels and not strong_only):
                return bound, OPEN, arrivals  # no room; or new labels led nowhere, which must not go on for ever
        elif not strong_only:
            cut = _cut_capacity(graph, work)
            if cut - total <= tolerance * cut:
                return cut, BY_CUT, arrivals
            if epsilon == 0.0:
                return cut, OPEN, arrivals
            epsilon = 1e-3 * epsilon if epsilon > 1e-22 * bound else 0.0
        # after the round of strong children, the labels serve once more for all the others
        new_labels = waves < 0 or not strong_only
        strong_only = False
    return bound, BY_FLOW, arrivals


@compiled
def _take_back(graph: FlowGraph, work: Work, used: Records, sink: int) -> float:
    """Take all flow back and forget the used arcs; returns how much of it certainly arrived at the sink.

    That is what enters the sink, less all that nodes sent on without having received it, less all that arcs carried
    beyond their capacities. Rounding alone should make the last two: some 1e-15 of the flow.
    """
    nodes, flow, balance = work.nodes, work.flow, work.balance
    flaws = 0.0
    for e in range(1, used[0].arc + 1):
        link = used[e]
        amount = flow[link.arc]
        flaws += max(0.0, amount - graph.capacity[link.arc], -amount)
        balance[link.tail] -= amount
        balance[link.head] += amount
        flow[link.arc] = 0.0  # an arc that was emptied and used again stands here twice
    arrived = balance[sink]
    balance[sink] = balance[nodes.size - graph.place.size + graph.source] = 0.0
    for e in range(1, used[0].arc + 1):
        link = used[e]
        for v in (link.tail, link.head):
            flaws += max(0.0, -balance[v])
            balance[v] = 0.0
        nodes[link.tail].outflow = nodes[link.head].inflow = 0
    used[0].arc = 0
    return float(arrived - flaws)


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
    nodes, unseen, labelled, counts, flow = work.nodes, work.unseen, work.labelled, work.counts, work.flow
    n = place.size
    top = rows.size // n
    for x in range(top + 1):
        for f in range(counts[x]):
            i = labelled[x * n + f]
            nodes[x * n + i].wave = -1
            unseen[x * (n + 1) + i] = x * (n + 1) + i
    counts[:] = 0
    _mark(nodes, unseen, labelled, counts, n, 0, sink, 0)
    begin = np.zeros(top + 1, np.int64)  # where the current wave begins in `labelled`
    wave = 0
    while True:
        for x in range(top):
            list_above = (x + 1) * (n + 1)
            for f in range(begin[x], counts[x]):
                j = labelled[x * n + f]
                if not narrow or place[j] < 0 or x + 1 == top:
                    stop = list_above + seen[x * n + j].high
                    p = _next(unseen, list_above + seen[x * n + j].low)
                    while p < stop:
                        arc = _arc(rows, place, x * n + p - list_above, j)
                        if arc >= 0 and capacity[arc] - flow[arc] > epsilon:
                            _mark(nodes, unseen, labelled, counts, n, x + 1, p - list_above, wave)
                        p = _next(unseen, p + 1)
                for i in graph.global_tokens:
                    if x + 1 < top and nodes[(x + 1) * n + i].wave < 0:
                        arc = _arc(rows, place, x * n + i, j)
                        if capacity[arc] - flow[arc] > epsilon:
                            _mark(nodes, unseen, labelled, counts, n, x + 1, i, wave)
        if counts[top] > 0:  # the source
            return wave
        last = begin
        begin = counts.copy()
        wave += 1
        for x in range(2, top):
            for f in range(last[x], begin[x]):
                e = nodes[x * n + labelled[x * n + f]].outflow
                while e > 0:
                    if nodes[used[e].head].wave < 0 and flow[used[e].arc] > epsilon:
                        _mark(nodes, unseen, labelled, counts, n, x - 1, used[e].head - (x - 1) * n, wave)
                    e = used[e].next_out
        if counts.sum() == begin.sum():
            return -1


@compiled
def _mark(
    nodes: Records, unseen: Indices, labelled: Indices, counts: Integers, n: int, x: int, i: int, wave: int
) -> None:
    """Label node (x, i)."""
    nodes[x * n + i].wave = wave
    unseen[x * (n + 1) + i] = x * (n + 1) + i + 1
    labelled[x * n + counts[x]] = i
    counts[x] += 1


@compiled
def _cut_capacity(graph: FlowGraph, work: Work) -> float:
    """Capacity of all arcs that enter a labelled node from one without label, after a search that missed the source."""
    capacity, rows, seen, place = graph.capacity, graph.rows, graph.seen, graph.place
    n = place.size
    top = rows.size // n
    total = 0.0
    for x in range(top):
        list_above = (x + 1) * (n + 1)
        for f in range(work.counts[x]):
            j = work.labelled[x * n + f]
            low, high = seen[x * n + j].low, seen[x * n + j].high
            p = _next(work.unseen, list_above + low)
            while p < list_above + high:
                arc = _arc(rows, place, x * n + p - list_above, j)
                total += capacity[arc] if arc >= 0 else 0.0
                p = _next(work.unseen, p + 1)
            for i in graph.global_tokens:
                if x + 1 < top and work.nodes[(x + 1) * n + i].wave < 0 and not low <= i < high:
                    total += capacity[_arc(rows, place, x * n + i, j)]
    return total


@compiled
def _group(graph: FlowGraph, work: Work, waves: int) -> Integers:
    """Fill `members` and bring all of them to life; returns where each wave begins, (L+1, waves+2)."""
    nodes, unseen, members, alive = work.nodes, work.unseen, work.members, work.alive
    n = graph.place.size
    starts = np.zeros((nodes.size // n, waves + 2), np.int64)
    for x in range(nodes.size // n):
        for f in range(work.counts[x]):
            wave = nodes[x * n + work.labelled[x * n + f]].wave
            if wave <= waves:
                starts[x, wave + 1] += 1
        starts[x, 0] = x * (n + 1)
        for wave in range(waves + 1):
            starts[x, wave + 1] += starts[x, wave]
        fill = starts[x].copy()
        for i in range(n if work.counts[x] > 0 else 0):
            if unseen[x * (n + 1) + i] != x * (n + 1) + i:
                node = nodes[x * n + i]
                if node.wave <= waves:
                    members[fill[node.wave]] = i
                    node.position = fill[node.wave]
                    node.stage = 0
                    fill[node.wave] += 1
        for p in range(starts[x, 0], starts[x, waves + 1] + 1):
            alive[p] = p
    return starts


@compiled
def _send(
    graph: FlowGraph,
    work: Work,
    used: Records,
    strong: Indices,
    starts: Integers,
    sink: int,
    epsilon: float,
    wanted: float,
    slack: float,
    strong_only: bool,
) -> tuple[float, int]:
    """Send up to `wanted` along the labels; returns the amount and how often it arrived.

    Ends when the way is blocked, or earlier when it meets almost only dead ends: then new labels are cheaper.

    A node asks its children by stages: the sink's own column, then the k strongest, the window, the global tokens; last
    it cancels flow that enters it. A child is asked again until its arc is closed or nothing more can be sent from
    it. This is one long function because a call for every step would take longer than the step: numba counts the
    references to every array it hands over.
    """
    capacity, rows, place, global_tokens = graph.capacity, graph.rows, graph.place, graph.global_tokens
    nodes, members, alive, flow = work.nodes, work.members, work.alive, work.flow
    path, path_arc, asked, sent = work.path, work.path_arc, work.asked, work.sent
    n = place.size
    window = 1 + strong.shape[1]
    cancel = window + 1 + global_tokens.size
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
            node = nodes[v]
            row = v - n
            r = rows[row]
            x = row // n
            below = x * n
            if arrivals > 0 and dead_ends > patience and living > patience:
                node.stage = cancel
                node.pointer = 0
            while arc < 0 and node.stage < cancel:
                if node.stage == window:
                    end = starts[x, node.wave + 1]
                    p = _next(alive, node.pointer)
                    while p < end and members[p] < r.high:
                        if capacity[r.first + members[p]] - flow[r.first + members[p]] > epsilon:
                            arc, child = r.first + members[p], below + members[p]
                            break
                        p = _next(alive, p + 1)
                    node.pointer = p
                else:
                    if node.stage == 0:
                        j = sink
                    elif node.stage < window:
                        j = strong[row, node.stage - 1]
                    else:
                        j = global_tokens[node.stage - window - 1]
                    target = nodes[below + j]
                    if target.wave == node.wave and alive[target.position] == target.position:
                        arc, child = _arc(rows, place, row, j), below + j
                        if arc >= 0 and capacity[arc] - flow[arc] <= epsilon:
                            arc = -1
                if arc < 0:
                    node.stage += 1
                    if x == 0 or (strong_only and node.stage == window):
                        node.stage = cancel
                    if node.stage == cancel:
                        node.pointer = node.inflow
                    elif node.stage == window:
                        begin, end = starts[x, node.wave], starts[x, node.wave + 1]
                        node.pointer = begin + np.searchsorted(members[begin:end], r.low)
            while arc < 0 and node.pointer > 0:
                link = used[node.pointer]
                target = nodes[link.tail]
                lower_wave = target.wave == node.wave - 1 and alive[target.position] == target.position
                if lower_wave and flow[link.arc] > epsilon:
                    arc, child = link.arc, link.tail
                else:
                    node.pointer = link.next_in
            if arc < 0:
                alive[node.position] = node.position + 1
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
            return sent[0], arrivals
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
            used[0].arc += 1
            link = used[used[0].arc]
            link.arc, link.tail, link.head = arc, tail, v
            link.next_in, link.next_out = nodes[v].inflow, nodes[tail].outflow
            nodes[v].inflow = nodes[tail].outflow = used[0].arc
            if used[0].arc + 1 == used.size:
                return sent[0], arrivals
        # the capacity itself, so that rounding never leaves a used-up arc open
        flow[arc] = capacity[arc] if amount == capacity[arc] - flow[arc] else flow[arc] + amount
