"""Inspection: what happens inside a model on one document, as `sightline inspect` shows it.

    inspection = model.inspect("The text of a document …", methods=("attcat", "alti"))
    inspection.importance, inspection.relations.by_type("attended"), inspection.totals.to_frame()

One forward and one backward pass serve the explanations, the attention and the head importance; methods that change
the input run further passes, as does the check against random orders. Shapes: n tokens, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast, get_args

import numpy as np
import numpy.typing as npt

from sightline.analysis.attribution_tables import (
    AttributionTable,
    attributions_by_position,
    attributions_by_type,
    token_ranks,
)
from sightline.analysis.effective import EffectiveHead, effective_head
from sightline.analysis.filters import TokenFilter
from sightline.analysis.importance import head_importance_of
from sightline.analysis.internals import WINDOW_COLUMNS, WINDOW_ROWS
from sightline.analysis.layer_anisotropy import LayerAnisotropy, anisotropy_by_layer
from sightline.analysis.maps import AttentionMaps, straighten, thumbnails, tile, window_maps
from sightline.analysis.received import LayerChoice, PositionTotals, Totals, totals
from sightline.analysis.relation_table import RelationCounts
from sightline.analysis.relations import relation_counts
from sightline.analysis.similarity import Disagreement, Similarity, disagreements, document_similarity
from sightline.analysis.source import Floats, head_number, layer_number
from sightline.attention import BandedAttention
from sightline.errors import OptionError
from sightline.methods.decomposition.matrices import LayeredMethod, matrix_options, relevance_matrices
from sightline.models import ALL, TargetLike
from sightline.passes.trace import Trace
from sightline.progress import Progress
from sightline.results.explanation import Explanation
from sightline.settings.arguments import check_position
from sightline.settings.inspection import Count, InspectSettings
from sightline.text import Encoding

if TYPE_CHECKING:
    import pandas as pd

    from sightline.api.model import Document, Model

HEAD_PIXELS = 512
"""Pixels along the map of one head."""
TILE_TOKENS = 192
"""Tokens along the piece of that map that shows every weight."""
COMPARED_GRAPH_TOKENS = 24
"""Tokens up to which attention, rollout and flow are kept as graphs to be drawn side by side."""
GRAPH_TOKENS = 40
"""Tokens up to which attention is kept as a graph."""
MATRIX_TOKENS = 256
"""Tokens up to which relevance matrices are kept: they take n×n numbers per layer, and larger ones are illegible."""
EFFECTIVE_TOKENS = 512
"""Tokens up to which effective attention is computed: it takes n×n numbers per head."""
FLOW_MATRIX_TOKENS = 64
"""The same for `flow`, which takes a maximum flow for every cell."""
LAYERED_METHODS: tuple[str, ...] = get_args(LayeredMethod)
"""Methods that have relevance matrices."""


@dataclass(frozen=True, kw_only=True)
class InspectionSettings(InspectSettings):
    """What to inspect, and how; the fields are named like the options of `sightline inspect`."""

    permutations: int = 100
    """Shuffles per chance level."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.filter  # noqa: B018  # raises for an unknown language, before a model runs

    @property
    def filter(self) -> TokenFilter | None:
        """The filter of all lists but the unfiltered ones."""
        return None if self.stop_words is None else TokenFilter(stop_words=self.stop_words)

    @property
    def layers(self) -> LayerChoice:
        """The layers whose words are listed."""
        return "all" if self.layer is None else self.layer

    @property
    def counting(self) -> Count:
        """How relations are counted."""
        return self.count or ("pairs" if self.scaled else "tokens")


@dataclass(frozen=True, eq=False)
class HeadMap:
    """The attention of one head as a large picture."""

    layer: int
    head: int
    image: Floats
    """(s, s), s up to 512."""
    tile: Floats | None
    """(192, 192) weights of the first tokens, for documents too long for a pixel per weight."""
    window: Floats | None = None
    """(r, c) mean weight by position and distance, for long documents read through a window (`maps.straighten`)."""
    reach: int = 0
    """The farthest distance in the window."""


