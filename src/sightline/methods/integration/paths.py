"""Straight paths from a baseline to the input, in embedding space.

A baseline is the document without its content: every ordinary token replaced (by the pad or mask token, by zero
vectors, or by the tokens of another text), special tokens kept, positions as they were. Shapes: n tokens, m points, D
width of all the places together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.errors import OptionError
from sightline.models.hooks import Place
from sightline.passes.trace import Trace

Baseline = Literal["pad", "mask", "zero"] | Sequence[int]
"""A list of ids is a text given by the user: see `baseline_ids`."""
Embeddings = Literal["full", "word", "separate"]
"""x^0, all embeddings added up and normalised; the word embeddings alone; word, position and type side by side."""


@dataclass(frozen=True)
class Path:
    """x' + α(x − x') between two points, both (n, D): the outputs of `places` side by side."""

    places: tuple[Place, ...]
    start: Tensor
    end: Tensor

    @property
    def difference(self) -> Tensor:
        """x − x', (n, D)."""
        return self.end - self.start

    def points(self, positions: Tensor) -> dict[Place, Tensor]:
        """The points at every α of `positions` (m,), (m, n, ·) per place."""
        joint = torch.lerp(self.start[None], self.end[None], positions[:, None, None].to(self.start))
        return self.split(joint)

    def split(self, joint: Tensor) -> dict[Place, Tensor]:
        """(…, D) -> one (…, ·) per place; all places are equally wide."""
        return dict(zip(self.places, joint.chunk(len(self.places), dim=-1), strict=True))


def build_path(trace: Trace, baseline: Baseline, baseline_text: str | None, embeddings: Embeddings) -> Path:
    """Return the path from the baseline, which a text may stand for, to the input.

    With "separate" embeddings the baseline's tokens have no position or segment of their own either, but that of the
    first token and type 0. (Zero vectors in all tables at once would meet the singularity of the LayerNorm behind.)
    Otherwise position and type are the input's all along.
    """
    network, encoding = trace.network, trace.encoding
    baseline = _choose_baseline(trace, baseline, baseline_text)
    chosen: dict[Embeddings, tuple[Place, ...]] = {"full": (0,), "word": ("word",), "separate": tuple(network.tables)}
    places = chosen[embeddings]
    end = torch.cat([network.embed(encoding, place) for place in places], dim=-1)
    start = torch.cat([_baseline_part(trace, baseline, place) for place in places], dim=-1)
    special = torch.tensor(encoding.special).to(end.device)[:, None]
    return Path(places, torch.where(special, end, start), end)


@dataclass(frozen=True)
class PathPart:
    """The path of one window of a document, or of a whole document that is read at once."""

    trace: Trace
    positions: NDArray[np.int64]
    """The places of its tokens in the document."""
    path: Path


def build_paths(trace: Trace, baseline: Baseline, baseline_text: str | None, embeddings: Embeddings) -> list[PathPart]:
    """Return the path of every window; together they are the path of the document, from the document's baseline."""
    baseline = _choose_baseline(trace, baseline, baseline_text)
    ids = None if isinstance(baseline, str) else baseline_ids(trace, baseline)
    parts = []
    for window, positions in trace.parts():
        own = baseline if ids is None else ids[positions][~window.encoding.special].tolist()
        parts.append(PathPart(window, positions, build_path(window, own, None, embeddings)))
    return parts


def _choose_baseline(trace: Trace, baseline: Baseline, text: str | None) -> Baseline:
    """Return the baseline, or the ids of the text that stands for it."""
    if text is None:
        return baseline
    if not isinstance(baseline, str) or baseline != "pad":
        raise OptionError("Give either baseline= or baseline_text=, not both.")
    return read_baseline(trace, text)


def read_baseline(trace: Trace, text: str) -> Sequence[int]:
    """Return the ids of the ordinary tokens of a text."""
    if trace.reader is None:
        raise OptionError("A trace made by hand cannot read a baseline's text; give baseline= a list of token ids.")
    encoding = trace.reader(text)
    ids: Sequence[int] = encoding.ids[~encoding.special].tolist()
    return ids


def baseline_ids(trace: Trace, baseline: Literal["pad", "mask"] | Sequence[int]) -> NDArray[np.int64]:
    """Return the baseline's ids (n,): specials kept, and one token, or the ids given in their order, everywhere else.

    Ids beyond the document's length are not used; a document that is longer goes on with pads.
    """
    encoding = trace.encoding
    ordinary = np.flatnonzero(~encoding.special)
    ids = encoding.ids.copy()
    if isinstance(baseline, str):
        ids[ordinary] = trace.network.token_id(baseline)
        return ids
    text = np.asarray(baseline)
    size = int(trace.network.config.vocab_size)
    if text.ndim != 1 or text.dtype.kind not in "iu" or len(text) == 0 or text.min() < 0 or text.max() >= size:
        raise OptionError(
            "A baseline is pad, mask, zero, a text of at least one known token, or a list of token ids between 0 and "
            f"{size - 1}."
        )
    if len(text) < len(ordinary):
        ids[ordinary[len(text) :]] = trace.network.token_id("pad")
    ids[ordinary[: len(text)]] = text[: len(ordinary)]
    return ids


def _baseline_part(trace: Trace, baseline: Baseline, place: Place) -> Tensor:
    """What the baseline is at one place, (n, ·)."""
    network, encoding = trace.network, trace.encoding
    if place == "position":
        positions = network.embed(encoding, place)
        return positions[:1].expand_as(positions)
    if place == "type":
        return network.embed(replace(encoding, type_ids=np.zeros_like(encoding.type_ids)), place)
    if isinstance(baseline, str) and baseline == "zero":
        return torch.zeros_like(network.embed(encoding, place))
    return network.embed(encoding.replace_ids(baseline_ids(trace, baseline)), place)
