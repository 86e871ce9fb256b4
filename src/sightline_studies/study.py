"""The vocabulary of a study: what a paper claims, what was measured here, and how the two compare.

A `Study` is declared once (`Study`): the paper, its claims, the data sets and models it reads, the sizes it runs at,
and one function that measures. The function works at a `Workbench`, which stores every result, and returns an
`Outcome`: tables, figures, findings and the settings that differ from the paper. Nothing here draws.

A verdict has three parts: what the paper printed, what was measured in the same quantity with its interval, and whether
the two agree, disagree, or cannot be told apart by this sample, with the difference that it would have shown. Whether
the effect is also there where its cause is absent (random weights, shuffled scores) is a column of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from sightline.methods.layer_kind import LayerKind

if TYPE_CHECKING:
    import pandas as pd

    from sightline.results.explanation import Explanation
    from sightline_studies.workbench import Workbench
from sightline_studies.verdicts import Claim, Finding, Measured

Size = Literal["tiny", "small", "paper"]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StudyTable:
    """A table of the study."""

    name: str
    title: str
    frame: pd.DataFrame
    sentence: str = ""
    appendix: bool = False
    """Whether it belongs to the appendix."""


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
    def of(cls, name: str, measured: Sequence[Measured]) -> Curve:
        """Return the line through measured means."""
        values, low, high = ([getattr(each, key) for each in measured] for key in ("value", "low", "high"))
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
    """The text of one document, coloured by its scores."""

    explanation: Explanation
    true_label: str | None = None
    """Named beside the prediction."""
    total: bool = False
    """Whether to state the prediction and the sum of all scores."""


@dataclass(frozen=True, eq=False)
class Overlays:
    """The text of one document once per method, each coloured by its scores."""

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
class Setting:
    """A setting of the paper, what `--size paper` has in its place, and what this run has."""

    subject: str
    """Data, model, measure …"""
    paper: str
    at_paper_size: str
    """"the same", or what still differs."""
    here: str
    why: str = ""
    """Why this run differs."""
    why_at_paper_size: str = ""
    """Why that size still differs."""


@dataclass(frozen=True)
class Outcome:
    """The results of a study."""

    tables: Sequence[StudyTable]
    figures: Sequence[Figure]
    findings: Sequence[Finding]
    settings: Sequence[Setting]
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
    cannot_judge: Mapping[Size, str]
    """What a run of a smaller size cannot judge."""
    run: Callable[[Workbench], Outcome]

    @property
    def content(self) -> str:
        """The content type in the record of its folder."""
        return f"the study '{self.name}'"


def by_size(**numbers: tuple[int, int, int]) -> dict[Size, dict[str, int]]:
    """Return the numbers of a tiny run, a small one and one of the size of the paper, given in this order."""
    sizes: tuple[Size, ...] = ("tiny", "small", "paper")
    return {size: {name: values[place] for name, values in numbers.items()} for place, size in enumerate(sizes)}


@dataclass(frozen=True)
class StudyResult:
    """The result of a study."""

    study: Study
    outcome: Outcome
    facts: Mapping[str, str]
    """Settings and provenance, in words."""
    size: Size
    seed: int = 0
