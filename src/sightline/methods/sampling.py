"""LIME, KernelSHAP and GradientSHAP: explanations from random variations of the document; and random scores.

LIME and KernelSHAP remove parts of the document (words by default, never special tokens) and fit a linear model to
the output: z in {0, 1}^F says which of the F parts are there, y(z) is the output for that document. Random scores are
the floor that every method must beat.
Everything is drawn from the seed; the global random states are not used.
"""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightline.attention.arrays import as_array
from sightline.errors import OptionError
from sightline.methods.integration import Baseline, build_path, completeness_gap
from sightline.methods.registry import Array, Attribution, method
from sightline.models.batching import BATCH_TOKENS
from sightline.models.target import Quantity
from sightline.passes.perturb import Replacement, default_replacement, evaluate_removals, request_removals
from sightline.passes.trace import Trace
from sightline.settings.values import check_seed
from sightline.text.units import Level, Units, units_of


@method(
    "random",
    title="Random scores",
    kind="baseline",
    summary="Uniform random scores from a seed: the floor for every comparison.",
    formula="s_i ~ U(0, 1)",
    citation="baseline",
    needs=set(),
    signed=False,
    class_specific=False,
    cost="none",
    use="Use it as the chance level in comparisons.",
    avoid="Avoid it as an explanation.",
)
def random(trace: Trace, *, seed: int = 0) -> Array:
    """Independent uniform scores from numpy's PCG64."""
    return np.random.default_rng(check_seed(seed)).random(trace.token_count)


SMALLEST_WIDTH = 1e-6
"""Smallest kernel width of LIME: far below any distance between samples, and its square is still an ordinary number."""
LARGEST_VALUE = 1e6
"""Largest kernel width, ridge and noise: beyond it single precision overflows inside the model."""


