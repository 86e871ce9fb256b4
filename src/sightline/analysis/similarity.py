"""Attention against attribution in one document and over a data set: do the words that receive attention also get the
credit?

Attention is what every token receives, averaged over the heads of the chosen layers; attribution is any explanation.
Both are summed to words (or left at tokens), words that a filter drops are removed before anything is ranked, and then

    cosine · cosine_normalised · cosine_thresholded · kendall · spearman · rbo · average_overlap · jaccard

are computed (`metrics.agreement`), each beside its *chance level*: the same statistic after shuffling the attribution
among the tokens of the compared words and summing again, so that words of many tokens, which have large sums of any
scores, do not pass for agreement. Rank statistics and overlaps compare magnitudes (attention has no sign); the plain
cosine compares signed values. Constant scores rank nothing: they give 0 and a note, never NaN.

Over a data set (`SimilarityTable`): means with intervals beside chance, in published layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sightline.analysis.filters import TokenFilter, kept_units
from sightline.analysis.received import LayerChoice, LayerName, mean_received
from sightline.analysis.source import AttentionSource
from sightline.errors import InputError
from sightline.metrics.agreement import (
    MaskMode,
    average_overlap_rows,
    cosine_rows,
    jaccard_rows,
    kendall_rows,
    masked_pair,
    minmax_magnitude,
    rbo_rows,
    spearman_rows,
)
from sightline.metrics.chance import TokenScores, central_interval, shuffled_blocks
from sightline.metrics.score_inputs import descending_ranks, is_constant, score_pair, token_mask
from sightline.metrics.statistics import Interval, bootstrap_interval
from sightline.results.explanation import Explanation
from sightline.settings.values import check_count
from sightline.text.units import Level, units_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

Values = npt.NDArray[np.float64]
STATISTICS = (
    "cosine",
    "cosine_normalised",
    "cosine_thresholded",
    "kendall",
    "spearman",
    "rbo",
    "average_overlap",
    "jaccard",
)
NOTHING_LEFT = "Nothing is left to compare: the filter drops every word."


@dataclass(frozen=True)
class Similarity:
    """Attention and attribution of one document compared in one setting."""

    units: int
    """Words (or tokens) compared."""
    values: Mapping[str, float]
    """Statistic -> value; empty if nothing was left to compare."""
    chance: Mapping[str, Interval]
    """Statistic -> mean and central 95 % with shuffled attribution."""
    layers: str = ""
    """ "last", "all", "lower", "upper", or layer numbers."""
    scaled: bool = False
    """Heads weighted by their importance."""
    by_document: bool = False
    """Whether importance is that of this document, not of a data set; tables then say `scaled_by_document`."""
    masked: bool = False
    """A filter was applied."""
    note: str = ""
    """A sentence if nothing was left, or if a value exists only by convention."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """mask_mode, p, share, permutations, seed."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per statistic with its setting: value, chance, chance_low, chance_high."""
        import pandas as pd

        scaled = "scaled_by_document" if self.by_document else "scaled"
        columns = ("layers", scaled, "masked", "units", "statistic", "value", "chance", "chance_low", "chance_high")
        setting = (self.layers, self.scaled, self.masked, self.units)
        chances = {name: (level.mean, level.low, level.high) for name, level in self.chance.items()}
        return pd.DataFrame(
            [(*setting, name, value, *chances[name]) for name, value in self.values.items()], columns=list(columns)
        )


@dataclass(frozen=True)
class Disagreement:
    """A word on which attention and attribution disagree."""

    text: str
    """The word."""
    position: int
    """Position of its first token."""
    attention: float
    """Attention it receives."""
    attribution: float
    """Its score."""
    attention_rank: int
    """1 = most attention of all words compared."""
    attribution_rank: int
    """1 = largest magnitude."""


def attention_scores(
    source: AttentionSource,
    layers: LayerChoice = "last",
    head_weights: npt.ArrayLike | None = None,
    head: int | None = None,
) -> Values:
    """Return the attention each token receives, (n,): mean over the heads of the chosen layers, or over one of each."""
    return mean_received(source.received, head_weights, layers, head)


