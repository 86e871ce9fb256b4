"""Which methods and metrics an evaluation runs: a name that does not exist is refused before anything runs, and what is
left out of "all" is listed with its reason. Other arguments of `evaluate` and `compare` are checked here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.api.model import Model
from sightline.errors import OptionError
from sightline.methods import METHODS
from sightline.metrics import METRICS, MetricEntry
from sightline.metrics.measurement import RANDOM_ORDERINGS, FaithfulnessSettings
from sightline.settings.values import refuse_unused
from sightline.text import Example

if TYPE_CHECKING:
    from sightline.api.model import Model


def check_model(given: Any) -> Model:
    """Return `given` unchanged; raise OptionError if it is not a Model (for example, a path)."""
    if isinstance(given, Model):
        return given
    if isinstance(given, str | Path):
        raise OptionError(f"'{given}' is the name of a model, not a model: load it first, with sl.load('{given}').")
    raise OptionError(f"A model as sl.load() returns it is needed; what was given is of type {type(given).__name__}.")


def list_names(given: Any, option: str) -> list[str]:
    """Return one name or several as a list without duplicates."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable):
        raise OptionError(f"{option}={given!r} is not possible; give a name, or a list of names.")
    return list(dict.fromkeys(given))


def check_method_options(options: Mapping[str, Any], methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the options by method, after each was checked by its method."""
    for name, given in options.items():
        if name not in methods or not isinstance(given, Mapping):
            raise OptionError(
                f"Options are given by method, for example {methods[0]}={{...}}; '{name}' is neither an option of the "
                "evaluation nor a method that is evaluated."
            )
        METHODS.get(name).check_options(given)
    return {name: dict(given) for name, given in options.items()}


DEFAULT_METHODS = (
    *("random", "raw_attention", "rollout", "attgrads", "transatt"),
    *("gradient", "input_x_gradient", "integrated_gradients", "alti", "attcat"),
)
"""The floor, two of attention alone, two of attention with gradients or relevance, three of gradients, one of values,
and the one that is used by default: every family once or more, none that calls the model once per word."""

MOST_CLASSES = 20
"""Confidence explains every class: for models with more classes it must be requested by name."""


def chosen_methods(methods: str | Sequence[str] | None) -> list[str]:
    """Return the names of the requested methods, each once; None means the default ten, "all" every method."""
    if methods is None:
        return list(DEFAULT_METHODS)
    names = METHODS.names() if isinstance(methods, str) and methods == "all" else list_names(methods, "methods")
    if not names:
        raise OptionError("No method was given: name at least one, or leave methods= out for the default ten.")
    return [METHODS.get(name).name for name in names]


def chosen_metrics(
    metrics: str | Sequence[str] | None,
    model: Model,
    examples: Sequence[Example],
    settings: FaithfulnessSettings,
    reference: str | None,
    depths: Sequence[int] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Return the metrics to measure and, for "all" (or None), those left out with the reason.

    A metric requested by name that the data cannot support is an error. depths: the k of every metric "…_at_k".
    """
    everything = metrics is None or (isinstance(metrics, str) and metrics == "all")
    entries = [METRICS.get(name) for name in (METRICS.names() if everything else list_names(metrics, "metrics"))]
    if not entries:
        raise OptionError("No metric was given: name at least one, or leave metrics= out for all that the data allow.")
    applicable, skipped = [], {}
    for entry in entries:
        reason = _obstacle(entry, model, examples, settings, reference)
        if reason is None and everything and "class_scores" in entry.needs and len(model.labels) > MOST_CLASSES:
            reason = f"the model has {len(model.labels)} classes to explain; ask for it by name"
        if reason is None:
            applicable += _at_depths(entry.name, depths)
        elif everything:
            skipped[entry.name] = reason[:1].upper() + reason[1:] + "."
        else:
            raise OptionError(f"The metric '{entry.name}' cannot be measured: {reason}.")
    measured = [entry for entry in entries if entry.name not in skipped]
    _refuse_unused_settings(measured, settings, reference, depths)
    return list(dict.fromkeys(applicable)), skipped


def _refuse_unused_settings(
    entries: Sequence[MetricEntry],
    settings: FaithfulnessSettings,
    reference: str | None,
    depths: Sequence[int] | None,
) -> None:
    """Raise OptionError for a setting that none of the chosen metrics uses."""
    removing = [settings.plan(entry.name).replacement for entry in entries if entry.plan is not None]
    unused = "has no effect: none of the metrics"
    if not any(entry.name.endswith("_at_k") for entry in entries):
        refuse_unused({"k": depths}, f"{unused} looks at the first k words, as precision_at_k does.")
    if not any("other_scores" in entry.needs for entry in entries):
        refuse_unused({"reference": reference}, f"{unused} compares with another method, as spearman does.")
    if not removing:
        of_removal = {
            "replacement": settings.replacement,
            "ratios": settings.ratios,
            "random_orderings": settings.random_orderings != RANDOM_ORDERINGS,
            "reference_order": not settings.reference_order,
            "budget": settings.budget,
        }
        refuse_unused(of_removal, f"{unused} removes words, as aopc does.")
    if not any(entry.has_published_variant for entry in entries):
        refuse_unused({"compat": settings.compat}, f"{unused} has a published variant, as aopc has.")
    if "pad" not in removing:
        refuse_unused({"mask_pads": settings.mask_pads}, f"{unused} puts pad tokens in place of words.")


def _at_depths(name: str, depths: Sequence[int] | None) -> list[str]:
    """Return "precision_at_5", "precision_at_20" for "precision_at_k" at depths 5 and 20."""
    if depths is None or not name.endswith("_at_k"):
        return [name]
    return [f"{name.removesuffix('k')}{k}" for k in depths]


def _obstacle(
    entry: MetricEntry, model: Model, examples: Sequence[Example], settings: FaithfulnessSettings, reference: str | None
) -> str | None:
    """Return why no document can be measured, or None."""
    if "other_scores" in entry.needs and reference is None:
        return "agreement is between two explanations; give a reference (for example occlusion), or use compare()"
    if "rationale" in entry.needs and all(example.rationale is None for example in examples):
        return "the data set has no field 'rationale'"
    if "answer" in entry.needs and all(example.answer is None for example in examples):
        return "the data set has no field 'answer'"
    if "class_scores" in entry.needs:
        if model.task not in ("sequence_classification", "token_classification"):
            return f"the model's task is {model.task.replace('_', ' ')}, which has no classes to compare"
        if len(model.labels) < 2:
            return "the model has one class only, so there is no other to compare with"
    if entry.plan is not None:
        if settings.compat is not None and not entry.has_published_variant:
            return f"the published program that compat='{settings.compat}' follows has no such metric"
        replacement = settings.plan(entry.name).replacement
        if replacement != "delete" and replacement not in model.network.token_ids:
            return f"the model's vocabulary has no {replacement} token that Sightline knows of; give replacement="
    return None
