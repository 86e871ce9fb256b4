"""The pronoun figure of the attention-flow study: to which noun does the masked pronoun attend?

A masked language model reads "The author talked to Sara about [MASK] book." Which noun the mask attends to, as the
share of the second noun in what both receive from the mask,

    share^l = w^l_second / (w^l_first + w^l_second)       w^l_noun: weight of the mask's row on the tokens of the noun

is compared, in every layer l of each view, with the share of "her" in the probabilities of "his" and "her" there. What
a model attends to explains its choice only if it can choose: on other sentences, "his" or "her" is masked, and the more
probable of the two is compared with the word that was there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sightline.api.model import Model
from sightline.errors import TargetError
from sightline.metrics import tokens_in_characters
from sightline.passes.trace import Trace
from sightline.text import Example
from sightline_studies.accuracy import accuracy_columns, has_learnt
from sightline_studies.base_models import fine_tuned
from sightline_studies.flow_steps import VIEWS
from sightline_studies.generated import pronoun_sentences
from sightline_studies.study import Curve, Curves, Figure, StudyTable
from sightline_studies.verdicts import Accuracy, in_words
from sightline_studies.workbench import Subject, Workbench

PRONOUNS = ("his", "her")
PRONOUN = re.compile(rf"\b({'|'.join(PRONOUNS)})\b", re.IGNORECASE)
NOT_OWNED = (
    r"(?:a|an|the|all|not|so|then|back|away|together|and|or|but|because|if|as|while|when|where|who|which|that|what|how|"
    r"about|after|around|at|before|by|down|for|from|in|into|near|of|off|on|onto|out|outside|over|through|to|up|with|"
    r"is|was|are|has|will|he|she|it|they|you)\b"
)
POSSESSIVE = re.compile(rf"{PRONOUN.pattern} (?!{NOT_OWNED})[a-z]", re.IGNORECASE)
"""A pronoun before a word that can belong to somebody: "her book", and not "saw her in" or "saw her." """
MOST_WORDS = 25
"""Words of a sentence; longer ones are left out."""
MOST_ROWS = 100_000
"""Rows that are searched for pronouns."""


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


def pronoun_probabilities(trace: Trace) -> list[float] | None:
    """Return the probabilities of "his" and "her" at the mask; None if one is missing from the vocabulary."""
    try:
        return [trace.with_target(word, "probability").value for word in PRONOUNS]
    except TargetError:
        return None


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
    probabilities = pronoun_probabilities(trace)
    if probabilities is None:
        return None
    explained = model.explain(trace, methods=list(VIEWS.values()))
    entry: dict[str, Any] = {"her": probabilities[1] / sum(probabilities)}
    for view, name in VIEWS.items():
        layers = explained[name].layers
        assert layers is not None
        first, second = (np.asarray(layers)[:, place].sum(axis=1) for place in nouns)
        entry[view] = (second / (first + second)).tolist()
    return entry


def masked_model(bench: Workbench) -> tuple[Subject, list[Example]] | None:
    """Return the masked language model that was given, or one trained from the base, and sentences to test it on.

    The sentences are those of the data "pronouns" or else "snli" in which one "his" or "her" stands before the word
    that it belongs to; without these data, they are generated, and there is nothing to train on.
    """
    given = bench.given_model("mlm")
    source = next((name for name in ("pronouns", "snli") if name in bench.sources.paths), None)
    trained = given is None and source is not None
    data = bench.read(source or "pronouns", pronoun_sentences, documents=MOST_ROWS, training=MOST_ROWS * trained)
    train, test = (pronoun_rows(rows) for rows in (data.train, data.test))
    subject = given or (
        fine_tuned(bench, "pronouns", train[: bench.number("training")], "masked_lm") if train else None
    )
    return None if subject is None else (subject, test[: bench.number("tested")])


def pronoun_rows(rows: Sequence[Example]) -> list[Example]:
    """Return the texts and second texts that are a short sentence with one possessive "his" or "her"."""
    texts = dict.fromkeys(text.strip() for row in rows for text in (str(row.text), row.pair or ""))
    chosen = [text for text in texts if len(text.split()) <= MOST_WORDS and len(POSSESSIVE.findall(text)) == 1]
    return [Example(text, id=str(number)) for number, text in enumerate(chosen) if len(PRONOUN.findall(text)) == 1]


def measure_choices(bench: Workbench, subject: Subject, examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Return the more probable pronoun and the true one, of sentences that each have exactly one (`pronoun_rows`)."""

    def choose(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        model = subject.model
        for example in part:
            (word,) = PRONOUN.findall(str(example.text))
            text = PRONOUN.sub(lambda _: model.tokenizer.mask_token, str(example.text))
            probabilities = pronoun_probabilities(model.trace(model.encode(text, truncate=True)))
            chosen = None if probabilities is None else PRONOUNS[int(np.argmax(probabilities))]
            yield {"predicted": chosen, "label": word.lower()}

    identity = {"model": subject.identity, "pronouns": PRONOUNS}
    return bench.measure_documents("pronoun-choice", identity, examples, choose, at_once=50)


def choice_table(subject: Subject, entries: Sequence[Mapping[str, Any]], seed: int) -> StudyTable:
    """Return how often the masked pronoun is predicted."""
    import pandas as pd

    return StudyTable(
        "pronouns",
        "How often the masked model chooses between “his” and “her” correctly",
        pd.DataFrame([{"model": subject.name, **accuracy_columns(entries)}]),
        "The pronoun of a sentence is masked, and the more probable of the two is compared with it. largest class: "
        "accuracy of always naming the more frequent one. learnt: whether the interval of the accuracy is above that.",
        appendix=True,
    )


def describe_choice(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return what a figure says about the model that it shows."""
    if not entries:
        return ""
    accuracy = Accuracy.of(entries)
    text = (
        f" On other sentences, the accuracy of the model's choice between the two is {in_words(accuracy.measured)}; "
        f"always naming the more frequent one gives {accuracy.majority:.2f}."
    )
    if has_learnt(entries):
        return text
    return text + " It has not learnt the choice, so that its attention cannot explain it."


def draw_pronouns(bench: Workbench, subject: Subject, choices: Sequence[Mapping[str, Any]] = ()) -> list[Figure]:
    """Return one figure per sentence that the model can read; choices: as in `measure_choices`, for the caption."""
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
                Curves([str(layer) for layer in range(depth)], curves, "layer", f"share of “{sentence.second}”"),
                f"Share of “{sentence.second}” in the weight that “{sentence.first}” and “{sentence.second}” receive "
                "from the mask. Dashed: share of “her” in the probabilities of “his” and “her”."
                + describe_choice(choices),
            )
        )
    return figures
