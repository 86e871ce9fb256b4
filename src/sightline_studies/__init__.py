"""Five papers run again: one module per paper, from one command each, beside the published numbers.

    from sightline_studies import run_study
    result = run_study("attcat", out="attcat", size="tiny")

`STUDIES` lists them. Each is a `Study`: claims, data, models, sizes and the function that measures. A run stores every
result in its folder; started again, it resumes, and a finished one only rebuilds its tables. Names are imported
when first used: the command line reads this package to show its help.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline_studies.runner import STUDIES, estimate, find_study, run_study
    from sightline_studies.study import Outcome, Study, StudyResult
    from sightline_studies.verdicts import Case, Claim, Finding, Measured

__all__ = [
    "STUDIES",
    "Case",
    "Claim",
    "Finding",
    "Measured",
    "Outcome",
    "Study",
    "StudyResult",
    "estimate",
    "find_study",
    "run_study",
]

_HOMES = {
    **dict.fromkeys(("Outcome", "Study", "StudyResult"), "study"),
    **dict.fromkeys(("Case", "Claim", "Finding", "Measured"), "verdicts"),
}
"""Where a name is defined, if not in `runner`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sightline_studies' has no attribute '{name}'")
    home = _HOMES.get(name, "runner")
    return getattr(import_module(f"sightline_studies.{home}"), name)
