"""The page of adversarial attention: every document twice, under its own weights and under others.

Both texts of a pair have one colour scale, so that a word with twice the weight has the same colour on either side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sightline.text.units import Units, units_of
from sightline.view import colours
from sightline.view.colours import text_pieces
from sightline.view.sections.pages import ColouredText, Section, Table, Terms, Texts, describe_facts, render_index
from sightline.view.words.phrases import format_range, percent

if TYPE_CHECKING:
    import pandas as pd

    from sightline.lab.adversary import AdversarialResult, AttentionPair, Test

DRAWN = 20
"""Documents drawn per test: the first ones, not the most striking ones."""
NAMED = 3
SMALLEST_NAMED = 0.005

TITLES: dict[Test, str] = {
    "uniform": "The same weight on every word",
    "permuted": "The same weights in random order",
    "frozen": "Weights optimised for each document",
    "retrained": "Weights of a new attention",
    "unfrozen": "Weights of a second model",
}
MEANINGS: dict[Test, str] = {
    "uniform": "Every attended word gets the same weight. If predictions hardly change, the task does not need "
    "attention, and the other tests say nothing about the weights.",
    "permuted": "The weights of the document in random order. Of all orders drawn, the one with the median change of "
    "the prediction is shown.",
    "frozen": "Weights that minimise TVD − λ·JSD, searched for each document alone. Encoder and decoder stay as they "
    "are. No part of the model computes these weights from the text.",
    "retrained": "A new attention was trained on other documents to minimise TVD − λ·JSD. Encoder and decoder stay as "
    "they are.",
    "unfrozen": "A second model was trained on other documents to minimise TVD − λ·JSD. Its representations differ "
    "from the first model's as well, not only its weights.",
}
TERMS = {
    "TVD": "Total variation distance of the two predictions: half the sum of the differences of the class "
    "probabilities. 0 means the same prediction, 1 that the two have no class in common.",
    "JSD": "Jensen-Shannon divergence of the two sets of weights, in nats. 0 means equal weights. It is at most ln 2 = "
    f"{math.log(2):.2f}, which is reached if no word has weight in both.",
    "λ": "How much the distance of the weights counts against a change of the prediction.",
}
CLAIMS = (
    "Each document is drawn twice: with the weights of the model on the left, with other weights on the right. A small "
    "TVD next to a large JSD means that these other weights give the same prediction.",
    "What this shows: the weights of the model are then not the only ones that lead to its prediction, so by "
    "themselves they do not say which words were needed.",
    "What it does not show: that the weights of the model are wrong, or that the model could have used the others. The "
    "representation of a word also holds its context, so weight can often move to a neighbour without changing what "
    "the decoder reads. Compare with uniform and permuted weights, which nobody searched for.",
)


def render_adversary(result: AdversarialResult, *, title: str) -> str:
    """Return the page of a result as one string of HTML, without a script."""
    groups = list(dict.fromkeys((pair.test, pair.strength) for pair in result.pairs))
    table = Table(
        "",
        "All tests",
        result.table(),
        "Means over documents, with 95 % bootstrap intervals. Same class: share of documents whose most probable class "
        "is the same under both weights.",
        shown=_shown_table(result),
    )
    sections = [
        Section("summary", "Summary", CLAIMS, (table, Terms("How to read the numbers", TERMS))),
        *(_section(result, test, strength) for test, strength in groups),
    ]
    return render_index(title, sections, describe_facts(result.provenance), {})


def _shown_table(result: AdversarialResult) -> pd.DataFrame:
    """The table of all tests with numbers as people write them."""
    import pandas as pd

    rows = []
    for row in result.table().to_dict("records"):
        strength = "–" if pd.isna(row["lambda"]) else f"{row['lambda']:g}"
        cells = {"test": row["test"], "λ": strength, "documents": f"{row['documents']:,}"}
        for name in ("jsd", "tvd"):
            ends = format_range(row[f"{name}_low"], row[f"{name}_high"], "{:.3f}".format)
            cells[name.upper()] = f"{row[name]:.3f} ({ends})"
        cells["same class"] = percent(row["same_prediction"])
        if "accuracy" in row:
            cells["accuracy"] = percent(row["accuracy"])
            cells["accuracy with other weights"] = percent(row["other_accuracy"])
        rows.append(cells)
    return pd.DataFrame(rows)


def _section(result: AdversarialResult, test: Test, strength: float | None) -> Section:
    pairs = result.select(test, strength)
    name = TITLES[test] if strength is None else f"{TITLES[test]}, λ = {strength:g}"
    anchor = test if strength is None else f"{test}-{strength:g}".replace(".", "-")
    drawn = pairs[:DRAWN]
    which = f"The first {DRAWN} of {len(pairs):,} documents:" if len(drawn) < len(pairs) else "All documents:"
    return Section(
        anchor,
        name,
        (MEANINGS[test], which),
        tuple(_draw(number, pair, result.classes) for number, pair in enumerate(drawn, start=1)),
    )


def _draw(number: int, pair: AttentionPair, classes: Sequence[str]) -> Texts:
    units = units_of(pair.encoding, "word").drawable(pair.encoding)
    sides = np.stack([units.fold(pair.weights), units.fold(pair.other_weights)])
    levels = colours.levels(sides.ravel()).reshape(sides.shape)
    first, second = (int(values.argmax()) for values in (pair.probabilities, pair.other_probabilities))
    change = "The predicted class is the same" if first == second else "The predicted class changes"
    moved = "TVD below 0.001" if pair.tvd < 0.001 else f"TVD {pair.tvd:.3f}"
    return Texts(
        f"Document {number}",
        f"{change}; {moved}. Distance of the weights: JSD {pair.jsd:.3f} of at most {math.log(2):.3f}.",
        tuple(
            _column(title, pair, units, weights, shades, f"“{classes[label]}”, {percent(float(values[label]))}")
            for title, weights, shades, label, values in (
                ("Weights of the model", sides[0], levels[0], first, pair.probabilities),
                ("Other weights", sides[1], levels[1], second, pair.other_probabilities),
            )
        ),
    )


def _column(
    title: str,
    pair: AttentionPair,
    units: Units,
    weights: NDArray[np.float64],
    levels: NDArray[np.int64],
    prediction: str,
) -> ColouredText:
    """The document under one set of word weights (U,)."""
    segments = tuple(
        tuple(
            (piece, 0, "") if place is None else (piece, int(levels[place]), f"weight {weights[place]:.3f}")
            for piece, place in text_pieces(text, segment, units)
        )
        for segment, text in enumerate(pair.encoding.segment_texts)
    )
    strongest = [place for place in np.argsort(-weights, kind="stable")[:NAMED] if weights[place] >= SMALLEST_NAMED]
    named = ", ".join(f"{units.texts[place]} {weights[place]:.2f}" for place in strongest)
    note = f"Largest weights: {named}." if named else f"No word has a weight of {SMALLEST_NAMED} or more."
    return ColouredText(f"{title}: {prediction}", note, segments)
