"""What an inspection of one document shows, gathered once: every picture, table and sentence reads from here.

The numbers come from `analysis`; nothing is computed when something is drawn. One pass over the document serves the
attention, one the explanations, and one the head importance. Shapes: n tokens, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline import analysis
from sightline.analysis import TokenFilter
from sightline.analysis.source import head_number, layer_number
from sightline.attention import BandedAttention
from sightline.attention.arrays import check_position, check_positive
from sightline.defaults import DEFAULT_METHODS
from sightline.methods.decomposition.matrices import relevance_matrices

if TYPE_CHECKING:
    from sightline.analysis import (
        AttentionMaps,
        AttributionTable,
        Disagreement,
        PositionTotals,
        RelationCounts,
        Similarity,
        Totals,
    )
    from sightline.explanation import Explanation
    from sightline.model import Document, Model, Progress
    from sightline.models import TargetLike
    from sightline.text import Encoding
    from sightline.trace import Trace

FloatArray = NDArray[np.floating[Any]]

HEAD_PIXELS = 512
"""Side of the picture of one head."""
TILE_TOKENS = 192
"""Side of the piece of that head that is shown weight by weight."""
WINDOW_PIXELS = 64
GRAPH_TOKENS = 40
MATRIX_TOKENS = 256
"""Longer documents have no relevance matrices: n×n numbers a layer, and nothing to be seen in them."""


@dataclass(frozen=True)
class Settings:
    """What to look at, and how; the names are those of the command's options."""

    methods: tuple[str, ...] = DEFAULT_METHODS
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the methods: method -> option -> value."""
    stop_words: str | None = "en"
    """Language whose stop words are left out of lists, with punctuation and specials; None leaves out specials only."""
    top_k: int = 10
    """Partners a token in relations, and rows of the lists."""
    layer: int | None = None
    """Relations and totals of one layer instead of all; also the layer of the map in full."""
    head: int | None = None
    """The same for one head of that layer."""
    position: int | None = None
    """The token followed through all layers and heads; by default the one that receives most attention."""
    scaled: bool = False
    """Weigh heads by their importance in totals and counts."""
    head_importance: bool = True
    """Compute how much each head matters: one more pass."""
    permutations: int = 100
    """Shuffles for each chance level."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(self.top_k, "top_k")
        self.filter  # noqa: B018  # an unknown language is refused now, before a model runs

    @property
    def filter(self) -> TokenFilter | None:
        """The filter of all lists but the unfiltered ones."""
        return None if self.stop_words is None else TokenFilter(stop_words=self.stop_words)


@dataclass(frozen=True, eq=False)
class OneHead:
    """One head in full."""

    layer: int
    head: int
    image: FloatArray
    """(s, s), s up to 512."""
    tile: FloatArray | None
    """(192, 192) weights of the first tokens, for documents too long to show each weight."""


@dataclass(frozen=True, eq=False)
class Inspection:
    """Everything about one document that is shown."""

    settings: Settings
    explanations: dict[str, Explanation]
    importance: FloatArray | None
    """(L, H), 0 to 1."""
    maps: AttentionMaps
    windows: FloatArray | None
    """(L, H, s, s): attention by position (rows) and distance (columns), for long documents read through a window."""
    one_head: OneHead
    relations: RelationCounts
    """With the filter."""
    all_relations: RelationCounts
    """Without it."""
    totals: Totals
    position: PositionTotals
    by_type: dict[str, AttributionTable]
    by_position: dict[str, AttributionTable]
    similarity: dict[str, tuple[Similarity, ...]]
    disagreements: dict[str, dict[str, tuple[Disagreement, ...]]]
    graph: FloatArray | None
    """(L, n, n) mean of the heads, for short documents."""
    relevance: FloatArray | None
    """(L, n, n): R^l of attention rollout, for documents of up to 256 tokens."""
    readout: int | None
    """The token that the prediction is read from, if it is a single one."""

    @property
    def encoding(self) -> Encoding:
        """The document."""
        return self.first.encoding

    @property
    def first(self) -> Explanation:
        """The explanation by the first method."""
        return next(iter(self.explanations.values()))

    @property
    def head_weights(self) -> FloatArray | None:
        """Weights of the heads in totals and counts: their importance if `scaled`."""
        return self.importance if self.settings.scaled else None


