"""The registry of attribution methods.

A method is a function `(trace, *, option=default, ...)` that returns scores (n,), or an `Attribution` when it has more
to say. Its options are its keyword-only parameters; their annotations are what a user may give.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sightline.errors import OptionError
from sightline.passes import Need
from sightline.registry import METHOD_PLUGINS, Registry, origin_of, suggestion
from sightline.trace import Trace

Array = NDArray[np.floating[Any]]
Check = float | int | bool | str


@dataclass(frozen=True)
class Attribution:
    """What a method found: scores (n,), layer-by-layer scores (L, n), how far to trust it, named further arrays."""

    scores: Array
    layers: Array | None = None
    checks: Mapping[str, Check] = field(default_factory=dict)
    extras: Mapping[str, Array] = field(default_factory=dict)


MethodFunction = Callable[..., "Array | Attribution"]


@dataclass(frozen=True)
class Method:
    """A registered method and what can be said about it."""

    name: str
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
        """Option names and the types their values may have."""
        hints = get_type_hints(self.function)
        return {name: hints[name] for name in self.options}

    def facts(self) -> dict[str, Any]:
        """Everything it says about itself as plain values; an option has `choices` where its values can be listed."""
        return {
            "name": self.name,
            "summary": self.summary,
            "formula": self.formula,
            "signed": self.signed,
            "class_specific": self.class_specific,
            "cost": self.cost,
            "use": self.use,
            "avoid": self.avoid,
            "citation": self.citation,
            "origin": self.origin,
            "options": {
                name: {
                    "default": default,
                    "values": describe_type(self.option_types[name]),
                    "choices": _choices(self.option_types[name]),
                }
                for name, default in self.options.items()
            },
        }

    def settle(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options with defaults filled in, or say which one is wrong."""
        for name, value in options.items():
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                hint = suggestion(name, list(self.options))
                raise OptionError(f"The method '{self.name}' has no option '{name}'.{hint} Its options: {known}.")
            if not _fits(value, self.option_types[name]):
                wanted = describe_type(self.option_types[name])
                raise OptionError(f"The option '{name}' of '{self.name}' must be {wanted}, not {value!r}.")
        return {**self.options, **options}

    def requirements(self, options: dict[str, Any]) -> frozenset[Need]:
        """What the method will ask of the trace with these options."""
        return self.needs(options) if callable(self.needs) else self.needs

    def __call__(self, trace: Trace, **options: Any) -> Attribution:
        """Run the method on a trace."""
        settled = self.settle(options)
        trace.require(*self.requirements(settled))
        found = self.function(trace, **settled)
        attribution = found if isinstance(found, Attribution) else Attribution(found)
        if attribution.scores.shape != (trace.tokens,) or not np.isfinite(attribution.scores).all():
            raise RuntimeError(f"method '{self.name}' returned scores that are not {trace.tokens} finite numbers")
        return attribution


METHODS: Registry[Method] = Registry("method", plugins=METHOD_PLUGINS)


def method(
    name: str,
    *,
    summary: str,
    formula: str,
    citation: str,
    needs: set[Need] | Callable[[dict[str, Any]], set[Need]],
    signed: bool,
    class_specific: bool,
    cost: str,
    use: str,
    avoid: str,
) -> Callable[[MethodFunction], MethodFunction]:
    """Register the decorated function as a method."""

    def register(function: MethodFunction) -> MethodFunction:
        METHODS.add(
            Method(
                name=name,
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
            )
        )
        return function

    return register


def list_methods() -> list[Method]:
    """All methods, each with `.name`, `.summary`, `.citation`, in order of registration."""
    return list(METHODS)


def checked_layer(layer: int, layers: int) -> int:
    """Return a layer number from 0, counting from the top when negative."""
    if not -layers <= layer < layers:
        raise OptionError(f"Layer {layer} asked for, the model has {layers} (0-{layers - 1}).")
    return layer % layers


def checked_head(head: int, heads: int) -> int:
    """Return a head number from 0."""
    if not 0 <= head < heads:
        raise OptionError(f"Head {head} asked for, the model has {heads} (0-{heads - 1}).")
    return head


def checked_seed(seed: int) -> int:
    """Return the seed if every generator that is used takes it."""
    if not 0 <= seed < 2**32:
        raise OptionError(f"A seed is a whole number from 0 to {2**32 - 1}, not {seed}.")
    return seed


def describe_type(kind: Any) -> str:
    """Say in words what values a type allows."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(describe_type(part) for part in get_args(kind))
    if get_origin(kind) is not None and issubclass(get_origin(kind), Sequence):
        return "a list of numbers"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "nothing"}
    return names.get(kind, str(kind))


def _choices(kind: Any) -> list[Any] | None:
    """Return all values a type allows where they can be listed, else None."""
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


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if get_origin(kind) is Literal:
        return np.ndim(value) == 0 and value in get_args(kind)  # an array would be compared entry by entry
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, part) for part in get_args(kind))
    if get_origin(kind) is not None and issubclass(get_origin(kind), Sequence):
        return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
    if kind is bool:
        return isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(np.isfinite(value))
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    return isinstance(value, kind)
