"""The claims of the AttCAT paper and how each of them is judged."""

from __future__ import annotations

from collections.abc import Mapping

from sightline_studies.attcat_steps import (
    CONFIDENCE,
    OTHERS,
    OWN,
    Values,
)
from sightline_studies.study import (
    Claim,
    Finding,
    Measured,
    Published,
    Tally,
    Verdict,
    claim_of,
    in_words,
    judge,
    shared_difference,
)

CLAIMS = (
    Claim(
        "highest AOPC",
        "Deleting the words that AttCAT ranks highest lowers the prediction more than with any other method.",
        "Confirmed if the paired difference of AOPC to every other method, on every data set, has its 95 % "
        "interval above 0. The comparison with the strongest rival is shown.",
    ),
    Claim(
        "lowest log-odds",
        "Replacing the words that AttCAT ranks highest lowers the log-odds more than with any other method.",
        "As for AOPC, with log-odds. The difference is shown with the sign that is above 0 where AttCAT is better.",
    ),
    Claim(
        "attention helps CAT",
        "Weighting class activations by attention (AttCAT) is more faithful than leaving the weights out (CAT).",
        "Confirmed if the paired difference of AOPC has its 95 % interval above 0 on every data set.",
    ),
    Claim(
        "classes are told apart",
        "AttCAT's explanations of different classes are nearly uncorrelated, so that they are confident.",
        "Confirmed if the published number's interval reaches within 0.1 of 0 and that of tau-b between the scores "
        "lies within ±0.2, contradicted if one of the intervals lies outside. Artefact if tau-b lies below −0.5: then "
        "the rankings are opposite, which the published number hides.",
    ),
    Claim(
        "answers are found",
        "More answer tokens are among the tokens that AttCAT ranks highest than with any other method.",
        "Confirmed if the paired difference of Precision@K to every other method has its 95 % interval above 0, and so "
        "has its difference to random weights. Artefact if these show as large a difference above 0.",
    ),
)


def _advantage(by_metric: dict[str, tuple[Values, Values]], metric: str, other: str, seed: int) -> Measured:
    """Return by how much AttCAT is better than another method: AOPC higher, log-odds lower."""
    values = by_metric[metric][0]
    sign = -1.0 if metric == "log_odds" else 1.0
    attcat, rival = values.get(OWN, {}), values.get(other, {})
    return shared_difference(
        {key: sign * value for key, value in attcat.items()}, {key: sign * value for key, value in rival.items()}, seed
    )


def judge_faithfulness(results: Mapping[str, dict[str, tuple[Values, Values]]], metric: str, seed: int) -> Finding:
    """Judge AttCAT against every other method on every data set, by AOPC or log-odds."""
    claim = claim_of(CLAIMS, "highest AOPC" if metric == "aopc" else "lowest log-odds")
    tally = Tally(
        {
            f"{other} on {data}": _advantage(by_metric, metric, other, seed)
            for data, by_metric in results.items()
            for other in OTHERS
        }
    )
    if not tally.known:
        return Finding(claim, "not measured", "No document has a value.")
    rival, closest = tally.weakest
    comparisons, lost = len(tally.known), sum(advantage.high < 0 for advantage in tally.known.values())
    sign = -1.0 if metric == "log_odds" else 1.0
    control = Measured.of(
        [
            sign * (value - by_metric[metric][1][OWN][key])
            for by_metric in results.values()
            for key, value in by_metric[metric][0].get(OWN, {}).items()
            if key in by_metric[metric][1].get(OWN, {})
        ],
        seed,
    )
    evidence = (
        f"Of {comparisons} comparisons with another method, AttCAT is better in {tally.held} and worse in {lost} (95 % "
        f"interval on one side of 0); equal methods would differ in about {0.025 * comparisons:.1f} in each direction. "
        f"The strongest rival is {rival}: difference {in_words(closest)}. Over random orders of the words, AttCAT "
        f"gains {in_words(control)}."
    )
    return Finding(claim, judge(closest), evidence, measured=closest, tally=tally)


def judge_attention(results: Mapping[str, dict[str, tuple[Values, Values]]], seed: int) -> Finding:
    """Judge whether AttCAT is more faithful than CAT, on every data set."""
    claim = claim_of(CLAIMS, "attention helps CAT")
    tally = Tally({data: _advantage(by_metric, "aopc", "cat", seed) for data, by_metric in results.items()})
    _, worst = tally.weakest
    text = "; ".join(f"{data} {in_words(measured)}" for data, measured in tally.effects.items())
    evidence = f"AttCAT is more faithful {tally.in_words()}. AOPC of AttCAT minus AOPC of CAT: {text}."
    return Finding(claim, judge(worst), evidence, measured=worst, tally=tally)


def judge_confidence(results: Mapping[str, dict[str, tuple[Values, Values]]], seed: int) -> Finding:
    """Judge the published confidence beside Kendall's tau-b between the scores of the classes."""
    claim = claim_of(CLAIMS, "classes are told apart")

    tau, listed = (
        Measured.of([value for by in results.values() for value in by[metric][0].get(OWN, {}).values()], seed)
        for metric in CONFIDENCE
    )
    if not listed.documents or not tau.documents:
        return Finding(claim, "not measured", "No document has explanations of two classes.")
    near_zero = listed.low <= 0.1 and listed.high >= -0.1
    if near_zero and tau.high < -0.5:
        verdict: Verdict = "artefact"
    elif listed.low > 0.1 or listed.high < -0.1 or tau.low > 0.2 or tau.high < -0.2:
        verdict = "contradicted"
    else:
        verdict = "confirmed" if near_zero and tau.low >= -0.2 and tau.high <= 0.2 else "undecided"
    evidence = (
        f"As the published program computes it, the correlation is {in_words(listed)}. Kendall's tau-b between the "
        f"scores themselves is {in_words(tau)}. The published number compares two lists of token positions: for "
        "unrelated rankings it is 0 on average, and for exactly opposite rankings of n tokens about −1/n, so it cannot "
        "tell the two apart. Methods that do not depend on the class have tau-b 1 by construction; with two classes, "
        "methods that follow the gradient are near −1, because what speaks for one class speaks against the other."
    )
    return Finding(claim, verdict, evidence, measured=listed, published=Published(0.018, "confidence table"))
