"""LIME, KernelSHAP and GradientSHAP against definitions written out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from captum.attr import GradientShap, LimeBase
from sklearn.linear_model import Ridge

from sightline.api.load import load
from sightline.errors import OptionError
from sightline.methods import sampling
from sightline.methods.integration import build_path
from sightline.methods.sampling import shapley_fit, weighted_ridge
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

IDS = tiny_ids("bert", 7)  # five words between two specials
TARGET = 1
MASK = 103  # of the vocabulary that is assumed where there is no tokenizer
SAMPLED = ("lime", "kernel_shap", "gradient_shap")


def log_odds(kept) -> float:
    words = (i if keep else MASK for i, keep in zip(IDS[1:-1], kept, strict=True))
    ids = torch.tensor([[IDS[0], *words, IDS[-1]]])
    return float(torch.softmax(tiny_module()(ids).logits[0].detach(), -1)[TARGET].logit())


@pytest.fixture(scope="module")
def value():
    """The log-odds with every subset of the five words."""
    return {kept: log_odds(kept) for kept in itertools.product((0, 1), repeat=5)}


def exact_shapley(value, words=5) -> np.ndarray:
    """The mean over all orders of what each word adds to those before it."""
    shares = np.zeros(words)
    for order in itertools.permutations(range(words)):
        kept = [0] * words
        for word in order:
            before = value[tuple(kept)]
            kept[word] = 1
            shares[word] += value[tuple(kept)] - before
    return shares / math.factorial(words)


def explain(method, **options):
    model = tiny_model()
    return model.explain(model.encode(ids=IDS), method, target=TARGET, **options)


def test_kernel_shap_with_all_coalitions_is_the_exact_shapley_value(value):
    explanation = explain("kernel_shap", samples=32)
    assert explanation.checks["exact"] is True
    assert explanation.checks["model_calls"] == 32
    np.testing.assert_allclose(explanation.scores[1:-1], exact_shapley(value), atol=1e-8)
    assert explanation.scores[[0, -1]].tolist() == [0.0, 0.0]


def test_kernel_shap_with_few_samples_still_adds_up_and_comes_near(value):
    explanation = explain("kernel_shap", samples=30)
    assert explanation.checks["exact"] is False
    assert explanation.checks["completeness_gap"] < 1e-9
    assert explanation.scores.sum() == pytest.approx(value[(1,) * 5] - value[(0,) * 5], abs=1e-12)
    exact = exact_shapley(value)
    assert np.abs(explanation.scores[1:-1] - exact).sum() < 0.5 * np.abs(exact).sum()


@pytest.mark.parametrize("count", [1, 2, 40])
def test_of_many_solutions_the_one_nearest_to_equal_shares_is_taken(count):
    z = np.stack([np.zeros(count), np.ones(count)])
    np.testing.assert_allclose(shapley_fit(z, np.array([1.0, 3.0]), np.ones(2)), 2.0 / count)


def test_a_linear_model_is_found_exactly_from_random_coalitions():
    generator = np.random.default_rng(1)
    true = generator.normal(size=9)
    z = np.concatenate([np.zeros((1, 9)), np.ones((1, 9)), generator.integers(0, 2, (40, 9))]).astype(float)
    np.testing.assert_allclose(shapley_fit(z, z @ true + 2, generator.random(42)), true, atol=1e-12)


@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_weighted_ridge_is_sklearn_s(ridge):
    generator = np.random.default_rng(0)
    z, y, weights = generator.integers(0, 2, (30, 6)).astype(float), generator.normal(size=30), generator.random(30)
    reference = Ridge(alpha=ridge).fit(z, y, sample_weight=weights)
    coefficients, fit = weighted_ridge(z, y, weights, ridge)
    np.testing.assert_allclose(coefficients, reference.coef_, atol=1e-10)
    assert fit == pytest.approx(reference.score(z, y, sample_weight=weights), abs=1e-12)


def test_lime_is_a_ridge_regression_on_documents_with_words_missing(value):
    explanation = explain("lime", samples=60, seed=3, kernel_width=0.5, ridge=0.1)
    generator = np.random.default_rng(3)
    masks = [(1,) * 5]
    for _ in range(59):
        order, gone = generator.permutation(5), generator.integers(1, 6)
        masks.append(tuple(int(word not in order[:gone]) for word in range(5)))
    cosine = [sum(mask) / (math.sqrt(sum(mask)) * math.sqrt(5)) if any(mask) else 0 for mask in masks]
    weights = [math.exp(-((1 - c) ** 2) / (2 * 0.5**2)) for c in cosine]
    reference = Ridge(alpha=0.1).fit(np.array(masks, float), [value[mask] for mask in masks], sample_weight=weights)
    np.testing.assert_allclose(explanation.scores[1:-1], reference.coef_, atol=1e-7)
    assert explanation.checks["surrogate_fit"] == pytest.approx(
        reference.score(np.array(masks, float), [value[mask] for mask in masks], sample_weight=weights), abs=1e-6
    )


@pytest.mark.parametrize(("method", "samples"), [("lime", 60), ("kernel_shap", 32), ("kernel_shap", 30)])
def test_the_same_fit_run_by_captum_gives_the_same_scores(method, samples, monkeypatch):
    """Captum's loop hands all samples to the fit, their weights in single precision."""
    name = "weighted_ridge" if method == "lime" else "shapley_fit"
    fit, calls = getattr(sampling, name), []
    monkeypatch.setattr(sampling, name, lambda *arguments: calls.append(arguments) or fit(*arguments))
    scores = explain(method, samples=samples).scores
    ((masks, values, weights, *options),) = calls

    class Fitted:
        def fit(self, batches):
            z, _, w = (part.double().numpy() for part in next(iter(batches)))
            coefficients = fit(z, values, w, *options)
            self.coefficients = coefficients[0] if method == "lime" else coefficients

        def representation(self):
            return torch.from_numpy(self.coefficients)

    remaining = iter(weights)

    def draw(*_, **__):
        yield from torch.from_numpy(masks)[:, None]

    engine = LimeBase(
        forward_func=lambda _: torch.from_numpy(values),
        interpretable_model=Fitted(),
        similarity_func=lambda *_, **__: float(next(remaining)),
        perturb_func=draw,
        perturb_interpretable_space=True,
        from_interp_rep_transform=lambda z, *_, **__: z,
        to_interp_rep_transform=None,
    )
    expected = engine.attribute(torch.ones(1, 5), n_samples=len(masks), perturbations_per_eval=len(masks))
    np.testing.assert_allclose(scores[1:-1], expected, rtol=0, atol=2e-9)


