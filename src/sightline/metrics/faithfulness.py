"""Does the model lose its decision when the words an explanation ranks highest are taken away?

A document is changed step by step: the share k of its words with the highest scores is removed, or everything but
them is. What the model then gives the explained class is a *curve* of probabilities p_k (K,), at K shares `ratios`
(K,); p is the probability for the whole document. Each metric turns the curve into what it measures and summarises it:

| metric            | removed       | by       | shares           | measures          | summary | better |
|-------------------|---------------|----------|------------------|-------------------|---------|--------|
| aopc              | the top k     | deletion | 0, 10, … 100 %   | p − p_k           | mean    | higher |
| log_odds          | the top k     | pads     | 0, 10, … 100 %   | ln(p_k / p)       | mean    | lower  |
| comprehensiveness | the top k     | deletion | 0, 1, 5 … 50 %   | p − p_k           | mean    | higher |
| sufficiency       | all but top k | deletion | 0, 1, 5 … 50 %   | p − p_k           | mean    | lower  |
| deletion          | the top k     | deletion | 0, 10, … 100 %   | p_k               | area    | lower  |
| insertion         | all but top k | deletion | 0, 10, … 100 %   | p_k               | area    | higher |

(`PLANS`; replacement and shares can be set.) Metrics that change documents alike share the model's runs. Differences
are signed: a removal that makes the model surer counts against the explanation. These are pure functions on arrays;
running the model is the work of `sightline.perturb` and `measurement`.

Citations: Samek et al. 2017 and Nguyen 2018 (AOPC), Shrikumar et al. 2017 and Chen et al. 2020 (log-odds), DeYoung et
al. 2020 (comprehensiveness, sufficiency and their shares), Petsiuk et al. 2018 (insertion, deletion).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError, OptionError
from sightline.metrics.inputs import FloatArray, score_vector
from sightline.metrics.registry import metric
from sightline.perturb import Replacement

Direction = Literal["remove", "keep"]
"""Whether the units with the highest scores are removed, or the only ones that are kept."""
Summary = Literal["mean", "area"]
Compat = Literal["attcat"]

TENTHS = tuple(k / 10 for k in range(11))
ERASER_BINS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)
NINTHS = tuple(k / 9 for k in range(1, 10))
"""The shares of the published AttCAT program."""
SMALLEST_PROBABILITY = 1e-12
"""Probabilities are clipped here before a logarithm."""


@dataclass(frozen=True)
class Plan:
    """How a metric changes documents."""

    direction: Direction
    replacement: Replacement
    ratios: tuple[float, ...]


PLANS: dict[str, Plan] = {
    "aopc": Plan("remove", "delete", TENTHS),
    "log_odds": Plan("remove", "pad", TENTHS),
    "comprehensiveness": Plan("remove", "delete", ERASER_BINS),
    "sufficiency": Plan("keep", "delete", ERASER_BINS),
    "deletion": Plan("remove", "delete", TENTHS),
    "insertion": Plan("keep", "delete", TENTHS),
}
ATTCAT_METRICS = ("aopc", "log_odds")
"""Those that the published AttCAT program computes."""


def plan_of(
    name: str,
    *,
    replacement: Replacement | None = None,
    ratios: npt.ArrayLike | None = None,
    compat: Compat | None = None,
) -> Plan:
    """Return how the metric `name` changes documents, with what the caller wants to be different."""
    if name not in PLANS:
        raise OptionError(f"'{name}' is no faithfulness metric; choose one of: {', '.join(PLANS)}.")
    plan = PLANS[name]
    if compat is not None:
        if compat != "attcat":
            raise OptionError(f"compat='{compat}' is not known; use 'attcat' or leave it out.")
        if name not in ATTCAT_METRICS:
            raise OptionError(f"compat='attcat' exists for {' and '.join(ATTCAT_METRICS)}, not for '{name}'.")
        if ratios is not None:
            raise OptionError("compat='attcat' has the ratios of the published program; leave ratios= out.")
        plan = replace(plan, ratios=NINTHS)
    if replacement is not None:
        known = ("delete", "pad", "mask", "unk")
        if replacement not in known:
            raise OptionError(f"replacement='{replacement}' is not known; use one of: {', '.join(known)}.")
        plan = replace(plan, replacement=replacement)
    return plan if ratios is None else replace(plan, ratios=checked_ratios(ratios))


def checked_ratios(ratios: npt.ArrayLike) -> tuple[float, ...]:
    """Return shares in [0, 1] in ascending order, each once."""
    try:
        values = np.atleast_1d(np.asarray(ratios, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.array([])
    if values.ndim != 1 or not values.size:
        raise OptionError(f"ratios={ratios!r} is not a list of shares such as [0, 0.1, 0.5].")
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise OptionError(f"ratios={values.tolist()} are outside their range; shares lie in [0, 1], and 10 % is 0.1.")
    return tuple(np.unique(values).tolist())


# Curves: what a metric measures at every share -----------------------------------------------------------------------


def _probability_curve(probabilities: npt.ArrayLike) -> FloatArray:
    curve = score_vector(probabilities, "probabilities")
    if (curve < 0.0).any() or (curve > 1.0).any():
        raise InputError(f"A probability of {curve[(curve < 0.0) | (curve > 1.0)][0]} was given; they lie in [0, 1].")
    return curve


def probability_drop(probabilities: npt.ArrayLike, original: float) -> FloatArray:
    """Return p − p_k, (K,)."""
    return float(original) - _probability_curve(probabilities)


def log_ratio(probabilities: npt.ArrayLike, original: float) -> FloatArray:
    """Return ln(p_k / p), (K,), probabilities clipped at 1e-12."""
    clipped = np.maximum(_probability_curve(probabilities), SMALLEST_PROBABILITY)
    return np.asarray(np.log(clipped) - np.log(max(float(original), SMALLEST_PROBABILITY)))


def _probability(probabilities: npt.ArrayLike, original: float) -> FloatArray:
    return _probability_curve(probabilities)


CURVES: dict[str, Callable[[npt.ArrayLike, float], FloatArray]] = {
    "aopc": probability_drop,
    "log_odds": log_ratio,
    "comprehensiveness": probability_drop,
    "sufficiency": probability_drop,
    "deletion": _probability,
    "insertion": _probability,
}
"""What each metric measures along the curve."""


def area(curve: npt.ArrayLike, ratios: npt.ArrayLike) -> float:
    """Return the area under a curve (K,) over `ratios` (K,) by the trapezoid rule, divided by their width.

    So a constant curve has its own value as area, whatever the shares. A single share has no width: its value.
    """
    values, shares = score_vector(curve, "curve"), score_vector(ratios, "ratios")
    if values.size != shares.size:
        raise InputError(f"The curve has {values.size} points and there are {shares.size} ratios; give as many.")
    width = shares[-1] - shares[0]
    return float(np.trapezoid(values, shares) / width) if width > 0.0 else float(values.mean())


def _summarised(curve: FloatArray, ratios: npt.ArrayLike | None, summary: Summary) -> float:
    if summary == "mean":
        return float(curve.mean())
    if summary != "area":
        raise OptionError(f"summary='{summary}' is not known; use 'mean' or 'area'.")
    if ratios is None:
        raise OptionError("The area under a curve needs the ratios of its points: give ratios=.")
    return area(curve, ratios)


# Metrics --------------------------------------------------------------------------------------------------------------


@metric(
    name="aopc",
    kind="faithfulness",
    needs={"scores", "model"},
    higher_is_better=True,
    summary="Mean fall of the probability as the highest-scored words are deleted step by step (signed).",
    citation="Samek et al. 2017; Nguyen 2018",
)
def aopc(
    probabilities: npt.ArrayLike,
    original: float,
    *,
    ratios: npt.ArrayLike | None = None,
    summary: Summary = "mean",
    compat: Compat | None = None,
) -> float:
    """Return AOPC = (1/K) Σ_k (p − p_k), in [-1, 1].

    `probabilities` (K,) after removing the top k, `original` p. compat="attcat" averages |p − p_k|, as the published
    program does: then a removal that makes the model surer counts for the explanation.
    """
    curve = probability_drop(probabilities, original)
    return _summarised(np.abs(curve) if compat == "attcat" else curve, ratios, summary)


@metric(
    name="log_odds",
    kind="faithfulness",
    needs={"scores", "model"},
    higher_is_better=False,
    summary="Mean logarithm of the probability left, relative to before, as the highest-scored words become pads.",
    citation="Shrikumar et al. 2017; Chen et al. 2020",
)
def log_odds(
    probabilities: npt.ArrayLike,
    original: float,
    *,
    ratios: npt.ArrayLike | None = None,
    summary: Summary = "mean",
) -> float:
    """Return LOdds = (1/K) Σ_k ln(p_k / p), probabilities clipped at 1e-12; negative when removing hurts."""
    return _summarised(log_ratio(probabilities, original), ratios, summary)


@metric(
    name="comprehensiveness",
    kind="faithfulness",
    needs={"scores", "model"},
    higher_is_better=True,
    summary="Mean fall of the probability when the top 1, 5, 10, 20 and 50 % of the words are deleted.",
    citation="DeYoung et al. 2020",
)
def comprehensiveness(
    probabilities: npt.ArrayLike,
    original: float,
    *,
    ratios: npt.ArrayLike | None = None,
    summary: Summary = "mean",
) -> float:
    """Return (1/K) Σ_k (p − p(x without the top k)), in [-1, 1]; ERASER counts k = 0 among the K, and so do we."""
    return _summarised(probability_drop(probabilities, original), ratios, summary)


@metric(
    name="sufficiency",
    kind="faithfulness",
    needs={"scores", "model"},
    higher_is_better=False,
    summary="Mean fall of the probability when only the top 0, 1, 5, 10, 20 and 50 % of the words are left.",
    citation="DeYoung et al. 2020",
)
def sufficiency(
    probabilities: npt.ArrayLike,
    original: float,
    *,
    ratios: npt.ArrayLike | None = None,
    summary: Summary = "mean",
) -> float:
    """Return (1/K) Σ_k (p − p(the top k alone)), in [-1, 1]; low when a few words suffice for the decision."""
    return _summarised(probability_drop(probabilities, original), ratios, summary)


@metric(
    name="deletion",
    kind="faithfulness",
    needs={"scores", "model"},
    higher_is_better=False,
    summary="Area under the probability as the highest-scored words are deleted one share after the other.",
    citation="Petsiuk et al. 2018",
)
def deletion(probabilities: npt.ArrayLike, original: float, *, ratios: npt.ArrayLike) -> float:
    """Return the area under p_k over the share removed, in [0, 1]; `original` is there for the common signature."""
    return area(_probability_curve(probabilities), ratios)


@metric(
    name="insertion",
    kind="faithfulness",
    needs={"scores", "model"},
    higher_is_better=True,
    summary="Area under the probability as the highest-scored words are put into an empty document.",
    citation="Petsiuk et al. 2018",
)
def insertion(probabilities: npt.ArrayLike, original: float, *, ratios: npt.ArrayLike) -> float:
    """Return the area under p_k over the share put in, in [0, 1]; `original` is there for the common signature."""
    return area(_probability_curve(probabilities), ratios)
