"""An evaluation in sentences: which method is best, which are not clearly worse or not clearly better than chance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial

from sightline.evaluation.planted import HELD_OUT, PlantedResult
from sightline.evaluation.ranking import Ranking, chance_of_agreement
from sightline.evaluation.result import MODEL, Record
from sightline.evaluation.sanity import SanityResult
from sightline.metrics import METRICS
from sightline.metrics.registry import RANDOM_ORDERS
from sightline.metrics.statistics import SIGNIFICANCE
from sightline.view.words.phrases import count, format_number, format_range, percent
from sightline.view.words.sentences import demonstration_notices

REFERENCE = (
    "One at a time: words in the order of their effects when each is removed alone, which is no upper limit. Methods "
    "can do better, because words also act together."
)
"""Explanation of the `reference` of an evaluation."""
ORDERS = (
    "Random orders follow random scores of the tokens, summed to words: words of many tokens come first more often, as "
    "they do with methods that score tokens."
)
"""Explanation of the floor of faithfulness."""
FEW_DOCUMENTS = 10
"""Fewer documents get a caveat."""


def chance_name(metric: str) -> str:
    """Return what the floor of a metric is made of: "random orders", "random scores", "shuffled scores" …"""
    return (METRICS.get(metric).chance or RANDOM_ORDERS).name


def table_legend(ranking: Ranking, metrics: Sequence[str]) -> list[str]:
    """Return what intervals, arrows and stars mean in a table of some metrics of one kind."""
    legend = ["Means with bootstrap 95 % intervals."]
    if any(METRICS.get(metric).higher_is_better is not None for metric in metrics):
        legend.append("↑ higher is better, ↓ lower is better.")
    if any(ranking.no_better_than_floor(metric) for metric in metrics):
        legend.append(f"* not clearly better than {chance_name(metrics[0])}.")
    if ranking.floors(metrics) and METRICS.get(metrics[0]).kind == "faithfulness":
        legend.append(ORDERS)
    if ranking.references(metrics):
        legend.append(REFERENCE)
    return legend


def opening_sentences(ranking: Ranking) -> list[str]:
    """Return one sentence on what was done, one on the outcome, and one with its numbers."""
    methods, documents = len(ranking.evaluation.methods), len(ranking.evaluation.documents)
    done = f"{count(methods, 'method')} explained {count(documents, 'document')}"
    faithful = ranking.faithful()
    standing = ranking.standing(faithful[0]) if faithful else None
    if standing is None:
        return [f"{done}. Faithfulness was not measured."]
    metric = faithful[0]
    wins = sum(ranking.ranked(name).iloc[0]["method"] == standing.best for name in faithful)
    outcome = [f"Most faithful is {standing.best}, best by {wins} of {count(len(faithful), 'metric')}"]
    if ranking.paired.get(metric) is not None:
        outcome += _describe_others(ranking, metric)
    if standing.weak:
        outcome.append(f"not clearly better than random orders: {', '.join(standing.weak)}")
    row = ranking.ranked(metric).iloc[0]
    mean, ends = format_number(row["mean"]), format_range(row["low"], row["high"])
    levels = {"random orders": ranking.floors([metric]), "one word at a time": ranking.references([metric])}
    references = [f", {name} {format_number(values[metric])}" for name, values in levels.items() if values]
    return [
        f"{done}. The words that a method ranks highest were removed: the more the probability of the prediction drops "
        "compared with random orders of the words, the more faithful the method.",
        f"{'; '.join(outcome)}."
        if standing.best_beats_chance
        else f"No method is clearly better than random orders; the best is {standing.best}.",
        f"By {metric}: {standing.best} {mean} ({ends}){''.join(references)}.",
    ]


def metric_sentences(ranking: Ranking, metric: str) -> list[str]:
    """Return which method is best by a metric, and where the others stand; nothing for metrics that only describe."""
    return [*best_sentences(ranking, metric), *weak_sentences(ranking, metric)]


def best_sentences(ranking: Ranking, metric: str) -> list[str]:
    """Return which method is best by a metric, and which are not clearly worse."""
    standing = ranking.standing(metric)
    if standing is None:
        return []
    row = ranking.ranked(metric).iloc[0]
    mean, ends = format_number(row["mean"]), format_range(row["low"], row["high"])
    sentences = [f"Best by {metric}: {standing.best}, {mean} ({ends})."]
    if not standing.best_beats_chance:
        sentences.append(f"It is not clearly better than {chance_name(metric)}.")
    if metric in ranking.paired:
        others = _describe_others(ranking, metric)
        sentences += [f"{part[:1].upper()}{part[1:]}." for part in others]
        if not others:
            sentences.append("It is clearly better than every other method.")
    return sentences


def weak_sentences(ranking: Ranking, metric: str) -> list[str]:
    """Return which methods are clearly worse than the best and not clearly better than chance."""
    standing = ranking.standing(metric)
    if standing is None or not standing.weak:
        return []
    return [f"Not clearly better than {chance_name(metric)}: {', '.join(standing.weak)}."]


def _describe_others(ranking: Ranking, metric: str) -> list[str]:
    """Return clauses on the methods that the paired test cannot tell from the best one."""
    standing = ranking.standing(metric)
    assert standing is not None
    equal = len(standing.close) + len(standing.undecided)
    clauses = []
    needed = ranking.documents_needed(metric)
    few = "" if needed is None else f" (with this many methods, fewer than {needed} documents cannot show it)"
    if equal > 2 and equal == len(ranking.ranked(metric)) - 1 and not standing.undecided:
        clauses.append(f"none of the others is clearly worse{few}")
    elif standing.close:
        clauses.append(f"not clearly worse{few}: {', '.join(standing.close)}")
    if standing.undecided:
        clauses.append(
            f"not clearly worse, but not clearly better than {chance_name(metric)} either: "
            f"{', '.join(standing.undecided)}"
        )
    return clauses


def state_sentences(ranking: Ranking) -> list[str]:
    """Return what was measured, what failed and what was left out."""
    evaluation = ranking.evaluation
    failed = [record for record in evaluation.records if record.status == "failed" and record.method != MODEL]
    missing = [record for record in evaluation.records if record.status == "missing"]
    documents = len(evaluation.documents)
    sentences = [
        f"Measured {count(len(evaluation.methods), 'method')} by {count(len(evaluation.metrics), 'metric')} on "
        f"{count(documents, 'document')} in {count(math.ceil(evaluation.seconds), 'second')}.",
        *demonstration_notices(evaluation.provenance),
    ]
    if not evaluation.complete:
        sentences.append("The run was stopped early: only the documents that were finished are included.")
    if documents == 1:
        sentences.append("One document says nothing about others: there are no intervals.")
    elif (chance := chance_of_agreement(documents)) >= SIGNIFICANCE:
        sentences.append(
            f"{documents} documents cannot tell methods apart: all of them favour the same one of two equal methods in "
            f"{percent(chance)} of all cases. Read the means as a description of these documents."
        )
    elif documents < FEW_DOCUMENTS:
        sentences.append(f"{documents} documents are few: intervals are rough, and real differences may not show.")
    if evaluation.calls_requested:
        sentences.append(
            f"The measurements requested {evaluation.calls_requested:,} perturbed documents; the model read "
            f"{evaluation.calls_made:,}, because each distinct one runs once."
        )
    if failed:
        explanations = count(len({(record.document, record.method) for record in failed}), "explanation")
        places = count(len({record.document for record in failed}), "document")
        sentences.append(f"{explanations} of {places} failed; the others are unaffected. {_commonest(failed)}")
    if missing:
        sentences.append(f"Left out of the means: {count(len(missing), 'value')}. {_commonest(missing)}")
    reasons: dict[str, list[str]] = {}
    for name, reason in evaluation.skipped.items():
        reasons.setdefault(reason, []).append(name)
    return sentences + [f"Left out: {', '.join(names)}. {reason}" for reason, names in reasons.items()]


def _commonest(records: Sequence[Record]) -> str:
    """Return the most frequent reason of some records, with the first document that has it."""
    ((reason, times),) = Counter(record.error for record in records).most_common(1)
    first = next(record.document for record in records if record.error == reason)
    share = "Reason" if times == len(records) else "Most frequent reason"
    return f"{share} (first in document {first}): {reason}"


def sanity_sentences(result: SanityResult) -> list[str]:
    """Return for each method whether its explanations depend on what the model has learnt."""
    last = result.summary().set_index(["method", "stage"])
    what = "every weight is random" if result.test.startswith("weight") else "the labels were learnt in random order"
    sentences = []
    for method, verdict in result.verdicts().items():
        row = last.loc[(method, result.stages[-1])]
        write = partial(format_number, form=".2f")
        interval = format_range(row["low"], row["high"], write, named=True)
        chance = format_range(row["chance_low"], row["chance_high"], write)
        figures = f"similarity {write(row['similarity'])}, {interval}, by chance {chance}"
        sentences.append(
            {
                "unknown": f"{method}: no document could be compared.",
                "unchanged": f"{method} does not change when {what} ({figures}): it does not show what the model has "
                "learnt, and cannot explain its decisions.",
                "partly": f"{method} keeps part of its ranking when {what} ({figures}): that part comes from the text "
                "or the architecture, not from training.",
                "changed": f"{method} changes as it should when {what} ({figures}).",
                "not shown": f"{method} is not shown to change when {what} ({figures}): test more or longer documents.",
            }[verdict]
        )
    return sentences


def planted_sentences(result: PlantedResult) -> list[str]:
    """Return how well the model knows the task, then what each method finds, best first."""
    planted = result.planted
    learnt = "has learnt" if planted.learnt else "has NOT learnt"
    sentences = [
        f"The model {learnt} the task: {percent(planted.accuracy)} right on {HELD_OUT} new documents, where the best "
        f"possible answers are {percent(planted.attainable)} right. Removing the planted words changes the prediction "
        f"for {percent(planted.decisive)} of {len(planted.documents)} documents."
    ]
    if not planted.learnt:
        sentences.append("So the planted words are not a known truth here: train for more steps before reading on.")
    for row in result.summary().sort_values("precision", ascending=False, kind="stable").itertuples():
        verdict = "" if row.precision >= 0.5 else ": it misses most of them, but finds more than chance would"
        verdict = verdict if row.better_than_chance else ": no better than chance"
        sentences.append(
            f"{row.method} ranks {percent(row.precision)} of the planted words first "
            f"({format_range(row.low, row.high, percent, named=True)}, chance {percent(row.chance)}){verdict}."
        )
    return sentences