@dataclass(frozen=True, eq=False)
class Inspection:
    """All numbers of an inspection of one document."""

    settings: InspectionSettings
    explanations: dict[str, Explanation]
    """By method."""
    importance: npt.NDArray[np.float64] | None
    """(L, H), 0 to 1: how strongly what is explained depends on each head."""
    maps: AttentionMaps
    windows: Floats | None
    """(L, H, s, s): attention by position (rows) and distance (columns), for long documents read through a window."""
    head_map: HeadMap
    """The head that was asked for, or the most important one."""
    relations: RelationCounts
    """With the filter."""
    all_relations: RelationCounts
    """Without it."""
    totals: Totals
    position: PositionTotals
    """What one token receives in every head."""
    by_type: dict[str, AttributionTable]
    """By method, as the following three."""
    by_position: dict[str, AttributionTable]
    similarity: dict[str, tuple[Similarity, ...]]
    disagreements: dict[str, dict[str, tuple[Disagreement, ...]]]
    graph: Floats | None
    """(L, n, n) mean of the heads, for documents of up to 40 tokens."""
    relevance: dict[str, Floats]
    """R^l (L, n, n) of every method that has them, of rollout if none has, for documents of up to 256 tokens."""
    readout: int | None
    """The token that the prediction is read from, if it is a single one."""
    graphs: dict[str, Floats]
    """Raw attention with its residual connection, rollout and flow, each (L, n, n), up to 24 tokens."""
    anisotropy: LayerAnisotropy | None
    """Of hidden states, y and T over the layers, where it was asked for."""
    effective: EffectiveHead | None
    """Effective attention, where it was asked for, up to 512 tokens."""
    token_ranks: dict[str, pd.DataFrame]
    """Ranks of special tokens and punctuation, by method."""

    @property
    def encoding(self) -> Encoding:
        """The document."""
        return self.first.encoding

    @property
    def first(self) -> Explanation:
        """The explanation by the first method."""
        return next(iter(self.explanations.values()))

    @property
    def provenance(self) -> Mapping[str, str]:
        """What produced the numbers: model, weights, versions."""
        return self.first.provenance

    @property
    def head_weights(self) -> Floats | None:
        """Weights of the heads in totals and counts: their importance if `scaled`."""
        return self.importance if self.settings.scaled else None


def inspect_document(
    model: Model,
    document: Document,
    settings: InspectionSettings | None = None,
    *,
    target: TargetLike = None,
    progress: Progress | None = None,
) -> Inspection:
    """Run the model on one document and return all numbers of its inspection; see `Model.inspect`."""
    settings = settings or InspectionSettings()
    if target == ALL:
        raise OptionError("An inspection explains one target; name a class, or a pair of classes for a contrast.")
    report = progress or _report_nothing
    encoding = model.encode(document, truncate=True) if isinstance(document, str) else document
    trace = model.trace(encoding, target)
    layer = None if settings.layer is None else layer_number(trace, settings.layer)
    head = None if settings.head is None else head_number(trace, settings.head)
    if layer != settings.layer:  # counted from the top; what is shown counts from 0
        settings = replace(settings, layer=layer)
    position = None if settings.position is None else check_position(settings.position, len(encoding), "Position")

    # Everything is required before the pass runs, so that one pass serves it all.
    trace.require("attentions")
    if settings.anisotropy:
        trace.require("blocks", "hidden_states")
    show_effective = settings.effective and len(encoding) <= EFFECTIVE_TOKENS
    if show_effective:
        trace.require("blocks")
    if settings.head_importance:
        trace.require("head_importance")
    report("explaining", 0, 0)
    explanations = model.explain(
        trace, methods=list(settings.methods), check=settings.check, progress=progress, **settings.options
    )
    importance = head_importance_of(trace) if settings.head_importance else None
    weights = importance if settings.scaled else None
    received = totals(trace, weights)
    relations = relation_counts(trace, settings.top_k, settings.filter, progress=progress)
    similarity, disagreement = {}, {}
    for number, (name, explanation) in enumerate(explanations.items()):
        report("comparing attention and attribution", number, len(explanations))
        similarity[name] = document_similarity(
            trace,
            explanation,
            head_weights=importance,
            by_document=True,
            filter=settings.filter,
            permutations=settings.permutations,
            seed=settings.seed,
        )
        disagreement[name] = disagreements(
            trace,
            explanation,
            settings.top_k,
            layers=settings.layers,
            head=head,
            head_weights=weights,
            filter=settings.filter,
        )
    head_map = _head_map(trace, layer, head, importance)
    return Inspection(
        settings=settings,
        explanations=explanations,
        importance=importance,
        maps=thumbnails(trace, progress=progress),
        windows=window_maps(trace),
        head_map=head_map,
        relations=relations,
        all_relations=(
            relations if settings.filter is None else relation_counts(trace, settings.top_k, progress=progress)
        ),
        totals=received,
        position=received.at(_most_attended(received, settings) if position is None else position),
        by_type=_tables(explanations, settings, attributions_by_type),
        by_position=_tables(explanations, settings, attributions_by_position),
        similarity=similarity,
        disagreements=disagreement,
        graph=_mean_attention(trace) if len(encoding) <= GRAPH_TOKENS else None,
        relevance=_relevance(trace, explanations) if len(encoding) <= MATRIX_TOKENS else {},
        readout=_single_readout(trace),
        graphs=attention_graphs(trace) if len(encoding) <= COMPARED_GRAPH_TOKENS else {},
        anisotropy=(
            anisotropy_by_layer(trace, transformed=len(encoding) <= MATRIX_TOKENS) if settings.anisotropy else None
        ),
        effective=effective_head(trace, head_map.layer, head_map.head) if show_effective else None,
        token_ranks={name: token_ranks([explanation]) for name, explanation in explanations.items()},
    )


