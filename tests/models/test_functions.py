"""A function is a model: it is asked about texts, and everything that needs only answers works."""

from __future__ import annotations

import pickle
import threading
import time

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import sightline as sl
from sightline.errors import InputError, ModelError, OptionError, Retry, SizeError, UnsupportedError

TEXT = "The film is good, and the plot is bad. But the end is good again, and it lasts two hours."


def sentiment(texts):
    """Return [P(no), P(yes)]: a sigmoid of the good words minus one and a half of the bad ones."""
    scores = np.array([text.count("good") - 1.5 * text.count("bad") for text in texts], dtype=float)
    positive = 1 / (1 + np.exp(-scores))
    return np.stack([1 - positive, positive], axis=1)


class Recording:
    """A function that remembers what it was asked."""

    def __init__(self, function=sentiment):
        self.function, self.calls, self.__name__ = function, [], "recording"

    def __call__(self, texts):
        self.calls.append(list(texts))
        return self.function(texts)

    @property
    def texts(self):
        return [text for call in self.calls for text in call]


def load(function=sentiment, **options):
    return sl.load(function, labels=["no", "yes"], **options)


def test_the_function_reads_the_text_byte_for_byte_and_its_answer_is_the_prediction():
    asked = Recording()
    prediction = load(asked).predict(f"  {TEXT}\n")
    assert asked.texts == [f"  {TEXT}\n"]
    np.testing.assert_allclose(prediction.probabilities, sentiment([TEXT])[0], rtol=1e-12)


def test_occlusion_is_the_difference_that_a_word_makes():
    explanation = load().explain("good film, bad end", "occlusion", target="yes", quantity="probability")
    whole, without = sentiment(["good film, bad end"])[0, 1], sentiment(["film, bad end"])[0, 1]
    assert explanation.words()[0].score == pytest.approx(whole - without, rel=1e-9)
    assert [word.text for word in explanation.words()] == ["good", "film", ",", "bad", "end"]


@pytest.mark.parametrize("method", ["occlusion", "owen", "lime", "kernel_shap"])
def test_black_box_methods_find_the_words_that_decide(method):
    explanation = load().explain(TEXT, method)
    assert {word.text for word in explanation.top(3)} == {"good", "bad"}
    assert explanation.top(1, sign="against")[0].text == "bad"


def test_leave_one_out_deletes_every_word_once_however_many_there_are():
    model = load()
    words = [f"w{number}" for number in range(250)] + ["good"]
    explanation = model.explain(" ".join(words), "loo", quantity="logit")
    assert explanation.method == "leave_one_out"
    assert explanation.checks["model_calls"] == len(words) + 1
    whole, without = (model.predict(" ".join(part)).logits for part in (words, words[:-1]))
    scores = {word.text: word.score for word in explanation.words()}
    assert scores["good"] == pytest.approx((whole - without)[explanation.target.index])
    assert sum(abs(score) for word, score in scores.items() if word != "good") == pytest.approx(0, abs=1e-9)
    with pytest.raises(OptionError, match="layer"):
        model.explain(TEXT, "leave_one_out", layer=1)


def test_what_needs_the_inside_is_not_offered_and_says_why():
    model = load()
    assert set(model.default_methods) == {"owen", "occlusion"}
    offered = {entry.name for entry in sl.list_methods()} - set(model.methods_not_offered)
    assert {"occlusion", "owen", "lime", "kernel_shap", "random"} <= offered
    assert not offered & {"gradient", "integrated_gradients", "gradient_shap", "attcat", "rollout"}
    with pytest.raises(UnsupportedError, match="of a function only the answers are known"):
        model.explain(TEXT, "attcat")
    with pytest.raises(UnsupportedError, match="of a function only the answers are known"):
        model.inspect(TEXT)
    with pytest.raises(InputError, match="reads texts"):
        model.encode(ids=[1, 2])


