"""The page of a generated text: everything escaped, nothing loaded, and a click shows the words behind a word."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

import sightline as sl
from sightline.view.continuation import render_continuation
from tests.tiny_models import VOCABULARY, tiny_module
from tests.tiny_tokenizers import byte_level

PROMPT = "the old mill <script>alert(1)</script> & river"
CONTINUATION = " hello world. <b>old</b> mill"


@pytest.fixture(scope="module")
def continuations():
    tokenizer = byte_level()
    module = tiny_module("llama", auto=AutoModelForCausalLM, vocab_size=max(VOCABULARY, len(tokenizer)))
    model = sl.load(module, tokenizer=tokenizer)
    return model.explain(
        PROMPT, methods=["input_x_gradient", "alti"], continuation=CONTINUATION, quantity="log_probability"
    )


def data_of(html: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL).group(1))


def test_texts_are_escaped_and_nothing_is_loaded(continuations):
    html = render_continuation(list(continuations.values()), title="<i>title</i>")
    assert "<script>alert" not in html
    assert "&lt;script&gt;" not in html.split("<title>")[1].split("</title>")[0]
    assert "<i>title" not in html
    assert "default-src &#x27;none&#x27;" in html
    assert not re.search(r'(src|href)\s*=\s*"', html)
    shown = re.sub(r"<[^>]*>", "", html.split('id="prompt"')[1].split("</div>")[0].partition(">")[2])
    assert shown == PROMPT.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") + " "


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
    page.locator("#all").click()
    assert "sum over all generated words" in page.locator("#status").inner_text()
