"""An Explanation: how much each token moved the number that is explained, and everything needed to trust or redo it.

scores (n,) belong to the n tokens of the encoding, specials included; magnitude = how much, sign = for (+) or against
(−) the target when the method is signed. Words are sums of their tokens by default, because contributions add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline import storage
from sightline.errors import InputError, ModelError, OptionError
from sightline.layer_kind import LayerKind, resolve_layer_kind
from sightline.models.removal import RemovalCurve
from sightline.models.target import Prediction, Target
from sightline.registry import suggestion
from sightline.text import Encoding
from sightline.text.units import Level, units_of

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis.internals import Inside

Aggregate = Literal["sum", "mean", "max_abs"]
Sign = Literal["any", "for", "against"]
FloatArray: TypeAlias = NDArray[np.floating[Any]]

_STORABLE_KINDS = "biuf"


@dataclass(frozen=True)
class WordScore:
    """The score of one word (or token) of the document.

    `start` and `end` are characters of the text (segment 0) or its pair (segment 1); `index` is its place among the
    words (or tokens) of the document; `tokens` are the positions it is made of; `count` is above 1 only for words
    merged by `Explanation.top(merge=True)`, which keep the place of their first instance.
    """

    text: str
    score: float
    start: int
    end: int
    segment: int
    index: int
    tokens: tuple[int, ...]
    count: int = 1


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Scores of all tokens for one target, by one method.

    Arrays are read-only copies and always finite; `checks`, `options` and `provenance` hold plain values that can be
    written as JSON, so that whatever can be built can be saved.
    """

    method: str
    scores: FloatArray
    """(n,) one score a token, specials included."""
    encoding: Encoding
    target: Target
    prediction: Prediction
    layers: FloatArray | None = None
    """(L, n) scores by layer, for methods that have them."""
    layer_kind: LayerKind | None = None
    """How `layers` relate to `scores`: "additive", "averaged", "cumulative" or "separate"; None without layers."""
    checks: dict[str, float | int | str | bool] = field(default_factory=dict)
    """How far to trust it: completeness gap, share on specials, …"""
    options: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    """What produced it: model, hash, versions, seed."""
    extras: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Further arrays of the method, by name."""
    signed: bool = True
    """False when the method only says how much, not in which direction."""
    removal: RemovalCurve | None = None
    """What the check against random orderings measured, if it was made (`check=True`)."""

    def __post_init__(self) -> None:
        n = len(self.encoding)
        self._set("scores", self._checked("scores", self.scores, (n,)))
        if self.layers is not None:
            layers = np.asarray(self.layers)
            self._set("layers", self._checked("layers", layers, (len(layers), n)))
        self._set("layer_kind", resolve_layer_kind(self.layer_kind, has_layers=self.layers is not None))
        self._set("extras", {str(name): self._checked(f"extra '{name}'", a) for name, a in self.extras.items()})
        for name in ("checks", "options", "provenance"):
            values: Mapping[str, Any] = getattr(self, name)
            self._set(name, {str(key): storage.plain(value, f"{name}['{key}']") for key, value in values.items()})

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _checked(self, name: str, values: Any, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
        """Return a read-only copy of an array of numbers; refuse a wrong shape and anything that is not finite."""
        array = np.array(values)
        if array.dtype.kind not in _STORABLE_KINDS:
            raise TypeError(f"The {name} of '{self.method}' must be real numbers, not {array.dtype}.")
        if shape is not None:
            if array.shape != shape:
                raise ValueError(f"The {name} of '{self.method}' have shape {array.shape}, expected {shape}.")
            if array.dtype.kind != "f":
                array = array.astype(np.float64)
        bad = array.size - int(np.isfinite(array).sum())
        if bad:
            raise ModelError(
                f"The {name} of '{self.method}' are not finite ({bad} of {array.size} values): numbers overflow "
                "inside the model. Try another number type (dtype) or check the weights."
            )
        array.setflags(write=False)
        return array

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens as a person sees them, one for each score."""
        return self.encoding.tokens

    def words(self, aggregate: Aggregate = "sum") -> list[WordScore]:
        """Return the words in document order, specials left out.

        A word's score is the sum of its tokens, their mean, or the one token score of greatest magnitude (`max_abs`).
        A word cut by truncation counts with the tokens that are left; words that own no token are not listed.
        """
        _one_of("aggregate", aggregate, ("sum", "mean", "max_abs"))
        return self._scored("word", aggregate)

    def units(self, level: Level = "word") -> list[WordScore]:
        """Return the words, tokens, sentences or paragraphs in document order, specials left out; scores are sums."""
        return self._scored(level, "sum")

    def _scored(self, level: Level, aggregate: Aggregate) -> list[WordScore]:
        units = units_of(self.encoding, level)
        if aggregate == "max_abs":
            strongest = [positions[np.argmax(np.abs(self.scores[positions]))] for positions in units.tokens]
            scores = self.scores[np.array(strongest, dtype=np.int64)].astype(np.float64)
        else:
            scores = units.fold(self.scores) / (units.sizes if aggregate == "mean" else 1)
        if level == "word":
            indices = self.encoding.word_ids[units.first_tokens]
        else:
            indices = units.first_tokens if level == "token" else np.arange(len(units))
        return [
            WordScore(unit.text, score, unit.start, unit.end, unit.segment, index, unit.tokens)
            for unit, score, index in zip(units, scores.tolist(), indices.tolist(), strict=True)
        ]

    def top(self, k: int = 10, level: Level = "word", sign: Sign = "any", *, merge: bool = False) -> list[WordScore]:
        """Return the k strongest words (or tokens) by |score|, ties in document order, specials left out.

        `sign` keeps those for (score > 0) or against (score < 0) the target. Instances of one word are kept apart
        unless `merge`: then they are added up whatever their case, before ranking.
        """
        if k < 0:
            raise OptionError(f"k = {k} asked for; give a number of words from 0 up.")
        _one_of("sign", sign, ("any", "for", "against"))
        units = self.units(level)
        if merge:
            units = merged(units)
        if sign != "any":
            units = [unit for unit in units if (unit.score > 0 if sign == "for" else unit.score < 0)]
        return sorted(units, key=lambda unit: -abs(unit.score))[:k]

    def to_frame(self, level: Level = "token") -> pd.DataFrame:
        """Return a pandas frame: one row per token (specials included and marked) or one row per word (sentence, …)."""
        import pandas as pd

        if level != "token":
            words = self.units(level)
            return pd.DataFrame(
                {
                    level: [word.text for word in words],
                    "score": np.array([word.score for word in words], dtype=np.float64),
                    "index": np.array([word.index for word in words], dtype=np.int64),
                    "segment": np.array([word.segment for word in words], dtype=np.int64),
                    "start": np.array([word.start for word in words], dtype=np.int64),
                    "end": np.array([word.end for word in words], dtype=np.int64),
                    "tokens": np.array([len(word.tokens) for word in words], dtype=np.int64),
                }
            )
        encoding = self.encoding
        return pd.DataFrame(
            {
                "position": np.arange(len(encoding)),
                "token": list(encoding.tokens),
                "score": self.scores,
                "special": encoding.special,
                "word": encoding.word_ids,
                "segment": encoding.segments,
                "start": encoding.offsets[:, 0],
                "end": encoding.offsets[:, 1],
                "id": encoding.ids,
            }
        )

    def to_html(self, path: str | Path | None = None, *, inside: Inside | None = None) -> str:
        """Return the explanation as one self-contained page, and write it to `path` if given.

        `inside` (from `sightline.analysis.inside(trace)`) adds what attends to what and the maps of heads.
        """
        from sightline.files import write_whole
        from sightline.view.page.html import render_page

        html = render_page([self], inside=inside)
        if path is not None:
            write_whole(path, html)
        return html

    def show(self, *, inside: Inside | None = None) -> Any:
        """Return the page as a widget for a notebook (needs the extra `notebook`)."""
        from sightline.view.page.html import show

        return show([self], inside=inside)

    def save(self, path: str | Path) -> None:
        """Write everything to one `.json` or `.parquet` file, from which `load` rebuilds it bit for bit."""
        storage.write(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Read what `save` wrote."""
        arguments = storage.read(Path(path))
        try:
            return cls(**arguments)
        except (TypeError, ValueError, ModelError) as error:
            raise InputError(f"'{path}' is damaged: {str(error).rstrip('.')}.") from None

    def _repr_html_(self) -> str:
        from sightline.view.page.html import render_fragment

        return render_fragment(self)

    def __repr__(self) -> str:
        strongest = ", ".join(f"{word.text!r} {word.score:+.3g}" for word in self.top(3))
        return (
            f"<Explanation by {self.method} of the {self.target.description()}; predicted '{self.prediction.label}' "
            f"({self.prediction.probability:.1%}); {len(self.encoding)} tokens; strongest: {strongest or 'none'}>"
        )


def merged(units: list[WordScore]) -> list[WordScore]:
    """Add up the instances of each word, whatever their case, in order of first instance."""
    groups: dict[str, list[WordScore]] = {}
    for unit in units:
        groups.setdefault(unit.text.casefold(), []).append(unit)
    return [
        replace(
            group[0],
            score=float(sum(unit.score for unit in group)),
            tokens=tuple(position for unit in group for position in unit.tokens),
            count=len(group),
        )
        for group in groups.values()
    ]


def _one_of(option: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise OptionError(
            f"{option} = '{value}' is not known.{suggestion(value, list(known))} Known: {', '.join(known)}."
        )
    return value
