"""Facts about model families: where their layers are, and the names of the parts of one layer.

Adding a family that uses transformers' attention interface is one entry here (and one row in the tests). Paths are
relative to the base model (`layers`) or to one layer (all others).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn
from transformers import CONFIG_MAPPING

from sightline.errors import UnsupportedError


@dataclass(frozen=True)
class RootMeanSquareNorm:
    """y = γ ⊙ x / √(mean x² + eps), over the last dimension."""

    gain: Tensor
    """γ (d,)."""
    eps: float

    def root(self, z: Tensor) -> Tensor:
        """√(mean z² + eps), (..., 1)."""
        return (z.square().mean(-1, keepdim=True) + self.eps).sqrt()


@dataclass(frozen=True)
class BlockWeights:
    """The parameters with which a layer turns mixed values into the output of its attention block."""

    output_weight: Tensor
    """W_O (d, H·e), as in `nn.Linear`."""
    output_bias: Tensor | None
    """b_O (d,)."""
    norm: nn.LayerNorm | None
    """The LayerNorm after the residual sum; None in a pre-LN layer."""
    second_norm: nn.LayerNorm | None
    """The LayerNorm after the feed-forward block; None in a pre-LN layer."""
    branch_norm: RootMeanSquareNorm | None = None
    """The RMSNorm of the attention's output before it is added to the residual, if the layer has one."""


AttentionLayout = Literal["full", "returned", "band", "blocks", "unseen"]
"""full: weights (H, n, n), observed through transformers' attention interface. returned: the same, returned by the
self-attention module `attention_module`, because the family does not use the interface (`models/observe`). band: a
window and global tokens, which the encoder of `models/longformer/` computes and observes. blocks: a window of blocks
whose first and last are global, computed and observed by the self-attention of `models/block_sparse`. unseen: a model
of which only embeddings and logits are known (`unseen_family`)."""


@dataclass(frozen=True)
class Family:
    """Where the parts are that methods need, and how the layers are wired."""

    model_type: str
    layers: Callable[[nn.Module, Any], list[nn.Module]]
    """(base model, config) -> the layer modules in the order they run (the same module may appear more than once)."""
    query: str = ""
    key: str = ""
    value: str = ""
    attention_output: str = ""
    """The output projection W_O."""
    attention_norm: str = ""
    """Post-LN: the LayerNorm after attention and residual. Pre-LN: the one before attention."""
    output_norm: str | None = ""
    """Post-LN: the LayerNorm after the feed-forward block. Pre-LN: the one before it; None where the feed-forward block
    reads the same normalised input as the attention, beside it (Phi)."""
    branch_norm: str | None = None
    """Pre-LN: the RMSNorm, with gain 1 + weight, of the attention's output before it is added to the residual (Gemma 2
    and 3)."""
    row_wise_block: str | None = None
    """The module with the inputs (mixed values, residual), after which tokens no longer interact within the layer; None
    where no module has these two inputs."""
    attention_layout: AttentionLayout = "full"
    attention_module: str | None = None
    """The self-attention module, in the layout "returned"."""
    returns_more: bool = False
    """Layers return a tuple, whose other parts the layers above may read (T5: scores of positions), so that they must
    run even where their output is known."""
    mixes_outside: Callable[[Any], bool] = lambda config: False
    """config -> whether tokens are also mixed outside the attention, so that nothing that follows attention holds."""
    encoder_only: bool = False
    """The library has encoder-decoder models of this type as well, of which only the encoder is known."""
    pre_norm: bool = False
    causal: bool = False
    """A token attends only to itself and to earlier tokens; classifiers read the last one."""
    fused_by_head: bool = False
    """One matrix makes query, key and value, and its rows are ordered by head first (GPT-NeoX)."""
    transposed_weights: bool = False
    """Projections store their matrix as (in, out), not as `nn.Linear` does."""
    positions_after_padding: bool = False
    """Position ids start at pad_token_id + 1, as in RoBERTa."""
    first_position: int | None = None
    """Where position ids start whatever the pad token is."""
    rotary: bool = False
    """Positions are rotations of queries and keys inside the attention."""
    word_table: str | None = None
    """Path from the base model to the table of word embeddings, where it is not the one that the library names."""
    position_table: str | None = "embeddings.position_embeddings"
    type_table: str | None = "embeddings.token_type_embeddings"
    """Paths from the base model to the tables that are added to the word embeddings; None if the family lacks one."""
    special_ids: tuple[tuple[int, str], ...] = ()
    """Ids and names of the special tokens when there is no tokenizer (as in the vocabularies of the first releases)."""
    single_attention: bool = False
    """The model has one row of attention weights over its encoder's outputs (`models/single_attention`): one layer of
    one head, with no token that attends and none of the parts named above."""
    token_ids: tuple[tuple[str, int], ...] = ()
    """Ids of "pad", "unk" and "mask" in the same vocabularies."""

    def block_weights(self, layer: nn.Module) -> BlockWeights:
        """Return the parameters of a layer's attention block behind the value projection."""
        projection: Any = layer.get_submodule(self.attention_output)
        norms: tuple[Any, Any] = (None, None)
        if not self.pre_norm:
            assert self.output_norm is not None
            norms = layer.get_submodule(self.attention_norm), layer.get_submodule(self.output_norm)
            assert all(isinstance(norm, nn.LayerNorm) for norm in norms)
        return BlockWeights(
            output_weight=projection.weight.T if self.transposed_weights else projection.weight,
            output_bias=projection.bias,
            norm=norms[0],
            second_norm=norms[1],
            branch_norm=self._branch_norm(layer),
        )

    def _branch_norm(self, layer: nn.Module) -> RootMeanSquareNorm | None:
        if self.branch_norm is None:
            return None
        norm: Any = layer.get_submodule(self.branch_norm)
        return RootMeanSquareNorm(1 + norm.weight, float(norm.eps))


