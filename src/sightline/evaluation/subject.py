"""The documents of an evaluation: what is explained of each, with which seeds, and how many run at once.

Seeds depend only on the given seed, the document and the method, so that a number does not depend on what else is
measured, or on the order.

Short documents run in parallel: one thread per core, each with a network that has its own hooks and shares the weights.
Long documents would fill the memory, so they run one after the other; only their perturbed versions run in parallel
(`Network.run_many`).

`chosen_methods` and `chosen_metrics` return what an evaluation runs: an unknown name raises an error before anything
runs, and what "all" leaves out is listed with its reason. Other arguments of `evaluate` and `compare` are checked here
as well.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from sightline.api.model import Model
from sightline.errors import OptionError, SightlineError, TargetError
from sightline.methods import METHODS, method_name
from sightline.metrics import METRICS, MetricEntry, tokens_in_characters
from sightline.metrics.measurement import RANDOM_ORDERINGS, FaithfulnessSettings
from sightline.models.answers import NO_ANSWER
from sightline.models.batching import Send, run_side_by_side
from sightline.models.classes import Label, classes_of, no_class
from sightline.models.target import TargetLike
from sightline.progress import Progress
from sightline.settings.evaluation import TargetChoice as TargetChoice
from sightline.settings.names import MethodName
from sightline.settings.values import refuse_unused
from sightline.text import Encoding, Example

E = TypeVar("E")


class Missing(Exception):  # noqa: N818 (a signal, not an error)
    """Something that is not defined for this document; the message is the reason."""


def encode_example(model: Model, example: Example) -> Encoding:
    """Return an example as the model reads it."""
    if isinstance(example.text, Encoding):
        return example.text
    return model.encode(*model.network.task.reading_order(example.text, example.pair))


def has_gold(model: Model, example: Example) -> bool:
    """Return whether the true class of an example is known, or the true answer for a model that answers questions."""
    return (example.answer if model.task == "question_answering" else example.label) is not None


def label_classes(model: Model, examples: Iterable[Example]) -> dict[Label, int | None]:
    """Return the class of the model that each label of a data set stands for (`models.classes`); None for no class."""
    named = model.network.task.has_named_classes
    return classes_of((row.label for row in examples), model.labels) if named else {}


def choose_target(
    model: Model,
    example: Example,
    encoding: Encoding,
    choice: TargetChoice,
    classes: Mapping[Label, int | None],
) -> TargetLike:
    """Return what to explain: None for the prediction; for "label" the true class, or the true answer of a question.

    Of several true answers, the first one that the model reads whole is explained; an empty list means "no answer".
    classes: the `label_classes` of the data set.
    """
    if choice == "predicted":
        return None
    if model.task == "question_answering":
        return _true_answer(example, encoding)
    if example.label is None:
        raise Missing("The document has no label, and the label was to be explained.")
    if model.network.task.classes_are_tokens:
        return example.label
    index = classes.get(example.label)
    if index is None:
        raise TargetError(no_class(example.label, model.labels))
    return model.labels[index]


def context_segment(model: Model, encoding: Encoding) -> int:
    """Return the segment to which marked characters refer: the context of a question, else the text."""
    return int(model.task == "question_answering" and encoding.pair is not None)


def _true_answer(example: Example, encoding: Encoding) -> TargetLike:
    if example.answer is None:
        raise Missing("The document has no answer, and the true answer was to be explained.")
    segment = int(encoding.pair is not None)
    for start, end in example.answer:
        inside = np.flatnonzero(
            tokens_in_characters(encoding.offsets, [(start, end)], segments=encoding.segments, segment=segment)
        )
        if len(inside) and encoding.offsets[inside[-1], 1] >= end:
            return int(inside[0]), int(inside[-1])
    if example.answer:
        raise Missing("The true answer lies outside of what the model reads.")
    return NO_ANSWER


def describe_error(error: Exception) -> str:
    """Return the message of an error; errors that are not Sightline's are preceded by their type."""
    return str(error) if isinstance(error, SightlineError) else f"{type(error).__name__}: {error}"


