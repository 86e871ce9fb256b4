"""The card of a trained model: what it was trained on, how, and how well it does, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from sightline.lab.training_data import TrainingData
from sightline.lab.training_tasks import TrainingTask, labels_of

KINDS: dict[TrainingTask, tuple[str, str]] = {
    "sequence_classification": ("text-classification", "Text classifier"),
    "token_classification": ("token-classification", "Token classifier"),
    "masked_lm": ("fill-mask", "Masked language model"),
}
"""Task -> its tag on the hub, and the title of the card."""


def model_card(
    data: TrainingData, base: str, settings: Mapping[str, Any], metrics: Mapping[str, Mapping[str, float]]
) -> str:
    """Return README.md of the model folder; metrics by split: accuracy, accuracy_low, accuracy_high, macro_f1, loss."""
    tag, title = KINDS[data.task]
    classes = f" Classes: {', '.join(data.labels)}." if data.labels else ""
    rows = []
    for split in ("train", "validation", "test"):
        examples = getattr(data, split)
        counts = Counter(label for row in examples for label in labels_of(row, data.task))
        shares = ", ".join(f"{label}: {counts[label]:,}" for label in data.labels) or "–"
        rows.append(f"| {split} | {len(examples):,} | {shares} |")
    results = []
    for split, values in metrics.items():
        f1 = f"{values['macro_f1']:.3f}" if "macro_f1" in values else "–"
        interval = f"({values['accuracy_low']:.3f} to {values['accuracy_high']:.3f})"
        results.append(f"| {split} | {values['accuracy']:.3f} {interval} | {f1} | {values['loss']:.4f} |")
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
            f"Trained with Sightline from {base} on {data.name}.{classes}",
            "",
            "## Data",
            "",
            "| split | rows | per class |",
            "|---|---|---|",
            *rows,
            "",
            "## Results",
            "",
            "Accuracy with a 95 % bootstrap interval over rows. The validation split chose the checkpoint.",
            "",
            "| split | accuracy | macro F1 | loss |",
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
