"""Study of attention and attribution in a Longformer: do the words that receive attention also get the credit?

A classifier of long documents is inspected document by document: attention received, averaged over the heads of the
last or of all layers, with and without head importance as weights, against integrated gradients; on all words, on words
that are no stop words, and in the published way, with masked words set to 0. Every similarity stands beside the
similarity of shuffled attribution (chance) and that of the same model with random weights (control).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sightline.studies.accuracy import has_learnt
from sightline.studies.data import DataSet
from sightline.studies.longformer_example import (
    example_tables,
    instance_figures,
    map_figures,
    measure_average_maps,
    measure_example,
    overlay_figures,
)
from sightline.studies.longformer_steps import (
    BINS,
    MASK,
    PARTNERS,
    choose_subject,
    measure_control,
    measure_importance,
    measure_inside,
    measure_performance,
    random_twin,
)
from sightline.studies.longformer_tables import (
    MODES,
    SOURCE,
    Entries,
    mean_chance,
    partner_table,
    performance_tables,
    published_tau,
    similarity_tables,
    similarity_values,
)
from sightline.studies.longformer_words import word_tables
from sightline.studies.study import (
    Accuracy,
    Claim,
    Curve,
    Curves,
    Difference,
    Dots,
    Figure,
    Finding,
    HeadMap,
    HubData,
    Measured,
    Outcome,
    PaperSize,
    Published,
    Study,
    Verdict,
    in_words,
    judge,
    not_judged,
    shared_difference,
    two_digits,
)
from sightline.studies.workbench import Subject, Workbench

MOSTLY_CHANCE = 0.8
"""A similarity of which chance alone gives this share says little about the model."""
ACCURACY = Published(0.98, "author's repository, longformer_research_papers.ipynb")


def _above_chance(entries: Entries, mode: str, seed: int, **setting: Any) -> Measured:
    pairs = similarity_values(entries, mode, "kendall", **setting)
    return Measured.of([value - chance for value, chance in pairs.values()], seed)


def _judge_accuracy(tested: Entries, reason: str, seed: int) -> Finding:
    claim = LONGFORMER.claim("accurate classifier")
    if reason:
        return Finding(claim, "not measured", reason)
    accuracy = Accuracy.of(tested, seed)
    return Finding(claim, judge(accuracy.gain), accuracy.in_words(), accuracy.measured, ACCURACY)


def _judge_agreement(trained: Entries, control: Entries, seed: int) -> Finding:
    claim = LONGFORMER.claim("attention agrees with attribution")
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


def _judge_masking(trained: Entries, seed: int) -> Finding:
    claim = LONGFORMER.claim("masking raises similarity")
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
    verdict: Verdict = judge(gain)
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


def _judge_scaling(trained: Entries, seed: int) -> Finding:
    claim = LONGFORMER.claim("head importance helps")
    gains = {}
    for layers in ("last", "all"):
        scaled, plain = (
            {n: value for n, (value, _) in similarity_values(trained, "unmasked", "kendall", layers, scaling).items()}
            for scaling in (True, False)
        )
        gains[layers] = shared_difference(scaled, plain, seed)
    weaker = min(gains, key=lambda layers: gains[layers].low)
    published = published_tau("unmasked", weaker, scaled=True) - published_tau("unmasked", weaker)
    evidence = (
        f"Tau of all words, scaled minus unscaled: {in_words(gains['last'])} for the last layer, "
        f"{in_words(gains['all'])} for all layers."
    )
    return Finding(claim, judge(gains[weaker]), evidence, gains[weaker], Published(round(published, 3), SOURCE))


def _similarity_dots(trained: Entries, seed: int) -> Dots:
    panels: dict[str, list[tuple[str, Measured, float]]] = {}
    for mode, title in MODES.items():
        rows = []
        for layers in ("last", "all"):
            for scaled in (False, True):
                pairs = similarity_values(trained, mode, "kendall", layers, scaled)
                group = f"{layers}, {'scaled' if scaled else 'unscaled'}"
                rows.append((group, Measured.of([value for value, _ in pairs.values()], seed), mean_chance(pairs)))
        panels[title.partition(",")[0]] = rows
    return Dots(panels)


def _received_figures(trained: Entries, seed: int) -> list[Figure]:
    """Return attention received along the document; nothing if all documents are too short."""
    received = np.array([entry["received"] for entry in trained if len(entry["received"]) == BINS])
    if not len(received):
        return []
    bands = [Measured.of(column, seed) for column in received.T]
    return [
        Figure(
            "places",
            "Attention received along the document",
            Curves(
                [f"{100 * place // BINS}%" for place in range(BINS)],
                [Curve.of("received", bands)],
                "position in the document",
                "attention per token, 1 on average",
            ),
            "In twenty equal parts of the document: mean over layers, heads and documents, with the 95 % interval "
            "over documents. The first part holds the global token, which every token may attend to.",
        )
    ]


def why_not_tested(tested: Entries, classes: Sequence[str]) -> str:
    """Return a sentence if labels say nothing about the model, else an empty text."""
    if not tested:
        return "The documents have no labels, so that performance cannot be measured."
    labels = {str(entry["label"]) for entry in tested}
    if labels.isdisjoint(classes):
        return (
            f"The labels of the documents ({_some(sorted(labels))}) are no classes of the model ({_some(classes)}), so "
            "that performance cannot be measured."
        )
    return ""


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")


def run(bench: Workbench) -> Outcome:
    """Measure performance, and inspect documents with the trained and with random weights."""
    data, subject = choose_subject(bench)
    seed = bench.seed
    explained = data.test[: bench.number("documents")]
    tested = measure_performance(bench, subject, data)
    importance = measure_importance(bench, subject, explained[: bench.number("importance")])
    trained = measure_inside(bench, subject, explained, importance)
    control = measure_control(bench, random_twin(bench, subject), explained[: bench.number("control")], importance)
    example = measure_example(bench, subject, explained[0])
    average = measure_average_maps(bench, subject, explained)
    classes = trained[0]["classes"]
    reason = why_not_tested(tested, classes)
    true_label = None if explained[0].label is None else str(tested[0]["label"])
    tables = [
        *([] if reason else performance_tables(subject.name, tested, classes, seed)),
        *similarity_tables(trained, control, seed),
        *word_tables(trained, seed, MASK),
        partner_table(trained),
        *example_tables(example),
    ]
    figures = [
        Figure(
            "heads",
            "Importance of the heads",
            HeadMap(importance),
            "Taylor importance of every head, scaled to the range from 0 to 1.",
        ),
        *map_figures(example, average, importance),
        Figure(
            "similarity",
            "Kendall's tau between attention and attribution",
            _similarity_dots(trained, seed),
            "Dots: mean over documents with its 95 % interval. Grey: what shuffled attribution gives.",
        ),
        *overlay_figures(example, true_label),
        *instance_figures(example),
        *_received_figures(trained, seed),
    ]
    findings = [
        _judge_agreement(trained, control, seed),
        _judge_masking(trained, seed),
        _judge_scaling(trained, seed),
    ]
    if not reason and not has_learnt(tested, seed):
        findings = [not_judged(finding, [subject.name]) for finding in findings]
    findings = [_judge_accuracy(tested, reason, seed), *findings]
    left_out = [*_left_out(data), *([f"Performance: {reason[0].lower()}{reason[1:]}"] if reason else [])]
    return Outcome(tables, figures, findings, _differences(bench, data, subject), left_out)


def _left_out(data: DataSet) -> list[str]:
    parts = ["Hyperpartisan news and clinical notes, the report's other data: give them as --data papers=FILE."]
    return ["The report's papers: give them as --data papers=FILE.", *parts] if data.generated else parts


def _differences(bench: Workbench, data: DataSet, subject: Subject) -> list[Difference]:
    return [
        Difference(
            "data",
            "research papers on artificial intelligence and programming languages, at 2,048 tokens or more",
            f"the first {bench.number('tokens'):,} tokens of each document ({data.origin}); "
            f"{bench.number('documents'):,} documents explained, {len(data.test):,} tested",
            "a sample of shorter documents keeps the run within minutes",
        ),
        Difference(
            "model",
            "longformer-base-4096 fine-tuned on the papers (12 layers, 12 heads)",
            subject.name,
            "models of the hub are read at --size paper only",
        ),
        Difference(
            "attribution",
            "integrated gradients by captum on the embedding layer",
            f"integrated gradients with {bench.number('steps')} Gauss-Legendre nodes",
            "the same integral with a more accurate rule",
        ),
        Difference(
            "chance",
            "no chance level and no control",
            "shuffled attribution, and the same model with random weights",
            "similarities of sparse or masked lists are high for unrelated scores",
        ),
        Difference(
            "partners",
            "the number of partners per token, layer and head is not known here",
            f"the {PARTNERS} strongest",
            "with five, most tokens of a window are partners of each other, and counts show only how often words occur",
        ),
    ]


LONGFORMER = Study(
    name="longformer",
    title="Attention and attribution in a Longformer",
    paper="Hou 2022, Attention and attribution in Longformer classifiers of long documents, project report (COGS 402)",
    question="In a fine-tuned Longformer, do the words that receive attention also get the credit for the prediction?",
    claims=(
        Claim(
            "accurate classifier",
            "A Longformer fine-tuned on long documents classifies them well.",
            "Confirmed if accuracy minus the share of the largest class has its 95 % interval above 0.",
        ),
        Claim(
            "attention agrees with attribution",
            "Words that receive more attention get more attribution.",
            "Confirmed if Kendall's tau minus its chance level has its 95 % interval above 0. Artefact if the same "
            "model with random weights has it above 0 too and the two intervals overlap.",
        ),
        Claim(
            "masking raises similarity",
            "Once stop words and symbols are masked, attention and attribution are far more similar.",
            "Judged on the published form (masked words set to 0): confirmed if Kendall's tau minus that of all words "
            "has its 95 % interval above 0. Artefact if shuffled attribution reaches 80 % of that difference; this "
            "bound is set here.",
        ),
        Claim(
            "head importance helps",
            "Weighting heads by their importance brings attention closer to attribution.",
            "Confirmed if the paired difference of tau, scaled minus unscaled, has its 95 % interval above 0 for the "
            "last and for all layers. The weaker of the two is shown.",
        ),
    ),
    data={"papers": "long documents with labels"},
    models={"classifier": "classifier of long documents", "base": "model that is fine-tuned if no classifier is given"},
    sizes={
        "tiny": {
            "documents": 4,
            "tested": 8,
            "tokens": 96,
            "steps": 4,
            "control": 4,
            "importance": 2,
            "training": 8,
            "epochs": 1,
        },
        "small": {
            "documents": 24,
            "tested": 200,
            "tokens": 768,
            "steps": 12,
            "control": 24,
            "importance": 8,
            "training": 100,
            "epochs": 2,
        },
        "paper": {
            "documents": 170,
            "tested": 2000,
            "tokens": 4096,
            "steps": 50,
            "control": 170,
            "importance": 50,
            "training": 700,
            "epochs": 4,
        },
    },
    paper_size=PaperSize(
        data={"papers": HubData("hf://danielhou13/cogs402dataset")},
        models={"base": "allenai/longformer-base-4096"},
        hours=20,
        gigabytes=3,
    ),
    run=run,
)
