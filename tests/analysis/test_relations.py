"""Relations against a search through the full matrices, token by token."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.analysis import TokenFilter, relation_counts
from sightline.analysis.relations import top_partners
from sightline.attention import BandedAttention, DenseAttention
from sightline.errors import OptionError
from tests.analysis.sources import Source, banded_source
from tests.attention.bands import bands
from tests.sample_explanations import encoding


def slow_partners(matrix, allowed, keep, k):
    """For every row the k best allowed columns, both kept; strongest first, then by position."""
    lists = []
    for i in range(len(matrix)):
        candidates = [j for j in range(len(matrix)) if keep[i] and keep[j] and allowed[i, j]]
        lists.append(sorted(candidates, key=lambda j: (-matrix[i, j], j))[:k])
    return lists


def as_lists(indices):
    return [[int(j) for j in row if j >= 0] for row in indices]


@settings(deadline=None, max_examples=60)  # the first call compiles
@given(bands(largest=25), st.integers(1, 6), st.integers(0, 2**30))
def test_dropped_tokens_leave_before_the_ranking_on_band_and_matrix(band, k, seed):
    rng = np.random.default_rng(seed)
    n = band.local.shape[1]
    keep = rng.random(n) < 0.6
    allowed = np.array([[band.may_attend(i, j) for j in range(n)] for i in range(n)])
    weights = np.abs(band.slow_dense())
    banded = BandedAttention(np.abs(band.local), np.abs(band.global_rows), band.global_tokens, band.block_size)
    for attention in (banded, DenseAttention(weights, allowed)):
        attended, attending = top_partners(attention, k, keep)
        for head, matrix in enumerate(weights):
            assert as_lists(attended.indices[head]) == slow_partners(matrix, allowed, keep, k)
            assert as_lists(attending.indices[head]) == slow_partners(matrix.T, allowed.T, keep, k)
            for i, row in enumerate(as_lists(attended.indices[head])):
                np.testing.assert_array_equal(attended.values[head, i, : len(row)], matrix[i, row])
                assert not attended.values[head, i, len(row) :].any()


FILTER = TokenFilter()


@pytest.mark.parametrize("filter", [None, FILTER], ids=["unmasked", "masked"])
@pytest.mark.parametrize("dense", [False, True], ids=["band", "matrix"])
def test_counts_say_how_often_a_position_is_a_partner(filter, dense):
    source = banded_source()
    if dense:
        source = source.dense()
    n, k = len(source.encoding), 3
    keep = np.ones(n, bool) if filter is None else filter.keep_tokens(source.encoding)
    counts = relation_counts(source, k, filter)
    for layer in range(3):
        allowed = np.stack([source.attentions[layer].allowed(i) for i in range(n)])
        for head in range(2):
            matrix = source.matrices[layer, head]
            attended = slow_partners(matrix, allowed, keep, k)
            attending = slow_partners(matrix.T, allowed.T, keep, k)
            both = [set(a) & set(b) for a, b in zip(attended, attending, strict=True)]
            for side, lists in (("attended", attended), ("attending", attending), ("mutual", both)):
                expected = Counter(j for partners in lists for j in partners)
                np.testing.assert_array_equal(getattr(counts, side)[layer, head], [expected[j] for j in range(n)])


@pytest.mark.parametrize("filter", [None, FILTER], ids=["unmasked", "masked"])
@pytest.mark.parametrize("side", ["attended", "attending", "mutual"])
def test_every_querying_token_counts_once_over_layers_heads_and_ranks(filter, side):
    source = banded_source()
    n, k = len(source.encoding), 3
    keep = np.ones(n, bool) if filter is None else filter.keep_tokens(source.encoding)
    partners = {}
    for layer in range(3):
        allowed = np.stack([source.attentions[layer].allowed(i) for i in range(n)])
        for head in range(2):
            matrix = source.matrices[layer, head]
            attended = slow_partners(matrix, allowed, keep, k)
            attending = slow_partners(matrix.T, allowed.T, keep, k)
            both = [set(a) & set(b) for a, b in zip(attended, attending, strict=True)]
            partners[layer, head] = {"attended": attended, "attending": attending, "mutual": both}[side]

    def expected(cells):
        union = [set().union(*(partners[cell][i] for cell in cells)) for i in range(n)]
        return [sum(j in union[i] for i in range(n)) for j in range(n)]

    counts = relation_counts(source, k, filter)
    everywhere = [(layer, head) for layer in range(3) for head in range(2)]
    np.testing.assert_array_equal(counts.counts(side), expected(everywhere))
    np.testing.assert_array_equal(counts.counts(side, layer=1), expected([(1, 0), (1, 1)]))
    np.testing.assert_array_equal(counts.counts(side, head=1), expected([(0, 1), (1, 1), (2, 1)]))
    np.testing.assert_array_equal(counts.counts(side, 2, 0), expected([(2, 0)]))
    may_see = np.stack([source.attentions[0].allowed(i) for i in range(n)])
    assert (counts.counts(side) <= (may_see | may_see.T).sum(axis=0)).all()
    assert (counts.counts(side) <= counts.counts(side, count="pairs")).all()
    pairs_only = relation_counts(source, k, filter, distinct=False)
    np.testing.assert_array_equal(pairs_only.counts(side, count="pairs"), counts.counts(side, count="pairs"))
    with pytest.raises(OptionError, match="Only pairs were counted"):
        pairs_only.counts(side)


def test_counts_add_up_within_a_head_a_layer_and_over_all():
    counts = relation_counts(banded_source(), 2)
    np.testing.assert_array_equal(counts.counts("attended", 1, 0), counts.attended[1, 0])
    np.testing.assert_array_equal(counts.counts("attending", -1, count="pairs"), counts.attending[2].sum(axis=0))
    np.testing.assert_array_equal(counts.counts("mutual", head=1, count="pairs"), counts.mutual[:, 1].sum(axis=0))
    np.testing.assert_array_equal(counts.counts(count="pairs"), counts.attended.sum(axis=(0, 1)))
    weights = np.array([[1.0, 2.0], [0.0, 1.0], [4.0, 1.0]])
    expected = np.einsum("lh,lhn->n", weights / weights.mean(), counts.attended)
    np.testing.assert_allclose(counts.counts(head_weights=weights), expected)
    np.testing.assert_allclose(counts.counts(head_weights=np.ones((3, 2))), counts.counts(count="pairs"))
    with pytest.raises(OptionError, match="use count='pairs'"):
        counts.counts(head_weights=weights, count="tokens")
    with pytest.raises(OptionError, match="count='lists' is not known"):
        counts.counts(count="lists")
    with pytest.raises(OptionError, match="direction='both' is not known"):
        counts.counts("both")
    with pytest.raises(OptionError, match="Layer 3 asked for"):
        counts.counts(layer=3)


def test_types_put_the_instances_of_a_word_together_whatever_their_case():
    source = banded_source()  # "The river runs past the old mill. ... Hello, Miller! The mill is old."
    counts = relation_counts(source, 3)
    words = counts.by_position()
    totals = words.assign(type=words.text.str.casefold()).groupby("type")["count"].sum()
    types = counts.by_type()
    assert (types.set_index("type")["count"][totals.index] <= totals).all()
    assert types["count"].is_monotonic_decreasing
    assert types.set_index("type").instances["the"] == 3
    assert types.set_index("type").loc["the", "mean"] == pytest.approx(totals["the"] / 3)
    pairs = counts.by_position(count="pairs")
    assert pairs["count"].sum() == counts.counts(count="pairs")[~source.encoding.special].sum()
    assert list(counts.by_type(top=2).type) == list(types.type[:2])


def test_pairs_of_a_word_are_those_of_all_its_tokens():
    source = banded_source()
    counts = relation_counts(source, 3)
    document = source.encoding
    (place,) = [w for w, word in enumerate(document.words) if word.text == "Miller"]
    tokens = np.flatnonzero(document.word_ids == place)
    assert len(tokens) == 2
    row = counts.by_position(count="pairs").set_index("position").loc[tokens[0]]
    assert (row.text, row["count"]) == ("Miller", counts.counts(count="pairs")[tokens].sum())
    pieces = counts.by_position(level="token").set_index("position")
    assert pieces.loc[tokens[1], "count"] == counts.counts()[tokens[1]]


SPLIT = "Miller runs. The unrivalled miller past the old Rivermill runs; hello, Millerrun! The mill is old, Miller."


@pytest.mark.parametrize("filter", [None, FILTER], ids=["unmasked", "masked"])
@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("dense", [False, True], ids=["band", "matrix"])
def test_a_querying_token_counts_once_for_all_tokens_of_a_word(filter, k, dense):
    source = banded_source(SPLIT, window=6)
    source = source.dense() if dense else source
    document = source.encoding
    n = len(document)
    keep = np.ones(n, bool) if filter is None else filter.keep_tokens(document)
    tokens_of = {}
    for position, word in enumerate(document.word_ids.tolist()):
        if word >= 0 and keep[position]:
            tokens_of.setdefault(word, []).append(position)
    assert sum(len(tokens) > 1 for tokens in tokens_of.values()) >= 3
    counts = relation_counts(source, k, filter)
    lists = {}
    for layer in range(3):
        allowed = np.stack([source.attentions[layer].allowed(i) for i in range(n)])
        for head in range(2):
            matrix = source.matrices[layer, head]
            attended = slow_partners(matrix, allowed, keep, k)
            attending = slow_partners(matrix.T, allowed.T, keep, k)
            mutual = [set(a) & set(b) for a, b in zip(attended, attending, strict=True)]
            lists[layer, head] = {"attended": attended, "attending": attending, "mutual": mutual}
    for where in ({}, {"layer": 1}, {"head": 1}, {"layer": 2, "head": 0}, {"layer": -1, "head": 1}):
        cells = [
            lists[layer, head]
            for layer in range(3)
            for head in range(2)
            if where.get("layer", layer) % 3 == layer and where.get("head", head) % 2 == head
        ]
        by_side = {}
        for side in ("attended", "attending", "mutual"):
            expected = {
                tokens[0]: len({i for cell in cells for i in range(n) if set(cell[side][i]) & set(tokens)})
                for tokens in tokens_of.values()
            }
            by_side[side] = expected
            frame = counts.by_position(side, **where)
            assert dict(zip(frame.position, frame["count"], strict=True)) == expected
            assert frame["count"].max() <= keep.sum()
            type_of = {
                position: document.words[word].text.casefold()
                for word, tokens in tokens_of.items()
                for position in tokens
            }
            # Algorithm 2: for every token the set of types among its partners, then how many sets hold each type.
            sets = [{type_of[j] for cell in cells for j in cell[side][i] if j in type_of} for i in range(n)]
            by_type = Counter(kind for types in sets for kind in types)
            types = counts.by_type(side, **where)
            assert dict(zip(types.type, types["count"], strict=True)) == {
                kind: by_type[kind] for kind in type_of.values()
            }
            assert types["count"].max() <= keep.sum()
            pieces = {position: document.tokens[position].casefold() for position in type_of}
            piece_sets = [{pieces[j] for cell in cells for j in cell[side][i] if j in pieces} for i in range(n)]
            by_piece = Counter(kind for kinds in piece_sets for kind in kinds)
            frame = counts.by_type(side, level="token", **where)
            assert sum(frame["count"]) == sum(by_piece.values())
            assert frame["count"].max() == max(by_piece.values())
        for row in counts.instances("miller", **where).itertuples():
            for side, expected in by_side.items():
                assert getattr(row, side) == expected[row.position]
        for row in counts.intersection(by="position", top=5, **where).itertuples():
            assert (row.attended, row.attending) == (
                by_side["attended"][row.position],
                by_side["attending"][row.position],
            )
    with pytest.raises(OptionError, match="Tokens are not counted by sentence"):
        counts.by_position(level="sentence")


@pytest.mark.parametrize("filter", [None, FILTER], ids=["unmasked", "masked"])
@pytest.mark.parametrize("causal", [False, True])
def test_lists_that_hold_every_visible_token_are_saturated(filter, causal):
    document = encoding(SPLIT)
    n = len(document)
    rng = np.random.default_rng(3)
    allowed = np.tril(np.ones((n, n), bool)) if causal else np.ones((n, n), bool)
    layers = [DenseAttention(rng.random((2, n, n)) * allowed, allowed) for _ in range(3)]
    source = Source(document, layers)
    kept = n if filter is None else int(filter.keep_tokens(document).sum())
    for k in (1, kept // 2, kept - 1, kept):
        counts = relation_counts(source, k, filter)
        keep = np.ones(n, bool) if filter is None else filter.keep_tokens(document)
        for where in ({}, {"layer": 1}, {"head": 0}, {"layer": 2, "head": 1}):
            cells = [
                slow_partners(layers[layer].dense()[head], allowed, keep, k)
                for layer in range(3)
                for head in range(2)
                if where.get("layer", layer) == layer and where.get("head", head) == head
            ]
            visible = [set(np.flatnonzero(allowed[i] & keep).tolist()) if keep[i] else set() for i in range(n)]
            union = [set().union(*(cell[i] for cell in cells)) for i in range(n)]
            assert (counts.saturation("attended", **where) == 1) == (union == visible)
            held, possible = (sum(map(len, sets)) for sets in (union, visible))
            assert counts.saturation("attended", **where) == pytest.approx(held / possible)
            every = all(set(cell[i]) == visible[i] for cell in cells for i in range(n))
            assert (counts.saturation("attended", **where, count="pairs") == 1) == every
        assert (counts.saturation("attending", 0, 0) == 1) == (k >= kept)
    assert counts.saturation("attending") == 1
    if not causal:
        assert set(counts.by_position()["count"]) == {float(kept)}


def test_the_intersection_holds_types_that_are_high_in_both_lists():
    counts = relation_counts(banded_source(), 3)
    attended, attending = (list(counts.by_type(side, top=5).type) for side in ("attended", "attending"))
    frame = counts.intersection(top=5)
    assert set(frame.type) == set(attended) & set(attending)
    for row in frame.itertuples():
        assert attended[row.attended_rank - 1] == attending[row.attending_rank - 1] == row.type


def test_the_intersection_by_position_holds_single_words():
    relations = relation_counts(banded_source(), 3)
    attended, attending = (relations.by_position(side, top=6) for side in ("attended", "attending"))
    frame = relations.intersection(by="position", top=6)
    assert set(frame.position) == set(attended.position) & set(attending.position)
    counts = attending.set_index("position")
    for row in frame.itertuples():
        assert (counts.loc[row.position, "count"], counts.loc[row.position, "rank"]) == (
            row.attending,
            row.attending_rank,
        )
        assert attended.set_index("position").loc[row.position, "text"] == row.text


def test_instances_say_where_each_instance_of_a_word_is():
    source = banded_source()
    counts = relation_counts(source, 3)
    frame = counts.instances("THE", layer=0)
    text = source.encoding.text
    assert [text[row.start : row.end] for row in frame.itertuples()] == ["The", "the", "The"]
    order = counts.by_position("attending", layer=0)
    for row in frame.itertuples():
        assert order.set_index("position").loc[row.position, "rank"] == row.attending_rank
        assert row.attending == counts.counts("attending", 0)[row.position]
    pairs = counts.instances("THE", count="pairs")
    assert pairs.attended.tolist() == [counts.counts(count="pairs")[position] for position in pairs.position]
    assert len(counts.instances("giraffe")) == 0
    assert len(relation_counts(source, 3, FILTER).instances("the")) == 0  # a stop word


def test_short_documents_have_fewer_partners_than_requested():
    source = banded_source("old")
    assert len(source.encoding) == 3
    counts = relation_counts(source, 10)
    np.testing.assert_array_equal(counts.counts("attended", 0, 0), [3, 3, 3])
    single_token = Source(encoding("old").drop([0, 2]), [DenseAttention(np.ones((2, 1, 1)))])
    np.testing.assert_array_equal(relation_counts(single_token, 10).counts(), [1])
    np.testing.assert_array_equal(relation_counts(single_token, 10).counts(count="pairs"), [2])
    assert relation_counts(single_token, 10).by_type().to_dict("list") == {
        "rank": [1], "type": ["old"], "count": [1.0], "instances": [1], "mean": [1.0],
    }  # fmt: skip
    with pytest.raises(OptionError, match="k must be a whole number of at least 1, not 0"):
        relation_counts(single_token, 0)


def test_only_stop_words_leave_empty_tables_without_nan():
    source = banded_source("the the is")
    counts = relation_counts(source, 3, FILTER)
    assert not counts.counts().any()
    assert counts.saturation() == 0
    for frame in (
        counts.by_position(),
        counts.by_type(),
        counts.intersection(),
        counts.instances("the"),
        counts.to_frame(),
    ):
        assert len(frame) == 0
        assert len(frame.columns) >= 4
