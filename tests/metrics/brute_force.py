"""Faithfulness the plain way: one changed document at a time through the library's own model, python floats."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch


class OneAtATime:
    """A transformers classifier, run on one list of ids (and token types) at a time."""

    def __init__(self, module, target, token_ids):
        self.module = module
        self.target = target
        self.token_ids = token_ids
        self.probability = cache(self._probability)

    def _probability(self, ids, types, mask=None):
        mask = mask or (1,) * len(ids)
        given = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}
        with torch.no_grad():
            logits = self.module(**{name: torch.tensor([values]) for name, values in given.items()}).logits[0].tolist()
        exponents = [math.exp(value - max(logits)) for value in logits]
        return exponents[self.target] / sum(exponents)

    def without(self, encoding, gone, replacement, mask_pads=False):
        ids = encoding.ids.tolist()
        types = encoding.type_ids.tolist()
        gone = set(gone)
        if replacement == "delete":
            kept = [i for i in range(len(ids)) if i not in gone]
            return self.probability(tuple(ids[i] for i in kept), tuple(types[i] for i in kept))
        changed = tuple(self.token_ids[replacement] if i in gone else ids[i] for i in range(len(ids)))
        mask = tuple(0 if mask_pads and replacement == "pad" and i in gone else 1 for i in range(len(ids)))
        return self.probability(changed, tuple(types), mask)


def count(ratio, units):
    """Rounded half up, at least one for more than nothing."""
    return 0 if ratio == 0 else max(1, math.floor(ratio * units + 0.5 + 1e-9))


def curve(runner, encoding, units, order, plan, mask_pads=False):
    """Probabilities of one order by one plan."""
    values = []
    for ratio in plan.ratios:
        k = count(ratio, len(units))
        gone_units = order[:k] if plan.direction == "remove" else order[k:]
        gone = [position for unit in gone_units for position in units[unit]]
        values.append(runner.without(encoding, gone, plan.replacement, mask_pads))
    return values


def value(metric, p, original, ratios):
    """The metric by its formula."""
    if metric in ("aopc", "comprehensiveness", "sufficiency"):
        return sum(original - probability for probability in p) / len(p)
    if metric == "log_odds":
        return sum(math.log(max(probability, 1e-12) / max(original, 1e-12)) for probability in p) / len(p)
    trapezoids = [(ratios[i + 1] - ratios[i]) * (p[i] + p[i + 1]) / 2 for i in range(len(p) - 1)]
    return sum(trapezoids) / (ratios[-1] - ratios[0])


def descending(scores):
    """Order of the units from the highest score, ties in one seeded order."""
    place = {int(unit): rank for rank, unit in enumerate(np.random.default_rng(0).permutation(len(scores)))}
    return sorted(range(len(scores)), key=lambda unit: (-scores[unit], place[unit]))


def random_order(units, token_scores):
    """Order of the units when every token has a random score."""
    return descending([sum(token_scores[position] for position in unit) for unit in units])


def oracle_order(runner, encoding, units, replacement, mask_pads=False):
    """Order of the exact one-at-a-time effects."""
    whole = runner.without(encoding, [], "delete")
    return descending([whole - runner.without(encoding, unit, replacement, mask_pads) for unit in units])
