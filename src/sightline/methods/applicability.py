"""Which methods apply to which models, and the methods that a call names.

A model with a single attention (`models/single_attention.py`) has one row of weights and no token that attends. Methods
that follow attention from token to token, through layers or through the parts of an attention block, mean nothing
there. Relevance propagation has rules for softmax only, so it does not apply to heads with a sparse projection either.
Of a model whose family has no entry (`families.unseen_family`) only embeddings and logits are known, so methods that
look at layers or attention are not offered. What does not apply is refused, and the options of the methods of a call
are resolved, before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sightline.attention.projections import SOFTMAX, projection_of
from sightline.errors import OptionError, UnsupportedError
from sightline.methods.registry import METHODS, Method
from sightline.models import Network
from sightline.models.families import Family
from sightline.models.sentence_models import PooledClassifier
from sightline.passes.forward import SEEN_FROM_OUTSIDE
from sightline.settings.explain import (
    DEFAULT_METHODS,
    FALLBACK_METHODS,
    FUNCTION_METHODS,
    UNSEEN_METHODS,
)

RELEVANCE = frozenset({"lrp", "partial_lrp", "transatt", "attnlrp"})
BY_SLOPES = frozenset({"decompx", "alti_logit"})
TOKEN_TO_TOKEN = RELEVANCE | BY_SLOPES | {"received_attention", "rollout", "flow", "alti", "norm_rollout", "globenc"}
LAYERED = RELEVANCE | {"layer_conductance"}
"""Methods that look at layers although they announce no need for what a pass records of them."""


_INSIDE = "needs the inside of a model, and of a function only the answers are known"


def reason_against(method: str, family: Family, *, sparse_heads: str | None = None) -> str | None:
    """Return why a method is not offered for models of a family, as the rest of a sentence; None if it is.

    `sparse_heads` names the projection of the model's heads if it is not softmax.
    """
    if family.single_attention and method in TOKEN_TO_TOKEN:
        return f"follows attention from token to token, and a '{family.model_type}' model has one row of weights only"
    if sparse_heads is not None and method in RELEVANCE:
        return f"has no rule for the sparse attention of this model ({sparse_heads})"
    if family.attention_layout == "unseen" and _looks_inside(method):
        return (
            f"needs the layers or the attention of a model, and of '{family.model_type}' models Sightline knows only "
            "embeddings and logits"
        )
    return None


def _looks_inside(method: str) -> bool:
    entry = METHODS.get(method)
    return method in LAYERED or not entry.requirements(dict(entry.options)) <= SEEN_FROM_OUTSIDE


def default_methods(network: Network) -> tuple[str, ...]:
    """Return the methods that explain a document unless others are asked for, for this model.

    `FALLBACK_METHODS` where one of `DEFAULT_METHODS` does not apply (a single attention, sparse projections) or cannot
    run (the library's Longformer attention does not show its operations); `UNSEEN_METHODS` where layers and attention
    are not known, and `FUNCTION_METHODS` where only the answers to texts are.
    """
    if network.answers_only:
        return FUNCTION_METHODS
    if not network.sees_inside:
        return UNSEEN_METHODS
    hidden_operations = network.banded and network.banded_encoder is None
    refused = methods_not_offered(network)
    return (
        FALLBACK_METHODS if hidden_operations or any(name in refused for name in DEFAULT_METHODS) else DEFAULT_METHODS
    )


def methods_not_offered(network: Network) -> dict[str, str]:
    """Return the methods that do not apply to a model, each with the reason in a sentence."""
    projection = projection_of(network.config)
    sparse_heads = None if projection == SOFTMAX else projection.name
    reasons = {name: reason_against(name, network.family, sparse_heads=sparse_heads) for name in METHODS.names()}
    if network.answers_only:
        only_calls = [entry for entry in METHODS if entry.kind in ("perturbation", "baseline")]
        entries = [_method_of(network, entry.name) for entry in only_calls]
        known = {entry.name for entry in entries if entry.requirements(dict(entry.options)) <= {"probes"}}
        reasons = {name: None if name in known else _INSIDE for name in reasons}
    if isinstance(network.module, PooledClassifier) and network.module.without_relevance is not None:
        reasons |= {name: reasons[name] or network.module.without_relevance for name in RELEVANCE | BY_SLOPES}
    return {name: f"The method '{name}' {reason}." for name, reason in reasons.items() if reason is not None}


def check_applies(method: str, network: Network) -> None:
    """Raise UnsupportedError if a method means nothing for a model, and name methods that do."""
    refused = methods_not_offered(network)
    if method in refused:
        others = ", ".join(name for name in METHODS.names() if name not in refused)
        raise UnsupportedError(f"{refused[method]} Use one of: {others}.")


ChosenMethods = dict[Method, dict[str, Any]]
"""Methods and their resolved options, in the order in which they run."""


def choose_methods(
    network: Network,
    method: str | None,
    methods: Sequence[str] | None,
    options: Mapping[str, Any],
) -> ChosenMethods:
    """Return the requested methods with their resolved options, before anything runs."""
    if methods is None:
        entry = _method_of(network, method or default_methods(network)[0])
        return {entry: _resolve_options(network, entry, options)}
    if method is not None:
        raise OptionError("Give either method= or methods=, not both.")
    if isinstance(methods, str) or not methods:
        raise OptionError("methods= takes a list with at least one name, for example methods=['attcat', 'rollout'].")
    for name, method_options in options.items():
        if name not in methods or not isinstance(method_options, Mapping):
            raise OptionError(
                f"With methods=, options are given by method, for example {methods[0]}={{...}}; '{name}' does not fit."
            )
    entries = [_method_of(network, name) for name in dict.fromkeys(methods)]
    return {entry: _resolve_options(network, entry, options.get(entry.name, {})) for entry in entries}


def _method_of(network: Network, name: str) -> Method:
    """Return a method; of a function, which has no inside to erase a word in, leave_one_out deletes it."""
    from sightline.methods.perturbation import leave_one_word_out  # here: the order of imports is that of the methods

    entry = METHODS.get(name)
    if network.answers_only and entry.name == "leave_one_out":
        return replace(entry, function=leave_one_word_out, needs=frozenset({"probes"}))
    return entry


def _resolve_options(network: Network, entry: Method, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a method that applies to the model."""
    check_applies(entry.name, network)
    return entry.resolve_options(options)
