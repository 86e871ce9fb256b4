"""Explanation: how much each token contributed to the explained number, with what is needed to judge or repeat it.

`scores` (n,) belong to the n tokens of the encoding, specials included. The magnitude says how much; for signed methods
the sign says for (+) or against (−) the target. The score of a word is the sum of its tokens by default, because
contributions add up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from sightline.errors import ModelError
from sightline.files.foreign import printable
from sightline.methods.layer_kind import LayerKind, resolve_layer_kind
from sightline.models.target import Prediction, Target
from sightline.results import explanation_storage, foreign_forms
from sightline.results.check import EXCHANGE_ENTRIES, REASONS, Artefact, ArtefactReason, Check, Exchange
from sightline.results.explanation_storage import to_jsonable
from sightline.results.records import reading
from sightline.results.verdict import Verdict, judge
from sightline.settings.values import check_count, check_one_of
from sightline.text import Encoding
from sightline.text.encoding import ReadOnlyArrays, protect
from sightline.text.units import Level, units_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from sightline.results.inside import Inside
    from sightline.results.report import Report

Aggregate = Literal["sum", "mean", "max_abs"]
Sign = Literal["any", "for", "against"]
FloatArray: TypeAlias = NDArray[np.floating[Any]]

_STORABLE_KINDS = "biuf"
_OF_THE_METHOD = ("method", "layers", "checks", "options", "extras", "check", "exchange")
"""Fields about the origin or the trustworthiness of the scores, which are not valid for other scores."""
_OF_THE_MODEL = ("untrained",)
"""Entries of `checks` that are valid for any scores."""
EDITED = " (edited)"
"""Suffix of the method's name if its scores were replaced."""


def fingerprint_scores(scores: FloatArray) -> str:
    """Return a digest of scores (n,): equal for equal numbers, whatever their precision."""
    values = np.ascontiguousarray(scores, dtype="<f8") + 0.0  # −0.0 equals 0.0
    return hashlib.sha256(values.tobytes()).hexdigest()[:16]


