"""Totals against sums over the full matrices."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.analysis import TokenFilter, sinks, totals
from sightline.errors import InputError, OptionError
from tests.analysis.sources import banded_source
from tests.tiny_models import tiny_ids, tiny_model

WEIGHTS = np.array([[1.0, 3.0], [0.0, 0.5], [2.0, 2.0]])


@pytest.fixture(scope="module")
def source():
    return banded_source()


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_received_is_the_column_sum_of_every_head(family):
    model = tiny_model(family)
    trace = model.trace(model.encode(ids=tiny_ids(family, 20)))
    expected = np.stack([layer.dense().sum(axis=1) for layer in trace.attentions])
    np.testing.assert_allclose(totals(trace).received, expected, atol=1e-9)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unscaled", "scaled"])
def test_layers_and_halves_are_means_of_heads(source, weights):
    received_totals = totals(source, weights)
    w = np.ones((3, 2)) if weights is None else weights
    sums = source.matrices.sum(axis=2)

    def mean(layers):
        total = sum(w[layer, head] * sums[layer, head] for layer in layers for head in range(2))
        return total / sum(w[layer].sum() for layer in layers)

    np.testing.assert_allclose(received_totals.per_layer(), [mean([layer]) for layer in range(3)])
    for choice, layers in {
        "lower": [0],
        "upper": [1, 2],
        "all": [0, 1, 2],
        "last": [2],
        -2: [1],
        (0, 2): [0, 2],
    }.items():
        np.testing.assert_allclose(received_totals.over(choice), mean(layers), err_msg=str(choice))
    np.testing.assert_allclose(received_totals.over(1, 1), sums[1, 1])


def test_a_layer_without_weighty_heads_receives_nothing(source):
    received_totals = totals(source, np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]))
    assert not received_totals.over(0).any()
    assert not received_totals.over("lower").any()


def test_one_position_has_a_rank_in_every_head(source):
    received_totals = totals(source)
    for position in (0, 5):
        place = received_totals.at(position)
        sums = source.matrices.sum(axis=2)
        for layer, head in np.ndindex(3, 2):
            assert place.ranks[layer, head] == 1 + sum(
                other > sums[layer, head, position] for other in sums[layer, head]
            )
            assert place.received[layer, head] == pytest.approx(sums[layer, head, position])
        assert place.to_frame().columns.tolist() == ["layer", "head", "received", "rank"]
        assert len(place.to_frame()) == 6
    with pytest.raises(OptionError, match="Token 99 asked for"):
        received_totals.at(99)


def test_the_table_ranks_words_and_leaves_out_what_the_filter_drops(source):
    received_totals = totals(source)
    frame = received_totals.top(5)
    assert frame.received.is_monotonic_decreasing
    received = received_totals.over("all")
    document = source.encoding
    words = {int(p[0]): received[p].sum() for p in document.word_positions() if len(p)}
    assert frame.position.tolist() == sorted(words, key=lambda p: (-words[p], p))[:5]
    np.testing.assert_allclose(frame.share, frame.received / len(document))
    masked = received_totals.top(100, filter=TokenFilter())
    assert not set(masked.text.str.lower()) & {"the", "is", ".", ",", "!"}
    assert (
        len(received_totals.top(3, filter=TokenFilter(words=("river", "runs", "past", "old", "hello", "miller")))) == 0
    )


def test_the_frame_holds_every_token_or_word(source):
    received_totals = totals(source)
    tokens, words = received_totals.to_frame(), received_totals.to_frame("word")
    assert tokens.columns.tolist() == [
        "position",
        "text",
        "special",
        "lower",
        "upper",
        "all",
        *(f"layer_{i}" for i in range(3)),
    ]
    np.testing.assert_allclose(tokens["all"], received_totals.over("all"))
    assert words["all"].sum() == pytest.approx(tokens["all"][~tokens.special].sum())
    assert not tokens.isna().any(axis=None)


def test_sinks_at_multiples_of_512_are_flagged_beside_their_neighbours():
    rng = np.random.default_rng(0)
    received = rng.uniform(0.8, 1.2, 1300)
    received[512] = 4.0
    flagged_sinks = sinks(received, [str(i) for i in range(1300)])
    assert [(sink.position, sink.token, sink.flagged) for sink in flagged_sinks] == [
        (512, "512", True),
        (1024, "1024", False),
    ]
    neighbours = np.r_[received[496:512], received[513:529]]
    assert flagged_sinks[0].neighbours == pytest.approx(np.median(neighbours))
    assert flagged_sinks[0].ratio == pytest.approx(4.0 / np.median(neighbours))


def test_sinks_have_a_defined_ratio_at_the_end_and_where_nothing_is_received():
    tokens = ["x"] * 9
    assert [sink.position for sink in sinks(np.ones(9), tokens, period=4)] == [4, 8]
    silent = sinks(np.zeros(9), tokens, period=4)
    assert [(sink.ratio, sink.flagged) for sink in silent] == [(0.0, False)] * 2
    lone = sinks(np.eye(9)[4], tokens, period=4)
    assert lone[0].flagged
    assert np.isfinite(lone[0].ratio)
    assert sinks(np.ones(3), tokens[:3], period=1)[0].neighbours == 0.0
    with pytest.raises(InputError, match="9 tokens and 8 values"):
        sinks(np.ones(8), tokens)


def test_sinks_are_looked_for_in_longformer_only():
    for family, expected in (("bert", 0), ("longformer", 0)):
        model = tiny_model(family)
        assert len(totals(model.trace(model.encode(ids=tiny_ids(family, 20)))).sinks) == expected  # 20 < 512
    long = banded_source("river " * 520)
    assert [sink.position for sink in totals(long).sinks] == [512]
    assert totals(long.dense()).sinks == ()
    assert totals(long).sinks_frame().columns.tolist() == [
        "position",
        "token",
        "received",
        "neighbours",
        "ratio",
        "flagged",
    ]


def test_bad_choices_of_layers_are_sentences(source):
    received_totals = totals(source)
    with pytest.raises(OptionError, match="layers='middle' is not known"):
        received_totals.over("middle")
    with pytest.raises(OptionError, match="No layer was chosen"):
        received_totals.over([])
    with pytest.raises(OptionError, match="Layer 4 asked for"):
        received_totals.over([0, 4])
    with pytest.raises(InputError, match="the model has 3 layers of 2 heads"):
        totals(source, np.ones((2, 2)))
    with pytest.raises(InputError, match="not negative"):
        totals(source, -np.ones((3, 2)))


def test_the_only_layer_of_a_model_is_its_lower_and_upper_half():
    received_totals = totals(banded_source(layers=1))
    np.testing.assert_array_equal(received_totals.over("lower"), received_totals.over("upper"))
