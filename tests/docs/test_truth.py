"""The tool that tries what summaries say: true clauses pass, and each kind of false clause is found."""

from __future__ import annotations

import math

import pytest

from tools.truth import agrees, try_summary, without

TEXT = "a good and funny film but long and dull in parts"
WORTH = {"good": 2.0, "funny": 1.5, "dull": -1.0, "long": -0.5}
SPANS = {word: (TEXT.index(word), TEXT.index(word) + len(word)) for word in dict.fromkeys(TEXT.split())}


class Additive:
    """A model whose log-odds are the sum of what its words are worth."""

    def probabilities(self, text):
        share = 1 / (1 + math.exp(-sum(WORTH.get(word, 0.0) for word in text.split())))
        return {"positive": share, "negative": 1 - share}


def clauses(summary, tested=("good", "funny"), opponent="dull"):
    words = [SPANS[word] for word in TEXT.split()]
    chosen = [SPANS[word] for word in tested]
    return {
        clause.name: clause.is_true
        for clause in try_summary(summary, TEXT, words, chosen, opponent and SPANS[opponent], Additive())
    }


TRUE = (
    "The model says “positive” (88 %), because of “good” and “funny”; “dull” speaks more strongly against it. Without "
    "these 2 words, 18 % of the text, it would say “negative” (82 %); 2 random words never did (0 of 14)."
)
LOWER = (
    "The model says “positive” (88 %), because of “good”. Without this word, the probability would be 50.0 %; random "
    "words never lowered it as much (0 of 14), and an empty text gets the same answer."
)


def test_a_true_summary_is_true_in_every_clause():
    found = clauses(TRUE)
    assert set(found) == {
        *("label", "probability", "named words", "opposing word"),
        *("changed label", "its probability", "random words"),
    }
    assert all(found.values())
    assert clauses(LOWER, ["good"])["lower probability"]


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("says “positive”", "says “negative”", "label"),
        ("(88 %)", "(89 %)", "probability"),
        ("“funny”;", "“film”;", "named words"),
        ("“negative” (82", "“positive” (82", "changed label"),
        ("(82 %)", "(81 %)", "its probability"),
    ],
)
def test_a_false_clause_is_found(old, new, name):
    found = clauses(TRUE.replace(old, new))
    assert [clause for clause, is_true in found.items() if not is_true] == [name]


def test_words_that_do_not_do_what_is_said_are_found():
    assert not clauses(TRUE, opponent="good")["opposing word"]
    assert not clauses(TRUE, ["a", "and"])["changed label"]
    assert not clauses(TRUE, ["a", "and"])["named words"]
    assert not clauses(LOWER, ["film"])["lower probability"]
    assert not clauses(LOWER, ["film"])["random words"]


def test_printed_percentages_are_compared_to_their_last_digit():
    assert agrees("97 %", 0.9749)
    assert not agrees("97 %", 0.9761)
    assert agrees("9.5 %", 0.095)
    assert not agrees("9.5 %", 0.0968)
    assert agrees("> 99.9 %", 0.9999)
    assert agrees("< 0.1 %", 0.0002)
    assert without(TEXT, [SPANS["good"], SPANS["a"]]) == "  and funny film but long and dull in parts"