def test_report_check_page_and_pairs(tmp_path):
    model = load(lambda pairs: sentiment([f"{a} {b}" for a, b in pairs]))
    report = model.report(TEXT, pair="A good book.")
    assert report.inside is None
    assert report.explanations["owen"].verdict.level != "unchecked"
    assert "A good book." in report.to_html(tmp_path / "page.html").read_text()
    report.save(tmp_path / "report.zip")
    loaded = sl.Report.load(tmp_path / "report.zip")
    np.testing.assert_array_equal(loaded.explanations["owen"].scores, report.explanations["owen"].scores)


def test_evaluation_and_corpus_runs_work(tmp_path):
    model = load()
    rows = [{"text": TEXT, "label": "yes"}, {"text": "a bad and dull film", "label": "no"}]
    table = sl.evaluate(model, rows, methods=["occlusion", "random"], metrics=["comprehensiveness"]).to_frame()
    assert len(table)
    store = sl.run(rows, model, methods=["occlusion"], out=tmp_path / "run")
    assert store.document(1).explanations["occlusion"].top(1)[0].text == "bad"
    before = store.document(0)
    again = sl.run(rows, model, methods=["occlusion"], out=tmp_path / "run")
    assert again.document(0).explanations["occlusion"].top(1) == before.explanations["occlusion"].top(1)


def test_a_pipeline_of_scikit_learn_names_its_classes_and_is_not_changed():
    texts = ["good film", "bad film", "good end", "bad plot", "so good", "so bad"]
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, ["pos", "neg"] * 3)
    before = dict(vars(pipeline))
    model = sl.load(pipeline)
    assert model.labels == ("neg", "pos")
    prediction = model.predict("a good film")
    np.testing.assert_allclose(prediction.probabilities, pipeline.predict_proba(["a good film"])[0], rtol=1e-9)
    assert model.explain("a good film").top(1)[0].text == "good"
    assert vars(pipeline) == before


def test_a_regressor_is_a_value_and_a_classifier_without_probabilities_is_refused():
    texts, numbers = ["good", "bad", "good good", "bad bad"], [1.0, -1.0, 2.0, -2.0]
    regressor = make_pipeline(CountVectorizer(), Ridge()).fit(texts, numbers)
    model = sl.load(regressor, labels=["stars"], output="values")
    explanation = model.explain("a good film", "occlusion")
    expected = float(np.diff(regressor.predict(["a film", "a good film"]))[0])
    assert explanation.words()[1].score == pytest.approx(expected, rel=1e-6)
    with pytest.raises(UnsupportedError, match="has no predict_proba"):
        sl.load(make_pipeline(CountVectorizer(), LinearSVC()).fit(texts, ["a", "b"] * 2))


@pytest.mark.parametrize(
    "answer",
    [
        lambda p: [[{"label": "yes", "score": b}, {"label": "no", "score": a}] for a, b in p],
        lambda p: [{"label": "yes", "score": b} for _, b in p],
        lambda p: [{"yes": b, "no": a} for a, b in p],
        lambda p: p[:, 1],
        lambda p: p.tolist(),
    ],
    ids=["pipeline", "best only", "dictionary", "second class", "lists"],
)
def test_answers_like_those_of_pipelines_are_read(answer):
    model = load(lambda texts: answer(sentiment(texts)))
    np.testing.assert_allclose(model.predict(TEXT).probabilities, sentiment([TEXT])[0], rtol=1e-9)