def compare_scores(
    attention: npt.ArrayLike,
    attribution: npt.ArrayLike,
    keep: npt.ArrayLike | None = None,
    *,
    mask_mode: MaskMode = "drop",
    p: float = 0.9,
    share: float = 0.05,
    permutations: int = 200,
    seed: int = 0,
    tokens: TokenScores | None = None,
) -> Similarity:
    """Compare two score vectors (n,) by all statistics on the entries in `keep` (n,), each with its chance level.

    mask_mode="zero" replicates published tables: the other entries are set to 0 in both vectors after these were
    mapped onto [0, 1], and stay in the ranking, where the sort of the published program left them (`quicksort_ranks`).
    Its values are high for unrelated scores: look at the chance level. p: persistence of rbo. share: of the top list of
    jaccard. tokens: the token scores of which the attribution is the sum, if any; these are shuffled for the chance
    level. O(permutations · n log n).
    """
    first, second = score_pair(attention, attribution)
    is_kept = token_mask(keep, first.size)
    options = {"mask_mode": mask_mode, "p": p, "share": share, "permutations": permutations, "seed": seed}
    if not is_kept.any():
        return Similarity(0, {}, {}, note=NOTHING_LEFT, options=options)
    pair = masked_pair(first, second, is_kept, mask_mode)
    statistics = _statistics(p, share)
    views = _zeroed_views if mask_mode == "zero" else _dropped_views
    views_of_first = views(first, is_kept)

    def measure(rows: Values) -> dict[str, Values]:
        views_of_rows = views(rows, is_kept)
        results: dict[str, Values] = {}
        for name, (function, extra) in statistics.items():
            view = name if name in views_of_rows else "ranked"
            results[name] = np.asarray(function(views_of_first[view], views_of_rows[view], **extra))
        return results

    values = {name: float(drawn[0]) for name, drawn in measure(second[None]).items()}
    draws: dict[str, list[Values]] = {name: [] for name in statistics}
    for rows in shuffled_blocks(second, is_kept, permutations, seed, tokens):
        for name, drawn in measure(rows).items():
            draws[name].append(drawn)
    chance = {name: central_interval(np.concatenate(drawn)) for name, drawn in draws.items()}
    return Similarity(int(is_kept.sum()), values, chance, note=_note(*pair), options=options)


def document_similarity(
    source: AttentionSource,
    explanation: Explanation,
    *,
    layers: Sequence[LayerName | int] = ("last", "all"),
    head_weights: npt.ArrayLike | None = None,
    by_document: bool = False,
    filter: TokenFilter | None = None,
    level: Level = "word",
    **options: Any,
) -> tuple[Similarity, ...]:
    """Compare attention and attribution of one document in every setting.

    Settings: `layers` × unscaled (and scaled, given `head_weights`) × unmasked (and masked, given a `filter`).
    Specials are never compared. by_document: the weights are the importance of the heads in this document
    (`head_importance_of`) rather than over a data set (`head_importance`). options: those of `compare_scores`.
    """
    _check_same_document(source, explanation)
    units = units_of(explanation.encoding, level)
    tokens = TokenScores(explanation.scores.astype(np.float64), units)
    attribution = tokens.sums()
    scalings = [None] if head_weights is None else [None, head_weights]
    masks = [None] if filter is None else [None, filter]
    results = []
    for choice, weights, mask in product(layers, scalings, masks):
        keep = kept_units(mask, explanation.encoding, units)
        attention = units.fold(attention_scores(source, choice, weights))
        if not len(units):
            similarity = Similarity(0, {}, {}, note="The document has no words to compare.")
        else:
            similarity = compare_scores(attention, attribution, keep, tokens=tokens, **options)
        scaled, masked = weights is not None, mask is not None
        results.append(replace(similarity, layers=str(choice), scaled=scaled, by_document=by_document, masked=masked))
    return tuple(results)


