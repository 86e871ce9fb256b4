"""Attention against attribution over a data set: means with intervals beside chance, in published layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.analysis.similarity import Similarity
from sightline.metrics.statistics import Interval, bootstrap_interval

if TYPE_CHECKING:
    import pandas as pd

LAYOUT_STATISTICS = ("cosine_normalised", "kendall", "average_overlap", "jaccard")
"""What the published tables show; their "RBO" with p = 1 is the average overlap."""


@dataclass(frozen=True)
class SimilarityCell:
    """One statistic in one setting, over the documents."""

    layers: str
    scaled: bool
    masked: bool
    statistic: str
    mean: Interval
    """Mean over documents with its interval."""
    chance: float
    """Mean over documents of the chance level."""
    documents: int


@dataclass(frozen=True)
class SimilarityTable:
    """All settings and statistics."""

    cells: tuple[SimilarityCell, ...]
    method: str
    """The attribution method."""
    notes: tuple[str, ...] = ()
    """Which documents could not be compared in some setting, and why."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per cell: layers, scaled, masked, statistic, mean, low, high, chance, documents."""
        import pandas as pd

        return pd.DataFrame(
            {
                "layers": [cell.layers for cell in self.cells],
                "scaled": [cell.scaled for cell in self.cells],
                "masked": [cell.masked for cell in self.cells],
                "statistic": [cell.statistic for cell in self.cells],
                "mean": [cell.mean.mean for cell in self.cells],
                "low": [cell.mean.low for cell in self.cells],
                "high": [cell.mean.high for cell in self.cells],
                "chance": [cell.chance for cell in self.cells],
                "documents": [cell.documents for cell in self.cells],
            }
        )


def summarise_documents(documents: Sequence[Sequence[Similarity]], *, seed: int = 0) -> tuple[SimilarityCell, ...]:
    """Return the mean of every statistic in every setting over documents, in the order of the settings."""
    values: defaultdict[tuple[str, bool, bool, str], list[tuple[float, float]]] = defaultdict(list)
    for settings in documents:
        for similarity in settings:
            for name, value in similarity.values.items():
                setting = (similarity.layers, similarity.scaled, similarity.masked, name)
                values[setting].append((value, similarity.chance[name].mean))
    return tuple(
        SimilarityCell(
            *setting,
            mean=bootstrap_interval([value for value, _ in pairs], seed=seed),
            chance=float(np.mean([chance for _, chance in pairs])),
            documents=len(pairs),
        )
        for setting, pairs in values.items()
    )


def similarity_layout(table: SimilarityTable | Sequence[Similarity], masked: bool = False) -> pd.DataFrame:
    """Return the layout of the published tables: one row per setting, one column per statistic, with chance levels.

    The published Table 1 is unmasked, Table 2 masked. Columns: layers, heads ("unscaled", "scaled" by their importance
    over the data set, or "scaled by document"), then each statistic and its chance level; for a data set also the ends
    of the interval, low and high.
    """
    import pandas as pd

    rows: dict[tuple[str, str], dict[str, Any]] = {}
    if isinstance(table, SimilarityTable):
        for cell in table.cells:
            if cell.masked == masked and cell.statistic in LAYOUT_STATISTICS:
                row = rows.setdefault((cell.layers, scaling_name(cell.scaled)), {})
                row |= {cell.statistic: cell.mean.mean, f"{cell.statistic}_chance": cell.chance}
                row |= {f"{cell.statistic}_low": cell.mean.low, f"{cell.statistic}_high": cell.mean.high}
    else:
        for similarity in table:
            if similarity.masked == masked and similarity.values:
                row = rows.setdefault((similarity.layers, scaling_name(similarity.scaled, similarity.by_document)), {})
                for name in LAYOUT_STATISTICS:
                    row |= {name: similarity.values[name], f"{name}_chance": similarity.chance[name].mean}
    return pd.DataFrame([{"layers": layers, "heads": heads, **row} for (layers, heads), row in rows.items()])


def scaling_name(scaled: bool, by_document: bool = False) -> str:
    """Return how heads are weighted, in words; the importance in a document is another one than over a data set."""
    if not scaled:
        return "unscaled"
    return "scaled by document" if by_document else "scaled"
