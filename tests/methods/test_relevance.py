"""Relevance propagation through whole models, against the same by hand; its methods by formula; its promises."""

from __future__ import annotations

import gc
import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from transformers import AutoModelForMaskedLM, AutoModelForQuestionAnswering, AutoModelForTokenClassification

from sightline.api.load import load
from sightline.errors import OptionError, UnsupportedError
from sightline.methods.lrp import propagate
from sightline.methods.relevance import rules as relevance_rules
from sightline.methods.relevance.mode import relevance_mode
from sightline.methods.relevance.rules import ATTENTION_AWARE, CLASSIC, POSITIVE
from sightline.models import Recorder, layerwise
from sightline.models.layerwise import Layerwise, LinearOutputs
from sightline.passes import propagation
from sightline.passes.forward import Pass
from tests.methods.relevance_reference import reference
from tests.tiny_models import FAMILIES, tiny_ids, tiny_model, tiny_module

RULES = {rules.name: rules for rules in (POSITIVE, CLASSIC, ATTENTION_AWARE)}
METHODS = ("partial_lrp", "lrp", "transatt", "attnlrp")
CASES = {
    "bert": {},
    "roberta": {},
    "distilbert": {},
    "longformer": {"global_tokens": (0,), "window": 4},
    "longformer with three global tokens": {"global_tokens": (0, 3, 9), "window": 4},
    "longformer without global tokens": {"global_tokens": (), "window": 4},
    "mpnet": {"bias": lambda module, n: module.mpnet.encoder.compute_position_bias(torch.zeros(1, n, 1))[0].numpy()},
    "deberta-v2": {},
    # Blocks of one token: rows in between see their neighbours, the first token twice and the last one.
    "big_bird": {"bias": lambda _module, n: big_bird_scores(n)},
    "big_bird with a text that it reads as a whole": {"tokens": 7},
}


def big_bird_scores(n):
    """log c, c being how often a key (column) occurs in a row of a sparse text, with one random block."""
    distance = abs(np.subtract.outer(np.arange(n), np.arange(n)))
    copies = (distance <= 1).astype(float)
    copies[:, -1] = 1
    copies[:, 0] = 2
    copies[[0, -1]] = 1
    with np.errstate(divide="ignore"):
        return np.log(copies)


def close(actual, expected, tolerance=1e-9):
    scale = np.abs(expected).max()
    assert np.abs(actual - expected).max() <= tolerance * scale


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("case", CASES)
def test_relevance_of_layers_and_attention_is_that_of_the_rules_by_hand(case, rules, monkeypatch):
    # Without ε both sides are the rules themselves, to rounding.
    monkeypatch.setattr(relevance_rules, "EPSILON", 0.0)
    family = case.split()[0]
    model = tiny_model(family)
    facts = dict(CASES[case])
    tokens, bias = facts.pop("tokens", 13), facts.pop("bias", None)
    encoding = model.encode(ids=tiny_ids(family, tokens), global_tokens=facts.get("global_tokens"))
    if bias is not None:
        facts["bias"] = bias(model.network.module, tokens)
    for target in (0, 2):
        trace = model.trace(encoding, target, quantity="logit")
        trace.require("attention_relevance")
        relevance = propagate(trace, RULES[rules], whole_attention=True)
        expected = reference(model.network.module, trace.hidden_states[0], target, rules, **facts)
        close(trace.logits, expected.logits, 1e-12)
        for layer, (ours, by_hand) in enumerate(zip(relevance.hidden, expected.hidden, strict=True)):
            assert ours.shape == by_hand.shape, layer
            close(ours, by_hand)
        for (ours,), by_hand in zip(relevance.attentions, expected.attentions, strict=True):
            close(np.asarray(ours), by_hand)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_says_the_same_while_rules_are_replaced(family, rules):
    model = tiny_model(family)
    network, encoding = model.network, model.encode(ids=tiny_ids(family))
    with network.plain_operations():
        (ordinary,) = network.run([encoding], Recorder(), gradient=True)
        (replaced,) = network.run([encoding], Recorder(), gradient=True, within=relevance_mode(RULES[rules]))
    assert torch.equal(ordinary, replaced)
    (banded,) = network.run([encoding])
    np.testing.assert_allclose(replaced.detach(), banded, rtol=1e-11)


