"""The pronoun figure of the attention-flow study: to which noun does the masked pronoun attend?

A masked language model reads "The author talked to Sara about [MASK] book." Which noun the mask attends to, as the
share of the second noun in what both receive from the mask,

    share^l = w^l_second / (w^l_first + w^l_second)       w^l_noun: weight of the mask's row on the tokens of the noun

is compared, in every layer l of each view, with the share of "her" in the probabilities of "his" and "her" there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sightline.errors import TargetError
from sightline.metrics import tokens_in_characters
from sightline.model import Model
from sightline.studies.flow_steps import VIEWS
from sightline.studies.study import Curve, Curves, Figure
from sightline.studies.workbench import Subject, Workbench

PRONOUNS = ("his", "her")


class PronounSentence(NamedTuple):
    """A sentence with a gap for a pronoun, and the two nouns that it may refer to."""

    text: str
    first: str
    second: str


SENTENCES = (
    PronounSentence("The author talked to Sara about {} book.", "author", "Sara"),
    PronounSentence("Mary convinced John of {} love.", "John", "Mary"),
)
"""The sentences of the paper; the second noun is the one that "her" fits."""


def measure_pronouns(model: Model, sentence: PronounSentence) -> dict[str, Any] | None:
    """Return shares by view and layer and the share of "her"; None if a word is missing from the vocabulary."""
    text = sentence.text.format(model.tokenizer.mask_token)
    encoding = model.encode(text)
    nouns = []
    for noun in (sentence.first, sentence.second):
        start = text.index(noun)
        nouns.append(tokens_in_characters(encoding.offsets, [(start, start + len(noun))]))
    if not all(place.any() for place in nouns):
        return None
    trace = model.trace(encoding)
    try:
        probabilities = [trace.with_target(word, "probability").value for word in PRONOUNS]
    except TargetError:
        return None
    explained = model.explain(trace, methods=list(VIEWS.values()))
    entry: dict[str, Any] = {"her": probabilities[1] / sum(probabilities)}
    for view, name in VIEWS.items():
        layers = explained[name].layers
        assert layers is not None
        first, second = (np.asarray(layers)[:, place].sum(axis=1) for place in nouns)
        entry[view] = (second / (first + second)).tolist()
    return entry


def draw_pronouns(bench: Workbench, subject: Subject) -> list[Figure]:
    """Return one figure per sentence that the model can read."""
    figures = []
    for number, sentence in enumerate(SENTENCES, start=1):
        identity = {"model": subject.identity, "sentence": list(sentence), "pronouns": PRONOUNS}

        def measure(sentence: PronounSentence = sentence) -> dict[str, Any] | None:
            return measure_pronouns(subject.model, sentence)

        entry = bench.step(f"pronoun-{number}", identity, measure)
        if entry is None:
            continue
        depth = len(entry["raw"])
        curves = [Curve(view, entry[view]) for view in VIEWS]
        curves.append(Curve("probability of “her”", [entry["her"]] * depth, dashed=True))
        figures.append(
            Figure(
                f"pronoun_{number}",
                f"Whom does the masked pronoun attend to: “{sentence.text.format('___')}”",
                Curves([str(layer + 1) for layer in range(depth)], curves, "layer", f"share of “{sentence.second}”"),
                f"Share of “{sentence.second}” in the weight that “{sentence.first}” and “{sentence.second}” receive "
                "from the mask. Dashed: share of “her” in the probabilities of “his” and “her”.",
            )
        )
    return figures
