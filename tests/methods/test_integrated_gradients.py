"""Integrated gradients against captum, completeness, and the stopping rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients, LayerIntegratedGradients

from sightline.api.load import load
from sightline.errors import ModelError, OptionError
from sightline.files import processes
from sightline.methods.integration import SIZES, convergence_checks, expected_change, nested_rules
from sightline.models import batching
from tests.tiny_models import FAMILIES, tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

IDS = tiny_ids("bert", 10)
BASELINE = [IDS[0], *[0] * 8, IDS[-1]]


def captum_scores(embeddings: str, steps: int) -> np.ndarray:
    """Captum on the library's model: the whole embedding module, or word embeddings fed to inputs_embeds."""
    module = tiny_module()
    ids, baseline = torch.tensor([IDS]), torch.tensor([BASELINE])
    if embeddings == "full":
        method = LayerIntegratedGradients(lambda i: torch.softmax(module(i).logits, -1), module.bert.embeddings)
        attributions = method.attribute(ids, baselines=baseline, target=1, n_steps=steps, method="gausslegendre")
    else:
        words = module.get_input_embeddings()
        method = IntegratedGradients(lambda e: torch.softmax(module(inputs_embeds=e).logits, -1))
        attributions = method.attribute(words(ids), baselines=words(baseline), target=1, n_steps=steps)
    return attributions[0].sum(-1).detach().numpy()


@pytest.mark.parametrize("embeddings", ["full", "word"])
@pytest.mark.parametrize("steps", [5, 20])
def test_fixed_steps_equal_captum(embeddings, steps):
    model = tiny_model()
    explanation = model.explain(
        model.encode(ids=IDS),
        "integrated_gradients",
        target=1,
        quantity="probability",
        embeddings=embeddings,
        steps=steps,
    )
    np.testing.assert_allclose(explanation.scores, captum_scores(embeddings, steps), atol=1e-12)
    assert explanation.checks["evaluations"] == steps


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_add_up_to_the_change_of_the_output(family):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 12))
    explanation = model.explain(encoding, "integrated_gradients", target=1, tolerance=5e-3, quantity="logit")
    pad = np.where(encoding.special, encoding.ids, model.network.token_id("pad"))
    rise = model.trace(encoding).logits[1] - model.trace(encoding.replace_ids(pad)).logits[1]
    assert explanation.checks["converged"]
    assert explanation.scores.sum() == pytest.approx(rise, rel=5e-3)
    assert not explanation.scores[encoding.special].any()  # specials are the same in the baseline


def test_the_adaptive_rule_reaches_the_fine_one_and_reuses_its_evaluations():
    model = tiny_model()
    encoding = model.encode(ids=IDS)
    exact = model.explain(encoding, "integrated_gradients", target=1, steps=300).scores
    before = model.network.backward_passes
    explanation = model.explain(encoding, "integrated_gradients", target=1)
    error = np.abs(explanation.scores - exact).sum() / np.abs(exact).sum()
    assert error < 0.01
    assert explanation.checks["evaluations"] in (7, 15, 31, 63, 127)
    # 10 tokens per document: the first rules are one batch, and every further one is a batch of new points only.
    assert model.network.backward_passes - before == int(np.log2((explanation.checks["evaluations"] + 1) / 4))


def test_zero_baseline_keeps_specials():
    model = tiny_model()
    explanation = model.explain(model.encode(ids=IDS), "integrated_gradients", target=1, baseline="zero")
    assert explanation.scores[[0, -1]].tolist() == [0.0, 0.0]
    assert np.abs(explanation.scores[1:-1]).min() > 0


def test_it_says_when_it_did_not_converge():
    model = tiny_model()
    with pytest.warns(UserWarning, match="stopped after 3 evaluations"):
        explanation = model.explain(model.encode(ids=IDS), "integrated_gradients", max_evaluations=5)
    assert explanation.checks["converged"] is False


