"""Relevance of every token in every token, layer by layer."""

import numpy as np
import pytest

from sightline.errors import OptionError, SizeError
from sightline.methods import attention_flow
from sightline.methods.decomposition.matrices import layer_contributions, relevance_matrices
from tests.tiny_models import tiny_ids, tiny_model

LAYERED = ["rollout", "norm_rollout", "globenc", "alti"]


def traced(family, tokens=11):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, tokens))
    return model, encoding, model.trace(encoding)


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_rollout_s_matrices_are_its_formula_written_out(family):
    _, _, trace = traced(family)
    relevance = np.eye(11)
    for layer, shown in zip(trace.attentions, relevance_matrices(trace), strict=True):
        mixed = (np.asarray(layer).mean(axis=0) + np.eye(11)) / 2
        relevance = (mixed / mixed.sum(axis=1, keepdims=True)) @ relevance
        np.testing.assert_allclose(shown, relevance, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("family", ["bert", "longformer", "modernbert"])
@pytest.mark.parametrize("method", LAYERED)
def test_the_readout_s_row_of_every_matrix_is_the_layer_of_the_explanation(family, method):
    model, encoding, trace = traced(family)
    matrices = relevance_matrices(trace, method)
    np.testing.assert_allclose(matrices.sum(axis=2), 1.0, rtol=1e-9)
    rows = np.einsum("i,lij->lj", trace.readout, matrices)
    np.testing.assert_allclose(rows, model.explain(encoding, method=method).layers, rtol=1e-9, atol=1e-13)


def test_matrices_are_the_product_of_the_contributions():
    _, _, trace = traced("bert")
    steps = [np.asarray(layer_matrix)[0] for layer_matrix in layer_contributions(trace, "alti")]
    np.testing.assert_allclose(relevance_matrices(trace, "alti")[2], steps[2] @ steps[1] @ steps[0], rtol=1e-12)


def test_contributions_take_alti_s_options():
    model, encoding, trace = traced("bert")
    steps = layer_contributions(trace, "alti", p=2, second_norm=True)
    row = trace.readout
    for step in reversed(steps):
        row = step.left(row)[0]
    expected = model.explain(encoding, method="alti", p=2, second_norm=True).scores
    np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("options", [{}, {"fusion": "max"}, {"residual": False}])
def test_flow_s_matrices_are_the_maximum_flow_of_every_token(options):
    model, encoding, trace = traced("bert", 6)
    matrices = relevance_matrices(trace, "flow", **options)
    for layer in range(3):
        for token in range(6):
            alone = model.explain(encoding, "flow", source=token, layer=layer, **options).scores
            np.testing.assert_allclose(matrices[layer, token], alone, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("options", [{"fusion": "min"}, {"residual": False}])
def test_rollout_s_matrices_take_its_options(options):
    model, encoding, trace = traced("bert")
    rows = np.einsum("i,lij->lj", trace.readout, relevance_matrices(trace, "rollout", **options))
    np.testing.assert_allclose(rows, model.explain(encoding, "rollout", **options).layers, rtol=1e-9, atol=1e-13)


def test_transatt_s_last_matrix_holds_its_scores():
    model, encoding, trace = traced("bert")
    rows = np.einsum("i,lij->lj", trace.readout, relevance_matrices(trace, "transatt"))
    np.testing.assert_allclose(rows[-1], model.explain(encoding, "transatt").scores, rtol=1e-9, atol=1e-13)


def test_raw_attention_s_matrices_are_the_layers():
    model, encoding, trace = traced("longformer")
    matrices = relevance_matrices(trace, "raw_attention")
    np.testing.assert_allclose(matrices, [np.asarray(layer).mean(axis=0) for layer in trace.attentions], atol=1e-12)
    rows = np.einsum("i,lij->lj", trace.readout, matrices)
    np.testing.assert_allclose(rows, model.explain(encoding, "raw_attention").layers, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("options", [{"p": 2}, {"second_norm": True}])
def test_matrices_take_alti_s_options(options):
    model, encoding, trace = traced("bert")
    rows = np.einsum("i,lij->lj", trace.readout, relevance_matrices(trace, "alti", **options))
    expected = model.explain(encoding, method="alti", **options).layers
    np.testing.assert_allclose(rows, expected, rtol=1e-9, atol=1e-13)


def test_a_method_without_layers_is_refused_with_a_sentence():
    _, _, trace = traced("bert")
    with pytest.raises(OptionError, match="'attcat' has no relevance matrices. Methods that have: rollout"):
        relevance_matrices(trace, "attcat")
    with pytest.raises(OptionError, match="'rollout' has no contributions by layer"):
        layer_contributions(trace, "rollout")
    with pytest.raises(OptionError, match="'rollout' have no option 'p'"):
        relevance_matrices(trace, "rollout", p=2)


def test_long_documents_are_refused_before_anything_runs(monkeypatch):
    _, _, trace = traced("bert")
    monkeypatch.setattr("sightline.methods.decomposition.matrices.DENSE_LIMIT", 1000)
    with pytest.raises(SizeError, match="above the limit"):
        relevance_matrices(trace)


def effective_by_hand(trace, layer):
    """A T T⁺ of every head, negative weights as 0, rows that sum to 1."""
    parts = trace.block(layer)
    values = parts.values.double().numpy().transpose(1, 0, 2)
    projections = parts.weights.output_weight.detach().double().numpy().T.reshape(len(values), values.shape[2], -1)
    read = values @ projections
    weights = np.maximum(trace.attentions[layer].dense() @ read @ np.linalg.pinv(read), 0)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("method", ["rollout", "flow"])
def test_effective_attention_is_followed_through_the_layers(method):
    model, encoding, trace = traced("bert", 14)  # heads are 8 wide
    heads = [effective_by_hand(trace, layer) for layer in range(trace.layer_count)]
    steps = [(layer.mean(axis=0) + np.eye(14)) / 2 for layer in heads]
    by_hand = {
        "rollout": lambda: np.linalg.multi_dot([trace.readout, *reversed(steps)]),
        "flow": lambda: (flow := attention_flow(np.stack(steps), 0)) / flow.sum(),
    }[method]()
    explanation = model.explain(encoding, method, effective=True)
    np.testing.assert_allclose(explanation.scores, by_hand, rtol=1e-9, atol=1e-12)
    assert np.abs(explanation.scores - model.explain(encoding, method).scores).max() > 1e-3


def test_a_single_head_of_effective_attention_starts_the_rollout():
    model, encoding, trace = traced("bert", 14)
    heads = [effective_by_hand(trace, layer) for layer in range(trace.layer_count)]
    below = (heads[0].mean(axis=0) + np.eye(14)) / 2
    explanation = model.explain(encoding, "rollout", effective=True, layer=1, head=2)
    np.testing.assert_allclose(explanation.scores, heads[1][2][0] @ below, rtol=1e-9, atol=1e-12)


def test_effective_attention_is_attention_in_texts_no_longer_than_a_head_is_wide():
    model, encoding, _ = traced("bert", 7)
    scores = model.explain(encoding, "rollout").scores
    np.testing.assert_allclose(model.explain(encoding, "rollout", effective=True).scores, scores, rtol=1e-9)
