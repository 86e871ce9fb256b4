"""The changed documents that faithfulness needs, each different one run once.

`Probes` collects documents with some positions removed (deleted, or replaced by the pad, mask or unknown token), finds
those that are the same input, runs the rest in batches of similar length, and hands out the probability of the
explained class. Shares 0 and 100 % are the same for every explanation of a document; so are many others where
explanations agree.

What is put in order and removed are *units*: the document's tokens or words. Special tokens, and tokens whose own
output the head reads (the masked token, the answer), belong to no unit: without them there is nothing to measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.methods.segments import groups_of
from sightline.metrics.faithfulness import Direction, Replacement
from sightline.metrics.inputs import FloatArray, IntArray, score_vector
from sightline.metrics.token_sets import descending_order
from sightline.models import Network, Target
from sightline.text import Encoding

UnitLevel = Literal["token", "word"]
Key = tuple[bytes, ...]


def removable_units(encoding: Encoding, target: Target, level: UnitLevel = "word") -> list[list[int]]:
    """Return the token positions of every unit that may be removed, in document order."""
    if level not in ("token", "word"):
        raise OptionError(f"level='{level}' is not known; use 'word' or 'token'.")
    read = set(range(target.span[0], target.span[1] + 1)) if target.span is not None else {target.position}
    groups = ([position for position in group if position not in read] for group in groups_of(encoding, level))
    units = [group for group in groups if group]
    if not units:
        raise InputError(f"The document has no {level} that could be removed: all its tokens are special.")
    return units


def unit_scores(scores: npt.ArrayLike, units: Sequence[Sequence[int]]) -> FloatArray:
    """Return the sum of the token scores (n,) of every unit, (U,), as `Explanation.words` adds them up."""
    vector = score_vector(scores)
    return np.array([vector[list(unit)].sum() for unit in units])


def random_order(units: Sequence[Sequence[int]], tokens: int, generator: np.random.Generator) -> IntArray:
    """Return the order of the units, (U,), of an explanation without information: random token scores, added up.

    Not a uniform order: of two words the one with more tokens has the higher sum more often. So does every explanation
    that scores tokens; the floor must not be denied what knowing nothing gives.
    """
    return descending_order(unit_scores(generator.random(tokens), units))


def unit_counts(ratios: Sequence[float], units: int) -> IntArray:
    """Return how many of the units each share stands for: rounded, at least 1 for a share above 0."""
    shares = np.asarray(ratios, dtype=np.float64)
    # The small term lets a half round up whatever its binary form: 0.35 · 10 is 3.5 and stands for 4.
    counts = np.floor(shares * units + 0.5 + 1e-9).astype(np.int64)
    return np.asarray(np.where(shares > 0.0, np.clip(counts, 1, units), 0))


def removed_positions(
    order: npt.ArrayLike, units: Sequence[Sequence[int]], counts: npt.ArrayLike, direction: Direction
) -> list[list[int]]:
    """Return for each count k the token positions to remove: of the first k units of `order`, or of all the others."""
    ranked = [units[index] for index in np.asarray(order)]
    parts = [ranked[:k] if direction == "remove" else ranked[k:] for k in np.asarray(counts)]
    return [sorted(position for unit in part for position in unit) for part in parts]


@dataclass(frozen=True)
class _Input:
    """A document as the model will read it, with the target where it stands then."""

    encoding: Encoding
    hidden: tuple[int, ...]
    target: Target

    def key(self, network: Network) -> Key:
        """Equal for inputs the model cannot tell apart."""
        places = (*network.global_tokens(self.encoding), -1) if network.banded else ()
        reads = (self.target.position, *(self.target.span or ()))
        arrays = (self.encoding.ids, self.encoding.type_ids, np.array(self.hidden), np.array(places))
        return (*(array.tobytes() for array in arrays), repr(reads).encode())


class Probes:
    """Changed forms of one document: ask for as many as needed, run them together, then read their probabilities."""

    def __init__(self, network: Network, encoding: Encoding, target: Target, *, mask_pads: bool = False) -> None:
        """Take the document and whose probability is read; with `mask_pads` nothing attends to inserted pads."""
        if target.span is None and len(network.task.facts.labels) < 2 and not network.task.facts.multi_label:
            raise UnsupportedError(
                "The model has a single output, whose probability is always 1: faithfulness cannot be measured on it."
            )
        self.network = network
        self.encoding = encoding
        self.target = target
        self.mask_pads = mask_pads
        self.calls_requested = 0
        self._asked: dict[tuple[str | int, ...], Key] = {}
        self._waiting: dict[Key, _Input] = {}
        self._found: dict[Key, float] = {}

    @property
    def calls_made(self) -> int:
        """Documents the model has read, and will have read after the next `run`."""
        return len(self._found) + len(self._waiting)

    def ask(self, removed: Sequence[int], replacement: Replacement) -> Key:
        """Ask for the document without the tokens at `removed`; the answer is `probability` after `run`."""
        self.calls_requested += 1
        # Metrics remove the same positions again and again; only the first time is a document made of them.
        asked = (replacement if len(removed) else "", *removed)
        if asked not in self._asked:
            changed = self._changed(removed, replacement)
            self._asked[asked] = key = changed.key(self.network)
            if key not in self._found:
                self._waiting.setdefault(key, changed)
        return self._asked[asked]

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Run what was asked for since the last time."""
        if not self._waiting:
            return
        # By content, so that the batches do not depend on who asked first.
        inputs = sorted(self._waiting.items())
        hidden = [one.hidden for _, one in inputs]
        logits = self.network.run_many(
            [one.encoding for _, one in inputs], hidden=hidden if any(hidden) else None, progress=progress
        )
        for (key, one), found in zip(inputs, logits, strict=True):
            self._found[key] = self._probability(found.double(), one.target)
        self._waiting.clear()

    def probability(self, key: Key) -> float:
        """Return the probability of the explained class for a document that was run."""
        return self._found[key]

    def curve(self, keys: Sequence[Key]) -> FloatArray:
        """Return the probabilities of several documents, (K,)."""
        return np.array([self._found[key] for key in keys])

    def _changed(self, removed: Sequence[int], replacement: Replacement) -> _Input:
        if not len(removed):
            return _Input(self.encoding, (), self.target)
        if replacement == "delete":
            if len(removed) == len(self.encoding):
                raise InputError(
                    "Deleting all words would leave nothing to read: the document has no special tokens. "
                    "Use replacement='mask', 'unk' or 'pad', or shares below 100 %."
                )
            return _Input(self.encoding.drop(removed), (), _moved(self.target, removed))
        ids = self.encoding.ids.copy()
        ids[list(removed)] = self.network.token_id(replacement)
        hidden = tuple(removed) if replacement == "pad" and self.mask_pads else ()
        return _Input(self.encoding.replace_ids(ids), hidden, self.target)

    def _probability(self, logits: Tensor, target: Target) -> float:
        task = self.network.task
        if target.span is not None:
            start, end = (task.probabilities(logits[:, side]) for side in (0, 1))
            return float(start[target.span[0]] * end[target.span[1]])
        return float(task.probabilities(task.class_logits(logits, target.position))[target.index])


def _moved(target: Target, removed: Sequence[int]) -> Target:
    """Return the target where its tokens stand after others before them were deleted."""

    def place(position: int) -> int:
        return position - sum(gone < position for gone in removed)

    if target.span is not None:
        return replace(target, span=(place(target.span[0]), place(target.span[1])))
    return target if target.position is None else replace(target, position=place(target.position))
