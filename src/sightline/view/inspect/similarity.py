"""Attention compared with attribution on the page: tables with a chance column, dots, words that disagree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sightline.view import plots
from sightline.view.sections.pages import Picture, Section, Table
from sightline.view.words.takeaways import chosen_heads

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis import Disagreement, Inspection, Similarity, SimilarityTable

HOW_TO_READ = (
    "Each number is shown beside its chance level: the same statistic after the attribution scores were shuffled among "
    "the tokens. A number inside the grey range is no evidence of similarity."
)
_NAMES = {
    "cosine": "cosine",
    "cosine_normalised": "cosine, normalised",
    "cosine_thresholded": "cosine, thresholded",
    "kendall": "Kendall τ-b",
    "spearman": "Spearman",
    "rbo": "RBO",
    "average_overlap": "average overlap",
    "jaccard": "Jaccard, top 5 %",
}
_LISTS = {
    "high_attention_low_attribution": "high attention, low attribution",
    "low_attention_high_attribution": "low attention, high attribution",
}


def comparison_section(inspection: Inspection, name: str) -> Section:
    """Return how attention and the scores of one method agree on the document."""
    settings = inspection.similarity[name]
    notes = dict.fromkeys(similarity.note for similarity in settings if similarity.note)
    parts: list[Picture | Table] = []
    measures = measured_dots(settings)
    if measures:
        parts.append(
            Picture(
                f"{name}-similarity",
                "Similarity and chance levels",
                "Dots are measured; grey bands hold 95 % of the values of shuffled scores.",
                partial(
                    plots.similarity_dots,
                    measures,
                    title=f"Attention against {name}",
                ),
            )
        )
    parts += similarity_tables(settings, name)
    where = chosen_heads(inspection)
    parts += [
        Table(
            f"{name}-{side.replace('_', '-')}",
            f"Words with {_LISTS[side]}, by attention {where}",
            disagreement_frame(words),
            folded=True,
        )
        for side, words in inspection.disagreements[name].items()
        if words
    ]
    return Section(f"similarity-{name}", f"Attention against {name}", (HOW_TO_READ, *notes), tuple(parts))


def similarity_tables(similarity: SimilarityTable | Sequence[Similarity], name: str) -> list[Table]:
    """Return one table over all words, and one without the words that the filter drops."""
    from sightline.analysis import similarity_layout

    tables = []
    for masked, words in ((False, "all words"), (True, "without stop words and punctuation")):
        frame = similarity_layout(similarity, masked=masked)
        if len(frame):
            title = f"Attention against {name}, {words}, with chance levels"
            tables.append(Table(f"{name}-similarity-{'masked' if masked else 'unmasked'}", title, frame, folded=True))
    return tables


def measured_dots(similarity: SimilarityTable | Sequence[Similarity]) -> dict[str, list[plots.Measured]]:
    """Return the panels of the dot plot: statistic -> one dot per setting.

    Of a document there is one value, and a range of chance; over a data set a mean with its interval, and mean chance.
    """
    panels: dict[str, list[plots.Measured]] = {}
    if isinstance(similarity, Sequence):
        for each in similarity:
            name = setting_name(each.layers, each.scaled, each.masked, each.by_document)
            for statistic, value in each.values.items():
                chance = each.chance[statistic]
                dot = plots.Measured(name, value, value, value, chance.mean, chance.low, chance.high)
                panels.setdefault(_NAMES.get(statistic, statistic), []).append(dot)
    else:
        for cell in similarity.cells:
            name = setting_name(cell.layers, cell.scaled, cell.masked)
            mean, chance_level = cell.mean, cell.chance
            dot = plots.Measured(name, mean.mean, mean.low, mean.high, chance_level, chance_level, chance_level)
            panels.setdefault(_NAMES.get(cell.statistic, cell.statistic), []).append(dot)
    return panels


def setting_name(layers: str, scaled: bool, masked: bool, by_document: bool = False) -> str:
    """Return "last layer, scaled, masked"."""
    from sightline.analysis.similarity import scaling_name

    where = {"last": "last layer", "all": "all layers", "lower": "lower half", "upper": "upper half"}.get(
        layers, f"layer {layers}"
    )
    return ", ".join([where, *([scaling_name(scaled, by_document)] if scaled else []), *(["masked"] if masked else [])])


def disagreement_frame(words: Sequence[Disagreement]) -> pd.DataFrame:
    """Return one row per word."""
    import pandas as pd

    columns = ["text", "position", "attention", "attribution", "attention_rank", "attribution_rank"]
    return pd.DataFrame([[getattr(word, name) for name in columns] for word in words], columns=columns)
