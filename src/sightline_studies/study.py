"""The vocabulary of a study: what a paper claims, what was measured here, and how the two compare.

A `Study` is declared once (`Study`): the paper, its claims with the rule by which each is judged, the data sets and
models it reads, the sizes it runs at, and one function that measures. The function works at a `Workbench`, which stores
every result, and returns an `Outcome`: tables, figures, findings and what differs from the paper. Nothing here draws.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.methods.layer_kind import LayerKind
from sightline.metrics.statistics import difference_ends, mean_interval, share_interval

if TYPE_CHECKING:
    import pandas as pd

    from sightline.results.explanation import Explanation
    from sightline_studies.workbench import Workbench

Verdict = Literal["confirmed", "contradicted", "undecided", "artefact", "not measured"]
LEAST_FIRST: tuple[Verdict, ...] = ("contradicted", "artefact", "undecided", "confirmed", "not measured")
"""Verdicts from the one that speaks most against a claim."""
Size = Literal["tiny", "small", "paper"]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Published:
    """A number that the paper prints."""

    value: float
    where: str
    """Table or section of the paper."""


@dataclass(frozen=True)
class Measured:
    """A mean over documents with its 95 % interval; fewer than six documents have none (NaN)."""

    value: float
    low: float
    high: float
    documents: int

    @classmethod
    def of(cls, values: npt.ArrayLike, seed: int = 0) -> Measured:
        """Return mean and interval of one value per document, (D,); NaN values are left out."""
        array = np.asarray(values, dtype=np.float64).ravel()
        array = array[np.isfinite(array)]
        return cls(*mean_interval(array, seed=seed), documents=array.size)

    @property
    def least(self) -> float:
        """The lower end of the interval; −∞ where there is none, so that the weakest effect has the smallest."""
        return -math.inf if math.isnan(self.low) else self.low

    def columns(self, prefix: str = "") -> dict[str, float]:
        """Return the columns of a table: mean, low and high, with a prefix before their names."""
        names = ("mean", "low", "high") if not prefix else (prefix, f"{prefix}_low", f"{prefix}_high")
        return dict(zip(names, (self.value, self.low, self.high), strict=True))


@dataclass(frozen=True)
class Claim:
    """A statement of the paper that a run can support or contradict."""

    name: str
    """A few words, for tables."""
    sentence: str
    rule: str
    """How the verdict follows from the numbers."""


def claim_of(claims: Sequence[Claim], name: str) -> Claim:
    """Return the claim of that name."""
    return next(claim for claim in claims if claim.name == name)


@dataclass(frozen=True)
class Finding:
    """What a run says about a claim."""

    claim: Claim
    verdict: Verdict
    evidence: str
    """One or two sentences with the numbers."""
    measured: Measured | None = None
    """The number that decides; None where nothing could be measured."""
    published: Published | None = None
    control: Measured | None = None
    """The same number where the effect cannot be there: random weights, shuffled scores."""
    tally: Tally | None = None
    """For claims about several models: in how many the claim holds."""


@dataclass(frozen=True, eq=False)
class StudyTable:
    """A table of the study."""

    name: str
    title: str
    frame: pd.DataFrame
    sentence: str = ""


@dataclass(frozen=True)
class Curve:
    """A line with its interval, one value per place on the horizontal axis."""

    name: str
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dashed: bool = False
    """For published values and controls."""

    @classmethod
    def of(cls, name: str, measured: Sequence[Measured], places: int = 0) -> Curve:
        """Return the line through measured means, continued by gaps to so many places."""
        gaps = [float("nan")] * (places - len(measured))
        values, low, high = ([*(getattr(m, key) for m in measured), *gaps] for key in ("value", "low", "high"))
        return cls(name, values, low, high)


@dataclass(frozen=True)
class Curves:
    """Lines over layers or settings."""

    places: Sequence[str]
    curves: Sequence[Curve]
    horizontal: str
    vertical: str


@dataclass(frozen=True)
class Dots:
    """Means with intervals beside a chance level, one panel per measure."""

    panels: Mapping[str, Sequence[tuple[str, Measured, float]]]
    """Measure -> (group, mean with interval, chance level)."""


@dataclass(frozen=True, eq=False)
class LayerMap:
    """Scores (L, n) of one document by layer and token."""

    layers: FloatArray
    labels: Sequence[str]
    kind: LayerKind
    signed: bool


@dataclass(frozen=True, eq=False)
class MatrixMaps:
    """Matrices (L, n, n) of one document, one per layer."""

    matrices: FloatArray
    labels: Sequence[str]


@dataclass(frozen=True, eq=False)
class HeadMap:
    """One number per layer and head, (L, H)."""

    values: FloatArray


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """Small pictures (L, H, s, s) of all heads, on one colour scale."""

    maps: FloatArray
    tokens: int
    """Length of the document."""
    importance: FloatArray | None = None
    """(L, H): a stronger frame for heads that matter more."""


@dataclass(frozen=True)
class InstanceCounts:
    """A line at the position of every instance of a word, as high as its count, one panel per kind of count."""

    positions: Sequence[int]
    counts: Mapping[str, Sequence[float]]
    tokens: int
    """Length of the document."""


@dataclass(frozen=True, eq=False)
class Overlay:
    """The text of one document on the colours of its scores."""

    explanation: Explanation
    true_label: str | None = None
    """Named beside the prediction."""
    total: bool = False
    """Whether to state the prediction and the sum of all scores."""


@dataclass(frozen=True, eq=False)
class Overlays:
    """The text of one document once per method, each on the colours of its scores."""

    explanations: Mapping[str, Explanation]


@dataclass(frozen=True, eq=False)
class Graphs:
    """Graphs (L, n, n) of one short document side by side, by name: nodes are tokens per layer, lines are weights."""

    graphs: Mapping[str, FloatArray]
    labels: Sequence[str]
    readout: int


Drawing = Curves | Dots | Graphs | LayerMap | MatrixMaps | HeadMap | HeadMaps | InstanceCounts | Overlay | Overlays


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure of the study, as data; `view.studies` draws it."""

    name: str
    title: str
    drawing: Drawing
    sentence: str = ""


