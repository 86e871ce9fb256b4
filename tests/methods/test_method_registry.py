"""Methods are found by name, described, and refuse options that do not fit, before the model runs."""

from __future__ import annotations

import inspect
import re
from typing import get_args, get_overloads

import numpy as np
import pytest
import torch

import sightline as sl
from sightline.api.load import load
from sightline.errors import OptionError
from sightline.methods import Attribution, Method
from sightline.view.words.headline import headline
from tests.tiny_models import tiny_ids, tiny_model, tiny_module

SPINE = {
    "raw_attention",
    "received_attention",
    "rollout",
    "gradient",
    "input_x_gradient",
    "integrated_gradients",
    "grads",
    "attgrads",
    "attention_gradcam",
    "cat",
    "attcat",
    "occlusion",
    "random",
}


def test_every_method_says_what_it_is():
    methods = sl.list_methods()
    assert {method.name for method in methods} >= SPINE
    for method in methods:
        for text in (method.title, method.citation, method.formula, method.cost):
            assert text.strip()
        assert re.fullmatch(r"[A-Z].*\.", method.summary)
        assert re.fullmatch(r"Use .*\.", method.use)
        assert re.fullmatch(r"Avoid .*\.", method.avoid)
        assert method.kind != "other"


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("atcat", {}, "no method called 'atcat'. Did you mean 'attcat'"),
        ("rollout", {"fuson": "max"}, "no option 'fuson'. Did you mean 'fusion'"),
        ("rollout", {"fusion": "median"}, "must be one of 'mean', 'max', 'min', not 'median'"),
        ("rollout", {"layer": 14}, r"Layer 14 asked for, the model has 3 \(0-2\)"),
        ("rollout", {"head": 4}, r"Head 4 asked for, the model has 4 \(0-3\)"),
        ("rollout", {"residual": 1}, "must be true or false, not 1"),
        ("rollout", {"head_weights": [[1.0]]}, r"\(layers, heads\) = \(3, 4\)"),
        ("rollout", {"head_weights": [[-1.0] * 4] * 3}, "none of them may be below 0"),
        ("random", {"seed": 1.5}, "must be a whole number, not 1.5"),
        ("random", {"seed": -1}, "seed must be a whole number from 0 to 4294967295, not -1"),
        ("lime", {"seed": -1}, "seed must be a whole number from 0"),
        ("kernel_shap", {"seed": -1}, "seed must be a whole number from 0"),
        ("gradient_shap", {"seed": 2**32}, "seed must be a whole number from 0"),
        ("rollout", {"fusion": np.array(["mean", "max"])}, "must be one of 'mean', 'max', 'min'"),
        ("gradient", {"layer": 1}, "Its options: none"),
    ],
)
def test_a_wrong_name_or_option_is_reported_in_one_sentence(method, options, message):
    model = tiny_model()
    with pytest.raises(OptionError, match=message):
        model.explain(model.encode(ids=tiny_ids()), method, **options)


def test_an_array_may_be_given_where_a_list_of_numbers_may():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids())
    listed, array = (
        model.explain(encoding, "integrated_gradients", steps=2, baseline=ids) for ids in ([50, 51], np.array([50, 51]))
    )
    np.testing.assert_array_equal(listed.scores, array.scores)
    assert array.options == listed.options


def test_options_of_several_methods_are_given_by_name():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids())
    explanations = model.explain(encoding, methods=["rollout", "attcat"], rollout={"fusion": "max"})
    assert explanations["rollout"].options["fusion"] == "max"
    assert explanations["attcat"].options == {
        "hidden": "input",
        "attention": "column",
        "aggregate": "sum",
        "slope": "gradient",
    }
    with pytest.raises(OptionError, match="options are given by method"):
        model.explain(encoding, methods=["rollout"], fusion="max")
    with pytest.raises(OptionError, match="not both"):
        model.explain(encoding, "rollout", methods=["attcat"])
    with pytest.raises(OptionError, match="at least one name"):
        model.explain(encoding, methods=[])


