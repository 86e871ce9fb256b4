"""What all figures have in common: labels that are only labels, files that come out the same, nothing left behind."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.cbook import is_math_text
from matplotlib.font_manager import findSystemFonts

from sightline.errors import UsageError
from sightline.view import plots
from sightline.view.colours import contrast
from sightline.view.plots import style

AWKWARD = ["$x^2$", "$", r"\$", "😀", "a\tb\x1b[0m", "", " ", "\n", "{}", "_a^b", "אבג", "‮evil", r"\frac{1}{0}"]


def bars(labels=("a", "b"), title="A title"):
    return plots.ranked_bars([plots.Ranking("panel", list(labels), [1.0] * len(labels))], title=title)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
@settings(deadline=None)
def test_no_text_is_read_as_mathematics_and_every_character_has_a_glyph(text):
    label = style.to_label(text)
    assert not is_math_text(label)
    assert not any(ord(sign) < 32 for sign in label)
    assert style.replace_missing(label) == label


@pytest.mark.parametrize("text", ["plain", "$x$", "a$b", r"\$", "50 $ and 20 $"])
def test_a_label_shows_exactly_what_the_text_says(text):
    drawn = bars([text]).axes[0].get_yticklabels()[0]
    assert drawn._preprocess_math(drawn.get_text()) == (text, False)


def test_awkward_labels_are_drawn_without_a_warning_or_a_log_line(tmp_path, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = bars(AWKWARD, title=" ".join(AWKWARD))
        for form in ("svg", "png", "pdf"):
            style.save_figure(figure, tmp_path / f"figure.{form}")
    assert caplog.text == ""


@pytest.fixture
def only_the_default_font(monkeypatch):
    """As if no font were installed but those of matplotlib."""
    monkeypatch.setattr(style, "_further_families", lambda: ())
    style._family_of.cache_clear()
    yield
    style._family_of.cache_clear()


def test_one_warning_names_the_scripts_that_no_font_can_draw(only_the_default_font, tmp_path):
    with pytest.warns(UserWarning, match="No installed font can draw") as caught:
        figure = bars(["漢字", "字", "한국어", "हिन्दी", "plain", "العربية"], title="漢 \U0001fabf")
    (warning,) = caught
    assert "(Chinese characters, Devanagari, Hangul, symbols); each is drawn as ▯. Install a font" in str(
        warning.message
    )
    assert warning.filename == __file__
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][:2] == ["▯▯", "▯"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        style.save_figure(figure, tmp_path / "figure.svg")
        bars(["plain", "العربية"])


def test_a_character_that_the_default_font_lacks_is_drawn_with_any_installed_font_that_has_it(monkeypatch):
    """A font for one language is not on every machine: here the glyphs of the installed ones are set."""
    glyphs = {style.FONT: {ord("a")}, "First": {ord("b")}, "Second": {ord("b"), ord("漢")}}
    monkeypatch.setattr(style, "_further_families", lambda: ("First", "Second"))
    monkeypatch.setattr(style, "_glyphs", lambda family: glyphs[family])
    style._family_of.cache_clear()
    try:
        assert style.font_families("aa\na") == [style.FONT]
        assert style.font_families("a漢b") == [style.FONT, "Second", "First"]
        assert style.replace_missing("a漢字") == "a漢▯"
    finally:
        style._family_of.cache_clear()


def test_installed_fonts_are_found_without_those_that_have_a_box_for_everything():
    families = style._further_families()
    assert "Last Resort High-Efficiency" not in families
    assert not any(name.startswith(("STIX", "cm")) for name in families)
    installed = {Path(path).name for path in findSystemFonts()}
    if "DejaVuSerif.ttf" in installed:
        assert "DejaVu Serif" in families


@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_the_same_numbers_give_the_same_bytes(tmp_path, form):
    first, second, again = (tmp_path / f"{name}.{form}" for name in ("first", "second", "again"))
    figure = bars()
    style.save_figure(figure, first)
    style.save_figure(figure, again)
    style.save_figure(bars(), second)
    assert first.read_bytes() == second.read_bytes() == again.read_bytes()


def test_the_order_in_which_files_are_written_does_not_matter(tmp_path):
    first, other = bars(), bars()
    for figure, forms in ((first, ("svg", "png")), (other, ("png", "svg"))):
        for form in forms:
            style.save_figure(figure, tmp_path / f"{id(figure)}.{form}")
    for form in ("svg", "png"):
        assert (tmp_path / f"{id(first)}.{form}").read_bytes() == (tmp_path / f"{id(other)}.{form}").read_bytes()


def test_svg_has_no_date_and_no_script(tmp_path):
    style.save_figure(bars(["<script>alert(1)</script>", "--><script>"]), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert "<dc:date>" not in text
    assert "<script" not in text


def test_an_unknown_form_is_refused_with_the_known_ones_and_nothing_is_written(tmp_path):
    with pytest.raises(UsageError, match="svg, png, pdf"):
        style.save_figure(bars(), tmp_path / "figure.jpeg")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_writing_leaves_no_file(tmp_path, monkeypatch):
    def fail(*_args, **_options):
        raise OSError("disk full")

    monkeypatch.setattr("matplotlib.backends.backend_svg.FigureCanvasSVG.print_svg", fail)
    with pytest.raises(UsageError, match="disk full"):
        style.save_figure(bars(), tmp_path / "figure.svg")
    assert list(tmp_path.iterdir()) == []


def test_the_user_s_settings_neither_change_a_figure_nor_are_changed_by_it(tmp_path):
    style.save_figure(bars(), tmp_path / "plain.svg")
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.hashsalt": "other"}):
        before = dict(matplotlib.rcParams)
        style.save_figure(bars(), tmp_path / "own.svg")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "own.svg").read_bytes()


@pytest.mark.parametrize("path", sorted(Path(plots.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_matplotlib_is_imported_when_a_figure_is_drawn_and_pyplot_never(path):
    tree = ast.parse(path.read_text())
    at_import = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert "matplotlib" not in " ".join(map(ast.unparse, at_import))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert "pyplot" not in " ".join(map(ast.unparse, imports))


@pytest.mark.parametrize("colour", [style.INK, style.QUIET])
def test_text_has_contrast_on_white(colour):
    assert contrast(colour, "#ffffff") >= 4.5


def test_for_and_against_differ_in_lightness_for_those_who_do_not_see_the_hue():
    """Both ends are dark and the middle is light, so sign is read from hue that survives red-green blindness."""
    colours = style.signed_colours()(np.linspace(0, 1, 5))
    lightness = colours[:, :3] @ (0.299, 0.587, 0.114)
    assert lightness[2] > lightness[1] > lightness[0]
    assert lightness[2] > lightness[3] > lightness[4]
    blue_minus_red = colours[:, 2] - colours[:, 0]
    assert blue_minus_red[1] < -0.3
    assert blue_minus_red[3] > 0.3