@pytest.mark.parametrize("family", FAMILIES)
def test_positive_rules_keep_the_whole_relevance(family):
    model = tiny_model(family)
    explanation = model.explain(model.encode(ids=tiny_ids(family)), "lrp", quantity="logit")
    assert explanation.checks["relevance_given"] == 1
    assert explanation.checks["conservation_error"] < 1e-5
    # Every layer's input holds all of it.
    np.testing.assert_allclose(explanation.layers.sum(axis=1), 1, rtol=1e-5)


def test_attnlrp_loses_to_softmax_alone_when_there_are_no_biases(monkeypatch):
    monkeypatch.setattr(relevance_rules, "EPSILON", 0.0)
    module = tiny_module("bert")
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    model = load(module)
    trace = model.trace(model.encode(ids=tiny_ids()), 1, quantity="logit")
    explanation = model.explain(trace.encoding, "attnlrp", 1, quantity="logit")
    by_hand = reference(model.network.module, trace.hidden_states[0], 1, "attention_aware")
    assert abs(by_hand.absorbed) > 1e-3
    assert explanation.scores.sum() + by_hand.absorbed == pytest.approx(trace.value, rel=1e-9)
    assert explanation.checks["conservation_error"] == pytest.approx(abs(by_hand.absorbed / trace.value), rel=1e-9)


def test_attnlrp_with_biases_says_how_much_is_missing():
    model = tiny_model("bert")
    explanation = model.explain(model.encode(ids=tiny_ids()), "attnlrp", 0, quantity="logit")
    y = explanation.prediction.logits[0]
    assert explanation.checks["relevance_given"] == pytest.approx(y)
    assert explanation.checks["conservation_error"] == pytest.approx(abs(explanation.scores.sum() - y) / abs(y))


@pytest.mark.parametrize("rules", ["positive", "classic"])
@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_methods_are_what_their_formulas_say(family, rules):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 13))
    trace = model.trace(encoding, 1, quantity="logit")
    trace.require("attention_relevance")
    relevance = propagate(trace, RULES[rules], whole_attention=True)
    R = np.stack([np.asarray(layer) for (layer,) in relevance.attentions])
    gradient = np.stack([np.asarray(layer) for layer in trace.attention_gradients])

    def explain(method, **options):
        return model.explain(encoding, method, 1, rules=rules, **options, quantity="logit").scores

    close(explain("partial_lrp"), np.maximum(R[-1], 0).mean(axis=0)[0])
    close(explain("partial_lrp", layer=0), np.maximum(R[0], 0).mean(axis=0)[0])
    close(explain("lrp"), relevance.hidden[0].sum(axis=1))
    close(explain("lrp", embeddings="word"), relevance.embeddings.sum(axis=1))
    cams = np.maximum(gradient * R, 0).mean(axis=1) + np.eye(13)
    steps = cams / cams.sum(axis=2, keepdims=True)
    close(explain("transatt"), (steps[2] @ steps[1] @ steps[0])[0])
    close(explain("transatt", start_layer=1), (steps[2] @ steps[1])[0])
    close(explain("transatt", start_layer=-1), steps[2][0])


def test_a_contrast_is_the_difference_of_its_classes_where_rules_are_linear_in_relevance():
    model = tiny_model("bert")
    encoding = model.encode(ids=tiny_ids())
    first, second, contrast = (
        model.explain(encoding, "attnlrp", target, quantity="logit") for target in (0, 1, (0, 1))
    )
    close(contrast.scores, first.scores - second.scores)


OTHER_QUANTITIES = {
    "log-odds": ({"target": 0}, lambda z: np.append(1.0, -softmax(z[1:]))),
    "contrast": ({"target": (0, 2)}, lambda z: np.array([1.0, 0.0, -1.0])),
    "margin": ({"target": 0, "quantity": "margin"}, lambda z: np.eye(3)[0] - np.eye(3)[1 + z[1:].argmax()]),
    "probability": ({"target": 0, "quantity": "probability"}, lambda z: softmax(z)[0] * (np.eye(3)[0] - softmax(z))),
    "log-probability": ({"target": 0, "quantity": "log_probability"}, lambda z: np.eye(3)[0] - softmax(z)),
}
"""What is explained, and its weights over the logits z (3,)."""


