"""Longformer with exact banded attention: the encoder that replaces the library's, and the switch between the two.

`use_banded(model)` puts a `BandedEncoder` in the place of the library's encoder, around the same layers and parameters;
embeddings, heads and everything else of the library run unmodified. `use_library(model)` puts the original back, and
`observe_library(model)` records what it does. Results are equal up to rounding, by these identities:

1. window attention in blocks (`band_kernel`): no n×(2w+1) array, no padding to a multiple of the window;
2. documents laid end to end: linear maps never see padding;
3. folded global attention: ⟨q, W_K·x_j⟩ = ⟨W_Kᵀ·q, x_j⟩ and Σ_j A_j W_V·x_j = W_V·Σ_j A_j x_j, so that a few global
   tokens cost no projection of all tokens;
4. where the head reads the first row only, the last layer is evaluated for that row only;
5. the feed-forward block runs in chunks of rows, and on long documents computes some of them again (`layer`).

As in the library: a masked token is nobody's key and its own attention output is zero; rows of global tokens have
projections of their own (query_global, key_global, value_global), but as keys of local rows global tokens are projected
like all others. Trailing masked tokens are cut off; their rows of the encoder's output are zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import (
    AttentionMaskInterface,
    LongformerForMultipleChoice,
    LongformerForSequenceClassification,
    LongformerModel,
    PreTrainedModel,
)
from transformers.modeling_outputs import BaseModelOutput

from sightline.attention.projections import SOFTMAX, projection_of
from sightline.errors import ModelError, UnsupportedError
from sightline.models.longformer.band_kernel import BandPlan
from sightline.models.longformer.layer import (
    banded_attention,
    feed_forward,
    first_rows_attention,
    plain_attention,
    plain_first_rows_attention,
)
from sightline.models.longformer.record import BandedRecord, Batch, library_attentions
from sightline.models.model_types import has_library_head
from sightline.models.recording import Packed, Padded, active_recorder, with_attribute

ReadoutRows = Literal["first", "all"]
Step = Callable[[int, Callable[[Tensor], Tensor], Tensor], Tensor]
"""(number of the layer, the layer as a function, its input) -> its output."""

ONE_ROW = "sightline_one_row"
"""Name under which the library finds `_one_row_mask`."""
LONGEST_COMPARISON = 4096
"""Longest random input on which the two encoders are compared at load."""


@dataclass
class EncoderOutput(BaseModelOutput):  # type: ignore[misc]
    """What an encoder with global tokens returns; the fields are those of the library's encoder, in its order."""

    global_attentions: tuple[Tensor, ...] | None = None