def disagreements(
    source: AttentionSource,
    explanation: Explanation,
    k: int = 10,
    *,
    layers: LayerChoice = "all",
    head: int | None = None,
    head_weights: npt.ArrayLike | None = None,
    filter: TokenFilter | None = None,
    level: Level = "word",
) -> dict[str, tuple[Disagreement, ...]]:
    """Return the k words with "high_attention_low_attribution" and the k with "low_attention_high_attribution".

    Largest difference of the two ranks first; words whose ranks agree are in neither list.
    """
    _check_same_document(source, explanation)
    k = check_count("k", k)
    units = units_of(explanation.encoding, level)
    stay = np.flatnonzero(kept_units(filter, explanation.encoding, units))
    attention = units.fold(attention_scores(source, layers, head_weights, head))[stay]
    attribution = units.fold(explanation.scores)[stay]
    ranks = [descending_ranks(attention), descending_ranks(np.abs(attribution))]
    difference = ranks[1] - ranks[0]  # positive: more attention than attribution

    def list_words(order: npt.NDArray[np.int64]) -> tuple[Disagreement, ...]:
        return tuple(
            Disagreement(
                text=units.texts[stay[i]],
                position=int(units.first_tokens[stay[i]]),
                attention=float(attention[i]),
                attribution=float(attribution[i]),
                attention_rank=int(ranks[0][i]),
                attribution_rank=int(ranks[1][i]),
            )
            for i in order
        )

    down, up = np.argsort(-difference, kind="stable")[:k], np.argsort(difference, kind="stable")[:k]
    return {
        "high_attention_low_attribution": list_words(down[difference[down] > 0]),
        "low_attention_high_attribution": list_words(up[difference[up] < 0]),
    }


def _dropped_views(scores: Values, is_kept: npt.NDArray[np.bool_]) -> dict[str, Values]:
    """Return the views of scores (..., n) that statistics use, by name; those not named use "ranked"."""
    stay = scores[..., is_kept]
    return {"cosine": stay, "cosine_normalised": stay, "cosine_thresholded": stay, "ranked": np.abs(stay)}


def _zeroed_views(scores: Values, is_kept: npt.NDArray[np.bool_]) -> dict[str, Values]:
    """Return the views as published: zeros are set after mapping onto [0, 1] and rank as numpy's old sort left them."""
    from sightline.metrics.quicksort import quicksort_ranks  # loads numba

    zeroed = np.where(is_kept, minmax_magnitude(scores), 0.0)
    return {
        "cosine": np.where(is_kept, scores, 0.0),
        "cosine_normalised": zeroed,
        "cosine_thresholded": zeroed,
        "ranked": quicksort_ranks(zeroed),
    }


def _statistics(p: float, share: float) -> dict[str, tuple[Callable[..., Values], dict[str, Any]]]:
    """Return every statistic by name: its form for many rows, and its options."""
    return {
        "cosine": (cosine_rows, {}),
        "cosine_normalised": (cosine_rows, {"form": "normalised"}),
        "cosine_thresholded": (cosine_rows, {"form": "thresholded", "quantile": 1.0 - share}),
        "kendall": (kendall_rows, {}),
        "spearman": (spearman_rows, {}),
        "rbo": (rbo_rows, {"p": p}),
        "average_overlap": (average_overlap_rows, {}),
        "jaccard": (jaccard_rows, {"share": share}),
    }


def _note(attention: Values, attribution: Values) -> str:
    if attention.size == 1:
        return "One word only: rank statistics are 0 and overlaps 1 by convention."
    constant = [
        name for name, values in (("attention", attention), ("attribution", attribution)) if is_constant(np.abs(values))
    ]
    if constant:
        return (
            f"All {' and '.join(constant)} scores are equal and rank nothing: by convention rank statistics are 0 and "
            "overlaps follow the order of the words."
        )
    return ""


def _check_same_document(source: AttentionSource, explanation: Explanation) -> None:
    if not np.array_equal(source.encoding.ids, explanation.encoding.ids):
        raise InputError("Attention and explanation are of different documents; trace the document that was explained.")


LAYOUT_STATISTICS = ("cosine_normalised", "kendall", "rbo", "average_overlap", "jaccard")
"""The statistics of the published tables, whose "RBO" with p = 1 is the average overlap."""


