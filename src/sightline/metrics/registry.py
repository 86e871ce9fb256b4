"""The registry of metrics: what each one measures, what it needs, and how to read its value.

A metric is one function on arrays. Its decorator declares everything else:

    @metric(kind="agreement", needs={"scores", "other_scores"}, range=(-1, 1), higher_is_better=True,
            summary="...", citation="...")
    def kendall(a, b): ...

`evaluate` never calls a metric by name. It supplies what the metric needs (`NEEDS`), bound to the function's
parameters as follows:

- `needs={"vectors": "hidden_states"}` maps parameters to needs;
- `needs={"scores", "special"}` binds parameters that are named after a need to it; needs left over fill the remaining
  required parameters from left to right, in the order of `NEEDS`: `kendall(a, b)` gets scores and other_scores;
- a parameter called `compat` is given the variant that was asked for ("attcat" or None);
- a *faithfulness* metric needs {"scores", "model"} and is given a removal curve, measured by its `plan`:
  `probabilities` (K,), `original` and, if it has such parameters, `ratios` (K,) and `compat`. If the function has a
  parameter `model` it is given its needs like any other metric and runs the model itself.

`entry(*arrays, **options)` calls the function with the registered options, which are reported with the result.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from sightline.errors import OptionError
from sightline.metrics.plans import PROBABILITY, Plan, Quantity
from sightline.registry import METRIC_PLUGINS, Registry, origin_of

MetricKind = Literal["agreement", "faithfulness", "plausibility", "dispersion", "confidence", "retrieval"]
ScoreLevel = Literal["units", "tokens"]
"""Whether `evaluate` supplies scores of units (words unless asked otherwise) or of all tokens, specials included."""
MetricNeed = Literal[
    "scores",  # (n,) one score per unit
    "other_scores",  # (n,) the reference method's explanation of the same units
    "class_scores",  # (C, n) one explanation per class
    "target",  # the number of the explained class
    "rationale",  # (s, 2) half-open spans of units that a person marked
    "answer",  # (s, 2) half-open spans of units that hold the answer
    "special",  # (n,) which tokens are special
    "hidden_states",  # (n, d) the output of the last layer
    "encoding",  # the document as the model reads it
    "model",  # the model itself
]
NEEDS: Mapping[MetricNeed, str] = MappingProxyType(
    {
        "scores": "an explanation",
        "other_scores": "a second explanation of the same document (--reference)",
        "class_scores": "an explanation of every class",
        "target": "the explained class",
        "rationale": "human rationales in the data set",
        "answer": "answers in the data set",
        "special": "which tokens are special",
        "hidden_states": "the hidden states of the last layer",
        "encoding": "the encoded document",
        "model": "model calls",
    }
)
"""Every need in words, in the order in which needs are bound to parameters."""
_REMOVAL_CURVE = ("probabilities", "original")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Chance:
    """The value of a metric for scores without information."""

    name: str
    """Name of such scores in a sentence: "random orders"."""
    text: str
    """How the level is computed."""
    level: Callable[..., float] | None = None
    """The expected value, a function of the metric's arguments and options; None where `evaluate` samples it."""


def equal_scores(name: str, text: str) -> Chance:
    """Return the chance level of the metric `name`, which averages over orders of equal scores: its value at zeros.

    So the floor is exactly the value of scores without information.
    """

    def level(scores: npt.ArrayLike, *spans: npt.ArrayLike, **given: Any) -> float:
        return float(METRICS.get(name).function(np.zeros(np.size(scores)), *spans, **given))

    return Chance("random scores", text, level)


SHUFFLED_SCORES = Chance("shuffled scores", "mean after the token scores of one explanation were shuffled")
RANDOM_ORDERS = Chance(
    "random orders", "mean of orders by random token scores, where words of many tokens come first more often"
)