@pytest.mark.parametrize("rules", ["positive", "classic"])
@pytest.mark.parametrize("case", OTHER_QUANTITIES)
@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_other_quantities_combine_the_relevance_of_every_logit_by_its_weight(family, case, rules, monkeypatch):
    """The logits are propagated one by one by hand, weighted and added; then come the formulas of the methods."""
    monkeypatch.setattr(relevance_rules, "EPSILON", 0.0)
    asked, weigh = OTHER_QUANTITIES[case]
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 13))
    trace = model.trace(encoding, **asked)
    facts = {"global_tokens": (0,), "window": 4} if family == "longformer" else {}
    alone = [reference(model.network.module, trace.hidden_states[0], c, rules, **facts) for c in range(3)]
    weights = weigh(alone[0].logits)
    R_tokens = sum(weight * part.hidden[0] for weight, part in zip(weights, alone, strict=True)).sum(axis=1)
    R_attention = [
        sum(weight * layer for weight, layer in zip(weights, layers, strict=True))
        for layers in zip(*(part.attentions for part in alone), strict=True)
    ]
    gradient = [np.asarray(layer) for layer in trace.attention_gradients]
    explained = model.explain(
        encoding, methods=["lrp", "partial_lrp", "transatt"], **asked,
        lrp={"rules": rules}, partial_lrp={"rules": rules}, transatt={"rules": rules},
    )  # fmt: skip
    assert np.abs(R_tokens).max() > 1e-6  # far from rounding: the seed as a whole would leave 1e-17
    close(explained["lrp"].scores, R_tokens)
    close(explained["partial_lrp"].scores, np.maximum(R_attention[-1], 0).mean(axis=0)[0])
    steps = [np.maximum(g * R, 0).mean(axis=0) + np.eye(13) for g, R in zip(gradient, R_attention, strict=True)]
    steps = [step / step.sum(axis=1, keepdims=True) for step in steps]
    close(explained["transatt"].scores, (steps[2] @ steps[1] @ steps[0])[0])


def test_logits_of_both_signs_share_the_forward_pass():
    model = tiny_model("bert")
    network = model.network
    network.forward_passes = network.backward_passes = 0
    model.explain(model.encode(ids=tiny_ids()), "lrp", target=(0, 1))
    assert (network.forward_passes, network.backward_passes) == (2, 2)


def test_the_tail_of_a_vocabulary_is_propagated_together(monkeypatch):
    model = tiny_model("bert", auto=AutoModelForMaskedLM)
    encoding = model.encode(ids=tiny_ids())
    asked = {"target": 20, "quantity": "log_probability", "position": 4}
    monkeypatch.setattr("sightline.methods.relevance.mode.LOGITS_ALONE", 1000)
    one_by_one = model.explain(encoding, "lrp", **asked)
    monkeypatch.setattr("sightline.methods.relevance.mode.LOGITS_ALONE", 8)
    model.network.backward_passes = 0
    with_tail = model.explain(encoding, "lrp", **asked)
    assert model.network.backward_passes == 9  # eight logits, and all others of negative weight
    for explanation in (one_by_one, with_tail):
        assert explanation.checks["relevance_given"] == pytest.approx(0, abs=1e-9)
        assert explanation.checks["conservation_error"] < 1e-5
        assert np.abs(explanation.scores).max() > 1e-3
    assert np.corrcoef(one_by_one.scores, with_tail.scores)[0, 1] > 0.9


def test_methods_with_the_same_rules_share_one_pass():
    model = tiny_model("bert")
    network = model.network
    network.forward_passes = network.backward_passes = 0
    model.explain(model.encode(ids=tiny_ids()), methods=["partial_lrp", "lrp", "transatt"], quantity="logit")
    # One forward and backward for the gradients of transatt, one of each for the relevance of all three.
    assert (network.forward_passes, network.backward_passes) == (2, 2)


def test_a_long_band_in_many_blocks_equals_the_dense_form(monkeypatch):
    monkeypatch.setattr(relevance_rules, "EPSILON", 0.0)
    model = tiny_model("longformer")
    encoding = model.encode(ids=tiny_ids("longformer", 70), global_tokens=(0, 40))
    trace = model.trace(encoding, 0, quantity="logit")
    trace.require("attention_relevance")
    relevance = propagate(trace, ATTENTION_AWARE, whole_attention=True)
    by_hand = reference(
        model.network.module, trace.hidden_states[0], 0, "attention_aware", global_tokens=(0, 40), window=4
    )
    close(relevance.hidden[0], by_hand.hidden[0])
    close(np.asarray(relevance.attentions[1][0]), by_hand.attentions[1])


