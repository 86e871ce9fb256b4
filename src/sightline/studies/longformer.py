"""Study of attention and attribution in a Longformer: do the words that receive attention also get the credit?

A classifier of long documents is inspected document by document: attention received, averaged over the heads of the
last or of all layers, with and without head importance as weights, against integrated gradients; on all words, on words
that are no stop words, and in the published way, with masked words set to 0. Every similarity stands beside the
similarity of shuffled attribution (chance) and that of the same model with random weights (control).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.explanation import Explanation
from sightline.storage import from_record
from sightline.studies.data import DataSet
from sightline.studies.longformer_steps import (
    PARTNERS,
    choose_subject,
    explain_one,
    measure_importance,
    measure_similarity,
    random_twin,
)
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
    Overlay,
    PaperSize,
    Study,
    StudyTable,
    Verdict,
    in_words,
    judge,
)
from sightline.studies.workbench import Subject, Workbench

if TYPE_CHECKING:
    import pandas as pd

STATISTICS = ("cosine_normalised", "kendall", "average_overlap", "jaccard")
"""What the published tables show; their "RBO" with p = 1 is the average overlap."""
MODES = {"unmasked": "all words", "dropped": "masked words left out", "zeroed": "masked words set to 0, as published"}
MOSTLY_CHANCE = 0.8
"""A similarity of which chance alone gives this share says little about the model."""
Entries = Sequence[dict[str, Any]]


def _values(
    entries: Entries, mode: str, statistic: str, layers: str = "all", scaled: bool = False
) -> list[list[float]]:
    """Return [value, chance] of every document in one setting."""
    return [
        row[statistic]
        for entry in entries
        for row in entry["similarity"]
        if (row["mode"], row["layers"], row["scaled"]) == (mode, layers, scaled) and statistic in row
    ]


def _above_chance(entries: Entries, mode: str, statistic: str, seed: int, **setting: Any) -> Measured:
    return Measured.of([value - chance for value, chance in _values(entries, mode, statistic, **setting)], seed)


def _mean(pairs: Sequence[Sequence[float]], place: int) -> float:
    return float(np.mean([pair[place] for pair in pairs])) if pairs else float("nan")


def _similarity_table(trained: Entries, control: Entries, mode: str, seed: int) -> pd.DataFrame:
    """Return one row per layers × heads × statistic: mean with interval, chance, random weights."""
    import pandas as pd

    rows = []
    for layers in ("last", "all"):
        for scaled in (False, True):
            for statistic in STATISTICS:
                pairs = _values(trained, mode, statistic, layers, scaled)
                measured = Measured.of([value for value, _ in pairs], seed)
                rows.append(
                    {
                        "layers": layers,
                        "heads": "scaled" if scaled else "unscaled",
                        "statistic": statistic,
                        "published": "not given here",
                        **measured.columns(),
                        "chance": _mean(pairs, 1),
                        "random_weights": _mean(_values(control, mode, statistic, layers, scaled), 0),
                        "documents": measured.documents,
                    }
                )
    return pd.DataFrame(rows)


def _word_table(entries: Entries, seed: int) -> pd.DataFrame:
    """Return the ten words for and the ten against class 1: s(w) = sum of scores per document over all documents."""
    import pandas as pd

    scores: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for number, entry in enumerate(entries):
        for word, score in entry["words"]:
            scores[word][number] = score
    rows: list[dict[str, Any]] = [
        {
            "word": word,
            **Measured.of([held.get(n, 0.0) for n in range(len(entries))], seed).columns(),
            "documents": len(held),
        }
        for word, held in scores.items()
    ]
    ranked = sorted(rows, key=lambda row: -row["mean"])
    return pd.DataFrame([*ranked[:10], *[row for row in ranked[10:] if row["mean"] < 0][-10:]])


def _partner_table(entries: Entries) -> pd.DataFrame:
    """Return the words most often attended and attending, by mean count per document."""
    import pandas as pd

    columns: dict[str, list[Any]] = {}
    for direction in ("attended", "attending"):
        total: defaultdict[str, float] = defaultdict(float)
        for entry in entries:
            for word, count in entry[direction]:
                total[word] += count / len(entries)
        best = sorted(total.items(), key=lambda pair: -pair[1])[:10]
        best += [("", float("nan"))] * (10 - len(best))
        columns |= {direction: [word for word, _ in best], f"{direction}_count": [count for _, count in best]}
    return pd.DataFrame(columns)


def _judge_accuracy(entries: Entries, subject: Subject, seed: int) -> Finding:
    claim = LONGFORMER.claim("accurate classifier")
    known = [entry for entry in entries if isinstance(entry["label"], int)]
    if not known:
        return Finding(claim, "not measured", "The documents have no labels by number.")
    accuracy = Accuracy.of(known, seed)
    return Finding(claim, judge(accuracy.gain), accuracy.in_words(), measured=accuracy.measured)


def _judge_agreement(trained: Entries, control: Entries, seed: int) -> Finding:
    claim = LONGFORMER.claim("attention agrees with attribution")
    effect = _above_chance(trained, "unmasked", "kendall", seed)
    other = _above_chance(control, "unmasked", "kendall", seed)
    evidence = (
        f"Kendall's tau of all words, all layers, minus its chance level: {in_words(effect)}. With random weights: "
        f"{in_words(other)}."
    )
    return Finding(claim, judge(effect, other), evidence, measured=effect, control=other)


def _judge_masking(trained: Entries, seed: int) -> Finding:
    claim = LONGFORMER.claim("masked lists agree")
    pairs = _values(trained, "zeroed", "kendall")
    measured, chance = (
        Measured.of([value for value, _ in pairs], seed),
        Measured.of([level for _, level in pairs], seed),
    )
    dropped = _above_chance(trained, "dropped", "kendall", seed)
    if not measured.documents:
        return Finding(claim, "not measured", "No document has words left after masking.")
    verdict: Verdict = judge(measured)
    if verdict == "confirmed" and chance.value >= MOSTLY_CHANCE * measured.value:
        verdict = "artefact"
    evidence = (
        f"With masked words set to 0 in both lists, Kendall's tau is {in_words(measured)}; unrelated scores give "
        f"{in_words(chance)}. With masked words left out, tau minus chance is {in_words(dropped)}."
    )
    return Finding(claim, verdict, evidence, measured=measured, control=chance)


def _judge_scaling(trained: Entries, seed: int) -> Finding:
    claim = LONGFORMER.claim("head importance helps")
    plain = _values(trained, "unmasked", "kendall", "last", False)
    scaled = _values(trained, "unmasked", "kendall", "last", True)
    gain = Measured.of([first[0] - second[0] for first, second in zip(scaled, plain, strict=True)], seed)
    return Finding(
        claim, judge(gain), f"Tau of the last layer, scaled minus unscaled: {in_words(gain)}.", measured=gain
    )


def _dots(trained: Entries, seed: int) -> Dots:
    panels: dict[str, list[tuple[str, Measured, float]]] = {}
    for mode, title in MODES.items():
        rows = []
        for layers in ("last", "all"):
            for scaled in (False, True):
                pairs = _values(trained, mode, "kendall", layers, scaled)
                group = f"{layers}, {'scaled' if scaled else 'unscaled'}"
                rows.append((group, Measured.of([value for value, _ in pairs], seed), _mean(pairs, 1)))
        panels[title] = rows
    return Dots(panels)


def run(bench: Workbench) -> Outcome:
    """Inspect every document with the trained and with random weights."""
    data, subject = choose_subject(bench)
    seed = bench.seed
    importance = measure_importance(bench, subject, data.test[: bench.number("importance")])
    trained = measure_similarity(bench, subject, data.test, importance, "documents")
    twin = random_twin(bench, subject)
    control = measure_similarity(bench, twin, data.test[: bench.number("control")], importance, "random-weights")
    overlay = Explanation(**from_record(explain_one(bench, subject, data.test[0])))
    received = np.array([entry["received"] for entry in trained if len(entry["received"]) == 20])
    tables = [
        *(
            StudyTable(
                f"similarity_{mode}",
                f"Attention against attribution: {title}",
                _similarity_table(trained, control, mode, seed),
                "chance: the same statistic for shuffled attribution. random weights: the same model with weights "
                "drawn anew, on fewer documents. layers: whose received attention is averaged; scaled: heads weighted "
                "by importance. average overlap is the published RBO with p = 1.",
            )
            for mode, title in MODES.items()
        ),
        StudyTable(
            "words",
            "Words with the largest attribution for and against class 1, over the data set",
            _word_table(trained, seed),
            "mean: sum of a word's scores per document, divided by all documents. Explanations of class 0 count "
            "negative. Stop words are left out; per document, the 40 strongest words are counted.",
        ),
        StudyTable(
            "partners",
            "Words most often attended and attending",
            _partner_table(trained),
            f"Mean count per document, {PARTNERS} partners per token, layer and head; each querying token counts once "
            "per instance of a word.",
        ),
    ]
    figures = [
        Figure("heads", "Importance of the heads", HeadMap(importance), "Taylor importance of every head, 0 to 1."),
        Figure(
            "similarity",
            "Kendall's tau between attention and attribution",
            _dots(trained, seed),
            "Dots: mean over documents with its 95 % interval. Grey: what unrelated scores give.",
        ),
        Figure(
            "overlay",
            f"Integrated gradients on the text, for the class {overlay.target.name}",
            Overlay(overlay),
            "The beginning of the first document.",
        ),
    ]
    if len(received):
        bands = [Measured.of(column, seed) for column in received.T]
        figures.append(
            Figure(
                "places",
                "Attention received along the document",
                Curves(
                    [f"{5 * place}%" for place in range(20)],
                    [Curve.of("received", bands)],
                    "place in the document",
                    "attention per token, 1 on average",
                ),
                "In twenty equal parts of the document: mean over layers, heads and documents, with the 95 % interval "
                "over documents.",
            )
        )
    findings = [
        _judge_accuracy(trained, subject, seed),
        _judge_agreement(trained, control, seed),
        _judge_masking(trained, seed),
        _judge_scaling(trained, seed),
    ]
    return Outcome(tables, figures, findings, _differences(bench, data, subject), _left_out(data))


def _left_out(data: DataSet) -> list[str]:
    parts = ["Hyperpartisan news and clinical notes, the report's other data: give them as --data papers=FILE."]
    return ["The report's papers: give them as --data papers=FILE.", *parts] if data.generated else parts


def _differences(bench: Workbench, data: DataSet, subject: Subject) -> list[Difference]:
    return [
        Difference(
            "data",
            "research papers on artificial intelligence and programming languages, at 2,048 tokens or more",
            f"{len(data.test):,} documents ({data.origin}), the first {bench.number('tokens'):,} tokens of each",
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
            "masked lists agree",
            "Once stop words and symbols are masked, attention and attribution are strongly similar.",
            "Judged on the published form (masked words set to 0). Artefact if unrelated scores reach 80 % of the "
            "measured tau.",
        ),
        Claim(
            "head importance helps",
            "Weighting heads by their importance brings attention closer to attribution.",
            "Confirmed if the paired difference of tau, scaled minus unscaled, has its 95 % interval above 0.",
        ),
    ),
    data={"papers": "long documents with labels"},
    models={"classifier": "classifier of long documents", "base": "model that is fine-tuned if no classifier is given"},
    sizes={
        "tiny": {"documents": 4, "tokens": 96, "steps": 4, "control": 4, "importance": 2, "training": 8, "epochs": 1},
        "small": {
            "documents": 24,
            "tokens": 768,
            "steps": 12,
            "control": 12,
            "importance": 8,
            "training": 100,
            "epochs": 2,
        },
        "paper": {
            "documents": 170,
            "tokens": 4096,
            "steps": 50,
            "control": 50,
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
