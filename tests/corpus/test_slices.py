"""Slices are compared with Welch's test, a bootstrap interval and a correction for many words."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import sightline as sl
from sightline.corpus.slices import benjamini_hochberg, compare_slices
from sightline.errors import InputError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("rule", ["mean-all", "mean-present"])
def test_differences_and_p_values_equal_a_test_on_the_documents_themselves(store, rule):
    first, second = "row % 2 = 0", "row % 2 = 1"
    comparison = compare_slices(
        store, first, second, method="attcat", class_="PL", rule=rule, min_documents=4, by="type", top=None
    )
    assert comparison.documents == tuple(len(store.documents(f"status = 'done' AND {s}")) for s in (first, second))
    assert comparison.tested == len(comparison.to_frame())
    values = {}
    for name, where in (("first", first), ("second", second)):
        for row in store.documents(f"status = 'done' AND {where}")["row"]:
            frame = store.document(int(row)).explanations["attcat"]["PL"].to_frame("word")
            sums = frame.groupby(frame["word"].str.casefold())["score"].agg("sum" if rule == "mean-all" else "mean")
            values[name, row] = sums
    for record in comparison.to_frame().to_dict("records"):
        sides = []
        for name in ("first", "second"):
            own = [sums.get(record["type"]) for (side, _), sums in values.items() if side == name]
            sides.append([0.0 if value is None else value for value in own if value is not None or rule == "mean-all"])
        assert record["first"] == pytest.approx(np.mean(sides[0]), abs=1e-12)
        assert record["difference"] == pytest.approx(np.mean(sides[0]) - np.mean(sides[1]), abs=1e-12)
        expected = stats.ttest_ind(*sides, equal_var=False).pvalue
        assert record["p"] == pytest.approx(expected, rel=1e-5) or not np.isfinite(expected)
        assert record["low"] <= record["difference"] + 1e-9
        assert record["difference"] <= record["high"] + 1e-9


def test_the_correction_is_that_of_scipy():
    p_values = np.random.default_rng(0).uniform(size=40) ** 3
    np.testing.assert_allclose(benjamini_hochberg(p_values), stats.false_discovery_control(p_values), rtol=1e-12)
    assert benjamini_hochberg(np.array([])).size == 0


def test_a_planted_difference_is_found_and_nothing_else(model, tmp_path):
    generator = np.random.default_rng(1)
    rows = []
    for number in range(60):
        words = list(generator.choice(["river", "mill", "world", "cafe", "old"], size=5))
        rows.append({"text": " ".join([*words, *(["naive"] if number % 2 else ["hello"])]), "label": number % 2})
    store = sl.run(rows, model, ["received_attention"], out=tmp_path / "run", measures=[])
    frame = compare_slices(store, "label = '1'", "label = '0'", top=2).to_frame()
    assert set(frame["type"]) == {"naive", "hello"}
    assert (frame["p_corrected"] < 1e-6).all()
    with pytest.raises(InputError, match="No document"):
        compare_slices(store, "label = '7'", "label = '0'")


def test_two_runs_can_be_compared(store, model, data_file, tmp_path):
    other = sl.run(data_file, model, ["attcat"], out=tmp_path / "run", target="PL", measures=[])
    same = compare_slices(store, "true", "true", other=other, method="attcat", class_="PL", min_documents=8)
    assert np.abs(same.to_frame()["difference"]).max() < 1e-5
