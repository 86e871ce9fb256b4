"""The card of a trained model: its training data and settings, and its results with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from sightline.files.foreign import printable
from sightline.lab.training_data import TrainingData
from sightline.lab.training_tasks import TrainingTask, labels_of

KINDS: dict[TrainingTask, tuple[str, str]] = {
    "sequence_classification": ("text-classification", "Text classifier"),
    "token_classification": ("token-classification", "Token classifier"),
    "masked_lm": ("fill-mask", "Masked language model"),
    "question_answering": ("question-answering", "Model that answers questions"),
}
"""Task -> its tag on the hub, and the title of the card."""
_NEW_HEADS: dict[TrainingTask, str] = {
    "sequence_classification": "The head is new: the classes were learnt from these rows alone.",
    "token_classification": "The head is new: the classes were learnt from these rows alone.",
    "masked_lm": "The head is new: its output embeddings are the word embeddings of the starting point, and the layers "
    "before them were learnt from these texts alone.",
    "question_answering": "The head is new: answers were learnt from these questions alone.",
}
"""Task -> sentence of the card if the starting point had no head for it."""


class _Results(NamedTuple):
    """How the card shows the results of a task."""

    text: str
    columns: dict[str, str]
    """Metric -> the head of its column."""


_OF_CLASSES = _Results("Accuracy with a 95 % interval over rows.", {"accuracy": "accuracy", "macro_f1": "macro F1"})
_RESULTS: dict[TrainingTask, _Results] = {
    "sequence_classification": _OF_CLASSES,
    "token_classification": _OF_CLASSES,
    "masked_lm": _Results(
        "Accuracy is the share of hidden tokens (15 % of all) that are predicted correctly, averaged over texts, with "
        "a 95 % interval over texts.",
        {"accuracy": "accuracy on hidden tokens"},
    ),
    "question_answering": _Results(
        "Exact match and F1 of words as SQuAD defines them, with 95 % intervals over questions. Questions on "
        "one context are not independent, so the intervals are somewhat too narrow.",
        {"exact_match": "exact match", "f1": "F1"},
    ),
}


def metric_with_interval(values: Mapping[str, float], name: str) -> str:
    """Return a metric with its interval for people to read: "0.812 (0.790 to 0.834)".

    A metric that is not a mean over rows has no interval; nor does a mean over fewer than six rows.
    """
    if f"{name}_low" not in values:
        return f"{values[name]:.3f}"
    return f"{values[name]:.3f} ({values[f'{name}_low']:.3f} to {values[f'{name}_high']:.3f})"


def model_card(
    data: TrainingData,
    base: str,
    settings: Mapping[str, Any],
    metrics: Mapping[str, Mapping[str, float]],
    *,
    new_head: bool = False,
) -> str:
    """Return README.md of the model folder; metrics by split as in `Training.metrics`."""
    tag, title = KINDS[data.task]
    shown = _RESULTS[data.task]
    # Names come from files: no line breaks, no escapes, and nothing that would end a cell of a table.
    names = {label: printable(label).replace("|", "\\|") for label in data.labels}
    classes = f" Classes: {', '.join(names.values())}." if names else ""
    head = f" {_NEW_HEADS[data.task]}" if new_head else ""
    rows = []
    for split in ("train", "validation", "test"):
        examples = getattr(data, split)
        counts = Counter(label for row in examples for label in labels_of(row, data.task))
        cells = [split, f"{len(examples):,}"]
        if data.task == "question_answering":
            cells.append(f"without an answer: {sum(not row.answer for row in examples):,}")
        elif names:
            cells.append(", ".join(f"{name}: {counts[label]:,}" for label, name in names.items()))
        rows.append(cells)
    results = [
        [split, *(metric_with_interval(values, name) for name in shown.columns), f"{values['loss']:.4f}"]
        for split, values in metrics.items()
    ]
    known = {"question_answering": ["of these"], "masked_lm": []}.get(data.task, ["per class"])
    versions = ", ".join(f"{name} {version(name)}" for name in ("sightline-xai", "transformers", "torch"))
    return "\n".join(
        [
            "---",
            "library_name: transformers",
            f"pipeline_tag: {tag}",
            "---",
            "",
            f"# {title}",
            "",
            f"Trained with Sightline from {printable(base)} on {printable(data.name)}.{head}{classes}",
            "",
            "## Data",
            "",
            *_table(["split", "rows", *known], rows),
            "",
            "## Results",
            "",
            f"{shown.text} The validation split chose the checkpoint.",
            "",
            *_table(["split", *shown.columns.values(), "loss"], results),
            "",
            "## Settings",
            "",
            *_table(["setting", "value"], [[name, str(value)] for name, value in settings.items()]),
            "",
            f"Versions: {versions}.",
            "",
        ]
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    first, *others = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    return [first, f"|{'---|' * len(head)}", *others]
