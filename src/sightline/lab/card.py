"""The card of a trained model: what it was trained on, how, and how well it does, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from sightline.lab.training_data import TrainingData


def model_card(
    data: TrainingData, base: str, settings: Mapping[str, Any], metrics: Mapping[str, Mapping[str, float]]
) -> str:
    """Return README.md of the model folder; metrics by split: accuracy, accuracy_low, accuracy_high, macro_f1, loss."""
    rows = []
    for split in ("train", "validation", "test"):
        examples = getattr(data, split)
        counts = Counter(str(row.label) for row in examples)
        shares = ", ".join(f"{label}: {counts[label]:,}" for label in data.labels)
        rows.append(f"| {split} | {len(examples):,} | {shares} |")
    results = [
        f"| {split} | {values['accuracy']:.3f} ({values['accuracy_low']:.3f} to {values['accuracy_high']:.3f}) | "
        f"{values['macro_f1']:.3f} | {values['loss']:.4f} |"
        for split, values in metrics.items()
    ]
    versions = ", ".join(f"{name} {version(name)}" for name in ("sightline", "transformers", "torch"))
    return "\n".join(
        [
            "---",
            "library_name: transformers",
            "pipeline_tag: text-classification",
            "---",
            "",
            "# Text classifier",
            "",
            f"Trained with Sightline from {base} on {data.name}. Classes: {', '.join(data.labels)}.",
            "",
            "## Data",
            "",
            "| split | rows | rows per class |",
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
