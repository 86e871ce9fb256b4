"""The card of a trained model: what it was trained on, how, and how well it does, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from sightline.foreign import printable
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
"""Task -> what a card says if the starting point came without a head for it."""
_OF_CLASSES = "Accuracy with a 95 % bootstrap interval over rows."
_OF_ANSWERS = (
    "Exact match and F1 of words as SQuAD defines them, with 95 % bootstrap intervals over questions. Questions on one "
    "context are not independent, so the intervals are somewhat too narrow."
)


def metric_with_interval(values: Mapping[str, float], name: str) -> str:
    """Return a metric with its interval for people to read: "0.812 (0.790 to 0.834)".

    Where every row has the same value, a bootstrap interval has no width, which must not be read as certainty.
    """
    if values[f"{name}_low"] == values[f"{name}_high"]:
        return f"{values[name]:.3f} (the same for all {values['rows']:,.0f} rows, so without an interval)"
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
    answers = data.task == "question_answering"
    # Names come from files: no line breaks, no escapes, and nothing that would end a cell of a table.
    names = {label: printable(label).replace("|", "\\|") for label in data.labels}
    classes = f" Classes: {', '.join(names.values())}." if names else ""
    head = f" {_NEW_HEADS[data.task]}" if new_head else ""
    rows = []
    for split in ("train", "validation", "test"):
        examples = getattr(data, split)
        counts = Counter(label for row in examples for label in labels_of(row, data.task))
        shares = ", ".join(f"{name}: {counts[label]:,}" for label, name in names.items()) or "–"
        if answers:
            shares = f"without an answer: {sum(not row.answer for row in examples):,}"
        rows.append(f"| {split} | {len(examples):,} | {shares} |")
    results = []
    for split, values in metrics.items():
        cells = [metric_with_interval(values, name) for name in (("exact_match", "f1") if answers else ("accuracy",))]
        if not answers:
            cells.append(f"{values['macro_f1']:.3f}" if "macro_f1" in values else "–")
        results.append(f"| {split} | {' | '.join(cells)} | {values['loss']:.4f} |")
    versions = ", ".join(f"{name} {version(name)}" for name in ("sightline", "transformers", "torch"))
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
            "| split | rows | of these |" if answers else "| split | rows | per class |",
            "|---|---|---|",
            *rows,
            "",
            "## Results",
            "",
            f"{_OF_ANSWERS if answers else _OF_CLASSES} The validation split chose the checkpoint.",
            "",
            f"| split | {'exact match | F1' if answers else 'accuracy | macro F1'} | loss |",
            "|---|---|---|---|",
            *results,
            "",
            "## Settings",
            "",
            "| setting | value |",
            "|---|---|",
            *(f"| {name} | {value} |" for name, value in settings.items()),
            "",
            f"Versions: {versions}.",
            "",
        ]
    )
