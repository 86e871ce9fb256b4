"""Attention flow is the maximum flow: against scipy, networkx, every cut of tiny graphs, and what theory demands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from sightline.attention import BandedAttention, DenseAttention
from sightline.errors import InputError, OptionError
from sightline.methods.flow import kernel as flow_kernel
from sightline.methods.flow.graph import USED, build_graph, make_work
from sightline.methods.flow.solve import FlowResult, attention_flow, solve_flow

UNIT = 2**20
"""Capacities that are multiples of 1/UNIT are whole numbers for scipy's solver, and exact in floating point."""


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def with_residual(attention: np.ndarray) -> np.ndarray:
    stack = attention + np.eye(attention.shape[-1])
    return stack / stack.sum(axis=-1, keepdims=True)


def on_grid(stack: np.ndarray) -> np.ndarray:
    return np.floor(stack * UNIT) / UNIT


def random_attention(kind: str, layers: int, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((layers, n, n)) * (6.0 if kind == "peaky" else 1.0)
    i = np.arange(n)
    if kind == "window":
        logits = np.where(abs(i[:, None] - i) <= 1, logits, -np.inf)
    if kind == "causal":
        logits = np.where(i[:, None] >= i, logits, -np.inf)
    weights = softmax(logits)
    if kind == "sub-stochastic":
        return weights * rng.random((layers, n, 1))
    if kind == "large rows":
        return with_residual(weights) * rng.uniform(0, 30, (layers, n, 1))
    if kind == "zero rows":
        return with_residual(weights) * (rng.random((layers, n, 1)) < 0.6)
    if kind == "holes":
        return with_residual(weights) * (rng.random((layers, n, n)) < 0.5)
    return with_residual(weights)


KINDS = ["dense", "peaky", "window", "causal", "sub-stochastic", "large rows", "zero rows", "holes"]


def scipy_flow(stack: np.ndarray, source: int | np.ndarray, sinks: list[int] | None = None) -> np.ndarray:
    """One call of scipy's maximum_flow, on whole numbers, for every sink."""
    layers, n, _ = stack.shape
    extra = (layers + 1) * n
    arcs = [
        ((x + 1) * n + i, x * n + j, round(stack[x, i, j] * UNIT)) for x, i, j in zip(*np.nonzero(stack), strict=True)
    ]
    if np.ndim(source) == 1:
        arcs += [(extra, layers * n + i, round(c * UNIT)) for i, c in enumerate(source)]
    tails, heads, capacities = np.array(arcs, dtype=np.int32).reshape(-1, 3).T
    graph = csr_array((capacities, (tails, heads)), shape=(extra + 1, extra + 1))
    start = extra if np.ndim(source) == 1 else layers * n + source
    return np.array([maximum_flow(graph, start, t).flow_value for t in sinks or range(n)]) / UNIT


def smallest_cut(stack: np.ndarray, source: int, sink: int) -> float:
    """The smallest capacity of all 2^((L-1)·n) cuts, tried one by one."""
    layers, n, _ = stack.shape
    best = np.inf
    for bits in itertools.product((False, True), repeat=(layers - 1) * n):
        sides = [np.array(bits[x * n : (x + 1) * n], dtype=bool) for x in range(layers - 1)]
        bottom, top = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
        bottom[sink], top[source] = False, True
        side = [bottom, *sides, top]  # True: on the source's side; the other inputs and tops have no flow to cut
        best = min(best, sum(stack[x][side[x + 1]][:, ~side[x]].sum() for x in range(layers)))
    return best


def as_band(matrix: np.ndarray, window: int, global_tokens: list[int]) -> tuple[BandedAttention, np.ndarray]:
    """The part of a matrix that a band can hold, as a band and as a matrix."""
    n, G = len(matrix), len(global_tokens)
    i = np.arange(n)
    allowed = abs(i[:, None] - i) <= window
    allowed[:, global_tokens] = allowed[global_tokens] = True
    kept = np.where(allowed, matrix, 0.0)
    local = np.zeros((n, G + 2 * window + 1))
    for row in set(range(n)) - set(global_tokens):
        for column in range(n):
            if column in global_tokens:
                local[row, global_tokens.index(column)] = kept[row, column]
            elif abs(row - column) <= window:
                local[row, G + column - row + window] = kept[row, column]
    return BandedAttention(local[None], kept[global_tokens][None], np.array(global_tokens, dtype=int)), kept


def assert_settled(result: FlowResult, expected: np.ndarray, rtol: float = 1e-9) -> None:
    assert result.certified
    np.testing.assert_allclose(result.values, expected, rtol=rtol, atol=0)
    np.testing.assert_allclose(result.upper, expected, rtol=rtol, atol=0)
    assert result.settled_by_bounds + result.settled_by_flow + result.settled_by_cut == len(expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "n"), [(1, 1), (1, 6), (2, 7), (3, 5), (6, 9), (3, 24)])
