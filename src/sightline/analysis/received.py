"""Totals: how much attention every token receives, by head, by layer, in the lower and upper half, over all.

received[l, h, j] = Σ_i A^lh[i, j], (L, H, n): a head gives n in all, so 1 is an average token. Sets of heads are
averaged, weighted by `head_weights` (L, H) if given ("scaled"): Σ w·received / Σ w. Layers without any head of positive
weight are 0.

Sinks. Longformer's position embeddings were made by copying those of a model with 512 positions, so that every 512th
token looks like a first one and may draw attention whatever it is. Tokens at multiples of 512 are compared with the
median of their neighbours, 16 on each side, and flagged from three times that median on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from sightline.analysis.filters import TokenFilter, kept_units
from sightline.analysis.source import AttentionSource, Floats, check_head_weights, is_banded, weighted_mean
from sightline.errors import InputError, OptionError
from sightline.metrics.score_inputs import score_vector
from sightline.settings.values import check_count, check_head, check_layer, check_position
from sightline.text import Encoding
from sightline.text.units import Level, units_of

if TYPE_CHECKING:
    import pandas as pd

LayerName = Literal["last", "all", "lower", "upper"]
LayerChoice: TypeAlias = LayerName | int | Sequence[int]
"""Which layers to average: by name, by number (negative from the top), or several numbers. The lower half is the first
⌊L/2⌋ layers."""

SINK_PERIOD = 512
SINK_NEIGHBOURS = 16
SINK_RATIO = 3.0


@dataclass(frozen=True)
class Sink:
    """A token at a multiple of 512, beside its neighbours."""

    position: int
    token: str
    received: float
    """Attention received, mean of all heads."""
    neighbours: float
    """Median of what the 16 tokens on each side receive."""
    ratio: float
    """received / neighbours; 0 where both are 0."""
    flagged: bool
    """ratio >= 3: probably an artefact of copied position embeddings, not of the text."""


@dataclass(frozen=True, eq=False)
class PositionTotals:
    """One token across layers and heads."""

    position: int
    token: str
    received: Floats
    """(L, H)."""
    ranks: npt.NDArray[np.int64]
    """(L, H): 1 = receives most of all tokens; equal values share the best rank."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per head: layer, head, received, rank."""
        import pandas as pd

        layer, head = (axis.ravel() for axis in np.indices(self.received.shape))
        return pd.DataFrame(
            {"layer": layer, "head": head, "received": self.received.ravel(), "rank": self.ranks.ravel()}
        )


@dataclass(frozen=True, eq=False)
class Totals:
    """Attention received by every token."""

    encoding: Encoding
    received: Floats
    """(L, H, n)."""
    head_weights: npt.NDArray[np.float64] | None
    """(L, H), or None for the plain mean."""
    sinks: tuple[Sink, ...]
    """Tokens at multiples of 512, for Longformer; empty for others."""

    def per_layer(self) -> Floats:
        """(L, n): mean over the heads of each layer."""
        return np.stack([self.over(layer) for layer in range(len(self.received))])

    def over(self, layers: LayerChoice = "all", head: int | None = None) -> Floats:
        """(n,): mean over the heads of some layers, or over the head of one number in each of them."""
        return mean_received(self.received, self.head_weights, layers, head)

    def at(self, position: int) -> PositionTotals:
        """Return one token across layers and heads, with its rank among all tokens in each."""
        position = check_position(position, len(self.encoding))
        at_position = self.received[:, :, position]
        ranks = 1 + (self.received > at_position[:, :, None]).sum(axis=-1)
        return PositionTotals(position, self.encoding.tokens[position], at_position, ranks)

    def top(
        self,
        k: int = 10,
        layers: LayerChoice = "all",
        head: int | None = None,
        *,
        level: Level = "word",
        filter: TokenFilter | None = None,
    ) -> pd.DataFrame:
        """Return the words (or tokens) that receive most: rank, text, position, received, share.

        share: of all attention, including that on specials and dropped words. Specials are not listed.
        """
        import pandas as pd

        units = units_of(self.encoding, level)
        received = self.over(layers, head)
        values, total = units.fold(received), float(received.sum())
        listed = np.flatnonzero(kept_units(filter, self.encoding, units))
        order = listed[np.argsort(-values[listed], kind="stable")][: check_count("k", k)]
        return pd.DataFrame(
            {
                "rank": np.arange(1, len(order) + 1),
                "text": np.array([units.texts[i] for i in order], dtype=object),
                "position": units.first_tokens[order],
                "received": values[order],
                "share": values[order] / total if total else values[order],
            }
        )

    def to_frame(self, level: Level = "token") -> pd.DataFrame:
        """Return one row per word or token (specials are marked): lower, upper, all, and one column per layer."""
        import pandas as pd

        named = {name: self.over(name) for name in ("lower", "upper", "all")}
        columns = named | {f"layer_{number}": row for number, row in enumerate(self.per_layer())}
        if level == "token":
            encoding = self.encoding
            first = {"position": np.arange(len(encoding)), "text": list(encoding.tokens), "special": encoding.special}
            return pd.DataFrame(first | columns)
        units = units_of(self.encoding, level)
        return pd.DataFrame(
            {"position": units.first_tokens, "text": np.array(units.texts, dtype=object)}
            | {name: units.fold(values) for name, values in columns.items()}
        )

    def sinks_frame(self) -> pd.DataFrame:
        """Return one row per token at a multiple of 512: position, token, received, neighbours, ratio, flagged."""
        import pandas as pd

        return pd.DataFrame([sink.__dict__ for sink in self.sinks], columns=list(Sink.__dataclass_fields__))


