"""Settings of training a model and of converting one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from sightline.settings.evaluation import DATA, PairFieldSettings, SeedSettings
from sightline.settings.explain import PICKLE
from sightline.settings.options import OptionRule, Settings, option, unused

TrainingTask = Literal["sequence_classification", "token_classification", "masked_lm", "question_answering"]
VocabularyUnits = Literal["words", "subwords"]
Best = Literal["loss", "accuracy"]
Precision = Literal["float32", "bfloat16", "float16"]
Architecture = Literal["longformer", "same"]
Seam = Literal["smooth", "tile", "interpolate"]


@dataclass(frozen=True, kw_only=True)
class NewModelSettings(Settings):
    """Where a model is written."""

    out: Path = option(flag=("--out", "--output", "-o"), metavar="FOLDER", help="New folder for the model.")


@dataclass(frozen=True, kw_only=True)
class CommonTrainingSettings(SeedSettings):
    """How a model is trained, whatever training starts from."""

    accumulate: int = option(1, low=1, metavar="N", help="Steps whose gradients are accumulated.")
    """Batches whose gradients are added up before a step."""
    weight_decay: float = option(0.01, low=0, metavar="X", help="Weight decay.")
    """Weight decay."""
    amsgrad: bool = option(False, help="Let steps never grow again (AMSGrad).")
    """Let AdamW divide by the largest average of squared gradients so far (AMSGrad)."""
    attention_rate: float = option(
        1.0, above=0, metavar="X", help="Factor of the learning rate for the attention of new-bilstm, new-transformer."
    )
    """Factor of the learning rate for the attention of a model with a single one, which never has weight decay."""
    precision: Precision = option("float32", help="Number type of the forward pass; weights stay in float32.")
    """Number type of the forward pass; weights and their updates stay in float32. "float16" needs a GPU."""
    max_tokens: int | None = option(
        None, low=1, metavar="N", help="Truncate texts to N tokens. [default: what the model reads]"
    )
    """Length at which rows are cut; by default what the model reads."""
    best: Best = option(
        "loss", help="Which weights are kept: those of the best validation loss or accuracy (exact match)."
    )
    """The validation result that decides which weights are kept and when training stops; for answers, "accuracy" is the
    share of exact matches."""
    class_weights: bool = option(False, help="Weight classes by the inverse of their frequency.")
    """Weight every class by the inverse of its frequency."""
    gradient_checkpointing: bool = option(False, help="Recompute activations to save memory.")
    """Compute activations again in the backward pass instead of keeping them: less memory, more time."""


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(CommonTrainingSettings):
    """Everything that determines a training run besides data and starting point.

    The defaults are for checkpoints; new models have others (`starting_points.NEW_MODELS`).
    """

    epochs: float = option(3.0, above=0, help="Passes over the training rows.")
    """Passes over the training rows."""
    max_steps: int | None = option(None, low=1, help="Steps after which training ends, whatever `epochs` says.")
    """Steps after which training ends, whatever `epochs` says."""
    batch: int = option(16, low=1, help="Rows per step on the device.")
    """Rows per step on the device."""
    learning_rate: float = option(5e-5, above=0, help="Largest learning rate, reached after the warm-up.")
    """Largest learning rate, reached after the warm-up."""
    warmup: float = option(0.06, low=0, below=1, help="Share of the steps in which the learning rate rises.")
    """Share of the steps in which the learning rate rises to its value; then it falls linearly to 0."""
    patience: int | None = option(3, low=1, help="Validations without a better result before training stops.")
    """Validations without a better result before training stops; None never stops early."""
    evaluations: int = option(1, low=1, help="Validations (and checkpoints) per epoch.")
    """Validations (and checkpoints) per epoch."""


@dataclass(frozen=True, kw_only=True)
class StartingSettings(Settings):
    """What a new model is made of."""

    projection: str | None = option(
        None, metavar="NAME", help="Attention of a new model: softmax, sparsemax, entmax15, sparsegen0.5 …"
    )
    units: VocabularyUnits | None = option(
        None, help="What a new model reads: whole words, or also pieces of rare words. [default: words]"
    )
    vocabulary: int | None = option(
        None, low=2, metavar="N", help="Largest number of words or subwords a new model knows. [default: 20000]"
    )
    dropout: float | None = option(None, low=0, below=1, metavar="SHARE", help="Dropout of a new model. [default: 0.1]")


@dataclass(frozen=True, kw_only=True)
class DivisionSettings(PairFieldSettings):
    """Which rows are trained on, and which are held out."""

    validation: float | None = option(
        None,
        above=0,
        below=1,
        metavar="SHARE",
        help="Share of rows held out if the data set has no validation split. [default: 0.1]",
    )
    limit: int | None = option(
        None,
        low=1,
        metavar="N",
        help="Draw N of the training rows at random, of every class its share (see --seed).",
    )


@dataclass(frozen=True, kw_only=True)
class TrainSettings(NewModelSettings, CommonTrainingSettings, StartingSettings, DivisionSettings):
    """Options of `sightline train`; what is not given depends on the model."""

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
    epochs: float | None = option(
        None, above=0, metavar="N", help="Passes over the training rows. [default: 3, for new models 10 to 20]"
    )
    batch: int | None = option(None, low=1, metavar="N", help="Rows per step. [default: 16, for new models 32]")
    learning_rate: float | None = option(
        None, above=0, metavar="X", help="Peak learning rate. [default: 5e-5, for new models 1e-3 or 5e-4]"
    )
    patience: int | None = option(
        None, low=0, metavar="N", help="Stop after N validations without improvement; 0 never stops. [default: 3 or 5]"
    )
    resume: bool = option(False, help="Resume from the last checkpoint.")


@dataclass(frozen=True, kw_only=True)
class ConversionSettings(Settings):
    """How a model is converted."""

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

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            *("positions", "window", "seam"),
            when=lambda settings: settings.to == "same",
            reason="has no effect: only the attention is changed. Leave it out.",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class ConvertSettings(NewModelSettings, ConversionSettings):
    """Options of `sightline convert`."""

    source: str = option(
        positional=True, metavar="SOURCE", help="Model folder, or a hub model as owner/name or hf://name."
    )
    allow_pickle: bool = option(False, help=PICKLE)