@pytest.mark.parametrize(
    ("auto", "facts", "options"),
    [
        (AutoModelForTokenClassification, {}, {"position": 4}),
        (AutoModelForMaskedLM, {}, {"position": 2}),
        (AutoModelForQuestionAnswering, {"num_labels": 2}, {"target": (2, 5)}),
    ],
)
@pytest.mark.parametrize("family", ["bert", "albert", "modernbert", "longformer"])
def test_other_heads_work_and_start_with_the_value_explained(family, auto, facts, options):
    model = tiny_model(family, auto=auto, **facts)
    encoding = model.encode(ids=tiny_ids(family))
    explanations = model.explain(encoding, methods=list(METHODS), **options, quantity="logit")
    value = model.trace(encoding, **options, quantity="logit").value
    assert explanations["attnlrp"].checks["relevance_given"] == pytest.approx(value, rel=1e-6)
    assert explanations["lrp"].checks["conservation_error"] < 1e-5


def test_mean_pooling_shares_the_readout():
    model = tiny_model("modernbert", classifier_pooling="mean")
    explanation = model.explain(model.encode(ids=tiny_ids("modernbert")), "lrp", quantity="logit")
    assert explanation.checks["conservation_error"] < 1e-5


@pytest.mark.parametrize("activation", ["gelu_new", "quick_gelu", "silu", "relu"])
def test_an_activation_written_out_in_parts_is_passed_as_a_whole(activation):
    model = tiny_model("bert", hidden_act=activation)
    explanation = model.explain(model.encode(ids=tiny_ids()), "lrp", quantity="logit")
    assert explanation.checks["conservation_error"] < 1e-5


def test_longformer_in_the_librarys_form_is_refused_in_one_sentence():
    model = tiny_model("longformer", attention="library")
    with pytest.raises(UnsupportedError, match='Load the model with attention="banded"'):
        model.explain(model.encode(ids=tiny_ids("longformer")), "lrp")


@pytest.mark.parametrize(("option", "value"), [("rules", "newest"), ("start_layer", 3)])
def test_a_wrong_option_is_reported(option, value):
    model = tiny_model("bert")
    with pytest.raises(OptionError):
        model.explain(model.encode(ids=tiny_ids()), "transatt", **{option: value})


@pytest.mark.parametrize("family", ["albert", "longformer"])
def test_an_exception_inside_the_model_leaves_no_mode_hook_or_switch_behind(family):
    model = tiny_model(family)
    module = model.network.module

    def fail(*_arguments):
        raise RuntimeError("broken on purpose")

    encoding = model.encode(ids=tiny_ids(family))
    trace = model.trace(encoding, 0)
    handle = module.classifier.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="broken on purpose"):
        propagate(trace, POSITIVE)
    handle.remove()
    assert not _get_current_function_mode_stack()
    assert not any(submodule._forward_hooks or submodule._forward_pre_hooks for submodule in module.modules())
    if family == "longformer":
        assert module.longformer.encoder.plain is False