def test_values_equal_scipys_maximum_flow(kind, layers, n):
    stack = on_grid(random_attention(kind, layers, n, seed=layers * n))
    source = n // 2
    assert_settled(solve_flow(stack, source), scipy_flow(stack, source))


@pytest.mark.parametrize("kind", KINDS)
def test_values_equal_networkx_in_floating_point(kind):
    networkx = pytest.importorskip("networkx")
    stack = random_attention(kind, 4, 6, seed=1)
    graph = networkx.DiGraph()
    graph.add_nodes_from((x, i) for x in range(5) for i in range(6))
    for x, i, j in np.ndindex(stack.shape):
        graph.add_edge((x + 1, i), (x, j), capacity=stack[x, i, j])
    expected = [networkx.maximum_flow_value(graph, (4, 2), (0, t)) for t in range(6)]
    np.testing.assert_allclose(attention_flow(stack, 2), expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "n"), [(2, 4), (3, 3), (4, 3), (5, 2)])
def test_value_and_certificate_equal_the_smallest_of_all_cuts(kind, layers, n):
    stack = random_attention(kind, layers, n, seed=layers)
    for source in range(n):
        cuts = [smallest_cut(stack, source, sink) for sink in range(n)]
        assert_settled(solve_flow(stack, source), np.array(cuts))


def test_cuts_are_searched_where_no_bound_is_tight():
    stack = on_grid(random_attention("window", 6, 40, seed=0))
    result = solve_flow(stack, 20)
    assert result.settled_by_cut > 0
    assert_settled(result, scipy_flow(stack, 20))


def test_flow_through_a_narrow_waist_is_cut_there():
    wide = np.full((3, 8, 8), 1.0)
    wide[1] = 0.0
    wide[1, 3, 5] = 0.25
    result = solve_flow(wide, 0)
    np.testing.assert_array_equal(result.values, np.full(8, 0.25))
    assert result.certified


def test_more_arcs_in_use_than_foreseen_are_not_an_obstacle():
    # whole numbers without structure: far more than the four used arcs a node that are first given room
    stack = np.random.default_rng(0).integers(1, 50, (4, 48, 48)) / UNIT
    assert_settled(solve_flow(stack, 7), scipy_flow(stack, 7))


@pytest.mark.parametrize(
    ("upper_amount", "lower_amount", "counted"),
    [
        (0.5, 0.5, 0.5),
        (0.5, 0.8, 0.5),  # the node between sends on more than it received
        (0.8, 0.5, 0.5),  # or less
        (0.9, 0.9, 0.8),  # both arcs carry 0.05 more than they hold, which counts twice
        (0.5, -0.1, -0.2),  # less than nothing arrives, and an arc carries less than nothing
    ],
)
def test_what_is_not_a_flow_does_not_count_as_one(upper_amount, lower_amount, counted):
    graph = build_graph([DenseAttention(np.full((2, 2), 0.85))] * 2, 0, residual=False)
    work, used = make_work(graph), np.zeros(8, USED)
    upper_arc, lower_arc = 4, 1  # (2, 0) → (1, 0) → (0, 1)
    work.flow[[upper_arc, lower_arc]] = upper_amount, lower_amount
    used["arc"][:3], used["tail"][1:3], used["head"][1:3] = (2, upper_arc, lower_arc), (4, 2), (2, 1)
    assert flow_kernel._take_back(graph, work, used, 1) == pytest.approx(counted, rel=1e-12)
    assert not work.flow.any()
    assert not work.balance.any()


