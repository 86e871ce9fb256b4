"""The claims of the attention-flow paper, its published numbers, and how each claim is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.evaluation.agreement import Agreement
from sightline_studies.flow_steps import (
    VIEWS,
)
from sightline_studies.study import (
    Accuracy,
    Claim,
    Finding,
    Measured,
    Published,
    Tally,
    claim_of,
    in_words,
    judge,
    shared_difference,
)

if TYPE_CHECKING:
    pass


ACCURACY = Published(0.96, "Section 2")
TABLES: dict[str, tuple[str, dict[str, tuple[float, ...]]]] = {
    "blank_out": (
        "Table 1",
        {
            "raw": (0.69, 0.10, -0.11, -0.09, 0.20, 0.29),
            "rollout": (0.32, 0.38, 0.51, 0.62, 0.70, 0.71),
            "flow": (0.32, 0.44, 0.70, 0.70, 0.71, 0.70),
        },
    ),
    "gradient": (
        "Table 2",
        {
            "raw": (0.53, 0.16, -0.06, 0.00, 0.24, 0.46),
            "rollout": (0.22, 0.27, 0.39, 0.47, 0.53, 0.54),
            "flow": (0.22, 0.31, 0.54, 0.61, 0.60, 0.61),
        },
    ),
}
"""Reference -> where it is published, and Spearman's ρ of each view in the six layers of the verb-number model."""
SENTIMENT_TABLE: dict[str, dict[int, float]] = {
    "raw": {0: 0.12, 2: 0.09, 4: 0.08, 5: 0.09},
    "rollout": {0: 0.11, 2: 0.12, 4: 0.13, 5: 0.13},
    "flow": {0: 0.11, 2: 0.11, 4: 0.12, 5: 0.14},
}
"""Table 3: DistilBERT on SST-2, against input gradients; layer, from 0 -> ρ."""
FROM_ZERO = "Layers count from 0; in the paper, from 1."
VERBS, SENTIMENT = "verb-number model", "model of sentiment"
NEARLY_EVEN = 0.9
"""Normalised entropy from which attention counts as nearly uniform; 1 is uniform."""

Entries = Sequence[Mapping[str, Any]]
CLAIMS = (
    Claim(
        "the model learns agreement",
        "A Transformer encoder predicts the number of the verb from the words before it.",
        "Confirmed if accuracy minus the share of the larger class has its 95 % interval above 0.",
    ),
    Claim(
        "better than raw: blank-out",
        "Rollout and flow correlate better with blank-out scores than raw attention does.",
        "Confirmed if, in the last layer, the paired difference of ρ to raw attention has its 95 % interval above "
        "0 for both, and so has the difference to random weights. Artefact if these show as large a gain above 0.",
    ),
    Claim(
        "better than raw: gradients",
        "Rollout and flow correlate better with input gradients than raw attention does.",
        "As for blank-out, in the verb-number model and in the model of sentiment, if there is one.",
    ),
    Claim(
        "flow before rollout",
        "Attention flow is more reliable than attention rollout.",
        "Confirmed if, in the last layer, ρ of flow minus ρ of rollout has its 95 % interval above 0 for blank-out "
        "and for gradients.",
    ),
    Claim(
        "raw attention becomes even",
        "Raw attention of [CLS] is nearly uniform in the higher layers.",
        f"Confirmed if the rise of its normalised entropy from the first to the last layer has its 95 % interval "
        f"above 0, and the entropy of the last layer has its own above {NEARLY_EVEN}, a bound set here.",
    ),
)


def _last_layer(agreement: Agreement, view: str) -> dict[str, float]:
    """Return ρ in the last layer by sentence, of one view."""
    pairs = [pair for pair in agreement.pairs if pair.method == VIEWS[view]]
    last = pairs[-1].first if pairs else ""
    return {pair.document: pair.value for pair in pairs if pair.first == last and pair.value is not None}


def _gain(agreement: Agreement, view: str, other: str, seed: int) -> Measured:
    """Return ρ of a view minus ρ of another one in the last layer, paired by sentence."""
    return shared_difference(_last_layer(agreement, view), _last_layer(agreement, other), seed)