@dataclass(frozen=True)
class Difference:
    """Something that is not as in the paper."""

    subject: str
    """Data, model, measure …"""
    paper: str
    here: str
    why: str


@dataclass(frozen=True)
class Outcome:
    """What a study measured."""

    tables: Sequence[StudyTable]
    figures: Sequence[Figure]
    findings: Sequence[Finding]
    differences: Sequence[Difference]
    left_out: Sequence[str] = ()
    """Parts of the paper that this run could not measure, each with what it would need."""


@dataclass(frozen=True)
class HubData:
    """A data set of the hub and the names of its fields."""

    address: str
    """hf://owner/name, or hf://owner/name:configuration."""
    text: str = "text"
    pair: str = "text_pair"
    label: str = "label"
    test: str = "test"
    """The split that is measured; the split "train" is trained on."""


@dataclass(frozen=True)
class PaperSize:
    """What a run at the size of the paper reads from the hub, and what it costs."""

    data: Mapping[str, HubData]
    """By name of the data set in the study."""
    models: Mapping[str, str]
    """Role of the model in the study -> hub id; empty if the study trains its own."""
    hours: float
    """On a machine with one graphics card, roughly."""
    gigabytes: float
    not_on_hub: tuple[str, ...] = ()
    """Data sets of the paper that the hub does not hold; they have to be given as files."""


@dataclass(frozen=True)
class Study:
    """One paper and how it is run again."""

    name: str
    title: str
    paper: str
    """Authors, year, title, venue."""
    question: str
    claims: tuple[Claim, ...]
    data: Mapping[str, str]
    """Data sets the study reads, by name, with what they are; `--data` supplies them, generated data replace them."""
    models: Mapping[str, str]
    """Roles of models that may be given, with what they are."""
    sizes: Mapping[Size, Mapping[str, int]]
    """Numbers of documents, training steps and so on, by size."""
    paper_size: PaperSize
    run: Callable[[Workbench], Outcome]

    @property
    def content(self) -> str:
        """What the record of its folder says that it holds."""
        return f"the study '{self.name}'"


@dataclass(frozen=True)
class StudyResult:
    """The result of a study."""

    study: Study
    outcome: Outcome
    facts: Mapping[str, str]
    """Settings and provenance, in words."""
    size: Size
    seed: int = 0
    notes: Sequence[str] = field(default_factory=tuple)


class Accuracy(NamedTuple):
    """How often a model is right, beside always naming the largest class."""

    measured: Measured
    majority: float
    gain: Measured
    """Accuracy minus majority."""

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]]) -> Accuracy:
        """Return the accuracy of "predicted" against "label" per entry, compared as text: "1" is 1."""
        labels = [str(entry["label"]) for entry in entries]
        hits = np.array([float(str(entry["predicted"]) == str(entry["label"])) for entry in entries])
        majority = max((labels.count(label) / len(labels) for label in set(labels)), default=float("nan"))
        share, low, high = share_interval(hits)
        gain = Measured(share - majority, low - majority, high - majority, hits.size)
        return cls(Measured(share, low, high, hits.size), majority, gain)

    def in_words(self) -> str:
        """Return a sentence."""
        return f"Accuracy {in_words(self.measured)}; the largest class alone gives {self.majority:.3f}."


