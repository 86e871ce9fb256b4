"""Generated data for studies without files: every label follows from a rule that is known.

- `planted_sentences`: the task of `evaluation.planted`, whose deciding words are marked as the answer.
- `agreement_prefixes`: the words before a verb ("the keys to the cabinet"); the label is the number of the first noun,
  whatever nouns come after it.
- `pronoun_sentences`: "The old king sold his house."; the noun decides between "his" and "her".
- `rule_documents`: long documents that hold a word of one list, or none (`rule_model`).
"""

from __future__ import annotations

import numpy as np

from sightline.evaluation.planted import PlantedTask
from sightline.text import Example
from sightline_studies.rule_model import rule_document

SINGULAR = ("key", "author", "cabinet", "letter", "garden", "teacher", "river", "machine", "student", "house")
PLURAL = tuple(f"{noun}s" for noun in SINGULAR)
ADJECTIVES = ("old", "small", "red", "quiet", "heavy", "new")
PREPOSITIONS = ("to", "near", "behind", "beside", "above")
GENDERED = {
    "his": ("man", "boy", "father", "king", "brother", "son", "husband", "uncle"),
    "her": ("woman", "girl", "mother", "queen", "sister", "daughter", "wife", "aunt"),
}
PRONOUN_FRAMES = (
    "The {} lost {} key.",
    "The {} is reading {} book.",
    "The old {} sold {} house.",
    "The {} talked about {} work.",
    "The {} is holding a picture of {} dog.",
)
ADVERBS = ("today", "often", "here", "there", "now")


def planted_sentences(count: int, seed: int = 0) -> list[Example]:
    """Return sentences of 12 to 24 words in three classes; `answer` marks the planted words."""
    documents = PlantedTask().documents(count, np.random.default_rng(seed))
    rows = []
    for number, document in enumerate(documents):
        words = document.text.split(" ")
        starts = np.concatenate([[0], np.cumsum([len(word) + 1 for word in words])])
        spans = tuple((int(starts[place]), int(starts[place]) + len(words[place])) for place in document.planted)
        rows.append(Example(document.text, label=document.label, answer=spans or None, id=str(number)))
    return rows


def agreement_prefixes(count: int, seed: int = 0) -> list[Example]:
    """Return prefixes with 0 to 2 attractors: the label is 1 if the first noun is plural, else 0."""
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        plural = int(generator.integers(2))
        words = _noun_phrase(plural, generator)
        for _ in range(int(generator.integers(3))):
            words += [_pick(PREPOSITIONS, generator), *_noun_phrase(int(generator.integers(2)), generator)]
        if generator.integers(2):
            words.append(_pick(ADVERBS, generator))
        rows.append(Example(" ".join(words), label=plural, id=str(number)))
    return rows


def pronoun_sentences() -> list[Example]:
    """Return every sentence of a frame and a noun, with the pronoun that fits the noun, in a fixed order."""
    texts = [
        frame.format(noun, pronoun) for frame in PRONOUN_FRAMES for pronoun, nouns in GENDERED.items() for noun in nouns
    ]
    return [Example(text, id=str(number)) for number, text in enumerate(texts)]


def rule_documents(count: int, words: int, seed: int = 0) -> list[Example]:
    """Return documents of so many words, half of them with one or two words of the list that makes them "yes"."""
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        document = rule_document("any", words, generator, first=(number % 2) * (1 + number % 4 // 2), distractors=2)
        rows.append(Example(document.text, label=document.label, id=str(number)))
    return rows


def _noun_phrase(plural: int, generator: np.random.Generator) -> list[str]:
    noun = _pick(PLURAL if plural else SINGULAR, generator)
    adjectives = [_pick(ADJECTIVES, generator)] if generator.integers(2) else []
    return ["the", *adjectives, noun]


def _pick(words: tuple[str, ...], generator: np.random.Generator) -> str:
    return words[int(generator.integers(len(words)))]