def test_tiny_flows_are_exact_relative_to_themselves():
    stack = np.stack([np.eye(4)] * 3)
    stack[1, 0, 2] = 3e-17
    stack[2, 0, 3] = 5e-200
    np.testing.assert_allclose(attention_flow(stack, 0), [1.0, 0.0, 3e-17, 5e-200], rtol=1e-9, atol=0)


@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e9])
def test_flow_scales_with_the_capacities(scale):
    stack = random_attention("holes", 5, 8, seed=3)
    result = solve_flow(stack * scale, 1)
    assert result.certified
    np.testing.assert_allclose(result.values, attention_flow(stack, 1) * scale, rtol=1e-9, atol=0)


@pytest.mark.parametrize("global_tokens", [[], [0], [7, 2]])
@pytest.mark.parametrize("source", [0, 2, 11])
@pytest.mark.parametrize("residual", [False, True])
def test_band_equals_dense(global_tokens, source, residual):
    windows = [1, 3, 0, 2, 2]
    pairs = [
        as_band(matrix, w, global_tokens)
        for matrix, w in zip(random_attention("sub-stochastic", 5, 14, seed=source), windows, strict=True)
    ]
    dense = np.stack([matrix for _, matrix in pairs])
    banded = solve_flow([band for band, _ in pairs], source, residual=residual)
    np.testing.assert_allclose(banded.values, solve_flow(dense, source, residual=residual).values, rtol=1e-9, atol=0)
    assert banded.certified


@pytest.mark.parametrize("source", [0, 150])
def test_a_long_band_equals_scipys_maximum_flow(source):
    logits = np.random.default_rng(source).standard_normal((5, 300, 300)) * 2
    pairs = [as_band(on_grid(with_residual(softmax(layer))), 9, [0]) for layer in logits]
    sinks = list(range(0, 300, 30))
    expected = scipy_flow(np.stack([matrix for _, matrix in pairs]), source, sinks)
    assert_settled(solve_flow([band for band, _ in pairs], source, sinks=sinks), expected)


def test_dense_and_banded_layers_may_alternate():
    matrices = random_attention("dense", 4, 12, seed=5)
    band, kept = as_band(matrices[0], 2, [3])
    other, other_kept = as_band(matrices[2], 1, [3])
    mixed = solve_flow([band, DenseAttention(matrices[1]), other, DenseAttention(matrices[3])], 6)
    dense = solve_flow(np.stack([kept, matrices[1], other_kept, matrices[3]]), 6)
    np.testing.assert_allclose(mixed.values, dense.values, rtol=1e-9, atol=0)


def test_capacities_as_source_are_an_extra_node_above_the_layers():
    rng = np.random.default_rng(2)
    stack, weights = on_grid(random_attention("dense", 3, 6, seed=2)), on_grid(rng.random(6))
    assert_settled(solve_flow(stack, weights), scipy_flow(stack, weights))
    # a row of the top layer is the flow from that token: the single-head form puts another row in its place
    np.testing.assert_allclose(solve_flow(stack[:2], stack[2, 4]).values, attention_flow(stack, 4), rtol=1e-9)


def test_capacities_as_source_without_layers_are_the_flow():
    result = solve_flow([], [0.5, 0.0, 2.0])
    np.testing.assert_array_equal(result.values, [0.5, 0.0, 2.0])
    assert result.certified


