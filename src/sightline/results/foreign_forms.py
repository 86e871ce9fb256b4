"""Explanations as objects of other libraries: of shap, captum and datasets."""

from __future__ import annotations

import math
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.errors import OptionError
from sightline.settings.extras import require
from sightline.text import Level

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation


def to_shap(explanation: Explanation, level: Level = "word") -> Any:
    """Return a `shap.Explanation` of the units of a level, each with the white space that follows it."""
    units = explanation.units(level)
    texts = explanation.encoding.segment_texts
    stops = [after.start if after.segment == unit.segment else None for unit, after in pairwise(units)]
    tokens = [texts[unit.segment][unit.start : stop] for unit, stop in zip(units, [*stops, None], strict=True)]
    scores = np.array([unit.score for unit in units], dtype=np.float64)
    return _library("shap").Explanation(
        values=scores,
        base_values=explained_value(explanation) - float(scores.sum()),
        data=np.array(tokens, dtype=object),
    )


def to_captum(explanation: Explanation, true_label: str | None = None) -> Any:
    """Return captum's `VisualizationDataRecord` of the tokens, for `captum.attr.visualization.visualize_text`."""
    prediction = explanation.prediction
    gap = explanation.checks.get("completeness_gap", float("nan"))
    return _library("captum.attr").visualization.VisualizationDataRecord(
        word_attributions=explanation.scores,
        pred_prob=prediction.probability,
        pred_class=prediction.label,
        true_class="" if true_label is None else true_label,
        attr_class=explanation.target.label,
        attr_score=float(explanation.scores.sum()),
        raw_input_ids=list(explanation.tokens),
        convergence_score=gap,
    )


def to_dataset(explanation: Explanation, level: Level = "word") -> Any:
    """Return a `datasets.Dataset` with the rows of `to_frame`."""
    library = require("datasets", "datasets", "A data set of the datasets library")
    return library.Dataset.from_pandas(explanation.to_frame(level), preserve_index=False)


def explained_value(explanation: Explanation) -> float:
    """Return y, the number that the scores divide, if the prediction contains it; else NaN."""
    target, prediction = explanation.target, explanation.prediction
    if target.index is None or target.contrast is not None or target.label not in prediction.labels:
        return math.nan
    place = prediction.labels.index(target.label)
    p, logit = float(prediction.probabilities[place]), float(prediction.logits[place])
    values = {
        "logit": lambda: logit,
        "probability": lambda: p,
        "log_probability": lambda: math.log(p),
        "log_odds": lambda: math.log(p) - math.log1p(-p),
    }
    try:
        return values.get(target.quantity, lambda: math.nan)()
    except ValueError:  # a probability of 0 or 1
        return math.nan


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise OptionError(f"This needs the package {package}: pip install {package}") from None
