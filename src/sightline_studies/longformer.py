"""Study of attention and attribution in a Longformer: do the words that receive attention also get the credit?

A classifier of long documents is inspected document by document: attention received, averaged over the heads of the
last or of all layers, with and without head importance as weights, against integrated gradients; on all words, on words
that are no stop words, and in the published way, with masked words set to 0. Every similarity stands beside the
similarity of shuffled attribution (chance) and that of the same model with random weights (control).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline_studies.accuracy import has_learnt
from sightline_studies.data import DataSet
from sightline_studies.longformer_claims import CLAIMS, judge_accuracy, judge_agreement, judge_masking, judge_scaling
from sightline_studies.longformer_example import (
    example_tables,
    instance_figures,
    map_figures,
    measure_average_maps,
    measure_example,
    overlay_figures,
)
from sightline_studies.longformer_steps import (
    BINS,
    MASK,
    PARTNERS,
    choose_subject,
    measure_control,
    measure_importance,
    measure_inside,
    measure_performance,
    random_twin,
    word_tables,
)
from sightline_studies.longformer_tables import (
    MODES,
    Entries,
    mean_chance,
    partner_table,
    performance_tables,
    similarity_tables,
    similarity_values,
)
from sightline_studies.study import (
    Curve,
    Curves,
    Difference,
    Dots,
    Figure,
    HeadMap,
    HubData,
    Measured,
    Outcome,
    PaperSize,
    Study,
    not_judged,
)
from sightline_studies.workbench import Subject, Workbench


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
        judge_agreement(trained, control, seed),
        judge_masking(trained, seed),
        judge_scaling(trained, seed),
    ]
    if not reason and not has_learnt(tested):
        findings = [not_judged(finding, [subject.name]) for finding in findings]
    findings = [judge_accuracy(tested, reason), *findings]
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
    claims=CLAIMS,
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
