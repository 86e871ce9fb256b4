"""Settings of an inspection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sightline.settings.data import SeedSettings
from sightline.settings.defaults import INSPECT_METHODS
from sightline.settings.options import Rule, option, unused
from sightline.settings.values import split_assignments, split_names

Count = Literal["tokens", "pairs"]
"""How relations are counted: every querying token once, or every list of a layer and head."""
DataSetRule = Literal["mean-present", "mean-all"]


def _stop_words(language: str) -> str | None:
    return None if language.casefold() == "none" else language


@dataclass(frozen=True, kw_only=True)
class InspectSettings(SeedSettings):
    """What to inspect, and how."""

    methods: tuple[str, ...] = option(
        INSPECT_METHODS,
        flag=("--method", "--methods"),
        metavar="NAME,…",
        read=split_names,
        help=f"Method, or several with commas; may be repeated. [default: {', '.join(INSPECT_METHODS)}]",
    )
    options: Mapping[str, Any] = option(
        {},
        flag="--option",
        metavar="KEY=VALUE",
        read=split_assignments,
        help="Option of the method, or METHOD.KEY=VALUE; may be repeated.",
    )
    stop_words: str | None = option(
        "en",
        metavar="LANGUAGE",
        read=_stop_words,
        help="Leave out the stop words of this language; 'none' keeps all words.",
    )
    top_k: int = option(10, low=1, metavar="N", help="Partners counted per token, and rows per list.")
    layer: int | None = option(
        None, metavar="N", help="Show the words and the map of one layer, from 0. [default: all]"
    )
    head: int | None = option(None, metavar="N", help="Show those of one head, from 0. [default: all]")
    count: Count | None = option(
        None,
        help="Count each querying token once over layers and heads, or each (layer, head, token). "
        "[default: tokens; pairs with --scaled]",
    )
    word: str | None = option(
        None, metavar="WORD", help="Word whose instances are listed. [default: the most attended one]"
    )
    position: int | None = option(
        None, metavar="N", help="Token to follow through all heads. [default: the most attended token]"
    )
    head_importance: bool = option(
        True, flag="--head-importance/--no-head-importance", help="Compute the importance of each head."
    )
    scaled: bool = option(
        False, flag="--scaled/--unscaled", help="Weight heads by their importance in totals and counts."
    )
    anisotropy: bool = option(False, help="Also show whether representations point the same way, by layer.")
    effective: bool = option(False, help="Also show how much attention has no effect, because values cancel.")
    check: bool = option(
        False, flag="--check/--no-check", help="Compare the explanation with random orders of the words."
    )
    rule: DataSetRule | None = option(
        None,
        help="With --data: average a word's scores over the documents that contain it, or over all documents. "
        "[default: mean-all with --target, else mean-present]",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        unused(
            "scaled",
            when=lambda settings: settings.count == "tokens",
            reason="weights every list of partners; leave out {count} tokens.",
        ),
        unused(
            "scaled",
            when=lambda settings: not settings.head_importance,
            reason="needs the importance of the heads; leave out {no_head_importance}.",
        ),
    )
