"""Does the model's decision change when the words that an explanation ranks highest are removed?

A document is changed step by step: the share k of its words with the highest scores is removed, or everything else
is. The probabilities of the explained class form a *curve* p_k (K,) at K shares `ratios` (K,); p is the probability
for the whole document. Each metric transforms the curve and summarises it:

| metric            | removed       | by       | shares           | measures          | summary | better |
|-------------------|---------------|----------|------------------|-------------------|---------|--------|
| aopc              | the top k     | deletion | 0, 10, … 100 %   | p − p_k           | mean    | higher |
| normalized_aopc   | the top k     | deletion | 0, 10, … 100 %   | p − p_k           | scaled  | higher |
| log_odds          | the top k     | pads     | 0, 10, … 100 %   | ln(p_k / p)       | mean    | lower  |
| comprehensiveness | the top k     | deletion | 0, 1, 5 … 50 %   | p − p_k           | mean    | higher |
| sufficiency       | all but top k | deletion | 0, 1, 5 … 50 %   | p − p_k           | mean    | lower  |
| deletion          | the top k     | deletion | 0, 10, … 100 %   | p_k               | area    | lower  |
| insertion         | all but top k | deletion | 0, 10, … 100 %   | p_k               | area    | higher |

Replacement and shares can be set. Metrics that change documents alike share the model's runs. Differences are signed:
a removal that makes the model surer counts against the explanation. These are pure functions on arrays; `measurement`
runs the model by the `plan` of each metric.

Citations: Samek et al. 2017 and Nguyen 2018 (AOPC), Shrikumar et al. 2017 and Chen et al. 2020 (log-odds), DeYoung et
al. 2020 (comprehensiveness, sufficiency and their shares), Petsiuk et al. 2018 (insertion, deletion).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError, OptionError
from sightline.metrics.plans import (
    DROP,
    ERASER_BINS,
    LOG_RATIO,
    NINTHS,
    PROBABILITY,
    SMALLEST_PROBABILITY,
    Plan,
    check_probabilities,
    check_ratios,
    log_ratio,
    probability_drop,
)
from sightline.metrics.registry import METRICS, metric
from sightline.metrics.score_inputs import FloatArray, score_vector
from sightline.settings.values import check_one_of

if TYPE_CHECKING:
    from sightline.passes.perturb import Replacement
    from sightline.settings.evaluation import Compat

Summary = Literal["mean", "area"]

LOWEST_LOG = float(np.log(SMALLEST_PROBABILITY))


def plan_of(
    name: str,
    *,
    replacement: Replacement | None = None,
    ratios: npt.ArrayLike | None = None,
    compat: Compat | None = None,
) -> Plan:
    """Return the plan of the metric `name`, with the caller's replacement, shares or published variant."""
    plans = {entry.name: entry.plan for entry in METRICS if entry.plan is not None}
    if name not in plans:
        raise OptionError(f"'{name}' is not a faithfulness metric. Use one of: {', '.join(plans)}.")
    plan = plans[name]
    if compat is not None:
        check_one_of("compat", compat, ("attcat",))
        if plan.attcat_ratios is None:
            published = [other for other, known in plans.items() if known.attcat_ratios is not None]
            raise OptionError(f"compat='attcat' exists for {' and '.join(published)}, not for '{name}'.")
        if ratios is not None:
            raise OptionError("compat='attcat' has the ratios of the published program; leave ratios= out.")
        plan = replace(plan, ratios=plan.attcat_ratios)
    if replacement is not None:
        check_one_of("replacement", replacement, ("delete", "pad", "mask", "unk"))
        plan = replace(plan, replacement=replacement)
    return plan if ratios is None else replace(plan, ratios=check_ratios(ratios))


def area(curve: npt.ArrayLike, ratios: npt.ArrayLike) -> float:
    """Return the area under a curve (K,) over `ratios` (K,) by the trapezoid rule, divided by their width.

    The points may come in any order. The area of a constant curve is its value, whatever the shares; a single share has
    no width, and its value is the area.
    """
    values, shares = score_vector(curve, "curve"), score_vector(ratios, "ratios")
    if values.size != shares.size:
        raise InputError(f"The curve has {values.size} points and there are {shares.size} ratios; give one per point.")
    order = np.argsort(shares, kind="stable")
    values, shares = values[order], shares[order]
    width = shares[-1] - shares[0]
    return float(np.trapezoid(values, shares) / width) if width > 0.0 else float(values.mean())