def test_an_input_equal_to_its_baseline_has_zero_scores():
    model = tiny_model()
    explanation = model.explain(model.encode(ids=BASELINE), "integrated_gradients")
    assert not explanation.scores.any()
    assert explanation.checks["converged"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "at least one step"),
        ({"tolerance": 2.0}, "share between 0 and 1"),
        ({"baseline": "noise"}, "must be one of 'pad', 'mask', 'zero'"),
        ({"step": 5}, "no option 'step'. Did you mean 'steps'?"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    model = tiny_model()
    with pytest.raises(OptionError, match=message):
        model.explain(model.encode(ids=IDS), "integrated_gradients", **options)


def test_a_vocabulary_without_mask_token_has_no_baseline_of_them():
    model = tiny_model("albert")
    with pytest.raises(OptionError, match="has no mask token"):
        model.explain(model.encode(ids=tiny_ids("albert", 9)), "integrated_gradients", baseline="mask")


PAIR_TYPES = [0] * 6 + [1] * 4


def separate(model, **options):
    encoding = replace(model.encode(ids=IDS), type_ids=np.array(PAIR_TYPES))
    return model.explain(encoding, "integrated_gradients", target=1, embeddings="separate", **options)


def test_separate_embeddings_equal_captum_on_the_three_tables():
    module = tiny_module()
    tables = module.bert.embeddings
    ids, positions, types = torch.tensor([IDS]), torch.arange(10)[None], torch.tensor([PAIR_TYPES])
    # Specials keep word, position and type; the others have those of the first token and type 0.
    at_start = (torch.tensor([BASELINE]), torch.tensor([[0] * 9 + [9]]), torch.tensor([[0] * 9 + [1]]))
    method = LayerIntegratedGradients(
        lambda i, p, t: module(i, position_ids=p, token_type_ids=t).logits,
        [tables.word_embeddings, tables.position_embeddings, tables.token_type_embeddings],
    )
    expected = method.attribute((ids, positions, types), baselines=at_start, target=1, n_steps=7)
    explanation = separate(tiny_model(), steps=7, quantity="logit")
    assert list(explanation.extras) == ["word", "position", "type"]
    for part, theirs in zip(explanation.extras.values(), expected, strict=True):
        # Captum's step sizes are in single precision.
        np.testing.assert_allclose(part, theirs[0].sum(-1).detach().numpy(), rtol=1e-6, atol=1e-12)
        assert np.abs(part).max() > 1e-3
    np.testing.assert_allclose(explanation.scores, sum(explanation.extras.values()), atol=1e-12)


@pytest.mark.parametrize(
    ("family", "parts"), [("distilbert", ["word", "position"]), ("modernbert", ["word"]), ("longformer", None)]
)
def test_families_give_the_embeddings_they_have_and_these_add_up(family, parts):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 8))
    explanation = model.explain(
        encoding, "integrated_gradients", embeddings="separate", tolerance=5e-3, quantity="logit"
    )
    assert list(explanation.extras) == (parts or ["word", "position", "type"])
    assert explanation.checks["converged"]
    np.testing.assert_allclose(explanation.scores, sum(explanation.extras.values()), atol=1e-12)
    assert explanation.scores[encoding.special].tolist() == [0.0, 0.0]


def test_word_alone_and_separate_with_unmoved_tables_are_the_same():
    model = tiny_model("modernbert")
    encoding = model.encode(ids=tiny_ids("modernbert", 8))
    word, alone = (
        model.explain(encoding, "integrated_gradients", steps=5, embeddings=form).scores
        for form in ("word", "separate")
    )
    np.testing.assert_allclose(word, alone, atol=1e-14)


@pytest.mark.parametrize(("own", "filled"), [([7, 8], [7, 8, 0, 0, 0, 0, 0, 0]), ([9] * 20, [9] * 8)])
def test_a_baseline_of_ids_is_cut_or_padded_to_the_document(own, filled):
    model = tiny_model()
    encoding = model.encode(ids=IDS)
    explanation = model.explain(
        encoding, "integrated_gradients", target=1, baseline=own, max_evaluations=513, quantity="logit"
    )
    other = model.trace(model.encode(ids=[IDS[0], *filled, IDS[-1]]))
    assert explanation.scores.sum() == pytest.approx(model.trace(encoding).logits[1] - other.logits[1], rel=0.01)


def test_a_baseline_text_is_read_by_the_model_s_tokenizer():
    model = load(tiny_module(), tokenizer=wordpiece())
    by_text = model.explain("the old mill", "integrated_gradients", baseline_text="hello world river", steps=3)
    ids = model.encode("hello world river").ids[1:-1].tolist()
    by_ids = model.explain("the old mill", "integrated_gradients", baseline=ids, steps=3)
    np.testing.assert_array_equal(by_text.scores, by_ids.scores)
    assert by_text.options["baseline_text"] == "hello world river"
    with pytest.raises(OptionError, match="either baseline= or baseline_text="):
        model.explain("the old mill", "integrated_gradients", baseline="zero", baseline_text="river")
    with pytest.raises(ModelError, match="has no tokenizer"):
        tiny_model().explain(tiny_model().encode(ids=IDS), "integrated_gradients", baseline_text="river")