class BandedEncoder(nn.Module):
    """Run the layers of the library's Longformer encoder on packed documents with banded attention.

    Parameters keep their names (`layer.0.attention.self.query.weight` …), so a state dict fits both encoders.
    """

    def __init__(self, original: Any, readout_rows: ReadoutRows = "all") -> None:
        super().__init__()
        self.layer: nn.ModuleList = original.layer
        self.config: Any = original.config
        self.readout_rows: ReadoutRows = readout_rows
        """Rows of the last layer that the model's head reads; other rows are zero unless a recorder requests them."""
        self.plain = False
        """Use ordinary operations only (matmul, softmax, …), for a mode that replaces their backward rules."""
        self._change: tuple[int, Callable[[Tensor], Tensor]] | None = None
        self._step: Step | None = None
        # In a tuple: as a submodule, the original would list every parameter twice.
        self._original = (original,)

    @property
    def original(self) -> Any:
        """The library's encoder."""
        return self._original[0]

    def change_input(self, layer: int, change: Callable[[Tensor], Tensor]) -> AbstractContextManager[None]:
        """Replace the input x of layer `layer` with change(x), both (B, N, d) with N of the longest document."""
        return with_attribute(self, "_change", (layer, change))

    def step_layers(self, step: Step) -> AbstractContextManager[None]:
        """Replace the output of layer l with step(l, the layer as a function of its packed input (T, d), x)."""
        return with_attribute(self, "_step", step)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor,
        padding_len: int = 0,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> Any:
        """Run all layers; arguments and result are those of the library's encoder.

        hidden_states (B, N, d); attention_mask (B, N): negative masked, positive global, zero local.
        """
        batch, layers = Batch.from_mask(attention_mask), list[Any](self.layer)
        layout = Packed(batch.lengths)
        recorder = active_recorder()
        all_rows = self.readout_rows == "all" or self.plain or output_attentions or output_hidden_states
        partial = not all_rows and (recorder is None or recorder.readout_only)
        keep_hidden = output_hidden_states or recorder is not None
        hidden: list[Tensor] = []
        records: list[BandedRecord] = []
        plans: dict[int, tuple[BandPlan, ...]] = {}

        projection = projection_of(self.config)
        if self.plain and projection != SOFTMAX:
            raise UnsupportedError(f"{projection.name} attention cannot run by ordinary operations.")
        x = batch.pack(hidden_states)
        for number, layer in enumerate(layers):
            attention = layer.attention.self
            window = attention.one_sided_attn_window_size
            if window not in plans:
                plans[window] = batch.plans(window, x.dtype, projection)
            if self._change is not None and self._change[0] == number:
                x = batch.pack(self._change[1](batch.unpack(x)))
            if keep_hidden:
                hidden.append(x)
            first_only = partial and number == len(layers) - 1
            compute = functools.partial(
                self._run_layer, layer, batch, plans[window], first_only, records if output_attentions else None
            )
            x = compute(x) if self._step is None else self._step(number, compute, x)
        if keep_hidden and not partial:
            hidden.append(x)

        if recorder is not None:
            recorder.layout = layout
            recorder.hidden.extend(hidden)
        length = hidden_states.shape[1] - padding_len
        last = nn.functional.pad(x[:, None], (0, 0, 0, length - 1)) if partial else batch.unpack(x)[:, :length]
        states = tuple(batch.unpack(h)[:, :length] for h in hidden) if output_hidden_states else None
        local, rows = library_attentions(records, batch, length) if output_attentions else (None, None)
        if not return_dict:
            return tuple(part for part in (last, states, local, rows) if part is not None)
        return EncoderOutput(last_hidden_state=last, hidden_states=states, attentions=local, global_attentions=rows)

    def _run_layer(
        self,
        layer: Any,
        batch: Batch,
        plans: tuple[BandPlan, ...],
        first_only: bool,
        records: list[BandedRecord] | None,
        x: Tensor,
    ) -> Tensor:
        """Return the output of one layer for packed x (T, d); append its attention to `records` and the recorder."""
        attention, layout = layer.attention.self, Packed(batch.lengths)
        if first_only and self.plain:
            record = plain_first_rows_attention(attention, x, plans, layout)
            x = x[batch.first_positions(x.device)]  # a slice, for which a mode may have a rule of its own
        elif first_only:
            record = first_rows_attention(attention, x, plans, layout)
            x = batch.first_rows(x)
        elif self.plain:
            record = plain_attention(attention, x, plans, layout)
        else:
            record = banded_attention(attention, x, plans, layout)
        if records is not None:
            records.append(record)
        # Looked up here because a layer that runs a second time by itself has another recorder.
        recorder = active_recorder()
        if recorder is not None and recorder.attention:
            recorder.layers.append(record)
        return self._feed_forward(layer, layer.attention.output(record.output, x))

    def _feed_forward(self, layer: Any, x: Tensor) -> Tensor:
        """W₂·gelu(W₁·x) with residual and LayerNorm, row by row: (T, d)."""
        if not self.plain:
            return feed_forward(layer, x)
        # Backward rules that look at a whole tensor (relevance of a sum) must not see chunks.
        output: Tensor = layer.output(layer.intermediate(x), x)
        return output


def longformer_base(model: PreTrainedModel) -> Any:
    """Return the LongformerModel inside a model with any head."""
    base = model.base_model
    if not isinstance(base, LongformerModel):
        raise UnsupportedError(f"Banded attention is for Longformer models; this is a {type(model).__name__}.")
    return base


def use_banded(model: PreTrainedModel, *, verify: bool = True) -> BandedEncoder:
    """Install the banded encoder (once); with `verify`, first compare it with the library's on a random input."""
    base = longformer_base(model)
    if isinstance(base.encoder, BandedEncoder):
        return base.encoder
    known = isinstance(model, LongformerForSequenceClassification | LongformerForMultipleChoice)
    reads_first = known and has_library_head(model)
    encoder = BandedEncoder(base.encoder, "first" if reads_first else "all")
    encoder.train(base.encoder.training)
    if verify and _is_comparable(encoder):
        difference = difference_from_library(encoder)
        if not difference < tolerance(model.dtype):
            raise ModelError(
                f"Banded attention differs from the library's by {difference:.1e} (relative) on a random input; this "
                'version of transformers may have changed. Load the model with attention="library".'
            )
    base.encoder = encoder
    return encoder


@contextmanager
def one_row_mask(model: PreTrainedModel) -> Iterator[None]:
    """Let the library make one row of its attention mask inside the block, instead of all pairs.

    The config names that mask only there, because no new model can be made from a config that does. Where threads
    share a model, the end of another block makes this one build all pairs, which gives the same numbers.
    """
    config = longformer_base(model).config
    if config.output_attentions:  # the library allows that with its own masks only
        yield
        return
    config._attn_implementation = ONE_ROW
    try:
        yield
    finally:
        config._attn_implementation = "eager"  # the only one that the library has for Longformer


def _one_row_mask(*args: Any, **options: Any) -> Tensor:
    """Return the mask of one row, (B, 1, 1, N).

    The library makes a mask of all pairs (1.1 GB for 16,384 tokens) and keeps its first row.
    """
    mask: Tensor = AttentionMaskInterface()["eager"](*args, **options | {"q_length": 1})
    return mask


