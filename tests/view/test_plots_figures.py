"""Every figure shows the numbers it was given, labelled."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import SizeError
from sightline.results.report import Report
from sightline.view import colours, plots
from sightline.view.plots.attention_maps import thumbnails, to_unit_scale
from sightline.view.plots.highlighted_text import laid_out, strongest_lines
from sightline.view.plots.layers import EDGES_PER_NODE, graph_edges, pooled_columns
from tests.sample_explanations import encoding, explanation

GENERATOR = np.random.default_rng(0)


def texts(figure):
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def image(axes):
    return np.asarray(axes.images[0].get_array())


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_head_importance_has_a_cell_and_a_number_a_head():
    values = GENERATOR.random((3, 4))
    figure = plots.head_importance_map(values)
    axes = figure.axes[0]
    np.testing.assert_array_equal(image(axes), values)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("head", "layer")
    assert {f"{value:.2f}" for value in values.ravel()} <= set(texts(figure))


def test_the_grid_shows_every_head_on_its_to_unit_scale_and_frames_it_by_importance():
    maps = GENERATOR.random((2, 3, 8, 8)) * np.array([1.0, 10.0, 0.01])[None, :, None, None]
    importance = np.array([[0.0, 0.5, 1.0], [0.2, 0.1, 0.3]])
    axes = plots.attention_grid(maps, tokens=80, importance=importance).axes[0]
    mosaic, step = image(axes), thumbnails(maps)[1]
    for layer, head in np.ndindex(2, 3):
        cut = mosaic[layer * step : layer * step + 8, head * step : head * step + 8]
        np.testing.assert_array_equal(cut, to_unit_scale(maps)[layer, head])
    assert np.nanmax(mosaic[:, step : 2 * step]) == 1.0 > np.nanmax(mosaic[:, 2 * step :])
    frames = next(collection for collection in axes.collections if collection.get_gid() == "frames")
    assert np.argsort(frames.get_linewidths()).tolist() == np.argsort(importance.ravel()).tolist()


def test_the_grid_says_how_many_tokens_share_a_pixel():
    said = " ".join(texts(plots.attention_grid(np.ones((1, 1, 64, 64)), tokens=4096)))
    assert "4,096 tokens on 64 pixels" in said.replace("\n", " ")
    assert "pools" not in " ".join(texts(plots.attention_grid(np.ones((1, 1, 64, 64)), tokens=64)))


def test_an_empty_map_is_drawn_dark_and_finite():
    np.testing.assert_array_equal(to_unit_scale(np.zeros((4, 4))), np.zeros((4, 4)))


def test_one_head_shows_its_weights_and_names_the_tokens_of_a_short_text():
    weights = GENERATOR.random((3, 3))
    axes = plots.attention_map(weights, ["The", "$5", "mill"]).axes[0]
    np.testing.assert_array_equal(image(axes), weights)
    assert labels(axes.xaxis) == labels(axes.yaxis) == ["The", r"\$5", "mill"]
    assert axes.get_ylabel() == "attending"


def test_bars_are_as_long_as_the_numbers_from_the_first_rank_down():
    ranking = plots.Ranking("for", ["old", "mill"], [3, 1], "count")
    axes = plots.ranked_bars([ranking], title="t").axes[0]
    assert [bar.get_width() for bar in axes.patches] == [3, 1]
    assert labels(axes.yaxis) == ["old", "mill"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_intervals_are_drawn_along_the_bars_and_numbers_stand_behind_them():
    ranking = plots.Ranking("for", ["old", "mill"], [3.0, 1.0], intervals=[(2.0, 5.0), (-1.0, 1.5)])
    axes = plots.ranked_bars([ranking], title="t").axes[0]
    (lines,) = axes.collections
    assert [segment[:, 0].tolist() for segment in lines.get_segments()] == [[2.0, 5.0], [-1.0, 1.5]]
    assert [text.xy[0] for text in axes.texts] == [5.0, 1.5]
    assert axes.get_xlim()[0] < -1.0


def test_an_empty_ranking_says_so():
    assert "nothing to rank" in texts(plots.ranked_bars([plots.Ranking("for", [], [])], title="t"))


def test_bars_side_by_side_have_scales_of_one_length():
    panels = [
        plots.Ranking("for", ["old"], [3.0]),
        plots.Ranking("against", ["mill"], [-1.0]),
        plots.Ranking("", [], []),
    ]
    first, second = (axes.get_xlim() for axes in plots.ranked_bars(panels, title="t").axes[:2])
    assert first == (0.0, -second[0])
    assert second[1] == 0.0


def test_lines_and_dots_share_their_scales():
    lines = plots.lines_over_positions({"low": np.ones(9), "high": np.full(9, 7.0)}, ["w"] * 9, title="t")
    assert len({axes.get_ylim() for axes in lines.axes}) == 1
    measures = {
        name: [plots.Measured("all", value, value, value, 0.0, 0.0, 0.0)]
        for name, value in (("rbo", 0.1), ("tau", 0.9))
    }
    assert len({axes.get_xlim() for axes in plots.similarity_dots(measures, title="t").axes}) == 1


def test_all_zero_bars_have_room():
    axes = plots.ranked_bars([plots.Ranking("for", ["a"], [0.0])], title="t").axes[0]
    assert axes.get_xlim()[1] > axes.get_xlim()[0]


def test_lines_keep_every_value_and_point_at_sinks():
    values = GENERATOR.random(200) + 0.5
    figure = plots.lines_over_positions({"all": values}, ["w"] * 200, sinks=[0, 128], unit="received", title="t")
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), values)
    np.testing.assert_array_equal(axes.lines[1].get_xdata(), [0, 128])
    assert "w @128" in texts(figure)
    assert axes.get_ylabel() == "received"
    assert axes.get_yscale() == "linear"


def test_a_line_with_one_sink_is_logarithmic_so_that_the_rest_is_seen():
    values = np.ones(100)
    values[0] = 1000.0
    assert plots.lines_over_positions({"a": values}, ["w"] * 100, title="t").axes[0].get_yscale() == "log"
    values[1] = 0.0
    assert plots.lines_over_positions({"a": values}, ["w"] * 100, title="t").axes[0].get_yscale() == "linear"


def test_instances_stand_at_their_positions_as_high_as_their_counts():
    figure = plots.instance_counts([3, 40, 77], {"attended": [5, 2, 9], "attending": [0, 1, 1]}, 80, title="t")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["attended", "attending"]
    dots = figure.axes[0].lines[0]
    assert (dots.get_xdata().tolist(), dots.get_ydata().tolist()) == ([3, 40, 77], [5, 2, 9])
    assert {"5", "2", "9", "0"} <= set(texts(figure))


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 5))
def test_pooled_columns_are_the_strongest_of_their_neighbours(n, widest, seed):
    values = np.random.default_rng(seed).standard_normal((2, n))
    pooled = pooled_columns(values, widest)
    assert pooled.shape[1] == min(n, widest)
    for row, kept in zip(values, pooled, strict=True):
        groups = [[] for _ in kept]
        for place, value in enumerate(row):
            group = max(g for g in range(len(kept)) if g * n // len(kept) <= place)
            groups[group].append(value)
        assert kept.tolist() == [max(group, key=abs) for group in groups]


def test_similarity_is_shown_beside_chance():
    dots = [plots.Measured("last layer", 0.4, 0.3, 0.5, 0.1, 0.05, 0.15)]
    figure = plots.similarity_dots({"cosine": dots, "rbo": dots}, title="t")
    axes = figure.axes[0]
    drawn = [line.get_xdata().tolist() for line in axes.lines if len(line.get_xdata()) and line.get_xdata()[0] != 0]
    assert drawn == [[0.05, 0.15], [0.1], [0.3, 0.5], [0.4]]
    assert {"chance", "measured", "cosine", "rbo", "last layer"} <= set(texts(figure))


@pytest.mark.parametrize(("kind", "total"), [("additive", np.sum), ("averaged", np.mean)])
def test_layers_that_add_up_stand_above_the_scores_they_make(kind, total):
    layers = GENERATOR.standard_normal((3, 4))
    figure = plots.layer_heat_map(layers, list("abcd"), kind=kind, signed=True, title="t")
    of_layers, of_total = figure.axes[:2]
    for axes, values in ((of_layers, layers), (of_total, total(layers, axis=0)[None])):
        np.testing.assert_array_equal(image(axes), values)
        assert axes.images[0].norm.vmin == -axes.images[0].norm.vmax
    assert of_layers.images[0].norm.vmax == of_total.images[0].norm.vmax
    assert labels(of_total.xaxis) == list("abcd")
    assert total.__name__.capitalize() in texts(figure)


@pytest.mark.parametrize("kind", ["cumulative", "separate"])
def test_layers_that_do_not_add_up_have_no_sum(kind):
    figure = plots.layer_heat_map(np.ones((3, 4)), list("abcd"), kind=kind, signed=True, title="t")
    assert sum(bool(axes.images) for axes in figure.axes) == 1
    assert not {"Sum", "Mean", "|product|"} & set(texts(figure))
    assert labels(figure.axes[0].xaxis) == list("abcd")


def test_special_tokens_are_grey_and_do_not_stretch_the_colour_scale():
    layers = GENERATOR.standard_normal((3, 5))
    layers[:, [0, 4]] = 100.0
    tokens = ["[CLS]", "a", "b", "c", "[SEP]"]
    figure = plots.layer_heat_map(layers, tokens, kind="additive", signed=True, special=[0, 4], title="t")
    for axes, values in zip(figure.axes[:2], (layers, layers.sum(axis=0, keepdims=True)), strict=True):
        shown = axes.images[0].get_array()
        assert np.ma.getmaskarray(shown).any(axis=0).tolist() == [True, False, False, False, True]
        np.testing.assert_array_equal(shown[:, 1:4], values[:, 1:4])
        assert axes.images[0].norm.vmax <= max(np.abs(layers[:, 1:4]).max(), np.abs(layers[:, 1:4].sum(axis=0)).max())
    assert any("Special tokens are grey" in text.replace("\n", " ") for text in texts(figure))


def test_scores_that_are_all_zero_are_drawn():
    zeros = np.zeros((2, 3))
    plots.layer_heat_map(zeros, list("abc"), kind="additive", signed=False, title="t")


def test_relevance_matrices_have_a_panel_a_layer():
    matrices = GENERATOR.random((6, 3, 3))
    figure = plots.relevance_matrices(matrices, list("abc"), title="t")
    shown = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title(loc="left") for axes in shown] == [f"after layer {layer}" for layer in range(6)]
    np.testing.assert_array_equal(image(shown[4]), to_unit_scale(matrices)[4])


def test_the_graph_s_edges_are_the_strongest_weights_of_every_node():
    weights = GENERATOR.random((2, 8, 8))
    segments, strengths = graph_edges(weights)
    assert strengths == sorted(strengths)
    for (start, end), strength in zip(segments, strengths, strict=True):
        (token, above), (other, below) = start.astype(int), end.astype(int)
        assert above == below + 1
        row = weights[below, token]
        assert row[other] == strength
        assert (row > strength).sum() < EDGES_PER_NODE
    assert len(segments) == 2 * 8 * EDGES_PER_NODE


def test_three_graphs_stand_side_by_side_on_one_input():
    graphs = {name: GENERATOR.random((2, 6, 6)) for name in ("raw attention", "rollout", "flow")}
    figure = plots.attention_graphs(graphs, list("abcdef"), readout=0, title="t")
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(graphs)
    for axes, weights in zip(figure.axes, graphs.values(), strict=True):
        edges = next(collection for collection in axes.collections if collection.get_gid() == "edges")
        assert len(edges.get_segments()) == len(graph_edges(weights)[0])
        assert labels(axes.xaxis) == list("abcdef")
    assert "The 5 strongest lines of every token are drawn" in " ".join(texts(figure))
    with pytest.raises(SizeError, match="41 tokens"):
        plots.attention_graphs({"raw": np.zeros((1, 41, 41))}, ["x"] * 41, title="t")


def test_curves_over_layers_keep_every_value_and_chance():
    curves = {"rollout": np.array([0.1, 0.4, 0.2]), "flow": np.array([0.3, np.nan, 0.5])}
    chance = {"rollout": np.zeros(3)}
    axes = plots.layer_curves(curves, chance=chance, unit="spearman", title="t").axes[0]
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    for name, values in curves.items():
        np.testing.assert_array_equal(lines[name], values)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("layer", "spearman")
    assert axes.get_xticks().tolist() == [0, 1, 2]


def test_the_overlay_names_the_true_label_and_the_total_score():
    scored = explanation()
    said = " ".join(texts(plots.text_overlay(scored, true_label="AI", total=True, title="t"))).replace("\n", " ")
    assert "Predicted “PL” (73 %), true label “AI”." in said
    assert "Total score " + f"{scored.scores.sum():+.3g}.".replace("-", "−") in said


def test_several_methods_stand_on_one_text_each_with_its_total():
    several = {"attcat": explanation(), "rollout": explanation(scores=np.ones(len(encoding())), signed=False)}
    figure = plots.text_overlays(several, true_label="PL", title="t")
    *overlays, _ = figure.axes  # the last one is the scale
    assert len(overlays) == 2
    for axes, scored in zip(overlays, several.values(), strict=True):
        levels = [piece.level for piece in laid_out(scored, 500.0)]
        assert len(axes.patches) == sum(level != 0 for level in levels)
    said = texts(figure)
    assert f"rollout: Total score {len(encoding())}." in said
    assert any("true label “PL”. Totals include special tokens, which are not drawn." in text for text in said)
    tops = [axes.get_position().y0 for axes in overlays]
    assert tops[0] > tops[1]


def test_the_overlay_colours_words_as_the_page_does():
    scored = explanation()
    figure = plots.text_overlay(scored, title="t")
    pieces = laid_out(scored, 500.0)
    scores = [piece.score for piece in pieces]
    assert [piece.level for piece in pieces] == colours.levels(scores).tolist()
    assert len(figure.axes[0].patches) == sum(piece.level != 0 for piece in pieces)
    assert [piece.text for piece in pieces] == [text for text in texts(figure) if text not in ("t", "for", "against")]


def test_the_overlay_keeps_line_breaks_and_stays_within_its_width():
    scored = explanation(encoding("the old mill " * 30 + "\n\nHello, Miller!"))
    pieces = laid_out(scored, 300.0)
    assert max(piece.left + piece.width for piece in pieces) <= 300.0
    assert pieces[-1].line - next(p.line for p in reversed(pieces) if p.text == "mill") == 2


@given(st.lists(st.integers(0, 8), min_size=1, max_size=60), st.integers(5, 20))
@settings(deadline=None)
def test_the_strongest_line_is_shown_with_the_lines_around_it_and_gaps_are_marked(levels, room):
    from sightline.view.plots.highlighted_text import Piece

    pieces = [Piece(line, 0.0, 1.0, "x", level, 1.0) for line, level in enumerate(levels)]
    rows = strongest_lines(pieces, len(levels), room)
    lines = [row for row in rows if row is not None]
    assert len(rows) <= max(room, len(levels) if len(levels) <= room else 0)
    assert lines == sorted(set(lines))
    strongest = levels.index(max(levels))
    assert {strongest - 1, strongest, strongest + 1} & set(range(len(levels))) <= set(lines)
    joined = list(itertools.pairwise([-1, *lines, len(levels)]))
    assert rows.count(None) == sum(after > before + 1 for before, after in joined)


def test_the_overlay_of_a_long_text_fits_a_page_with_a_scale_and_marked_gaps():
    long = explanation(encoding("\n".join(f"the old mill {i} runs past the river" for i in range(300))))
    figure = plots.report_overlay(Report.of([long, explanation(long.encoding, method="rollout")]))
    width, height = figure.get_size_inches()
    assert width <= 7.5
    assert height <= 11
    said = texts(figure)
    assert "[…]" in said
    assert {"for", "against"} <= set(said)
    assert any("of 300 lines" in text.replace("\n", " ") for text in said)


def test_a_straightened_window_has_words_and_distances_on_its_axes():
    figure = plots.window_map(
        np.random.default_rng(0).random((20, 9)), [f"w{i}" for i in range(200)], reach=4, title="x"
    )
    axes = figure.axes[0]
    assert axes.get_xlim() == (-4.5, 4.5)
    names = labels(axes.yaxis)
    assert (names[0], names[-1]) == ("w0  0", "w199  199")


def test_references_are_ticks_across_the_bars():
    ranking = plots.Ranking("most", ["a", "b"], [5.0, 3.0], references=[2.0, 7.0])
    axes = plots.ranked_bars([ranking], title="x").axes[0]
    (ticks,) = [line for line in axes.lines if line.get_marker() == "|"]
    assert list(ticks.get_xdata()) == [2.0, 7.0]
    assert axes.get_xlim()[1] > 7.0


def test_a_notebook_shows_a_figure_as_a_picture_and_no_object_prints_its_arrays():
    from tests.view.sample_inside import sample_inside

    picture = explanation().plot()._repr_png_()
    assert picture.startswith(b"\x89PNG")
    assert len(repr(sample_inside(encoding()))) < 100
