"""The takeaways of an inspection: sentences that agree with its numbers, with links to pictures that exist."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import sightline as sl
from sightline.analysis.received import Sink
from sightline.view.inspect.sections import document_sections, heads_section
from sightline.view.inspect.summary import write_inspection
from sightline.view.sections.pages import Picture
from sightline.view.words.takeaways import CLEARLY_MORE, TEXT_PAGE, reference_count, reference_counts, takeaways
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import byte_level

pytestmark = pytest.mark.slow

TEXT = " ".join(f"river the old mill {i}." for i in range(45))


@pytest.fixture(scope="module")
def long():
    """An inspection of a document that is long for the window of its model."""
    module = tiny_module("longformer", dtype=torch.float32, vocab_size=400, id2label={0: "AI", 1: "PL"})
    return sl.load(module, tokenizer=byte_level()).inspect(TEXT, top_k=4, permutations=10, methods=("attcat",))


def test_the_sentences_agree_with_the_numbers_and_name_pictures_of_the_page(long):
    sentences = takeaways(long)
    assert 4 <= len(sentences) <= 5
    names = {part.name for section in document_sections(long) for part in section.parts if isinstance(part, Picture)}
    assert sentences[0].shown_in == TEXT_PAGE
    assert all(takeaway.shown_in in names for takeaway in sentences[1:])
    layer, head = np.unravel_index(np.argmax(long.importance), long.importance.shape)
    assert sentences[1].sentence.startswith(f"Head {head} of layer {layer} matters most; ")
    half = int(re.search(r"; (\d+) of", sentences[1].sentence)[1])
    ranked = np.sort(long.importance.ravel())[::-1]
    assert ranked[:half].sum() >= ranked.sum() / 2 > ranked[: half - 1].sum()


def test_the_reference_of_several_instances_counts_each_token_once(long):
    instances = pd.Series([1, 3, 1000])
    single = reference_count(long, "attended")
    tokens = len(long.encoding)
    counts = reference_counts(long, "attended", instances)
    assert counts[0] == pytest.approx(single)
    assert single < counts[1] < 3 * single
    assert counts[2] == pytest.approx(tokens)


def test_the_reference_times_the_instances_adds_up_to_all_counts(long):
    for side in ("attended", "attending"):
        frame = long.relations.by_type(side)
        expected = reference_count(long, side) * frame["instances"].sum()
        assert expected == pytest.approx((frame["mean"] * frame["instances"]).sum())


def test_a_long_document_has_its_windows_straightened_instead_of_square_maps(long):
    pictures = {
        part.name: part for section in document_sections(long) for part in section.parts if hasattr(part, "draw")
    }
    assert "attention-windows" in pictures
    assert "attention-maps" not in pictures
    layer, head = long.head
    asked = replace(long, settings=replace(long.settings, layer=layer))
    figure = next(
        part for part in heads_section(asked).parts if part.name == f"attention-layer-{layer}-head-{head}"
    ).draw()
    assert figure.axes[0].get_xlabel() == "distance to the attended token"
    assert long.inside.windows.maps.shape[3] == 2 * long.inside.windows.reach[layer] + 1


def test_no_takeaway_cancels_itself(long):
    most = long.relations.by_type("attended").iloc[0]
    listed = [takeaway for takeaway in takeaways(long) if takeaway.shown_in == "relations"]
    assert bool(listed) == (most["mean"] >= CLEARLY_MORE * reference_count(long, "attended"))
    first = long.totals.top(1, filter=long.settings.filter).iloc[0]
    sink = Sink(int(first["position"]), first["text"], 9.0, 1.0, 9.0, flagged=True)
    seamed = replace(long, totals=replace(long.totals, sinks=(sink,)))
    (received,) = (takeaway.sentence for takeaway in takeaways(seamed) if takeaway.shown_in == "received")
    assert f"at position {first['position']:,} " not in received
    assert "beside the 1 sink at multiples of 512" in received


def test_listed_words_at_positions_that_draw_attention_are_named(long):
    said = [sentence for section in document_sections(long) for sentence in section.sentences]
    assert not any("belong to the position" in sentence for sentence in said)
    first = long.by_position["attcat"].to_frame().iloc[0]
    sink = Sink(int(first["position"]), first["text"], 9.0, 1.0, 9.0, flagged=True)
    seamed = replace(long, totals=replace(long.totals, sinks=(sink,)))
    said = [sentence for section in document_sections(seamed) for sentence in section.sentences]
    (named,) = (sentence for sentence in said if "belong to the position" in sentence)
    assert f"“{first['text']}” ({first['position']:,})" in named


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1400, 1920])
def test_the_page_opens_with_links_that_lead_to_the_figures(browser, long, tmp_path, width, scheme):
    write_inspection(tmp_path / "out", long)
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto((tmp_path / "out" / "index.html").as_uri())
    assert page.locator("main section").first.get_attribute("id") == "takeaways"
    links = page.locator(".takeaways a")
    assert links.count() == len(takeaways(long))
    for place in range(links.count()):
        address = links.nth(place).get_attribute("href")
        assert address == TEXT_PAGE or page.locator(address).count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
