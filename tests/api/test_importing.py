"""Scores of other programs: aligned to the text, checked, drawn, and handed back."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import sightline as sl
from sightline.errors import InputError, OptionError
from sightline.results.foreign_forms import explained_value

TEXT = "A déjà-vu film: Good acting, unfortunately bad plot."


@pytest.fixture(scope="module")
def model():
    return sl.load()


def by_word(explanation):
    return {word.text: word.score for word in explanation.words() if word.score}


@pytest.mark.parametrize(
    "scores",
    [
        [("[CLS]", 9.0), ("a", 0.0), ("deja", 0.25), ("-", 0.0), ("vu", 0.0), ("film", 0.0), (":", 0.0), ("good", 1.0),
         ("acting", 0.0), (",", 0.0), ("un", -0.5), ("##fortunately", -0.25), ("bad", -2.0), ("plot", 0.0), (".", 0.0),
         ("[SEP]", 9.0)],
        [("ĠGood", 1.0)],
        [(2, 6, 0.25), (16, 20, 1.0), (29, 42, -0.75), (43, 46, -2.0)],
        {"déjà-vu": 0.25, "good": 1.0, "unfortunately": -0.75, "bad": -2.0},
    ],
    ids=["wordpieces", "out of order", "characters", "words"],
)  # fmt: skip
def test_tokens_characters_and_words_reach_the_same_words(model, scores):
    if len(scores) == 1:
        with pytest.raises(InputError, match="'ĠGood' does not follow at character 0"):
            model.import_scores(TEXT, scores)
        return
    explanation = model.import_scores(TEXT, scores, method="LIME")
    assert by_word(explanation) == pytest.approx({"déjà-vu": 0.25, "Good": 1.0, "unfortunately": -0.75, "bad": -2.0})
    assert explanation.method == "LIME"


def test_numbers_by_level_and_their_count(model):
    own = model.explain(TEXT, "occlusion")
    for level in ("token", "word", "sentence"):
        scores = [unit.score for unit in own.units(level)]
        imported = model.import_scores(TEXT, scores, level=level)
        np.testing.assert_allclose([unit.score for unit in imported.units(level)], scores, atol=1e-12)
    np.testing.assert_array_equal(model.import_scores(TEXT, own.scores, level="token").scores, own.scores)
    with pytest.raises(InputError, match="2 scores were given, and the text has"):
        model.import_scores(TEXT, [1.0, 2.0])


def test_one_number_per_word_between_blanks_is_read_too(model):
    numbers = [float(number) for number in range(len(TEXT.split()))]
    imported = model.import_scores(TEXT, numbers)
    pairs = model.import_scores(TEXT, list(zip(TEXT.split(), numbers, strict=True)))
    np.testing.assert_array_equal(imported.scores, pairs.scores)
    with pytest.raises(InputError, match="scores were given"):
        model.import_scores((TEXT, "Another text."), numbers)


def test_an_unknown_token_may_stand_for_anything(model):
    scores = [("A", 1.0), ("[UNK]", 0.5), ("film", 2.0)]
    assert by_word(model.import_scores(TEXT, scores)) == pytest.approx({"A": 1.0, "film": 2.0})


def test_a_word_that_is_not_there_and_scores_that_are_no_numbers_are_refused(model):
    with pytest.raises(InputError, match="'wonderful' does not occur"):
        model.import_scores(TEXT, {"wonderful": 1.0})
    with pytest.raises(InputError, match="Scores are numbers"):
        model.import_scores(TEXT, ["a", "b"])
    with pytest.raises(InputError, match="not finite"):
        model.import_scores(TEXT, {"good": float("nan")})
    with pytest.raises(InputError, match="not in the text"):
        model.import_scores(TEXT, [(40, 400, 1.0)])


def test_imported_scores_are_checked_drawn_saved_and_compared(model, tmp_path):
    own = model.explain(TEXT, "occlusion", check=True)
    imported = model.import_scores(TEXT, own.scores, method="SHAP", level="token", target=own.target.label)
    checked = model.check(imported)
    assert checked.verdict.level == own.verdict.level
    assert "SHAP" in checked.to_html(tmp_path / "page.html").read_text()
    checked.save(tmp_path / "shap.json")
    assert sl.Explanation.load(tmp_path / "shap.json").verdict.level == checked.verdict.level


def test_scores_of_a_function_are_imported():
    model = sl.load(lambda texts: [[0.2, 0.8] if "good" in text else [0.7, 0.3] for text in texts], labels=["n", "p"])
    explanation = model.import_scores("a good film", {"good": 0.5}, method="SHAP")
    assert model.check(explanation).verdict.level
    assert explanation.top(1)[0].text == "good"


def test_a_shap_explanation_of_one_text_and_several_classes(model):
    tokens = [
        "",
        "A ",
        "déjà",
        "-",
        "vu ",
        "film",
        ": ",
        "Good ",
        "acting",
        ", ",
        "unfortunately ",
        "bad ",
        "plot",
        ".",
        "",
    ]
    values = np.zeros((len(tokens), 2))
    values[7], values[11] = [-1, 1], [2, -2]
    one = SimpleNamespace(values=values, data=tuple(tokens), base_values=np.zeros(2), output_names=["x", "y"])
    first = model.import_scores(TEXT, one, target=model.labels[0])
    assert by_word(first) == pytest.approx({"Good": -1.0, "bad": 2.0})
    second = model.import_scores(TEXT, one, target=model.labels[1])
    np.testing.assert_allclose(second.scores, -first.scores)
    batch = SimpleNamespace(values=values[None], data=(np.array(tokens),), base_values=np.zeros((1, 2)))
    np.testing.assert_array_equal(model.import_scores(TEXT, batch, target=model.labels[0]).scores, first.scores)
    several = SimpleNamespace(values=np.zeros((2, 3)), data=["a", "b", "c"], base_values=np.zeros(2))
    with pytest.raises(InputError, match=r"explanation\[0\]"):
        model.import_scores(TEXT, several)


def test_outputs_of_inseq_are_read(model):
    tokens = [SimpleNamespace(token=token, id=0) for token in ("▁good", "▁film", "</s>")]
    sequence = SimpleNamespace(source=tokens, source_attributions=np.array([[1.0, 2.0], [np.nan, 0.5], [0.0, 7.0]]))
    output = SimpleNamespace(sequence_attributions=[sequence])
    assert by_word(model.import_scores("good film", output)) == pytest.approx({"good": 3.0, "film": 0.5})


def test_of_a_decoder_the_tokens_that_it_wrote_are_left_out_of_its_prompt(model):
    tokens = [SimpleNamespace(token=token, id=0) for token in ("<s>", "good", "Ġfilm", "Ġends", "Ġnow")]
    scores = np.array([[1.0, 1.0], [1.0, 2.0], [0.0, 0.5], [np.nan, 4.0], [np.nan, 0.0]])
    sequence = SimpleNamespace(target=tokens, source_attributions=None, target_attributions=scores, attr_pos_start=4)
    assert by_word(model.import_scores("good film", sequence)) == pytest.approx({"good": 3.0, "film": 0.5})
    whole = by_word(model.import_scores("good film ends now", sequence))
    assert whole == pytest.approx({"good": 3.0, "film": 0.5, "ends": 4.0})
    with pytest.raises(InputError, match="do not spell the text"):
        model.import_scores("good", sequence)


def test_rows_of_a_frame_become_a_data_set(model):
    datasets = pytest.importorskip("datasets", reason="the extra datasets is not installed")
    explanation = model.explain(TEXT, "occlusion")
    rows = explanation.to_dataset()
    assert isinstance(rows, datasets.Dataset)
    assert rows["word"] == [word.text for word in explanation.words()]
    assert rows["score"] == [word.score for word in explanation.words()]
    assert explanation.to_dataset("token").num_rows == len(explanation.tokens)


def test_captum_takes_our_tokens_and_gives_them_back(model):
    explanation = model.explain(TEXT, "integrated_gradients")
    record = explanation.to_captum(true_label="x")
    assert (record.pred_class, record.attr_class) == (explanation.prediction.label, explanation.target.label)
    from captum.attr import visualization

    assert isinstance(record, visualization.VisualizationDataRecord)
    back = model.import_scores(TEXT, record, method="captum")
    ordinary = ~explanation.encoding.special
    np.testing.assert_allclose(back.scores[ordinary], explanation.scores[ordinary], atol=1e-9)


def test_shap_takes_our_words_and_gives_them_back(model):
    shap = pytest.importorskip("shap", reason="shap is not installed: pip install shap")
    explanation = model.explain(TEXT, "owen")
    theirs = explanation.to_shap()
    assert isinstance(theirs, shap.Explanation)
    assert "".join(theirs.data) == TEXT
    assert theirs.base_values + theirs.values.sum() == pytest.approx(explained_value(explanation))
    back = model.import_scores(TEXT, theirs, method="SHAP")
    np.testing.assert_allclose([w.score for w in back.words()], [w.score for w in explanation.words()], atol=1e-9)


def test_a_package_that_is_missing_is_named(model, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "shap", None)
    with pytest.raises(OptionError, match="pip install shap"):
        model.explain(TEXT, "occlusion").to_shap()