def gather(
    model: Model,
    document: Document,
    settings: Settings | None = None,
    *,
    target: TargetLike = None,
    progress: Progress | None = None,
) -> Inspection:
    """Run the model on one document and collect all that is shown of it."""
    settings = settings or Settings()
    tell = progress or _silent
    encoding = model.encode(document) if isinstance(document, str) else document
    trace = model.trace(encoding, target)
    layer = None if settings.layer is None else layer_number(trace, settings.layer)
    head = None if settings.head is None else head_number(trace, settings.head)
    position = None if settings.position is None else check_position(settings.position, len(encoding), "Position")

    tell("explaining", 0, 0)
    explanations = model.explain(
        encoding, methods=list(settings.methods), target=target, progress=progress, **settings.options
    )
    importance = None
    if settings.head_importance:
        importance = analysis.head_importance(model, encoding, progress=progress)
    weights = importance if settings.scaled else None
    totals = analysis.totals(trace, weights)
    maps = analysis.thumbnails(trace, progress=progress)
    relations = analysis.relation_counts(trace, settings.top_k, settings.filter, progress=progress)
    # Without a filter both are the same.
    unfiltered = (
        relations if settings.filter is None else analysis.relation_counts(trace, settings.top_k, progress=progress)
    )
    similarity, disagreements = {}, {}
    for number, (name, explanation) in enumerate(explanations.items()):
        tell("comparing attention and attribution", number, len(explanations))
        similarity[name] = analysis.document_similarity(
            trace,
            explanation,
            head_weights=importance,
            filter=settings.filter,
            permutations=settings.permutations,
            seed=settings.seed,
        )
        disagreements[name] = analysis.disagreements(
            trace, explanation, settings.top_k, head_weights=weights, filter=settings.filter
        )
    return Inspection(
        settings=settings,
        explanations=explanations,
        importance=importance,
        maps=maps,
        windows=window_maps(trace),
        one_head=_one_head(trace, layer, head, importance),
        relations=relations,
        all_relations=unfiltered,
        totals=totals,
        position=totals.at(_followed(totals, settings.filter) if position is None else position),
        by_type=_tables(explanations, settings, analysis.attributions_by_type),
        by_position=_tables(explanations, settings, analysis.attributions_by_position),
        similarity=similarity,
        disagreements=disagreements,
        graph=_mean_attention(trace) if len(encoding) <= GRAPH_TOKENS else None,
        relevance=relevance_matrices(trace) if len(encoding) <= MATRIX_TOKENS else None,
        readout=_single(trace.readout),
    )


def window_maps(trace: Trace, size: int = WINDOW_PIXELS) -> FloatArray | None:
    """Return what each head gives to distances -w … w along the document, (L, H, s, s), or None.

    A window of a long document is a thin diagonal of its map; here every row is moved so that the token itself stands
    in the middle. Pixel (r, c) is the mean weight of its tokens and distances; rows of global tokens, which have no
    window, count as 0. None for models without a window, and where it is more than a quarter of the document.
    """
    layers = []
    for attention in trace.attentions:
        if not isinstance(attention, BandedAttention) or 4 * (2 * attention.window + 1) > trace.token_count:
            return None
        slots = attention.local[:, :, len(attention.global_tokens) :].numpy()
        side = min(size, slots.shape[2])
        rows, columns = (np.arange(side) * length // side for length in slots.shape[1:])
        sums = np.add.reduceat(np.add.reduceat(slots, rows, axis=1), columns, axis=2)
        cells = np.outer(np.diff(rows, append=slots.shape[1]), np.diff(columns, append=slots.shape[2]))
        layers.append(sums / cells)
    # Windows narrower than the picture differ in size where layers differ; there is no grid of such pictures.
    return np.stack(layers) if len({layer.shape for layer in layers}) == 1 else None


def _tables(explanations: Mapping[str, Explanation], settings: Settings, table: Any) -> dict[str, AttributionTable]:
    return {name: table(one, settings.top_k, filter=settings.filter) for name, one in explanations.items()}


def _one_head(trace: Trace, layer: int | None, head: int | None, importance: FloatArray | None) -> OneHead:
    """The head asked for; what is not asked for is chosen by importance, else the last layer and the first head."""
    if importance is None:
        layer = trace.layer_count - 1 if layer is None else layer
        head = 0 if head is None else head
    else:
        allowed = np.full(importance.shape, -1.0)
        rows = slice(None) if layer is None else layer
        columns = slice(None) if head is None else head
        allowed[rows, columns] = importance[rows, columns]
        layer, head = (int(one) for one in np.unravel_index(np.argmax(allowed), allowed.shape))
    n = trace.token_count
    side = (0, TILE_TOKENS)
    return OneHead(
        layer=layer,
        head=head,
        image=trace.attentions[layer].head(head).image(HEAD_PIXELS)[0],
        tile=analysis.tile(trace, layer, head, side, side) if n > HEAD_PIXELS else None,
    )


def _followed(totals: Totals, filter: TokenFilter | None) -> int:
    """The token that receives most attention; the first one where the filter leaves none."""
    most = totals.top(1, level="token", filter=filter)
    return int(most["position"].iloc[0]) if len(most) else 0


def _mean_attention(trace: Trace) -> FloatArray:
    return np.stack([mean.dense()[0] for mean in trace.mean_attentions])


def _single(readout: Sequence[float] | FloatArray) -> int | None:
    places = np.flatnonzero(readout)
    return int(places[0]) if len(places) == 1 else None


def _silent(stage: str, done: int, total: int) -> None:
    """Stand in for a progress that nobody asked for."""
