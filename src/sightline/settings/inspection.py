"""Settings of an inspection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sightline.settings.evaluation import SeedSettings
from sightline.settings.explain import INSPECT_METHODS
from sightline.settings.options import OptionRule, option, unused
from sightline.settings.values import split_assignments, split_names

PartnerCount = Literal["tokens", "pairs"]
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
    """Options of the methods: method -> option -> value."""
    stop_words: str | None = option(
        "en",
        metavar="LANGUAGE",
        read=_stop_words,
        help="Leave out the stop words of this language; 'none' keeps all words.",
    )
    """Language whose stop words are left out of lists, with punctuation and special tokens; None leaves out special
    tokens only."""
    top_k: int = option(10, low=1, metavar="N", help="Partners counted per token, and rows per list.")
    """Partners per token in relations, and rows of the lists."""
    layer: int | None = option(
        None, metavar="N", help="Show the words and the map of one layer, from 0. [default: all]"
    )
    """The layer, from 0, whose words are listed and whose map is shown, instead of all; negative from the top."""
    head: int | None = option(None, metavar="N", help="Show those of one head, from 0. [default: all]")
    """The same for one head, from 0, of that layer or of every layer."""
    count: PartnerCount | None = option(
        None,
        help="Count each querying token once over layers and heads, or each (layer, head, token). "
        "[default: tokens; pairs with --scaled]",
    )
    """How relations are counted: "tokens" (every querying token once) or "pairs" (every list of a layer and head);
    "tokens" by default, "pairs" if `scaled`."""
    word: str | None = option(
        None, metavar="WORD", help="Word whose instances are listed. [default: the most attended one]"
    )
    """The word whose instances are listed with their counts; by default the most attended one."""
    position: int | None = option(
        None, metavar="N", help="Token to follow through all heads. [default: the most attended token]"
    )
    """The token followed through all layers and heads; by default the one that receives the most attention."""
    head_importance: bool = option(
        True, flag="--head-importance/--no-head-importance", help="Compute the importance of each head."
    )
    """Compute the importance of every head."""
    scaled: bool = option(
        False, flag="--scaled/--unscaled", help="Weight heads by their importance in totals and counts."
    )
    """Weight heads by their importance in totals and counts, which counts pairs."""
    anisotropy: bool = option(False, help="Also show whether representations point the same way, by layer.")
    """Compute the anisotropy of hidden states, attention outputs and (up to 256 tokens) transformed vectors."""
    effective: bool = option(False, help="Also show how much attention has no effect, because values cancel.")
    """Compute effective attention: of the head in the large map, and what is cancelled in all heads (up to 512
    tokens)."""
    check: bool = option(
        False, flag="--check/--no-check", help="Compare the explanation with random orders of the words."
    )
    """Compare every explanation with random orders of the words on the model itself."""
    rule: DataSetRule | None = option(
        None,
        help="With --data: average a word's scores over the documents that contain it, or over all documents. "
        "[default: mean-all with --target, else mean-present]",
    )
    """How a word's scores are averaged over a data set: "mean-present" (over the documents that hold it) or "mean-all"
    (over all documents, for one target); by default "mean-all" if a target is given."""

    rules: ClassVar[tuple[OptionRule, ...]] = (
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