@settings(max_examples=15, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    seed=st.integers(0, 1000),
    tokens=st.integers(1, 7),
    scale=st.sampled_from([0.0, 1e-8, 0.3, 1.0, 4.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    target=st.integers(0, 2),
)
def test_no_random_model_yields_nan(family, seed, tokens, scale, dtype, target):
    module = tiny_module(family, seed=seed, dtype=dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(scale)
    model = load(module)
    encoding = model.encode(ids=tiny_ids(family, tokens, seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for rules in ("positive", "classic"):
            options = {name: {"rules": rules} for name in ("partial_lrp", "lrp", "transatt")}
            for explanation in model.explain(encoding, methods=list(METHODS), target=target, **options).values():
                assert np.isfinite(explanation.scores).all()
                assert np.isfinite(explanation.layers).all()
                assert all(np.isfinite(check) for check in explanation.checks.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_run_again_one_at_a_time_and_are_left_as_they_were(family, monkeypatch):
    monkeypatch.setattr(propagation, "GRAPH_BYTES", 0)
    model = tiny_model(family)
    alive: list[int] = []
    differentiate = Layerwise.differentiate

    def watch(self, number, *arguments):
        alive.append(number)
        return differentiate(self, number, *arguments)

    monkeypatch.setattr(Layerwise, "differentiate", watch)
    model.explain(model.encode(ids=tiny_ids(family)), "attnlrp", 0, quantity="logit")
    assert alive == list(reversed(range(len(model.network.layers))))
    assert not any("forward" in vars(layer) for layer in model.network.layers)


# Behind padding, the mask is one more sum with a quotient of the ε-rule, which hands on R·a/(a + ε).
@pytest.mark.parametrize(("lengths", "tolerance"), [((12, 12, 12), 1e-9), ((13, 10, 12), 1e-6)])
@pytest.mark.parametrize("family", FAMILIES)
def test_documents_together_get_what_each_gets_layer_by_layer(family, lengths, tolerance, monkeypatch):
    model = tiny_model(family)
    encodings = [model.encode(ids=tiny_ids(family, n, seed=seed)) for seed, n in enumerate(lengths)]
    together = model.explain(encodings, "attnlrp")
    monkeypatch.setattr(propagation, "GRAPH_BYTES", 0)
    for encoding, explanation in zip(encodings, together, strict=True):
        alone = model.explain(encoding, "attnlrp")
        close(explanation.scores, alone.scores, tolerance)
        close(explanation.layers, alone.layers, tolerance)


def test_documents_together_take_one_backward_pass():
    model = tiny_model()
    before = model.network.backward_passes
    model.explain([model.encode(ids=tiny_ids(n=n)) for n in (13, 12, 11)], "attnlrp")
    assert model.network.backward_passes == before + 1


@pytest.mark.parametrize("limit", [0, 5000, 2**30])
@pytest.mark.parametrize("family", ["albert", "gpt2", "longformer"])
def test_kept_outputs_of_linear_maps_change_nothing(family, limit, monkeypatch):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 13))
    monkeypatch.setattr(layerwise, "KEPT_BYTES", 0)
    expected = model.explain(encoding, "lrp", 0)
    monkeypatch.setattr(layerwise, "KEPT_BYTES", limit)
    explanation = model.explain(encoding, "lrp", 0)
    close(explanation.scores, expected.scores)
    close(explanation.layers, expected.layers)


@pytest.mark.parametrize("kept", [0, 4_000, 10**9])
@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "longformer"])
def test_gradients_beside_relevance_are_the_ordinary_ones(family, kept, monkeypatch):
    monkeypatch.setattr(layerwise, "KEPT_BYTES", kept)
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 13))
    ordinary, beside = model.trace(encoding, target=1), model.trace(encoding, target=1)
    ordinary.require("attention_gradients", "gradients")
    beside.require("attention_gradients", "attention_relevance", "gradients")
    # Twice: another target goes back through the same layers.
    for one, other in ((beside, ordinary), (beside.with_target(0), ordinary.with_target(0))):
        propagate(one, POSITIVE)
        close(one.embedding_gradient, other.embedding_gradient)
        for layer in range(one.layer_count):
            close(one.attention_gradients[layer].dense(), other.attention_gradients[layer].dense())
            close(one.input_gradients[layer], other.input_gradients[layer])


@pytest.mark.parametrize("method", METHODS)
def test_prediction_gradients_and_relevance_share_one_run_of_the_linear_maps(method):
    model = tiny_model("longformer")
    encoding = model.encode(ids=tiny_ids("longformer", 13))
    with LinearMaps() as alone:
        model.explain(encoding, "attcat", 0, quantity="logit")
    with LinearMaps() as both:
        model.explain(encoding, method, 0, quantity="logit")
    layer = model.network.layers[0]
    for name in ("attention.self.query", "attention.output.dense", "intermediate.dense", "output.dense"):
        weight = layer.get_submodule(name).weight
        assert both.rows[id(weight)] == alone.rows[id(weight)] == 13


@pytest.mark.parametrize("global_tokens", [[0], [0, 4, 12]])
@pytest.mark.parametrize("rules", RULES)
def test_a_last_layer_of_one_row_gives_the_relevance_of_one_with_all_rows(rules, global_tokens):
    model = tiny_model("longformer")
    encoding = model.encode(ids=tiny_ids("longformer", 13), global_tokens=global_tokens)

    def relevance():
        trace = model.trace(encoding, target=1, quantity="logit")
        trace.require("attention_relevance", "attention_gradients")
        return propagate(trace, RULES[rules])

    one_row = relevance()
    model.network.banded_encoder.readout_rows = "all"
    all_rows = relevance()
    assert not np.any(one_row.hidden[-1][1:])
    close(one_row.embeddings, all_rows.embeddings)
    for one, other in zip(one_row.hidden, all_rows.hidden, strict=True):
        close(one, other)
    for layer, other_layer in zip(one_row.attentions, all_rows.attentions, strict=True):
        for one, other in zip(layer, other_layer, strict=True):
            close(one.dense(), other.dense())