def test_logits_and_independent_labels():
    logits = np.array([[1.0, -2.0, 0.5]])
    model = sl.load(lambda texts: np.repeat(logits, len(texts), 0), labels=["a", "b", "c"], output="logits")
    np.testing.assert_array_equal(model.predict("x").logits, logits[0])
    model = sl.load(lambda texts: [[0.9, 0.8]] * len(texts), labels=["a", "b"], multi_label=True)
    np.testing.assert_allclose(model.predict("x").probabilities, [0.9, 0.8], rtol=1e-9)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda texts: np.ones((len(texts), 3)) / 3, "shape"),
        (lambda texts: [[0.9, 0.8]] * len(texts), "multi_label=True"),
        (lambda texts: [[3.0, -1.0]] * len(texts), "output='logits'"),
        (lambda texts: [[np.nan, 0.5]] * len(texts), "not finite"),
        (lambda texts: ["yes"] * len(texts), "must return numbers"),
        (lambda texts: [[{"label": "maybe", "score": 0.4}, {"label": "no", "score": 0.6}]] * len(texts), "'yes'"),
        (lambda texts: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_answers_that_mean_nothing_are_refused(function, sentence):
    with pytest.raises(ModelError, match=sentence):
        load(function).predict(TEXT)


def test_options_without_a_meaning_are_refused():
    with pytest.raises(OptionError, match="labels="):
        sl.load(sentiment)
    with pytest.raises(OptionError, match="nothing to compete with"):
        sl.load(sentiment, labels=["yes"])
    with pytest.raises(OptionError, match="device"):
        load(device="cpu")
    with pytest.raises(OptionError, match="labels"):
        sl.load(labels=["no", "yes"])


def test_batches_have_the_size_asked_for_and_run_side_by_side():
    running, most, lock = 0, 0, threading.Lock()

    def slow(texts):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return sentiment(texts)

    asked = Recording(slow)
    several = load(asked, batch_size=4, concurrency=3).explain(TEXT, "occlusion")
    assert most == 3
    assert max(len(call) for call in asked.calls) == 4
    np.testing.assert_array_equal(several.scores, load().explain(TEXT, "occlusion").scores)


def test_answers_are_kept_in_a_file(tmp_path):
    path, asked = tmp_path / "answers.sqlite", Recording()
    first = load(asked, cache=path).explain(TEXT, "occlusion")
    sent = len(asked.texts)
    again = load(asked, cache=path).explain(TEXT, "occlusion")
    assert len(asked.texts) == sent == len(set(asked.texts))
    np.testing.assert_array_equal(first.scores, again.scores)
    with pytest.raises(InputError, match="other labels"):
        sl.load(sentiment, labels=["a", "b"], cache=path)
    foreign = tmp_path / "notes.txt"
    foreign.write_text("my notes")
    with pytest.raises(InputError, match="choose another file"):
        load(cache=foreign)
    assert foreign.read_text() == "my notes"


@pytest.mark.parametrize(
    "options", [{"method": "occlusion"}, {"method": "lime"}, {"method": "occlusion", "check": True}]
)
def test_the_calls_are_announced_before_they_are_spent(options):
    asked, announced = Recording(), []
    load(asked, announce=lambda sentence: announced.append((sentence, len(asked.texts)))).explain(TEXT, **options)
    ((sentence, sent_before),) = announced
    assert sent_before == 0
    count = int(sentence.split()[1])
    assert abs(count - len(set(asked.texts))) <= 0.15 * count


def test_a_budget_is_refused_before_it_is_exceeded():
    asked = Recording()
    model = load(asked, budget=50)
    with pytest.raises(SizeError, match=r"About \d{3} calls.* 50 of the budget of 50"):
        model.explain(" ".join(["word"] * 3000) + " good", "owen")
    assert asked.texts == []
    model.explain(TEXT, "occlusion")
    assert len(asked.texts) == model.network.texts_sent <= 50
    with pytest.raises(SizeError, match="budget"):
        model.explain(TEXT + " More words.", "lime")


def test_only_a_function_that_asks_for_it_is_called_again(monkeypatch):
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)

    def busy(texts):
        if len(waits) < 2:
            raise Retry("busy", after=0.5)
        return sentiment(texts)

    assert load(busy).predict(TEXT).label == "yes"
    assert waits == [0.5, 0.5]

    def never(texts):
        raise Retry("closed")

    with pytest.raises(ModelError, match="closed"):
        load(never).predict(TEXT)


def test_a_model_of_a_function_can_be_pickled(tmp_path):
    model = load(cache=tmp_path / "answers.sqlite", concurrency=2)
    copied = pickle.loads(pickle.dumps(model))
    assert copied.predict(TEXT).label == model.predict(TEXT).label