def _summarise(curve: FloatArray, ratios: npt.ArrayLike | None, summary: Summary) -> float:
    if check_one_of("summary", summary, get_args(Summary)) == "mean":
        return float(curve.mean())
    if ratios is None:
        raise OptionError("The area under a curve needs the ratios of its points: give ratios=.")
    return area(curve, ratios)


# Metrics --------------------------------------------------------------------------------------------------------------


@metric(
    kind="faithfulness",
    needs={"scores", "model"},
    range=(-1, 1),
    plan=Plan(attcat_ratios=NINTHS),
    curve=DROP,
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
    return _summarise(np.abs(curve) if compat == "attcat" else curve, ratios, summary)


@metric(
    kind="faithfulness",
    needs={"scores", "model"},
    range=(0, 1),
    curve=DROP,
    higher_is_better=True,
    summary="AOPC between the lowest and the highest that any order of this document's words reaches (0 to 1).",
    citation="Edin et al. 2025",
)
def normalized_aopc(
    probabilities: npt.ArrayLike,
    original: float,
    *,
    bounds: tuple[float, ...],
    ratios: npt.ArrayLike | None = None,
) -> float:
    """Return (AOPC − low) / (high − low), in [0, 1], so that models can be compared; 0.5 where no order matters.

    `bounds` starts with low and high (`plans.extremes`): exact up to 8 words, from a beam search beyond. Values outside
    the bounds are clipped to 0 or 1.
    """
    low, high = bounds[:2]
    if not low < high:
        return 0.5
    return float(np.clip((aopc(probabilities, original, ratios=ratios) - low) / (high - low), 0.0, 1.0))


@metric(
    kind="faithfulness",
    needs={"scores", "model"},
    range=(LOWEST_LOG, -LOWEST_LOG),
    plan=Plan(replacement="pad", attcat_ratios=NINTHS),
    curve=LOG_RATIO,
    higher_is_better=False,
    summary="Mean log-ratio of the probability after and before the highest-scored words become pads, step by step.",
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
    return _summarise(log_ratio(probabilities, original), ratios, summary)


@metric(
    kind="faithfulness",
    needs={"scores", "model"},
    range=(-1, 1),
    plan=Plan(ratios=ERASER_BINS),
    curve=DROP,
    higher_is_better=True,
    summary="Mean fall of the probability when the top 0, 1, 5, 10, 20 and 50 % of the words are deleted.",
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
    return _summarise(probability_drop(probabilities, original), ratios, summary)


@metric(
    kind="faithfulness",
    needs={"scores", "model"},
    range=(-1, 1),
    plan=Plan("keep", ratios=ERASER_BINS),
    curve=DROP,
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
    return _summarise(probability_drop(probabilities, original), ratios, summary)


@metric(
    kind="faithfulness",
    needs={"scores", "model"},
    range=(0, 1),
    plan=Plan(),
    curve=PROBABILITY,
    higher_is_better=False,
    summary="Area under the probability as the highest-scored words are deleted one share after the other.",
    citation="Petsiuk et al. 2018",
)
def deletion(probabilities: npt.ArrayLike, original: float, *, ratios: npt.ArrayLike) -> float:
    """Return the area under p_k over the share removed, in [0, 1]; `original` is there for the common signature."""
    return area(check_probabilities(probabilities), ratios)


@metric(
    kind="faithfulness",
    needs={"scores", "model"},
    range=(0, 1),
    plan=Plan("keep"),
    curve=PROBABILITY,
    higher_is_better=True,
    summary="Area under the probability as the highest-scored words are put into an empty document.",
    citation="Petsiuk et al. 2018",
)
def insertion(probabilities: npt.ArrayLike, original: float, *, ratios: npt.ArrayLike) -> float:
    """Return the area under p_k over the share put in, in [0, 1]; `original` is there for the common signature."""
    return area(check_probabilities(probabilities), ratios)