def judge_gain(
    agreement: Agreement, control: Agreement, reference: str, seed: int, sentiment: Agreement | None = None
) -> Finding:
    """Judge the weaker of rollout and flow against raw attention in the last layer; sentiment: of Table 3."""
    claim = claim_of(CLAIMS, "better than raw: blank-out" if reference == "blank_out" else "better than raw: gradients")
    where, table = TABLES[reference]
    models = {VERBS: agreement} | ({} if sentiment is None else {SENTIMENT: sentiment})
    published = {VERBS: ({view: row[-1] for view, row in table.items()}, where)}
    published[SENTIMENT] = ({view: row[max(row)] for view, row in SENTIMENT_TABLE.items()}, "Table 3")
    gains = {
        name: {view: _gain(each, view, "raw", seed) for view in ("rollout", "flow")} for name, each in models.items()
    }
    controls = {view: _gain(control, view, "raw", seed) for view in ("rollout", "flow")}
    weaker = {
        name: Tally(by_view, controls if name == VERBS else {}).weakest[0] or "rollout"
        for name, by_view in gains.items()
    }
    tally = Tally({name: gains[name][view] for name, view in weaker.items()}, {VERBS: controls[weaker[VERBS]]})
    model, gain = tally.weakest
    if not model:
        return Finding(claim, "not measured", "No sentence has a value.")
    view = weaker[model]
    parts = [
        f"{name}: {', '.join(f'{view} {in_words(value)}' for view, value in by_view.items())}"
        for name, by_view in gains.items()
    ]
    random = ", ".join(f"{view} {in_words(value)}" for view, value in controls.items())
    evidence = (
        f"Gain over raw attention in the last layer: {'; '.join(parts)}; {VERBS} with random weights: {random}. The "
        f"weakest, {view} in the {model}, decides."
    )
    values, source = published[model]
    random_gain = tally.controls.get(model)
    return Finding(
        claim,
        judge(gain, random_gain),
        evidence,
        gain,
        Published(round(values[view] - values["raw"], 2), f"{source}, {view}, {model}"),
        control=random_gain,
        tally=tally if len(models) > 1 else None,
    )


def judge_flow(agreements: Mapping[str, Agreement], seed: int) -> Finding:
    """Judge flow against rollout in the last layer, for both references."""
    claim = claim_of(CLAIMS, "flow before rollout")
    gains = {name: _gain(agreement, "flow", "rollout", seed) for name, agreement in agreements.items()}
    if not all(gain.documents for gain in gains.values()):
        return Finding(claim, "not measured", "No sentence has a value.")
    reference, _ = Tally(gains).weakest
    published = {
        name: Published(round(table["flow"][-1] - table["rollout"][-1], 2), where)
        for name, (where, table) in TABLES.items()
    }
    text = "; ".join(f"against {name.replace('_', '-')} {in_words(gain)}" for name, gain in gains.items())
    printed = ", ".join(f"{each.value:+.2f} ({each.where})" for each in published.values()).replace("-", "−")
    evidence = f"Flow minus rollout in the last layer: {text}. In the paper: {printed}."
    return Finding(claim, judge(gains[reference]), evidence, gains[reference], published[reference])


def judge_uniform(entries: Entries, seed: int) -> Finding:
    """Judge whether raw attention of [CLS] becomes nearly even in the last layer."""
    claim = claim_of(CLAIMS, "raw attention becomes even")
    layers = np.array([entry["entropy"] for entry in entries])
    first, last = (Measured.of(layers[:, place], seed) for place in (0, -1))
    rise = Measured.of(layers[:, -1] - layers[:, 0], seed)
    verdict = judge(rise)
    if verdict == "confirmed" and not last.low > NEARLY_EVEN:
        verdict = "contradicted" if last.high < NEARLY_EVEN else "undecided"
    evidence = (
        f"Normalised entropy of raw attention: first layer {in_words(first)}, last layer {in_words(last)}, rise "
        f"{in_words(rise)}."
    )
    return Finding(claim, verdict, evidence, measured=rise)


def judge_accuracy(entries: Entries) -> Finding:
    """Judge whether the verb-number model has learnt agreement."""
    claim = claim_of(CLAIMS, "the model learns agreement")
    accuracy = Accuracy.of(entries)
    return Finding(claim, judge(accuracy.gain), accuracy.in_words(), accuracy.measured, ACCURACY)
