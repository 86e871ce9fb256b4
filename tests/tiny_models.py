"""Every family as a tiny random model, built in milliseconds: 3 layers, 4 heads, 32 wide, 128 tokens.

Biases and LayerNorm gains are random too: with the usual zeros and ones many mistakes cancel.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from sightline.api.load import load
from sightline.api.model import Model
from sightline.models.model_types import register_architectures

register_architectures()

VOCABULARY = 128
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
_MARKS = {"pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102}
FAMILY_FACTS: dict[str, dict[str, Any]] = {
    "bert": {},
    "distilbert": {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64},
    "roberta": {"pad_token_id": 1},
    "xlm-roberta": {"pad_token_id": 1},
    "camembert": {"pad_token_id": 1},
    "electra": {"embedding_size": 16},
    "ernie": {"use_task_id": True},
    "data2vec-text": {"pad_token_id": 1},
    "xlm-roberta-xl": {"pad_token_id": 1},
    "nomic_bert": {"pad_token_id": 0},
    "albert": {"embedding_size": 16, "num_hidden_groups": 1},
    "modernbert": {
        "pad_token_id": 0,
        "bos_token_id": 1,
        "cls_token_id": 1,
        "eos_token_id": 2,
        "sep_token_id": 2,
        "local_attention": 4,
        "global_attn_every_n_layers": 2,
    },
    "longformer": {"pad_token_id": 1, "attention_window": 8},
    "mpnet": {"pad_token_id": 1},
    # As in its third version: positions only in the scores, shared projections, buckets for distances.
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_buckets": 4,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
    },
    # Sparse beyond seven tokens.
    "big_bird": {"attention_type": "block_sparse", "block_size": 1, "num_random_blocks": 1},
    "bidirectional-gpt2": {"n_inner": 64, "pad_token_id": 0},
    "gpt2": {**_MARKS, "n_inner": 64},
    "llama": {**_MARKS, "num_key_value_heads": 2},
    "mistral": {**_MARKS, "num_key_value_heads": 2, "sliding_window": 5},
    # Its last layer has a sliding window.
    "qwen2": {
        **_MARKS,
        "num_key_value_heads": 2,
        "use_sliding_window": True,
        "sliding_window": 4,
        "max_window_layers": 2,
    },
    "qwen3": {**_MARKS, "num_key_value_heads": 2, "head_dim": 16},
    # One key and value head, and heads that are wider together than the model.
    "gemma": {**_MARKS, "num_key_value_heads": 1, "head_dim": 12},
    # One layer in two without rotary positions.
    "smollm3": {**_MARKS, "num_key_value_heads": 2, "no_rope_layers": [1, 0, 1]},
    "gpt_neox": {**_MARKS},
    # Scores and logits bent where they are, queries scaled by another width than that of a head, a sliding window in
    # every other layer.
    "gemma2": {
        **_MARKS,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "query_pre_attn_scalar": 20,
        "sliding_window": 5,
        "attn_logit_softcapping": 1.5,
        "final_logit_softcapping": 2.0,
    },
    # Norms of queries and keys too, and other rotations in sliding layers.
    "gemma3_text": {
        **_MARKS,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "query_pre_attn_scalar": 20,
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    },
    "phi": {**_MARKS},
    "phi3": {**_MARKS, "num_key_value_heads": 2, "sliding_window": 6},
}
DECODERS = (
    "gpt2",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "smollm3",
    "gpt_neox",
    "gemma",
    "gemma2",
    "gemma3_text",
    "phi",
    "phi3",
)
"""Families whose tokens see only themselves and earlier ones."""
FAMILIES = tuple(FAMILY_FACTS)
UNSEEN_FACTS: dict[str, dict[str, Any]] = {
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "pad_token_id": 5},
    "fnet": {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "max_position_embeddings": 130},
    "funnel": {
        "d_model": 32,
        "block_sizes": [1, 1],
        "num_decoder_layers": 1,
        "n_head": 4,
        "d_head": 8,
        "d_inner": 64,
        "pad_token_id": 0,
    },
    "olmo2": {**SIZES, "max_position_embeddings": 130, **_MARKS},
}
"""Types of models without an entry in `families`, of which only embeddings and logits are known."""
DENSE_FAMILIES = tuple(family for family in FAMILIES if family != "longformer")
SINGLE_PRECISION = ("longformer", "modernbert", *DECODERS[1:])
"""Families whose library code computes the softmax or the norms in single precision whatever the weights are."""
FIRST_AND_LAST = {
    "ernie": (1, 2),
    "data2vec-text": (0, 2),
    "xlm-roberta-xl": (0, 2),
    "mpnet": (0, 2),
    "deberta-v2": (1, 2),
    "big_bird": (65, 66),
    "roberta": (0, 2),
    "xlm-roberta": (0, 2),
    "longformer": (0, 2),
    "camembert": (5, 6),
    "albert": (2, 3),
    "modernbert": (1, 2),
}
"""Ids of the marks around a document, where they are not BERT's 101 and 102."""


def tiny_module(
    family: str = "bert",
    *,
    auto: Any = AutoModelForSequenceClassification,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    **facts: Any,
) -> PreTrainedModel:
    """Return a random transformers model of one family, in evaluation mode."""
    if family in UNSEEN_FACTS:
        described = {"vocab_size": VOCABULARY, "num_labels": 3, **UNSEEN_FACTS[family], **facts}
    else:
        sizes = {} if family == "distilbert" else SIZES
        common = {"vocab_size": VOCABULARY, "max_position_embeddings": 130, "num_labels": 3}
        described = {**common, **sizes, **FAMILY_FACTS[family], **facts}
    return randomise(auto.from_config(AutoConfig.for_model(family, **described), attn_implementation="eager"), seed).to(
        dtype
    )


def randomise(module: Any, seed: int = 0) -> Any:
    """Return a module with random weights, in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            is_gain = parameter.ndim == 1 and name.endswith("weight")
            centre = 0 if module.config.model_type.startswith("gemma") else 1  # its norms multiply by 1 + weight
            parameter.copy_(centre + 0.3 * noise if is_gain else 0.25 * noise)
    return module.eval()


def tiny_model(family: str = "bert", *, attention: Any = "banded", **options: Any) -> Model:
    """Return the same, loaded; it has no tokenizer: use ids from `tiny_ids`."""
    return load(tiny_module(family, **options), attention=attention)


def tiny_ids(family: str = "bert", n: int = 11, seed: int = 0) -> list[int]:
    """Return ids of a document of n tokens with the family's marks around it."""
    first, last = FIRST_AND_LAST.get(family, (101, 102))
    generator = torch.Generator().manual_seed(seed)
    body = torch.randint(10, 100, (max(0, n - 2),), generator=generator).tolist()
    return [first, *body, last][:n]