AttentionMaskInterface.register(ONE_ROW, _one_row_mask)


def use_library(model: PreTrainedModel) -> None:
    """Restore the library's encoder.

    It pads documents to a multiple of the largest window, which must be a multiple of every other layer's window.
    """
    projection = projection_of(model.config)
    if projection != SOFTMAX:
        raise UnsupportedError(
            f"The library's Longformer has softmax attention only, and this model has {projection.name}. "
            'Load it with attention="banded".'
        )
    windows = model.config.attention_window
    if not isinstance(windows, int) and any(max(windows) % window for window in windows):
        raise UnsupportedError(
            f"The library's Longformer runs only where every layer's window divides the largest, and here they are "
            f'{list(windows)}. Load the model with attention="banded".'
        )
    base = longformer_base(model)
    if isinstance(base.encoder, BandedEncoder):
        base.encoder = base.encoder.original


def tolerance(dtype: torch.dtype) -> float:
    """Return the largest accepted relative difference; the library's softmax has single precision at best."""
    return 1000 * max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)


@torch.no_grad()
def difference_from_library(encoder: BandedEncoder) -> float:
    """Return the largest difference between the two encoders' outputs, relative to the largest output.

    The encoders run the first and the last layer only, so that loading a large model stays quick, on one random input
    as long as the largest window. It has two global tokens and two masked ones (inside and at the end), so that every
    kind of token occurs.
    """
    parameter = next(encoder.parameters())
    length = _library_length(encoder)
    hidden = torch.randn(1, length, encoder.config.hidden_size, generator=torch.Generator().manual_seed(0))
    hidden, mask = hidden.to(parameter), parameter.new_zeros(1, length)
    mask[0, [length // 3, length - 1]] = torch.finfo(mask.dtype).min
    mask[0, [0, length // 2]] = torch.finfo(mask.dtype).max
    ends = nn.ModuleList({id(layer): layer for layer in (encoder.layer[0], encoder.layer[-1])}.values())
    training = encoder.training
    encoder.eval()
    try:
        with (
            with_attribute(encoder, "layer", ends),
            with_attribute(encoder.original, "layer", ends),
            with_attribute(encoder.config, "attention_projection", None),  # softmax, which is all that the library has
        ):
            banded = encoder(hidden, mask, output_hidden_states=True).last_hidden_state
            library = encoder.original(hidden, attention_mask=mask).last_hidden_state
    finally:
        encoder.train(training)
    unmasked = mask[0] >= 0
    # Both outputs are zero if all weights are.
    largest = library[:, unmasked].abs().max().clamp_min(torch.finfo(library.dtype).tiny)
    return float((banded[:, unmasked] - library[:, unmasked]).abs().max() / largest)


def _library_length(encoder: BandedEncoder) -> int:
    """Return the shortest length that the library reads unpadded: every layer's window divides it."""
    return math.lcm(*(2 * layer.attention.self.one_sided_attn_window_size for layer in list[Any](encoder.layer)))


def _is_comparable(encoder: BandedEncoder) -> bool:
    """Return whether the library's encoder can run for a comparison at reasonable cost.

    It fails for windows of one token to each side, and it computes windows × length products, which a config with
    unusual windows can make arbitrarily many.
    """
    if any(layer.attention.self.one_sided_attn_window_size < 2 for layer in list[Any](encoder.layer)):
        return False
    return _library_length(encoder) <= LONGEST_COMPARISON


@contextmanager
def observe_library(model: PreTrainedModel) -> Iterator[None]:
    """Record what the library's encoder computes, by hooks that are removed when the block ends.

    Layout: padded (B, N, ·), N with the library's padding to a multiple of the window.
    """
    encoder = longformer_base(model).encoder
    if isinstance(encoder, BandedEncoder):
        raise UnsupportedError("observe_library is for the library's encoder; call use_library(model) first.")
    first, last = encoder.layer[0].attention.self, encoder.layer[-1]
    seen: dict[str, Batch] = {}

    def after_attention(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: tuple[Tensor, ...]) -> None:
        recorder = active_recorder()
        if recorder is None:
            return
        hidden = args[0]
        if module is first:
            seen["batch"] = Batch.from_mask(kwargs["attention_mask"])
        batch = seen["batch"]
        recorder.layout = layout = Padded(batch.lengths)
        recorder.hidden.append(hidden)
        if recorder.attention:
            plans = batch.plans(module.one_sided_attn_window_size, hidden.dtype)
            recorder.layers.append(BandedRecord(module, hidden.detach(), layout, plans, output[0], layout))

    def after_last_layer(_module: Any, _args: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        recorder = active_recorder()
        if recorder is not None:
            recorder.hidden.append(output[0])

    with ExitStack() as stack:
        for layer in encoder.layer:
            stack.enter_context(layer.attention.self.register_forward_hook(after_attention, with_kwargs=True))
        stack.enter_context(last.register_forward_hook(after_last_layer))
        yield