def _at(*path: str) -> Callable[[nn.Module, Any], list[nn.Module]]:
    def layers(base: nn.Module, config: Any) -> list[nn.Module]:
        module = base
        for name in path:
            module = getattr(module, name)
        assert isinstance(module, nn.ModuleList)
        return list(module)

    return layers


def _albert_layers(base: nn.Module, config: Any) -> list[nn.Module]:
    """ALBERT runs few modules many times: groups are spread evenly over the layers, each with inner layers."""
    groups: Any = base.encoder.albert_layer_groups  # type: ignore[union-attr]
    per_group = config.num_hidden_layers / config.num_hidden_groups
    return [inner for i in range(config.num_hidden_layers) for inner in groups[int(i / per_group)].albert_layers]


_BERT_SPECIALS = ((0, "[PAD]"), (101, "[CLS]"), (102, "[SEP]"))
_BERT_TOKENS = (("pad", 0), ("unk", 100), ("mask", 103))
_ROBERTA_SPECIALS = ((0, "<s>"), (1, "<pad>"), (2, "</s>"))
_ROBERTA_TOKENS = (("pad", 1), ("unk", 3), ("mask", 50264))
_XLM_ROBERTA_TOKENS = (("pad", 1), ("unk", 3), ("mask", 250001))


def _bert_like(model_type: str, **facts: Any) -> Family:
    return Family(
        model_type=model_type,
        layers=_at("encoder", "layer"),
        query="attention.self.query",
        key="attention.self.key",
        value="attention.self.value",
        attention_output="attention.output.dense",
        attention_norm="attention.output.LayerNorm",
        output_norm="output.LayerNorm",
        row_wise_block="attention.output",
        **facts,
    )


def _gpt2_like(model_type: str, **facts: Any) -> Family:
    return Family(
        model_type=model_type,
        layers=_at("h"),
        # One matrix makes query, key and value, in this order.
        query="attn.c_attn",
        key="attn.c_attn",
        value="attn.c_attn",
        attention_output="attn.c_proj",
        attention_norm="ln_1",
        output_norm="ln_2",
        pre_norm=True,
        # The first release wrote its projections as convolutions of width 1.
        transposed_weights=True,
        position_table="wpe",
        # It would look token types up among the words.
        type_table=None,
        **facts,
    )


def _llama_like(model_type: str, **facts: Any) -> Family:
    return Family(
        model_type=model_type,
        **{
            "layers": _at("layers"),
            "query": "self_attn.q_proj",
            "key": "self_attn.k_proj",
            "value": "self_attn.v_proj",
            "attention_output": "self_attn.o_proj",
            "attention_norm": "input_layernorm",
            "output_norm": "post_attention_layernorm",
            "pre_norm": True,
            "causal": True,
            "rotary": True,
            "position_table": None,
            "type_table": None,
            **facts,
        },
    )