@dataclass(frozen=True)
class SimilarityCell:
    """One statistic in one setting, over the documents."""

    layers: str
    scaled: bool
    masked: bool
    statistic: str
    mean: Interval
    """Mean over documents with its interval."""
    std: float
    """Standard deviation over documents (n - 1); NaN for one document."""
    chance: float
    """Mean over documents of the chance level."""
    documents: int
    p: float | None = None
    """Persistence of rank-biased overlap; 1 for the average overlap, None for statistics without one."""


@dataclass(frozen=True)
class SimilarityTable:
    """All settings and statistics."""

    cells: tuple[SimilarityCell, ...]
    method: str
    """The attribution method."""
    notes: tuple[str, ...] = ()
    """Which documents could not be compared in some setting, and why."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per cell: layers, scaled, masked, statistic, p, mean, std, low, high, chance, documents."""
        import pandas as pd

        columns = ("layers", "scaled", "masked", "statistic", "p", "mean", "std", "low", "high", "chance", "documents")
        rows = [
            (
                *(cell.layers, cell.scaled, cell.masked, cell.statistic, cell.p),
                *(cell.mean.mean, cell.std, cell.mean.low, cell.mean.high, cell.chance, cell.documents),
            )
            for cell in self.cells
        ]
        return pd.DataFrame(rows, columns=list(columns)).astype({"p": np.float64})


def summarise_documents(documents: Sequence[Sequence[Similarity]], *, seed: int = 0) -> tuple[SimilarityCell, ...]:
    """Return mean and deviation of every statistic in every setting over documents, in the order of the settings."""
    persistence: dict[str, float] = {"average_overlap": 1.0}
    values: defaultdict[tuple[str, bool, bool, str], list[tuple[float, float]]] = defaultdict(list)
    for settings in documents:
        for similarity in settings:
            persistence |= {"rbo": similarity.options["p"]} if similarity.values else {}
            for name, value in similarity.values.items():
                setting = (similarity.layers, similarity.scaled, similarity.masked, name)
                values[setting].append((value, similarity.chance[name].mean))
    return tuple(
        SimilarityCell(
            *setting,
            mean=bootstrap_interval([value for value, _ in pairs], seed=seed),
            std=float(np.std([value for value, _ in pairs], ddof=1)) if len(pairs) > 1 else float("nan"),
            chance=float(np.mean([chance for _, chance in pairs])),
            documents=len(pairs),
            p=persistence.get(setting[-1]),
        )
        for setting, pairs in values.items()
    )


def similarity_layout(table: SimilarityTable | Sequence[Similarity], masked: bool = False) -> pd.DataFrame:
    """Return the layout of the published tables: one row per setting, one column per statistic, with chance levels.

    The published Table 1 is unmasked, Table 2 masked. Columns: layers, heads ("unscaled", "scaled" by their importance
    over the data set, or "scaled by document"), then each statistic and its chance level; for a data set also the
    standard deviation over documents (std) and the ends of the interval of the mean, low and high.
    """
    import pandas as pd

    rows: dict[tuple[str, str], dict[str, Any]] = {}
    if isinstance(table, SimilarityTable):
        for cell in table.cells:
            if cell.masked == masked and cell.statistic in LAYOUT_STATISTICS:
                row = rows.setdefault((cell.layers, scaling_name(cell.scaled)), {})
                row |= {cell.statistic: cell.mean.mean, f"{cell.statistic}_chance": cell.chance}
                row |= {f"{cell.statistic}_std": cell.std}
                row |= {f"{cell.statistic}_low": cell.mean.low, f"{cell.statistic}_high": cell.mean.high}
    else:
        for similarity in table:
            if similarity.masked == masked and similarity.values:
                row = rows.setdefault((similarity.layers, scaling_name(similarity.scaled, similarity.by_document)), {})
                for name in LAYOUT_STATISTICS:
                    row |= {name: similarity.values[name], f"{name}_chance": similarity.chance[name].mean}
    return pd.DataFrame([{"layers": layers, "heads": heads, **row} for (layers, heads), row in rows.items()])


def scaling_name(scaled: bool, by_document: bool = False) -> str:
    """Return in words how heads are weighted; importance in a document differs from that over a data set."""
    if not scaled:
        return "unscaled"
    return "scaled by document" if by_document else "scaled"
