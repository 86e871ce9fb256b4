"""Functions of the same name are told apart by what they compute, and a function that only counts calls is the same."""

from __future__ import annotations

import functools
import subprocess
import sys

import pytest

import sightline as sl
from sightline.errors import SightlineError
from sightline.models.function_identity import fingerprint_function

LABELS = ["no", "yes"]


def make(word, share=0.9):
    def predict(texts):
        return [[1 - share, share] if word in text else [share, 1 - share] for text in texts]

    return predict


def test_code_defaults_and_what_is_read_from_outside_count():
    functions = [
        make("good"),
        make("bad"),
        make("good", 0.8),
        lambda texts: [[0.1, 0.9] for _ in texts],
        lambda texts: [[0.2, 0.8] for _ in texts],
        lambda texts, share=0.9: [[1 - share, share] for _ in texts],
        lambda texts: make("good")(texts),
        functools.partial(make, "good"),
        functools.partial(make, "bad"),
    ]
    assert len({fingerprint_function(function) for function in functions}) == len(functions)
    assert fingerprint_function(make("good")) == fingerprint_function(make("good"))


def test_counters_and_containers_that_grow_do_not_count():
    seen, calls = [], 0

    def predict(texts):
        nonlocal calls
        calls += 1
        seen.extend(texts)
        return [[0.1, 0.9] for _ in texts]

    before = fingerprint_function(predict)
    predict(["a"])
    assert fingerprint_function(predict) == before


def test_classifiers_count_with_what_they_learned():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    def fitted(classifier, texts=("a fine film", "a dull film", "fine acting", "dull and slow")):
        return make_pipeline(text.TfidfVectorizer(), classifier).fit(texts, ["good", "bad", "good", "bad"])

    others = ("a warm film", "a dull film", "warm acting", "dull and slow")
    pipelines = [
        fitted(LogisticRegression()),
        fitted(LogisticRegression(C=2.0)),
        fitted(LogisticRegression(), others),
        fitted(RandomForestClassifier(3, random_state=0)),
        fitted(RandomForestClassifier(3, random_state=1)),
    ]
    prints = [fingerprint_function(pipeline.predict_proba) for pipeline in pipelines]
    assert len(set(prints)) == len(prints)
    assert fingerprint_function(fitted(LogisticRegression()).predict_proba) == prints[0]
    pipelines[0].predict_proba(["a fine film"])
    assert fingerprint_function(pipelines[0].predict_proba) == prints[0]


def test_the_fingerprint_is_the_same_in_another_process():
    program = (
        "from sightline.models.function_identity import fingerprint_function as of\n"
        "def predict(texts):\n    return [[0.1, 0.9] if text in {'a', 'b', 'c'} else [0.5, 0.5] for text in texts]\n"
        "print(of(predict))"
    )
    answers = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(answers) == 1


def test_a_function_may_say_itself_what_it_is():
    first, second = make("good"), make("bad")
    first.fingerprint = second.fingerprint = "service, version 3"
    assert fingerprint_function(first) == fingerprint_function(second)


def test_a_run_is_not_resumed_with_another_function_of_the_same_name(tmp_path):
    pytest.importorskip("duckdb")
    rows = [{"text": "a good day"}, {"text": "a bad day"}]
    first, second = (sl.load(make(word), labels=LABELS) for word in ("good", "bad"))
    sl.run(rows, first, methods=["occlusion"], out=tmp_path / "run", measures=[])
    sl.run(rows, sl.load(make("good"), labels=LABELS), methods=["occlusion"], out=tmp_path / "run", measures=[])
    with pytest.raises(SightlineError, match="weights of the model have changed"):
        sl.run(rows, second, methods=["occlusion"], out=tmp_path / "run", measures=[])