def seed_for(seed: int, *names: str) -> int:
    """Return the seed of one document, method or metric, by their names."""
    digest = hashlib.blake2b("\0".join((str(seed), *names)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


def seeded_options(method: str, options: Mapping[str, Any], seed: int, document: str) -> dict[str, Any]:
    """Return the options of a method, with a seed of its own for the document if it takes one and none was given."""
    if "seed" not in METHODS.get(method).options:
        return dict(options)
    return {"seed": seed_for(seed, document, method), **options}


def explain_by_each(
    methods: Iterable[str], explain: Callable[[str], E], progress: Progress | None = None
) -> tuple[dict[str, E], dict[str, str]]:
    """Return the result of `explain` by method, and the reasons of methods that failed; the others continue."""
    names = list(dict.fromkeys(methods))
    explained: dict[str, E] = {}
    failures: dict[str, str] = {}
    for step, name in enumerate(names):
        if progress is not None:
            progress(name, step, len(names))
        try:
            explained[name] = explain(name)
        except Exception as error:  # a failing method must not stop the others
            failures[name] = describe_error(error)
    return explained, failures


R = TypeVar("R")
Work = Callable[["Model", Example, Progress | None], R]

FEWEST_DOCUMENTS = 4
"""With fewer documents, a second network does not pay off."""
LONGEST_CHARACTERS = 4000
"""Documents of up to so many characters, about 1,000 tokens, run in parallel."""


def report_document(progress: Progress | None, number: int, documents: int) -> Progress | None:
    """Report how many documents are done; return a function that reports the stages of the next one."""
    if progress is None:
        return None
    progress("documents", number, documents)
    prefix = f"document {number + 1} of {documents}: "
    return lambda stage, done, total: progress(prefix + stage, done, total)


def each_document(
    model: Model, examples: Sequence[Example], work: Work[R], progress: Progress | None
) -> Iterator[tuple[int, R]]:
    """Yield the number of every document and the result of `work` for it, in the order of completion."""
    threads = torch.get_num_threads()
    short = all(_characters(example) <= LONGEST_CHARACTERS for example in examples)
    if threads > 1 and short and len(examples) >= FEWEST_DOCUMENTS and model.network.device.type == "cpu":
        yield from _run_side_by_side(model, examples, work, progress, min(threads, len(examples) // 2))
        return
    for number, example in enumerate(examples):
        yield number, work(model, example, report_document(progress, number, len(examples)))


def _run_side_by_side(
    model: Model, examples: Sequence[Example], work: Work[R], progress: Progress | None, workers: int
) -> Iterator[tuple[int, R]]:
    # The tokenizer is copied as well, because those of the library are not thread-safe.
    models = [type(model)(model.network.twin(), copy.deepcopy(model.tokenizer)) for _ in range(workers)]

    def run(twin: Model, number: int, send: Send) -> R:
        prefix = f"document {number + 1} of {len(examples)}: "
        return work(twin, examples[number], lambda stage, done, total: send((prefix + stage, done, total)))

    def receive(report: Any) -> None:
        if progress is not None:
            progress(*report)

    try:
        receive(("documents", 0, len(examples)))
        for done, (number, result) in enumerate(run_side_by_side(models, len(examples), run, receive), 1):
            yield number, result
            receive(("documents", done, len(examples)))
    finally:
        for twin in models:
            model.network.count_passes_of(twin.network)


def _characters(example: Example) -> int:
    if isinstance(example.text, Encoding):
        return len(example.text.text) + len(example.text.pair or "")
    return len(example.text) + len(example.pair or "")


def check_model(given: Any) -> Model:
    """Return `given` unchanged; raise OptionError if it is not a Model (for example, a path)."""
    if isinstance(given, Model):
        return given
    if isinstance(given, str | Path):
        raise OptionError(f"'{given}' is the name of a model, not a model: load it first, with sl.load('{given}').")
    raise OptionError(f"A model as sl.load() returns it is needed; what was given is of type {type(given).__name__}.")


def list_names(given: Any, option: str) -> list[str]:
    """Return one name or several as a list without duplicates."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable):
        raise OptionError(f"{option}={given!r} is not possible; give a name, or a list of names.")
    return list(dict.fromkeys(given))


def check_method_options(options: Mapping[str, Any], methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the options by method, after each method has checked its own."""
    for name, given in options.items():
        if name not in methods or not isinstance(given, Mapping):
            raise OptionError(
                f"Options are given by method, for example {methods[0]}={{...}}; '{name}' is neither an option of the "
                "evaluation nor a method that is evaluated."
            )
        METHODS.get(name).check_options(given)
    return {name: dict(given) for name, given in options.items()}


DEFAULT_METHODS: tuple[MethodName, ...] = (
    *("random", "raw_attention", "rollout", "attgrads", "transatt"),
    *("gradient", "input_x_gradient", "integrated_gradients", "alti", "attcat"),
)
"""The floor, two of attention alone, two of attention with gradients or relevance, three of gradients, one of values,
and the default method: at least one per family, and none that calls the model once per word."""

MOST_CLASSES = 20
"""Confidence explains every class: for models with more classes it must be requested by name."""


def chosen_methods(methods: str | Sequence[str] | None) -> list[MethodName]:
    """Return the names of the requested methods, each once; None means the default ten, "all" every method."""
    if methods is None:
        return list(DEFAULT_METHODS)
    names = METHODS.names() if isinstance(methods, str) and methods == "all" else list_names(methods, "methods")
    if not names:
        raise OptionError("No method was given: name at least one, or leave methods= out for the default ten.")
    return [method_name(name) for name in names]


def chosen_metrics(
    metrics: str | Sequence[str] | None,
    model: Model,
    examples: Sequence[Example],
    settings: FaithfulnessSettings,
    reference: str | None,
    depths: Sequence[int] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Return the metrics to measure and, for "all" (or None), those left out with the reason.

    A metric requested by name that the data cannot support raises an error. depths: the k of every metric "…_at_k".
    """
    everything = metrics is None or (isinstance(metrics, str) and metrics == "all")
    entries = [METRICS.get(name) for name in (METRICS.names() if everything else list_names(metrics, "metrics"))]
    if not entries:
        raise OptionError("No metric was given: name at least one, or leave metrics= out for all that the data allow.")
    applicable, skipped = [], {}
    for entry in entries:
        reason = _obstacle(entry, model, examples, settings, reference)
        if reason is None and everything and "class_scores" in entry.needs and len(model.labels) > MOST_CLASSES:
            reason = f"the model has {len(model.labels)} classes to explain; ask for it by name"
        if reason is None:
            applicable += _at_depths(entry.name, depths)
        elif everything:
            skipped[entry.name] = reason[:1].upper() + reason[1:] + "."
        else:
            raise OptionError(f"The metric '{entry.name}' cannot be measured: {reason}.")
    measured = [entry for entry in entries if entry.name not in skipped]
    _refuse_unused_settings(measured, settings, reference, depths)
    return list(dict.fromkeys(applicable)), skipped


def _refuse_unused_settings(
    entries: Sequence[MetricEntry],
    settings: FaithfulnessSettings,
    reference: str | None,
    depths: Sequence[int] | None,
) -> None:
    """Raise OptionError for a setting that none of the chosen metrics uses."""
    removing = [settings.plan(entry.name).replacement for entry in entries if entry.plan is not None]
    unused = "has no effect: none of the metrics"
    if not any(entry.name.endswith("_at_k") for entry in entries):
        refuse_unused({"k": depths}, f"{unused} looks at the first k words, as precision_at_k does.")
    if not any("other_scores" in entry.needs for entry in entries):
        refuse_unused({"reference": reference}, f"{unused} compares with another method, as spearman does.")
    if not removing:
        of_removal = {
            "replacement": settings.replacement,
            "ratios": settings.ratios,
            "random_orderings": settings.random_orderings != RANDOM_ORDERINGS,
            "reference_order": not settings.reference_order,
            "budget": settings.budget,
        }
        refuse_unused(of_removal, f"{unused} removes words, as aopc does.")
    if not any(entry.has_published_variant for entry in entries):
        refuse_unused({"compat": settings.compat}, f"{unused} has a published variant, as aopc has.")
    if "pad" not in removing:
        refuse_unused({"mask_pads": settings.mask_pads}, f"{unused} puts pad tokens in place of words.")


def _at_depths(name: str, depths: Sequence[int] | None) -> list[str]:
    """Return the metric at each depth: "precision_at_5", "precision_at_20" for "precision_at_k" at 5 and 20."""
    if depths is None or not name.endswith("_at_k"):
        return [name]
    return [f"{name.removesuffix('k')}{k}" for k in depths]


def _obstacle(
    entry: MetricEntry, model: Model, examples: Sequence[Example], settings: FaithfulnessSettings, reference: str | None
) -> str | None:
    """Return why no document can be measured, or None."""
    if "other_scores" in entry.needs and reference is None:
        return "agreement is between two explanations; give a reference (for example occlusion), or use compare()"
    if "rationale" in entry.needs and all(example.rationale is None for example in examples):
        return "the data set has no field 'rationale'"
    if "answer" in entry.needs and all(example.answer is None for example in examples):
        return "the data set has no field 'answer'"
    if "class_scores" in entry.needs:
        if model.task not in ("sequence_classification", "token_classification"):
            return f"the model's task is {model.task.replace('_', ' ')}, which has no classes to compare"
        if len(model.labels) < 2:
            return "the model has one class only, so there is no other to compare with"
    if entry.plan is not None:
        if settings.compat is not None and not entry.has_published_variant:
            return f"the published program that compat='{settings.compat}' follows has no such metric"
        replacement = settings.plan(entry.name).replacement
        if replacement != "delete" and replacement not in model.network.token_ids:
            return f"the model's vocabulary has no {replacement} token that Sightline knows of; give replacement="
    return None
