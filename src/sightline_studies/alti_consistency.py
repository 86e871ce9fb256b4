"""Consistency in the ALTI study: do explanations of two models agree on the sentences that both predict alike?

Word scores of every two models are compared by Spearman's ρ (`evaluation.consistency`): models that differ by their
seed only, as in the paper, and different models of sentiment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sightline.evaluation import consistency
from sightline.evaluation.agreement import Agreement
from sightline.text import Example
from sightline_studies.agreement import measure_agreement
from sightline_studies.alti_steps import METHODS
from sightline_studies.study import Dots, Measured, shared_difference
from sightline_studies.workbench import Subject, Workbench

if TYPE_CHECKING:
    import pandas as pd

SEEDS, MODELS = "seeds", "models"
"""Whose consistency is measured: models that differ by their seed, and models of sentiment."""
GRADIENTS = ("gradient", "input_x_gradient")
"""Gradient methods whose consistency between models is compared with ALTI's."""


def measure_consistency(
    bench: Workbench, subjects: Sequence[Subject], examples: Sequence[Example], name: str
) -> Agreement:
    """Return ρ between the word scores of every two models, on the sentences that both predict alike."""
    methods = [*METHODS, *GRADIENTS]

    def compare_rows(rows: Sequence[Example]) -> Agreement:
        models = {f"{number}: {subject.name}": subject.model for number, subject in enumerate(subjects, start=1)}
        return consistency(models, rows, methods, magnitude=True, permutations=20, seed=bench.seed)

    identity = {"models": [subject.identity for subject in subjects], "methods": methods}
    return measure_agreement(bench, f"consistency-{name}", identity, examples, compare_rows, "models")


def consistency_table(groups: Mapping[str, Agreement], control: Agreement) -> pd.DataFrame:
    """Return one row per pair of models and method; the control stands beside models that differ by their seed."""
    import pandas as pd

    random = {row.method: row.mean for row in control.summary().itertuples()}
    return pd.DataFrame(
        [
            {
                "models": f"{row.first}, {row.second}",
                "method": row.method,
                "mean": row.mean,
                "low": row.low,
                "high": row.high,
                "chance": row.chance,
                "random_weights": random.get(row.method, np.nan) if name == SEEDS else np.nan,
                "documents": row.documents,
                "predicted_differently": row.missing,
            }
            for name, agreement in groups.items()
            for row in agreement.summary().itertuples()
        ]
    )


def _pair_title(first: str, second: str) -> str:
    """Return two models without their numbers, which only matter where both have the same name."""
    names = [model.partition(": ")[2] for model in (first, second)]
    return ", ".join(names if names[0] != names[1] else [first, second])


def consistency_dots(groups: Mapping[str, Agreement]) -> Dots:
    """Return one panel per pair of models: ρ of each method with interval and chance level."""
    panels: dict[str, list[tuple[str, Measured, float]]] = {}
    for agreement in groups.values():
        for row in agreement.summary().itertuples():
            measured = Measured(row.mean, row.low, row.high, row.documents)
            panels.setdefault(_pair_title(row.first, row.second), []).append((row.method, measured, row.chance))
    return Dots(panels)


def _consistencies(agreement: Agreement, method: str) -> dict[tuple[str, str, str], float]:
    """Return ρ by (first model, second model, sentence)."""
    return {
        (pair.first, pair.second, pair.document): pair.value
        for pair in agreement.pairs
        if pair.method == method and pair.value is not None
    }


def alti_gain(agreement: Agreement, seed: int) -> Measured:
    """Return by how much models agree more by ALTI than by gradients, paired by sentence and pair of models."""
    return shared_difference(_consistencies(agreement, "alti"), _consistencies(agreement, "gradient"), seed)
