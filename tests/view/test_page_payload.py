"""The payload says what the explanation says: units tile the text, arrays decode to what was given."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from sightline.methods import list_methods
from sightline.models.target import Prediction, Target
from sightline.results.explanation import Explanation, RemovalCurve
from sightline.text import LEVELS
from sightline.view.page.graphics import describe_points
from sightline.view.page.payload import (
    PUNCTUATION,
    SPECIAL,
    STOP_WORD,
    token_flags,
)
from sightline.view.words.entries import plain_summary
from sightline.view.words.headline import headline
from sightline.view.words.sentences import describe_verdict
from tests.sample_explanations import encoding, explanation
from tests.sample_pages import build
from tests.view.sample_inside import known_attention, sample_inside

TEXTS = [
    "The river runs past the old mill.\n\nHello, Miller! The mill is old.",
    "hello 👩‍👩‍👧‍👦🏽 𝔘nicode 🎉🎉 old mill",
    "  hello\tworld\r\n\r\n\n   the  old mill \n",
    "mill",
]


def utf16(text: str) -> list[str]:
    """The UTF-16 units of a text, as JavaScript sees them."""
    data = text.encode("utf-16-le", "surrogatepass")
    return [data[i : i + 2].decode("utf-16-le", "surrogatepass") for i in range(0, len(data), 2)]


def cut(text: str, start: int, end: int) -> str:
    return "".join(utf16(text)[start:end]).encode("utf-16", "surrogatepass").decode("utf-16")


@pytest.mark.parametrize("bytes_", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_units_of_every_level_are_ordered_pieces_of_the_text_and_hold_every_score(text, bytes_):
    encoded = encoding(text, "hello " + text, bytes_=bytes_)
    payload = build([explanation(encoded)])
    segments = [segment["text"] for segment in payload.json["document"]["segments"]]
    assert segments == [text, "hello " + text]
    for level in LEVELS:
        start, end, segment, of = (
            payload.arrays[f"units.{level}.{part}"] for part in ("start", "end", "segment", "of")
        )
        places = list(zip(segment.tolist(), start.tolist(), end.tolist(), strict=True))
        assert places == sorted(places)
        for (s, _, stop), (t, begin, _) in pairwise(places):
            assert s < t or stop <= begin
        for s, begin, stop in places:
            piece = cut(segments[s], begin, stop)
            assert piece == piece.strip()
        assert of.shape == (len(encoded),)
        assert of.max() == len(places) - 1
        drawn = [token for token in range(len(encoded)) if not encoded.special[token] and encoded.tokens[token].strip()]
        assert (of[drawn] >= 0).all()
        assert (np.diff(of[drawn]) >= 0).all()


def test_words_and_tokens_are_where_the_encoding_says_and_specials_stand_between_them():
    encoded = encoding("old mill", "the river")
    payload = build([explanation(encoded)])
    texts = [segment["text"] for segment in payload.json["document"]["segments"]]
    names = dict(payload.json["document"]["specials"])
    start, end, segment, of = (payload.arrays[f"units.word.{part}"] for part in ("start", "end", "segment", "of"))
    drawn = [texts[s][a:b] for s, a, b in zip(segment, start, end, strict=True)]
    assert drawn == ["", "old", "mill", "", "the", "river", ""]
    assert names == {0: "[CLS]", 3: "[SEP]", 6: "[SEP]"}
    assert of.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert [(int(s), int(a)) for s, a, text in zip(segment, start, drawn, strict=True) if not text] == [
        (0, 0),
        (0, 8),
        (1, 9),
    ]


def test_sentences_and_paragraphs_are_found_in_the_text():
    payload = build([explanation(encoding(TEXTS[0]))])
    units = {
        level: [
            TEXTS[0][a:b]
            for a, b in zip(payload.arrays[f"units.{level}.start"], payload.arrays[f"units.{level}.end"], strict=True)
        ]
        for level in ("sentence", "paragraph")
    }
    assert units["sentence"] == ["The river runs past the old mill.", "Hello, Miller!", "The mill is old."]
    assert units["paragraph"] == ["The river runs past the old mill.", "Hello, Miller! The mill is old."]


def test_flags_mark_specials_stop_words_and_punctuation():
    encoded = encoding("the river, miller")
    assert encoded.tokens == ("[CLS]", "the", "river", ",", "mill", "er", "[SEP]")
    assert token_flags(encoded).tolist() == [SPECIAL, STOP_WORD, 0, PUNCTUATION, 0, 0, SPECIAL]


def test_scores_travel_as_they_are_and_layers_within_half_precision():
    encoded = encoding()
    layers = np.random.default_rng(1).standard_normal((3, len(encoded))) * 1e-7
    exp = explanation(encoded, layers=layers)
    payload = build([exp])
    assert payload.arrays["scores.0"].tolist() == exp.scores.astype(np.float32).tolist()
    scale = payload.json["arrays"]["layers.0"]["scale"]
    np.testing.assert_allclose(payload.arrays["layers.0"].astype(float) * scale, layers, rtol=1e-3, atol=1e-10)


def test_relations_totals_and_maps_decode_to_what_was_seen():
    encoded = encoding()
    seen = known_attention(encoded)
    inside = sample_inside(encoded)
    payload = build([explanation(encoded)], inside=inside)
    mean = seen.weights.mean(axis=(0, 1))
    partners = payload.arrays["relations.all.attended.partners"]
    weights = payload.arrays["relations.all.attended.weights"]
    assert partners.dtype == np.uint16
    for token in range(len(encoded)):
        assert partners[token].tolist() == np.argsort(-mean[token], kind="stable")[:3].tolist()
    np.testing.assert_allclose(weights, np.take_along_axis(mean, partners.astype(int), axis=1), rtol=1e-3)
    received = payload.arrays["received"].astype(float) * payload.json["arrays"]["received"]["scale"]
    np.testing.assert_allclose(received, seen.received.mean(axis=1), rtol=1e-3)
    thumbnails = payload.arrays["thumbnails"].astype(float)
    peak = payload.arrays["thumbnails.peak"][..., None, None]
    np.testing.assert_allclose(peak * (thumbnails / 255) ** 2, inside.thumbnails, atol=float(peak.max()) / 200)


def test_a_token_with_fewer_partners_than_k_has_empty_places():
    encoded = encoding("old mill")
    inside = sample_inside(encoded, k=50)
    assert inside.k == len(encoded)
    partners = build([explanation(encoded)], inside=inside).arrays["relations.all.attended.partners"]
    assert partners.shape == (len(encoded), len(encoded))
    assert partners.max() < len(encoded)


def checked(method: str, curve: list[float], random: list[list[float]], **facts) -> Explanation:
    """An explanation that was checked against random orderings at two shares of the words."""
    falls = [0.9 - np.mean(values[1:]) for values in (curve, *random)]
    beaten = sum(fall < falls[0] for fall in falls[1:])
    return explanation(
        method=method,
        removal=RemovalCurve([0, 0.2, 0.5], curve, random),
        checks={
            "faithfulness": float(falls[0]),
            "random_mean": float(np.mean(falls[1:])),
            "random_beaten": beaten,
            "random_orderings": len(random),
        },
        **facts,
    )


def test_checked_explanations_bring_a_plot_for_each_target_with_a_line_a_method_and_the_random_band():
    random = [[0.9, 0.8, 0.7], [0.9, 0.6, 0.8]]
    shown = [
        checked("attcat", [0.9, 0.3, 0.1], random),
        checked("rollout", [0.9, 0.7, 0.7], random),
        explanation(method="gradient"),
        checked("attcat", [0.4, 0.3, 0.2], [[0.4, 0.4, 0.4]], target=Target(0, "AI")),
    ]
    first, second = build(shown).json["curves"]
    assert first["name"] == "Probability of “PL” without the highest-ranked words"
    assert [line["name"] for line in first["series"]] == ["AttCAT", "Attention rollout", "2 random orders"]
    words = len(shown[0].words())
    assert [line["x"] for line in first["series"]] == [[0, round(0.2 * words), round(0.5 * words)]] * 3
    assert [line["y"] for line in first["series"][:2]] == [[0.9, 0.3, 0.1], [0.9, 0.7, 0.7]]
    band = first["series"][2]
    np.testing.assert_allclose(band["y"], [0.9, 0.7, 0.75])
    assert (band["low"], band["high"]) == ([0.9, 0.6, 0.7], [0.9, 0.8, 0.8])
    assert [note.split(" – ")[0] for note in first["notes"]] == ["AttCAT", "Attention rollout"]
    assert "“AI”" in second["name"]
    assert [line["name"] for line in second["series"]] == ["AttCAT", "1 random order"]


def test_a_plot_says_how_many_points_were_measured_and_why_no_more():
    counts = np.array([0, 1, 5, 20])
    removal = RemovalCurve(counts / 100, np.zeros(4), np.zeros((9, 4)), counts)
    assert describe_points(removal) == (
        "Besides the whole document, every line has 3 points, measured without 1, 5, 20 of the words. Each point takes "
        "10 model calls; with --check-calls 52 (in Python check_budget=52) there are 5 points."
    )


def test_the_headline_names_prediction_phrases_and_trust():
    encoded = encoding("The old hello runs. The old hello is old, the river runs.")
    scores = np.zeros(len(encoded))
    tokens = [token.lower() for token in encoded.tokens]
    for token, score in (("hello", 2.0), ("river", 1.5), ("old", 1.0), ("the", 9.0)):
        scores[[i for i, text in enumerate(tokens) if text == token]] = score
    exp = explanation(encoded, scores)
    assert headline(exp) == (
        "The model says “PL” (73 %), according to AttCAT in part because of “old hello” and “river” "
        "(24 % of the total); the explanation was not checked."
    )
    (shown,) = build([exp]).json["explanations"]
    assert "".join(part["text"] for part in shown["headline"]) == headline(exp)
    assert [tokens[part["token"]] for part in shown["headline"] if "token" in part] == ["old", "river"]
    against = explanation(encoded, -scores)
    assert "; no word supports it; " in headline(against)
    other = explanation(encoded, scores, target=Target(0, "AI"))
    assert "“PL” (73 %); what speaks most for “AI” is “old hello”" in headline(other)


def test_the_headline_calls_a_small_part_of_the_total_no_main_reason():
    encoded = encoding("river " + "mill " * 40)
    scores = np.array([3.0 if token == "river" else -1.0 for token in encoded.tokens])
    assert headline(explanation(encoded, scores)) == (
        "The model says “PL” (73 %), according to AttCAT in part because of “river” (only 7.0 % of the total); "
        "“mill” speaks more strongly against it; the explanation was not checked."
    )


def test_the_headline_says_when_an_empty_text_gets_the_same_prediction():
    measured = {"faithfulness": 0.6, "random_mean": 0.0, "random_beaten": 20, "random_orderings": 20, "stake": 0.2}
    telling = {"removed_words": 1, "removed_share": 0.1, "probability": 0.73, "probability_without": 0.1}
    checks = {**measured, **telling, "probability_without_random": 0.73}
    same, other = (headline(explanation(checks={**checks, "probability_empty": empty})) for empty in (0.72, 0.2))
    assert same.endswith("; it says “PL” about an empty text as well; the explanation holds up.")
    assert "empty text" not in other
    relabelled = explanation(checks={**checks, "probability_empty": 0.72, "empty_says_same": False})
    assert "empty text" not in headline(relabelled)
    assert "empty text" not in " ".join(describe_verdict(relabelled.verdict).sentences)


def test_the_headline_names_what_speaks_against_the_class_more_strongly_than_its_reasons():
    encoded = encoding("The old river runs.")
    by_word = {"the": -6.0, "old": 0.6, "river": 0.5, ".": 2.9}
    scores = np.array([by_word.get(token.lower(), 0.0) for token in encoded.tokens])
    said = headline(explanation(encoded, scores))
    assert "in part because of “old river” (11 % of the total); “The” speaks more strongly against it; " in said
    mainly = headline(explanation(encoded, np.where(scores < -5, -1.0, np.minimum(scores, 0.6))))
    assert "mainly because of “old river”; the explanation" in mainly
    outweighed = np.array([{"old": 1.1, ".": -1.0, "the": -1.0}.get(token.lower(), 0.0) for token in encoded.tokens])
    assert "mainly because of “old” (35 % of the total); the explanation" in headline(explanation(encoded, outweighed))


@pytest.mark.parametrize(
    ("first", "clause"),
    [
        (0.52, "(52 %, hardly more than “AI” with 48 %)"),
        (0.54, "(54 %, hardly more than “AI” with 46 %)"),
        (0.56, "(56 %)"),
    ],
)
def test_the_headline_names_the_next_class_where_the_model_is_nearly_undecided(first, clause):
    probabilities = np.array([1 - first, first])
    close = Prediction(1, "PL", first, ("AI", "PL"), np.log(probabilities), probabilities)
    assert headline(explanation(prediction=close)).startswith(f"The model says “PL” {clause}")


@pytest.mark.parametrize(
    ("probabilities", "clause"),
    [
        ([0.13, 0.05, 0.04], "(13 %)"),  # far ahead, though by less than ten points
        ([0.98, 0.97, 0.02], "(98 %)"),  # labels that do not compete
        ([0.03, 0.95], "(3.0 %, less than “B” with 95 %)"),  # the best answer, where there probably is none
    ],
)
def test_the_headline_names_no_rival_that_is_far_away(probabilities, clause):
    labels = ("A", "B", "C")[: len(probabilities)]
    chances = np.array(probabilities)
    predicted = Prediction(0, "A", chances[0], labels, np.log(chances), chances)
    said = headline(explanation(prediction=predicted, target=Target(0, "A")))
    assert said.startswith(f"The model says “A” {clause}")


def test_the_headline_calls_unsigned_scores_no_reasons():
    encoded = encoding("The old river runs.")
    unsigned = headline(explanation(encoded, np.arange(1.0, len(encoded) + 1), signed=False))
    assert "because" not in unsigned
    assert "; the most weight, for or against, is on “" in unsigned
    other = explanation(encoded, np.arange(1.0, len(encoded) + 1), signed=False, target=Target(0, "AI"))
    assert "; the most weight for or against “AI” is on “" in headline(other)


def test_the_headline_does_not_contradict_itself():
    encoded = encoding("The old river runs.")
    tokens = [token.lower() for token in encoded.tokens]
    fillers = np.array([1.0 if token == "the" else -0.5 for token in tokens])
    assert "; only stop words, punctuation or artefacts support it; " in headline(explanation(encoded, fillers))
    unmoved = {"faithfulness": 0.0, "random_mean": 0.0, "random_beaten": 15, "random_orderings": 20, "stake": 0.2}
    telling = dict.fromkeys(("probability", "probability_without", "probability_without_random"), 0.73)
    checks = {**unmoved, **telling, "probability_empty": 0.73, "removed_words": 1, "removed_share": 0.1}
    undecided = explanation(encoded, np.abs(fillers), checks=checks)
    assert headline(undecided) == "The model says “PL” (73 %); nothing in the text decides."
    poor = headline(explanation(encoded, np.abs(fillers), checks={**unmoved, "random_beaten": 3}))
    assert "because" not in poor
    assert poor.startswith("The model says “PL” (73 %); do not trust the explanation, which names “")
    endless = encoding("old " + "x" * 100_000, max_tokens=100)
    assert len(headline(explanation(endless, np.ones(len(endless))))) < 300
    one_output = Prediction(0, "similarity", 1.0, ("similarity",), np.array([0.814]), np.array([1.0]))
    similar = explanation(encoded, np.abs(fillers), prediction=one_output, target=Target(0, "similarity"))
    assert headline(similar).startswith("The model gives “similarity” the value 0.814, according to AttCAT mainly ")
    named = replace(similar, provenance={"similar_to": "a refund"})
    assert headline(named).startswith("The model gives the similarity to “a refund” the value 0.814, according to ")


@pytest.mark.parametrize("word", ["the", "river"])
def test_headline_and_verdict_say_both_or_neither_that_an_empty_text_is_judged_alike(word):
    encoded = encoding("The old river runs.")
    scores = np.array([1.0 if token.lower() == word else -0.1 for token in encoded.tokens])
    fall = {"faithfulness": 0.5, "random_mean": 0.0, "random_beaten": 20, "random_orderings": 20, "stake": 0.2}
    telling = {"probability": 0.73, "probability_without": 0.1, "probability_without_random": 0.73}
    for empty, same in ((0.72, True), (0.2, False)):
        checks = {**fall, **telling, "probability_empty": empty, "removed_words": 1, "removed_share": 0.1}
        for beaten in (20, 15):  # holds up, weakly supported
            judged = explanation(encoded, scores, checks={**checks, "random_beaten": beaten})
            assert ("it says “PL” about an empty text as well" in headline(judged)) == same
            said = " ".join(describe_verdict(judged.verdict).sentences)
            assert ("says the same about an empty text" in said) == same


def test_the_headline_says_why_an_explanation_is_weakly_supported():
    measured = {"faithfulness": 0.2, "random_mean": 0.1, "random_orderings": 20, "probability": 0.73, "stake": 0.05}
    for values, end in (
        ({"random_beaten": 20}, "of “river”; the explanation holds up."),
        ({"random_beaten": 15}, "; the explanation is weakly supported, because chance is not ruled out."),
        (
            {"random_beaten": 20, "faithfulness": 0.11},
            "; the explanation is weakly supported, because these words matter more than random "
            "ones, but not by enough.",
        ),
    ):
        encoded = encoding("the old river")
        judged = explanation(encoded, [0.0, 0.0, 0.0, 2.0, 0.0], checks={**measured, **values})
        assert headline(judged).endswith(end)
        assert ("according to AttCAT mainly because" in headline(judged)) == ("weakly" in end)


def test_every_built_in_method_has_a_sentence_for_any_reader():
    assert [method.name for method in list_methods() if not plain_summary(method.name, "").endswith(".")] == []


def test_methods_have_a_title_a_sentence_and_a_formula():
    first, second = build([explanation(), explanation(method="mine")]).json["explanations"]
    assert (first["title"], second["title"]) == ("AttCAT", "mine")
    assert first["summary"] == plain_summary("attcat", "")
    assert first["formula"].startswith("s_i")
    assert second["summary"] == second["formula"] == ""


def test_what_the_model_did_not_read_is_marked():
    text = "the old mill runs " * 40
    exp = explanation(encoding(text, max_tokens=20))
    (segment,) = build([exp]).json["document"]["segments"]
    assert segment["text"] == text
    assert segment["read"] == exp.encoding.offsets[:, 1].max() < len(text)