@pytest.mark.parametrize(
    ("own", "message"),
    [(own, "or a list of token ids between 0 and 127") for own in ([], [500], [-1])]
    + [([0.5], r"or a list of whole numbers, not \[0.5\]")],
)
def test_a_baseline_that_is_not_a_list_of_ids_is_refused(own, message):
    model = tiny_model()
    with pytest.raises(OptionError, match=message):
        model.explain(model.encode(ids=IDS), "integrated_gradients", baseline=own)


@pytest.mark.parametrize("rule", range(1, len(SIZES)))
def test_nested_rules_integrate_polynomials_up_to_their_degree(rule):
    nodes, weights, sizes = nested_rules(1000)
    assert sizes == SIZES == (1, 3, 7, 15, 31, 63, 127)
    size = sizes[rule]
    assert not weights[rule, size:].any()
    assert (weights[rule, :size] > 0).all()
    degrees = np.arange((3 * size + 1) // 2 + 1)
    np.testing.assert_allclose(weights[rule] @ nodes[:, None] ** degrees, 1 / (degrees + 1), atol=1e-14)
    smaller, _, _ = nested_rules(size)
    np.testing.assert_array_equal(smaller, nodes[:size])


def test_nested_rules_contain_those_of_gauss_and_kronrod():
    nodes, weights, _ = nested_rules(3)
    expected, shares = np.polynomial.legendre.leggauss(3)
    order = np.argsort(nodes)
    np.testing.assert_allclose(nodes[order], (expected + 1) / 2, atol=1e-15)
    np.testing.assert_allclose(weights[1][order], shares / 2, atol=1e-15)


def test_the_expected_change_continues_the_last_two():
    steps = [torch.tensor([value]) for value in (0.5, 0.9, 1.0)]
    assert expected_change(steps) == pytest.approx(0.1 * 0.1 / (0.4 / 0.9))
    assert expected_change(steps[1:]) == 1
    assert expected_change([torch.zeros(1)] * 3) == 0


@pytest.mark.parametrize("options", [{"steps": 5}, {}])
@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_all_classes_share_the_forwards_and_each_gets_its_own_scores(family, options):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 12))
    forwards, alone = [], []
    for target in range(3):
        before = model.network.forward_passes
        alone.append(model.explain(encoding, "integrated_gradients", target=target, **options))
        forwards.append(model.network.forward_passes - before)
    before = model.network.forward_passes
    together = model.explain(encoding, "integrated_gradients", target="all", **options)
    assert model.network.forward_passes - before == max(forwards)
    for one, other in zip(alone, together.by_target().values(), strict=True):
        np.testing.assert_allclose(other.scores, one.scores, rtol=0, atol=1e-12)
        assert other.checks == pytest.approx(one.checks, abs=1e-9)


def test_points_fill_the_memory_that_the_machine_has_and_change_nothing(monkeypatch):
    model = tiny_model()
    encoding = model.encode(ids=IDS)
    device, dtype = torch.device("cpu"), torch.float64
    config = model.network.config
    per_token = batching.KEPT_WIDTHS * config.hidden_size * config.num_hidden_layers * dtype.itemsize
    results = []
    for documents in (1, 3, 1000):
        monkeypatch.setattr(batching, "total_memory", lambda _, n=documents: 4 * n * len(IDS) * per_token)
        assert batching.graph_tokens(config, device, dtype) == min(documents * len(IDS), batching.BATCH_TOKENS)
        before = model.network.backward_passes
        results.append(model.explain(encoding, "integrated_gradients", target=1, steps=7).scores)
        assert model.network.backward_passes - before == -(-7 // documents)
    for scores in results[1:]:
        np.testing.assert_allclose(scores, results[0], rtol=0, atol=1e-12)


def test_the_memory_of_a_container_is_that_of_its_limit(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(processes, "_CONTAINER", limit)
    machine = batching.total_memory(torch.device("cpu"))
    limit.write_text("max\n")
    assert batching.total_memory(torch.device("cpu")) == machine
    limit.write_text("1000000\n")
    assert batching.total_memory(torch.device("cpu")) == 1_000_000


@pytest.mark.parametrize(("evaluations", "advice"), [(63, "raise max_evaluations"), (127, "use steps=3800 ")])
def test_an_integral_that_has_not_settled_says_what_to_do(evaluations, advice):
    with pytest.warns(UserWarning, match=advice):
        checks = convergence_checks(0.3, 0.1, 0.01, evaluations)
    assert checks["converged"] is False
