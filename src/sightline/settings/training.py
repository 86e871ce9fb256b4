"""Settings of training a model and of converting one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sightline.settings.data import DATA, PairFieldSettings
from sightline.settings.explain import PICKLE
from sightline.settings.options import Settings, option

TrainingTask = Literal["sequence_classification", "token_classification", "masked_lm", "question_answering"]
Units = Literal["words", "subwords"]
Best = Literal["loss", "accuracy"]
Precision = Literal["float32", "bfloat16", "float16"]
Architecture = Literal["longformer", "same"]
Seam = Literal["smooth", "tile", "interpolate"]


@dataclass(frozen=True, kw_only=True)
class NewModelSettings(Settings):
    """Where a model is written."""

    out: Path = option(flag=("--out", "--output", "-o"), metavar="FOLDER", help="New folder for the model.")


@dataclass(frozen=True, kw_only=True)
class TrainSettings(NewModelSettings, PairFieldSettings):
    """What is trained, and how; what is not given depends on the model."""

    data: str = option(positional=True, metavar="DATA", help=DATA)
    model: str = option(
        "new-bilstm",
        metavar="PATH|new-…",
        help="Model to fine-tune, or new-bilstm, new-transformer or new-encoder.",
    )
    task: TrainingTask = option(
        "sequence_classification",
        help="What is learnt: the class of a text, of each of its words, hidden tokens, or answers.",
    )
    validation: float | None = option(
        None,
        metavar="SHARE",
        help="Share of rows held out if the data set has no validation split. [default: 0.1]",
    )
    limit: int | None = option(
        None,
        low=1,
        metavar="N",
        help="Draw N of the training rows at random, of every class its share (see --seed).",
    )
    projection: str | None = option(
        None, metavar="NAME", help="Attention of a new model: softmax, sparsemax, entmax15, sparsegen0.5 …"
    )
    units: Units | None = option(
        None, help="What a new model reads: whole words, or also pieces of rare words. [default: words]"
    )
    vocabulary: int | None = option(
        None, low=2, metavar="N", help="Largest number of words or subwords a new model knows. [default: 20000]"
    )
    dropout: float | None = option(None, metavar="SHARE", help="Dropout of a new model. [default: 0.1]")
    epochs: float | None = option(
        None, metavar="N", help="Passes over the training rows. [default: 3, for new models 10 to 20]"
    )
    batch: int | None = option(None, low=1, metavar="N", help="Rows per step. [default: 16, for new models 32]")
    accumulate: int = option(1, low=1, metavar="N", help="Steps whose gradients are accumulated.")
    learning_rate: float | None = option(
        None, metavar="X", help="Peak learning rate. [default: 5e-5, for new models 1e-3 or 5e-4]"
    )
    weight_decay: float = option(0.01, low=0, metavar="X", help="Weight decay.")
    precision: Precision = option("float32", help="Number type of the forward pass; weights stay in float32.")
    max_tokens: int | None = option(
        None, low=1, metavar="N", help="Truncate texts to N tokens. [default: what the model reads]"
    )
    patience: int | None = option(
        None, low=0, metavar="N", help="Stop after N validations without improvement; 0 never stops. [default: 3 or 5]"
    )
    best: Best = option(
        "loss", help="Which weights are kept: those of the best validation loss or accuracy (exact match)."
    )
    class_weights: bool = option(False, help="Weight classes by the inverse of their frequency.")
    gradient_checkpointing: bool = option(False, help="Recompute activations to save memory.")
    resume: bool = option(False, help="Resume from the last checkpoint.")


@dataclass(frozen=True, kw_only=True)
class ConvertSettings(NewModelSettings):
    """How a model is converted."""

    source: str = option(
        positional=True, metavar="SOURCE", help="Model folder, or a hub model as owner/name or hf://name."
    )
    to: Architecture = option("longformer", help="longformer, or same to change only the attention.")
    positions: int | None = option(
        None, low=1, metavar="N", help="Length of the longest document, in tokens. [default: 4096]"
    )
    window: int | None = option(
        None, low=1, metavar="N", help="Attention window in tokens, both sides together. [default: 512]"
    )
    seam: Seam | None = option(
        None, help="How position embeddings continue beyond the original length. [default: smooth]"
    )
    attention: str | None = option(
        None, metavar="NAME", help="Projection in every head: sparsemax, entmax15 … [default: softmax]"
    )
    allow_pickle: bool = option(False, help=PICKLE)
