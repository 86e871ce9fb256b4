"""The registry of attribution methods, and what they return.

A method is a function `(trace, *, option=default, ...)` that returns scores (n,), or an `Attribution` if it also has
scores by layer, checks or further arrays. Its options are its keyword-only parameters; their annotations say which
values are accepted. The attributions of windows are merged into that of their document.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, cast, get_args, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray

from sightline.errors import ModelError, OptionError, UnsupportedError
from sightline.methods.layer_kind import LayerKind, resolve_layer_kind
from sightline.passes.document_windows import combines_linearly
from sightline.passes.forward import Need
from sightline.passes.trace import Trace, Window
from sightline.registry import METHOD_PLUGINS, Registry, origin_of, suggestion
from sightline.settings.names import MethodName
from sightline.settings.values import describe_type, fits, list_choices

Array = NDArray[np.floating[Any]]
Check = float | int | bool | str
COUNTS = frozenset(
    {"model_calls", "evaluations", "clipped_rows", "settled_by_bounds", "settled_by_flow", "settled_by_cut"}
)
"""Checks that add up over windows."""
SUMS_OF_SCORES = frozenset({"relevance_given", "relevance_kept"})
"""Checks that are sums of scores, and are weighted like them; of all others, the worst window stands for the rest."""


@dataclass(frozen=True)
class Attribution:
    """The result of a method: scores (n,), scores by layer (L, n), checks of their quality, further named arrays."""

    scores: Array
    layers: Array | None = None
    checks: Mapping[str, Check] = field(default_factory=dict)
    extras: Mapping[str, Array] = field(default_factory=dict)
    layer_kind: LayerKind | None = None
    """How `layers` relate to `scores`; "separate" unless given, None without layers."""

    def __post_init__(self) -> None:
        kind = resolve_layer_kind(self.layer_kind, has_layers=self.layers is not None)
        object.__setattr__(self, "layer_kind", kind)


def merge_windows(tokens: int, parts: Iterable[tuple[Window, Attribution]]) -> Attribution:
    """Return the attribution of a document of n `tokens` from those of its windows.

    s_i = Σ_w share_w · s_{w,i} over the windows w that hold token i; the same for scores by layer. The marks around the
    text and the other text of a pair are in every window. Counts add up, a flag holds if it holds for every window,
    and of other checks the largest is reported. Further arrays of the method belong to single windows and are left
    out.
    """
    scores = np.zeros(tokens)
    layers: Array | None = None
    kind: LayerKind | None = None
    checks: dict[str, Check] = {}
    for window, attribution in parts:
        scores[window.positions] += window.share * attribution.scores
        if attribution.layers is not None:
            layers = np.zeros((len(attribution.layers), tokens)) if layers is None else layers
            layers[:, window.positions] += window.share * attribution.layers
            kind = attribution.layer_kind
        for name, value in attribution.checks.items():
            weighted = window.share * float(value) if name in SUMS_OF_SCORES else value
            checks[name] = _merge_check(name, checks.get(name), weighted)
    return Attribution(scores, layers=layers, checks=checks, layer_kind=kind)


def _merge_check(name: str, before: Check | None, value: Check) -> Check:
    if before is None or isinstance(before, str) or isinstance(value, str):
        return value if before is None else before
    if isinstance(value, bool):
        return bool(before) and value
    if name in COUNTS | SUMS_OF_SCORES:
        return before + value
    return value if abs(value) > abs(before) else before


MethodKind = Literal["attention", "gradients", "decomposition", "relevance", "perturbation", "baseline", "other"]
"""What a method works with; lists of methods are grouped by it, in this order."""


MethodFunction = Callable[..., "Array | Attribution"]


_DOCUMENTED = (
    *("name", "title", "kind", "summary", "formula", "signed", "class_specific"),
    *("cost", "use", "avoid", "citation", "origin"),
)


@dataclass(frozen=True)
class Method:
    """A registered method and everything that is documented about it."""

    name: str
    title: str
    kind: MethodKind
    function: MethodFunction
    summary: str
    formula: str
    citation: str
    needs: frozenset[Need] | Callable[[dict[str, Any]], frozenset[Need]]
    signed: bool
    class_specific: bool
    cost: str
    use: str
    avoid: str
    costly: bool = False
    reads_windows: bool = False
    zeros_mean: str = "the target does not depend on any token"

    @property
    def origin(self) -> str:
        """The package that provides it: "sightline", or a plug-in's distribution and version."""
        return origin_of(self.function)

    @cached_property
    def options(self) -> dict[str, Any]:
        """Option names and their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}

    @cached_property
    def option_types(self) -> dict[str, Any]:
        """Option names and the types of their values; an option without annotation takes any value."""
        hints = get_type_hints(self.function)
        return {name: hints.get(name, Any) for name in self.options}

    def facts(self) -> dict[str, Any]:
        """Everything documented about it as plain values; an option has `choices` if its values can be listed."""
        return {
            **{name: getattr(self, name) for name in _DOCUMENTED},
            "options": {
                name: {
                    "default": default,
                    "values": describe_type(self.option_types[name]),
                    "choices": list_choices(self.option_types[name]),
                }
                for name, default in self.options.items()
            },
        }

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise OptionError if an option does not exist or a value does not fit its type."""
        for name, value in options.items():
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                hint = suggestion(name, list(self.options))
                raise OptionError(f"The method '{self.name}' has no option '{name}'.{hint} Its options: {known}.")
            if not fits(value, self.option_types[name]):
                expected = describe_type(self.option_types[name])
                raise OptionError(f"The option '{name}' of '{self.name}' must be {expected}, not {value!r}.")

    def resolve_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options, checked, with the defaults of those not given."""
        self.check_options(options)
        return {**self.options, **options}

    def requirements(self, options: dict[str, Any]) -> frozenset[Need]:
        """What the method asks of the trace with these options, all of them given."""
        return self.needs(options) if callable(self.needs) else self.needs

    def is_repeatable(self, options: dict[str, Any]) -> bool:
        """Whether one run costs about as much as a pass, so that checks can afford to repeat it."""
        return not self.costly and "probes" not in self.requirements(options)

    @property
    def reads_documents(self) -> bool:
        """Whether the method takes a document that is read in windows as it is.

        It handles windows itself, or only calls the model on changed documents and need not know about them.
        """
        only_probes = not callable(self.needs) and self.needs <= {"probes"}
        return self.reads_windows or (self.kind in ("perturbation", "baseline") and only_probes)

    def run(self, trace: Trace, options: dict[str, Any]) -> Attribution:
        """Run the method with options from `resolve_options`; on a document read in windows, window by window."""
        trace.require(*self.requirements(options))
        if trace.windowed and not self.reads_documents:
            quantity = options.get("quantity")
            target = trace.target if quantity is None else replace(trace.target, quantity=quantity)
            if "probes" in self.requirements(options) and not combines_linearly(trace.encoding, target):
                raise UnsupportedError(
                    f"{self.title} explains documents that are read in windows only where their numbers add up: use "
                    "the quantity 'log_odds' or 'logit' and the aggregation 'mean' or 'first', or integrated_gradients."
                )
            attribution = merge_windows(
                trace.token_count,
                ((window, self._run_once(window.trace, options)) for window in trace.windows(quantity)),
            )
        else:
            attribution = self._run_once(trace, options)
        return self._clear_rounding(trace, options, attribution)

    def _run_once(self, trace: Trace, options: dict[str, Any]) -> Attribution:
        result = self.function(trace, **options)
        attribution = result if isinstance(result, Attribution) else Attribution(np.asarray(result))
        if attribution.scores.shape != (trace.token_count,):
            raise RuntimeError(f"method '{self.name}' returned scores that are not {trace.token_count} numbers")
        if not np.isfinite(attribution.scores).all():
            raise ModelError(
                f"The scores of '{self.name}' are not finite for this document: numbers inside the model overflow. "
                "Its weights may be damaged, or the number type too narrow (try dtype='float64')."
            )
        return attribution

    def _clear_rounding(self, trace: Trace, options: dict[str, Any], attribution: Attribution) -> Attribution:
        """Return zeros in place of scores that are zero to working precision, and warn: zeros rank nothing.

        Scores in units of y are so if their total is below the rounding error of y; differences between values of y,
        each with that error, if none exceeds two of them. Other scores are if they underflow single precision.
        """
        magnitudes = np.abs(attribution.scores)
        size, threshold = float(magnitudes.sum()), float(np.finfo(np.float32).tiny)
        if self.signed and self.class_specific and size:
            probing = "probes" in self.requirements(options)
            eps = torch.finfo(trace.network.dtype).eps if probing else np.finfo(attribution.scores.dtype).eps
            quantity = options.get("quantity") or trace.target.quantity
            # Log-odds may be a small difference of large logits, whose rounding errors they have.
            sizes = [
                abs(trace.value_of(quantity=q)) for q in {quantity, "logit" if quantity == "log_odds" else quantity}
            ]
            error = float(eps) * max(sizes)
            if self.kind == "perturbation":
                # Neighbours with equal scores share one difference, that of their word or sentence.
                firsts = np.flatnonzero(np.diff(attribution.scores, prepend=np.nan))
                size, error = float(np.add.reduceat(magnitudes, firsts).max()), 2 * error
            threshold = max(threshold, error)
        if size > threshold or trace.encoding.special.all():
            return attribution
        rounding = f" to working precision (none exceeds {magnitudes.max():.0e})" if size else ""
        warnings.warn(f"All scores of {self.name} are zero{rounding}: {self.zeros_mean}.", stacklevel=3)
        layers = attribution.layers
        if layers is not None and size and attribution.layer_kind != "separate":
            layers = np.zeros_like(layers)
        return replace(attribution, scores=np.zeros_like(attribution.scores), layers=layers)

    def __call__(self, trace: Trace, **options: Any) -> Attribution:
        """Run the method on a trace; options not given have their defaults."""
        return self.run(trace, self.resolve_options(options))


ALIASES = {
    "gradxinput": "input_x_gradient",
    "grad_x_input": "input_x_gradient",
    "ig": "integrated_gradients",
    "loo": "leave_one_out",
    "shap": "kernel_shap",
}
"""Names by which other libraries know a method; results carry its own name."""
METHODS: Registry[Method] = Registry("method", plugins=METHOD_PLUGINS, aliases=ALIASES)


def method(
    name: str,
    *,
    summary: str,
    signed: bool,
    class_specific: bool,
    title: str = "",
    kind: MethodKind = "other",
    formula: str = "",
    citation: str = "",
    needs: Iterable[Need] | Callable[[dict[str, Any]], Iterable[Need]] = (),
    cost: str = "",
    use: str = "",
    avoid: str = "",
    costly: bool = False,
    reads_windows: bool = False,
    zeros_mean: str = Method.zeros_mean,
) -> Callable[[MethodFunction], MethodFunction]:
    """Register the decorated function as a method and return it unchanged.

    title: the name people read ("Integrated gradients"), made from `name` unless given. summary: one sentence.
    needs: what the trace must record, or a function from the options to that. signed: whether negative scores speak
    against the target. class_specific: whether scores depend on the class that is explained. cost: in model passes.
    use, avoid: a sentence that starts with "Use" or "Avoid". costly: whether one run takes far longer than the passes
    it needs. reads_windows: whether the function itself handles documents that are read in windows. zeros_mean: what it
    means if all scores are zero, for a warning.
    """
    if kind not in get_args(MethodKind):
        raise OptionError(
            f"The kind of the method '{name}' must be one of {', '.join(get_args(MethodKind))}, not {kind!r}."
        )

    def register(function: MethodFunction) -> MethodFunction:
        METHODS.add(
            Method(
                name=name,
                title=title or name.replace("_", " ").capitalize(),
                kind=kind,
                function=function,
                summary=summary,
                formula=formula,
                citation=citation,
                needs=(lambda options: frozenset(needs(options))) if callable(needs) else frozenset(needs),
                signed=signed,
                class_specific=class_specific,
                cost=cost,
                use=use,
                avoid=avoid,
                costly=costly,
                reads_windows=reads_windows,
                zeros_mean=zeros_mean,
            )
        )
        return function

    return register


def method_name(name: str) -> MethodName:
    """Return the own name of a method, for names that are known only when a program runs, and those of plug-ins."""
    return cast(MethodName, METHODS.get(name).name)


def list_methods() -> list[Method]:
    """Return all methods, each with `.name`, `.title`, `.summary`, `.citation`, in order of registration.

    Examples
    --------
    >>> import sightline as sl
    >>> [method.name for method in sl.list_methods() if method.kind == "baseline"]
    ['random']
    """
    return list(METHODS)


def group_methods(methods: Iterable[Method]) -> dict[MethodKind, list[Method]]:
    """Return the methods by kind, the kinds in their usual order, empty ones left out."""
    groups: dict[MethodKind, list[Method]] = {kind: [] for kind in get_args(MethodKind)}
    for entry in methods:
        groups[entry.kind].append(entry)
    return {kind: entries for kind, entries in groups.items() if entries}
