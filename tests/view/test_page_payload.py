"""The payload says what the explanation says: units tile the text, arrays decode to what was given."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from sightline.methods import list_methods
from sightline.models.target import Prediction, Target
from sightline.text import LEVELS
from sightline.view.page.payload import (
    PUNCTUATION,
    SPECIAL,
    STOP_WORD,
    token_flags,
)
from sightline.view.words.headline import headline
from sightline.view.words.phrases import plain_summary
from tests.sample_explanations import check_of, encoding, explanation
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


def test_checked_explanations_bring_what_was_measured_and_the_words_that_were_tested():
    exp = explanation()
    exp = replace(exp, check=check_of(exp, 0, random=((1.5,), (0.0,))))
    first, second = build([exp, explanation(method="gradient")]).json["explanations"]
    assert first["check"]["random"] == [[1.5], [0.0]]
    assert first["check"]["path"] == [[2, {"value": 0.4, "label": "PL", "label_probability": 0.6, "probability": 0.6}]]
    assert [word["text"] for word in first["verdict"]["named"]] == [exp.words()[0].text]
    assert (second["check"], second["target"]["is_class"]) == (None, True)


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


def test_the_pieces_of_the_headline_are_linked_to_the_words_that_were_tested():
    exp = explanation()
    exp = replace(exp, check=check_of(exp, 1, 6))
    (shown,) = build([exp]).json["explanations"]
    assert "".join(part["text"] for part in shown["headline"]) == headline(exp)
    linked = {part["token"] for part in shown["headline"] if "token" in part}
    assert linked == {word.tokens[0] for word in exp.check.tested}
    assert shown["check"] == exp.check.to_dict()
    assert shown["verdict"]["matters"] == "yes"


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
