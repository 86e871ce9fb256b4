"""The page of a text that is far longer than the model can read."""

from __future__ import annotations

import pytest

import sightline as sl
from sightline.view.page.payload import MAX_UNREAD


@pytest.mark.slow  # a million characters are tokenized
def test_a_page_stores_what_the_model_read_and_counts_the_rest():
    model = sl.load()
    text = "The compiler infers the types of all expressions. " * 20_000
    encoding = model.encode(text, truncate=True)
    read = int(encoding.offsets[:, 1].max())
    html = model.report(encoding, methods=["random"], inside=False).to_html()
    assert len(html) < 1_000_000
    assert f"({len(text) - read - MAX_UNREAD:,} more characters, which the model did not read)" in html
