"""The claims of the Longformer report and how each of them is judged."""

from __future__ import annotations

from typing import Any

from sightline_studies.longformer_tables import (
    SOURCE,
    Entries,
    published_tau,
    similarity_values,
)
from sightline_studies.study import (
    Accuracy,
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
    two_digits,
)

MOSTLY_CHANCE = 0.8
"""A similarity of which chance alone gives this share says little about the model."""
ACCURACY = Published(0.98, "author's repository, longformer_research_papers.ipynb")

CLAIMS = (
    Claim(
        "accurate classifier",
        "A Longformer fine-tuned on long documents classifies them well.",
        "Confirmed if accuracy minus the share of the largest class has its 95 % interval above 0.",
    ),
    Claim(
        "attention agrees with attribution",
        "Words that receive more attention get more attribution.",
        "Confirmed if Kendall's tau minus its chance level has its 95 % interval above 0, and so has the difference to "
        "the same model with random weights. Artefact if that model has as large an effect above 0.",
    ),
    Claim(
        "masking raises similarity",
        "Once stop words and symbols are masked, attention and attribution are far more similar.",
        "Judged on the published form (masked words set to 0): confirmed if Kendall's tau minus that of all words "
        "has its 95 % interval above 0, and is larger than with shuffled attribution. Artefact if shuffled attribution "
        "reaches 80 % of that difference; this bound is set here.",
    ),
    Claim(
        "head importance helps",
        "Weighting heads by their importance brings attention closer to attribution.",
        "Confirmed if the paired difference of tau, scaled minus unscaled, has its 95 % interval above 0 for the "
        "last and for all layers. The weaker of the two is shown.",
    ),
)


def _above_chance(entries: Entries, mode: str, seed: int, **setting: Any) -> Measured:
    pairs = similarity_values(entries, mode, "kendall", **setting)
    return Measured.of([value - chance for value, chance in pairs.values()], seed)


def judge_accuracy(tested: Entries, reason: str) -> Finding:
    """Judge whether the classifier has learnt its task; reason: why its performance was not measured."""
    claim = claim_of(CLAIMS, "accurate classifier")
    if reason:
        return Finding(claim, "not measured", reason)
    accuracy = Accuracy.of(tested)
    return Finding(claim, judge(accuracy.gain), accuracy.in_words(), accuracy.measured, ACCURACY)


def judge_agreement(trained: Entries, control: Entries, seed: int) -> Finding:
    """Judge Kendall's tau between attention and attribution above chance, beside random weights."""
    claim = claim_of(CLAIMS, "attention agrees with attribution")
    effect = _above_chance(trained, "unmasked", seed)
    other = _above_chance(control, "unmasked", seed)
    cosine, random = (
        Measured.of([value for value, _ in similarity_values(entries, "unmasked", "cosine_normalised").values()], seed)
        for entries in (trained, control)
    )
    evidence = (
        f"Kendall's tau of all words, all layers, minus its chance level: {in_words(effect)}. With random weights: "
        f"{in_words(other)}. The cosine of the report's tables is {two_digits(cosine.value)}, and "
        f"{two_digits(random.value)} with random weights. Tau is {published_tau('unmasked', 'all')} in the {SOURCE}, "
        "without a chance level."
    )
    return Finding(claim, judge(effect, other), evidence, measured=effect, control=other)


def judge_masking(trained: Entries, seed: int) -> Finding:
    """Judge how much setting masked words to 0 raises tau, beside shuffled attribution."""
    claim = claim_of(CLAIMS, "masking raises similarity")
    every, zeroed = (similarity_values(trained, mode, "kendall") for mode in ("unmasked", "zeroed"))
    gain, chance = (
        shared_difference(
            {number: pair[place] for number, pair in zeroed.items()},
            {number: pair[place] for number, pair in every.items()},
            seed,
        )
        for place in (0, 1)
    )
    if not gain.documents:
        return Finding(claim, "not measured", "No document has words left after masking.")
    verdict: Verdict = judge(gain, chance)
    if verdict == "confirmed" and chance.value >= MOSTLY_CHANCE * gain.value:
        verdict = "artefact"
    masked = Measured.of([value for value, _ in zeroed.values()], seed)
    unrelated = Measured.of([level for _, level in zeroed.values()], seed)
    evidence = (
        f"Setting masked words to 0 in both lists changes Kendall's tau by {in_words(gain)}, to {in_words(masked)}. "
        f"For shuffled attribution it changes tau by {in_words(chance)}, to {in_words(unrelated)}. With masked words "
        f"left out, tau minus chance is {in_words(_above_chance(trained, 'dropped', seed))}; with all words it is "
        f"{in_words(_above_chance(trained, 'unmasked', seed))}."
    )
    published = Published(round(published_tau("zeroed", "all") - published_tau("unmasked", "all"), 3), SOURCE)
    return Finding(claim, verdict, evidence, gain, published, control=chance)


def judge_scaling(trained: Entries, seed: int) -> Finding:
    """Judge whether weighting heads by their importance raises tau."""
    claim = claim_of(CLAIMS, "head importance helps")
    gains = {}
    for layers in ("last", "all"):
        scaled, plain = (
            {n: value for n, (value, _) in similarity_values(trained, "unmasked", "kendall", layers, scaling).items()}
            for scaling in (True, False)
        )
        gains[layers] = shared_difference(scaled, plain, seed)
    weaker = Tally(gains).weakest[0] or "all"
    published = published_tau("unmasked", weaker, scaled=True) - published_tau("unmasked", weaker)
    evidence = (
        f"Tau of all words, scaled minus unscaled: {in_words(gains['last'])} for the last layer, "
        f"{in_words(gains['all'])} for all layers."
    )
    return Finding(claim, judge(gains[weaker]), evidence, gains[weaker], Published(round(published, 3), SOURCE))