def test_words_of_several_tokens_are_one_feature_and_specials_stay():
    model = load(tiny_module(), tokenizer=wordpiece())
    explanation = model.explain("hello millers", "kernel_shap", target=TARGET, replacement="mask")
    encoding = explanation.encoding
    assert explanation.tokens == ("[CLS]", "hello", "mill", "er", "s", "[SEP]")

    def y(*gone):
        ids = encoding.ids.copy()
        ids[list(gone)] = model.tokenizer.mask_token_id
        probability = model.trace(encoding.replace_ids(ids)).probabilities[TARGET]
        return np.log(probability / (1 - probability))

    second = (y() - y(2, 3, 4) + y(1) - y(1, 2, 3, 4)) / 2
    np.testing.assert_allclose(explanation.scores[2:5], second / 3, atol=1e-10)
    assert explanation.checks["model_calls"] == 4


def test_gradient_shap_without_noise_tends_to_integrated_gradients():
    exact = explain("integrated_gradients", steps=100).scores
    explanation = explain("gradient_shap", samples=3000, noise=0.0)
    assert np.abs(explanation.scores - exact).sum() < 0.05 * np.abs(exact).sum()
    assert explanation.checks["completeness_gap"] < 0.05
    assert explanation.scores[[0, -1]].tolist() == [0.0, 0.0]