@dataclass(frozen=True)
class MetricEntry:
    """A registered metric.

    `needs` lists what an evaluation has to supply, `arguments` which parameter of the function gets what;
    `higher_is_better` is None where neither direction is; `options` are the values used when the metric is called by
    name, to be reported with its result.
    """

    name: str
    summary: str
    citation: str
    kind: MetricKind
    higher_is_better: bool | None
    needs: frozenset[MetricNeed]
    function: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    range: tuple[float, float] = (-math.inf, math.inf)
    """The lowest and the highest value it can have."""
    level: ScoreLevel = "units"
    chance: Chance | None = None
    plan: Plan | None = None
    """How it changes documents; None unless it needs a removal curve."""
    curve: Quantity | None = None
    """What it reads along that curve."""
    rows: Callable[..., Any] | None = None
    """The same statistic of `a` (n,) with each row of `rows` (m, n), (m,): agreement metrics only, for speed."""

    @property
    def origin(self) -> str:
        """The package that provides it: "sightline", or a plug-in's distribution and version."""
        return origin_of(self.function)

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        """Compute the metric with its registered options, overridden by `options`."""
        return self.function(*arrays, **{**self.options, **options})

    def compute(self, supply: Callable[[str], Any], **options: Any) -> float:
        """Compute the metric from what `supply` returns for each of its arguments' needs."""
        values = {parameter: supply(need) for parameter, need in self.arguments.items()}
        call = inspect.BoundArguments(inspect.signature(self.function), {**values, **self.options, **options})
        return float(self.function(*call.args, **call.kwargs))

    @property
    def describes_model(self) -> bool:
        """Whether it needs no explanation, so that a document has one value for all methods."""
        return not self.needs & {"scores", "class_scores"}

    @property
    def has_published_variant(self) -> bool:
        """Whether it can be computed with compat="attcat"."""
        return "compat" in self.arguments or (self.plan is not None and self.plan.attcat_ratios is not None)

    def facts(self) -> dict[str, Any]:
        """Return the metric's description as plain values."""
        return {
            "name": self.name,
            "summary": self.summary,
            "kind": self.kind,
            "higher_is_better": self.higher_is_better,
            "range": [bound if math.isfinite(bound) else None for bound in self.range],
            "chance": None if self.chance is None else self.chance.text,
            "level": self.level,
            "needs": sorted(self.needs),
            "options": dict(self.options),
            "citation": self.citation,
            "origin": self.origin,
        }


