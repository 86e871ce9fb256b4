"""The claims of the ALTI paper and how each of them is judged.

The published numbers are those that the authors stored with their code: Spearman's ρ with gradients and with blank-out,
from `data/{model}_{sst2,sva}_correlations.json` of the repository transformer-contributions, rounded to two digits.
Those of ALTI differ by up to 0.01 between versions of the files. GlobEnc is not in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.evaluation.agreement import Agreement
from sightline_studies.alti_steps import (
    MARKS,
    MODELS,
    REFERENCES,
    SEEDS,
    alti_gain,
)
from sightline_studies.study import (
    Claim,
    Finding,
    Measured,
    Published,
    Tally,
    claim_of,
    in_words,
    judge,
    two_digits,
    without_unlearnt,
)

if TYPE_CHECKING:
    pass

SOURCE = "authors' repository, data/*_correlations.json"
PUBLISHED: dict[str, dict[str, dict[str, float]]] = {
    "sst2": {
        "BERT": {"raw_attention": 0.29, "rollout": -0.03, "norm_rollout": 0.41, "alti": 0.55},
        "DistilBERT": {"raw_attention": 0.23, "rollout": 0.23, "norm_rollout": 0.29, "alti": 0.54},
        "RoBERTa": {"raw_attention": 0.24, "rollout": 0.01, "norm_rollout": 0.37, "alti": 0.68},
    },
    "sva": {
        "BERT": {"raw_attention": 0.24, "rollout": -0.02, "norm_rollout": 0.19, "alti": 0.40},
        "DistilBERT": {"raw_attention": 0.38, "rollout": 0.23, "norm_rollout": 0.31, "alti": 0.41},
        "RoBERTa": {"raw_attention": 0.17, "rollout": -0.09, "norm_rollout": 0.08, "alti": 0.43},
    },
}
"""Data set -> model -> method -> mean over sentences."""


def published_range(data: str, method: str) -> str:
    """Return the smallest and the largest ρ of the three models: "0.54 to 0.68"."""
    values = [by_method[method] for by_method in PUBLISHED[data].values() if method in by_method]
    return f"{two_digits(min(values))} to {two_digits(max(values))}" if values else "not given here"


def published_lead(other: str, *data: str) -> Published:
    """Return ρ of ALTI minus ρ of another method, in the model where it is smallest."""
    leads = {
        (name, model): by_method["alti"] - by_method[other]
        for name in data
        for model, by_method in PUBLISHED[name].items()
    }
    name, model = min(leads, key=lambda key: leads[key])
    return Published(round(leads[name, model], 2), f"{SOURCE}: the smallest of {len(leads)}, {model} on {name}")


JUDGED = {"sst2": "gradient", "sva": "blank_out"}
"""Data set -> the reference of the paper's table."""
PREFIX = "sentiment: "

Entries = Sequence[Mapping[str, Any]]
CLAIMS = (
    Claim(
        "closer to gradients than rollout",
        "On sentiment, ALTI correlates better with gradient norms than attention rollout does.",
        "Confirmed if the paired difference of ρ has its 95 % interval above 0 in every model, "
        "and so has the difference to random weights. Artefact if these show as large a difference above 0.",
    ),
    Claim(
        "closer to blank-out than rollout",
        "On subject-verb agreement, ALTI correlates better with blank-out than attention rollout does.",
        "As for gradients.",
    ),
    Claim(
        "closer than norms",
        "ALTI correlates better with the references than methods based on vector norms.",
        "Confirmed if the paired difference of ρ to norm rollout and to GlobEnc has its 95 % interval above 0 in "
        "every model. In models that normalise before each block, both are the same and count once.",
    ),
    Claim(
        "less weight on special tokens",
        "ALTI gives special tokens less relevance than attention weights do.",
        "Confirmed if the share of the scores on special tokens is lower than with raw attention, with the 95 % "
        "interval of the paired difference above 0 in every model. The token that is read out is left out: a layer "
        "passes much of it on to itself, which raw attention does not count.",
    ),
    Claim(
        "more consistent than gradients",
        "ALTI's explanations of models that differ by their seed only agree more than gradient explanations do.",
        "Confirmed if the paired difference of ρ between models has its 95 % interval above 0, and so has the "
        "difference to two models with random weights. Artefact if these show as large a difference above 0.",
    ),
)


def data_of(name: str) -> str:
    """Return the data set that a model reads."""
    return "sst2" if name.startswith(PREFIX) else "sva"


def _difference(entries: Entries, reference: str, other: str, seed: int) -> Measured:
    """Return ρ of ALTI minus ρ of another method, paired by sentence."""
    pairs = [(entry[f"{reference} alti"], entry[f"{reference} {other}"]) for entry in entries]
    return Measured.of([first - second for first, second in pairs if first is not None and second is not None], seed)


def values_of(entries: Entries, key: str) -> list[float]:
    """Return a number of every sentence; NaN where it has none."""
    return [np.nan if entry[key] is None else entry[key] for entry in entries]