@dataclass(frozen=True)
class Tally:
    """A claim about several models or data sets, measured in each of them.

    Documents that several models read are not independent, so that the groups are counted and never pooled.
    """

    effects: Mapping[str, Measured]
    """By model: an effect that is above 0 if the claim holds."""
    controls: Mapping[str, Measured] = field(default_factory=dict)
    """The same effect where its cause is absent, of the models that have such a control."""

    @property
    def known(self) -> dict[str, Measured]:
        """The effects that have a value."""
        return {name: measured for name, measured in self.effects.items() if measured.documents}

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """What each known effect says about the claim (`judge`)."""
        return {name: judge(measured, self.controls.get(name)) for name, measured in self.known.items()}

    @property
    def held(self) -> int:
        """In how many the claim is confirmed."""
        return Counter(self.verdicts.values())["confirmed"]

    @property
    def weakest(self) -> tuple[str, Measured]:
        """The group that speaks most against the claim: a claim about all models is judged where it holds least.

        Of groups with the same verdict it is the one whose interval reaches lowest.
        """
        known, verdicts = self.known, self.verdicts
        name = min(known, key=lambda group: (LEAST_FIRST.index(verdicts[group]), known[group].least), default="")
        return name, known[name] if name else Measured.of([])

    def in_words(self) -> str:
        """Return "in 4 of 6 cases (the opposite in 1, undecided in 1)"."""
        verdicts = Counter(self.verdicts.values())
        named: dict[Verdict, str] = {
            "contradicted": "the opposite",
            "artefact": "as much in the control",
            "undecided": "undecided",
        }
        rest = [f"{words} in {verdicts[verdict]}" for verdict, words in named.items() if verdicts[verdict]]
        return f"in {self.held} of {verdicts.total()} cases" + (f" ({', '.join(rest)})" if rest else "")


MOST_NAMES = 6
"""Models that a sentence names; more are counted."""


def _name_some(models: Sequence[str]) -> str:
    return ", ".join(models) if len(models) <= MOST_NAMES else "listed in the table of accuracies"


def not_judged(finding: Finding, unlearnt: Sequence[str]) -> Finding:
    """Return the finding without verdict and numbers: models that have not learnt the task say nothing about it."""
    evidence = (
        f"Not judged, because the task was not learnt ({_name_some(unlearnt)}): the accuracy of a model that has "
        "learnt something is above that of always naming the largest class."
    )
    return Finding(finding.claim, "not measured", evidence, published=finding.published)


def without_unlearnt(finding: Finding, unlearnt: Sequence[str], models: int) -> Finding:
    """Return a finding, made without the models that have not learnt the task, with a sentence about these, if any.

    models: how many there are. If none of them has learnt the task, nothing was measured.
    """
    if not unlearnt:
        return finding
    if len(unlearnt) == models:
        return not_judged(finding, unlearnt)
    names = _name_some(unlearnt)
    note = f"Left out, because they have not learnt the task: {len(unlearnt)} of {models} models ({names})."
    return replace(finding, evidence=f"{finding.evidence} {note}")


ROUNDING = 1e-12
"""An effect that is smaller comes from rounding."""


def judge(effect: Measured, control: Measured | None = None) -> Verdict:
    """Return the verdict about an effect that the claim says is above 0.

    confirmed: the interval lies above 0, and so does that of the difference to the control, if there is one.
    contradicted: it lies below 0. artefact: it lies above 0, but so does the control's, and the difference does not:
    the effect is there where its cause is absent. undecided: the intervals allow both, or there are none (fewer than
    six documents). not measured: there is no value.
    """
    if not effect.documents:
        return "not measured"
    if effect.high < -ROUNDING:
        return "contradicted"
    if not effect.low > ROUNDING:
        return "undecided"
    if control is None or minus_control(effect, control).low > ROUNDING:
        return "confirmed"
    return "artefact" if control.low > ROUNDING else "undecided"


def minus_control(effect: Measured, control: Measured) -> Measured:
    """Return the effect minus that of the control, with the interval of the difference."""
    means = [(each.value, each.low, each.high) for each in (effect, control)]
    low, high = difference_ends(*means)
    return Measured(effect.value - control.value, float(low), float(high), min(effect.documents, control.documents))


def shared_difference(first: Mapping[Any, float], second: Mapping[Any, float], seed: int = 0) -> Measured:
    """Return the mean of first − second over the documents that have both values, with its interval."""
    return Measured.of([first[key] - second[key] for key in first if key in second], seed)


def in_words(measured: Measured) -> str:
    """Return "0.41 (0.38 to 0.44, 50 documents)"."""
    if not measured.documents:
        return "no value"
    value, low, high = (two_digits(number) for number in (measured.value, measured.low, measured.high))
    ends = "no interval" if measured.low != measured.low else f"{low} to {high}"
    return f"{value} ({ends}, {measured.documents:,} documents)"


def two_digits(value: float) -> str:
    """Return a number with two significant digits, and at most four decimals: 0.41, −0.0083, 12."""
    if value != value:
        return "–"
    places = 4 if value == 0 else min(4, max(0, 1 - math.floor(math.log10(abs(value)))))
    text = f"{value:z.{places}f}"
    return "0" if float(text) == 0 else text.replace("-", "−")