class MetricRegistry(Registry[MetricEntry]):
    """Metrics by name; "precision_at_5" is precision_at_k with k = 5, and so for every name that ends in "_at_k"."""

    def get(self, name: str) -> MetricEntry:
        """Return the metric called `name`; raise OptionError with the known names if there is none."""
        return self._with_depth(name) or super().get(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or self._with_depth(name) is not None

    def _with_depth(self, name: object) -> MetricEntry | None:
        match = re.fullmatch(r"(\w+_at_)([1-9]\d{0,8})", name) if isinstance(name, str) else None
        if match is None or super().__contains__(name) or not super().__contains__(f"{match[1]}k"):
            return None
        entry, k = super().get(f"{match[1]}k"), int(match[2])
        return replace(
            entry,
            name=match[0],
            options=MappingProxyType({**entry.options, "k": k}),
            summary=re.sub(r"\bk\b", str(k), entry.summary),
        )


METRICS = MetricRegistry(
    "metric",
    plugins=METRIC_PLUGINS,
    modules=[f"sightline.metrics.{name}" for name in ("agreement", "dispersion", "faithfulness", "plausibility")],
)


def metric(
    *,
    kind: MetricKind,
    needs: Iterable[MetricNeed] | Mapping[str, MetricNeed],
    higher_is_better: bool | None,
    summary: str,
    citation: str,
    name: str | None = None,
    range: tuple[float, float] = (-math.inf, math.inf),
    chance: Chance | None = None,
    level: ScoreLevel | None = None,
    options: Mapping[str, Any] | None = None,
    plan: Plan | None = None,
    curve: Quantity = PROBABILITY,
    rows: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Register the decorated function and return it unchanged.

    name: that of the function by default. range: lowest and highest possible value, infinite by default. chance: its
    value for scores without information; agreement and faithfulness metrics have one by default, which `evaluate`
    samples. level: "units" by default, "tokens" for metrics that need `special`. plan, curve: faithfulness metrics
    only; by default words are deleted in steps of 10 %. needs: what `evaluate` supplies, by the names of the parameters
    or mapped to them.
    """
    mapped = dict(needs) if isinstance(needs, Mapping) else {}
    wanted = frozenset(mapped.values() if mapped else needs)

    def register(function: F) -> F:
        called = name or function.__name__
        if kind not in get_args(MetricKind) or not wanted <= frozenset(get_args(MetricNeed)):
            raise OptionError(
                f"Metric '{called}': kind '{kind}' or needs {sorted(wanted)} are not in the vocabulary. Kinds: "
                f"{', '.join(get_args(MetricKind))}. Needs: {', '.join(NEEDS)}."
            )
        if not range[0] <= range[1]:
            raise OptionError(f"Metric '{called}': the range {range} is empty; give (lowest, highest).")
        if "special" in wanted and level == "units":
            raise OptionError(f"Metric '{called}': special tokens belong to no unit; use level='tokens'.")
        on_curve = kind == "faithfulness" and not mapped and "model" not in inspect.signature(function).parameters
        if plan is not None and not on_curve:
            raise OptionError(f"Metric '{called}': leave plan= out; the function is given no removal curve.")
        compared = kind == "agreement" and wanted == {"scores", "other_scores"}
        METRICS.add(
            MetricEntry(
                name=called,
                summary=summary,
                citation=citation,
                kind=kind,
                higher_is_better=higher_is_better,
                needs=wanted,
                function=function,
                options=MappingProxyType(dict(options or {})),
                arguments=MappingProxyType(_bind(called, function, mapped or wanted, on_curve=on_curve)),
                range=(float(range[0]), float(range[1])),
                level=level or ("tokens" if "special" in wanted else "units"),
                chance=chance or (RANDOM_ORDERS if on_curve else SHUFFLED_SCORES if compared else None),
                plan=(plan or Plan()) if on_curve else None,
                curve=curve if on_curve else None,
                rows=rows,
            )
        )
        return function

    return register


def _bind(
    name: str, function: Callable[..., Any], needs: Mapping[str, str] | frozenset[str], *, on_curve: bool
) -> dict[str, str]:
    """Return what each parameter of a metric is given, by the rules of the module docstring."""
    parameters = inspect.signature(function).parameters
    if isinstance(needs, Mapping):
        bound = dict(needs)
    else:
        order = _REMOVAL_CURVE if on_curve else [need for need in get_args(MetricNeed) if need in needs]
        bound = {need: need for need in order if need in parameters}
        left = [need for need in order if need not in bound]
        free = [
            parameter.name
            for parameter in parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            and parameter.name not in bound
        ]
        if len(free) != len(left):
            raise OptionError(
                f"Metric '{name}': its needs {left} do not fit its parameters {free}; name the parameters after the "
                "needs, or map them: needs={'parameter': 'need'}."
            )
        bound |= dict(zip(free, left, strict=True))
    if missing := set(bound) - set(parameters):
        raise OptionError(f"Metric '{name}': its function has no parameter {', '.join(sorted(missing))}.")
    extras = ("ratios", "compat", "bounds") if on_curve else ("compat",)
    bound |= {extra: extra for extra in extras if extra in parameters}
    return {parameter: bound[parameter] for parameter in parameters if parameter in bound}


def list_metrics() -> list[MetricEntry]:
    """Return every registered metric, in order of registration.

    Examples
    --------
    >>> import sightline as sl
    >>> [metric.name for metric in sl.list_metrics() if metric.kind == "retrieval"]
    ['count_at_k', 'precision_at_k', 'recall_at_k']
    """
    return list(METRICS)
