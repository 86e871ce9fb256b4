"""How evenly weights and importance are spread as the projection becomes sparser: curves over λ of sparsegen.

One model per λ, trained alike, and the same documents for all of them. For every document the normalised entropy of

    attention a,   g_ŷ(x),   D_ŷ(x),   and g_h(x), the mean over the representations,

and Kendall's tau-b between the weights and g_ŷ(x), and D_ŷ(x) (`importance`). Sparsemax is sparsegen with λ = 0.
Softmax and entmax have no λ: they are points of the table and do not enter the correlation. Meister et al. 2021,
Table 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sightline.api.model import Model
from sightline.attention.projections import Projection
from sightline.errors import InputError, OptionError
from sightline.lab.feature_importance import FeatureImportance, Removal, feature_importance
from sightline.metrics.statistics import mean_interval
from sightline.text import Encoding

if TYPE_CHECKING:
    import pandas as pd

CurveMeasure = Literal[
    "attention_entropy",
    "gradient_entropy",
    "leave_out_entropy",
    "representation_entropy",
    "gradient_tau",
    "leave_out_tau",
]
RESAMPLES = 1000


@dataclass(frozen=True, eq=False)
class LambdaCurve:
    """The measures of every document under every model."""

    projections: tuple[str, ...]
    """The short name of every model's projection."""
    lambdas: NDArray[np.float64]
    """λ (M,); NaN for a projection that has none."""
    values: dict[str, NDArray[np.float64]]
    """By measure: (M, D); NaN where a document has no correlation."""

    def correlation(self, measure: CurveMeasure, *, seed: int = 0) -> tuple[float, float, float]:
        """Return Pearson's correlation of λ with the mean over documents, and its 95 % interval over documents.

        Documents without a value under one of the models are left out; NaN with fewer than three λ or without a
        document, and for an interval of fewer than six documents.
        """
        if measure not in self.values:
            raise OptionError(f"Unknown measure '{measure}'. Use one of: {', '.join(self.values)}.")
        has_lambda = np.isfinite(self.lambdas)
        lambdas, columns = self.lambdas[has_lambda], self.values[measure][has_lambda]
        columns = columns[:, np.isfinite(columns).all(axis=0)]
        count = columns.shape[1]
        if len(set(lambdas.tolist())) < 3 or not count:
            return (float("nan"),) * 3

        def correlate(means: NDArray[np.float64]) -> float:
            return float(np.corrcoef(lambdas, means)[0, 1]) if np.ptp(means) else 0.0

        generator = np.random.default_rng(seed)
        drawn = [correlate(columns[:, generator.integers(count, size=count)].mean(axis=1)) for _ in range(RESAMPLES)]
        low, high = np.quantile(drawn, (0.025, 0.975)) if count > 5 else (np.nan, np.nan)
        return correlate(columns.mean(axis=1)), float(low), float(high)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per model and measure: projection, lambda, measure, mean with its interval, documents."""
        import pandas as pd

        rows = []
        for measure, table in self.values.items():
            for projection, value, documents in zip(self.projections, self.lambdas, table, strict=True):
                known = documents[np.isfinite(documents)]
                rows.append((projection, value, measure, *mean_interval(known), len(known)))
        return pd.DataFrame(rows, columns=["projection", "lambda", "measure", "mean", "low", "high", "documents"])


def lambda_curve(
    models: Sequence[Model], documents: Sequence[str | Encoding], *, removal: Removal = "renormalise"
) -> LambdaCurve:
    """Measure models with a single attention, trained with different projections, on the same documents.

    removal: what happens without a representation, as in `feature_importance`.
    """
    if not models or not documents:
        raise InputError("A curve over λ needs at least one model and one document.")
    measured = [
        [_measure(feature_importance(model, document, removal=removal)) for document in documents] for model in models
    ]
    projections = [Projection.named(model.network.config.projection) for model in models]
    return LambdaCurve(
        projections=tuple(projection.name for projection in projections),
        lambdas=np.array([p.lam if p.tsallis == 2.0 else np.nan for p in projections]),
        values={name: np.array([[one[name] for one in row] for row in measured]) for name in measured[0][0]},
    )


def _measure(importance: FeatureImportance) -> dict[str, float]:
    return {
        "attention_entropy": importance.entropy("attention"),
        "gradient_entropy": importance.entropy("gradient_x"),
        "leave_out_entropy": importance.entropy("leave_out_x"),
        "representation_entropy": float(importance.entropies[importance.attended].mean()),
        "gradient_tau": importance.correlation("gradient_x")[0],
        "leave_out_tau": importance.correlation("leave_out_x")[0],
    }
