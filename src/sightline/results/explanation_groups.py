"""ByClass, ByMethod: several explanations of one document, as dictionaries that can be drawn together.

They are what `Model.explain` returns for all classes and for several methods. Both are plain dictionaries otherwise;
everything that draws them goes through their `report`.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sightline.results.explanation import Explanation
from sightline.results.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

V = TypeVar("V")


class _Group(dict[str, V]):
    """Explanations of one document by name."""

    @property
    @abstractmethod
    def report(self) -> Report:
        """The explanations as a report, which draws, saves and compares them."""

    def plot(self, path: str | Path | None = None) -> Figure:
        """Return one matplotlib figure with the text highlighted once per explanation; with `path`, also write it."""
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


class ByClass(_Group[Explanation]):
    """Label -> explanation by one method, in the order of the classes; or entity -> explanation."""

    @property
    def report(self) -> Report:
        """The explanations as a report, which draws, saves and compares them."""
        return Report({next(iter(self.values())).method: self})


class ByMethod(_Group[V]):
    """Method -> explanation, or method -> `ByClass` if several classes are explained."""

    @property
    def report(self) -> Report:
        """The explanations as a report, which draws, saves and compares them."""
        return Report(self)  # type: ignore[arg-type]  # V is one of the two


def group(by_method: dict[str, Any]) -> ByMethod[Any]:
    """Return what methods computed, by method or by method and label, as groups."""
    return ByMethod({name: ByClass(value) if isinstance(value, dict) else value for name, value in by_method.items()})
