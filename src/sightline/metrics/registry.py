"""The metrics found by name: what each one measures, what it needs, and which direction is better.

A metric is a function on arrays. One decorator line registers it:

    @metric(name="kendall", kind="agreement", needs={"scores", "other_scores"}, higher_is_better=True,
            summary="...", citation="...")
    def kendall(a, b): ...

`entry(*arrays, **options)` calls it with the registered options; those are part of a result and are printed beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

from sightline.registry import METRIC_PLUGINS, Registry, origin_of

Kind = Literal["agreement", "faithfulness", "plausibility", "dispersion", "confidence", "retrieval"]
Need = Literal[
    "scores",  # (n,) one score per token
    "other_scores",  # (n,) a second explanation of the same tokens
    "class_scores",  # (C, n) one explanation per class
    "rationale",  # (s, 2) token spans a person marked
    "answer",  # (s, 2) token spans of the answer
    "special",  # (n,) which tokens are special
    "hidden_states",  # (n, d) the last layer's output
    "model",  # the model itself, to run perturbed inputs
]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class MetricEntry:
    """A registered metric.

    `needs` lists what an evaluation has to supply; `higher_is_better` is None where neither direction is;
    `options` are the values used when the metric is called by name, to be reported with its result.
    """

    name: str
    summary: str
    citation: str
    kind: Kind
    higher_is_better: bool | None
    needs: frozenset[Need]
    function: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """The package that provides it: "sightline", or a plug-in's distribution and version."""
        return origin_of(self.function)

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        """Compute the metric with its registered options, overridden by `options`."""
        return self.function(*arrays, **{**self.options, **options})

    def facts(self) -> dict[str, Any]:
        """Everything it says about itself as plain values."""
        return {
            "name": self.name,
            "summary": self.summary,
            "kind": self.kind,
            "higher_is_better": self.higher_is_better,
            "needs": sorted(self.needs),
            "options": dict(self.options),
            "citation": self.citation,
            "origin": self.origin,
        }


METRICS: Registry[MetricEntry] = Registry("metric", plugins=METRIC_PLUGINS)


def metric(
    *,
    name: str,
    kind: Kind,
    needs: Iterable[Need],
    higher_is_better: bool | None,
    summary: str,
    citation: str,
    options: Mapping[str, Any] | None = None,
) -> Callable[[F], F]:
    """Register the decorated function and return it unchanged."""
    wanted = frozenset(needs)
    if kind not in get_args(Kind) or not wanted <= frozenset(get_args(Need)):
        raise ValueError(f"metric '{name}': kind '{kind}' or needs {sorted(wanted)} is not in the vocabulary")

    def register(function: F) -> F:
        METRICS.add(
            MetricEntry(
                name=name,
                summary=summary,
                citation=citation,
                kind=kind,
                higher_is_better=higher_is_better,
                needs=wanted,
                function=function,
                options=MappingProxyType(dict(options or {})),
            )
        )
        return function

    return register


def list_metrics() -> list[MetricEntry]:
    """Return every registered metric, in order of registration."""
    return list(METRICS)