def test_chosen_sinks_are_answered_in_their_order():
    stack = random_attention("peaky", 3, 9, seed=8)
    everything = attention_flow(stack, 0)
    np.testing.assert_array_equal(solve_flow(stack, 0, sinks=[5, 0, 5]).values, everything[[5, 0, 5]])
    assert solve_flow(stack, 0, sinks=[]).values.shape == (0,)


def test_progress_counts_the_sinks():
    stack, calls = random_attention("dense", 2, 70, seed=15), []
    solve_flow(stack, 0, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(32, 70), (64, 70), (70, 70)]


def test_normalised_values_sum_to_one_or_are_zero():
    stack = random_attention("dense", 3, 5, seed=9)
    result = solve_flow(stack, 0)
    np.testing.assert_allclose(result.normalised, result.values / result.values.sum())
    np.testing.assert_array_equal(solve_flow(np.zeros((2, 3, 3)), 0).normalised, np.zeros(3))


def test_a_causal_source_sends_nothing_to_later_tokens():
    stack = random_attention("causal", 4, 8, seed=10)
    values = attention_flow(stack, 3)
    assert (values[:4] > 0).all()
    np.testing.assert_array_equal(values[4:], np.zeros(4))


def test_one_layer_is_settled_by_the_bounds_alone():
    stack = random_attention("dense", 1, 6, seed=11)
    result = solve_flow(stack, 2)
    np.testing.assert_array_equal(result.values, stack[0, 2])
    assert result.settled_by_bounds == 6
    assert result.augmentations == 0


def test_single_precision_and_torch_are_accepted():
    stack = random_attention("dense", 3, 5, seed=12).astype(np.float32)
    expected = attention_flow(stack.astype(np.float64), 0)
    np.testing.assert_array_equal(attention_flow(stack, 0), expected)
    np.testing.assert_array_equal(attention_flow(torch.from_numpy(stack), 0), expected)
    np.testing.assert_array_equal(attention_flow([DenseAttention(layer) for layer in stack], 0), expected)


def test_the_same_graph_gives_the_same_bits():
    stack = random_attention("peaky", 5, 30, seed=13)
    np.testing.assert_array_equal(attention_flow(stack, 4), attention_flow(stack.copy(), 4))


def test_a_wider_tolerance_still_brackets_the_maximum():
    stack = on_grid(random_attention("peaky", 5, 30, seed=14))
    exact, rough = scipy_flow(stack, 0), solve_flow(stack, 0, tolerance=0.05)
    assert rough.certified
    assert (rough.values <= exact * (1 + 1e-12)).all()
    assert (rough.upper >= exact * (1 - 1e-12)).all()
    assert (rough.upper - rough.values <= 0.05 * rough.upper).all()


graphs = st.tuples(st.sampled_from(KINDS), st.integers(1, 5), st.integers(1, 9), st.integers(0, 10_000))


@settings(max_examples=60, deadline=None)
@given(graphs, st.data())
def test_flow_stays_below_both_end_cuts_and_above_rollout(graph, data):
    kind, layers, n, seed = graph
    stack = random_attention(kind, layers, n, seed)
    source = data.draw(st.integers(0, n - 1))
    values = attention_flow(stack, source)
    assert (values <= stack[-1, source].sum() * (1 + 1e-12)).all()
    assert (values <= stack[0].sum(axis=0) * (1 + 1e-12)).all()
    if stack.sum(axis=-1).max() <= 1 + 1e-12:  # then what rollout passes on never exceeds a capacity
        rollout = np.eye(n)[source]
        for layer in stack[::-1]:
            rollout = rollout @ layer
        assert (values >= rollout * (1 - 1e-9)).all()


@settings(max_examples=40, deadline=None)
@given(graphs, st.data())
def test_more_capacity_never_means_less_flow(graph, data):
    kind, layers, n, seed = graph
    stack = random_attention(kind, layers, n, seed)
    source = data.draw(st.integers(0, n - 1))
    more = stack + np.random.default_rng(seed + 1).random(stack.shape) * (stack > 0.1)
    assert (attention_flow(more, source) >= attention_flow(stack, source) * (1 - 1e-9)).all()


