"""The methods that a call names, with their options resolved before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sightline.errors import OptionError
from sightline.methods.applicability import check_applies, default_methods
from sightline.methods.registry import METHODS, Method
from sightline.models import Network

ChosenMethods = dict[Method, dict[str, Any]]
"""Methods and their resolved options, in the order in which they run."""


def choose_methods(
    network: Network,
    method: str | None,
    methods: Sequence[str] | None,
    options: Mapping[str, Any],
    quantity: str | None,
) -> ChosenMethods:
    """Return the requested methods with their resolved options, before anything runs."""
    if methods is None:
        entry = METHODS.get(method or default_methods(network)[0])
        return {entry: _resolve_options(network, entry, options, quantity)}
    if method is not None:
        raise OptionError("Give either method= or methods=, not both.")
    if isinstance(methods, str) or not methods:
        raise OptionError("methods= takes a list with at least one name, for example methods=['attcat', 'rollout'].")
    for name, method_options in options.items():
        if name not in methods or not isinstance(method_options, Mapping):
            raise OptionError(
                f"With methods=, options are given by method, for example {methods[0]}={{...}}; '{name}' does not fit."
            )
    entries = [METHODS.get(name) for name in dict.fromkeys(methods)]
    return {entry: _resolve_options(network, entry, options.get(entry.name, {}), quantity) for entry in entries}


def _resolve_options(
    network: Network, entry: Method, options: Mapping[str, Any], quantity: str | None
) -> dict[str, Any]:
    """Return a method's options, including the requested quantity if the method has that option.

    A model with a single class (a regression) always has probability 1, which removing words cannot change; its
    default quantity is the logit.
    """
    check_applies(entry.name, network)
    if quantity is None and len(network.task.facts.labels) == 1 and not network.task.facts.multi_label:
        quantity = "logit"
    defaults = {"quantity": quantity} if quantity is not None and "quantity" in entry.options else {}
    return entry.resolve_options({**defaults, **options})