@pytest.mark.parametrize("method", ["partial_lrp", "lrp", "transatt"])
@pytest.mark.parametrize("family", ["bert", "longformer", "gpt2"])
def test_rules_that_amplify_rounding_errors_run_in_double_precision(family, method):
    module = tiny_module(family, dtype=torch.float32)
    single = load(module)
    options = {"precision": "double"} if method == "transatt" else {}
    explained = single.explain(single.encode(ids=tiny_ids(family, 13)), method, 0, **options)
    assert module.dtype == torch.float32
    double = load(module.double())
    expected = double.explain(double.encode(ids=tiny_ids(family, 13)), method, 0)
    np.testing.assert_array_equal(explained.scores, expected.scores)
    np.testing.assert_array_equal(explained.layers, expected.layers)


@pytest.mark.parametrize(
    ("methods", "options"),
    [(["transatt"], {}), (["transatt"], {"transatt": {"precision": "double"}}), (["gradient", "partial_lrp"], {})],
)
def test_nothing_of_a_pass_outlives_its_explanation(methods, options):
    single = load(tiny_module("longformer", dtype=torch.float32))
    encoding = single.encode(ids=tiny_ids("longformer", 13))

    def count_passes():
        single.explain(encoding, methods=methods, target=0, **options)
        gc.collect()
        return sum(type(thing) is Pass for thing in gc.get_objects())

    assert count_passes() == count_passes() == count_passes()


class LinearMaps(TorchFunctionMode):
    """Counts the rows that every linear map computes."""

    def __init__(self):
        super().__init__()
        self.rows = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is linear:
            self.rows[id(args[1])] += args[0].numel() // args[0].shape[-1]
        return func(*args, **(kwargs or {}))


def test_an_output_changed_in_place_is_computed_again():
    x, weight = torch.randn(2, 3, 5), torch.randn(4, 5)
    with LinearOutputs(10_000) as outputs:
        linear(x, weight).relu_()
    assert outputs.bytes == 2 * 3 * 4 * 4
    outputs.start_later_run()
    with outputs:
        torch.testing.assert_close(linear(x, weight), x @ weight.T)


def test_an_output_computed_in_chunks_is_returned_whole():
    x, weight = torch.randn(7, 5), torch.randn(4, 5)
    with LinearOutputs(10_000) as outputs:
        chunks = [linear(rows, weight) for rows in x.split(3)]
    outputs.start_later_run()
    with outputs:
        assert torch.equal(linear(torch.zeros_like(x), weight), torch.cat(chunks))
        # Taken once: the second call computes.
        assert torch.equal(linear(torch.zeros_like(x), weight), torch.zeros(7, 4))


def test_kept_outputs_serve_several_runs_in_the_chunks_of_the_first_or_whole():
    x, weight = torch.randn(7, 5), torch.randn(4, 5)
    with LinearOutputs(10_000) as outputs:
        chunks = [linear(rows, weight) for rows in x.split(3)]
    elsewhere = torch.zeros_like(x, requires_grad=True)
    for last, sizes in ((False, [3, 3, 1]), (False, [7]), (True, [6, 1])):
        outputs.start_later_run(last=last)
        with outputs:
            returned = torch.cat([linear(rows, weight) for rows in elsewhere.split(sizes)])
        assert torch.equal(returned, torch.cat(chunks))
        (gradient,) = torch.autograd.grad(returned.sum(), elsewhere)
        torch.testing.assert_close(gradient, weight.sum(dim=0).expand(7, 5))


def test_rows_without_relevance_are_skipped_and_others_unchanged(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    R, x, weight = (torch.rand(*shape, generator=generator).double() - 0.3 for shape in ((7, 4), (7, 5), (4, 5)))
    R[:4] = 0
    output = linear(x, weight)
    for rules in RULES.values():
        expected = rules.linear(R, x, weight, None, output)
        with monkeypatch.context() as patch:
            patch.setattr(relevance_rules, "LINEAR_ROWS", 2)
            relevance = rules.linear(R, x, weight, None, output)
        torch.testing.assert_close(relevance, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("zero", [False, True])
def test_entries_in_parts_get_the_same_bits_as_all_at_once(zero, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    R, a, b = (torch.randn(2, 7, 5, generator=generator) for _ in range(3))
    if zero:
        a[0, 3], b[0, 3, :2], b[1] = 0, 0, -a[1]
    for rules in RULES.values():
        operations = [rules.add] if rules.copy is None else [rules.add, lambda R, a, b, copy=rules.copy: (copy(R, a),)]
        for operation in operations:
            expected = operation(R, a, b)
            with monkeypatch.context() as patch:
                patch.setattr(relevance_rules, "ENTRIES", 12)
                parts = operation(R, a, b)
            assert all(torch.equal(part, whole) for part, whole in zip(parts, expected, strict=True))
