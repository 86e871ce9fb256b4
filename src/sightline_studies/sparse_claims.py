"""The claims of the paper on sparse attention, how correlations change with sparsity, and how each claim is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from sightline_studies.accuracy import has_learnt
from sightline_studies.sparse_steps import LAMBDAS, MEASURES, PROJECTIONS, Cell
from sightline_studies.study import (
    Claim,
    Finding,
    Measured,
    Tally,
    claim_of,
    in_words,
    judge,
    without_unlearnt,
)

if TYPE_CHECKING:
    pass


SPARSEST = PROJECTIONS[-1]
UNTIED = "untied pairs"
ENTROPIES = ("attention_entropy", "importance_entropy", "representation_entropy")

CLAIMS = (
    Claim(
        "inputs and representations are weakly tied",
        "Only a weak relationship exists between inputs and the representations at their positions.",
        "Confirmed if, in every model, the share of a representation's dependence that is on its own word is below "
        "one half, with the 95 % interval. One half is a bound set here; the paper names none.",
    ),
    Claim(
        "sparsity loosens the tie with inputs",
        "The sparser the attention, the lower its correlation with the importance of the inputs.",
        "Confirmed if ρ between λ and tau-b has its 95 % interval below 0 for every encoder and data set, also over "
        "the pairs of words that are not tied. Artefact if these pairs contradict it. The case that speaks most "
        "against the claim is shown.",
    ),
    Claim(
        "sparse attention, dense importance",
        "Sparse attention does not come with a sparse set of influential inputs.",
        "Confirmed if, from softmax to the sparsest projection, the entropy of attention falls by more than that "
        "of the input importance, with the 95 % interval of the paired difference above 0 for every encoder and "
        "data set.",
    ),
    Claim(
        "closer to representations than to inputs",
        "Attention agrees more with the importance of representations than with that of inputs.",
        "Confirmed if the paired difference of tau-b has its 95 % interval above 0 in every model.",
    ),
    Claim(
        "other weights, same output",
        "Under sparse attention, too, very different weights give nearly the same output.",
        "Confirmed if the distance of the weights, as a share of its bound, exceeds the change of the output, with "
        "the 95 % interval above 0 in every model with a sparse projection.",
    ),
)


def column_of(cell: Cell, key: str) -> list[float]:
    """Return a number of every document; NaN where it has none."""
    return [np.nan if entry[key] is None else entry[key] for entry in cell.documents]


def untied_correlation(cell: Cell, measure: str) -> list[float]:
    """Return tau-b / √(1 − ties) of every document: the correlation over the pairs of words that are not tied.

    This is Goodman and Kruskal's γ if the weights alone have ties. tau-b cannot exceed √(1 − ties) then, and falls as
    weights become sparse, whatever the order of the words.
    """
    pairs = zip(column_of(cell, measure), column_of(cell, f"{measure}_ties"), strict=True)
    return [tau / math.sqrt(1 - ties) if ties < 1 else float("nan") for tau, ties in pairs]


def trend_with_lambda(cells: Mapping[str, Cell], values: Callable[[Cell], Sequence[float]]) -> list[float]:
    """Return Spearman's ρ between λ and a value over the sparsegen family, one per document.

    Documents with fewer than three values, or with the same value for every λ, have none (NaN).
    """
    columns = [values(cells[projection]) for projection in LAMBDAS]
    trends = []
    for row in zip(*columns, strict=True):
        known = [(lam, value) for lam, value in zip(LAMBDAS.values(), row, strict=True) if not math.isnan(value)]
        if len(known) < 3 or len({value for _, value in known}) == 1:
            trends.append(float("nan"))
        else:
            trends.append(float(stats.spearmanr(*zip(*known, strict=True)).statistic))
    return trends


def groups_of(cells: Sequence[Cell]) -> dict[tuple[str, str], dict[str, Cell]]:
    """Return (data, encoder) -> projection -> cell."""
    groups: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.data, cell.encoder), {})[cell.projection] = cell
    return groups


TRENDS: Mapping[str, Callable[[Cell], Sequence[float]]] = {
    **{measure: partial(column_of, key=measure) for measure in MEASURES},
    UNTIED: partial(untied_correlation, measure="gradient_x"),
}
"""Correlations whose trend with λ is shown."""


def trends_of(cells: Sequence[Cell], correlation: str, seed: int) -> dict[str, Measured]:
    """Return the mean trend with λ by data set and encoder, of those that have a model for every λ."""
    return {
        f"{data}, {encoder}": Measured.of(trend_with_lambda(group, TRENDS[correlation]), seed)
        for (data, encoder), group in groups_of(cells).items()
        if all(projection in group for projection in LAMBDAS)
    }


def _label(cell: Cell) -> str:
    return f"{cell.data}, {cell.encoder}, {cell.projection}"


def _judge_own_share(cells: Sequence[Cell], seed: int) -> Finding:
    claim = claim_of(CLAIMS, "inputs and representations are weakly tied")
    shares = {_label(cell): np.array(column_of(cell, "own_share")) for cell in cells}
    tally = Tally({label: Measured.of(0.5 - values, seed) for label, values in shares.items()})
    name, effect = tally.weakest
    share = Measured.of(shares[name] if name else [], seed)
    evidence = f"Below one half {tally.in_words()}. It is largest in {name}: {in_words(share)}."
    return Finding(claim, judge(effect), evidence, measured=share, tally=tally)


def _judge_trend(cells: Sequence[Cell], seed: int) -> Finding:
    claim = claim_of(CLAIMS, "sparsity loosens the tie with inputs")
    trends, untied = (trends_of(cells, correlation, seed) for correlation in ("gradient_x", UNTIED))
    tally, other = (
        Tally({name: Measured(-m.value, -m.high, -m.low, m.documents) for name, m in values.items()})
        for values in (trends, untied)
    )
    name, effect = tally.weakest
    verdict = judge(effect)
    if verdict == "confirmed" and (untied_verdict := judge(other.weakest[1])) != "confirmed":
        verdict = "artefact" if untied_verdict == "contradicted" else "undecided"
    evidence = (
        f"The correlation falls as λ rises {tally.in_words()}. ρ between λ and tau-b(attention, input gradients), mean "
        f"over documents: {_list(trends)}. But sparse weights tie most pairs of words at 0, and tau-b is then at most "
        "√(1 − share of tied pairs): it falls for this reason alone. Over the pairs that are not tied, the correlation "
        f"falls {other.in_words()}: {_list(untied)}; these pairs become fewer and clearer with sparsity, which raises "
        "it. λ is that of sparsegen, so that softmax is left out: from softmax to sparsegen with λ = −1, the densest, "
        f"tau-b rises {_rise_from_softmax(cells, seed).in_words()}. The paper's table and text disagree about the "
        "sign; these are the signs as measured."
    )
    return Finding(claim, verdict, evidence, measured=trends.get(name, effect), tally=tally)


def _rise_from_softmax(cells: Sequence[Cell], seed: int) -> Tally:
    """Return by how much tau-b with input gradients is larger with the densest sparsegen than with softmax."""
    densest = min(LAMBDAS, key=lambda name: LAMBDAS[name])
    return Tally(
        {
            f"{data}, {encoder}": Measured.of(
                np.array(column_of(group[densest], "gradient_x")) - np.array(column_of(group["softmax"], "gradient_x")),
                seed,
            )
            for (data, encoder), group in groups_of(cells).items()
            if {"softmax", densest} <= group.keys()
        }
    )


def _list(values: Mapping[str, Measured]) -> str:
    return "; ".join(f"{name} {in_words(measured)}" for name, measured in values.items())


def _judge_explanation(cells: Sequence[Cell], seed: int) -> Finding:
    claim = claim_of(CLAIMS, "sparse attention, dense importance")
    gaps, falls = {}, []
    for (data, encoder), group in groups_of(cells).items():
        if not {"softmax", SPARSEST} <= group.keys():
            continue
        drops = [
            np.array(column_of(group["softmax"], key)) - np.array(column_of(group[SPARSEST], key))
            for key in ENTROPIES[:2]
        ]
        gaps[f"{data}, {encoder}"] = Measured.of(drops[0] - drops[1], seed)
        attention, importance = (in_words(Measured.of(drop, seed)) for drop in drops)
        falls.append(f"{data}, {encoder}: attention {attention}, input importance {importance}")
    tally = Tally(gaps)
    _, gap = tally.weakest
    evidence = (
        f"Attention becomes sparser than the input importance does {tally.in_words()}. Fall of the normalised entropy "
        f"from softmax to {SPARSEST}: {'; '.join(falls)}."
    )
    return Finding(claim, judge(gap), evidence, measured=gap, tally=tally)


def _judge_representations(cells: Sequence[Cell], seed: int) -> Finding:
    claim = claim_of(CLAIMS, "closer to representations than to inputs")
    tally = Tally(
        {
            _label(cell): Measured.of(
                np.array(column_of(cell, "gradient_h")) - np.array(column_of(cell, "gradient_x")), seed
            )
            for cell in cells
        }
    )
    name, gap = tally.weakest
    evidence = (
        f"tau-b with gradients of representations exceeds that with gradients of inputs {tally.in_words()}. The "
        f"difference is least certain in {name}: {in_words(gap)}. Part of this is by construction: a representation "
        "acts on the output through its weight alone, and one outside the support of a sparse attention not at all."
    )
    return Finding(claim, judge(gap), evidence, measured=gap, tally=tally)


def _judge_adversary(cells: Sequence[Cell], seed: int) -> Finding:
    claim = claim_of(CLAIMS, "other weights, same output")
    optimised = {
        _label(cell): [pair for pair in cell.others if pair["test"] == "frozen"]
        for cell in cells
        if cell.projection != "softmax"
    }
    tally = Tally(
        {
            label: Measured.of([pair["jsd"] / math.log(2) - pair["tvd"] for pair in pairs], seed)
            for label, pairs in optimised.items()
        }
    )
    name, gap = tally.weakest
    jsd, tvd = (Measured.of([pair[key] for pair in optimised.get(name, [])], seed) for key in ("jsd", "tvd"))
    evidence = (
        f"The weights move further than the output {tally.in_words()}. Optimised weights, where they move least, "
        f"{name}: JSD {in_words(jsd)} of at most {math.log(2):.2f}, change of the output (TVD) {in_words(tvd)}."
    )
    return Finding(claim, judge(gap), evidence, measured=gap, tally=tally)


def judge_claims(cells: Sequence[Cell], seed: int) -> list[Finding]:
    """Return a finding per claim; models that have learnt nothing count neither for a claim nor against it."""
    learnt = [cell for cell in cells if has_learnt(cell.tested)]
    unlearnt = [_label(cell) for cell in cells if cell not in learnt]
    judges = (_judge_own_share, _judge_trend, _judge_explanation, _judge_representations, _judge_adversary)
    return [without_unlearnt(judge_claim(learnt, seed), unlearnt, len(cells)) for judge_claim in judges]