def _evaluate(
    trace: Trace, units: Units, masks: NDArray[np.bool_], replacement: Replacement | None, quantity: Quantity | None
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return y(z) (S,) for the samples `masks` (S, F), and checks: how the parts were removed, at how many calls."""
    replacement = replacement or default_replacement(trace.network)
    removed = [units.positions(np.flatnonzero(~mask)) for mask in masks]
    # All samples at once: they are sorted by length and cut into batches where the model is run.
    removals, keys = request_removals(trace, removed, replacement)
    values = evaluate_removals(trace, removals, keys, quantity).astype(np.float64)
    return values, {"model_calls": removals.calls_made, "replacement": replacement}


@method(
    "lime",
    title="LIME",
    kind="perturbation",
    summary="Signed weights of a linear model fitted to the output for documents with random words removed.",
    formula="s = argmin_s Σ_z π(z) (y(z) − s₀ − s·z)² + λ‖s‖²,  π(z) = exp(−D²/2σ²), D = 1 − cos(z, 1)",
    citation="Ribeiro et al. 2016",
    needs={"probes"},
    signed=True,
    class_specific=True,
    cost="one forward pass per sample",
    use="Use it when the model can only be called, and as the best-known point of comparison.",
    avoid="Avoid fewer samples than words: most weights are then noise.",
)
def lime(
    trace: Trace,
    *,
    samples: int = 200,
    level: Level = "word",
    replacement: Replacement | None = None,
    quantity: Quantity | None = None,
    kernel_width: float = 0.25,
    ridge: float = 1.0,
    seed: int = 0,
) -> Attribution:
    """Each sample lacks a random number of parts; a part's weight is shared equally among its tokens.

    Check surrogate_fit is the weighted R² of the linear model on its samples: below about a half, do not trust it.
    """
    if not SMALLEST_WIDTH <= kernel_width <= LARGEST_VALUE:
        raise OptionError(f"kernel_width must be between {SMALLEST_WIDTH:g} and {LARGEST_VALUE:g}, not {kernel_width}.")
    if not 0 <= ridge <= LARGEST_VALUE:
        raise OptionError(f"ridge must be between 0 and {LARGEST_VALUE:g}, not {ridge}.")
    generator = np.random.default_rng(check_seed(seed))
    units = _units(trace, level, samples, "lime")
    if not len(units):
        return Attribution(np.zeros(trace.token_count), checks={"model_calls": 0})
    count = len(units)
    masks = np.ones((samples, count), dtype=bool)
    for mask in masks[1:]:  # the first one is the document itself
        mask[generator.permutation(count)[: generator.integers(1, count + 1)]] = False
    # cos(z, 1) = |z| / (√|z| √F)
    distance = 1 - np.sqrt(masks.mean(axis=1))
    weights = np.exp(-(distance**2) / (2 * kernel_width**2))
    values, checks = _evaluate(trace, units, masks, replacement, quantity)
    scores, fit = weighted_ridge(masks.astype(np.float64), values, weights, ridge)
    return Attribution(units.spread(scores), checks={**checks, "surrogate_fit": fit})


def weighted_ridge(
    z: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64], ridge: float
) -> tuple[NDArray[np.float64], float]:
    """Coefficients (F,) of argmin Σ w (y − s₀ − s·z)² + λ‖s‖², s₀ free, and the weighted R² (1 for constant y)."""
    share = weights / weights.sum()
    centred, rise = z - share @ z, y - share @ y
    # As a least-squares problem with λ as further rows: stable also for λ = 0 and more parts than samples.
    root = np.sqrt(weights)
    rows = np.concatenate([root[:, None] * centred, math.sqrt(ridge) * np.eye(z.shape[1])])
    coefficients = np.linalg.lstsq(rows, np.concatenate([root * rise, np.zeros(z.shape[1])]), rcond=None)[0]
    total = float(weights @ rise**2)
    rest = float(weights @ (rise - centred @ coefficients) ** 2)
    return coefficients, 1 - rest / total if total > 0 else 1.0


@method(
    "kernel_shap",
    title="Kernel SHAP",
    kind="perturbation",
    summary="Signed Shapley values of the words, estimated from documents with random words removed; they add up.",
    formula="s = argmin_s Σ_z π(z) (y(z) − y(0) − s·z)², Σ s = y(1) − y(0),  π(z) = (F−1) / (C(F,|z|) |z| (F−|z|))",
    citation="Lundberg & Lee 2017",
    needs={"probes"},
    signed=True,
    class_specific=True,
    cost="one forward pass per sample",
    use="Use it for a fair division among few parts: it is exact when all subsets fit in the samples.",
    avoid="Avoid fewer samples than words: choose level='sentence'.",
)
def kernel_shap(
    trace: Trace,
    *,
    samples: int = 200,
    level: Level = "word",
    replacement: Replacement | None = None,
    quantity: Quantity | None = None,
    seed: int = 0,
) -> Attribution:
    """All subsets of the parts where `samples` allow, else random ones in complementary pairs.

    A part's value is shared equally among its tokens. The sum is y(x) − y(all parts taken away); check
    completeness_gap is what rounding leaves of the difference. Check exact says that all subsets were used.
    """
    check_seed(seed)
    units = _units(trace, level, samples, "kernel_shap")
    if not len(units):
        return Attribution(
            np.zeros(trace.token_count), checks={"model_calls": 0, "completeness_gap": 0.0, "exact": True}
        )
    count = len(units)
    exact = 2 ** min(count, 63) <= samples
    masks, weights = _all_coalitions(count) if exact else _random_coalitions(count, samples, seed)
    values, checks = _evaluate(trace, units, masks, replacement, quantity)
    shares = shapley_fit(masks.astype(np.float64), values, weights)
    gap = completeness_gap(torch.from_numpy(shares), values[:2])
    return Attribution(units.spread(shares), checks={"completeness_gap": gap, **checks, "exact": exact})


def shapley_fit(z: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """argmin_s Σ w (y − y(0) − s·z)² under Σ s = y(1) − y(0), (F,); the first sample is z = 0, the second z = 1.

    With s = mean + u and Σ u = 0, u is free in the space that centring leaves; of several solutions the one nearest to
    equal shares is taken.
    """
    empty, whole = y[0], y[1]
    equal = (whole - empty) / z.shape[1]
    inner, rise, root = z[2:], y[2:] - empty, np.sqrt(weights[2:])
    if len(inner) == 0:
        return np.full(z.shape[1], equal)
    centred = inner - inner.mean(axis=1, keepdims=True)
    u = np.linalg.lstsq(root[:, None] * centred, root * (rise - equal * inner.sum(axis=1)), rcond=None)[0]
    return np.asarray(equal + u - u.mean())


def _all_coalitions(count: int) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """All subsets of `count` parts, the empty and the whole one first, with their Shapley kernel weights."""
    subsets = [np.array(subset) for subset in itertools.product([False, True], repeat=count)]
    inner = subsets[1:-1]
    masks = np.stack([subsets[0], subsets[-1], *inner])
    sizes = [int(subset.sum()) for subset in inner]
    weights = [(count - 1) / (math.comb(count, size) * size * (count - size)) for size in sizes]
    return masks, np.array([1.0, 1.0, *weights])


def _random_coalitions(count: int, samples: int, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """The empty and the whole set, then random subsets, each followed by its complement; all weights 1.

    Sizes are drawn by their total kernel weight 1/(k(F−k)), subsets of one size alike, so the kernel is in the draw.
    """
    generator = np.random.default_rng(seed)
    sizes = np.arange(1, count)
    shares = 1 / (sizes * (count - sizes))
    masks = np.zeros((samples, count), dtype=bool)
    masks[1] = True
    for row in range(2, samples, 2):
        size = generator.choice(sizes, p=shares / shares.sum())
        masks[row, generator.permutation(count)[:size]] = True
        if row + 1 < samples:
            masks[row + 1] = ~masks[row]
    return masks, np.ones(samples)


def _units(trace: Trace, level: Level, samples: int, name: str) -> Units:
    """Return the document's units; warn when there are too few samples for them."""
    if samples < 4:
        raise OptionError(f"{name} needs at least 4 samples, not {samples}.")
    units = units_of(trace.encoding, level)
    if len(units) > samples:
        warnings.warn(
            f"{name} has {samples} samples for {len(units)} {level}s, too few to tell them apart; "
            "raise samples or choose a coarser level.",
            stacklevel=3,
        )
    return units


@method(
    "gradient_shap",
    title="Gradient SHAP",
    kind="gradients",
    summary="Signed gradient averaged over random points between a baseline and the input with a little noise.",
    formula="s_i = E_{α, ε} Σ_d (x_i + ε_i − x'_i) ⊙ ∂y/∂x_i (x' + α(x + ε − x')),  α ~ U(0, 1), ε ~ N(0, σ²)",
    citation="Lundberg & Lee 2017; Erion et al. 2021",
    needs={"probes"},
    signed=True,
    class_specific=True,
    cost="one forward and one backward pass per sample",
    use="Use it as a smoothed approximation of integrated_gradients.",
    avoid="Avoid it when scores must add up exactly: integrated_gradients does so with fewer evaluations.",
)
def gradient_shap(
    trace: Trace,
    *,
    samples: int = 50,
    baseline: Baseline = "pad",
    baseline_text: str | None = None,
    noise: float = 0.1,
    seed: int = 0,
) -> Attribution:
    """Over the full embedding output; specials are part of the baseline and score 0.

    `noise` is σ relative to the standard deviation of the document's embeddings. Check completeness_gap as in
    integrated_gradients, here an estimate of the sampling error.
    """
    if samples < 1:
        raise OptionError(f"gradient_shap needs at least one sample, not {samples}.")
    if not 0 <= noise <= LARGEST_VALUE:
        raise OptionError(f"noise must be between 0 and {LARGEST_VALUE:g}, not {noise}.")
    generator = np.random.default_rng(check_seed(seed))
    path = build_path(trace, baseline, baseline_text, "full")
    ordinary = torch.from_numpy(np.flatnonzero(~trace.encoding.special)).to(path.end.device)
    scores: Array = np.zeros(trace.token_count)
    if not len(ordinary):
        return Attribution(scores, checks={"evaluations": 0, "completeness_gap": 0.0})
    end, start = path.end[ordinary], path.start[ordinary]
    deviation = noise * float(end.std(correction=0))
    shares = generator.random(samples)  # all at once, so that the size of a batch changes no draw
    total = torch.zeros_like(end)
    batch = max(1, BATCH_TOKENS // trace.token_count)
    for done in range(0, samples, batch):
        share = torch.from_numpy(shares[done : done + batch]).to(end)[:, None, None]
        noises = deviation * generator.standard_normal((len(share), *end.shape))
        difference = end + torch.from_numpy(noises).to(end) - start
        points = path.end.expand(len(share), -1, -1).index_copy(1, ordinary, start + share * difference)
        ((gradient,),) = trace.gradients_at({0: points}, [[trace.target] * len(share)])
        total += (difference * gradient[:, ordinary]).sum(dim=0)
        if trace.progress is not None:
            trace.progress(done + len(share), samples)
    scores[ordinary.cpu().numpy()] = as_array((total / samples).sum(dim=-1))
    ends = np.array([trace.value_of(logits) for logits in trace.logits_at({0: torch.stack([path.start, path.end])})])
    gap = completeness_gap(torch.from_numpy(scores), ends)
    return Attribution(scores, checks={"completeness_gap": gap, "evaluations": samples})