def judge_reference(
    data: str, measured: Mapping[str, Entries], control: Mapping[str, Entries], learnt: Sequence[str], seed: int
) -> Finding:
    """Judge whether ALTI is closer than rollout to the reference of a data set, in every model that learnt."""
    claim = claim_of(CLAIMS, f"closer to {'gradients' if data == 'sst2' else 'blank-out'} than rollout")
    names = [name for name in measured if data_of(name) == data]
    judged = [name for name in names if name in learnt]
    effects, controls = (
        {name: _difference(entries[name], JUDGED[data], "rollout", seed) for name in judged}
        for entries in (measured, control)
    )
    tally = Tally(effects, controls)
    name, effect = tally.weakest
    text = "; ".join(f"{name} {in_words(effects[name])}, random weights {in_words(controls[name])}" for name in judged)
    evidence = f"ALTI is closer than rollout {tally.in_words()}. ρ of ALTI minus ρ of rollout: {text}."
    other = controls.get(name)
    published = published_lead("rollout", data)
    finding = Finding(claim, judge(effect, other), evidence, effect, published, control=other, tally=tally)
    return without_unlearnt(finding, [name for name in names if name not in judged], len(names))


def _different_norms(entries: Entries) -> list[str]:
    """Return the methods based on norms that ALTI is compared with; GlobEnc only where it is not norm rollout.

    The two differ by the second LayerNorm of a layer, which models that normalise before each block do not have.
    """
    same = all(
        entry[f"{reference} globenc"] == entry[f"{reference} norm_rollout"]
        for entry in entries
        for reference in REFERENCES
    )
    return ["norm_rollout"] if same else ["norm_rollout", "globenc"]


def judge_norms(measured: Mapping[str, Entries], seed: int) -> Finding:
    """Judge whether ALTI is closer to the references than methods based on vector norms."""
    claim = claim_of(CLAIMS, "closer than norms")
    tally = Tally(
        {
            f"{other} ({name})": _difference(entries, JUDGED[data_of(name)], other, seed)
            for name, entries in measured.items()
            for other in _different_norms(entries)
        }
    )
    _, least = tally.weakest
    text = "; ".join(f"{name} {in_words(value)}" for name, value in tally.effects.items())
    evidence = f"ALTI is closer {tally.in_words()}. ρ of ALTI minus that of {text}."
    return Finding(claim, judge(least), evidence, least, published_lead("norm_rollout", *JUDGED), tally=tally)


def judge_specials(measured: Mapping[str, Entries], seed: int) -> Finding:
    """Judge whether ALTI gives special tokens less weight than raw attention does."""
    claim = claim_of(CLAIMS, "less weight on special tokens")
    drops, parts = {}, []
    for name, entries in measured.items():
        raw, alti = (np.array(values_of(entries, f"special {method}")) for method in ("raw_attention", "alti"))
        drops[name] = Measured.of(raw - alti, seed)
        parts.append(
            f"{name}: raw attention {in_words(Measured.of(raw, seed))}, ALTI {in_words(Measured.of(alti, seed))}"
        )
    tally = Tally(drops)
    _, drop = tally.weakest
    marks = "; ".join(
        f"{name} {in_words(rise)}"
        for name, entries in measured.items()
        if (rise := _mark_rank_difference(entries, seed)).documents
    )
    evidence = (
        f"The share is lower {tally.in_words()}. Share of the scores on special tokens: {'; '.join(parts)}. "
        "Punctuation is not part of the verdict: rank of commas and full stops by ALTI minus that by raw attention: "
        f"{marks or 'no sentence has any'}."
    )
    return Finding(claim, judge(drop), evidence, measured=drop, tally=tally)


def _mark_rank_difference(entries: Entries, seed: int) -> Measured:
    """Return the normalised rank of commas and full stops by ALTI minus that by raw attention, paired by sentence."""
    differences = []
    for entry in entries:
        alti, raw = entry["ranks alti"], entry["ranks raw_attention"]
        signs = [alti[sign] - raw[sign] for sign in MARKS[2:] if sign in alti]
        if signs:
            differences.append(float(np.mean(signs)))
    return Measured.of(differences, seed)


def judge_consistency(groups: Mapping[str, Agreement], control: Agreement, seed: int) -> Finding:
    """Judge whether models that differ by their seed agree more by ALTI than by gradients."""
    claim = claim_of(CLAIMS, "more consistent than gradients")
    effect, random = alti_gain(groups[SEEDS], seed), alti_gain(control, seed)
    evidence = (
        f"ρ between models that differ by their seed, on sentences that both predict alike: ALTI minus gradient "
        f"{in_words(effect)}; between two models with random weights {in_words(random)}."
    )
    if MODELS in groups:
        gain = in_words(alti_gain(groups[MODELS], seed))
        evidence += f" Between different models of sentiment, per sentence and pair of models: {gain}."
    return Finding(claim, judge(effect, random), evidence, measured=effect, control=random)
