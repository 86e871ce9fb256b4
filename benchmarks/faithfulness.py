"""Faithfulness of ten methods in shared batches beside one changed document at a time.

A BERT of MiniLM's shape (6 layers, 12 heads, 384 wide) with random weights, one document of 512 tokens, ten orders of
its words; AOPC, log-odds, comprehensiveness and sufficiency at their own shares. The other form runs every changed
document of every order and metric separately, as published code does. Values must be the same up to single precision;
how many runs of the model are saved is reported. Floor and reference are left out on both sides.
"""

from __future__ import annotations

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

import sightline as sl
from benchmarks import harness
from sightline.api.model import Model
from sightline.metrics import METRICS
from sightline.metrics.measurement import FaithfulnessSettings, Measured, measure_scores
from sightline.metrics.plans import removed_positions, score_order, unit_counts
from sightline.models import Target
from sightline.passes.perturb import removable_units
from sightline.text import Encoding

WANTED = ("aopc", "log_odds", "comprehensiveness", "sufficiency")
METHODS = (
    *("random", "raw_attention", "rollout", "attgrads", "gradient"),
    *("input_x_gradient", "cat", "attcat", "alti", "norm_rollout"),
)
LARGEST_DIFFERENCE = 1e-5
SETTINGS = FaithfulnessSettings(random_orderings=0, reference_order=False)

Values = dict[tuple[str, str], float]


def classifier() -> Model:
    """A random BERT of MiniLM's shape; weights large enough that words change the prediction."""
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        initializer_range=0.05,
        pad_token_id=0,
    )
    return sl.load(BertForSequenceClassification(config))


def document(tokens: int) -> list[int]:
    """Ids of a document; words come again as in a text."""
    drawn = np.random.default_rng(0).zipf(1.3, size=tokens - 2) % 20_000
    return [101, *(1000 + drawn).tolist(), 102]


def one_at_a_time(model: Model, encoding: Encoding, target: Target, scores: dict[str, np.ndarray]) -> Values:
    """Run every changed document of every order and metric separately."""
    network, task = model.network, model.network.task
    units = removable_units(encoding, target)

    def probability(removed: list[int], replacement: str) -> float:
        if not removed:
            changed = encoding
        elif replacement == "delete":
            changed = encoding.drop(removed)
        else:
            ids = encoding.ids.copy()
            ids[removed] = network.token_id(replacement)
            changed = encoding.replace_ids(ids)
        (logits,) = network.run([changed])
        return float(task.probabilities(logits.double())[target.index])

    whole = probability([], "delete")
    values = {}
    for name, vector in scores.items():
        order = score_order(vector, units)
        for metric in WANTED:
            plan = METRICS.get(metric).plan
            counts = unit_counts(plan.ratios, len(units))
            curve = [
                probability(removed, plan.replacement)
                for removed in removed_positions(order, units, counts, plan.direction)
            ]
            values[name, metric] = METRICS.get(metric)(curve, whole)
    return values


def main() -> None:
    """Run the comparison."""
    report = harness.start("faithfulness", __doc__)
    model = classifier()
    encoding = model.encode(ids=document(64 if report.quick else 512))
    target = model.trace(encoding).target
    explained = model.explain(encoding, methods=METHODS, target=target)
    scores = {name: explanation.scores for name, explanation in explained.items()}
    report.fact("tokens", len(encoding))

    ours: list[Measured] = []
    theirs: list[Values] = []
    report.compare(
        "ten methods, four metrics",
        ours=lambda: ours.append(measure_scores(model.network, encoding, target, scores, WANTED, SETTINGS)),
        reference=lambda: theirs.append(one_at_a_time(model, encoding, target, scores)),
        target=1.5,
        repeats=1,
    )
    measured = ours[0]
    report.fact("documents asked for", measured.calls_requested)
    report.fact("documents read", measured.calls_made)
    report.ratio("documents saved", measured.calls_requested, measured.calls_made)
    difference = max(abs(measured.by[key].value - value) for key, value in theirs[0].items())
    report.fact("difference", difference)
    report.ratio("difference limit", LARGEST_DIFFERENCE, max(difference, 1e-16), target=1)
    report.finish()


if __name__ == "__main__":
    main()
