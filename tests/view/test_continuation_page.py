"""The page of a generated text: everything escaped, nothing loaded, and a click shows the words behind a word."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

import sightline as sl
from sightline.methods import METHODS
from sightline.view.continuation import MEANINGS, describe_scores, render_continuation
from sightline.view.words.sentences import percent
from tests.tiny_models import VOCABULARY, tiny_module
from tests.tiny_tokenizers import byte_level

PROMPT = "the old mill <script>alert(1)</script> & river"
CONTINUATION = " hello world. <b>old</b> mill"


@pytest.fixture(scope="module")
def reader():
    tokenizer = byte_level()
    module = tiny_module("llama", auto=AutoModelForCausalLM, vocab_size=max(VOCABULARY, len(tokenizer)))
    return sl.load(module, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def continuations(reader):
    return reader.explain(
        PROMPT, methods=["input_x_gradient", "alti"], continuation=CONTINUATION, quantity="log_probability"
    )


def data_of(html: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL).group(1))


def test_texts_are_escaped_and_nothing_is_loaded(continuations):
    html = render_continuation(list(continuations.values()), title="<i>title</i>")
    assert "<script>alert" not in html
    assert "&lt;script&gt;" not in html.split("<title>")[1].split("</title>")[0]
    assert "<i>title" not in html
    assert "default-src 'none'" in html
    assert not re.search(r'(src|href)\s*=\s*"', html)
    shown = re.sub(r"<[^>]*>", "", html.split('id="prompt"')[1].split("</div>")[0].partition(">")[2])
    assert shown == PROMPT.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def test_nul_characters_of_a_prompt_are_drawn_as_replacement_characters(reader):
    html = render_continuation([reader.explain("the old\0mill", "input_x_gradient", continuation=" the")])
    assert "\0" not in html
    assert "\ufffd" in html.split('id="prompt"')[1].split("</div>")[0]


def test_rows_of_the_page_are_sums_of_the_matrix(continuations):
    result = continuations["input_x_gradient"]
    data = data_of(result.to_html())
    words = result.units("word")
    assert data["words"] == list(words.texts)
    expected = result.sums()
    for row, line in zip(data["methods"][0]["rows"], expected, strict=True):
        np.testing.assert_allclose(row["scores"], line, rtol=1e-3)
    np.testing.assert_allclose(data["methods"][0]["total"]["scores"], words.fold(result.total()), rtol=1e-3)
    assert [word["text"] for word in data["generated"]] == [words.texts[n] for n in result.generated_units()]
    for word, rows in zip(data["generated"], result.generated_units().values(), strict=True):
        assert word["probability"] == pytest.approx(np.prod(result.probabilities[list(rows)]))


def test_a_notebook_shows_the_words_behind_every_generated_word(continuations):
    html = continuations["alti"]._repr_html_()
    assert "<script" not in html
    assert html.count("<tr>") == 1 + len(continuations["alti"].generated_units())


def test_the_page_says_who_wrote_the_text_and_that_nothing_was_checked(continuations):
    given = continuations["alti"]
    html = given.to_html()
    assert "<h2>Given continuation, not written by the model</h2>" in html
    assert "was written from" not in html
    assert "not checked" in html
    assert "not checked" in given._repr_html_()
    generated = replace(given, origin="generated").to_html()
    assert "<h2>Generated</h2>" in generated
    assert "was written from" in generated
    unknown = replace(given, origin=None).to_html()
    assert "<h2>Continuation</h2>" in unknown
    assert "was written from" not in unknown


def test_the_page_shows_the_probability_of_every_word_before_a_click(continuations):
    result = continuations["alti"]
    shown = re.findall(r"<small>(.*?)</small>", result.to_html())
    assert [unescape(text) for text in shown] == [percent(float(p)) for p in result.unit_probabilities()]
    assert all(text in result._repr_html_() for text in shown)


def test_each_method_says_what_its_scores_are(continuations):
    signed, unsigned = (describe_scores(continuations[name]) for name in ("input_x_gradient", "alti"))
    assert "what each word added to the log probability" in signed
    assert "without a sign" in unsigned
    assert "added" not in unsigned
    unsigned_methods = {name for name in METHODS.names() if not METHODS.get(name).signed}
    assert unsigned_methods <= set(MEANINGS) <= set(METHODS.names())
    data = data_of(render_continuation(list(continuations.values())))
    assert [method["meaning"] for method in data["methods"]] == [signed, unsigned]


def test_words_at_the_border_are_drawn_in_their_part(reader):
    html = reader.explain("the old mill", "alti", continuation="er's river").to_html()
    prompt, continuation = (html.split(f'id="{name}"')[1].split("</div>")[0] for name in ("prompt", "continuation"))
    assert re.findall(r">([^<>]+)</span>", prompt) == ["the", "old", "mill"]
    assert [unescape(word) for word in re.findall(r">([^<>]+)</button>", continuation)] == ["er's", "river"]


def test_a_continuation_of_white_space_can_be_clicked(reader):
    blank = reader.tokenizer("\n", add_special_tokens=False)["input_ids"]
    assert "↵</button>" in reader.explain("the old mill", "alti", continuation=blank).to_html()


@pytest.mark.browser
def test_a_click_on_a_generated_word_colours_the_words_behind_it(open_page, continuations):
    page = open_page(render_continuation(list(continuations.values())))
    data = data_of(render_continuation(list(continuations.values())))
    buttons = page.locator("button.word")
    assert buttons.count() == len(data["generated"])
    buttons.nth(2).click()
    levels = data["methods"][0]["rows"][2]["levels"]
    assert buttons.nth(2).get_attribute("aria-pressed") == "true"
    assert "had a probability of" in page.locator("#status").inner_text()
    for unit, level in enumerate(levels):
        classes = page.locator(f"[data-word='{unit}']").get_attribute("class").split()
        wanted = [] if level == 0 else [f"{'for' if level > 0 else 'against'}{abs(level)}"]
        assert classes == ["word", *wanted]
    last = data["generated"][2]["unit"]
    assert not any(levels[last + 1 :])
    page.keyboard.press("ArrowRight")
    assert buttons.nth(3).get_attribute("aria-pressed") == "true"
    page.locator("#method").select_option("1")
    assert "plain8" in page.locator("#legend").inner_html()
    assert "without a sign" in page.locator("#meaning").inner_text()
    page.locator("#all").click()
    assert "sum over all words of the continuation" in page.locator("#status").inner_text()
