"""Attention against attribution on the page: tables with a chance column, dots, words that disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sightline.view import plots
from sightline.view.inspect.parts import Picture, Section, Table

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis import Disagreement, Similarity, SimilarityTable
    from sightline.view.inspect.numbers import Inspection

HOW_TO_READ = (
    "Each number stands beside what chance gives: the same statistic after the attribution scores were shuffled among "
    "the tokens. A number inside the grey range says nothing."
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


def comparison_section(found: Inspection, name: str) -> Section:
    """How attention and one method's scores agree on the document."""
    settings = found.similarity[name]
    notes = dict.fromkeys(one.note for one in settings if one.note)
    parts: list[Picture | Table] = []
    measures = measured(settings)
    if measures:
        parts.append(
            Picture(
                f"{name}-similarity",
                "Similarity beside chance",
                "Dots are measured, grey bands hold 95 % of what shuffled scores give.",
                partial(
                    plots.similarity_dots,
                    measures,
                    title=f"Attention against {name}",
                ),
            )
        )
    parts += similarity_tables(settings, name)
    lists = found.disagreements[name]
    filtered = found.settings.filter is not None
    count = max((one.units for one in settings if one.masked == filtered), default=0)
    if any(lists.values()):
        parts.append(
            Picture(
                f"{name}-disagreements",
                "Words on which the two disagree",
                "Each word with the share of all words that it outranks by attention and by attribution.",
                partial(
                    plots.rank_gaps,
                    {_LISTS[side]: gaps(words, count) for side, words in lists.items()},
                    title=f"Where attention and {name} disagree",
                ),
            )
        )
        parts += [
            Table(f"{name}-{side.replace('_', '-')}", _LISTS[side].capitalize(), disagreement_frame(words))
            for side, words in lists.items()
        ]
    return Section(f"similarity-{name}", f"Attention against {name}", (HOW_TO_READ, *notes), tuple(parts))


def similarity_tables(found: SimilarityTable | Sequence[Similarity], name: str) -> list[Table]:
    """Return a table of all words, and one without the words that the filter drops."""
    from sightline.analysis import similarity_layout

    tables = []
    for masked, words in ((False, "all words"), (True, "without stop words and punctuation")):
        frame = similarity_layout(found, masked=masked)
        if len(frame):
            title = f"Attention against {name}, {words}, beside chance"
            tables.append(Table(f"{name}-similarity-{'masked' if masked else 'unmasked'}", title, frame))
    return tables


def measured(settings: Sequence[Similarity]) -> dict[str, list[plots.Measured]]:
    """Return the panels of the dot plot: statistic -> one dot a setting."""
    panels: dict[str, list[plots.Measured]] = {}
    for one in settings:
        for statistic, value in one.values.items():
            chance = one.chance[statistic]
            dot = plots.Measured(
                setting_name(one.layers, one.scaled, one.masked),
                value,
                value,
                value,
                chance.mean,
                chance.low,
                chance.high,
            )
            panels.setdefault(_NAMES.get(statistic, statistic), []).append(dot)
    return panels


def setting_name(layers: str, scaled: bool, masked: bool) -> str:
    """Return "last layer, scaled, masked"."""
    where = {"last": "last layer", "all": "all layers", "lower": "lower half", "upper": "upper half"}.get(
        layers, f"layer {layers}"
    )
    return ", ".join([where, *(["scaled"] if scaled else []), *(["masked"] if masked else [])])


def statistic_name(statistic: str) -> str:
    """Return what figures call a statistic."""
    return _NAMES.get(statistic, statistic)


def gaps(words: Sequence[Disagreement], count: int) -> list[plots.Gap]:
    """Return the words with their ranks as shares of the words that they outrank; rank 1 of many is nearly 1.

    A word that is listed several times is shown with its position.
    """
    times = Counter(word.text for word in words)
    return [
        plots.Gap(
            word.text if times[word.text] == 1 else f"{word.text} @{word.position:,}",
            1.0 - word.attention_rank / max(count, word.attention_rank),
            1.0 - word.attribution_rank / max(count, word.attribution_rank),
        )
        for word in words
    ]


def disagreement_frame(words: Sequence[Disagreement]) -> pd.DataFrame:
    """Return one row a word."""
    import pandas as pd

    columns = ["text", "position", "attention", "attribution", "attention_rank", "attribution_rank"]
    return pd.DataFrame([[getattr(word, name) for name in columns] for word in words], columns=columns)
