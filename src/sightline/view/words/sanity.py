"""The sanity tests in sentences: does a method depend on what the model has learnt, and does it find planted words?"""

from __future__ import annotations

from functools import partial

from sightline.evaluation.planted import HELD_OUT, PlantedResult
from sightline.evaluation.sanity import SanityResult
from sightline.view.words.numbers import format_number, format_range
from sightline.view.words.sentences import percent


def sanity_sentences(result: SanityResult) -> list[str]:
    """Return for each method whether its explanations depend on what the model has learnt."""
    last = result.summary().set_index(["method", "stage"])
    what = "every weight is random" if result.test.startswith("weight") else "the labels were learnt in random order"
    sentences = []
    for method, verdict in result.verdicts().items():
        row = last.loc[(method, result.stages[-1])]
        write = partial(format_number, form=".2f")
        interval = format_range(row["low"], row["high"], write, named=True)
        chance = format_range(row["chance_low"], row["chance_high"], write)
        figures = f"similarity {write(row['similarity'])}, {interval}, by chance {chance}"
        sentences.append(
            {
                "unknown": f"{method}: no document could be compared.",
                "unchanged": f"{method} does not change when {what} ({figures}): it does not show what the model has "
                "learnt, and cannot explain its decisions.",
                "partly": f"{method} keeps part of its ranking when {what} ({figures}): that part comes from the text "
                "or the architecture, not from training.",
                "changed": f"{method} changes as it should when {what} ({figures}).",
                "not shown": f"{method} is not shown to change when {what} ({figures}): test more or longer documents.",
            }[verdict]
        )
    return sentences


def planted_sentences(result: PlantedResult) -> list[str]:
    """Return how well the model knows the task, then what each method finds, best first."""
    planted = result.planted
    learnt = "has learnt" if planted.learnt else "has NOT learnt"
    sentences = [
        f"The model {learnt} the task: {percent(planted.accuracy)} right on {HELD_OUT} new documents, where the best "
        f"possible answers are {percent(planted.attainable)} right. Removing the planted words changes the prediction "
        f"for {percent(planted.decisive)} of {len(planted.documents)} documents."
    ]
    if not planted.learnt:
        sentences.append("So the planted words are no known truth here: train for more steps before reading on.")
    for row in result.summary().sort_values("precision", ascending=False, kind="stable").itertuples():
        verdict = "" if row.precision >= 0.5 else ": it misses most of them, but finds more than chance would"
        verdict = verdict if row.better_than_chance else ": no better than chance"
        sentences.append(
            f"{row.method} ranks {percent(row.precision)} of the planted words first "
            f"({format_range(row.low, row.high, percent, named=True)}, chance {percent(row.chance)}){verdict}."
        )
    return sentences
