"""Configs of the models with a single attention, in the form of transformers."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

from sightline.attention.projections import Projection
from sightline.errors import OptionError

SCORINGS = ("additive", "dot")


class SingleAttentionConfig(PreTrainedConfig):  # type: ignore[misc]
    """What both models share: sizes, how a token is scored, and how scores become weights."""

    vocab_size: int = 1000
    embedding_size: int = 128
    hidden_size: int = 256
    """Width d of the encoder's outputs h."""
    num_hidden_layers: int = 1
    """Layers of the encoder."""
    scoring: str = "additive"
    """"additive", u·tanh(W h_i + b), or "dot", u·h_i/√d."""
    projection: str = "softmax"
    """Short name of a projection, such as softmax, sparsemax, entmax15 or sparsegen0.5."""
    unattended_ids: list[int] | None = None
    """Tokens that the encoder reads and that get no weight: the marks around a document."""
    dropout: float = 0.1
    max_position_embeddings: int = 8192
    num_attention_heads: int = 1
    pad_token_id: int | None = 0

    def __post_init__(self, **kwargs: Any) -> None:
        if self.scoring not in SCORINGS:
            raise OptionError(f"Unknown scoring '{self.scoring}' of a single attention. Use additive or dot.")
        self.projection = Projection.named(self.projection).name
        super().__post_init__(**kwargs)


class BilstmAttentionConfig(SingleAttentionConfig):
    """A bidirectional LSTM under one attention (Jain & Wallace 2019); hidden_size counts both directions."""

    model_type = "bilstm-attention"


class TransformerAttentionConfig(SingleAttentionConfig):
    """A small Transformer encoder under one attention; its own heads are `encoder_heads`."""

    model_type = "transformer-attention"
    hidden_size: int = 128
    """Width of the embeddings, too."""
    num_hidden_layers: int = 2
    encoder_heads: int = 4
    intermediate_size: int = 256
    """Width of the feed-forward blocks."""
    scoring: str = "dot"
    max_position_embeddings: int = 512

    def __post_init__(self, **kwargs: Any) -> None:
        if self.hidden_size % self.encoder_heads:
            raise OptionError(f"A width of {self.hidden_size} cannot be divided among {self.encoder_heads} heads.")
        self.embedding_size = self.hidden_size
        super().__post_init__(**kwargs)
