"""What can be said about the page without opening it: self-contained, escaped, one document."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import UsageError
from sightline.view.page import embedded_json, render_page
from tests.sample_explanations import encoding, explanation

HOSTILE = "</script><script>alert(1)</script> <!-- &amp; \u2028\u2029 old mill"


def test_the_policy_allows_exactly_our_style_and_script_by_hash():
    page = render_page([explanation()])
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    for name, tag in (("style-src", "style"), ("script-src", "script")):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert directives[name] == f"'sha256-{digest}'"


def test_the_page_names_no_outside_address_and_no_event_attributes():
    page = render_page([explanation()])
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\ssrc=|\son[a-z]+=", page.split('id="data"')[0])


def test_hostile_text_is_inside_the_data_block_and_nowhere_else():
    page = render_page([explanation(encoding(HOSTILE))])
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1]
    assert json.loads(data)["blocks"][0]["text"] == HOSTILE
    title = re.search("<title>(.*?)</title>", page)[1]
    assert title.startswith("&lt;/script&gt;&lt;script&gt;alert(1)")
    assert "alert(1)" not in page.replace(data, "").replace(title, "")
    assert page.count("<script") == 2


@given(st.text(st.characters(), max_size=60))
def test_embedded_json_reads_back_and_holds_nothing_that_html_would_see(text):
    embedded = embedded_json({"text": text, text: [text]})
    assert not set(embedded) & set("<>&\u2028\u2029")
    assert json.loads(embedded) == {"text": text, text: [text]}
    embedded.encode()  # lone surrogates are escaped too


def test_several_explanations_must_be_of_one_document():
    with pytest.raises(UsageError, match="different texts"):
        render_page([explanation(encoding("old mill")), explanation(encoding("old river"))])
    with pytest.raises(UsageError, match="at least one"):
        render_page([])


def test_explanations_by_the_same_method_are_told_apart():
    encoded = encoding()
    data = json.loads(re.search(r'id="data">(.*?)</script>', render_page([explanation(encoded)] * 2), re.DOTALL)[1])
    names = [exp["name"] for exp in data["explanations"]]
    assert len(set(names)) == 2


def test_the_hand_written_files_stay_small():
    static = resources.files("sightline.view").joinpath("static")
    assert sum(len(static.joinpath(name).read_bytes()) for name in ("page.js", "page.css")) < 25_000


def test_the_title_is_the_first_line_with_words_shortened():
    page = render_page([explanation(encoding("\n\n  " + "the old mill " * 20 + "\nhello"))])
    title = re.search("<title>(.*?)</title>", page)[1]
    assert title.startswith("the old mill the old mill")
    assert title.endswith("… · Sightline")
    assert len(title) < 90
