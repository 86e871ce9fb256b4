"""Attention against attribution over a data set: means with bootstrap intervals beside chance, in published layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sightline.analysis.filters import TokenFilter
from sightline.analysis.received import LayerName
from sightline.analysis.similarity import Similarity, document_similarity
from sightline.analysis.source import Progress, tracked
from sightline.errors import InputError
from sightline.metrics.agreement import MaskMode
from sightline.metrics.chance import Interval, bootstrap_interval
from sightline.text import as_examples
from sightline.text.units import Level

if TYPE_CHECKING:
    import pandas as pd

    from sightline.model import Model

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
    """Mean over documents with its bootstrap interval."""
    chance: float
    """Mean over documents of the chance level."""
    documents: int


@dataclass(frozen=True)
class SimilarityTable:
    """All settings and statistics."""

    cells: tuple[SimilarityCell, ...]
    method: str
    """What the attribution was made by."""
    notes: tuple[str, ...] = ()
    """Documents that were left out, and why."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row a cell: layers, scaled, masked, statistic, mean, low, high, chance, documents."""
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


def dataset_similarity(
    model: Model,
    dataset: Iterable[Any],
    *,
    method: str = "integrated_gradients",
    options: dict[str, Any] | None = None,
    layers: Sequence[LayerName | int] = ("last", "all"),
    head_weights: npt.ArrayLike | None = None,
    filter: TokenFilter | None = None,
    level: Level = "word",
    mask_mode: MaskMode = "drop",
    p: float = 0.9,
    share: float = 0.05,
    permutations: int = 50,
    seed: int = 0,
    progress: Progress | None = None,
) -> SimilarityTable:
    """Compare attention and attribution in every document of a data set (what `as_examples` takes).

    options: of the method. Documents that cannot be read (an empty text) or of which nothing is left after the filter
    are left out, and the table's notes say which. Cost: the method and one forward a document.
    """
    per_document: list[tuple[Similarity, ...]] = []
    notes = []
    for example in tracked(as_examples(dataset), "similarity", progress):
        try:
            encoding = model.encode(example.text, example.pair) if isinstance(example.text, str) else example.text
        except InputError as error:
            notes.append(f"Document {example.id} was left out: {error}")
            continue
        explanation = model.explain(encoding, method=method, **(options or {}))
        found = document_similarity(
            model.trace(encoding),
            explanation,
            layers=layers,
            head_weights=head_weights,
            filter=filter,
            level=level,
            mask_mode=mask_mode,
            p=p,
            share=share,
            permutations=permutations,
            seed=seed,
        )
        notes += [f"Document {example.id}: {note}" for note in dict.fromkeys(one.note for one in found if one.note)]
        per_document.append(found)
    cells = summarised(per_document, seed=seed)
    if not cells:
        raise InputError("No document of the data set can be compared. " + " ".join(notes))
    return SimilarityTable(cells, method, tuple(notes))


def summarised(documents: Sequence[Sequence[Similarity]], *, seed: int = 0) -> tuple[SimilarityCell, ...]:
    """Return the mean of every statistic in every setting over documents, in the order of the settings."""
    values: defaultdict[tuple[str, bool, bool, str], list[tuple[float, float]]] = defaultdict(list)
    for found in documents:
        for one in found:
            for name, value in one.values.items():
                values[one.layers, one.scaled, one.masked, name].append((value, one.chance[name].mean))
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
    """Return the layout of the published tables: a row a setting of attention, a column a statistic, beside chance.

    The published Table 1 is unmasked, Table 2 masked. Columns: layers, heads ("scaled" by importance or not), then
    each statistic and its chance level; of a data set also low and high of the interval.
    """
    import pandas as pd

    rows: dict[tuple[str, bool], dict[str, Any]] = {}
    if isinstance(table, SimilarityTable):
        for cell in table.cells:
            if cell.masked == masked and cell.statistic in LAYOUT_STATISTICS:
                row = rows.setdefault((cell.layers, cell.scaled), {})
                row |= {cell.statistic: cell.mean.mean, f"{cell.statistic}_chance": cell.chance}
                row |= {f"{cell.statistic}_low": cell.mean.low, f"{cell.statistic}_high": cell.mean.high}
    else:
        for one in table:
            if one.masked == masked and one.values:
                row = rows.setdefault((one.layers, one.scaled), {})
                for name in LAYOUT_STATISTICS:
                    row |= {name: one.values[name], f"{name}_chance": one.chance[name].mean}
    return pd.DataFrame(
        [
            {"layers": layers, "heads": "scaled" if scaled else "unscaled", **row}
            for (layers, scaled), row in rows.items()
        ]
    )
