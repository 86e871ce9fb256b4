"""target="all": every class from one forward pass, exactly as if each had been asked for by itself."""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForQuestionAnswering, AutoModelForTokenClassification

from sightline.api.load import load
from sightline.errors import InputError, TargetError
from sightline.methods import METHODS
from sightline.models.target import Request
from sightline.passes.forward import Pass
from sightline.results.report import Report
from tests.contract.test_contract import QUICK
from tests.tiny_models import tiny_ids, tiny_model

pytestmark = pytest.mark.slow

LABELS = {0: "AI", 1: "PL", 2: "other"}
OWN_PASSES = {"integrated_gradients", "layer_conductance", "gradient_shap"}
"""Methods that walk a path of their own for every class."""
OTHER_RULES = {"decompx", "alti_logit", "lrp", "partial_lrp", "transatt", "attnlrp"}
"""Methods that run the model once more a class, to send relevance back."""


@pytest.fixture(params=["bert", "longformer"])
def model(request):
    return tiny_model(request.param, id2label=LABELS)


def document(model, n=9, seed=0):
    return model.encode(ids=tiny_ids(model.network.config.model_type, n, seed))


def explain(model, encoding, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.explain(encoding, **options)


@pytest.mark.parametrize("name", METHODS.names())
def test_every_class_is_explained_as_if_requested_alone(model, name):
    options = QUICK.get(name, {})
    by_class = explain(model, document(model), method=name, target="all", **options).by_target()
    assert list(by_class) == ["AI", "PL", "other"]
    for index, (label, explanation) in enumerate(by_class.items()):
        alone = explain(model, document(model), method=name, target=index, **options)
        np.testing.assert_allclose(explanation.scores, alone.scores, rtol=0, atol=1e-12)
        if alone.layers is not None:
            np.testing.assert_allclose(explanation.layers, alone.layers, rtol=0, atol=1e-12)
        assert explanation.target == alone.target
        assert (explanation.target.index, explanation.target.label) == (index, label)
        assert explanation.checks.keys() == alone.checks.keys()


@pytest.mark.parametrize("name", sorted(set(METHODS.names()) - OWN_PASSES - OTHER_RULES))
def test_further_classes_need_no_further_forward(model, name):
    options = QUICK.get(name, {})
    explain(model, document(model), method=name, target=0, **options)
    of_one = model.network.forward_passes
    explain(model, document(model), method=name, target="all", **options)
    assert model.network.forward_passes == 2 * of_one


def test_one_forward_and_one_backward_a_class_serve_many_methods_and_documents(model):
    encodings = [document(model, n) for n in (12, 10, 11)]
    results = model.explain(encodings, methods=["attcat", "cat", "rollout", "gradient"], target="all")
    assert (model.network.forward_passes, model.network.backward_passes) == (1, 3)
    for encoding, report in zip(encodings, results, strict=True):
        by_method = report.explanations
        assert list(by_method) == ["attcat", "cat", "rollout", "gradient"]
        for label, explanation in by_method["attcat"].items():
            alone = model.explain(encoding, "attcat", target=label)
            np.testing.assert_allclose(explanation.scores, alone.scores, rtol=0, atol=1e-12)


def test_methods_that_do_not_know_the_class_run_once(model, monkeypatch):
    calls = []
    entry = METHODS.get("rollout")
    monkeypatch.setitem(
        entry.__dict__, "function", lambda trace, **options: calls.append(1) or np.ones(trace.token_count)
    )
    by_class = model.explain(document(model), "rollout", target="all").by_target()
    assert len(calls) == 1
    assert [explanation.target.label for explanation in by_class.values()] == ["AI", "PL", "other"]


@pytest.mark.parametrize("quantity", ["probability", "log_probability", "margin"])
def test_the_quantity_is_that_of_every_class(model, quantity):
    by_class = model.explain(document(model), "cat", target="all", quantity=quantity).by_target()
    for label, explanation in by_class.items():
        alone = model.explain(document(model), "cat", target=label, quantity=quantity)
        np.testing.assert_allclose(explanation.scores, alone.scores, rtol=0, atol=1e-12)
    if quantity == "probability":  # the probabilities of all classes add up to a constant
        np.testing.assert_allclose(
            sum(class_explanation.scores for class_explanation in by_class.values()), 0, atol=1e-12
        )


@pytest.mark.parametrize("aggregate", ["sum", "product"])
def test_a_contrast_is_the_difference_of_its_classes_layer_by_layer(model, aggregate):
    by_class = model.explain(
        document(model), "attcat", target="all", aggregate=aggregate, quantity="logit"
    ).explanations["attcat"]
    contrast = model.explain(document(model), "attcat", target=("AI", "other"), aggregate=aggregate, quantity="logit")
    difference = by_class["AI"].layers - by_class["other"].layers
    np.testing.assert_allclose(contrast.layers, difference, rtol=0, atol=1e-12)
    combined = difference.sum(axis=0) if aggregate == "sum" else difference.prod(axis=0)
    np.testing.assert_allclose(contrast.scores, combined, rtol=0, atol=1e-12)


def test_what_one_class_needed_is_dropped_before_the_next_and_the_graph_after_the_last(model):
    shared = Pass(model.network, [document(model)], [Request("all")])
    shared.require("attentions", "gradients", "inputs")
    seen = []
    for _, (target,) in shared.classes():
        gc.collect()
        assert all(reference() is None for reference in seen)
        gradients = shared.gradients(0, target)
        seen.append(weakref.ref(gradients.hidden[0]))
        logits = shared.logits(0)
        del gradients
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(logits[0], shared.recorder.embeddings)


def test_classes_with_the_same_label_are_kept_apart():
    model = tiny_model(id2label={0: "other", 1: "PL", 2: "other"})
    by_class = model.explain(document(model), target="all").by_target()
    assert list(by_class) == ["other (0)", "PL", "other (2)"]
    assert [explanation.target.index for explanation in by_class.values()] == [0, 1, 2]


def test_all_means_all_even_where_a_class_has_that_name():
    model = tiny_model(id2label={0: "none", 1: "all", 2: "some"})
    by_class = model.explain(document(model), target="all").by_target()
    assert list(by_class) == ["none", "all", "some"]
    assert model.explain(document(model), target=1).target.label == "all"
    with pytest.raises(
        TargetError, match=r"only explain\(\) goes through them; name one \(the class of that name is 1"
    ):
        _ = model.trace(document(model), target="all").target


def test_a_head_that_labels_tokens_is_explained_at_one_token_for_every_label():
    model = tiny_model(auto=AutoModelForTokenClassification, id2label=LABELS)
    by_class = model.explain(document(model), "cat", target="all", position=4).by_target()
    for label, explanation in by_class.items():
        assert explanation.target.position == 4
        alone = model.explain(document(model), "cat", target=label, position=4)
        np.testing.assert_allclose(explanation.scores, alone.scores, rtol=0, atol=1e-12)


def test_models_without_a_list_of_classes_say_so():
    language = tiny_model(auto=AutoModelForMaskedLM)
    with pytest.raises(TargetError, match="the 128 tokens of the vocabulary; name one"):
        language.explain(document(language), target="all", position=3)
    answers = tiny_model(auto=AutoModelForQuestionAnswering, num_labels=2)
    with pytest.raises(TargetError, match="has no classes"):
        answers.explain(document(answers), target="all")


@pytest.mark.parametrize("document", [None, 5, b"text"])
def test_what_is_no_document_is_refused_with_a_sentence(document):
    with pytest.raises(InputError, match=f"not {type(document).__name__}"):
        tiny_model("bert").explain(document)


@pytest.mark.parametrize("check", [False, True], ids=["unchecked", "checked"])
def test_several_explanations_are_drawn_as_one_figure_and_one_page(check, tmp_path):
    model = load()
    text = "The compiler learns to guess."
    options = {"target": "all", "check": check, "check_readings": 20 if check else None}
    by_class = model.explain(text, method="attcat", **options)
    by_method = model.explain(text, methods=["attcat", "rollout"])
    both = model.explain(text, methods=["attcat", "rollout"], **options)
    assert isinstance(by_class, Report)
    assert list(by_class.by_target()) == list(model.labels)
    assert list(pickle.loads(pickle.dumps(by_method))) == ["attcat", "rollout"]
    for results, drawn in ((by_class, 2), (by_method, 2), (both, 4)):
        assert len(getattr(results, "report", results)) == drawn
        figure = results.plot(tmp_path / "figure.svg")
        shown = [text.get_text() for axes in figure.axes for text in (axes.title, *axes.texts)]
        assert (tmp_path / "figure.svg").exists()
        assert sum("AttCAT" in line or "rollout" in line.lower() for line in shown) >= 1
        assert results.to_html(tmp_path / "page.html").exists()
        assert "compiler" in results._repr_html_()
    assert set(both.explanations["rollout"]) == set(model.labels)
    assert list(both.by_target("rollout")) == list(model.labels)
    with pytest.raises(InputError, match="no explanation by 'cat', only by attcat, rollout"):
        both.by_target("cat")
    assert list(model.report(text, ["attcat"], 0, check=False).by_target()) == [model.labels[0]]
    listed = model.explain([text, text], method="attcat", target="all")
    assert [list(one.explanations) for one in listed] == [["attcat"], ["attcat"]]
