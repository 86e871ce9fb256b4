"""What a reader is told about a check: the headline and the verdict, every sentence of which is in one snapshot.

To change a sentence, change its source and run `SIGHTLINE_WRITE_SNAPSHOTS=1 pytest tests/view/test_verdict.py`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sightline.models.target import Prediction, Target
from sightline.results.check import Artefact, Exchange, Reading
from sightline.results.explanation import fingerprint_scores
from sightline.view.page.notebook import render_fragment
from sightline.view.words.headline import LONGEST, headline
from sightline.view.words.phrases import list_parts
from sightline.view.words.verdict import MARKS, describe_verdict
from tests.sample_explanations import check_of, encoding, explanation, smallest_set_of, words_of
from tests.sample_pages import build

SNAPSHOT = Path(__file__).parent / "verdict_sentences.txt"
TEXT = "A dazzling, funny film that thrives on cheerful terrific jokes, but bores. It is long, frivolous, and old"
SCORES = {"dazzling": 5, "thrives": 4, "terrific": 3, "cheerful": 2, "funny": 1.5, "jokes": 1, "frivolous": -9}
OTHER = Reading(-0.7, "AI", 0.66, 0.34)
SAME = Reading(4.1, "PL", 0.98, 0.98)


def sample(**facts):
    encoded = encoding(TEXT)
    scores = np.zeros(len(encoded))
    places = {word.text: number for number, word in enumerate(encoded.words)}
    for text, score in SCORES.items():
        scores[encoded.word_ids == places[text]] = score / (encoded.word_ids == places[text]).sum()
    return explanation(encoded, scores, **facts)


def value_of(number):
    return Prediction(0, "score", 1.0, ("score",), np.array([number]), np.array([1.0]))


def cases():
    """Every kind of check that makes a sentence of its own."""
    plain = sample()
    words = [place for place, word in enumerate(plain.words()) if word.text in SCORES and word.score > 0]
    reach = {"searched": 4}
    flips = {"smallest_set": smallest_set_of(plain, *words[:3]), "without_tested": OTHER, **reach}
    shaky = {"smallest_set": smallest_set_of(plain, words[0], random_changed=2, random_sets=9, bound=0.55)}
    single = {"smallest_set": None, "empty": None}
    both = Target(1, "PL", 0, "AI")
    mean = Reading(1.1, "", 1.0, 1.0)

    def checked(exp, *places, **facts):
        return replace(exp, check=check_of(exp, *places, **facts))

    yield "not checked", plain
    yield "not checked, no sign", sample(signed=False)
    yield "not checked, another class", sample(target=Target(0, "AI"))
    yield "not checked, nothing positive", replace(plain, scores=-np.abs(plain.scores), method="attcat")
    yield "could not be checked", sample(checks={"not_comparable": "The document has fewer than two words to compare."})
    yield "holds, changes the label", checked(plain, *words[:3], **flips)
    yield (
        "holds, many words",
        checked(plain, *words, smallest_set=smallest_set_of(plain, *words), without_tested=OTHER, **reach),
    )
    yield (
        "holds, one word",
        checked(
            plain,
            words[0],
            smallest_set=smallest_set_of(plain, words[0], random_words=1),
            without_tested=OTHER,
            **reach,
        ),
    )
    yield (
        "holds, random words do it, too",
        checked(plain, words[0], **{**flips, **shaky, "smallest_set": shaky["smallest_set"]}),
    )
    yield (
        "holds, no control",
        checked(
            plain,
            words[0],
            smallest_set=smallest_set_of(plain, words[0], random_sets=0, bound=1.0),
            without_tested=OTHER,
        ),
    )
    yield "holds, label stays", checked(plain, *words[:3], **reach)
    yield "holds, label stays for an empty text", checked(plain, *words[:3], **reach, empty=SAME)
    yield "holds, an opponent", checked(plain, *words[:3], opposing=words_of(plain, -4)[0], **flips)
    yield (
        "holds, several counts",
        checked(
            plain,
            *words[:2],
            counts=(1, 2, 3),
            without=(SAME, SAME, OTHER),
            random=((2.1, 2.0, 1.9),) * 14,
            p_value=0.025,
        ),
    )
    yield "holds, spread", checked(plain, **reach)
    yield "holds, limit reached", checked(plain, limit_reached=True)
    yield "holds, spread, another class", checked(sample(target=Target(0, "AI")), **reach)
    yield "holds, other words than the smallest set", checked(plain, *words[:2], **{**flips, **shaky})
    artefacts = tuple(Artefact(word.tokens, "position", 1.0, 0.0) for word in words_of(plain, *words[1:3]))
    exchanged = replace(plain, exchange=Exchange(3, 1, artefacts, fingerprint_scores(plain.scores)))
    yield "holds, artefacts", checked(exchanged, *words[:3], **flips, named=words_of(plain, words[0]))
    yield "holds, only artefacts", checked(plain, *words[:3], **flips, named=())
    yield "holds, long text", checked(plain, *words[:3], words=140, random_sets=14, **reach)
    yield (
        "not shown, stopped",
        checked(plain, matters="not_shown", words=140, random=((2.1,), (0.2,)), random_sets=14, p_value=0.5, **reach),
    )
    yield "not shown, by a little", checked(plain, matters="not_shown", p_value=0.06, **reach)
    yield (
        "not shown, too few words",
        checked(
            plain, matters="not_shown", counts=(1, 2), without=(SAME, OTHER), random=((2.1, 2.0),) * 5, random_sets=5
        ),
    )
    yield "not shown, limit reached", checked(plain, matters="not_shown", limit_reached=True, p_value=1.0, **reach)
    yield "not shown, nothing to compare", checked(plain, matters="not_shown", random=(), random_sets=0, p_value=1.0)
    yield "not shown, changes the label", checked(plain, *words[:3], matters="not_shown", p_value=0.06, **flips)
    yield (
        "not shown, random words change it",
        checked(plain, matters="not_shown", random=((2.1,), (0.2,)), **shaky, **reach),
    )
    yield (
        "not shown, nothing decides",
        checked(plain, matters="not_shown", random=((2.1,), (0.2,)), empty=SAME, searched=1),
    )
    yield "the other way", checked(plain, matters="opposite", without=(SAME,))
    yield "too small", checked(plain, matters="too_small", without=(Reading(2.195, "PL", 0.9, 0.9),))
    yield "another class", checked(sample(target=Target(0, "AI")), *words[:3])
    yield "a contrast", checked(sample(target=both), *words[:3])
    yield (
        "a value",
        checked(sample(prediction=value_of(2.2), target=Target(0, "score")), *words[:3], without_tested=mean, **single),
    )
    yield (
        "a value, threshold",
        checked(
            sample(prediction=value_of(2.2), target=Target(0, "score")),
            *words[:3],
            smallest_set=smallest_set_of(plain, *words[:3], label="below 2", probability=1.0),
            without_tested=mean,
            empty=Reading(0.1, "below 2", 1.0, 1.0),
        ),
    )
    several = Prediction(1, "PL", 0.9, ("AI", "PL"), np.array([2.0, 2.2]), np.array([0.88, 0.9]))
    denied = smallest_set_of(plain, *words[:3], label="not PL")
    yield "one of several labels", checked(sample(prediction=several), *words[:3], **flips | {"smallest_set": denied})
    yield (
        "not shown, one other set",
        checked(plain, matters="not_shown", words=4, random=((2.1,),), random_sets=1, p_value=0.5),
    )
    yield "random weights", checked(sample(checks={"untrained": True}), *words[:3], **flips)
    yield "special tokens dominate", checked(sample(checks={"special_share": 0.7}), *words[:3], **flips)
    yield "special tokens", checked(sample(checks={"special_share": 0.2}), *words[:3], **flips)


CASES = dict(cases())


def told(exp):
    text = describe_verdict(exp)
    lines = [f"  {headline(exp)}", f"  [{' '.join(MARKS[text.level])}] {text.meaning}".rstrip()]
    lines += [f"    {sentence}" for sentence in text.sentences]
    return "\n".join([*lines, *([f"    ! {text.warning}"] if text.warning else [])])


def test_the_words_a_summary_lists_add_up_to_their_number():
    encoded = encoding("Boring film, boring jokes, dull boring plot")
    words = explanation(encoded, np.linspace(1.0, 2.0, len(encoded))).words()
    content = [word for word in words if word.text.isalpha()]
    listed = "".join(part.text for part in list_parts(explanation(encoded, np.ones(len(encoded))), content, 2))
    assert listed.startswith("“Boring” (×3), “")
    assert listed.endswith(f"{len(content) - 4} more words")


def test_every_sentence_of_a_verdict_is_as_it_was_read_aloud():
    written = "\n\n".join(f"{name}\n{told(exp)}" for name, exp in CASES.items()) + "\n"
    if os.environ.get("SIGHTLINE_WRITE_SNAPSHOTS"):
        SNAPSHOT.write_text(written, encoding="utf-8")
    assert written == SNAPSHOT.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_a_headline_is_short_and_names_only_tested_words(name):
    exp = CASES[name]
    said = headline(exp)
    assert len(said.split()) <= LONGEST
    if exp.check is None:
        assert said.endswith((" was not checked.", " could not be checked."))
        return
    named = {word.text for word in exp.verdict.named}
    allowed = {exp.check.opposing.text} if exp.check.opposing is not None else set()
    quoted = set(said.replace("”", "“").split("“")[1::2]) - {"PL", "AI", "score", "AI:PL", "PL:AI"}
    assert quoted <= named | allowed


def test_a_headline_is_short_whatever_the_labels_are():
    label, other = (
        "a label of no fewer than eleven words that nobody reads",
        "one more label that is as long as that is",
    )
    close = Prediction(0, label, 0.51, (label, other), np.array([0.1, 0.0]), np.array([0.51, 0.49]))
    for name, exp in CASES.items():
        if len(exp.prediction.labels) > 1:
            check = exp.check
            if check is not None and check.smallest_set is not None:
                check = replace(check, smallest_set=replace(check.smallest_set, label=other))
            named = Target(1, other) if exp.target.label == "AI" else Target(0, label)
            said = headline(replace(exp, prediction=close, target=named, check=check))
            assert len(said.split()) <= LONGEST, name
            assert said.startswith("The model says “a label")


def test_different_amounts_do_not_read_the_same():
    exp = sample()
    for before, after in ((0.24, 0.241), (5.52, 5.5), (9.0, 8.9), (-7.0, -7.05)):
        whole, less = Reading(before, "PL", 0.9, 0.9), Reading(after, "PL", 0.9, 0.9)
        told_of = replace(exp, check=check_of(exp, whole=whole, without=(less,), random=((before - 1e-3,),) * 14))
        sentence = describe_verdict(told_of).sentences[0]
        numbers = [words.split(" %")[0] for words in sentence.replace("be ", "instead of ").split("instead of ")[1:]]
        assert numbers[0] != numbers[1].strip()
        said = headline(told_of)
        assert "instead of" in said
        assert len({part.split(" %")[0] for part in said.split("would be ")[1].split(" instead of ")}) == 2


def test_an_artefact_is_counted_but_not_named():
    exp = CASES["holds, artefacts"]
    assert f"“{exp.verdict.named[0].text}” and 2 more words" in headline(exp)
    assert "Without these 3 words" in headline(exp)


@pytest.mark.parametrize(
    ("facts", "matters", "level", "first"),
    [
        ({}, "yes", "holds", "matters"),
        ({}, "not_shown", "weak", "not_shown"),
        ({}, "too_small", "weak", "too_small"),
        ({}, "opposite", "poor", "opposite"),
        ({"checks": {"untrained": True}}, "yes", "poor", "untrained_model"),
    ],
)
def test_the_level_sums_the_test_up(facts, matters, level, first):
    exp = sample(**facts)
    exp = replace(exp, check=check_of(exp, matters=matters))
    assert (exp.verdict.level, exp.verdict.reasons[0]) == (level, first)
    assert exp.verdict is exp.verdict  # judged once
    assert sample(**facts).verdict.level == ("poor" if facts else "unchecked")


def test_reasons_tell_where_nothing_decides():
    exp = sample()
    for facts, reason in (
        ({"empty": SAME, "searched": 4, "matters": "not_shown"}, "nothing_decides"),
        ({"empty": SAME, "searched": 4, "matters": "not_shown", "label_changed": True}, "same_without_text"),
        ({"empty": SAME, "searched": 4}, "same_without_text"),
        ({"empty": SAME}, "same_without_text"),
        ({"empty": SAME, "searched": 4, "smallest_set": smallest_set_of(exp, 0)}, "same_without_text"),
    ):
        assert reason in replace(exp, check=check_of(exp, **facts)).verdict.reasons
    assert len(replace(exp, check=check_of(exp, 0, searched=4)).verdict.reasons) == 1
    assert "evidence_spread" in replace(exp, check=check_of(exp)).verdict.reasons


def test_page_and_notebook_say_what_the_verdict_says():
    for exp in CASES.values():
        (shown,) = build([exp]).json["explanations"]
        expected = describe_verdict(exp)
        assert shown["verdict"]["sentences"] == list(expected.sentences)
        fragment = render_fragment(exp)
        assert f"{MARKS[expected.level][0]} {MARKS[expected.level][1]}." in fragment
