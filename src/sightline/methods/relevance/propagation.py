"""Relevance of everything in a trace by one set of rules."""

from __future__ import annotations

import warnings

import torch

from sightline.methods.relevance.mode import Propagation
from sightline.methods.relevance.rules import Rules
from sightline.models.relevance import Relevance
from sightline.passes.trace import Trace


def propagate(trace: Trace, rules: Rules, *, whole_attention: bool = False) -> Relevance:
    """Return the relevance of everything in the trace; methods with the same rules and target share the pass.

    Of the relevance of attention the positive means over heads are kept (`Propagation.reduce`), or all of it.
    """
    relevance = trace.relevance(Propagation(rules, whole_attention))
    if relevance.lost:
        warnings.warn(
            f"{relevance.lost} relevances exceeded {trace.network.dtype} where contributions cancel, and count as zero"
            + ('; load the model with dtype="float64".' if trace.network.dtype != torch.float64 else "."),
            stacklevel=3,
        )
    return relevance
