"""The claims of the ALTI paper, and the cases by which each is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from sightline_studies.alti_steps import (
    GRADIENTS,
    MARKS,
    agreements,
)
from sightline_studies.tables import published
from sightline_studies.verdicts import Case, Claim, Finding, Measured, claim_of, in_words

JUDGED = {"sst2": "gradient", "sva": "blank_out"}
"""Data set -> the reference of the paper's table."""
DATA = {"sst2": "SST2", "sva": "SVA"}
PRINTED = {"rollout": "Attn Rollout", "norm_rollout": "Norm Rollout", "alti": "ALTI"}
BASES = ("DistilBERT", "BERT", "RoBERTa")
TABLE_2, FIG_6, FIG_7 = "Table 2", "Fig. 6", "Fig. 7"
Entries = Sequence[Mapping[str, Any]]
CLAIMS = (
    Claim(
        "closer to gradients than rollout",
        "On sentiment, ALTI correlates better with the norm of the gradient than attention rollout does.",
        "ρ of ALTI minus ρ of attention rollout, over all tokens",
        TABLE_2,
    ),
    Claim(
        "closer to gradients than norms",
        "On sentiment, ALTI correlates better with the norm of the gradient than rollout of vector norms does.",
        "ρ of ALTI minus ρ of norm rollout, over all tokens",
        TABLE_2,
    ),
    Claim(
        "closer to blank-out than rollout",
        "On subject-verb agreement, ALTI correlates better with blank-out than attention rollout does.",
        "ρ of ALTI minus ρ of attention rollout, over all tokens",
        TABLE_2,
    ),
    Claim(
        "closer to blank-out than norms",
        "On subject-verb agreement, ALTI correlates better with blank-out than rollout of vector norms does.",
        "ρ of ALTI minus ρ of norm rollout, over all tokens",
        TABLE_2,
    ),
    Claim(
        "marks rank lower than with rollout",
        "Other methods rank special tokens and punctuation high, ALTI ranks them low.",
        "normalised rank of a mark by attention rollout minus that by ALTI, 0 to 1",
        FIG_6,
    ),
    Claim(
        "more consistent than gradients",
        "Explanations of two models that predict the same agree more by ALTI than by gradient methods.",
        "ρ between the two models by ALTI minus that by a gradient method",
        FIG_7,
    ),
)


def _leads(
    measured: Mapping[str, Entries],
    control: Mapping[str, Entries],
    reference: str,
    other: str,
    aside: Mapping[str, str],
    data: str,
    seed: int,
) -> list[Case]:
    """Return ρ of ALTI minus ρ of another method, paired by sentence, one case per model."""

    def lead(entries: Entries) -> Measured:
        return Measured.paired(*(values(entries, f"{reference} {name} all") for name in ("alti", other)), seed=seed)

    by_model = [
        dict(zip(BASES, (printed_rho(data, name, model) for model in BASES), strict=True)) for name in ("alti", other)
    ]
    known = tuple(round(by_model[0][model] - by_model[1][model], 2) for model in BASES)
    return [
        Case(name, lead(entries), known, lead(control[name]), set_aside=aside.get(name, ""))
        for name, entries in measured.items()
    ]


def printed_rho(data: str, method: str, model: str) -> float:
    """Return ρ of Table 2."""
    return published("alti_spearman", "spearman_mean", data=DATA[data], method=PRINTED[method], model=model)[0]


def values(entries: Entries, key: str) -> list[float]:
    """Return a number of every sentence; NaN where it has none."""
    return [np.nan if entry.get(key) is None else entry[key] for entry in entries]


def ranks(entries: Entries, method: str, mark: str) -> list[float]:
    """Return the normalised rank of a mark, of the sentences that have it."""
    return [entry["ranks"][method].get(MARKS[mark], np.nan) for entry in entries if "ranks" in entry]


class Pair:
    """Two models of sentiment, with ρ between their token scores by method, trained and with random weights."""

    def __init__(self, name: str, trained: dict[str, list[Any]], random: dict[str, list[Any]], aside: str) -> None:
        self.name, self.trained, self.random, self.aside = name, trained, random, aside


def model_pairs(
    measured: Mapping[str, Entries], control: Mapping[str, Entries], aside: Mapping[str, str]
) -> list[Pair]:
    """Return every two models of sentiment, with and without their weights."""
    return [
        Pair(
            f"{one} and {other}",
            agreements(measured[one], measured[other]),
            agreements(control[one], control[other]),
            aside.get(one, "") or aside.get(other, ""),
        )
        for one, other in combinations(measured, 2)
    ]


def judge_claims(
    measured: Mapping[str, Mapping[str, Entries]],
    control: Mapping[str, Mapping[str, Entries]],
    pairs: Sequence[Pair],
    aside: Mapping[str, str],
    seed: int,
) -> list[Finding]:
    """Return a finding per claim."""
    findings = []
    for data, title in (("sst2", "gradients"), ("sva", "blank-out")):
        for other, name in (("rollout", "rollout"), ("norm_rollout", "norms")):
            claim = claim_of(CLAIMS, f"closer to {title} than {name}")
            cases = _leads(measured[data], control[data], JUDGED[data], other, aside, data, seed)
            findings.append(Finding(claim, cases, "published: DistilBERT, BERT and RoBERTa."))
    falls, rises = [], []
    for name, entries in measured["sst2"].items():
        for mark in MARKS:
            ours, rollout, gradient = (ranks(entries, key, mark) for key in ("alti", "rollout", "gradient"))
            falls.append(
                Case(
                    f"{mark}, {name}",
                    Measured.paired(rollout, ours, seed=seed),
                    control=Measured.paired(
                        *(ranks(control["sst2"][name], key, mark) for key in ("rollout", "alti")), seed=seed
                    ),
                    set_aside=aside.get(name, ""),
                )
            )
            rises.append(f"{mark}, {name}: {in_words(Measured.paired(ours, gradient, seed=seed))}")
    marks = (
        "The gradient, which the paper takes as the reference, ranks the marks lower still than ALTI where this is "
        f"above 0 (rank by ALTI minus rank by the gradient): {'; '.join(rises)}."
    )
    findings.append(Finding(claim_of(CLAIMS, "marks rank lower than with rollout"), falls, marks))
    gains = [
        Case(
            f"{method}, {pair.name}",
            Measured.paired(pair.trained["alti"], pair.trained[method], seed=seed),
            control=Measured.paired(pair.random["alti"], pair.random[method], seed=seed),
            set_aside=pair.aside,
        )
        for pair in pairs
        for method in GRADIENTS
    ]
    findings.append(
        Finding(
            claim_of(CLAIMS, "more consistent than gradients"),
            gains,
            "Sentences on which the two models predict the same class." if gains else "Needs two models of sentiment.",
        )
    )
    return findings
