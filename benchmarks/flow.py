"""Attention flow from one token to every input, exact, against general max-flow solvers called once for every input.

Dense: 12 layers of random softmax weights, residual included, rounded down to multiples of 2^-30, so that solvers for
whole numbers get the very same graph and the values can be compared to the last digit. The peers solve a few sinks, and
their time is scaled to all of them; the label says how many they solved. Building their graphs is not counted; ours is.
OR-tools and networkx are left out where they are not installed.
Band: 4,096 tokens, a window of 512, one global token, 12 layers, every sink. No peer runs it in reasonable time, so the
ratio says how far it stays below a limit. Its memory is measured on a few sinks: the solver uses its arrays again.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from benchmarks import harness
from benchmarks.attention import random_layer
from sightline.methods.flow.solve import FlowResult, solve_flow

SOURCE = 0
UNIT = 2**30
"""Capacities are multiples of 1/UNIT."""
DENSE_SECONDS, BAND_SECONDS = 2.0, 600.0
"""Limits: all sinks of 512 dense tokens and of the band of 4,096, 12 layers each."""

Values = npt.NDArray[np.float64]
Peer = Callable[[Values], Callable[[int], float]]
"""Takes a stack (L, n, n), builds its graph, and returns what solves one sink."""


def make_stack(tokens: int, layers: int, spread: float = 1.0) -> Values:
    """Softmax of normal scores of a standard deviation, plus the identity, halved, on the grid, (L, n, n)."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(layers, tokens, tokens, generator=generator, dtype=torch.float64) * spread
    stack = (torch.softmax(scores, dim=-1).numpy() + np.eye(tokens)) / 2
    return np.floor(stack * UNIT) / UNIT


def arcs_of(stack: Values) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Tails, heads and whole capacities of all arcs; node x·n + i is token i after x layers."""
    n = stack.shape[1]
    layer, i, j = np.indices(stack.shape).reshape(3, -1)
    return (layer + 1) * n + i, layer * n + j, np.rint(stack.ravel() * UNIT).astype(np.int64)


def by_ortools(stack: Values) -> Callable[[int], float]:
    """OR-tools' push-relabel solver."""
    from ortools.graph.python import max_flow

    solver = max_flow.SimpleMaxFlow()
    solver.add_arcs_with_capacity(*arcs_of(stack))
    start = len(stack) * stack.shape[1] + SOURCE

    def solve(sink: int) -> float:
        assert solver.solve(start, sink) == solver.OPTIMAL
        return float(solver.optimal_flow() / UNIT)

    return solve


def by_scipy(stack: Values) -> Callable[[int], float]:
    """scipy's Dinic."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    layers, n, _ = stack.shape
    tails, heads, capacities = arcs_of(stack)
    nodes = (layers + 1) * n
    graph = csr_array((capacities.astype(np.int32), (tails, heads)), shape=(nodes, nodes))
    return lambda sink: maximum_flow(graph, layers * n + SOURCE, sink).flow_value / UNIT


def by_networkx(stack: Values) -> Callable[[int], float]:
    """networkx's preflow-push, which the published program calls."""
    import networkx

    layers, n, _ = stack.shape
    graph = networkx.DiGraph()
    for tail, head, capacity in zip(*(part.tolist() for part in arcs_of(stack)), strict=True):
        graph.add_edge(tail, head, capacity=capacity)
    return lambda sink: networkx.maximum_flow_value(graph, layers * n + SOURCE, sink) / UNIT


def solve_band(tokens: int, window: int, layers: int, sinks: Sequence[int] | None = None) -> Callable[[], FlowResult]:
    """The work on a band; input and machine code are ready before it starts."""
    solve_flow([random_layer(8, heads=1, window=2)], SOURCE, residual=True)
    band = [random_layer(tokens, heads=1, window=window, seed=layer) for layer in range(layers)]
    return lambda: solve_flow(band, SOURCE, sinks=sinks, residual=True)


def prepare_dense(tokens: int, layers: int) -> harness.Work:
    """For the measurement of memory."""
    solve_flow(make_stack(8, 1), SOURCE)
    stack = make_stack(tokens, layers)
    return lambda: solve_flow(stack, SOURCE)


def prepare_ortools(tokens: int, layers: int) -> harness.Work:
    """For the measurement of memory."""
    by_ortools(make_stack(8, 1))(0)
    stack = make_stack(tokens, layers)
    return lambda: by_ortools(stack)(tokens // 2)


def compare_peer(
    report: harness.Report, name: str, peer: Peer, stack: Values, count: int, target: float | None = None
) -> None:
    """Time a peer on `count` sinks, spread over the document, scaled to all; and compare its values."""
    n = stack.shape[1]
    sinks = np.linspace(0, n, count + 2, dtype=int)[1:-1].tolist()
    peer_values: list[list[float]] = []
    solve = peer(stack)
    report.compare(
        f"{n} tokens, {name} ({count} of {n})",
        ours=lambda: solve_flow(stack, SOURCE),
        reference=lambda: peer_values.append([solve(sink) for sink in sinks]),
        target=target,
        reference_scale=n / count,
    )
    difference = np.abs(solve_flow(stack, SOURCE, sinks=sinks).values - peer_values[0]).max()
    report.fact(f"{n} tokens, off {name} by at most", float(difference))


def main() -> None:
    """Compare with every peer that is installed, then the band."""
    report = harness.start("flow", __doc__)
    few, many, layers = (16, 64, 4) if report.quick else (64, 512, 12)
    long, window = (512, 64) if report.quick else (4096, 512)
    small, large = make_stack(few, layers), make_stack(many, layers)
    report.fact("layers", layers)

    if importlib.util.find_spec("networkx"):
        compare_peer(report, "networkx", by_networkx, small, 2)
    else:
        print("networkx is not installed: the comparison with it is left out.")
    compare_peer(report, "scipy", by_scipy, large, 2, target=100)
    if importlib.util.find_spec("ortools"):
        compare_peer(report, "OR-tools", by_ortools, large, 8, target=100)
        report.memory(f"{many} tokens, OR-tools", "benchmarks.flow:prepare_ortools", tokens=many, layers=layers)
    else:
        print("OR-tools is not installed: the comparison with it is left out.")
    report.memory(f"{many} tokens", "benchmarks.flow:prepare_dense", tokens=many, layers=layers)

    for spread in (1, 3, 6):
        stack = make_stack(many, layers, spread)
        seconds = harness.median_seconds(functools.partial(solve_flow, stack, SOURCE))
        report.ratio(f"{many} tokens, limit, spread {spread}", DENSE_SECONDS, seconds, target=1)
        report.fact(f"spread {spread}, CPU seconds", round(seconds, 3))

    results: list[FlowResult] = []
    work = solve_band(long, window, layers)
    seconds = harness.median_seconds(lambda: results.append(work()), repeats=1)
    result = results[0]
    report.ratio(f"band {long}, limit", BAND_SECONDS, seconds, target=1)
    report.fact(
        f"band {long}, every sink",
        {
            "CPU seconds": round(seconds, 2),
            "certified": result.certified,
            "largest gap": result.gap,
            "settled by bounds, flow, cut": [result.settled_by_bounds, result.settled_by_flow, result.settled_by_cut],
        },
    )
    some = list(range(0, long, long // 8))
    shape = {"tokens": long, "window": window, "layers": layers}
    report.memory(f"band {long}", "benchmarks.flow:solve_band", **shape, sinks=some)
    report.finish()


if __name__ == "__main__":
    main()