@dataclass(frozen=True)
class WordScore:
    """The score of one word (or token) of the document.

    `start` and `end` are characters of the text (segment 0) or its pair (segment 1); `index` is the place among the
    words (or tokens) of the document; `tokens` are the positions of its tokens; `count` is above 1 only for words
    merged by `Explanation.top(merge=True)`, which keep the place of their first instance.
    """

    text: str
    """The word as it is written in the document."""
    score: float
    """Its score: by default the sum over its tokens."""
    start: int
    end: int
    segment: int
    index: int
    tokens: tuple[int, ...]
    count: int = 1


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ReadOnlyArrays):
    """The scores of all tokens for one target, by one method.

    Arrays are read-only copies and always finite; `checks`, `options` and `provenance` hold plain JSON values, so that
    every explanation can be saved.

    `dataclasses.replace(explanation, scores=...)` makes an explanation of other scores, or with `target=`,
    `prediction=` and `encoding=` one of something else: "(edited)" is added to the method, and layers, checks, options
    and extras that are not given as well are dropped.
    """

    method: str
    """Name of the method."""
    scores: FloatArray
    """(n,) one score per token, specials included."""
    encoding: Encoding
    """The document as the model read it."""
    target: Target
    """What is explained: a class, a contrast, a token, an answer."""
    prediction: Prediction
    """What the model predicted for the document."""
    layers: FloatArray | None = None
    """(L, n) scores per layer, for methods that have them."""
    layer_kind: LayerKind | None = None
    """How `layers` relate to `scores`: "additive", "averaged", "cumulative" or "separate"; None without layers."""
    checks: dict[str, float | int | str | bool] = field(default_factory=dict)
    """Numbers about how it was computed: completeness gap, share on specials, …"""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the method."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """What produced it: model, hash of its weights, versions."""
    extras: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Further arrays of the method, by name."""
    signed: bool = True
    """False if the method says how much each token matters but not in which direction."""
    check: Check | None = None
    """What deleting words showed, if the explanation was checked (`check=True`)."""
    exchange: Exchange | None = None
    """What exchanging the strongest words showed, if that was done (`check=True`); see `artefacts`."""
    _origin: tuple[tuple[str, Target, Prediction, Encoding], dict[str, Any]] | None = None
    """Digest of the scores, their subject and dependent fields, which `dataclasses.replace` passes on; internal."""

    def __post_init__(self) -> None:
        n = len(self.encoding)
        self._set("scores", self._finite_copy("scores", self.scores, (n,)))
        self._drop_stale_fields()
        if self.layers is not None:
            layers = np.asarray(self.layers)
            self._set("layers", self._finite_copy("layers", layers, (len(layers), n)))
        self._set("layer_kind", resolve_layer_kind(self.layer_kind, has_layers=self.layers is not None))
        self._set("extras", {str(name): self._finite_copy(f"extra '{name}'", a) for name, a in self.extras.items()})
        for name in ("checks", "options", "provenance"):
            given: Mapping[str, Any] = getattr(self, name)
            self._set(name, {str(key): to_jsonable(value, f"{name}['{key}']") for key, value in given.items()})
        self._drop_foreign_check()
        self._set("_origin", (self._subject(), {name: getattr(self, name) for name in _OF_THE_METHOD}))

    def _subject(self) -> tuple[str, Target, Prediction, Encoding]:
        """Return what all other fields depend on: the scores, the target, the prediction and the document."""
        return fingerprint_scores(self.scores), self.target, self.prediction, self.encoding

    def _drop_stale_fields(self) -> None:
        """Remove what belongs to another subject (`_subject`), unless it was replaced as well."""
        if self._origin is None or self._origin[0] == self._subject():
            return
        stale = {name for name, value in self._origin[1].items() if getattr(self, name) is value}
        if "method" in stale:
            self._set("method", f"{self.method.removesuffix(EDITED)}{EDITED}")
        if "layers" in stale:
            self._set("layer_kind", None)
        if "checks" in stale:
            self._set("checks", {name: self.checks[name] for name in _OF_THE_MODEL if name in self.checks})
        for name in stale - {"method", "checks"}:
            self._set(name, {} if name in ("options", "extras") else None)

    def _drop_foreign_check(self) -> None:
        """Remove what a check measured, and its entries in `checks`, if it was made for other scores than these."""
        for name, entries in (("check", ()), ("exchange", EXCHANGE_ENTRIES)):
            measured = getattr(self, name)
            if measured is not None and measured.fingerprint not in ("", fingerprint_scores(self.scores)):
                self._set(name, None)
                self._set("checks", {entry: value for entry, value in self.checks.items() if entry not in entries})

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _finite_copy(self, name: str, values: Any, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
        """Return a read-only copy of an array of real numbers; raise if its shape is wrong or a value is not finite."""
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
                "inside the model. Try another dtype or check the weights."
            )
        return protect(array)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens as a person sees them, one per score."""
        return self.encoding.tokens

    @cached_property
    def verdict(self) -> Verdict:
        """How far to trust the explanation: what its check means."""
        return judge(self.check, self.checks)

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        """Scores that say nothing about a word: words whose score belongs to their position, then special tokens.

        Words are known once the explanation was checked. Special tokens with score 0 are not listed.
        """
        tested = () if self.exchange is None else self.exchange.artefacts
        specials = np.flatnonzero(self.encoding.special & (self.scores != 0.0)).tolist()
        return (*tested, *(Artefact((position,), "special") for position in specials))

    @property
    def artefact_tokens(self) -> dict[int, ArtefactReason]:
        """Token positions in `artefacts` -> reason."""
        return {position: artefact.reason for artefact in self.artefacts for position in artefact.tokens}

    def words(self, aggregate: Aggregate = "sum") -> list[WordScore]:
        """Return the words in document order, without specials.

        A word's score is the sum of its tokens, their mean, or the token score of greatest magnitude (`max_abs`). A
        word cut by truncation counts with its remaining tokens; words without tokens are not listed.

        Examples
        --------
        >>> import sightline as sl
        >>> explanation = sl.load().explain("A neural network learns.", method="attcat")
        >>> [word.text for word in explanation.words()]
        ['A', 'neural', 'network', 'learns', '.']
        """
        check_one_of("aggregate", aggregate, ("sum", "mean", "max_abs"))
        return self._score_units("word", aggregate)

    def units(self, level: Level = "word") -> list[WordScore]:
        """Return the words, tokens, sentences or paragraphs in document order, without specials; scores are sums."""
        return self._score_units(level, "sum")

    def _score_units(self, level: Level, aggregate: Aggregate) -> list[WordScore]:
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
        """Return the k strongest words (or tokens) by |score|, ties in document order, without specials.

        `sign` selects those for (score > 0) or against (score < 0) the target. With `merge`, instances of one word are
        added up before ranking, ignoring case.

        Examples
        --------
        >>> import sightline as sl
        >>> explanation = sl.load().explain("A neural network learns. The network predicts.", method="attcat")
        >>> [word.text for word in explanation.top(3, merge=True)]
        ['learns', 'neural', 'network']
        """
        check_count("k", k, 0)
        check_one_of("sign", sign, ("any", "for", "against"))
        units = self.units(level)
        if merge:
            units = merge_instances(units)
        if sign != "any":
            units = [unit for unit in units if (unit.score > 0 if sign == "for" else unit.score < 0)]
        return sorted(units, key=lambda unit: -abs(unit.score))[:k]

    def to_frame(self, level: Level = "token") -> pd.DataFrame:
        """Return a pandas frame with one row per token (specials included and marked), word, sentence or paragraph.

        Examples
        --------
        >>> import sightline as sl
        >>> explanation = sl.load().explain("A neural network learns.", method="attcat")
        >>> list(explanation.to_frame("word").columns)
        ['word', 'score', 'index', 'segment', 'start', 'end', 'tokens']
        """
        import pandas as pd

        if level != "token":
            columns = [level, "score", "index", "segment", "start", "end", "tokens"]
            rows = [
                (word.text, word.score, word.index, word.segment, word.start, word.end, len(word.tokens))
                for word in self.units(level)
            ]
            return pd.DataFrame(rows, columns=columns).astype(
                {"score": np.float64} | dict.fromkeys(columns[2:], np.int64)
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

    def to_dict(self, level: Level = "word") -> dict[str, Any]:
        """Return everything as plain JSON values: the saved record, with verdict, words and artefacts.

        For `level` "sentence" or "paragraph" these are listed as well, under "sentences" or "paragraphs".
        """
        levels: list[Level] = ["word"] if level in ("token", "word") else ["word", level]
        units = {
            f"{name}s": [
                {"text": unit.text, "score": unit.score, "start": unit.start, "end": unit.end, "segment": unit.segment}
                for unit in self.units(name)
            ]
            for name in levels
        }
        return {**explanation_storage.to_record(self), **units, "artefacts": self.describe_artefacts()}

    def to_shap(self, level: Level = "word") -> Any:
        """Return a `shap.Explanation` for the plots of shap, one entry per word (needs the package shap).

        Its base value is the explained number minus the scores, NaN if the prediction does not contain that number.
        """
        return foreign_forms.to_shap(self, level)

    def to_captum(self, true_label: str | None = None) -> Any:
        """Return captum's `VisualizationDataRecord` for its tables, one entry per token (needs the package captum)."""
        return foreign_forms.to_captum(self, true_label)

    def to_dataset(self, level: Level = "word") -> Any:
        """Return a `datasets.Dataset` with the rows of `to_frame` (needs the extra `datasets`)."""
        return foreign_forms.to_dataset(self, level)

    def describe_artefacts(self) -> list[dict[str, Any]]:
        """Return one plain record per artefact: its text, tokens, score, reason and what the reason means."""
        return [
            {
                "text": "".join(self.tokens[position] for position in artefact.tokens),
                "tokens": list(artefact.tokens),
                "score": float(self.scores[list(artefact.tokens)].sum()),
                "reason": artefact.reason,
                "meaning": REASONS[artefact.reason],
                **({} if artefact.stays is None else {"stays": artefact.stays, "moves": artefact.moves}),
            }
            for artefact in self.artefacts
        ]

    @overload
    def to_html(self, path: None = None, *, inside: Inside | None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path, *, inside: Inside | None = None) -> Path: ...
    def to_html(self, path: str | Path | None = None, *, inside: Inside | None = None) -> str | Path:
        """Return the explanation as one self-contained page; with `path`, write it there and return the path.

        `inside` (from `sightline.analysis.inside`) adds what attends to what and the head maps; `Model.report` makes
        all of it in one call.
        """
        return self._report(inside).to_html(path)

    def plot(self, path: str | Path | None = None, *, true_label: str | None = None) -> Figure:
        """Return the highlighted text as a matplotlib figure; with `path` (.svg, .png or .pdf), also write it.

        true_label: named in the title, beside the prediction.
        """
        return self._report(None).plot(path, true_label=true_label)

    def show(self, *, inside: Inside | None = None) -> Any:
        """Return the page as a notebook widget (needs the extra `notebook`)."""
        return self._report(inside).show()

    def _report(self, inside: Inside | None) -> Report:
        from sightline.results.report import Report

        return Report({self.method: self}, inside=inside)

    def save(self, path: str | Path) -> None:
        """Write everything to one `.json` or `.parquet` file, from which `load` rebuilds it bit for bit.

        Examples
        --------
        >>> import sightline as sl
        >>> explanation = sl.load().explain("A neural network learns.", method="attcat")
        >>> explanation.save("explanation.json")
        >>> bool((sl.Explanation.load("explanation.json").scores == explanation.scores).all())
        True
        """
        explanation_storage.write(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Read an explanation written by `save`."""
        arguments = explanation_storage.read(Path(path))
        with reading(f"'{path}'"):
            return cls(**arguments)

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, encoding: Encoding | None = None) -> Explanation:
        """Rebuild an explanation from `to_dict`, using `encoding` if given.

        A damaged record raises TypeError or ValueError.
        """
        return cls(**explanation_storage.from_record(record, encoding=encoding))

    def _repr_html_(self) -> str:
        return self._report(None)._repr_html_()

    def __repr__(self) -> str:
        strongest = ", ".join(f"{word.text!r} {word.score:+.3g}" for word in self.top(3))
        return (
            f"<Explanation by {self.method} of the {printable(self.target.description())}; "
            f"{self.prediction.describe()}; {len(self.encoding)} tokens; strongest: {strongest or 'none'}>"
        )


def merge_instances(units: list[WordScore]) -> list[WordScore]:
    """Add up the instances of each word, ignoring case, in order of first instance."""
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
