"""The decomposition of attention blocks against its definition, written out pair by pair in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sightline.attention import BandedAttention, DenseAttention
from sightline.errors import OptionError
from sightline.methods.decomposition import measures
from sightline.methods.decomposition.block import (
    AttentionBlock,
    Norm,
    measure_contributions,
    reconstruction_error,
    roll_out_rows,
)
from sightline.models.families import RootMeanSquareNorm
from tests.attention.bands import Band, bands, make_band

HEADS, HEAD_WIDTH, WIDTH = 3, 4, 10
MEASURES = {
    "alti": {},
    "alti, p=2": {"p": 2},
    "norm": {"kind": "norm"},
    "alti, LN2": {"second_norm": True},
    "alti, p=2, LN2": {"p": 2, "second_norm": True},
    "norm, LN2": {"kind": "norm", "second_norm": True},
}
LAYOUTS = {
    "dense": lambda rng: dense_attention(rng, 9),
    "one token": lambda rng: dense_attention(rng, 1),
    "causal": lambda rng: DenseAttention(np.tril(rng.exponential(size=(HEADS, 7, 7)))),
    "window": lambda rng: make_band(rng, HEADS, 11, 2, ()).attention,
    "several global tokens": lambda rng: make_band(rng, HEADS, 12, 2, (7, 0, 3)).attention,
    "window of itself": lambda rng: make_band(rng, HEADS, 6, 0, (1,)).attention,
    "window wider than the text": lambda rng: make_band(rng, HEADS, 4, 9, (2,)).attention,
    "all global": lambda rng: make_band(rng, HEADS, 4, 1, (0, 1, 2, 3)).attention,
    "one token in a band": lambda rng: make_band(rng, HEADS, 1, 2, ()).attention,
}


WIRINGS = {
    "post-LN": {},
    "pre-LN": {"post_norm": False},
    "norm behind the attention": {"post_norm": False, "branch_norm": True},
}


def dense_attention(rng, n, heads=HEADS):
    weights = rng.exponential(size=(heads, n, n)) ** 2
    return DenseAttention(weights / weights.sum(-1, keepdims=True))


def random_norm(rng, width):
    return Norm(torch.tensor(rng.normal(size=width)), torch.tensor(rng.normal(size=width)), 1e-5)


def random_block(rng, attention, *, post_norm=True, branch_norm=False, head_width=HEAD_WIDTH, width=WIDTH):
    """A block with random parts around the given attention; a band gets a second set of values, as in Longformer."""
    n, heads = attention.tokens, attention.heads

    def normal(*shape):
        return torch.tensor(rng.normal(size=shape))

    return AttentionBlock(
        attention=attention,
        values=normal(n, heads, head_width),
        output_weight=normal(width, heads * head_width),
        inputs=normal(n, width),
        output_bias=normal(width),
        norm=random_norm(rng, width) if post_norm else None,
        branch_norm=RootMeanSquareNorm(normal(width), 1e-5) if branch_norm else None,
        global_values=normal(n, heads, head_width) if isinstance(attention, BandedAttention) else None,
        second_norm=random_norm(rng, width) if post_norm else None,
        second_input=normal(n, width) if post_norm else None,
    )


def slow_layer_norm(z, norm):
    deviation = np.sqrt(np.mean((z - z.mean()) ** 2) + norm.eps)
    return norm.weight.numpy() * (z - z.mean()) / deviation + norm.bias.numpy(), deviation


def slow_row(block, i, *, second_norm=False):
    """The vectors T_ij (n, d) of row i, what belongs to no token (d,), and the output y_i (d,), by the definition."""
    n, d = block.inputs.shape
    weights = block.attention.dense()
    global_tokens = block.attention.global_tokens.tolist() if isinstance(block.attention, BandedAttention) else []
    values = (block.global_values if i in global_tokens else block.values).numpy()
    projection = block.output_weight.numpy().reshape(d, block.attention.heads, -1)
    vectors = np.zeros((n, d))
    for j in range(n):
        for h in range(block.attention.heads):
            vectors[j] += weights[h, i, j] * (projection[:, h] @ values[j, h])
    rest = block.output_bias.numpy()
    if block.branch_norm is not None:
        attended = vectors.sum(0) + rest
        factors = block.branch_norm.gain.numpy() / np.sqrt(np.mean(attended**2) + block.branch_norm.eps)
        vectors, rest = vectors * factors, rest * factors
    vectors[i] += block.inputs[i].numpy()
    output = vectors.sum(0) + rest
    if block.norm is not None:
        output, deviation = slow_layer_norm(output, block.norm)
        gain = block.norm.weight.numpy()
        vectors = gain * (vectors - vectors.mean(-1, keepdims=True)) / deviation
        rest = gain * (rest - rest.mean()) / deviation + block.norm.bias.numpy()
        if second_norm:
            output, deviation = slow_layer_norm(block.second_input[i].numpy(), block.second_norm)
            vectors = block.second_norm.weight.numpy() * (vectors - vectors.mean(-1, keepdims=True)) / deviation
    return vectors, rest, output


def slow_contributions(block, *, kind="alti", p=1, second_norm=False):
    """c (n, n) by the definition, and how many rows nothing contributed to."""
    n = block.attention.tokens
    result, clipped = np.zeros((n, n)), 0
    for i in range(n):
        vectors, _, output = slow_row(block, i, second_norm=second_norm)
        for j in range(n):
            if kind == "norm":
                result[i, j] = np.linalg.norm(vectors[j])
            else:
                result[i, j] = max(0, np.linalg.norm(output, p) - np.linalg.norm(output - vectors[j], p))
        if result[i].sum() == 0:
            result[i, i], clipped = 1, clipped + 1
    return result / result.sum(-1, keepdims=True), clipped


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_contributions_equal_their_definition(layout, wiring, measure):
    rng = np.random.default_rng(1)
    block = random_block(rng, LAYOUTS[layout](rng), **WIRINGS[wiring])
    options = MEASURES[measure]
    expected, clipped = slow_contributions(block, **options)
    result = measure_contributions(block, **options)
    assert type(result.attention) is type(block.attention)
    assert result.attention.heads == 1
    assert result.clipped_rows == clipped
    np.testing.assert_allclose(result.attention.dense()[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_vectors_and_biases_sum_to_the_output(layout, wiring):
    rng = np.random.default_rng(2)
    block = random_block(rng, LAYOUTS[layout](rng), **WIRINGS[wiring])
    outputs = []
    for i in range(block.attention.tokens):
        vectors, rest, output = slow_row(block, i)
        np.testing.assert_allclose(vectors.sum(0) + rest, output, rtol=0, atol=1e-12)
        outputs.append(output)
    assert reconstruction_error(replace(block, output=torch.tensor(np.stack(outputs)))) < 1e-12


@pytest.mark.parametrize("layout", ["dense", "several global tokens"])
@pytest.mark.parametrize("row", [3, 5])
def test_a_wrong_description_of_the_block_shows_in_the_reconstruction_error(layout, row):
    """Rows 3 and 5 are a global and a local one where there are global tokens."""
    rng = np.random.default_rng(4)
    block = random_block(rng, LAYOUTS[layout](rng))
    right = torch.tensor(np.stack([slow_row(block, i)[2] for i in range(block.attention.tokens)]))
    assert reconstruction_error(replace(block, output=right, output_bias=None)) > 1e-2
    right[row] *= 1.5
    assert reconstruction_error(replace(block, output=right)) == pytest.approx(1 / 3)


@pytest.mark.parametrize("measure", ["alti", "alti, p=2", "norm"])
@settings(max_examples=40, deadline=None)
@given(band=bands(), tile=st.sampled_from([1, 400, 2**20]))
def test_a_band_gives_what_its_full_matrix_gives(measure, band: Band, tile):
    """Lengths beyond one group of keys, tiles of one row and of all rows, any weights."""
    block = replace(random_block(band.rng, band.attention), global_values=None)
    full = replace(block, attention=DenseAttention(band.slow_dense()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measures, "TILE_ELEMENTS", tile)
        ours = measure_contributions(block, **MEASURES[measure])
    expected = measure_contributions(full, **MEASURES[measure])
    assert ours.clipped_rows == expected.clipped_rows
    np.testing.assert_allclose(ours.attention.dense(), expected.attention.dense(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("layout", ["dense", "window", "several global tokens"])
@pytest.mark.parametrize("rows", [[0], [3], [8, 2, 2, 3], []], ids=str)
def test_selected_rows_are_those_of_all_rows_and_the_others_are_zero(layout, rows):
    rng = np.random.default_rng(5)
    block = random_block(rng, LAYOUTS[layout](rng))
    for options in MEASURES.values():
        expected = measure_contributions(block, **options).attention.dense()[0]
        expected[[row for row in range(len(expected)) if row not in rows]] = 0
        result = measure_contributions(block, rows=rows, **options).attention.dense()[0]
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("layout", ["dense", "several global tokens", "one token"])
@pytest.mark.parametrize("p", [1, 2])
def test_rows_to_which_nothing_contributes_become_identity_and_are_counted(layout, p):
    """Every vector points away from an output that the bias alone decides."""
    rng = np.random.default_rng(6)
    block = random_block(rng, LAYOUTS[layout](rng), post_norm=False)
    positive = {name: getattr(block, name).abs() for name in ("values", "output_weight", "inputs")}
    if block.global_values is not None:
        positive["global_values"] = block.global_values.abs()
    block = replace(block, output_bias=torch.full((WIDTH,), -1e4), **positive)
    result = measure_contributions(block, p=p)
    n = block.attention.tokens
    assert result.clipped_rows == n
    np.testing.assert_array_equal(result.attention.dense()[0], np.eye(n))
    assert measure_contributions(block, p=p, rows=[0]).clipped_rows == 1


@pytest.mark.parametrize("options", [{}, {"p": 2}, {"kind": "norm"}], ids=str)
def test_a_block_of_zeros_has_finite_contributions(options):
    attention = DenseAttention(np.full((2, 3, 3), 1 / 3))
    norm = Norm(torch.zeros(8), None, 1e-5)
    block = AttentionBlock(attention, torch.zeros(3, 2, 4), torch.zeros(8, 8), torch.zeros(3, 8), norm=norm)
    result = measure_contributions(block, **options)
    assert result.clipped_rows == 3
    np.testing.assert_array_equal(result.attention.dense()[0], np.eye(3))


def test_pairs_without_attention_contribute_exactly_nothing():
    """Rounding must not give the future of a causal model a share, nor the tokens outside of a window."""
    rng = np.random.default_rng(7)
    weights = np.tril(rng.exponential(size=(HEADS, 40, 40)).astype(np.float32))
    block = random_block(rng, DenseAttention(weights))
    for options in MEASURES.values():
        assert np.all(measure_contributions(block, **options).attention.dense()[0][weights[0] == 0] == 0)


@pytest.mark.parametrize("measure", ["alti", "alti, p=2", "norm"])
def test_float32_stays_float32_and_keeps_its_digits(measure):
    """At base width a contribution is a ten-thousandth of the lengths it is the difference of."""
    rng = np.random.default_rng(8)
    heads, head_width, n = 12, 64, 200
    double = random_block(rng, dense_attention(rng, n, heads), head_width=head_width, width=heads * head_width)
    single = replace(double, attention=DenseAttention(double.attention.weights.float()))
    expected = measure_contributions(double, **MEASURES[measure]).attention.dense()
    result = measure_contributions(single, **MEASURES[measure]).attention
    assert result.dtype == np.float32
    positive = expected > 0
    np.testing.assert_allclose(result.dense(), expected, rtol=0, atol=2e-4 * np.median(expected[positive]))


class LargestTensor(TorchDispatchMode):
    """Remembers the number of elements of the largest tensor that any operation returned."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.elements = max([self.elements, *sizes])
        return result


