"""Study of attention and attribution in a Longformer: do the tokens that receive attention also get the credit?

A classifier of long documents is inspected document by document: attention received, averaged over the heads of the
last or of all layers, with and without head importance as weights, against integrated gradients; on all tokens, and in
the published way, with masked tokens set to 0. Every similarity stands beside that of shuffled attribution (chance) and
that of the same model with random weights (control). The same is done with the twelve mock clinical notes, on which a
model of its own is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sightline_studies.accuracy import has_learnt
from sightline_studies.data import DataSet
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
    NOTES,
    TOP,
    choose_notes,
    choose_subject,
    describe_training,
    measure_control,
    measure_importance,
    measure_inside,
    measure_performance,
    random_twin,
)
from sightline_studies.longformer_tables import (
    LAYERS,
    MISPRINT,
    MODES,
    PAPERS,
    Entries,
    Result,
    accuracy_table,
    common_table,
    gain_table,
    partner_table,
    similarity_table,
    similarity_values,
    token_table,
    values_of,
    word_table,
)
from sightline_studies.study import (
    Curve,
    Curves,
    Dots,
    Figure,
    HeadMap,
    HubData,
    Outcome,
    PaperSize,
    Setting,
    Study,
    by_size,
)
from sightline_studies.tables import published
from sightline_studies.verdicts import Accuracy, Case, Claim, Finding, Measured
from sightline_studies.workbench import Subject, Workbench

CLAIMS = (
    Claim(
        "accurate classifier",
        "A Longformer fine-tuned on long documents classifies them well.",
        "accuracy; the claim is that it is above always naming the largest class",
        "Section 5.1",
    ),
    Claim(
        "attention agrees with attribution",
        "Tokens that receive more attention get more attribution.",
        "Kendall's tau of all tokens, unscaled",
        "Tables 1, 3",
    ),
    Claim(
        "masking raises similarity",
        "Once stop words and symbols are masked, attention and attribution are far more similar.",
        "Kendall's tau with masked tokens set to 0 minus that of all tokens, unscaled",
        "Tables 1, 3",
    ),
    Claim(
        "head importance helps in layer 12",
        "In the last layer, weighting heads by their importance brings attention closer to attribution.",
        "Kendall's tau of all tokens in the last layer, scaled minus unscaled",
        "Table 1",
    ),
    Claim(
        "the same words, not the same places",
        "The words most attended and most attending are largely the same; their positions are not.",
        f"entries common to the {TOP} most attended and the {TOP} most attending, by type minus by position",
        "Figs. 7, 14",
    ),
)


def _measure(bench: Workbench, data: DataSet, subject: Subject, name: str) -> Result:
    """Return performance, and documents inspected with trained and with random weights."""
    explained = data.test[: bench.number("documents")]
    tested = measure_performance(bench, subject, data)
    importance = measure_importance(bench, subject, explained[: bench.number("importance")], name)
    trained = measure_inside(bench, subject, explained, importance, name)
    few = explained[: bench.number("control")]
    control = measure_control(bench, random_twin(bench, subject), few, importance, name)
    reason = why_not_tested(tested, trained[0]["classes"])
    accuracy = Accuracy.of(tested)
    # Twelve notes, which were trained on, are too few for an interval above the larger class.
    learnt = accuracy.measured.value > accuracy.majority if name == NOTES else has_learnt(tested)
    aside = "" if reason or learnt else "has not learnt its task"
    return Result(data, subject, [] if reason else tested, trained, control, importance, aside)


def why_not_tested(tested: Entries, classes: Sequence[str]) -> str:
    """Return a sentence if labels say nothing about the model, else an empty text."""
    if not tested:
        return "Accuracy: the documents have no labels."
    labels = {str(entry["label"]) for entry in tested}
    return "Accuracy: the labels are no classes of the model." if labels.isdisjoint(classes) else ""


def run(bench: Workbench) -> Outcome:
    """Measure performance, and inspect documents with the trained and with random weights."""
    seed = bench.seed
    data, subject = choose_subject(bench)
    results = {PAPERS: _measure(bench, data, subject, PAPERS)}
    left_out = ["The report's papers: give them as --data papers=FILE."] if data.generated else []
    notes = choose_notes(bench)
    if notes is None:
        left_out.append(f"The clinical notes: need --data {NOTES}=FILE.")
    else:
        results[NOTES] = _measure(bench, *notes, NOTES)
    papers = results[PAPERS]
    example = measure_example(bench, subject, data.test[0])
    average = measure_average_maps(bench, subject, data.test[: bench.number("documents")])
    true_label = None if data.test[0].label is None or not papers.tested else str(papers.tested[0]["label"])
    tables = [
        *(similarity_table(name, result, seed) for name, result in results.items()),
        gain_table(papers, seed),
        common_table(results, seed),
        *(token_table(name, result, seed) for name, result in results.items()),
        *(word_table(name, result, seed) for name, result in results.items()),
        *(accuracy_table(results) if any(result.tested for result in results.values()) else []),
        partner_table(papers.trained),
        *example_tables(example),
    ]
    figures = [
        Figure("heads", "Importance of the heads", HeadMap(papers.importance), "Scaled to the range from 0 to 1."),
        *map_figures(example, average, papers.importance),
        Figure(
            "similarity",
            "Kendall's tau between attention and attribution",
            _similarity_dots(papers.trained, seed),
            "Dots: mean over documents with its 95 % interval. Grey: shuffled attribution.",
        ),
        *overlay_figures(example, true_label),
        *instance_figures(example),
        *_received_figures(papers.trained, seed),
    ]
    return Outcome(tables, figures, _findings(results, seed), _settings(bench, results), left_out)


def _above(entries: Entries, mode: str, layers: str, seed: int, *, scaled: bool = False) -> Measured:
    return Measured.of(values_of(similarity_values(entries, mode, "kendall", layers, scaled)), seed)


def _tau(data: str, layers: str, **where: str) -> float:
    return published("longformer_similarity", "kendall", data=data, attention_layer=layers, **where)[0]


def _difference(entries: Entries, settings: Sequence[tuple[str, str, bool]], place: int, seed: int) -> Measured:
    """Return tau in the first setting minus tau in the second, paired by document; place 1: of shuffled scores."""
    first, second = (similarity_values(entries, mode, "kendall", layers, scaled) for mode, layers, scaled in settings)
    return Measured.of([first[key][place] - second[key][place] for key in first if key in second], seed)


def _findings(results: Mapping[str, Result], seed: int) -> list[Finding]:
    papers = results[PAPERS]
    agreement, masking, common = [], [], []
    for name, result in results.items():
        for printed_layers, layers in LAYERS.items():
            where = {"data": name, "layers": printed_layers, "scaled": "no"}
            unmasked, masked = (_tau(**where, masked=masked) for masked in ("no", "yes"))
            title = f"{name.replace('_', ' ')}, layers: {layers}"
            agreement.append(
                Case(
                    title,
                    _above(result.trained, "unmasked", layers, seed),
                    (unmasked,),
                    _above(result.control, "unmasked", layers, seed),
                    set_aside=result.aside,
                )
            )
            settings = (("zeroed", layers, False), ("unmasked", layers, False))
            gain, chance = (_difference(result.trained, settings, place, seed) for place in (0, 1))
            masking.append(Case(title, gain, (round(masked - unmasked, 3),), chance, set_aside=result.aside))
        by = {kind: [entry["common"][kind] for entry in result.trained] for kind in ("type", "position")}
        prefix = "" if name == PAPERS else "notes_"
        facts = [published("longformer_facts", "value", name=f"{prefix}intersection_by_{kind}_of_10")[0] for kind in by]
        common.append(
            Case(
                name.replace("_", " "),
                Measured.paired(by["type"], by["position"], seed=seed),
                (facts[0] - facts[1],),
                set_aside=result.aside,
            )
        )
    scaling = _difference(papers.trained, (("unmasked", "last", True), ("unmasked", "last", False)), 0, seed)
    gains = [_tau(PAPERS, "12", scaled=scaled, masked="no") for scaled in ("yes", "no")]
    accuracies = [
        Case(
            name,
            (accuracy := Accuracy.of(result.tested)).measured,
            published("longformer_facts", "value", name="validation_accuracy") if name == PAPERS else (),
            bound=accuracy.majority,
            set_aside="the notes that it was trained on" if name == NOTES else "",
        )
        for name, result in results.items()
        if result.tested
    ]
    return [
        Finding(CLAIMS[0], accuracies, "" if accuracies else why_not_tested([], [])),
        Finding(CLAIMS[1], agreement, "The control is the same model with random weights. " + MISPRINT),
        Finding(
            CLAIMS[2], masking, "The control is shuffled attribution: zeros in both lists agree, whatever is there."
        ),
        Finding(
            CLAIMS[3],
            [Case(PAPERS, scaling, (round(gains[0] - gains[1], 3),), set_aside=papers.aside)],
            "With 0.259 for the misprinted cosine, the report's cosine falls by scaling (0.227).",
        ),
        Finding(CLAIMS[4], common, "The report counts one document; ours is the mean over documents."),
    ]


def _similarity_dots(trained: Entries, seed: int) -> Dots:
    panels: dict[str, list[tuple[str, Measured, float]]] = {}
    for mode in MODES.values():
        for layers in LAYERS.values():
            for scaled in (False, True):
                pairs = similarity_values(trained, mode, "kendall", layers, scaled)
                group = f"{layers}, {'scaled' if scaled else 'unscaled'}"
                chance = float(np.mean(values_of(pairs, 1))) if pairs else float("nan")
                panels.setdefault(mode, []).append((group, Measured.of(values_of(pairs), seed), chance))
    return Dots(panels)


def _received_figures(trained: Entries, seed: int) -> list[Figure]:
    """Return attention received along the document; nothing if all documents are too short."""
    received = np.array([entry["received"] for entry in trained if len(entry["received"]) == BINS])
    if not len(received):
        return []
    curve = Curve.of("received", [Measured.of(column, seed) for column in received.T])
    places = [f"{100 * place // BINS}%" for place in range(BINS)]
    return [
        Figure(
            "places",
            "Attention received along the document",
            Curves(places, [curve], "position in the document", "attention per token, 1 on average"),
            "Mean over layers, heads and documents. The first part holds the global token.",
        )
    ]


def _settings(bench: Workbench, results: Mapping[str, Result]) -> list[Setting]:
    papers, notes = results[PAPERS], results.get(NOTES)
    facts = {name: published("longformer_facts", "value", name=name)[0] for name in ("papers_documents", "max_tokens")}
    return [
        Setting(
            "papers",
            f"{facts['papers_documents']:,.0f}, of which 1,070 validate",
            "the same",
            f"{bench.number('documents'):,} explained, {len(papers.tested):,} tested ({papers.data.origin})",
            "two cores",
        ),
        Setting(
            "clinical notes",
            "12, trained on and explained",
            "the same",
            "left out" if notes is None else f"{len(notes.trained)}, trained on and explained",
        ),
        Setting(
            "tokens per document", f"{facts['max_tokens']:,.0f}", "the same", f"{bench.number('tokens'):,}", "two cores"
        ),
        Setting(
            "model",
            "longformer-base-4096: 12 layers, 12 heads, window 512",
            "the same",
            papers.subject.name,
            "models at hand",
        ),
        Setting(
            "training",
            f"2 epochs, {describe_training('paper')}",
            "the same",
            f"{bench.number('epochs')} epochs, {describe_training(bench.size)} where a model is trained",
            "fewer documents",
        ),
        Setting("tokens", "byte-pair encoding", "the same", "those of the model's tokenizer"),
        Setting(
            "integrated gradients",
            "50 steps over the data set",
            "50 nodes",
            f"{bench.number('steps')} nodes",
            "two cores",
            "Gauss-Legendre, the same integral",
        ),
        Setting("RBO", "p = 1", "the same", "average overlap, which it is"),
    ]


LONGFORMER = Study(
    name="longformer",
    title="Exploration of visualizations for interpreting Longformer model's predictions",
    paper="Hou 2022, Exploration of Visualizations for Interpreting Longformer Model's Predictions, project report "
    "(COGS 402)",
    question="In a fine-tuned Longformer, do the words that receive attention also get the credit for the prediction?",
    claims=CLAIMS,
    data={PAPERS: "long documents with labels", NOTES: "mock clinical notes, on which a model of its own is trained"},
    models={"classifier": "classifier of long documents", "base": "model that is fine-tuned if no classifier is given"},
    sizes=by_size(
        documents=(6, 24, 1070),
        notes=(6, 12, 12),
        note_epochs=(1, 8, 8),
        tested=(8, 200, 1070),
        tokens=(96, 768, 2048),
        steps=(4, 12, 50),
        control=(6, 24, 200),
        importance=(2, 8, 50),
        training=(8, 100, 4280),
        epochs=(1, 2, 2),
    ),
    paper_size=PaperSize(
        data={"papers": HubData("hf://danielhou13/cogs402dataset")},
        models={"base": "allenai/longformer-base-4096"},
        hours=60,
        gigabytes=3,
        not_on_hub=(NOTES,),
    ),
    cannot_judge={
        "tiny": "Too few and too short documents for any claim.",
        "small": "Documents are cut after 768 tokens, and another, smaller model is explained, so that the size of a "
        "similarity cannot be compared; twelve notes that were trained on say nothing about other notes.",
    },
    run=run,
)
