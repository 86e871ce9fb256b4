"""evaluate: which methods explain this model best on these documents, and are they better than chance?

Results for one document do not depend on the others or on their order: every random seed is derived from the given
seed, the document's id and the method. So short documents run in parallel, one per core (`workers`). An interrupted
run keeps the finished documents.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sightline.corpus import read_dataset
from sightline.errors import InputError
from sightline.evaluation.document import Assignment, DocumentResult, evaluate_document
from sightline.evaluation.result import Evaluation
from sightline.evaluation.subject import (
    TargetChoice,
    check_method_options,
    check_model,
    chosen_methods,
    chosen_metrics,
    each_document,
    has_gold,
    label_classes,
)
from sightline.methods import method_name
from sightline.metrics.measurement import RANDOM_ORDERINGS, FaithfulnessSettings
from sightline.metrics.plans import check_ratios
from sightline.models.target import Quantity, check_quantity
from sightline.passes.perturb import Replacement
from sightline.progress import Progress
from sightline.settings.evaluation import Compat
from sightline.settings.names import MethodName, MetricName
from sightline.settings.values import check_count, check_one_of
from sightline.text import Example
from sightline.text.units import LEVELS, Level

if TYPE_CHECKING:
    from sightline.api.model import Model


def evaluate(
    model: Model,
    dataset: str | Path | Iterable[Any],
    methods: MethodName | Literal["all"] | Sequence[MethodName] | None = None,
    metrics: MetricName | Literal["all"] | Sequence[MetricName] | None = None,
    *,
    level: Level = "word",
    target: TargetChoice = "predicted",
    quantity: Quantity = "log_odds",
    replacement: Replacement | None = None,
    ratios: Sequence[float] | None = None,
    mask_pads: bool = False,
    random_orderings: int = RANDOM_ORDERINGS,
    reference_order: bool = True,
    budget: int | None = None,
    compat: Compat | None = None,
    reference: MethodName | None = None,
    k: int | Sequence[int] | None = None,
    seed: int = 0,
    limit: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Evaluation:
    """Explain every document by every method and measure every explanation by every metric.

    dataset: whatever `as_examples` accepts (texts, (text, label) pairs, rows with a field "text", a DataFrame), or the
    path of a file that `read_examples` reads.
    methods: names; None for the ten of `DEFAULT_METHODS`, "all" for every method, including slow ones.
    metrics: names; None or "all" for those that the data allow. The others are listed in `skipped` with the reason.
    level: what is ranked and removed; the score of a word is the sum over its tokens.
    target: explain the prediction ("predicted") or the truth ("label": the given class, or the answer of a question).
    quantity: what is explained of the class; most papers explain the "logit". Metrics read probabilities in any case.
    replacement, ratios: what faithfulness metrics put in place of removed words, and which shares of the words they
    remove; by default each metric's own (see `sightline.metrics.faithfulness`).
    mask_pads: exclude pad tokens that replace words from attention.
    random_orderings: number of random orders behind the floor, made from random token scores summed to words: words of
    many tokens come first more often, as they do with methods that score tokens.
    reference_order: also measure the order of the exact effects of single words, with one model call per word.
    budget: model calls allowed per document. The reference is left out if it exceeds them; if the rest does, the
    document has no faithfulness.
    compat: "attcat" computes AOPC, log-odds and confidence like the published program, which explains the logit of the
    label (so set `target` and `quantity` as well).
    reference: the method that agreement metrics compare with.
    k: how many of the first words precision, recall and count at k look at, one number or several (20 by default). A
    metric can also be named with its k, as in "precision_at_5".
    limit: use at most this many documents, from the beginning.
    options: options of a method, as a dictionary under its name: `rollout={"fusion": "max"}`.

    Examples
    --------
    >>> import sightline as sl
    >>> texts = ["A neural network learns from data.", "The compiler checks types."]
    >>> evaluation = sl.evaluate(sl.load(), texts, methods=["attcat", "random"], metrics=["aopc"])
    >>> evaluation.summary()["method"].tolist()
    ['attcat', 'random']
    """
    begin = time.perf_counter()
    model = check_model(model)
    examples = read_dataset(dataset, limit)
    names = chosen_methods(methods)
    settings = FaithfulnessSettings(
        level=check_one_of("level", level, LEVELS),
        replacement=replacement,
        ratios=None if ratios is None else check_ratios(ratios),
        mask_pads=mask_pads,
        random_orderings=check_count("random_orderings", random_orderings, 0),
        reference_order=reference_order,
        budget=None if budget is None else check_count("budget", budget),
        compat=compat,
    )
    if reference is not None:
        reference = method_name(reference)
    target = check_one_of("target", target, get_args(TargetChoice))
    if target == "label" and not any(has_gold(model, example) for example in examples):
        raise InputError(
            "target='label' was given, but no document of the data set has a label. Give labels, or explain the "
            "predicted class."
        )
    depths = None if k is None else [check_count("k", depth) for depth in ([k] if isinstance(k, int) else k)]
    applicable, skipped = chosen_metrics(metrics, model, examples, settings, reference, depths)
    assignment = Assignment(
        methods=names,
        metrics=applicable,
        options=check_method_options(options, [*names, *([reference] if reference is not None else [])]),
        target=target,
        quantity=check_quantity(quantity),
        classes=label_classes(model, examples),
        reference=reference,
        settings=settings,
        seed=check_count("seed", seed, None),
    )
    finished: dict[int, DocumentResult] = {}
    complete = True

    def work(twin: Model, example: Example, watch: Progress | None) -> DocumentResult:
        return evaluate_document(twin, example, assignment, watch)

    try:
        for number, result in each_document(model, examples, work, progress):
            finished[number] = result  # noqa: PERF403 (an interruption must leave what came before it)
        if progress is not None:
            progress("documents", len(examples), len(examples))
    except KeyboardInterrupt:
        complete = False
    measured = {examples[number].id: finished[number] for number in sorted(finished)}
    results = measured.values()
    return Evaluation(
        records=tuple(record for result in results for record in result.records),
        documents=tuple(measured),
        methods=tuple(names),
        metrics=tuple(applicable),
        curves_by={key: curve for result in results for key, curve in result.curves.items()},
        skipped=skipped,
        settings={
            **asdict(settings),
            "target": target,
            "quantity": quantity,
            "reference": reference,
            "seed": seed,
            "options": {name: dict(method_options) for name, method_options in assignment.options.items()},
        },
        provenance=model.provenance(),
        calls_requested=sum(result.calls_requested for result in results),
        calls_made=sum(result.calls_made for result in results),
        seconds=time.perf_counter() - begin,
        complete=complete,
    )