@pytest.mark.parametrize("measure", ["alti", "alti, p=2", "norm"])
def test_no_tensor_grows_with_pairs_times_width(measure):
    rng = np.random.default_rng(9)
    dense = random_block(rng, dense_attention(rng, 400))
    band = random_block(rng, make_band(rng, HEADS, 3000, 5, (0, 9)).attention)
    with LargestTensor() as seen:
        measure_contributions(dense, **MEASURES[measure])
    assert seen.elements <= measures.TILE_ELEMENTS < 400 * 400 * WIDTH
    with LargestTensor() as seen:
        measure_contributions(band, **MEASURES[measure])
    assert seen.elements <= measures.TILE_ELEMENTS < 3000 * 3000


def test_tensors_on_an_autograd_path_are_read_only_as_numbers():
    rng = np.random.default_rng(10)
    block = random_block(rng, dense_attention(rng, 5))
    values, inputs = (part.clone().requires_grad_() for part in (block.values, block.inputs))
    watched = replace(block, values=values * 1, inputs=inputs)
    result = measure_contributions(watched)

    np.testing.assert_array_equal(result.attention.dense(), measure_contributions(block).attention.dense())


def test_rollout_rows_are_the_rows_of_the_products_of_all_layers_below():
    rng = np.random.default_rng(11)
    layers = [make_band(rng, 1, 12, 2, (0, 5)).attention for _ in range(4)]
    readout = rng.dirichlet(np.ones(12))
    product, expected = np.eye(12), []
    for layer in layers:
        product = layer.dense()[0] @ product
        expected.append(readout @ product)
    np.testing.assert_allclose(roll_out_rows(layers, readout), expected, rtol=0, atol=1e-14)


def test_other_norms_of_distances_are_refused():
    rng = np.random.default_rng(12)
    block = random_block(rng, dense_attention(rng, 4))
    with pytest.raises(OptionError, match="p=3"):
        measure_contributions(block, p=3)


def test_norms_through_the_second_layer_norm_need_its_gain_only():
    """Its deviation is one number a row, which the sum of the row divides out."""
    rng = np.random.default_rng(13)
    block = random_block(rng, dense_attention(rng, 6))
    expected = measure_contributions(block, kind="norm", second_norm=True).attention.dense()
    result = measure_contributions(replace(block, second_input=None), kind="norm", second_norm=True).attention.dense()
    np.testing.assert_array_equal(result, expected)
