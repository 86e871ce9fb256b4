"""The blocked kernel against dense attention written out with loops, in double precision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.models.longformer.band_kernel import (
    BLOCK_ROWS,
    BandPlan,
    global_output,
    global_products,
    plain_window_attention,
    window_attention,
    window_weight_gradient,
    window_weights,
)

HEADS, WIDTH = 3, 4


@dataclass(frozen=True)
class Document:
    """A document as a test describes it."""

    tokens: int
    global_tokens: tuple[int, ...] = ()
    masked: tuple[int, ...] = ()

    def plan(self, window: int, block_rows: int = BLOCK_ROWS) -> BandPlan:
        masked = torch.zeros(self.tokens, dtype=torch.bool)
        masked[list(self.masked)] = True
        return BandPlan.make(
            torch.tensor(self.global_tokens, dtype=torch.long), masked, window, torch.float64, block_rows
        )

    def allowed(self, window: int) -> torch.Tensor:
        """(n, n) bool, pair by pair: which keys a row with window attention sees; nothing for other rows."""
        allowed = torch.zeros(self.tokens, self.tokens, dtype=torch.bool)
        for i in range(self.tokens):
            for j in range(self.tokens):
                near = abs(i - j) <= window and j not in self.masked
                local_row = i not in self.global_tokens and i not in self.masked
                allowed[i, j] = local_row and (near or j in self.global_tokens)
        return allowed


@st.composite
def documents(draw: st.DrawFn) -> Document:
    n = draw(st.integers(1, 40))
    kinds = draw(st.lists(st.sampled_from("....gm"), min_size=n, max_size=n))
    return Document(
        n,
        tuple(i for i, kind in enumerate(kinds) if kind == "g"),
        tuple(i for i, kind in enumerate(kinds) if kind == "m"),
    )


def projections(tokens: int, seed: int = 0) -> list[torch.Tensor]:
    """Random q, k, v (n, H, e); large enough scores that softmax is far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    return [2 * torch.randn(tokens, HEADS, WIDTH, dtype=torch.float64, generator=generator) for _ in range(3)]


def dense_weights(query: torch.Tensor, key: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """A (H, n, n), rows without keys zero."""
    scores = torch.einsum("ihe,jhe->hij", query, key) / math.sqrt(WIDTH)
    exponentials = torch.where(allowed, torch.exp(scores), 0.0)
    return exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-300)


def dense_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    return torch.einsum("hij,jhe->ihe", dense_weights(query, key, allowed), value)


def slots_by_loops(dense: torch.Tensor, document: Document, window: int) -> torch.Tensor:
    """The slot layout by its definition: global columns, then key i-w+c in slot G+c unless that key is global."""
    G = len(document.global_tokens)
    slots = torch.zeros(HEADS, document.tokens, G + 2 * window + 1, dtype=dense.dtype)
    for i in range(document.tokens):
        for g, j in enumerate(document.global_tokens):
            slots[:, i, g] = dense[:, i, j]
        for c in range(2 * window + 1):
            j = i - window + c
            if 0 <= j < document.tokens and j not in document.global_tokens:
                slots[:, i, G + c] = dense[:, i, j]
    return slots


