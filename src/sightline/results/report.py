"""Report: everything a page shows of one document.

Explanations by method (and class), what was seen inside the model, checks, provenance and timing.
`Model.report` makes one; the command line, the server, the notebook and `Explanation.to_html` all draw one.

`Model.explain` returns one for all classes or entities of a document. For several methods and one target it returns a
`ByMethod`, a dictionary that is drawn through its `report`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from sightline.analysis.consensus import Consensus, find_consensus
from sightline.errors import InputError, UsageError
from sightline.files.foreign import quote
from sightline.methods import METHODS
from sightline.results import report_storage
from sightline.results.explanation import Explanation
from sightline.results.inside import Inside
from sightline.results.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sightline.models import Prediction
    from sightline.text import Encoding

T = TypeVar("T")
Explanations = Mapping[str, Explanation | Mapping[str, Explanation]]
"""Method -> explanation, or method -> label -> explanation when several classes are explained."""


class Entry(NamedTuple):
    """One explanation of a report with the names it goes by."""

    method: str
    label: str | None
    """The class, if the method explains several."""
    explanation: Explanation


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """Explanations of one document, with everything else that a page shows."""

    explanations: Explanations
    """By method, and by class within a method if several classes are explained, as `Model.explain` returns them."""
    inside: Inside | None = None
    """Relations between tokens, head maps and head importance."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each stage took: "explain", "inside", "check"."""

    def __post_init__(self) -> None:
        if not self.explanations or not all(self.explanations.values()):
            raise UsageError("A report needs at least one explanation.")
        first, *others = (entry.explanation.encoding for entry in self.entries())
        if any(not _is_same_document(first, other) for other in others):
            raise UsageError("A report shows one document: these explanations are of different texts.")
        origins = [explanation.provenance for explanation in self if "weights" in explanation.provenance]
        models = {str(origin["weights"]): f"'{quote(origin.get('model'))}'" for origin in origins}
        if len(models) > 1:
            names = " and ".join(models.values())
            raise UsageError(
                f"A report shows one model: these explanations were made with different weights ({names}). Make a "
                "report of each."
            )
        if self.inside is not None and self.inside.tokens != len(first):
            raise InputError(
                f"`inside` describes {self.inside.tokens} tokens, the explanations {len(first)}: "
                "make it from a trace of the same document."
            )

    @classmethod
    def of(cls, explanations: Sequence[Explanation], *, inside: Inside | None = None) -> Report:
        """Return the report of a list of explanations of one document.

        Several targets of one method are keyed by their class, or by their description where that is not enough;
        several runs for one target are numbered after the method's name.
        """
        by_method: dict[str, dict[str, Explanation]] = {}
        for explanation, method in zip(explanations, _number_runs(explanations), strict=True):
            by_method.setdefault(method, {})[explanation.target.description()] = explanation
        return cls(
            {method: _by_class(list(by_label.values())) for method, by_label in by_method.items()}, inside=inside
        )

    def entries(self) -> list[Entry]:
        """Return all explanations with their names, method by method, class by class, the predicted class first."""
        entries: list[Entry] = []
        for method, explanation in self.explanations.items():
            if isinstance(explanation, Explanation):
                entries.append(Entry(method, None, explanation))
            else:
                by_class = [Entry(method, label, of_class) for label, of_class in explanation.items()]
                entries += sorted(by_class, key=lambda entry: not _explains_prediction(entry.explanation))
        return entries

    def by_target(self, method: str | None = None) -> dict[str, Explanation]:
        """Return the explanations of one method (the first by default) by class or entity, in the model's order."""
        if method is not None and method not in self.explanations:
            raise InputError(f"The report has no explanation by '{method}', only by {', '.join(self.explanations)}.")
        chosen = next(iter(self.explanations.values())) if method is None else self.explanations[method]
        return {chosen.target.name: chosen} if isinstance(chosen, Explanation) else dict(chosen)

    def __iter__(self) -> Iterator[Explanation]:
        return (entry.explanation for entry in self.entries())

    def __len__(self) -> int:
        return len(self.entries())

    @property
    def first(self) -> Explanation:
        """The explanation that is shown first."""
        return next(iter(self))

    @property
    def encoding(self) -> Encoding:
        """The document."""
        return self.first.encoding

    @property
    def prediction(self) -> Prediction:
        """What the model predicted."""
        return self.first.prediction

    @property
    def provenance(self) -> dict[str, Any]:
        """What produced the report: model, hash of its weights, versions."""
        return self.first.provenance

    @property
    def verdicts(self) -> dict[str, Verdict | dict[str, Verdict]]:
        """How far to trust each explanation, under the keys of `explanations`."""
        return self._map(lambda explanation: explanation.verdict)

    @property
    def headline(self) -> str:
        """A sentence to quote: what the model says, the words that decided it, and how far to trust that."""
        from sightline.view.words.headline import headline

        return headline(self.first)

    @property
    def consensus(self) -> Consensus | None:
        """Words that all methods rank among their strongest for the target shown first; None for a single method."""
        target = self.first.target
        same_target = {
            entry.method: entry.explanation for entry in self.entries() if entry.explanation.target == target
        }
        explanations = list(same_target.values())
        return find_consensus(explanations) if len(explanations) > 1 and self.first.words() else None

    @property
    def titles(self) -> dict[str, str]:
        """The name of each method for people; two runs of one method keep their number."""
        return {
            name: title + name.removeprefix(explanation.method)
            if (title := _method_fact(explanation, "title"))
            else name
            for name, _, explanation in self.entries()
        }

    @property
    def summaries(self) -> dict[str, str]:
        """What each method computes, in one sentence; empty for a method that is not registered here."""
        return {name: _method_fact(explanation, "summary") for name, _, explanation in self.entries()}

    @property
    def formulas(self) -> dict[str, str]:
        """The formula of each method; empty for a method that is not registered here."""
        return {name: _method_fact(explanation, "formula") for name, _, explanation in self.entries()}

    def _map(self, function: Callable[[Explanation], T]) -> dict[str, T | dict[str, T]]:
        return {
            method: function(explanation)
            if isinstance(explanation, Explanation)
            else {label: function(of_class) for label, of_class in explanation.items()}
            for method, explanation in self.explanations.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON values.

        Of `inside` it holds head importance and the relations; the head maps are pictures and left to `save`.
        """
        return {
            **report_storage.ReportRecord.header(),
            "headline": self.headline,
            "explanations": self._map(lambda explanation: explanation.to_dict()),
            "consensus": None if (consensus := self.consensus) is None else consensus.to_dict(),
            "inside": None if self.inside is None else report_storage.inside_record(self.inside),
            "provenance": self.provenance,
            "seconds": dict(self.seconds),
        }

    @overload
    def to_html(self, path: None = None, *, title: str | None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path, *, title: str | None = None) -> Path: ...
    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str | Path:
        """Return the report as one self-contained page; with `path`, write it there and return the path."""
        from sightline.files.writing import write_or_return
        from sightline.view.page.html import render_page

        return write_or_return(render_page(self, title=title), path)

    def plot(self, path: str | Path | None = None, *, true_label: str | None = None) -> Figure:
        """Return the highlighted text as a matplotlib figure, once per explanation; with `path`, also write it.

        For papers and slides: `path` ends in .svg, .png or .pdf. Of a long document the figure shows the lines with the
        strongest scores, and says which. true_label: named in the title, beside the prediction.
        """
        from sightline.view.plots.highlighted_text import report_overlay
        from sightline.view.plots.style import save_figure

        figure = report_overlay(self, true_label=true_label)
        if path is not None:
            save_figure(figure, path)
        return figure

    def show(self, *, title: str | None = None, predict: Callable[[str, str | None], Prediction] | None = None) -> Any:
        """Return the page as a notebook widget (needs the extra `notebook`).

        `predict` returns the prediction for an edited text and its pair, for example
        `lambda text, pair: model.trace(model.encode(text, pair)).prediction`. With it, the reader can edit the text in
        the page and run the model again.
        """
        from sightline.view.page.notebook import show

        return show(self, title=title, predict=predict)

    def save(self, path: str | Path) -> None:
        """Write everything to one `.zip` file of JSON and plain arrays, from which `load` rebuilds it bit for bit."""
        report_storage.write(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """Read a report written by `save`."""
        return cls(**report_storage.read(Path(path)))

    def _repr_html_(self) -> str:
        from sightline.view.page.notebook import render_static

        return render_static(self)

    def __repr__(self) -> str:
        return (
            f"<Report on {len(self.encoding)} tokens; {self.prediction.describe()}; "
            f"methods: {', '.join(self.explanations)}{'' if self.inside is None else '; with inside'}>"
        )


def method_title(explanation: Explanation) -> str:
    """Return the name of the method for people."""
    return _method_fact(explanation, "title") or explanation.method


def _method_fact(explanation: Explanation, fact: str) -> str:
    """Return what the registry says about the method of an explanation, or an empty string."""
    return str(getattr(METHODS.get(explanation.method), fact)) if explanation.method in METHODS else ""


def _number_runs(explanations: Sequence[Explanation]) -> list[str]:
    """Return the method of each explanation, numbered if it explains one target more than once."""
    seen: Counter[tuple[str, str]] = Counter()
    runs = []
    for explanation in explanations:
        key = explanation.method, explanation.target.description()
        seen[key] += 1
        runs.append(seen[key])
    repeated = {method for (method, _), count in seen.items() if count > 1}
    return [
        f"{explanation.method} {run}" if explanation.method in repeated else explanation.method
        for explanation, run in zip(explanations, runs, strict=True)
    ]


def _by_class(explanations: list[Explanation]) -> Explanation | dict[str, Explanation]:
    """Return the explanations of one method by class; a single one as it is."""
    if len(explanations) == 1:
        return explanations[0]
    classes = [explanation.target.name for explanation in explanations]
    return {
        name if classes.count(name) == 1 else explanation.target.description(): explanation
        for name, explanation in zip(classes, explanations, strict=True)
    }


def _explains_prediction(explanation: Explanation) -> bool:
    """Return whether the target is the class that the model predicts for the document."""
    target = explanation.target
    is_class = target.contrast is None and not target.read_positions
    return is_class and target.index == explanation.prediction.index


def _is_same_document(first: Encoding, second: Encoding) -> bool:
    """Whether two encodings are of the same text cut into the same tokens."""
    return first is second or (
        first.text == second.text
        and first.pair == second.pair
        and first.tokens == second.tokens
        and bool((first.offsets == second.offsets).all())
    )


class ByMethod(dict[str, Explanation]):
    """Method -> explanation of one document, as `Model.explain` returns them for several methods."""

    @property
    def report(self) -> Report:
        """The explanations as a report, which draws, saves and compares them."""
        return Report(self)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Return one matplotlib figure with the text highlighted once per method; with `path`, also write it."""
        return self.report.plot(path)

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path) -> Path: ...
    def to_html(self, path: str | Path | None = None) -> str | Path:
        """Return one self-contained page with all explanations; with `path`, write it there and return the path."""
        return self.report.to_html(path)

    def show(self) -> Any:
        """Return the page as a notebook widget (needs the extra `notebook`)."""
        return self.report.show()

    def _repr_html_(self) -> str:
        return self.report._repr_html_()
