"""Metrics are found by name, say what they are, and carry the options they are called with."""

import subprocess
import sys

import numpy as np
import pytest

from sightline.errors import OptionError
from sightline.metrics import METRICS, list_metrics, metric, rbo
from sightline.registry import Registry

ARRAYS = {
    "scores": np.array([0.1, 0.9, 0.4, 0.3]),
    "other_scores": np.array([0.2, 0.5, 0.6, 0.1]),
    "class_scores": np.array([[0.1, 0.9, 0.4], [0.5, 0.2, 0.3]]),
    "rationale": np.array([[1, 3]]),
    "answer": np.array([[1, 2]]),
    "special": np.array([True, False, False, True]),
    "hidden_states": np.array([[0.1, 0.9], [0.4, -0.3], [0.2, 0.2]]),
}
ON_ARRAYS = [entry for entry in list_metrics() if entry.needs <= set(ARRAYS)]


def test_the_names_of_the_metrics_on_arrays_are_a_contract():
    assert {entry.name for entry in ON_ARRAYS} == {
        *("cosine", "kendall", "spearman", "rbo", "average_overlap", "jaccard"),
        *("confidence", "precision_at_k", "recall_at_k"),
        *("entropy", "special_share", "special_rank", "anisotropy", "token_f1", "auprc", "iou_f1"),
    }


def test_the_names_of_the_metrics_on_the_model_are_a_contract():
    on_the_model = {entry.name for entry in list_metrics() if "model" in entry.needs}
    assert on_the_model == {"aopc", "log_odds", "comprehensiveness", "sufficiency", "deletion", "insertion"}
    assert on_the_model | {entry.name for entry in ON_ARRAYS} == {entry.name for entry in list_metrics()}


@pytest.mark.parametrize("entry", list_metrics(), ids=lambda entry: entry.name)
def test_every_metric_says_what_it_is_in_one_line_and_where_it_comes_from(entry):
    assert entry.summary.endswith(".")
    assert "\n" not in entry.summary
    assert entry.citation
    assert entry.higher_is_better in (True, False, None)
    assert METRICS.get(entry.name) is entry


@pytest.mark.parametrize("entry", ON_ARRAYS, ids=lambda entry: entry.name)
def test_every_metric_can_be_called_by_name_with_what_it_needs(entry):
    order = tuple(ARRAYS)
    arrays = [ARRAYS[need] for need in order if need in entry.needs]
    value = entry(*arrays, target=0) if entry.name == "confidence" else entry(*arrays)
    assert isinstance(value, float)
    assert -1.0 <= value <= 1.0


def test_registered_options_are_used_reported_and_overridden():
    entry = METRICS.get("rbo")
    a, b = ARRAYS["scores"], ARRAYS["other_scores"]
    assert entry.options == {"p": 0.9}
    assert entry(a, b) == rbo(a, b, p=0.9)
    assert entry(a, b, p=0.5) == rbo(a, b, p=0.5) != entry(a, b)
    with pytest.raises(TypeError):
        rbo(a, b)


def test_an_unknown_metric_is_answered_with_the_nearest_name():
    with pytest.raises(OptionError, match="Did you mean 'kendall'"):
        METRICS.get("kendal")


def test_words_outside_the_vocabulary_are_refused_at_registration(monkeypatch):
    monkeypatch.setattr("sightline.metrics.registry.METRICS", Registry("metric"))
    facts = {"name": "new", "higher_is_better": True, "summary": "New.", "citation": "None 2000"}
    with pytest.raises(ValueError, match="vocabulary"):
        metric(kind="agreement", needs={"tea"}, **facts)
    with pytest.raises(ValueError, match="vocabulary"):
        metric(kind="tea", needs={"scores"}, **facts)
    function = metric(kind="agreement", needs={"scores"}, **facts)(abs)
    assert function is abs


def test_importing_the_metrics_loads_neither_torch_nor_scipy_stats():
    heavy = "{'torch', 'transformers', 'pandas', 'numba', 'scipy.stats', 'sklearn'}"
    program = f"import sys, sightline.metrics; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