@settings(deadline=None, max_examples=40)
@given(batch=st.lists(documents(), min_size=1, max_size=3), window=st.integers(1, 12), rows=st.integers(1, 16))
def test_output_and_gradients_equal_dense_attention_for_any_documents_windows_and_blocks(batch, window, rows):
    by_document = [projections(document.tokens, seed) for seed, document in enumerate(batch)]
    packed = [torch.cat(parts).requires_grad_() for parts in zip(*by_document, strict=True)]
    lengths = [document.tokens for document in batch]
    expected = torch.cat(
        [
            dense_attention(*parts, document.allowed(window))
            for document, *parts in zip(batch, *(t.split(lengths) for t in packed), strict=True)
        ]
    )
    outputs = window_attention(*packed, [document.plan(window, rows) for document in batch])

    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-13)
    direction = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    for ours, dense in zip(
        torch.autograd.grad(outputs, packed, direction), torch.autograd.grad(expected, packed, direction), strict=True
    ):
        torch.testing.assert_close(ours, dense, rtol=1e-10, atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(document=documents(), window=st.integers(1, 12), rows=st.integers(1, 16))
def test_weights_and_their_gradient_lie_in_the_slots_of_the_definition(document, window, rows):
    query, key, value = projections(document.tokens)
    plan, allowed = document.plan(window, rows), document.allowed(window)

    dense = dense_weights(query, key, allowed).requires_grad_()
    torch.testing.assert_close(
        window_weights(query, key, plan), slots_by_loops(dense.detach(), document, window), rtol=1e-12, atol=1e-14
    )
    direction = projections(document.tokens, 5)[0]
    (gradient,) = torch.autograd.grad(torch.einsum("hij,jhe->ihe", dense, value), dense, direction)
    torch.testing.assert_close(
        window_weight_gradient(direction, value, plan),
        slots_by_loops(gradient * allowed, document, window),
        rtol=1e-12,
        atol=1e-13,
    )


@settings(deadline=None, max_examples=20)
@given(document=documents(), window=st.integers(1, 12), rows=st.integers(1, 16))
def test_plain_form_equals_the_fast_form_with_its_gradients(document, window, rows):
    parts = [t.requires_grad_() for t in projections(document.tokens)]
    plan = document.plan(window, rows)
    fast = window_attention(*parts, [plan])
    plain, _ = plain_window_attention(*parts, plan)

    torch.testing.assert_close(plain, fast, rtol=1e-12, atol=1e-13)
    direction = projections(document.tokens, 5)[0]
    for a, b in zip(
        torch.autograd.grad(plain, parts, direction), torch.autograd.grad(fast, parts, direction), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "document", [Document(1), Document(5, (0,)), Document(7, (2, 5), (4,)), Document(3, (0, 1, 2))]
)
def test_gradient_equals_finite_differences(document):
    parts = [t.requires_grad_() for t in projections(document.tokens)]
    assert torch.autograd.gradcheck(lambda q, k, v: window_attention(q, k, v, [document.plan(2, 4)]), parts)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_rows_of_global_tokens_take_their_places_and_receive_the_gradient(dropout):
    batch = [Document(9, (0, 4)), Document(6), Document(7, (5,), (2,))]
    plans = [document.plan(2, 4) for document in batch]
    tokens, places = sum(document.tokens for document in batch), torch.tensor([0, 4, 9 + 6 + 5])
    parts = [t.requires_grad_() for t in projections(tokens)]
    rows = projections(len(places), 7)[0].requires_grad_()
    joined = window_attention(*parts, plans, dropout, seed=3, global_rows=rows)
    copied = window_attention(*parts, plans, dropout, seed=3).index_copy(0, places, rows)

    assert torch.equal(joined, copied)
    direction, inputs = projections(tokens, 5)[0], [*parts, rows]
    gradients = [torch.autograd.grad(output, inputs, direction) for output in (joined, copied)]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_backward_keeps_query_key_value_and_output_and_nothing_else():
    document = Document(300, (0, 150))
    parts = [t.requires_grad_() for t in projections(document.tokens)]
    rows = projections(2)[0].requires_grad_()
    kept = []

    def keep(tensor):
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = window_attention(*parts, [document.plan(16)], global_rows=rows)
    assert [tensor.numel() for tensor in kept] == [300 * HEADS * WIDTH] * 4
    assert output.data_ptr() in {tensor.data_ptr() for tensor in kept}


def test_the_same_input_gives_the_same_bits():
    document = Document(200, (0, 7), (50,))
    runs = []
    for _ in range(2):
        parts = [t.float().requires_grad_() for t in projections(document.tokens)]
        masked = document.plan(16).masked
        plan = BandPlan.make(torch.tensor([0, 7]), masked, 16, torch.float32)
        output = window_attention(*parts, [plan])
        runs.append([output, *torch.autograd.grad(output.sum(), parts)])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_interior_blocks_share_one_mask():
    plan = Document(4096, (0,)).plan(256)
    assert len({id(block.bias) for block in plan.blocks}) < 12 < len(plan.blocks)


@pytest.mark.parametrize("count", [1, 3, WIDTH, WIDTH + 1, 9])
def test_folded_and_projected_global_attention_are_the_projection_written_out(count):
    generator = torch.Generator().manual_seed(0)

    def leaf(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()

    n, d = 7, HEADS * WIDTH
    rows, weight, bias, hidden = leaf(count, HEADS, WIDTH), leaf(d, d), leaf(d), leaf(n, d)
    projected = (hidden @ weight.T + bias).view(n, HEADS, WIDTH)
    expected = torch.einsum("ghe,nhe->hgn", rows, projected)
    products = global_products(rows, weight, bias, hidden)
    torch.testing.assert_close(products, expected, rtol=1e-12, atol=1e-12)

    weights = torch.softmax(expected, dim=-1)
    mixed = torch.einsum("hgn,nhe->ghe", weights, projected)
    output = global_output(torch.softmax(products, dim=-1), weight, bias, hidden)
    torch.testing.assert_close(output, mixed, rtol=1e-12, atol=1e-12)

    leaves, direction = [rows, weight, bias, hidden], torch.ones_like(mixed)
    for a, b in zip(
        torch.autograd.grad(output, leaves, direction), torch.autograd.grad(mixed, leaves, direction), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-11)


def test_without_global_tokens_there_are_no_global_products():
    rows = torch.zeros(0, HEADS, WIDTH)
    d = HEADS * WIDTH
    assert global_products(rows, torch.ones(d, d), torch.ones(d), torch.ones(5, d)).shape == (HEADS, 0, 5)
