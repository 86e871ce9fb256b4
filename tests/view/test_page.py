"""What can be said about the report without opening it: self-contained, escaped, one document, small."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError, UsageError
from sightline.models.target import Target
from sightline.view.page.html import embed_json
from tests.sample_explanations import encoding, explanation
from tests.sample_pages import render_page
from tests.view.sample_inside import long_inside, sample_inside

HOSTILE = "</script><script>alert(1)</script> <!-- &amp; \u2028\u2029 old mill"
LARGEST_REPORT = 1_500_000
LARGEST_SCRIPT = 150_000


def data_of(page: str) -> dict:
    return json.loads(re.search(r'id="sightline-data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_policy_allows_exactly_our_style_and_script_by_hash():
    page = render_page([explanation()])
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    for name, start, tag in (("style-src", "<style>", "style"), ("script-src", '<script type="module">', "script")):
        content = re.search(rf"{start}(.*?)</{tag}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert directives[name] == f"'sha256-{digest}'"


def test_the_page_loads_nothing_and_has_no_event_attributes():
    page = render_page([explanation()])
    markup = re.sub(r'<script type="module">.*</script>', "", page.split('id="sightline-data"')[0], flags=re.DOTALL)
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\ssrc=|\son[a-z]+=", markup)
    # The only address in the script is the name of SVG's namespace, which nothing is fetched from.
    addresses = set(re.findall(r"https?://[^\"'`\s]+", page.split('<script type="module">')[1]))
    assert addresses <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xhtml",
        "http://www.w3.org/1998/Math/MathML",
    }


def test_hostile_text_is_inside_the_data_block_and_nowhere_else():
    page = render_page([explanation(encoding(HOSTILE))])
    data = re.search(r'id="sightline-data">(.*?)</script>', page, re.DOTALL)[1]
    assert json.loads(data)["document"]["segments"][0]["text"] == HOSTILE
    title = re.search("<title>(.*?)</title>", page)[1]
    assert title.startswith("&lt;/script&gt;&lt;script&gt;alert(1)")
    assert "alert(1)" not in page.replace(data, "").replace(title, "")
    assert page.count("<script") == 2


@given(st.text(st.characters(), max_size=60))
def test_embedded_json_reads_back_and_holds_nothing_that_html_would_see(text):
    embedded = embed_json({"text": text, text: [text]})
    assert not set(embedded) & set("<>&\u2028\u2029")
    assert json.loads(embedded) == {"text": text, text: [text]}
    embedded.encode()  # lone surrogates are escaped too


def test_several_explanations_must_be_of_one_document():
    with pytest.raises(UsageError, match="different texts"):
        render_page([explanation(encoding("old mill")), explanation(encoding("old river"))])
    with pytest.raises(UsageError, match="at least one"):
        render_page([])


def test_the_inside_must_be_of_the_same_document():
    with pytest.raises(InputError, match="trace of the same document"):
        render_page([explanation(encoding("old mill"))], inside=sample_inside(encoding("the old mill")))


def test_explanations_by_the_same_method_are_told_apart():
    encoded = encoding()
    twice = data_of(render_page([explanation(encoded)] * 2))["explanations"]
    assert [entry["method"] for entry in twice] == ["attcat 1", "attcat 2"]
    targets = [explanation(encoded, target=Target(i, label)) for i, label in enumerate(("AI", "PL"))]
    both = data_of(render_page(targets))["explanations"]
    assert [(entry["method"], entry["target"]["name"]) for entry in both] == [("attcat", "“PL”"), ("attcat", "“AI”")]
    quantities = [explanation(encoded, target=Target(1, "PL", quantity=q)) for q in ("logit", "probability")]
    named = data_of(render_page(quantities))["explanations"]
    assert [entry["target"]["name"] for entry in named] == ["logit of 'PL'", "probability of 'PL'"]


def test_the_title_is_the_first_line_with_words_shortened():
    page = render_page([explanation(encoding("\n\n  " + "the old mill " * 20 + "\nhello"))])
    title = re.search("<title>(.*?)</title>", page)[1]
    assert title.startswith("the old mill the old mill")
    assert title.endswith("… · Sightline")
    assert len(title) < 90


def test_control_characters_reach_the_page_as_escapes_only():
    page = render_page([explanation(encoding("the old\0mill\x1b"))])
    assert re.search("<title>(.*?)</title>", page)[1] == "the old\ufffdmill\ufffd · Sightline"
    assert "\0" not in page
    assert "\x1b" not in page


def test_the_built_view_is_in_the_package_and_small():
    static = resources.files("sightline.view").joinpath("static")
    assert 20_000 < len(static.joinpath("view.js").read_bytes()) < LARGEST_SCRIPT
    assert len(static.joinpath("view.css").read_bytes()) > 5_000


@pytest.fixture(scope="module")
def long_explanations():
    encoded = encoding(" ".join(["the old mill runs past a river"] * 590)[:20_000], max_tokens=4096)
    generator = np.random.default_rng(0)
    return [
        explanation(
            encoded,
            generator.standard_t(2, len(encoded)),
            method=f"method {number}",
            layers=generator.standard_normal((6, len(encoded))),
        )
        for number in range(5)
    ]


@pytest.mark.slow
def test_a_report_of_4096_tokens_and_five_methods_has_less_than_1_5_mb(long_explanations):
    assert len(long_explanations[0].encoding) == 4096
    page = render_page(long_explanations, inside=long_inside(4096))
    assert len(page.encode()) < LARGEST_REPORT
    arrays = data_of(page)["arrays"]
    for name in ("thumbnails", "received", *(f"layers.{number}" for number in range(5))):
        assert name in arrays
    for name in ("all", "layer-0"):
        assert f"relations.{name}.attended.partners" in arrays


@pytest.mark.slow
def test_what_does_not_fit_is_left_out_in_whole_groups(long_explanations):
    arrays = data_of(render_page(long_explanations, inside=long_inside(4096, layers=12)))["arrays"]
    maps = {name.split(".")[1] for name in arrays if name.startswith("relations.")}
    assert "all" in maps
    assert len(maps) < 13
    for name in maps:
        assert sum(f"relations.{name}." in array for array in arrays) == 4
