"""Classifiers with a single attention, as transformers models: save_pretrained, from_pretrained and `sl.load` work.

    h = encoder(embeddings of the tokens)             (n, d)
    z_i = u·tanh(W h_i + b)  or  u·h_i/√d             one score per token
    a = projection(z at attended tokens)              (n,), sums to 1
    y = W_y Σ_i a_i h_i + b_y                         one logit per class

Jain & Wallace 2019 ("Attention is not Explanation"): the bidirectional LSTM with additive scores. Tokens in
`config.unattended_ids` (the marks around a document) are read by the encoder and get no weight.

Shapes: B documents, N tokens of the longest, d width of h.

A record shows one row of weights, which stands for every row of the operator. `Attention` is an operator on n
rows. Here there is no token that attends; the query is a learnt vector. Every row of the operator is the one row of
weights (a view, not n copies), so that whatever a method reads of it, a row or the mean of all rows, is that row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from sightline.attention import Attention, DenseAttention
from sightline.attention.projections import Projection
from sightline.errors import OptionError
from sightline.models.recording import Summary, active_recorder

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


@dataclass
class SingleRecord:
    """Weights a (B, N), what they weigh h (B, N, d), and the contributions a_i h_i (B, N, d) on the autograd path."""

    weight_batch: Tensor
    hidden: Tensor
    output: Tensor
    lengths: tuple[int, ...]
    layout: None = None

    def row(self, document: int) -> Tensor:
        """The weights a of one document, (n,)."""
        return self.weight_batch[document, : self.lengths[document]].detach()

    def weights(self, document: int) -> Attention:
        """The weights as an operator of one head."""
        return _operator(self.row(document))

    def gradient(self, document: int, output_gradient: Tensor) -> Attention:
        """∂y/∂a_i = ⟨∂y/∂(a_i h_i), h_i⟩ from ∂y/∂(a_i h_i) (n, d)."""
        return _operator(self._gradient(document, output_gradient))

    def summary(self, document: int, readout: Tensor, output_gradient: Tensor | None = None) -> Summary:
        """Sums of the operator's rows; there are n equal ones."""
        row, n = self.row(document), self.lengths[document]
        positive = None
        if output_gradient is not None:
            positive = (row * self._gradient(document, output_gradient).relu())[None] * n
        return Summary(
            mean=_operator(row),
            received=row[None] * n,
            rows=row[None] * readout.to(row).sum(),
            gradient_received=positive,
        )

    def values(self, document: int) -> Tensor:
        """h (n, 1, d): the attention has no projection of its own."""
        return self.hidden[document, : self.lengths[document], None].detach()

    def global_values(self, document: int) -> None:
        """None: there is one row."""

    @property
    def probabilities(self) -> tuple[tuple[Tensor, ...], ...]:
        """The weights on the autograd path: the padded batch, the same for every document."""
        return ((self.weight_batch,),) * len(self.lengths)

    def assemble(self, document: int, parts: Sequence[Tensor]) -> Attention:
        """Cut one document out of a tensor shaped like the weights (B, N)."""
        return _operator(parts[0][document, : self.lengths[document]].detach())

    def _gradient(self, document: int, output_gradient: Tensor) -> Tensor:
        hidden = self.hidden[document, : self.lengths[document]].detach()
        return torch.sum(output_gradient.reshape(hidden.shape) * hidden, dim=-1)


def _operator(row: Tensor) -> Attention:
    return DenseAttention(row.expand(1, len(row), len(row)))


class BilstmEncoder(nn.Module):
    """A bidirectional LSTM over the words: d/2 wide in each direction."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        layers = config.num_hidden_layers
        self.rnn = nn.LSTM(
            config.embedding_size,
            config.hidden_size // 2,
            num_layers=layers,
            bidirectional=True,
            batch_first=True,
            dropout=config.dropout if layers > 1 else 0.0,
        )

    def forward(self, embeddings: Tensor, lengths: Tensor, position_ids: Tensor | None = None) -> Tensor:
        """(B, N, embedding_size) -> (B, N, d), zero behind the end of a document."""
        packed = pack_padded_sequence(embeddings, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=embeddings.shape[1])
        return outputs


class TransformerEncoder(nn.Module):
    """Learnt positions and a few Transformer layers, LayerNorm after each block."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                config.hidden_size,
                config.encoder_heads,
                dim_feedforward=config.intermediate_size,
                dropout=config.dropout,
                activation="gelu",
                batch_first=True,
            )
            for _ in range(config.num_hidden_layers)
        )

    def forward(self, embeddings: Tensor, lengths: Tensor, position_ids: Tensor | None = None) -> Tensor:
        """(B, N, d) -> (B, N, d)."""
        places = torch.arange(embeddings.shape[1], device=embeddings.device)
        hidden = embeddings + self.position_embeddings(places[None] if position_ids is None else position_ids)
        behind = places[None, :] >= lengths[:, None].to(embeddings.device)
        # Additive, so that the layers never take the fused inference path, which keeps nothing for a backward pass.
        bias = torch.zeros(behind.shape, dtype=hidden.dtype, device=hidden.device).masked_fill(behind, -math.inf)
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=bias)
        encoded: Tensor = hidden
        return encoded


