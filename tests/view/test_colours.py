"""The colour scale: monotone, signed, clipped for long documents, readable and told apart by everyone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sightline.view import colours

finite = st.floats(-1e100, 1e100, allow_subnormal=False)


@given(hnp.arrays(np.float64, st.integers(1, 500), elements=finite))
def test_levels_are_signed_monotone_in_magnitude_and_within_range(scores):
    levels = colours.levels(scores)
    assert np.abs(levels).max() <= colours.LEVELS
    assert ((levels == 0) | (np.sign(levels) == np.sign(scores))).all()
    order = np.argsort(np.abs(scores))
    assert (np.diff(np.abs(levels)[order]) >= 0).all()
    if (scores != 0).any():
        assert np.abs(levels).max() == colours.LEVELS


@given(hnp.arrays(np.float64, st.integers(1, 300), elements=st.floats(-1e3, 1e3)), st.integers(-10, 10))
def test_the_scale_does_not_depend_on_the_unit_of_the_scores(scores, power):
    assert (colours.levels(scores) == colours.levels(scores * 2.0**power)).all()


def test_one_outlier_does_not_take_the_colour_from_a_long_document():
    scores = np.full(4000, 0.01)
    scores[7] = 100.0
    assert (colours.levels(scores)[:7] == colours.LEVELS).all()
    # In a short text the strongest word keeps its lead.
    assert colours.levels([0.01, 100.0])[0] == 0


def test_all_zero_or_no_scores_have_no_colour():
    assert (colours.levels(np.zeros(5)) == 0).all()
    assert len(colours.levels([])) == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("hue", ["for", "against", "plain"])
def test_text_is_readable_on_every_step_and_steps_move_away_from_the_background(theme, hue):
    steps = colours.steps(hue, theme)
    assert len(steps) == colours.LEVELS
    assert all(colours.contrast(step, colours.INK[theme]) >= 4.5 for step in steps)
    away = [colours.contrast(step, colours.BACKGROUND[theme]) for step in steps]
    assert away == sorted(away)
    assert away[-1] > 1.5


def simulated(colour: str, matrix: np.ndarray) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return matrix @ np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


# Machado, Oliveira & Fernandes 2009, severity 1, linear RGB.
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", BLINDNESS)
def test_for_and_against_stay_apart_under_colour_blindness(theme, kind):
    matrix = np.array(BLINDNESS[kind])
    apart = np.linalg.norm(
        simulated(colours.FULL[theme]["for"], matrix) - simulated(colours.FULL[theme]["against"], matrix)
    )
    red_green = np.linalg.norm(simulated("#d05050", matrix) - simulated("#50a050", matrix))
    assert apart > (0.35 if theme == "light" else 0.15)
    if kind != "tritanopia" and theme == "light":
        assert apart > red_green


def test_contrast_is_that_of_the_standard():
    assert colours.contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert colours.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
