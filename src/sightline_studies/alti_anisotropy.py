"""Anisotropy in the ALTI study: do the vectors of a layer point the same way, and those that they are sums of?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline_studies.alti_steps import VECTORS
from sightline_studies.study import Curve, Curves, Measured

if TYPE_CHECKING:
    import pandas as pd

Entries = Sequence[Mapping[str, Any]]


def _spread(entries: Entries, vectors: str, seed: int) -> list[Measured]:
    """Return the anisotropy of some vectors in every layer."""
    return [Measured.of(column, seed) for column in np.array([e["anisotropy"][vectors] for e in entries]).T]


def anisotropy_table(measured: Mapping[str, Entries], seed: int) -> pd.DataFrame:
    """Return one row per model and layer: mean cosine of hidden states, y and T."""
    import pandas as pd

    rows = []
    for name, entries in measured.items():
        columns = {"hidden": _spread(entries, "hidden", seed)[1:]}
        columns |= {vectors: _spread(entries, vectors, seed) for vectors in VECTORS[1:]}
        for layer in range(len(columns["y"])):
            means = {vectors: values[layer].value for vectors, values in columns.items()}
            rows.append({"model": name, "layer": layer, **means})
    return pd.DataFrame(rows)


def vector_curves(entries: Entries, seed: int) -> Curves:
    """Return hidden states, y and T of one model over its layers, with intervals."""
    names = {"hidden": "hidden states", "y": "attention outputs y", "T": "vectors T"}
    curves = [
        Curve.of(name, _spread(entries, vectors, seed)[1 if vectors == "hidden" else 0 :])
        for vectors, name in names.items()
    ]
    return Curves([str(layer) for layer in range(len(curves[0].values))], curves, "layer", "mean cosine")


def anisotropy_curves(measured: Mapping[str, Entries], seed: int) -> Curves:
    """Return the hidden states of every model over its layers, the embedding first, with intervals."""
    spreads = {name: _spread(entries, "hidden", seed) for name, entries in measured.items()}
    longest = max(len(layers) for layers in spreads.values())
    curves = [Curve.of(name, layers, longest) for name, layers in spreads.items()]
    return Curves(["embedding", *map(str, range(longest - 1))], curves, "layer", "mean cosine")
