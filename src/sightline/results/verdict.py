"""Verdict: how far an explanation can be trusted, derived from its check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ConfigDict, create_model

from sightline.results.check import EXCHANGE_ENTRIES, Check, Matters, SmallestSet, TestedWord
from sightline.results.records import Record, Share, Size, Whole, to_plain

VerdictLevel = Literal["holds", "weak", "poor", "unchecked"]
Reason = Literal[
    "matters",
    "not_shown",
    "too_small",
    "opposite",
    "untrained_model",
    "not_checked",
    "not_comparable",
    "same_without_text",
    "nothing_decides",
    "evidence_spread",
    "special_tokens_dominate",
]
ALPHA = 0.025
"""How often words that matter no more than random words are said to matter, at most."""
LARGEST_SPECIAL_SHARE = 0.5
"""Share of the total magnitude on special tokens above which the words, which are all a reader sees, are the smaller
part."""
NOT_COMPARABLE = "not_comparable"
"""Entry of `Explanation.checks` that says in a sentence why the explanation could not be checked."""


@dataclass(frozen=True)
class Verdict:
    """How far an explanation can be trusted.

    level: "holds" if the model reacts to the explanation's strongest words more than to comparable random words, at the
    level `alpha`. Believe that the named words matter to the model; they need not be all that matters, and its answer
    may still be wrong. "weak" if that was not shown: the words may matter or not, so do not rely on them. "poor" if it
    is misleading: the words push the other way, or the model has random weights. "unchecked" if nobody asked or the
    document leaves nothing to compare.
    """

    level: VerdictLevel
    matters: Matters | None = None
    """Whether the strongest words matter more than random words; None if that was not tested."""
    p_value: float | None = None
    """The p-value of that test, corrected for the number of explanations of the document that were tested."""
    alpha: float = ALPHA
    named: tuple[TestedWord, ...] = ()
    """The words that were tested together and that a summary may name; may be empty."""
    smallest_set: SmallestSet | None = None
    """The fewest strongest words without which the label changes; None if none was found or the label was not asked."""
    calls: int = 0
    """Documents that the model read for the check."""
    numbers: dict[str, float | int] = field(default_factory=dict)
    """The measurements in short: falls of the log-odds, probabilities, numbers of words and sets."""
    reasons: tuple[Reason, ...] = ("not_checked",)
    """Why, as codes; the first one decided the level."""
    detail: str = ""
    """Why the explanation could not be checked, in a sentence."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        record: dict[str, Any] = to_plain(self)
        return record


def judge(check: Check | None, checks: Mapping[str, Any]) -> Verdict:
    """Return the verdict on an explanation with this check and these diagnostics of its method."""
    special = checks.get("special_share")
    numbers: dict[str, float | int] = {} if special is None else {"special_share": special}
    dominated: list[Reason] = ["special_tokens_dominate"] if (special or 0.0) > LARGEST_SPECIAL_SHARE else []
    untrained: list[Reason] = ["untrained_model"] if checks.get("untrained") else []
    if check is None:
        reason: Reason = "not_comparable" if NOT_COMPARABLE in checks else "not_checked"
        level: VerdictLevel = "poor" if untrained else "unchecked"
        detail = str(checks.get(NOT_COMPARABLE, ""))
        return Verdict(level, numbers=numbers, reasons=(*untrained, reason, *dominated), detail=detail)
    level = "poor" if untrained else {"yes": "holds", "opposite": "poor"}.get(check.matters, "weak")  # type: ignore[assignment]
    same = check.empty is not None and check.empty.label == check.whole.label != ""
    reasons: list[Reason] = [*untrained, "matters" if check.matters == "yes" else check.matters]
    if same:
        reasons.append("nothing_decides" if check.is_undecided else "same_without_text")
    if check.matters == "yes" and not check.tested and not check.limit_reached:
        reasons.append("evidence_spread")
    return Verdict(
        level,
        matters=check.matters,
        p_value=check.p_value,
        named=check.named,
        smallest_set=check.smallest_set,
        calls=check.calls,
        numbers=numbers | _summarise(check),
        reasons=(*reasons, *dominated),
    )


def _summarise(check: Check) -> dict[str, float | int]:
    """Return the numbers of a check; falls are means over its counts."""
    falls = [check.whole.value - sum(values) / len(values) for values in check.random]
    strongest = check.without[-1]
    return {
        "fall": check.whole.value - sum(reading.value for reading in check.without) / len(check.without),
        **({"random_mean": sum(falls) / len(falls), "random_largest": max(falls)} if falls else {}),
        "random_sets": len(falls),
        "removed_words": check.counts[-1],
        "removed_share": check.counts[-1] / check.words,
        "probability": check.whole.probability,
        "probability_without": strongest.probability,
        **({} if check.empty is None else {"probability_empty": check.empty.probability}),
    }


DIAGNOSTICS: dict[str, Any] = {
    **dict.fromkeys(("untrained", "converged", "exact", "certified", "causal"), bool),
    **dict.fromkeys(("special_share", "measured_share", "artefact_share"), Share),
    **dict.fromkeys(("surrogate_fit", "relevance_given", "relevance_kept"), float),
    **dict.fromkeys(("completeness_gap", "change", "reconstruction_error", "conservation_error", "largest_gap"), Size),
    **dict.fromkeys(("largest_standard_error", "orderings", "evaluations", "model_calls", "clipped_rows"), Size),
    **dict.fromkeys(("settled_by_bounds", "settled_by_flow", "settled_by_cut", "dropped_tokens"), Size),
    **dict.fromkeys((name for name in EXCHANGE_ENTRIES if name != "artefact_share"), Whole),
    **dict.fromkeys(("replacement", NOT_COMPARABLE), str),
}
"""Type and range of the entries of `Explanation.checks`; plug-ins may add their own."""


class _Checks(Record):
    """Entries of plug-ins may be any number, text, true or false."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, bool | int | float | str]


_fields: dict[str, Any] = {name: (kind, None) for name, kind in DIAGNOSTICS.items()}
_Diagnostics = create_model("_Diagnostics", __base__=_Checks, **_fields)


def read_checks(checks: dict[str, Any]) -> dict[str, Any]:
    """Return saved `Explanation.checks`; raise ValueError if an entry is not what the sentences about it expect."""
    _Diagnostics.of(checks)
    return checks
