"""The claims of the attention-flow paper, and the cases by which each is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline_studies.tables import printed, published
from sightline_studies.verdicts import Accuracy, Case, Claim, Finding, Measured

PRINTED = {"raw": "Raw", "rollout": "Rollout", "flow": "Flow"}
PAPER_ACCURACY = published("flow_facts", "value", name="verb_number_accuracy")[0]
PAPER_LAYERS = 6
Entries = Sequence[Mapping[str, Any]]
GAIN = "ρ in the last layer, minus that of raw attention, over all tokens"
CLAIMS = (
    Claim(
        "the model learns agreement",
        "A Transformer encoder predicts the number of the verb from the words before it.",
        "accuracy, above always naming the larger class; models that have learnt less than half of what the printed "
        "one had do not count",
        "Section 2",
    ),
    Claim(
        "better than raw: blank-out",
        "Rollout and flow correlate better with blank-out scores than raw attention does.",
        GAIN,
        "Table 1",
    ),
    Claim(
        "better than raw: gradients",
        "Rollout and flow correlate better with input gradients than raw attention does.",
        GAIN,
        "Tables 2, 3",
    ),
    Claim(
        "flow and rollout: gradients",
        "In the printed tables, flow exceeds rollout against input gradients, and not against blank-out.",
        "ρ of flow minus ρ of rollout in the last layer",
        "Tables 2, 3",
    ),
    Claim(
        "raw attention becomes even",
        "In higher layers, raw attention of [CLS] is spread more evenly over the tokens.",
        "normalised entropy in the last layer minus that in the first",
        "Fig. 2",
    ),
)


def printed_rho(table: str, view: str, layer: int) -> Any:
    """Return ρ of a printed table with its standard deviation; layers count from 0."""
    return printed(
        "flow_spearman", "spearman_mean", "spearman_std", table=table, method=PRINTED[view], layer=f"L{layer + 1}"
    )


def correlations(entries: Entries, reference: str, view: str, layer: int, over: str = "all") -> list[float]:
    """Return ρ of every sentence in one layer; NaN where there is none."""
    column = [entry[f"{reference} {view} {over}"] for entry in entries]
    return [np.nan if row[layer] is None else row[layer] for row in column]


def layer_count(entries: Entries) -> int:
    """Return the number of layers of the model that was measured."""
    return len(entries[0]["entropy"])


def _gain(entries: Entries, reference: str, view: str, other: str, seed: int) -> Measured:
    if not entries:
        return Measured.of([])
    last = layer_count(entries) - 1
    return Measured.paired(*(correlations(entries, reference, name, last) for name in (view, other)), seed=seed)


def _gains(
    table: str,
    reference: str,
    models: Mapping[str, tuple[Entries, Entries]],
    pairs: Sequence[tuple[str, str]],
    aside: Mapping[str, str],
    seed: int,
) -> list[Case]:
    cases = []
    for name, (entries, random) in models.items():
        for view, other in pairs:
            known = [printed_rho(table, each, PAPER_LAYERS - 1).value for each in (view, other)]
            cases.append(
                Case(
                    f"{view} minus {other}, {name}",
                    _gain(entries, reference, view, other, seed),
                    (round(known[0] - known[1], 2),),
                    _gain(random, reference, view, other, seed) if random else None,
                    set_aside=aside.get(name, ""),
                )
            )
    return cases


def why_unlearnt(tested: Entries) -> str:
    """Return why a verb-number model does not decide: it has not learnt half of what the paper's model had."""
    accuracy = Accuracy.of(tested)
    wanted = (accuracy.majority + PAPER_ACCURACY) / 2
    if accuracy.measured.value >= wanted:
        return ""
    return f"has learnt too little: accuracy {accuracy.measured.value:.2f}, below {wanted:.2f}"


def judge_claims(
    tested: Mapping[str, Entries],
    verbs: Mapping[str, tuple[Entries, Entries]],
    sentiment: Mapping[str, tuple[Entries, Entries]],
    aside: Mapping[str, str],
    seed: int,
) -> list[Finding]:
    """Return a finding per claim."""
    gains = [("rollout", "raw"), ("flow", "raw")]
    learnt = [
        Case(
            name,
            Accuracy.of(entries).measured,
            (PAPER_ACCURACY,),
            bound=Accuracy.of(entries).majority,
            set_aside=aside.get(name, ""),
        )
        for name, entries in tested.items()
    ]
    even = [
        Case(
            name,
            _rise(entries, seed),
            control=_rise(random, seed),
            set_aside=aside.get(name, ""),
        )
        for name, (entries, random) in verbs.items()
    ]
    blank = [("flow", "rollout")]
    own = "The paper's tables are of an encoder trained from scratch: one that was pretrained is shown, and set aside."
    return [
        Finding(CLAIMS[0], learnt),
        Finding(CLAIMS[1], _gains("Table 1", "blank_out", verbs, gains, aside, seed), own),
        Finding(
            CLAIMS[2],
            [
                *_gains("Table 2", "gradient", verbs, gains, aside, seed),
                *_gains("Table 3", "gradient", sentiment, gains, {}, seed),
            ],
            f"{own} Special tokens are ranked, as in the paper; the appendix has the words alone.",
        ),
        Finding(
            CLAIMS[3],
            [
                *_gains("Table 2", "gradient", verbs, blank, aside, seed),
                *_gains("Table 3", "gradient", sentiment, blank, {}, seed),
                *(
                    replace(case, name=f"{case.name}, blank-out", set_aside="printed as −0.01: no difference")
                    for case in _gains("Table 1", "blank_out", verbs, blank, aside, seed)
                ),
            ],
        ),
        Finding(CLAIMS[4], even, "The paper shows it for one sentence in a figure."),
    ]


def _rise(entries: Entries, seed: int) -> Measured:
    layers = np.array([entry["entropy"] for entry in entries])
    return Measured.of(layers[:, -1] - layers[:, 0], seed)
