"""What the AttCAT study measures: faithfulness and confidence in both definitions, retrieval, one document by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sightline.evaluation import evaluate
from sightline.evaluation.subject import TargetChoice, choose_target, context_segment, encode_example
from sightline.metrics import precision_at_k, spans_of, tokens_in_characters
from sightline.metrics.plausibility import count_at_k
from sightline.results.explanation_storage import to_record
from sightline.settings.names import MethodName, MetricName
from sightline.text import Example
from sightline_studies.data import DataSet, describe_rows
from sightline_studies.workbench import Subject, Workbench

METHODS: tuple[MethodName, ...] = (
    "raw_attention",
    "rollout",
    "grads",
    "attgrads",
    "partial_lrp",
    "transatt",
    "cat",
    "attcat",
    "random",
)
OWN: Final = "attcat"
OTHERS = tuple(name for name in METHODS if name not in ("attcat", "random"))
TOP = (5, 20)
"""k of Precision@K: the paper's 20, and 5 for sentences that have hardly more tokens."""
FAITHFULNESS: tuple[MetricName, ...] = ("aopc", "log_odds")
CONFIDENCE: tuple[MetricName, ...] = ("confidence", "confidence_published")
"""tau-b between the scores of the classes, and the printed correlation of the lists of token positions."""
OUTPUTS: Mapping[str, Any] = {"cat": {"hidden": "output"}, "attcat": {"hidden": "output"}}
"""Eqs. 9-12 weight the output of every layer, where Sightline takes its input unless told otherwise."""
Values = dict[str, dict[str, float]]
"""Method -> document -> value."""


def measure_methods(
    bench: Workbench, subject: Subject, data: DataSet, published: bool
) -> dict[str, tuple[Values, Values]]:
    """Return values and floors of every metric: metric -> (values, floors), each method -> document -> number.

    published: AOPC and log-odds as the published program computes them. Both forms of confidence have a name of their
    own (`confidence_published`) and are measured together.
    """
    metrics = FAITHFULNESS if published else (*FAITHFULNESS, *CONFIDENCE)
    options: dict[str, Any] = {"quantity": "logit", **OUTPUTS}
    if published:
        options |= {"compat": "attcat", "target": "label"}

    def measure(part: Sequence[Example]) -> Iterator[list[list[Any]]]:
        done = evaluate(
            subject.model, part, METHODS, metrics, reference_order=False, seed=bench.seed, random_orderings=5, **options
        )
        if not done.complete:
            raise KeyboardInterrupt
        for example in part:
            records = [record for record in done.records if record.document == example.id]
            yield [[record.method, record.metric, record.value, record.floor] for record in records]

    identity = {
        "model": subject.identity,
        "methods": METHODS,
        "metrics": metrics,
        "published": published,
        "options": OUTPUTS,
    }
    name = f"{'published' if published else 'faithfulness'}-{data.name}"
    parts = bench.measure_documents(name, identity, data.test, measure)
    results: dict[str, tuple[Values, Values]] = {metric: ({}, {}) for metric in metrics}
    for number, records in enumerate(parts):
        for method, metric, value, floor in records:
            for place, entry in enumerate((value, floor)):
                if entry is not None:
                    results[metric][place].setdefault(method, {})[str(number)] = entry
    return results


def find_answers(bench: Workbench, subject: Subject, data: DataSet) -> list[dict[str, Any]]:
    """Return one entry per document of whose answer the model reads a token: hits and shares by method and k.

    Models that answer questions are explained for the true answer, as in the paper, others for their prediction.
    """
    marked = [example for example in data.test if example.answer]

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        for example in part:
            model = subject.model
            encoding = encode_example(model, example)
            answer = tokens_in_characters(
                encoding.offsets,
                example.answer or (),
                segments=encoding.segments,
                segment=context_segment(model, encoding),
            )
            spans, keep = spans_of(answer), ~encoding.special
            entry: dict[str, Any] = {"chance": float(answer[keep].mean())}
            if not len(spans):
                yield entry
                continue
            choice: TargetChoice = "label" if model.task == "question_answering" else "predicted"
            target = choose_target(model, example, encoding, choice, {})
            explanations = model.explain(
                encoding, methods=METHODS, target=target, quantity="logit", random={"seed": bench.seed}, **OUTPUTS
            )
            for name, explanation in explanations.items():
                scores = explanation.scores
                for k in TOP:
                    entry[f"{name} precision {k}"] = precision_at_k(scores, spans, k=k, keep=keep)
                    entry[f"{name} count {k}"] = count_at_k(scores, spans, k=k, keep=keep)
            yield entry

    identity = {"model": subject.identity, "methods": METHODS, "top": TOP, "options": OUTPUTS}
    name = f"precision-{data.name.replace('_', '-')}"
    return [entry for entry in bench.measure_documents(name, identity, marked, measure) if entry["chance"]]


def explain_by_layer(bench: Workbench, subject: Subject, data: DataSet) -> dict[str, Any]:
    """Return tokens and scores by layer of a short document, for the heat map, and every method's scores for it."""
    example = min(data.test[:20], key=lambda row: abs(len(str(row.text)) - 90))

    def explain() -> dict[str, Any]:
        methods = [name for name in METHODS if name != "random"]
        explained = subject.model.explain(
            encode_example(subject.model, example), methods=methods, quantity="logit", **OUTPUTS
        )
        explanation = explained[OWN]
        return {
            "texts": {name: to_record(scores) for name, scores in explained.items()},
            "tokens": explanation.tokens,
            "layers": explanation.layers,
            "rollout": explained["rollout"].layers,
            "special": explanation.encoding.special,
            "target": explanation.target.name,
        }

    result: dict[str, Any] = bench.step(
        "heat-map",
        {
            "model": subject.identity,
            "example": [str(example.text), example.pair],
            "methods": METHODS,
            "options": OUTPUTS,
        },
        explain,
    )
    return result


def explain_answer(bench: Workbench, subject: Subject, data: DataSet) -> dict[str, Any]:
    """Return the tokens of a short question and its text, which of them answer it, and scores of some methods."""
    marked = [row for row in data.test if row.answer]
    example = min(marked[:20], key=lambda row: len(str(row.text)))

    def explain() -> dict[str, Any]:
        model = subject.model
        encoding = encode_example(model, example)
        answer = tokens_in_characters(
            encoding.offsets, example.answer or (), segments=encoding.segments, segment=context_segment(model, encoding)
        )
        target = choose_target(model, example, encoding, "label", {}) if model.task == "question_answering" else None
        names: list[MethodName] = [OWN, "rollout", "transatt"]
        explained = model.explain(encoding, methods=names, target=target, quantity="logit", attcat=OUTPUTS["attcat"])
        scores = {name: explanation.scores for name, explanation in explained.items()}
        return {"token": encoding.tokens, "answer": ["yes" if inside else "no" for inside in answer], **scores}

    identity = {"model": subject.identity, "example": describe_rows([example]), "options": OUTPUTS}
    result: dict[str, Any] = bench.step("answer-example", identity, explain)
    return result
