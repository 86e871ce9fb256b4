"""Attention and first views on disk: small, exact to the stated error, whole or absent."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.analysis import (
    FirstView,
    StoredAttention,
    TokenFilter,
    first_view,
    relation_counts,
    store_attention,
    thumbnails,
    totals,
)
from sightline.analysis.stored import quantised, restored
from sightline.errors import InputError, OptionError, UsageError
from tests.analysis.sources import Source, banded_source
from tests.tiny_models import tiny_ids, tiny_model


@settings(deadline=None)
@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=50), st.integers(4, 5000))
def test_no_weight_is_off_by_more_than_the_stated_error(weights, levels):
    values = np.array(weights, dtype=np.float32)
    found = restored(quantised(values, levels), levels)
    assert np.abs(found - values).max() <= 0.9 / levels + 1e-6  # ε = 1.8 / 2Q
    np.testing.assert_array_equal(found[values == 0], 0)
    assert (found <= 1).all()


@pytest.mark.parametrize("family", ["longformer", "bert", "modernbert"])
@pytest.mark.parametrize("error", [0.005, 0.0005])
def test_layers_come_back_within_the_error_in_the_same_layout(tmp_path, family, error):
    model = tiny_model(family)
    trace = model.trace(model.encode(ids=tiny_ids(family, 25)))
    stored = store_attention(trace, tmp_path / "attention", error=error)
    again = StoredAttention.load(tmp_path / "attention")
    assert again.encoding == trace.encoding
    assert (again.layer_count, again.head_count) == (3, 4)
    difference = 0.0
    for layer in range(3):
        ours, theirs = again.attentions[layer], trace.attentions[layer]
        assert type(ours) is type(theirs)
        for i in range(25):
            np.testing.assert_array_equal(ours.allowed(i), theirs.allowed(i))
        difference = max(difference, np.abs(ours.dense() - theirs.dense()).max())
    assert difference <= error
    assert stored.measured_error == pytest.approx(difference, abs=1e-7)
    np.testing.assert_allclose(again.received, trace.received, rtol=1e-6)


def test_what_is_stored_can_be_analysed_like_a_trace(tmp_path):
    source = banded_source()
    stored = store_attention(source, tmp_path / "attention", error=0.0001)
    np.testing.assert_allclose(thumbnails(stored, 6).pixels, thumbnails(source, 6).pixels, atol=1e-4)
    np.testing.assert_allclose(totals(stored).over("all"), totals(source).over("all"), rtol=1e-6)
    assert relation_counts(stored, 3).attended.sum() == relation_counts(source, 3).attended.sum()


def test_values_that_are_no_weights_are_refused_and_nothing_is_left(tmp_path):
    source = banded_source()
    gradients = Source(source.encoding, [layer.multiply(layer) for layer in source.attentions])
    gradients.attentions[1].local.mul_(-3.0)
    with pytest.raises(InputError, match="gradients cannot be stored this way"):
        store_attention(gradients, tmp_path / "attention")
    assert list(tmp_path.iterdir()) == []
    for error in (0.0, 0.7, float("nan")):
        with pytest.raises(OptionError, match="error = "):
            store_attention(source, tmp_path / "attention", error=error)
    with pytest.raises(UsageError, match="does not exist"):
        store_attention(source, tmp_path / "nowhere" / "attention")


def test_a_first_view_is_the_same_as_its_parts():
    source = banded_source()
    filter = TokenFilter()
    view = first_view(source, size=5, k=3, filter=filter)
    np.testing.assert_array_equal(view.maps.pixels, thumbnails(source, 5).pixels)
    apart = relation_counts(source, 3, filter)
    for side in ("attended", "attending", "mutual"):
        np.testing.assert_array_equal(getattr(view.relations, side), getattr(apart, side))
    np.testing.assert_allclose(view.totals.received, totals(source).received)
    assert view.totals.sinks == totals(source).sinks


def test_a_first_view_survives_saving(tmp_path):
    source = banded_source("river " * 600, heads=1, layers=2)
    view = first_view(
        source, size=9, k=3, filter=TokenFilter(stop_words="de", words=("x",)), head_weights=[[1.0], [2.0]]
    )
    view.save(tmp_path / "view")
    again = FirstView.load(tmp_path / "view")
    brightest = view.maps.pixels.max(axis=(2, 3), keepdims=True)
    assert (np.abs(again.maps.pixels - view.maps.pixels) <= brightest / 250).all()
    assert again.maps.tokens == view.maps.tokens
    for side in ("attended", "attending", "mutual"):
        np.testing.assert_array_equal(getattr(again.relations, side), getattr(view.relations, side))
    np.testing.assert_allclose(again.totals.received, view.totals.received, rtol=0.0221)
    assert again.relations.filter == view.relations.filter
    assert again.totals.sinks == view.totals.sinks
    assert len(again.totals.sinks) == 1
    np.testing.assert_array_equal(again.totals.head_weights, view.totals.head_weights)


def damaged(path, change):
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def header_with(**facts):
    def change(entries):
        entries["header.json"] = json.dumps({**json.loads(entries["header.json"]), **facts}).encode()

    return change


def test_missing_foreign_and_damaged_files_are_sentences(tmp_path):
    path = tmp_path / "attention"
    with pytest.raises(InputError, match="There is no file"):
        StoredAttention.load(path)
    path.write_text("not an archive")
    with pytest.raises(InputError, match="holds no attention saved by Sightline, or is damaged"):
        StoredAttention.load(path)
    first_view(banded_source()).save(path)
    with pytest.raises(InputError, match="holds no attention saved by Sightline"):
        StoredAttention.load(path)
    for change, sentence in (
        (header_with(version=99), "written by a newer Sightline"),
        (header_with(heads="many"), "is damaged"),
        (lambda entries: entries.pop("header.json"), "is damaged"),
    ):
        store_attention(banded_source(), path)
        damaged(path, change)
        with pytest.raises(InputError, match=sentence):
            StoredAttention.load(path)
    for change in (
        lambda entries: entries.update({"layer_1_local.zlib": b"garbage"}),
        lambda entries: entries.pop("layer_1_local.zlib"),
        lambda entries: entries.update({"layer_1_local.zlib": entries["layer_1_local.zlib"][:-20]}),
        header_with(arrays={}),
    ):
        store_attention(banded_source(), path)
        damaged(path, change)
        with pytest.raises(InputError, match="damaged|Cannot read"):
            StoredAttention.load(path).attentions[1]


def test_a_damaged_first_view_is_a_sentence(tmp_path):
    path = tmp_path / "view"
    first_view(banded_source()).save(path)
    damaged(path, header_with(filter={"stop_words": "en", "surprise": 1}))
    with pytest.raises(InputError, match="is damaged"):
        FirstView.load(path)
