"""Does an explanation depend on the class it explains?

An explanation that ranks the tokens alike for every class says nothing about the decision: its confidence statistic is
1. Qiang et al. 2022 ("AttCAT") report Kendall's correlation between classes; lower is better. There are two numbers:

    confidence            tau-b between the two vectors of scores: what the paper's text defines. Explanations of two
                          classes that are exactly opposite have −1.
    confidence_published  tau-b between the two lists of token positions, highest score first: what the published
                          program computes, and so what the paper's tables show. It compares which position stands at
                          each place of the list, not how a token is ranked: exactly opposite rankings can have any
                          value, and on average have about 0.

On the same six sentences AttCAT has −.976 by the first and near 0 (.018 in the paper's table) by the second.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError, TargetError
from sightline.metrics.agreement import kendall
from sightline.metrics.registry import Chance, metric
from sightline.metrics.token_sets import descending_order
from sightline.settings.arguments import check_one_of


@metric(
    name="confidence",
    kind="confidence",
    needs={"class_scores", "target"},
    range=(-1, 1),
    chance=Chance("unrelated rankings", "0", lambda class_scores, target, **options: 0.0),
    higher_is_better=False,
    summary="Kendall's tau-b between the scores for the target class and for each other class, averaged (the "
    "definition in the text of the AttCAT paper; not the number in its tables).",
    citation="Qiang et al. 2022",
)
def confidence(class_scores: npt.ArrayLike, target: int, *, compat: Literal["attcat"] | None = None) -> float:
    """Return the mean over classes c ≠ `target` of tau-b(scores of target, scores of c), in [-1, 1].

    `class_scores` (C, n): row c explains class c over the same tokens. Constant rows count 0, with a warning.
    compat="attcat" correlates the lists of token indices in descending order, as the published program does; that
    number depends on the positions of the tokens. Use it only to replicate published tables. O(C n log n).
    """
    rows = np.asarray(class_scores, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2:
        raise InputError(
            f"class_scores has shape {rows.shape}; confidence compares two classes or more, shape (C, n) with C >= 2."
        )
    if not 0 <= target < len(rows):
        raise TargetError(f"Class {target} asked for, there are scores of {len(rows)} classes (0-{len(rows) - 1}).")
    if compat is not None:
        check_one_of("compat", compat, ("attcat",))
        rows = descending_order(rows).astype(np.float64)
    return float(np.mean([kendall(rows[target], row) for c, row in enumerate(rows) if c != target]))


@metric(
    name="confidence_published",
    kind="confidence",
    needs={"class_scores", "target"},
    range=(-1, 1),
    chance=Chance("unrelated rankings", "0", lambda class_scores, target, **options: 0.0),
    level="tokens",
    higher_is_better=False,
    summary="Kendall's tau-b between the lists of token positions in order of score, target class against each other "
    "class, averaged (as the published AttCAT program computes it; the number in its tables).",
    citation="Qiang et al. 2022, program",
)
def confidence_published(class_scores: npt.ArrayLike, target: int) -> float:
    """Return the mean over classes c ≠ `target` of tau-b(order of target, order of c), in [-1, 1].

    `class_scores` (C, n), special tokens included as in the published program; the order of a row is its token
    positions from the highest to the lowest score, equal scores in token order. Use it only beside published tables: it
    is 0 on average for unrelated rankings, but not −1 for opposite ones. O(C n log n).
    """
    return confidence(class_scores, target, compat="attcat")
