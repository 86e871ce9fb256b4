"""The notebook fragment: no script, every string escaped, the whole text there."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from sightline.models.target import Target
from tests.sample_explanations import encoding, explanation


class Reader(HTMLParser):
    """Collects elements, attributes and text as a browser would."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "hr":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    "text",
    ['<script>alert(1)</script> <img onerror="x"> &amp; old', "שלום 👩‍🚀 old\n\n  mill", 'the old mill\'s "river"'],
)
def test_the_fragment_holds_the_text_and_only_harmless_elements(text):
    exp = explanation(
        encoding(text, "second <b> text"),
        method="<i>",
        target=Target(0, "<u>"),
        checks={"<s>": "<img>", "untrained": True},
    )
    read = Reader(exp._repr_html_())
    assert text in read.text
    assert "second <b> text" in read.text
    assert read.elements <= {"div", "p", "b", "span", "hr"}
    assert read.attributes <= {"style", "title", "dir"}
    assert read.open == []


def test_words_carry_their_score_and_a_tint_by_sign():
    exp = explanation(encoding("hello world the old mill"), [9.0, 0.5, -0.5, 2.0, 0.0, -3.0, -9.0])
    html = exp._repr_html_()
    assert 'title="−3">mill</span>' in html
    assert 'title="+2">the</span>' in html
    assert ">old</span>" not in html


def test_of_a_long_document_only_the_words_around_the_strongest_are_written():
    text = " ".join(f"the old mill {number} runs" for number in range(4000))
    scores = [0.0] * len(encoding(text))
    scores[5000], scores[9000] = 3.0, -2.0
    html = explanation(encoding(text), scores)._repr_html_()
    assert len(html) < 20_000
    shown = Reader(html).text
    assert shown.count("[…]") >= 2
    assert "the old mill 0 runs" not in shown