class SingleAttention(nn.Module):
    """Scores every token, projects the scores to weights, and returns what each token adds: a_i h_i."""

    def __init__(self, config: SingleAttentionConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.projection = Projection.named(config.projection)
        self.additive = config.scoring == "additive"
        if self.additive:
            self.dense = nn.Linear(width, width // 2)
        self.query = nn.Linear(width // 2 if self.additive else width, 1, bias=False)

    def scores(self, hidden_states: Tensor) -> Tensor:
        """z (B, N)."""
        if self.additive:
            scores: Tensor = self.query(torch.tanh(self.dense(hidden_states)))
        else:
            scores = self.query(hidden_states) / math.sqrt(hidden_states.shape[-1])
        return scores[..., 0]

    def weights(self, hidden_states: Tensor, attended: Tensor) -> Tensor:
        """a (B, N): the projection of the scores at attended tokens (B, N), zero elsewhere."""
        return self.projection(self.scores(hidden_states).masked_fill(~attended, -torch.inf))

    def forward(self, hidden_states: Tensor, attended: Tensor) -> Tensor:
        """a_i h_i of every token, (B, N, d); their sum is what the decoder reads."""
        weights = self.weights(hidden_states, attended)
        contributions = weights[:, :, None] * hidden_states
        recorder = active_recorder()
        if recorder is not None and recorder.attention:
            recorder.layers.append(SingleRecord(weights, hidden_states, contributions, recorder.lengths))
        return contributions


class SingleAttentionModel(PreTrainedModel):  # type: ignore[misc]
    """Embeddings, encoder and attention, without the decoder."""

    config_class: Any = SingleAttentionConfig
    base_model_prefix = "model"
    _input_embed_layer = "embeddings"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        is_recurrent = config.model_type == BilstmAttentionConfig.model_type
        self.encoder = BilstmEncoder(config) if is_recurrent else TransformerEncoder(config)
        self.attention = SingleAttention(config)
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialise weights: embeddings and the Transformer's as in BERT, the others by torch's defaults.

        torch draws them when a module is made; transformers asks for it again where weights are missing in a folder.
        """
        if isinstance(module, nn.Embedding):
            module.weight.normal_(0.0, 1.0 / math.sqrt(module.embedding_dim))
            if module.padding_idx is not None:
                module.weight[module.padding_idx].zero_()
        elif isinstance(module, nn.Linear | nn.LSTM | nn.LayerNorm):
            module.reset_parameters()

    def encode(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return h (B, N, d), and which tokens may get weight (B, N) bool.

        A document of nothing but unattended tokens attends to all of them: weights must sum to 1.
        """
        embeddings = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        present = torch.ones(embeddings.shape[:2], dtype=torch.bool, device=embeddings.device)
        if attention_mask is not None:
            present = attention_mask.bool()
        places = torch.arange(1, present.shape[1] + 1, device=present.device)
        lengths = (present * places).amax(dim=1).clamp(min=1)
        hidden = self.encoder(self.dropout(embeddings), lengths, position_ids)
        attended = present
        if input_ids is not None and self.config.unattended_ids:
            marks = torch.tensor(self.config.unattended_ids, device=input_ids.device)
            attended = present & ~torch.isin(input_ids, marks)
            attended = torch.where(attended.any(dim=1, keepdim=True), attended, present)
        # A batch row that is masked throughout reads its first token, so that no weight is NaN.
        nothing = ~attended.any(dim=1)
        if bool(nothing.any()):
            attended = attended | (nothing[:, None] & (places == 1)[None, :])
        return hidden, attended

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """Σ_i a_i h_i, (B, d)."""
        hidden, attended = self.encode(input_ids, attention_mask, position_ids, inputs_embeds)
        contributions: Tensor = self.attention(hidden, attended)
        return contributions.sum(dim=1)


class SingleAttentionForSequenceClassification(PreTrainedModel):  # type: ignore[misc]
    """The model with its linear decoder."""

    config_class: Any = SingleAttentionConfig
    base_model_prefix = "model"
    _input_embed_layer = "embeddings"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = SingleAttentionModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    _init_weights = SingleAttentionModel._init_weights

    def decode(self, context: Tensor) -> Tensor:
        """Logits (..., C) of contexts Σ_i a_i h_i (..., d)."""
        logits: Tensor = self.classifier(self.model.dropout(context))
        return logits

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **_kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Logits (B, C), and the loss where labels are given."""
        logits = self.decode(self.model(input_ids, attention_mask, position_ids, inputs_embeds))
        loss = None
        if labels is not None:
            if self.config.problem_type == "multi_label_classification":
                wanted = labels.to(logits.dtype).view(logits.shape)
                loss = nn.functional.binary_cross_entropy_with_logits(logits, wanted)
            else:
                loss = nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


class BilstmAttentionForSequenceClassification(SingleAttentionForSequenceClassification):
    """A bidirectional LSTM, one attention, a linear decoder."""

    config_class = BilstmAttentionConfig


class TransformerAttentionForSequenceClassification(SingleAttentionForSequenceClassification):
    """A small Transformer encoder, one attention, a linear decoder."""

    config_class = TransformerAttentionConfig