@settings(max_examples=40, deadline=None)
@given(graphs, st.data())
def test_renaming_the_tokens_renames_the_flows(graph, data):
    kind, layers, n, seed = graph
    stack = random_attention(kind, layers, n, seed)
    source = data.draw(st.integers(0, n - 1))
    order = np.random.default_rng(seed).permutation(n)
    renamed = attention_flow(stack[:, order][:, :, order], int(np.flatnonzero(order == source)[0]))
    np.testing.assert_allclose(renamed, attention_flow(stack, source)[order], rtol=1e-9, atol=0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 12), st.integers(0, 4), st.integers(0, 2), st.integers(0, 10_000))
def test_any_band_equals_its_matrix(layers, n, window, global_count, seed):
    rng = np.random.default_rng(seed)
    global_tokens = rng.permutation(n)[:global_count].tolist()
    pairs = [as_band(on_grid(rng.random((n, n)) ** 4), window, global_tokens) for _ in range(layers)]
    source = int(rng.integers(n))
    expected = scipy_flow(np.stack([matrix for _, matrix in pairs]), source)
    assert_settled(solve_flow([band for band, _ in pairs], source), expected)


@pytest.mark.parametrize(
    ("stack", "source", "options", "error", "message"),
    [
        (np.full((2, 3, 3), np.nan), 0, {}, InputError, "NaN or infinite"),
        (np.full((2, 3, 3), np.inf), 0, {}, InputError, "NaN or infinite"),
        (np.full((2, 3, 3), 1e308), 0, {}, InputError, "Layer 0 holds negative or too large weights"),
        (np.stack([np.eye(3), -np.eye(3)]), 0, {}, InputError, "Layer 1 holds negative or too large weights"),
        (np.ones((3, 3)), 0, {}, InputError, r"shape \(L, n, n\), not \(3, 3\)"),
        (np.ones((2, 3, 4)), 0, {}, InputError, r"shape \(L, n, n\), not \(2, 3, 4\)"),
        ([DenseAttention(np.ones((2, 3, 3)))], 0, {}, InputError, "Layer 0 has 2 heads"),
        ([np.eye(3), np.eye(4)], 0, {}, InputError, "Layer 1 has 4 tokens, layer 0 has 3"),
        ([], 0, {}, InputError, "No layers were given"),
        (np.ones((2, 3, 3)), 3, {}, OptionError, r"Token 3 asked for as the source, there are 3 \(0-2\)"),
        (np.ones((2, 3, 3)), -1, {}, OptionError, "Token -1 asked for"),
        (np.ones((2, 3, 3)), 0.5, {}, OptionError, "position or 3 capacities, not 0.5"),
        (np.ones((2, 3, 3)), [1.0, 2.0], {}, InputError, r"shape \(3,\), not \(2,\)"),
        (np.ones((2, 3, 3)), [1.0, -2.0, 0.0], {}, InputError, "finite numbers of at least 0"),
        (np.ones((2, 3, 3)), [1.0, np.nan, 0.0], {}, InputError, "finite numbers of at least 0"),
        (np.ones((2, 3, 3)), 0, {"sinks": [3]}, OptionError, "outside the 3 tokens"),
        (np.ones((2, 3, 3)), 0, {"sinks": [0.5]}, OptionError, "list of positions"),
        (np.ones((2, 3, 3)), 0, {"tolerance": -1.0}, OptionError, "tolerance"),
        (np.ones((2, 3, 3)), 0, {"tolerance": float("nan")}, OptionError, "tolerance"),
    ],
)
def test_what_cannot_be_solved_is_refused_in_a_sentence(stack, source, options, error, message):
    with pytest.raises(error, match=message):
        solve_flow(stack, source, **options)


def test_bands_with_different_global_tokens_are_refused():
    layers = [as_band(np.ones((5, 5)), 1, tokens)[0] for tokens in ([0], [1])]
    with pytest.raises(InputError, match="same global tokens"):
        solve_flow(layers, 0)