@pytest.mark.parametrize(
    ("method", "options", "kind"),
    [
        ("attcat", {}, "additive"),
        ("attcat", {"aggregate": "product"}, "separate"),
        ("received_attention", {"layers": "upper"}, "separate"),
        ("rollout", {}, "cumulative"),
        ("rollout", {"layer": 0}, "separate"),  # all layers are shown, the scores are those of the first
        ("rollout", {"head": 1}, "separate"),
        ("alti", {"layer": 1}, "cumulative"),
        ("layer_conductance", {"steps": 2}, "averaged"),
        ("layer_conductance", {"steps": 2, "layer": 1}, "separate"),
        ("gradient", {}, None),
    ],
)
def test_options_decide_how_layers_relate_to_the_scores(method, options, kind):
    model = tiny_model()
    assert model.explain(model.encode(ids=tiny_ids()), method, **options).layer_kind == kind


def test_options_are_resolved_once_per_explanation(monkeypatch):
    model = tiny_model()
    resolved = []
    original = Method.resolve_options
    monkeypatch.setattr(
        Method, "resolve_options", lambda self, options: resolved.append(self) or original(self, options)
    )
    model.explain(model.encode(ids=tiny_ids()), methods=["rollout", "attcat"])
    assert [entry.name for entry in resolved] == ["rollout", "attcat"]


def test_layers_without_a_statement_are_separate_and_unknown_statements_are_refused():
    assert Attribution(np.zeros(2), layers=np.zeros((3, 2))).layer_kind == "separate"
    assert Attribution(np.zeros(2), layer_kind="additive").layer_kind is None
    with pytest.raises(ValueError, match="layer_kind must be one of additive"):
        Attribution(np.zeros(2), layers=np.zeros((3, 2)), layer_kind="sum")


@pytest.mark.parametrize("method", ["leave_one_out", "occlusion", "input_x_gradient"])
def test_scores_below_the_rounding_error_of_a_saturated_probability_are_zeros_with_a_warning(method):
    module = tiny_module(dtype=torch.float32)
    with torch.no_grad():
        module.classifier.bias[1] += 40.0  # a probability of 1, whatever the words are
    model = load(module)
    with pytest.warns(UserWarning, match=f"All scores of {method} are zero"):
        explanation = model.explain(model.encode(ids=tiny_ids()), method, target=1, quantity="probability")
    assert not explanation.scores.any()
    assert "because of" not in headline(explanation)


@pytest.mark.parametrize("method", ["leave_one_out", "occlusion", "input_x_gradient"])
def test_small_scores_above_the_rounding_error_are_kept(method):
    module = tiny_module(dtype=torch.float64)
    with torch.no_grad():
        module.classifier.bias[1] += 15.0
    model = load(module)
    scores = model.explain(model.encode(ids=tiny_ids()), method, target=1, quantity="probability").scores
    assert 0 < np.abs(scores).max() < 1e-4


def test_the_types_of_names_are_the_names_that_exist():
    from sightline.methods.registry import ALIASES
    from sightline.settings.names import MethodName, MetricName

    own = [method.name for method in sl.list_methods() if method.origin == "sightline"]
    assert sorted(get_args(MethodName)) == sorted([*own, *ALIASES])
    assert set(get_args(MetricName)) == {metric.name for metric in sl.list_metrics() if metric.origin == "sightline"}


@pytest.mark.parametrize(
    "function",
    [*get_overloads(sl.Model.explain), sl.Model.report, sl.run, sl.evaluate, sl.compare],
    ids=lambda function: function.__qualname__,
)
def test_a_type_checker_sees_wrong_names_of_methods(function):
    parameters = inspect.signature(function).parameters
    written = [parameters[name].annotation for name in ("method", "methods") if name in parameters]
    names = [annotation for annotation in written if annotation != "None"]
    assert names
    assert all("MethodName" in annotation and "str" not in annotation for annotation in names)


def test_a_name_that_is_known_late_becomes_that_of_a_method():
    assert sl.methods.method_name("ig") == "integrated_gradients"
    with pytest.raises(OptionError, match="attcat"):
        sl.methods.method_name("atcat")