def _t5_like(model_type: str) -> Family:
    return Family(
        model_type=model_type,
        layers=_at("encoder", "block"),
        query="layer.0.SelfAttention.q",
        key="layer.0.SelfAttention.k",
        value="layer.0.SelfAttention.v",
        attention_output="layer.0.SelfAttention.o",
        attention_norm="layer.0.layer_norm",
        output_norm="layer.1.layer_norm",
        pre_norm=True,
        returns_more=True,
        encoder_only=True,
        # The table that the library names has the same weights, but the encoder looks words up in its own module.
        word_table="encoder.embed_tokens",
        # Positions are added to the scores.
        position_table=None,
        type_table=None,
        special_ids=((0, "<pad>"), (1, "</s>")),
        token_ids=(("pad", 0), ("unk", 2)),
    )


def _single_attention(model_type: str, position_table: str | None) -> Family:
    return Family(
        model_type=model_type,
        layers=lambda base, config: [base.attention],  # type: ignore[list-item]
        position_table=position_table,
        type_table=None,
        single_attention=True,
    )


FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        _bert_like("bert", special_ids=_BERT_SPECIALS, token_ids=_BERT_TOKENS),
        _bert_like("electra", special_ids=_BERT_SPECIALS, token_ids=_BERT_TOKENS),
        _bert_like("roberta", positions_after_padding=True, special_ids=_ROBERTA_SPECIALS, token_ids=_ROBERTA_TOKENS),
        _bert_like(
            "xlm-roberta", positions_after_padding=True, special_ids=_ROBERTA_SPECIALS, token_ids=_XLM_ROBERTA_TOKENS
        ),
        _bert_like("ernie", special_ids=((0, "[PAD]"), (1, "[CLS]"), (2, "[SEP]"))),
        _bert_like(
            "data2vec-text", positions_after_padding=True, special_ids=_ROBERTA_SPECIALS, token_ids=_ROBERTA_TOKENS
        ),
        Family(
            model_type="xlm-roberta-xl",
            layers=_at("encoder", "layer"),
            query="attention.self.query",
            key="attention.self.key",
            value="attention.self.value",
            attention_output="attention.output.dense",
            attention_norm="attention.self_attn_layer_norm",
            output_norm="LayerNorm",
            row_wise_block="attention.output",
            pre_norm=True,
            positions_after_padding=True,
            special_ids=_ROBERTA_SPECIALS,
            token_ids=_XLM_ROBERTA_TOKENS,
        ),
        Family(
            model_type="nomic_bert",
            layers=_at("layers"),
            query="self_attn.q_proj",
            key="self_attn.k_proj",
            value="self_attn.v_proj",
            attention_output="self_attn.o_proj",
            attention_norm="post_attention_layernorm",
            output_norm="post_mlp_layernorm",
            rotary=True,
            position_table=None,
            special_ids=_BERT_SPECIALS,
            token_ids=_BERT_TOKENS,
        ),
        _bert_like("camembert", positions_after_padding=True, special_ids=((5, "<s>"), (1, "<pad>"), (6, "</s>"))),
        # Does not use the attention interface: models/longformer/ swaps its encoder for an observable one.
        _bert_like(
            "longformer",
            attention_layout="band",
            positions_after_padding=True,
            special_ids=_ROBERTA_SPECIALS,
            token_ids=_ROBERTA_TOKENS,
        ),
        Family(
            model_type="distilbert",
            layers=_at("transformer", "layer"),
            query="attention.q_lin",
            key="attention.k_lin",
            value="attention.v_lin",
            attention_output="attention.out_lin",
            attention_norm="sa_layer_norm",
            output_norm="output_layer_norm",
            type_table=None,
            special_ids=_BERT_SPECIALS,
            token_ids=_BERT_TOKENS,
        ),
        Family(
            model_type="albert",
            layers=_albert_layers,
            query="attention.query",
            key="attention.key",
            value="attention.value",
            attention_output="attention.dense",
            attention_norm="attention.LayerNorm",
            output_norm="full_layer_layer_norm",
            special_ids=((0, "<pad>"), (2, "[CLS]"), (3, "[SEP]")),
        ),
        Family(
            model_type="modernbert",
            layers=_at("layers"),
            # One matrix makes query, key and value, in this order.
            query="attn.Wqkv",
            key="attn.Wqkv",
            value="attn.Wqkv",
            attention_output="attn.Wo",
            attention_norm="attn_norm",
            output_norm="mlp_norm",
            pre_norm=True,
            rotary=True,
            position_table=None,
            type_table=None,
            special_ids=((50283, "[PAD]"), (50281, "[CLS]"), (50282, "[SEP]")),
        ),
        Family(
            model_type="mpnet",
            layers=_at("encoder", "layer"),
            query="attention.attn.q",
            key="attention.attn.k",
            value="attention.attn.v",
            attention_output="attention.attn.o",
            attention_norm="attention.LayerNorm",
            output_norm="output.LayerNorm",
            attention_layout="returned",
            attention_module="attention.attn",
            returns_more=True,
            positions_after_padding=True,
            first_position=2,  # the library's code says that the pad token is 1
            type_table=None,
            special_ids=_ROBERTA_SPECIALS,
            token_ids=(("pad", 1), ("unk", 3), ("mask", 30526)),
        ),
        Family(
            model_type="deberta-v2",
            layers=_at("encoder", "layer"),
            query="attention.self.query_proj",
            key="attention.self.key_proj",
            value="attention.self.value_proj",
            attention_output="attention.output.dense",
            attention_norm="attention.output.LayerNorm",
            output_norm="output.LayerNorm",
            row_wise_block="attention.output",
            attention_layout="returned",
            attention_module="attention.self",
            returns_more=True,
            # The largest models of the second version have a convolution over tokens after the first layer.
            mixes_outside=lambda config: int(getattr(config, "conv_kernel_size", 0) or 0) > 0,
            special_ids=((0, "[PAD]"), (1, "[CLS]"), (2, "[SEP]")),
            token_ids=(("pad", 0), ("unk", 3), ("mask", 128000)),
        ),
        _bert_like(
            "big_bird",
            attention_layout="blocks",
            special_ids=((0, "<pad>"), (65, "[CLS]"), (66, "[SEP]")),
            token_ids=(("pad", 0), ("unk", 100), ("mask", 67)),
        ),
        _t5_like("t5"),
        _t5_like("mt5"),
        _gpt2_like("gpt2", causal=True, special_ids=((50256, "<|endoftext|>"),)),
        _gpt2_like("bidirectional-gpt2"),
        _llama_like("llama"),
        _llama_like("mistral"),
        _llama_like("qwen2"),
        _llama_like("qwen3"),
        _llama_like("smollm3"),
        _llama_like("gemma"),
        *(
            # Attention and feed-forward block have a norm before and a norm behind them.
            _llama_like(name, branch_norm="post_attention_layernorm", output_norm="pre_feedforward_layernorm")
            for name in ("gemma2", "gemma3_text")
        ),
        _llama_like("phi", attention_output="self_attn.dense", output_norm=None),
        # One matrix makes query, key and value, in this order.
        _llama_like("phi3", **dict.fromkeys(("query", "key", "value"), "self_attn.qkv_proj")),
        _llama_like(
            "gpt_neox",
            **dict.fromkeys(("query", "key", "value"), "attention.query_key_value"),
            fused_by_head=True,
            attention_output="attention.dense",
            # The feed-forward block runs beside the attention, or behind it if the config says so. Either way the block
            # of the attention adds its output to its input.
            output_norm=None,
        ),
        _single_attention("bilstm-attention", position_table=None),
        _single_attention("transformer-attention", position_table="encoder.position_embeddings"),
    )
}


def unseen_family(model_type: str) -> Family:
    """Return the facts of a model without an entry above: none, so that only its embeddings and logits are used.

    Whether such a model reads its attention mask, and from which end, is unknown: documents are never padded.
    """
    return Family(
        model_type=model_type,
        layers=lambda base, config: [],
        attention_layout="unseen",
        position_table=None,
        type_table=None,
    )


def family_of(model_type: str) -> Family:
    """Return the facts of a family, or `unseen_family` for other types of transformers; else raise UnsupportedError."""
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    if model_type in CONFIG_MAPPING:
        return unseen_family(model_type)
    raise UnsupportedError(
        f"Models of type '{model_type}' are not supported, and transformers does not know them either. Supported with "
        f"all methods: {', '.join(sorted(FAMILIES))}."
    )