def _tables(
    explanations: Mapping[str, Explanation], settings: InspectionSettings, table: Callable[..., AttributionTable]
) -> dict[str, AttributionTable]:
    return {
        name: table(explanation, settings.top_k, filter=settings.filter) for name, explanation in explanations.items()
    }


def _head_map(trace: Trace, layer: int | None, head: int | None, importance: Floats | None) -> HeadMap:
    """Return the map of the head asked for; layer or head are chosen by importance, else the last and the first."""
    if importance is None:
        layer = trace.layer_count - 1 if layer is None else layer
        head = 0 if head is None else head
    else:
        allowed = np.full(importance.shape, -1.0)
        rows = slice(None) if layer is None else layer
        columns = slice(None) if head is None else head
        allowed[rows, columns] = importance[rows, columns]
        layer, head = (int(index) for index in np.unravel_index(np.argmax(allowed), allowed.shape))
    side = (0, TILE_TOKENS)
    attention = trace.attentions[layer].head(head)
    window = straighten(attention, WINDOW_ROWS, WINDOW_COLUMNS)
    return HeadMap(
        layer=layer,
        head=head,
        image=attention.image(HEAD_PIXELS)[0],
        tile=tile(trace, layer, head, side, side) if trace.token_count > HEAD_PIXELS else None,
        window=None if window is None else window[0],
        reach=attention.window if window is not None and isinstance(attention, BandedAttention) else 0,
    )


def _most_attended(received: Totals, settings: InspectionSettings) -> int:
    """Return the token that receives the most attention; the first one where the filter drops all."""
    most = received.top(1, settings.layers, settings.head, level="token", filter=settings.filter)
    return int(most["position"].iloc[0]) if len(most) else 0


def _mean_attention(trace: Trace) -> Floats:
    return np.stack([mean.dense()[0] for mean in trace.mean_attentions])


def _relevance(trace: Trace, explanations: Mapping[str, Explanation]) -> dict[str, Floats]:
    """Return R^1 … R^L of the methods that have them, with the options of their explanations; else of rollout."""
    names = [
        name
        for name in explanations
        if name in LAYERED_METHODS and (name != "flow" or trace.token_count <= FLOW_MATRIX_TOKENS)
    ]
    return {
        name: relevance_matrices(
            trace,
            cast(LayeredMethod, name),
            **(matrix_options(name, explanations[name].options) if name in explanations else {}),
        )
        for name in names or ["rollout"]
    }


def attention_graphs(trace: Trace) -> dict[str, Floats]:
    """Return raw attention with its residual connection, rollout and flow of a short input, each (L, n, n)."""
    mixed = _mean_attention(trace) + np.eye(trace.token_count)
    return {
        "raw attention": mixed / mixed.sum(axis=-1, keepdims=True),
        "rollout": relevance_matrices(trace, "rollout"),
        "flow": relevance_matrices(trace, "flow"),
    }


def _single_readout(trace: Trace) -> int | None:
    positions = np.flatnonzero(trace.readout)
    return int(positions[0]) if len(positions) == 1 else None


def _report_nothing(stage: str, done: int, total: int) -> None:
    """Stand in for a progress callback that was not given."""