def mean_received(
    received: Floats, head_weights: npt.ArrayLike | None, layers: LayerChoice = "all", head: int | None = None
) -> npt.NDArray[np.float64]:
    """Return the weighted mean (n,) of received (L, H, n) over the heads of some layers, or one head of each."""
    weights = check_head_weights(head_weights, *received.shape[:2])
    heads = range(received.shape[1]) if head is None else [check_head(head, received.shape[1])]
    chosen = np.ix_(layer_numbers(layers, len(received)), heads)
    if weights[chosen].size == 1:  # the weight of a single head changes nothing, even if it is 0
        weights = np.ones_like(weights)
    return weighted_mean(received[chosen], weights[chosen])


def totals(source: AttentionSource, head_weights: npt.ArrayLike | None = None) -> Totals:
    """Return the attention every token receives."""
    weights = None if head_weights is None else check_head_weights(head_weights, source.layer_count, source.head_count)
    return totals_of(source.encoding, source.received, weights, longformer=is_banded(source))


def totals_of(
    encoding: Encoding, received: Floats, head_weights: npt.NDArray[np.float64] | None = None, *, longformer: bool
) -> Totals:
    """Return totals from what was received, (L, H, n); sinks are looked for in Longformer models only."""
    period_sinks = sinks(received.mean(axis=(0, 1)), encoding.tokens) if longformer else ()
    return Totals(encoding, received, head_weights, period_sinks)


def sinks(received: npt.ArrayLike, tokens: Sequence[str], period: int = SINK_PERIOD) -> tuple[Sink, ...]:
    """Compare the tokens at multiples of `period` (not the first token) with their neighbours; received (n,)."""
    values = score_vector(received, "received")
    if len(tokens) != len(values):
        raise InputError(f"There are {len(tokens)} tokens and {len(values)} values received; give one for each.")
    places = range(check_count("period", period), len(values), period)
    return tuple(_compare_with_neighbours(values, position, tokens[position], period) for position in places)


def is_sink(received: npt.ArrayLike, position: int) -> bool:
    """Return whether a token receives at least three times as much as the median of its neighbours; received (n,)."""
    values = score_vector(received, "received")
    return _compare_with_neighbours(values, check_position(position, len(values)), "").flagged


def _compare_with_neighbours(values: Floats, position: int, token: str, period: int | None = None) -> Sink:
    """Return one token beside its neighbours, without those at multiples of `period`."""
    first = max(0, position - SINK_NEIGHBOURS)
    around = np.arange(first, min(len(values), position + SINK_NEIGHBOURS + 1))
    around = around[around % period != 0] if period is not None else around[around != position]
    median = float(np.median(values[around])) if len(around) else 0.0
    at_position = float(values[position])
    # If the neighbours receive nothing, any attention at all is out of proportion.
    ratio = at_position / median if median > 0 else (SINK_RATIO if at_position > 0 else 0.0)
    return Sink(position, token, at_position, median, ratio, ratio >= SINK_RATIO)


def layer_numbers(choice: LayerChoice, layers: int) -> list[int]:
    """Return the numbers of the chosen layers, ascending."""
    if isinstance(choice, str):
        named: dict[str, range] = {
            "last": range(layers - 1, layers),
            "all": range(layers),
            "lower": range(layers // 2),
            "upper": range(layers // 2, layers),
        }
        if choice not in named:
            raise OptionError(
                f"layers='{choice}' is not known. Use one of: {', '.join(get_args(LayerName))}, or numbers."
            )
        # A model of one layer has no lower half: its only layer is used for both.
        return list(named[choice]) or [0]
    numbers = [choice] if isinstance(choice, int) else list(choice)
    if not numbers:
        raise OptionError("No layer was chosen; name at least one.")
    return sorted({check_layer(n, layers) for n in numbers})
