"""Windows on the page: a mark where each begins, and a list of what each predicts by itself."""

from __future__ import annotations

import pytest
import torch

from sightline.api.load import load
from tests.sample_pages import render_page
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

pytestmark = pytest.mark.browser

TEXT = "The old mill. Hello river world, hello miller! The river runs. " * 15


@pytest.fixture(scope="module")
def explained():
    labels = {0: "mill", 1: "river", 2: "miller"}
    module = tiny_module(dtype=torch.float32, vocab_size=len(wordpiece()), id2label=labels)
    return load(module, tokenizer=wordpiece()).explain(TEXT, "attcat")


def test_every_window_but_the_first_is_marked_where_it_begins_and_all_are_listed(open_page, explained):
    page = open_page(render_page([explained]))
    count = len(explained.encoding.windows)
    assert count > 1
    page.click(".windows summary")
    rows = page.locator(".windows li").all_inner_texts()
    best = explained.extras["window_probabilities"].argmax(axis=1)
    assert [row.split(",")[0] for row in rows] == [explained.prediction.labels[index] for index in best]
    marks = page.locator(".text [data-window]")
    assert marks.count() == count - 1
    for number in range(1, count):
        first = explained.encoding.windows.spans[number][0]
        word = explained.encoding.words[explained.encoding.word_ids[first]]
        mark = marks.nth(number - 1)
        assert mark.inner_text().strip() == word.text
        assert mark.get_attribute("title").startswith(f"Window {number + 1} of {count} begins here: ")


def test_a_document_that_is_read_at_once_has_no_windows(open_page, explained):
    model = load(tiny_module(dtype=torch.float32, vocab_size=len(wordpiece())), tokenizer=wordpiece())
    page = open_page(render_page([model.explain("The old mill.", "attcat")]))
    assert page.locator(".windows").count() == page.locator("[data-window]").count() == 0