def test_gradient_shap_averages_over_batches_of_any_size(monkeypatch):
    monkeypatch.setattr("sightline.methods.sampling.BATCH_TOKENS", 3 * len(IDS))
    explanation = explain("gradient_shap", samples=300, noise=0.0)
    exact = explain("integrated_gradients", steps=100).scores
    assert np.abs(explanation.scores - exact).sum() < 0.2 * np.abs(exact).sum()


def test_gradient_shap_is_captum_s_but_for_the_draws():
    model = tiny_model()
    explanation = model.explain(model.encode(ids=IDS), "gradient_shap", target=TARGET, samples=4000)
    trace = model.trace(model.encode(ids=IDS), target=TARGET)
    path = build_path(trace, "pad", None, "full")
    inner = torch.arange(1, len(IDS) - 1)

    def values(points):
        return trace.values_at({0: path.end.expand(len(points), -1, -1).index_copy(1, inner, points)})

    end, start = path.end[None, inner], path.start[None, inner]
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    deviation = 0.1 * float(end.std(correction=0))
    expected = GradientShap(values).attribute(end, start, n_samples=4000, stdevs=deviation)[0].sum(-1).numpy()
    assert np.abs(explanation.scores[1:-1] - expected).sum() < 0.05 * np.abs(expected).sum()


@pytest.mark.parametrize("method", SAMPLED)
def test_the_seed_decides_and_the_global_random_states_do_not_change(method):
    model = tiny_model()

    def scores(seed):
        return model.explain(model.encode(ids=IDS), method, target=TARGET, samples=20, seed=seed).scores

    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = scores(seed=1)
    torch.testing.assert_close(torch.get_rng_state(), states[0])
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    torch.manual_seed(6)
    np.testing.assert_array_equal(scores(seed=1), first)
    assert not np.allclose(scores(seed=2), first)


@pytest.mark.parametrize("method", SAMPLED)
def test_a_document_of_specials_scores_zero(method):
    model = tiny_model()
    explanation = model.explain(model.encode(ids=[101, 102]), method)
    assert explanation.scores.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("method", ["lime", "kernel_shap"])
def test_too_few_samples_are_reported_and_refused(method):
    with pytest.warns(UserWarning, match=f"{method} has 4 samples for 5 words"):
        assert np.isfinite(explain(method, samples=4).scores).all()
    with pytest.raises(OptionError, match="at least 4 samples, not 3"):
        explain(method, samples=3)


@pytest.mark.parametrize("method", SAMPLED)
def test_progress_is_told_until_the_end(method):
    seen = []
    explain(method, samples=20, progress=lambda *step: seen.append(step))
    name, done, total = seen[-1]
    assert (name, done) == (method, total)
    assert total > 1


@pytest.mark.parametrize("value", [1e-320, 1e308, -1.0])
@pytest.mark.parametrize(
    ("method", "option"), [("lime", "kernel_width"), ("lime", "ridge"), ("gradient_shap", "noise")]
)
def test_options_that_would_overflow_are_refused(method, option, value):
    if value == 1e-320 and option != "kernel_width":
        assert np.isfinite(explain(method, samples=20, **{option: value}).scores).all()
        return
    with pytest.raises(OptionError, match=f"{option} must be between"):
        explain(method, samples=20, **{option: value})


@pytest.mark.parametrize(
    ("method", "option", "value"),
    [
        ("lime", "kernel_width", 1e-6),
        ("lime", "kernel_width", 1e6),
        ("lime", "ridge", 1e6),
        ("gradient_shap", "noise", 1e6),
    ],
)
def test_the_ends_of_the_ranges_give_finite_scores(method, option, value):
    assert np.isfinite(explain(method, samples=20, **{option: value}).scores).all()
