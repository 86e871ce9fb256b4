"""The claims of the paper on sparse attention, and the cases by which each is judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.lab import LambdaCurve
from sightline_studies.accuracy import has_learnt
from sightline_studies.sparse_steps import (
    ATTACKED,
    LAMBDAS,
    LEARNT,
    PROJECTIONS,
    Cell,
)
from sightline_studies.tables import published
from sightline_studies.verdicts import Case, Claim, Finding, Measured

DATA = {"imdb": "IMDb", "sst2": "SST", "20news": "20News"}
NAMES = {"bilstm": "BiLSTM", "transformer": "Transformer"}
PRINTED = ("softmax", "sparsemax")
"""Projections of the printed tables."""
SPARSEST = PROJECTIONS[-1]
EVEN = 0.93
"""Normalised entropy from which attention counts as even: it has then not been learnt, and says nothing."""
BOUND = min(published("sparse_entropy", "entropy_of_g_h_mean"))
HALF = math.log(2) / 2
Group = Mapping[str, Cell]
CLAIMS = (
    Claim(
        "inputs and representations are weakly tied",
        "A representation depends on many inputs, not on the word at its position alone.",
        f"normalised entropy of g_h, mean; the claim is that it is above the lowest printed mean, {BOUND}",
        "Table 1",
    ),
    Claim(
        "importance and sparsity",
        "The entropy of the input importance falls as λ rises: so says the printed table. The text reads it the other "
        "way, that the importance does not become sparser.",
        "Pearson correlation of λ with the mean entropy of g_y; the printed numbers are below 0",
        "Table 2",
    ),
    Claim(
        "sparse attention, dense importance",
        "Sparse attention does not come with an equally sparse set of influential inputs.",
        f"fall of the entropy of attention from softmax to {SPARSEST}, minus that of the importance of inputs",
        "Section 4",
    ),
    Claim(
        "sparsity loosens the tie with inputs",
        "With sparse attention, its correlation with the importance of inputs is lower, not higher.",
        "Kendall's tau-b of attention and input gradients, sparsemax minus softmax, below 0",
        "Table 6",
    ),
    Claim(
        "closer to representations than to inputs",
        "Attention agrees more with the importance of representations than with that of inputs.",
        "Kendall's tau-b with gradients of representations minus that with gradients of inputs",
        "Table 6",
    ),
    Claim(
        "other weights, same output",
        "Under sparse attention, too, very different weights can be learnt that give nearly the same output.",
        f"JSD of the adversary's weights to the model's; the claim is that it is above half of its bound, {HALF:.2f}",
        "Table 5",
    ),
)


def column_of(cell: Cell, key: str) -> list[float]:
    """Return a number of every document; NaN where it has none."""
    return [np.nan if entry[key] is None else entry[key] for entry in cell.documents]


def of_adversary(cell: Cell, test: str, key: str) -> list[float]:
    """Return "jsd" or "tvd", whether the adversary is "right" (0 or 1), or the "change" of that, per document."""
    pairs = [pair for pair in cell.others if pair["test"] == test]
    if key == "change":
        return [float(pair["other_right"]) - float(pair["right"]) for pair in pairs]
    return [float(pair["other_right" if key == "right" else key]) for pair in pairs]


def trend_with_lambda(columns: npt.ArrayLike, seed: int) -> Measured:
    """Return Pearson's correlation of λ with the mean over documents, columns (λ, D), interval over documents."""
    values = np.asarray(columns, dtype=np.float64)
    curve = LambdaCurve(tuple(LAMBDAS), np.array(list(LAMBDAS.values())), {"gradient_entropy": values})
    return Measured(*curve.correlation("gradient_entropy", seed=seed), int(np.isfinite(values).all(axis=0).sum()))


def groups_of(cells: Sequence[Cell]) -> dict[tuple[str, str], dict[str, Cell]]:
    """Return (data, encoder) -> projection -> cell."""
    groups: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.data, cell.encoder), {})[cell.projection] = cell
    return groups


