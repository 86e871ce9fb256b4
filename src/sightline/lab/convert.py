"""From a short dense model to a long banded one: a BERT or RoBERTa checkpoint becomes a Longformer.

The recipe of Beltagy, Peters & Cohan 2020 (Longformer, section 5): the learnt position embeddings are repeated until
they fill the new length, and the projections of global attention start as copies of the local ones. On a text that fits
into one window both models compute the same output: every token sees every other one, and [CLS], which has global
attention, sees them through equal projections. `convert` checks that on a random text before it writes anything.

The seam. Position 0 always held [CLS] in training, and in the repeated table it comes back at every multiple of the
short length P: attention and attribution react to those tokens. Three ways to fill the table beyond its first P rows:

    tile         row P + i = row i
    smooth       repeats leave out the first rows, and two repeats are faded into each other (default)
    interpolate  the P rows are stretched over the whole length; short texts change, so train afterwards
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from sightline.attention.projections import SOFTMAX, Projection, projection_of
from sightline.errors import ModelError, OptionError, UnsupportedError, UsageError
from sightline.lab.checkpoints import check_new_folder, write_model
from sightline.models import Network, load_network
from sightline.models.config import MAX_ROWS, MAX_WINDOW
from sightline.models.longformer.encoder import use_banded, use_library
from sightline.settings.training import Architecture as Architecture
from sightline.settings.training import ConversionSettings
from sightline.settings.training import Seam as Seam

POSITIONS, WINDOW = 4096, 512
"""The length and the attention window of the published Longformer."""
FADE = 16
"""Rows over which two repeats of the position table are faded into each other."""
CONVERTIBLE = ("bert", "roberta", "xlm-roberta", "camembert")
_SHARED_SETTINGS = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps", "initializer_range", "type_vocab_size"),
    *("bos_token_id", "eos_token_id", "id2label", "label2id", "problem_type"),
)
"""Settings of a config that a Longformer has under the same names."""
_TOLERANCE = 1e-4
"""Largest difference of outputs, relative to the largest output, between the two models on a short text."""


@dataclass(frozen=True)
class Conversion:
    """What was written, and how far the new model is from the old one on a short text."""

    folder: Path
    """The folder of the new model."""
    architecture: str
    """Name of its class."""
    positions: int
    """Number of positions that it reads."""
    window: int | None
    """Width of its attention window in tokens; None if `to` was "same"."""
    seam: str | None
    """How the position embeddings were continued; None if `to` was "same"."""
    attention: str
    """The projection of its heads, for example "softmax"."""
    difference: float | None
    """Largest difference of outputs, relative to the largest output; None where the two models differ on purpose."""


def convert(
    source: str | Path | Any,
    to: Architecture = "longformer",
    *,
    out: str | Path,
    positions: int | None = None,
    window: int | None = None,
    seam: Seam | None = None,
    attention: str | None = None,
    allow_pickle: bool = False,
) -> Conversion:
    """Convert a checkpoint and write it to the new folder `out`, with its tokenizer.

    to: "longformer", or "same" to change nothing but the attention. positions: longest document in tokens (4,096).
    window: tokens that a token attends to, both sides together (512). seam: how position embeddings continue beyond
    their original length: "smooth" (the default), "tile" or "interpolate". attention: the new projection of every head,
    such as entmax15; the model has to be fine-tuned with it.
    """
    folder = check_new_folder(out)
    ConversionSettings(to=to, positions=positions, window=window, seam=seam, attention=attention)
    positions = POSITIONS if positions is None else positions
    window = WINDOW if window is None else window
    seam = "smooth" if seam is None else seam
    wanted = None if attention is None else Projection.named(attention)
    network, tokenizer = load_network(source, allow_pickle=allow_pickle)
    if network.family.single_attention:
        raise UnsupportedError(f"A '{network.family.model_type}' model has no heads to convert; train a new one.")
    present = projection_of(network.config)
    projection = present if wanted is None else wanted
    if to == "same" and projection == present:
        raise UsageError(
            f"The heads of the source use {present.name} already, so there is nothing to convert. Name another "
            "projection (attention=, --attention), or convert to a longformer."
        )
    if to == "longformer":
        _check_longformer(network, positions, window)
        module = to_longformer(network.module, positions, window, seam)
        difference = None if seam == "interpolate" else verify_short_text(network.module, module, window)
    else:
        module, positions, difference = network.module, network.max_tokens, None
    if projection != present:
        module.config.attention_projection = projection.name
        difference = None
    if tokenizer is not None and to == "longformer":
        tokenizer = copy.deepcopy(tokenizer)  # the tokenizer of a pipeline belongs to the user
        tokenizer.model_max_length = positions
    write_model(module, tokenizer, folder)
    is_long = to == "longformer"
    return Conversion(
        folder=folder,
        architecture=type(module).__name__,
        positions=positions,
        window=window if is_long else None,
        seam=seam if is_long else None,
        attention=projection.name,
        difference=difference,
    )


def to_longformer(module: Any, positions: int, window: int, seam: Seam = "tile") -> Any:
    """Return a Longformer with the weights and the head of `module`, for documents up to `positions` tokens."""
    source = module.config
    head = type(module).__name__.partition("For")[2]
    pad = int(source.pad_token_id or 0)
    config = transformers.LongformerConfig(
        **{name: getattr(source, name) for name in _SHARED_SETTINGS},
        max_position_embeddings=positions + pad + 1,  # positions count from pad + 1
        attention_window=[window] * source.num_hidden_layers,
        pad_token_id=pad,
        sep_token_id=getattr(source, "sep_token_id", None) or source.eos_token_id,
    )
    if projection_of(source) != SOFTMAX:
        config.attention_projection = source.attention_projection
    long = getattr(transformers, f"LongformerFor{head}")(config)
    is_bert = source.model_type == "bert"
    weights: dict[str, Tensor] = {}
    for name, value in module.state_dict().items():
        renamed = _longformer_name(name, module.base_model_prefix, is_bert, head)
        if renamed is None:
            continue
        if renamed.endswith("embeddings.position_embeddings.weight"):
            learnt = value if is_bert else value[pad + 1 :]
            value = torch.cat((value.new_zeros(pad + 1, value.shape[1]), extend_positions(learnt, positions, seam)))
        weights[renamed] = value.clone()
        for projection in ("query", "key", "value"):
            if f".attention.self.{projection}." in renamed:
                weights[renamed.replace(f".{projection}.", f".{projection}_global.")] = value.clone()
    missing, unexpected = long.load_state_dict(weights, strict=False)
    missing = [name for name in missing if not name.endswith(("position_ids", "token_type_ids"))]
    if missing or unexpected:
        raise ModelError(
            f"The weights of this {type(module).__name__} do not fit a Longformer: "
            f"{(list(missing) + list(unexpected))[0]} has no counterpart."
        )
    return long.to(module.dtype).eval()


def _longformer_name(name: str, prefix: str, is_bert: bool, head: str) -> str | None:
    """Return a weight's name in the Longformer, or None if it has no counterpart."""
    if name.endswith(("position_ids", "token_type_ids")):
        return None
    if name.startswith(f"{prefix}."):
        name = f"longformer.{name.removeprefix(f'{prefix}.')}"
    if not is_bert:
        return None if name.startswith("longformer.pooler.") else name
    if head == "SequenceClassification":
        # BERT's pooler and Longformer's classification head are the same tanh layer on [CLS], under two names.
        if name.startswith("longformer.pooler.dense."):
            return name.replace("longformer.pooler.dense.", "classifier.dense.")
        return f"classifier.out_proj.{name.removeprefix('classifier.')}" if name.startswith("classifier.") else name
    if name.startswith("longformer.pooler."):
        return None
    for old, new in (
        ("cls.predictions.transform.dense.", "lm_head.dense."),
        ("cls.predictions.transform.LayerNorm.", "lm_head.layer_norm."),
        ("cls.predictions.decoder.", "lm_head.decoder."),
        ("cls.predictions.bias", "lm_head.bias"),
    ):
        name = name.replace(old, new)
    return name


