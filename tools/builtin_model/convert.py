"""From a plain BERT classifier of 256 tokens to a Longformer classifier of 4,096 tokens.

The recipe of Beltagy, Peters & Cohan 2020 (Longformer: The Long-Document Transformer, section 5): the learnt position
embeddings are repeated until they fill the new length, and the projections of global attention start as copies of the
local ones. On a text that fits into one window the two models compute the same logits: every token sees every
other, and [CLS], which has global attention, sees them through equal projections.
"""

from __future__ import annotations

import torch
from transformers import BertForSequenceClassification, LongformerConfig, LongformerForSequenceClassification

from tools.builtin_model.vocabulary import CLS, MAX_TOKENS, PAD, SEP

WINDOW = 128  # 64 tokens to each side


def to_longformer(
    bert: BertForSequenceClassification, max_tokens: int = MAX_TOKENS, window: int = WINDOW
) -> LongformerForSequenceClassification:
    """Return a Longformer with the weights of `bert`, for documents up to `max_tokens` tokens."""
    source = bert.config
    config = LongformerConfig(
        vocab_size=source.vocab_size,
        hidden_size=source.hidden_size,
        num_hidden_layers=source.num_hidden_layers,
        num_attention_heads=source.num_attention_heads,
        intermediate_size=source.intermediate_size,
        hidden_act=source.hidden_act,
        hidden_dropout_prob=source.hidden_dropout_prob,
        attention_probs_dropout_prob=source.attention_probs_dropout_prob,
        layer_norm_eps=source.layer_norm_eps,
        type_vocab_size=1,  # one text a document: no pair task
        max_position_embeddings=max_tokens + PAD + 1,  # positions count from PAD + 1
        attention_window=[window] * source.num_hidden_layers,
        pad_token_id=PAD,
        bos_token_id=CLS,
        eos_token_id=SEP,
        sep_token_id=SEP,
        id2label=source.id2label,
        label2id=source.label2id,
    )
    long = LongformerForSequenceClassification(config)
    weights = {}
    for name, value in bert.state_dict().items():
        name = name.replace("bert.", "longformer.", 1)
        if name.endswith("embeddings.position_embeddings.weight"):
            value = _tiled(value, max_tokens)
        elif name.endswith("embeddings.token_type_embeddings.weight"):
            value = value[:1]
        elif name.startswith("longformer.pooler.dense."):
            # BERT's pooler and Longformer's classification head are the same tanh layer on [CLS], under two names.
            name = name.replace("longformer.pooler.dense.", "classifier.dense.")
        elif name.startswith("classifier."):
            name = name.replace("classifier.", "classifier.out_proj.")
        elif name.endswith(("position_ids", "token_type_ids")):
            continue
        weights[name] = value.clone()
        for projection in ("query", "key", "value"):
            if f".attention.self.{projection}." in name:
                weights[name.replace(f".{projection}.", f".{projection}_global.")] = value.clone()
    long.load_state_dict(weights)
    return long


def _tiled(positions: torch.Tensor, max_tokens: int) -> torch.Tensor:
    """Repeat (short, d) position embeddings to (PAD + 1 + max_tokens, d); the rows up to PAD are never read."""
    repeats = -(-max_tokens // positions.shape[0])
    tiled = positions.repeat(repeats, 1)[:max_tokens]
    return torch.cat([torch.zeros(PAD + 1, positions.shape[1], dtype=positions.dtype), tiled])
