"""Inspection: what happens inside a model on one document, as `sightline inspect` shows it.

    inspection = model.inspect("The text of a document …", methods=("attcat", "alti"))
    inspection.importance, inspection.relations.by_type("attended"), inspection.totals.to_frame()

It is the report of the document, with the same `Inside` as the page, and tables made from the same trace. One forward
and one backward pass serve the explanations, the attention and the head importance; methods that change the input run
further passes, as does the check against random orders. Shapes: n tokens, L layers, H heads.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sightline.analysis.attribution_tables import (
    AttributionTable,
    attributions_by_position,
    attributions_by_type,
    token_ranks,
)
from sightline.analysis.filters import TokenFilter
from sightline.analysis.importance import EffectiveHead, effective_head, head_importance_of
from sightline.analysis.internals import inside
from sightline.analysis.layer_anisotropy import LayerAnisotropy, anisotropy_by_layer
from sightline.analysis.maps import THUMBNAIL
from sightline.analysis.received import LayerChoice, PositionTotals, Totals, totals
from sightline.analysis.relation_table import RelationCounts
from sightline.analysis.relations import relation_counts
from sightline.analysis.similarity import Disagreement, Similarity, disagreements, document_similarity
from sightline.analysis.source import Floats
from sightline.errors import OptionError
from sightline.methods import method_name
from sightline.models import ALL, TargetLike
from sightline.progress import Progress
from sightline.results.explanation import Explanation
from sightline.results.inside import Inside
from sightline.results.report import Report
from sightline.settings.inspection import InspectSettings, PartnerCount
from sightline.settings.values import check_head, check_layer, check_position
from sightline.text import Encoding

if TYPE_CHECKING:
    import pandas as pd

    from sightline.api.loaded import Document
    from sightline.api.model import Model

TRANSFORMED_TOKENS = 256
"""Tokens up to which the anisotropy of transformed vectors is computed: there are n×n of them per layer."""
EFFECTIVE_TOKENS = 512
"""Tokens up to which effective attention is computed: it takes n×n numbers per head."""


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
    def counting(self) -> PartnerCount:
        """How relations are counted."""
        return self.count or ("pairs" if self.scaled else "tokens")


@dataclass(frozen=True, eq=False)
class Inspection:
    """All numbers of an inspection of one document."""

    settings: InspectionSettings
    report: Report
    """The explanations by method, and what was seen inside the model: relations, maps, head importance."""
    head: tuple[int, int]
    """(layer, head) as requested, by default the most important head, or the last layer and first head."""
    relations: RelationCounts
    """With the filter."""
    all_relations: RelationCounts
    """Without it."""
    totals: Totals
    position: PositionTotals
    """What one token receives in every head."""
    by_type: dict[str, AttributionTable]
    """By method, as the following four."""
    by_position: dict[str, AttributionTable]
    token_ranks: dict[str, pd.DataFrame]
    """Ranks of special tokens and punctuation."""
    similarity: dict[str, tuple[Similarity, ...]]
    disagreements: dict[str, dict[str, tuple[Disagreement, ...]]]
    anisotropy: LayerAnisotropy | None
    """Of hidden states, y and T by layer; None unless requested."""
    effective: EffectiveHead | None
    """Effective attention of the head, up to 512 tokens; None unless requested."""

    @property
    def inside(self) -> Inside:
        """What was seen inside the model."""
        assert self.report.inside is not None
        return self.report.inside

    @property
    def importance(self) -> npt.NDArray[np.float64] | None:
        """(L, H), 0 to 1: how strongly what is explained depends on each head."""
        return self.inside.importance

    @property
    def explanations(self) -> dict[str, Explanation]:
        """By method."""
        return dict(zip(self.report.explanations, self.report, strict=True))

    @property
    def encoding(self) -> Encoding:
        """The document."""
        return self.report.encoding

    @property
    def first(self) -> Explanation:
        """The explanation by the first method."""
        return self.report.first

    @property
    def provenance(self) -> Mapping[str, str]:
        """Provenance of the numbers: model, weights, versions."""
        return self.report.provenance

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
    """Run the model on one document and return all numbers of its inspection; see `Model.inspect`.

    What the model does not read at once is cut off, with a warning.
    """
    settings = settings or InspectionSettings()
    if target == ALL:
        raise OptionError("An inspection explains one target; name a class, or a pair of classes for a contrast.")
    report = progress or _report_nothing
    encoding = model.encode(document, truncate=True) if isinstance(document, str) else document
    if encoding.dropped:
        warnings.warn(
            f"The document has {len(encoding) + encoding.dropped:,} tokens; only the first {len(encoding):,}, which "
            "the model reads at once, are inspected.",
            stacklevel=2,
        )
    trace = model.trace(encoding, target)
    layer = None if settings.layer is None else check_layer(settings.layer, trace.layer_count)
    head = None if settings.head is None else check_head(settings.head, trace.head_count)
    if layer != settings.layer:  # counted from the top; what is shown counts from 0
        settings = replace(settings, layer=layer)
    position = None if settings.position is None else check_position(settings.position, len(encoding), "Position")

    # All needs are declared before the pass runs, so that one pass serves them all.
    trace.require("attentions")
    if settings.anisotropy:
        trace.require("blocks", "hidden_states")
    show_effective = settings.effective and len(encoding) <= EFFECTIVE_TOKENS
    if show_effective:
        trace.require("blocks")
    if settings.head_importance:
        trace.require("head_importance")
    report("explaining", 0, 0)
    methods = [method_name(name) for name in settings.methods]
    explanations = model.explain(trace, methods=methods, check=settings.check, progress=progress, **settings.options)
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
    chosen = _choose_head(trace.layer_count, layer, head, importance)
    return Inspection(
        settings=settings,
        report=Report(
            explanations, inside=inside(trace, thumbnail=THUMBNAIL, importance=importance, progress=progress)
        ),
        head=chosen,
        relations=relations,
        all_relations=(
            relations if settings.filter is None else relation_counts(trace, settings.top_k, progress=progress)
        ),
        totals=received,
        position=received.at(_most_attended(received, settings) if position is None else position),
        by_type=_tables(explanations, settings, attributions_by_type),
        by_position=_tables(explanations, settings, attributions_by_position),
        token_ranks={name: token_ranks([explanation]) for name, explanation in explanations.items()},
        similarity=similarity,
        disagreements=disagreement,
        anisotropy=(
            anisotropy_by_layer(trace, transformed=len(encoding) <= TRANSFORMED_TOKENS) if settings.anisotropy else None
        ),
        effective=effective_head(trace, *chosen) if show_effective else None,
    )


def _tables(
    explanations: Mapping[str, Explanation], settings: InspectionSettings, table: Callable[..., AttributionTable]
) -> dict[str, AttributionTable]:
    return {
        name: table(explanation, settings.top_k, filter=settings.filter) for name, explanation in explanations.items()
    }


def _choose_head(layers: int, layer: int | None, head: int | None, importance: Floats | None) -> tuple[int, int]:
    """Return the requested layer and head; None is chosen by importance, else the last layer and first head."""
    if importance is None:
        return layers - 1 if layer is None else layer, 0 if head is None else head
    allowed = np.full(importance.shape, -1.0)
    rows = slice(None) if layer is None else layer
    columns = slice(None) if head is None else head
    allowed[rows, columns] = importance[rows, columns]
    best = np.unravel_index(np.argmax(allowed), allowed.shape)
    return int(best[0]), int(best[1])


def _most_attended(received: Totals, settings: InspectionSettings) -> int:
    """Return the token that receives the most attention; the first one where the filter drops all."""
    most = received.top(1, settings.layers, settings.head, level="token", filter=settings.filter)
    return int(most["position"].iloc[0]) if len(most) else 0


def _report_nothing(stage: str, done: int, total: int) -> None:
    """Stand in for a progress callback that was not given."""