def why_aside(cell: Cell) -> str:
    """Return why a model does not decide, or an empty text."""
    if not has_learnt(cell.tested):
        return "has not learnt its task"
    entropy = float(np.nanmean(column_of(cell, "attention_entropy")))
    return f"attention stayed even (entropy {entropy:.2f})" if entropy > EVEN else ""


def _aside(group: Group, projections: Sequence[str]) -> str:
    reasons: dict[str, list[str]] = {}
    for name in projections:
        reasons.setdefault(why_aside(group[name]).partition(" (")[0], []).append(name)
    return "; ".join(f"{reason} ({', '.join(names)})" for reason, names in reasons.items() if reason)


def printed_keys(data: str, encoder: str, **more: Any) -> dict[str, Any]:
    """Return how the printed tables call a data set and an encoder."""
    return {"encoder": NAMES[encoder], "data": DATA[data], **more}


def judge_claims(cells: Sequence[Cell], seed: int) -> list[Finding]:
    """Return a finding per claim."""
    groups = groups_of(cells)
    cases: list[list[Case]] = [[] for _ in CLAIMS]
    for (data, encoder), group in groups.items():
        title = f"{data}, {encoder}"
        for projection in PRINTED:
            cell, where = group[projection], printed_keys(data, encoder, projection=projection)
            aside, name = why_aside(cell), f"{title}, {projection}"
            spread = Measured.of(column_of(cell, "representation_entropy"), seed)
            known = published("sparse_entropy", "entropy_of_g_h_mean", **where)
            cases[0].append(Case(name, spread, known, bound=BOUND, set_aside=aside))
            gap = Measured.paired(column_of(cell, "gradient_h"), column_of(cell, "gradient_x"), seed=seed)
            taus = [_tau(where, of) for of in ("representations h", "inputs x")]
            cases[4].append(Case(name, gap, (round(taus[0] - taus[1], 2),), set_aside=aside))
        entropies = [column_of(group[name], "importance_entropy") for name in LAMBDAS]
        known = published("sparse_lambda", "correlation_of_lambda_and_entropy_of_g_y", **printed_keys(data, encoder))
        trend = trend_with_lambda(entropies, seed)
        cases[1].append(Case(title, trend, known, below=True, set_aside=_aside(group, list(LAMBDAS))))
        drops = [
            np.subtract(column_of(group["softmax"], key), column_of(group[SPARSEST], key))
            for key in ("attention_entropy", "importance_entropy")
        ]
        aside = _aside(group, ("softmax", SPARSEST))
        cases[2].append(Case(title, Measured.of(drops[0] - drops[1], seed), set_aside=aside))
        change = Measured.paired(*(column_of(group[name], "gradient_x") for name in reversed(PRINTED)), seed=seed)
        taus = [_tau(printed_keys(data, encoder, projection=name), "inputs x") for name in reversed(PRINTED)]
        known = (round(taus[0] - taus[1], 2),)
        aside = "not so in the printed table either" if known[0] >= 0 else _aside(group, PRINTED)
        cases[3].append(Case(title, change, known, below=True, set_aside=aside))
        sparse = group[ATTACKED]
        for adversary, test in LEARNT.items():
            jsd = Measured.of(of_adversary(sparse, test, "jsd"), seed)
            known = published("sparse_adversarial", "jsd", adversary=adversary, **printed_keys(data, encoder))
            cases[5].append(Case(f"{title}, {adversary}", jsd, known, bound=HALF, set_aside=why_aside(sparse)))
    notes = (
        "",
        "The signs are as measured: below 0, the importance becomes sparser with the attention.",
        "",
        "Sparse weights tie most pairs of words at 0, and tau-b is at most √(1 − share of tied pairs): it falls for "
        "this reason, too.",
        "Part of this is by construction: a representation acts on the output through its weight alone.",
        "Half of the bound is a rule set here. Table 5 shows whether the accuracy holds, too.",
    )
    return [Finding(claim, each, note) for claim, each, note in zip(CLAIMS, cases, notes, strict=True)]


def _tau(where: Mapping[str, Any], of: str) -> float:
    return published("sparse_kendall", "kendall_mean", importance_of=of, measure="gradient", **where)[0]
