"""Blocks of real transformers models: what the decomposition rebuilds is what the module computed, to float64 rounding.

Everything is read from forward hooks and the library's own attention output; Sightline's way of running models is not
involved.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightline.attention import BandedAttention, DenseAttention
from sightline.methods.decomposition.block import (
    AttentionBlock,
    Norm,
    measure_contributions,
    reconstruction_error,
    roll_out_rows,
)
from sightline.models.families import RootMeanSquareNorm
from tests.tiny_models import tiny_module

IDS = torch.arange(20, 36).unsqueeze(0)
TOKENS = IDS.shape[1]
GLOBAL_TOKENS = [0, 5, 6]


class Watched:
    """The inputs and outputs of a module's parts in one forward pass, (n, ·) each, by the names of the parts."""

    def __init__(self, module, names):
        self.inputs, self.outputs = {}, {}
        for name in names:
            module.get_submodule(name).register_forward_hook(self._keeper(name))

    def _keeper(self, name):
        def keep(part, inputs, output):
            output = output[0] if isinstance(output, tuple) else output
            self.inputs[name], self.outputs[name] = (x.detach().reshape(TOKENS, -1) for x in (inputs[0], output))

        return keep


def norm_of(module):
    return Norm(module.weight, module.bias, module.eps)


def bert_like_blocks(family, **inputs):
    """The blocks of a BERT, or of a Longformer with the library's attention (whole windows, so nothing is padded)."""
    module = tiny_module(family)
    layers = [f"base_model.encoder.layer.{number}" for number in range(module.config.num_hidden_layers)]
    values = ["value", "value_global"] if family == "longformer" else ["value"]
    parts = ["attention.output.LayerNorm", "output.LayerNorm", *(f"attention.self.{name}" for name in values)]
    seen = Watched(module, [*layers, *(f"{layer}.{part}" for layer in layers for part in parts)])
    out = module(IDS, output_attentions=True, **inputs)
    for number, layer in enumerate(layers):
        weights = out.attentions[number][0]
        if family == "longformer":
            global_rows = out.global_attentions[number][0].transpose(1, 2)
            attention = BandedAttention(weights, global_rows, GLOBAL_TOKENS)
        else:
            attention = DenseAttention(weights)
        value, *value_global = (
            seen.outputs[f"{layer}.attention.self.{name}"].view(TOKENS, attention.heads, -1) for name in values
        )
        watched = module.get_submodule(layer)
        yield AttentionBlock(
            attention=attention,
            values=value,
            output_weight=watched.attention.output.dense.weight,
            inputs=seen.inputs[layer],
            output_bias=watched.attention.output.dense.bias,
            norm=norm_of(watched.attention.output.LayerNorm),
            global_values=value_global[0] if value_global else None,
            output=seen.outputs[f"{layer}.attention.output.LayerNorm"],
            second_norm=norm_of(watched.output.LayerNorm),
            second_input=seen.inputs[f"{layer}.output.LayerNorm"],
        )


def bert_blocks():
    return list(bert_like_blocks("bert"))


def longformer_blocks():
    mask = torch.zeros_like(IDS)
    mask[0, GLOBAL_TOKENS] = 1
    return list(bert_like_blocks("longformer", global_attention_mask=mask))


def modernbert_blocks():
    """Pre-LN: the output of the block is what the LayerNorm of the feed-forward block receives."""
    module = tiny_module("modernbert")
    layers = [f"model.layers.{number}" for number in range(module.config.num_hidden_layers)]
    seen = Watched(module, [*layers, *(f"{layer}.{part}" for layer in layers for part in ("attn.Wqkv", "mlp_norm"))])
    attentions = module(IDS, output_attentions=True).attentions
    heads = module.config.num_attention_heads
    return [
        AttentionBlock(
            attention=DenseAttention(weights[0]),
            values=seen.outputs[f"{layer}.attn.Wqkv"].view(TOKENS, 3, heads, -1)[:, 2],
            output_weight=module.get_submodule(layer).attn.Wo.weight,
            inputs=seen.inputs[layer],
            output=seen.inputs[f"{layer}.mlp_norm"],
        )
        for layer, weights in zip(layers, attentions, strict=True)
    ]


def gemma2_blocks():
    """Pre-LN with a norm behind the attention too, whose gain is 1 + weight; two query heads share a value head."""
    module = tiny_module("gemma2")
    for norm in module.modules():  # the library's compute in single precision
        if type(norm).__name__ == "Gemma2RMSNorm":
            norm.forward = lambda x, norm=norm: norm._norm(x) * (1 + norm.weight)
    layers = [f"model.layers.{number}" for number in range(module.config.num_hidden_layers)]
    parts = ("self_attn.v_proj", "pre_feedforward_layernorm")
    seen = Watched(module, [*layers, *(f"{layer}.{part}" for layer in layers for part in parts)])
    attentions = module(IDS, output_attentions=True).attentions
    blocks = []
    for layer, weights in zip(layers, attentions, strict=True):
        norm = module.get_submodule(f"{layer}.post_attention_layernorm")
        blocks.append(
            AttentionBlock(
                attention=DenseAttention(weights[0]),
                values=seen.outputs[f"{layer}.self_attn.v_proj"].view(TOKENS, 2, -1).repeat_interleave(2, dim=1),
                output_weight=module.get_submodule(layer).self_attn.o_proj.weight,
                inputs=seen.inputs[layer],
                branch_norm=RootMeanSquareNorm(1 + norm.weight, module.config.rms_norm_eps),
                output=seen.inputs[f"{layer}.pre_feedforward_layernorm"],
            )
        )
    return blocks


BLOCKS = [bert_blocks, longformer_blocks, modernbert_blocks, gemma2_blocks]


@pytest.mark.parametrize("blocks", BLOCKS)
def test_the_output_of_the_module_is_rebuilt(blocks):
    errors = [reconstruction_error(block) for block in blocks()]
    assert len(errors) == 3
    assert max(errors) < 1e-10


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("options", [{}, {"p": 2}, {"kind": "norm"}, {"kind": "norm", "second_norm": True}], ids=str)
def test_every_layer_of_the_rollout_is_a_distribution_over_the_tokens(blocks, options):
    layers = [measure_contributions(block, **options).attention for block in blocks()]
    rows = roll_out_rows(layers, np.eye(TOKENS)[0])
    assert rows.shape == (3, TOKENS)
    assert np.all(rows >= 0)
    np.testing.assert_allclose(rows.sum(-1), 1, rtol=0, atol=1e-12)
    top_row_only = measure_contributions(blocks()[-1], rows=[0], **options).attention
    np.testing.assert_allclose(roll_out_rows([*layers[:-1], top_row_only], np.eye(TOKENS)[0])[-1], rows[-1], atol=1e-14)
