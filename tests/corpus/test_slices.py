"""Slices are compared by permuting them: no word is found in random slices, and a planted one is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_matrix

import sightline as sl
from sightline.corpus.aggregation import compare_slices, permute_slices
from sightline.corpus.corpus_summary import summarise
from sightline.errors import InputError, OptionError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("rule", ["mean-all", "mean-present"])
def test_differences_are_those_of_the_documents_themselves(store, rule):
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
        assert 0.0 < record["p"] <= record["p_corrected"] <= 1.0
        assert not record["low"] > record["difference"] + 1e-9
        assert not record["high"] < record["difference"] - 1e-9


@pytest.fixture(scope="module")
def sentences():
    """Scores of 600 words, Zipf distributed, in 500 sentences of 15 words: (values, holds)."""
    generator = np.random.default_rng(0)
    frequency = 1 / np.arange(1, 601)
    holds = np.zeros((500, 600))
    np.put_along_axis(holds, generator.choice(600, size=(500, 15), p=frequency / frequency.sum()), 1, axis=1)
    return holds * generator.standard_t(4, size=holds.shape), holds


def _random_slices(size, trials):
    generator = np.random.default_rng(size)
    for _ in range(trials):
        is_first = np.zeros(500, dtype=bool)
        is_first[generator.choice(500, size, replace=False)] = True
        yield is_first, generator


@pytest.mark.parametrize("size", [15, 40, 100, 250])
@pytest.mark.parametrize("rule", ["mean-all", "mean-present"])
def test_random_slices_have_a_significant_word_in_at_most_five_percent(sentences, size, rule):
    values, holds = map(csr_matrix, sentences)
    trials = 60
    found = sum(
        permute_slices(values, holds, np.ones(500), is_first, rule=rule, permutations=199, seed=seed).p_corrected.min()
        <= 0.05
        for seed, (is_first, _) in enumerate(_random_slices(size, trials))
    )
    assert found <= stats.binom.ppf(0.999, trials, 0.05)


@pytest.mark.parametrize("size", [15, 40, 250])
def test_a_word_of_one_slice_is_found_among_hundreds_of_others(sentences, size):
    values, holds = sentences
    found, trials = 0, 30
    for seed, (is_first, generator) in enumerate(_random_slices(size, trials)):
        planted = np.where(is_first, generator.random(500) < 0.5, False).astype(float)
        both = (csr_matrix(np.column_stack([part, planted])) for part in (values, holds))
        found += permute_slices(*both, np.ones(500), is_first, permutations=199, seed=seed).p_corrected[-1] <= 0.05
    assert found >= 0.8 * trials


def test_a_planted_difference_is_found_and_nothing_else(model, tmp_path):
    first, second = model.labels[:2]
    generator = np.random.default_rng(1)
    rows = []
    for number in range(60):
        words = list(generator.choice(["river", "mill", "world", "cafe", "old"], size=5))
        rows.append(
            {"text": " ".join([*words, *(["naive"] if number % 2 else ["hello"])]), "label": model.labels[number % 2]}
        )
    store = sl.run(rows, model, ["received_attention"], out=tmp_path / "run", measures=[])
    frame = compare_slices(store, f"label = '{second}'", f"label = '{first}'", top=2).to_frame()
    assert set(frame["type"]) == {"naive", "hello"}
    assert (frame["p_corrected"] < 0.01).all()
    with pytest.raises(InputError, match="No document"):
        compare_slices(store, "label = 'none'", f"label = '{first}'")


def test_two_runs_can_be_compared(store, model, data_file, tmp_path):
    other = sl.run(data_file, model, ["attcat"], out=tmp_path / "run", target="PL", measures=[])
    same = compare_slices(store, "true", "true", other=other, method="attcat", class_="PL", min_documents=8)
    assert np.abs(same.to_frame()["difference"]).max() < 1e-5


def test_documents_that_were_explained_for_different_classes_are_not_compared(model, tmp_path):
    texts = [f"The {word} mill {number} is old." for number in range(20) for word in ("good", "bad", "river")]
    rows = [{"text": text, "label": model.labels[number % 2]} for number, text in enumerate(texts)]
    store = sl.run(rows, model, ["attcat"], out=tmp_path / "run", measures=[])
    classes = store.sql("SELECT DISTINCT prediction FROM documents ORDER BY prediction")["prediction"].tolist()
    assert len(classes) > 1
    with pytest.raises(OptionError, match="explained for different classes"):
        compare_slices(store, "correct", "NOT correct")
    one = compare_slices(store, "correct", "NOT correct", class_=classes[0])
    counted = [len(store.documents(f"prediction = '{classes[0]}' AND {slice}")) for slice in ("correct", "NOT correct")]
    assert one.documents == tuple(counted)
    assert one.predicted == classes[0]
    same = f"prediction = '{classes[0]}'"
    assert compare_slices(store, f"correct AND {same}", f"NOT correct AND {same}").predicted is None
    assert summarise(store).slices.predicted in classes
    other = sl.run(rows, model, ["attcat"], out=tmp_path / "other", target=classes[1], measures=[])
    assert sum(compare_slices(other, "correct", "NOT correct").documents) == len(rows)
    with pytest.raises(OptionError, match="explained for different classes"):
        compare_slices(store, same, "true", other=other)