def extend_positions(learnt: Tensor, positions: int, seam: Seam) -> Tensor:
    """Return a position table (positions, d) made of the learnt rows (P, d); see the module for the seam.

    With "smooth" the first P rows stay. Then come repeats of the rows FADE … P−1, the first FADE of each faded from the
    last rows before the seam: row = (1 − a)·(row P−FADE+t) + a·(row FADE+t), a = (t + 1)/(FADE + 1).
    """
    length = len(learnt)
    if seam == "interpolate":
        stretched = torch.nn.functional.interpolate(
            learnt.T[None].float(), size=positions, mode="linear", align_corners=True
        )
        return stretched[0].T.to(learnt.dtype)
    if seam == "tile" or length < 4 * FADE:
        return learnt.repeat(-(-positions // length), 1)[:positions]
    shares = (torch.arange(1, FADE + 1, dtype=learnt.dtype) / (FADE + 1))[:, None]
    faded = (1 - shares) * learnt[-FADE:] + shares * learnt[FADE : 2 * FADE]
    repeated = torch.cat((faded, learnt[2 * FADE :]))
    return torch.cat((learnt, repeated.repeat(-(-positions // len(repeated)), 1)))[:positions]


@torch.no_grad()
def verify_short_text(short: Any, long: Any, window: int) -> float:
    """Return the largest difference of outputs on a random text that fits into one window, relative to the largest.

    Raises ModelError if the two models do not agree. The text is as long as one side of the window and [CLS] allow.
    """
    config = short.config
    length = min(window // 2 + 1, 128, config.max_position_embeddings - int(config.pad_token_id or 0) - 1)
    generator = torch.Generator().manual_seed(0)
    low = min(5, config.vocab_size - 1)
    ids = torch.randint(low, config.vocab_size, (2, length), generator=generator)
    mask = torch.ones_like(ids)
    first = torch.zeros_like(ids)
    first[:, 0] = 1
    use_banded(long)
    try:
        ours = long(ids, attention_mask=mask, global_attention_mask=first)
    finally:
        if projection_of(long.config) == SOFTMAX:  # the library has no other projection
            use_library(long)
    theirs = short(ids, attention_mask=mask)
    worst = 0.0
    for name in ("logits", "start_logits", "end_logits"):
        if hasattr(theirs, name):
            expected = getattr(theirs, name)
            scale = expected.abs().max().clamp_min(torch.finfo(expected.dtype).tiny)
            worst = max(worst, float((getattr(ours, name) - expected).abs().max() / scale))
    if not worst < _TOLERANCE:
        raise ModelError(
            f"The converted model differs from the original by {worst:.1e} (relative) on a short text, so nothing was "
            "written. Its architecture may have parts that a Longformer does not have."
        )
    return worst


def _check_longformer(network: Network, positions: int, window: int) -> None:
    family = network.family.model_type
    if family == "longformer":
        raise UsageError("The source is already a Longformer; there is nothing to convert.")
    if family not in CONVERTIBLE:
        raise UnsupportedError(
            f"A '{family}' model cannot become a Longformer. Convertible families: {', '.join(CONVERTIBLE)}."
        )
    if not network.max_tokens <= positions <= MAX_ROWS:
        raise OptionError(
            f"positions={positions} is out of range: at least the {network.max_tokens} that the model has, and at most "
            f"{MAX_ROWS:,}."
        )
    if not 2 <= window <= MAX_WINDOW or window % 2:
        raise OptionError(f"window={window} is out of range: it counts both sides, so an even number to {MAX_WINDOW}.")
