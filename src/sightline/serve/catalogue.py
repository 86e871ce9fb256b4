"""What the server offers, as plain values: models, methods, metrics."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from sightline.methods import Method
    from sightline.metrics.registry import MetricEntry
    from sightline.model import Model

MOST_LABELS = 1_000
"""More labels than this are a vocabulary (masked language models), which nobody chooses from a list."""


def model_facts(name: str, model: Model) -> dict[str, Any]:
    """Return what a client must know to use a model."""
    labels = model.labels
    return {
        "name": name,
        "type": str(model.network.config.model_type),
        "task": model.task,
        "labels": list(labels) if len(labels) <= MOST_LABELS else [],
        "max_tokens": model.max_tokens,
        "layers": len(model.network.layers),
        "heads": model.network.heads,
        "untrained": bool(model.network.untrained),
    }


def method_facts(method: Method) -> dict[str, Any]:
    """Return everything a registered method says about itself, with the values its options may have."""
    from sightline.methods.registry import describe_type

    return {
        "name": method.name,
        "summary": method.summary,
        "formula": method.formula,
        "signed": method.signed,
        "class_specific": method.class_specific,
        "cost": method.cost,
        "use": method.use,
        "avoid": method.avoid,
        "citation": method.citation,
        "options": {
            name: {
                "default": default,
                "values": describe_type(method.option_types[name]),
                "choices": _choices(method.option_types[name]),
            }
            for name, default in method.options.items()
        },
    }


def metric_facts(metric: MetricEntry) -> dict[str, Any]:
    """Return what a registered metric measures and needs."""
    return {
        "name": metric.name,
        "kind": metric.kind,
        "summary": metric.summary,
        "citation": metric.citation,
        "higher_is_better": metric.higher_is_better,
        "needs": sorted(metric.needs),
    }


def _choices(kind: Any) -> Sequence[Any] | None:
    """Return all values an option may have where they can be listed, else None."""
    if kind is bool:
        return [True, False]
    if kind is type(None):
        return [None]
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        parts = [_choices(part) for part in get_args(kind)]
        return None if any(part is None for part in parts) else [one for part in parts for one in part or ()]
    return None
