"""How is the mass of an explanation spread, and how much of it lies on special tokens?

`scores` (n,) count by magnitude: a token strongly against the target counts as much as one strongly for it. All
functions are O(n), except for a sort in special_rank.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError
from sightline.metrics.registry import Chance, metric
from sightline.metrics.score_inputs import FloatArray, score_vector, token_mask, warn_convention

SPECIAL_TOKENS = Chance(
    "random scores", "the share of special tokens among all tokens", lambda scores, special: float(np.mean(special))
)
MEAN_RANK = Chance(
    "random scores", "(n + 1) / 2n", lambda scores, special: (np.size(scores) + 1) / (2 * np.size(scores))
)


def _mass(scores: FloatArray) -> FloatArray | None:
    # |scores| as a distribution; scaled by the largest first, so that the sum of very large scores stays finite.
    magnitude = np.abs(scores)
    largest = magnitude.max()
    if largest == 0.0:
        return None
    scaled = magnitude / largest
    return np.asarray(scaled / scaled.sum())


@metric(
    name="entropy",
    kind="dispersion",
    needs={"scores"},
    range=(0, 1),
    higher_is_better=None,
    summary="Normalised entropy of the magnitudes: 0 all on one token, 1 spread evenly.",
    citation="Meister et al. 2021",
)
def normalised_entropy(scores: npt.ArrayLike) -> float:
    """Return -Σ_i q_i ln q_i / ln n with q = |scores| / Σ|scores|, in [0, 1].

    A single token gives 0, scores that are all 0 give 1, both with a warning.
    """
    vector = score_vector(scores)
    if vector.size == 1:
        warn_convention("There is one token only; its normalised entropy is reported as 0.")
        return 0.0
    mass = _mass(vector)
    if mass is None:
        warn_convention("All scores are 0, so no token stands out; the normalised entropy is reported as 1.")
        return 1.0
    positive = mass[mass > 0.0]
    entropy = -(positive @ np.log(positive)) / np.log(vector.size)
    return float(np.clip(entropy, 0.0, 1.0))


@metric(
    kind="dispersion",
    needs={"scores", "special"},
    range=(0, 1),
    chance=SPECIAL_TOKENS,
    higher_is_better=False,
    summary="Share of the total magnitude that lies on special tokens.",
    citation="Clark et al. 2019",
)
def special_share(scores: npt.ArrayLike, special: npt.ArrayLike) -> float:
    """Return Σ_{i special} |scores_i| / Σ_i |scores_i|, in [0, 1]; scores that are all 0 give 0, with a warning.

    `scores` (n,), `special` (n,) booleans.
    """
    vector = score_vector(scores)
    where = token_mask(special, vector.size, "special")
    mass = _mass(vector)
    if mass is None:
        warn_convention("All scores are 0, so there is no mass to share; the share of specials is reported as 0.")
        return 0.0
    return float(min(mass[where].sum(), 1.0))


def normalised_rank(scores: npt.ArrayLike) -> FloatArray:
    """Return each token's ascending rank divided by n, shape (n,): 1 for the highest score, 1/n for the lowest.

    Equal scores share their mean rank.
    """
    from scipy.stats import rankdata

    vector = score_vector(scores)
    return np.asarray(rankdata(vector) / vector.size)


@metric(
    kind="dispersion",
    needs={"scores", "special"},
    range=(0, 1),
    chance=MEAN_RANK,
    higher_is_better=False,
    summary="Mean normalised rank of the special tokens by magnitude: near 1 when they lead the list.",
    citation="Clark et al. 2019",
)
def special_rank(scores: npt.ArrayLike, special: npt.ArrayLike) -> float:
    """Return the mean normalised rank of the special tokens by magnitude, in (0, 1]: near 1 when they lead the list.

    `scores` (n,), `special` (n,) booleans. Specials ranked like any other token have (n + 1) / 2n on average. Without
    special tokens the result is 0, with a warning.
    """
    vector = score_vector(scores)
    where = token_mask(special, vector.size, "special")
    if not where.any():
        warn_convention("There is no special token to rank; the special-token rank is reported as 0.")
        return 0.0
    return float(normalised_rank(np.abs(vector))[where].mean())


@metric(
    kind="dispersion",
    needs={"hidden_states"},
    range=(-1, 1),
    higher_is_better=None,
    summary="Mean cosine between the model's representations of two tokens: near 1 when all point the same way.",
    citation="Ethayarajh 2019",
)
def anisotropy(vectors: npt.ArrayLike) -> float:
    """Return the mean cosine between two different rows of `vectors` (n, d), over all pairs, in [-1, 1].

    0 when directions are spread evenly, near 1 when all representations point the same way (Ethayarajh 2019). With
    unit vectors u_i the sum over pairs is (‖Σ u_i‖² - Σ ‖u_i‖²) / n(n-1): O(n d), no n × n matrix. A zero vector has
    cosine 0 with all others, and one vector alone has anisotropy 0; both with a warning.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
        raise InputError(f"vectors has shape {rows.shape}; anisotropy takes finite representations of shape (n, d).")
    n = len(rows)
    if n == 1:
        warn_convention("There is one vector only, so no pair to compare; its anisotropy is reported as 0.")
        return 0.0
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if not largest.all():
        warn_convention("A vector has norm 0 and so no direction; its cosine with the others is counted as 0.")
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    units = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0.0)
    total = units.sum(axis=0)
    pairs = float(total @ total - np.count_nonzero(norms)) / (n * (n - 1))
    return float(np.clip(pairs, -1.0, 1.0))
