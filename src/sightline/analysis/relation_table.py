"""Counts of relations by position and by word, within a head, a layer, or over all.

Token j is a *partner* of token i if j is among the k strongest in the list of i. Two ways to count partners:

    tokens   every querying token i counts once for j, however many layers and heads list j for it; so no count exceeds
             the number of tokens that may see j. Algorithm 2 of the Longformer paper counts like this; it is the
             default of every table.
    pairs    every list counts: the number of (layer, head, i) with j in the list. Heads can be weighted.

Where tokens are counted, a word of several tokens counts once for every querying token that lists any of them (the
union over its tokens), and a type once for every querying token that lists any of its instances, whatever their case
(the set of types among the partners of a token, as in Algorithm 2); so no word and no type is counted more often than
the document has tokens. Where pairs are counted, the count of a word is the sum over its tokens, and that of a type the
sum over its instances. Tables hold the words that the filter kept, most counted first, equal counts in document order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from sightline.analysis.filters import TokenFilter, kept_units
from sightline.analysis.source import check_head_weights
from sightline.errors import OptionError
from sightline.metrics.score_inputs import descending_ranks
from sightline.settings.inspection import PartnerCount as PartnerCount
from sightline.settings.values import check_count, check_head, check_layer, check_one_of
from sightline.text import Encoding
from sightline.text.units import Level, Units, units_of

if TYPE_CHECKING:
    import pandas as pd

Direction = Literal["attended", "attending", "mutual"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
Grouping = Literal["token", "word", "token type", "word type"]
"""The groups for which a querying token counts once: positions, words, or all tokens or words of one type."""
Counts = npt.NDArray[np.uint32]
Values = npt.NDArray[np.float64]
SHORT_DOCUMENT = 1024
"""Tokens up to which lists are compared with all possible partners."""


def resolve_count(count: PartnerCount | None, head_weights: npt.ArrayLike | None = None) -> PartnerCount:
    """Return how to count: `count` if given, else "pairs" where heads are weighted and "tokens" otherwise."""
    if count is None:
        return "tokens" if head_weights is None else "pairs"
    if check_one_of("count", count, get_args(PartnerCount)) == "tokens" and head_weights is not None:
        raise OptionError("Heads cannot be weighted where every querying token counts once; use count='pairs'.")
    return count


@dataclass(frozen=True, eq=False)
class TokenCounts:
    """How many tokens have each position (or word, or type) as a partner, every token counted once.

    The count of a word stands at its first token, that of a type at the first token of its first instance; the other
    tokens have 0.
    """

    total: Counts
    """(n,) in any layer and head."""
    by_layer: Counts
    """(L, n) in any head of the layer."""
    by_head: Counts
    """(H, n) in the head of that number in any layer."""
    within_head: Counts
    """(L, H, n) in one head of one layer."""


@dataclass(frozen=True, eq=False)
class RelationCounts:
    """How often each position is a partner, by layer and head.

    attended[l, h, j]: rows i with j among their k attended. attending[l, h, i]: columns j with i among their k
    attending. mutual[l, h, j]: tokens i with j in both of their lists.
    """

    encoding: Encoding
    k: int
    filter: TokenFilter | None
    attended: Counts
    """(L, H, n)."""
    attending: Counts
    mutual: Counts
    distinct: Mapping[tuple[Direction, Grouping], TokenCounts]
    """By position, by word and by type, with every querying token counted once; empty if only pairs were counted."""
    visible_pairs: npt.NDArray[np.int64] | None
    """(L + 1,) pairs of a token and one that it may attend to, both kept: in each layer, and in any layer (the last).

    None for documents of more than `SHORT_DOCUMENT` tokens, and if only pairs were counted.
    """

    def counts(
        self,
        direction: Direction = "attended",
        layer: int | None = None,
        head: int | None = None,
        head_weights: npt.ArrayLike | None = None,
        *,
        count: PartnerCount | None = None,
    ) -> Values:
        """Return counts by position (n,): of one head, of one layer, over one head number of all layers, or over all.

        count: "tokens" (default) or "pairs", see the module. With `head_weights` (L, H) pairs are counted, each head by
        its weight divided by the mean weight of those counted.
        """
        check_one_of("direction", direction, DIRECTIONS)
        counted: Counts = getattr(self, direction)
        layers, heads = counted.shape[:2]
        layer = None if layer is None else check_layer(layer, layers)
        head = None if head is None else check_head(head, heads)
        if resolve_count(count, head_weights) == "tokens":
            if layer is not None and head is not None:  # within one head, lists and tokens are the same
                return np.asarray(counted[layer, head], dtype=np.float64)
            return self._distinct(direction, "token", layer, head).astype(np.float64)
        weights = check_head_weights(head_weights, layers, heads)
        if layer is not None:
            counted, weights = counted[layer : layer + 1], weights[layer : layer + 1]
        if head is not None:
            counted, weights = counted[:, head : head + 1], weights[:, head : head + 1]
        mean = weights.mean()
        if weights.size == 1:  # the weight of a single head changes nothing, even if it is 0
            return np.asarray(counted[0, 0], dtype=np.float64)
        return np.tensordot(weights / mean if mean > 0 else weights, counted.astype(np.float64), axes=2)

    def by_position(
        self,
        direction: Direction = "attended",
        layer: int | None = None,
        head: int | None = None,
        *,
        level: Level = "word",
        head_weights: npt.ArrayLike | None = None,
        count: PartnerCount | None = None,
        top: int | None = None,
    ) -> pd.DataFrame:
        """Return one row per word (or token), most counted first: rank, text, position, count."""
        import pandas as pd

        units, listed = self._units(level)
        counted = self._unit_counts(units, direction, layer, head, head_weights, count)
        order = listed[np.argsort(-counted[listed], kind="stable")][: _depth(top)]
        return pd.DataFrame(
            {
                "rank": np.arange(1, len(order) + 1),
                "text": _texts(units.texts[i] for i in order),
                "position": units.first_tokens[order],
                "count": counted[order],
            }
        )

    def by_type(
        self,
        direction: Direction = "attended",
        layer: int | None = None,
        head: int | None = None,
        *,
        level: Level = "word",
        head_weights: npt.ArrayLike | None = None,
        count: PartnerCount | None = None,
        top: int | None = None,
    ) -> pd.DataFrame:
        """Return one row per word type (case folded), most counted first: rank, type, count, instances, mean.

        mean: the count of an instance, on average. Where tokens are counted, `count` is at most `mean` · `instances`,
        because a token that lists several instances counts once.
        """
        import pandas as pd

        units, listed = self._units(level)
        types = _Types(units, listed)
        counted = self._type_counts(types, direction, layer, head, head_weights, count)
        single = types.sum(self._unit_counts(units, direction, layer, head, head_weights, count))
        order = np.argsort(-counted, kind="stable")[: _depth(top)]
        return pd.DataFrame(
            {
                "rank": np.arange(1, len(order) + 1),
                "type": _texts(types.names[i] for i in order),
                "count": counted[order],
                "instances": types.instances[order],
                "mean": single[order] / types.instances[order],
            }
        )

    def intersection(
        self,
        layer: int | None = None,
        head: int | None = None,
        *,
        by: Literal["type", "position"] = "type",
        level: Level = "word",
        head_weights: npt.ArrayLike | None = None,
        count: PartnerCount | None = None,
        top: int = 20,
    ) -> pd.DataFrame:
        """Return what is among the `top` both attended and attending: both counts, both ranks; best sum of ranks first.

        by="type" has one row per word type (type, …), by="position" one row per word (text, position, …).
        """
        import pandas as pd

        units, listed = self._units(level)
        sides: tuple[Direction, ...] = ("attended", "attending")
        if check_one_of("by", by, ("type", "position")) == "type":
            types = _Types(units, listed)
            counts = [self._type_counts(types, side, layer, head, head_weights, count) for side in sides]
            names: dict[str, object] = {"type": _texts(types.names)}
        else:
            counts = [self._unit_counts(units, side, layer, head, head_weights, count)[listed] for side in sides]
            names = {"text": _texts(units.texts[i] for i in listed), "position": units.first_tokens[listed]}
        ranks = [descending_ranks(side) for side in counts]
        common = np.flatnonzero(np.maximum(*ranks) <= check_count("top", top))
        order = common[np.argsort((ranks[0] + ranks[1])[common], kind="stable")]
        columns = {
            **names,
            "attended": counts[0],
            "attending": counts[1],
            "attended_rank": ranks[0],
            "attending_rank": ranks[1],
        }
        return pd.DataFrame({name: np.asarray(values)[order] for name, values in columns.items()})

    def instances(
        self,
        word: str,
        layer: int | None = None,
        head: int | None = None,
        *,
        head_weights: npt.ArrayLike | None = None,
        count: PartnerCount | None = None,
    ) -> pd.DataFrame:
        """Return each instance of one word, in document order, with its counts.

        Columns: position, segment, start, end (characters), and for attended, attending and mutual the count and its
        rank among all words that were kept. A word that the filter dropped, or that is not there, has no rows.
        """
        import pandas as pd

        units, listed = self._units("word")
        wanted = word.strip().casefold()
        chosen = np.array([number for number, unit in enumerate(listed) if units.types[unit] == wanted], dtype=np.int64)
        where = units.first_tokens[listed[chosen]]
        spans = [self.encoding.words[self.encoding.word_ids[position]] for position in where]
        columns: dict[str, object] = {
            "position": where,
            "segment": np.array([span.segment for span in spans], dtype=np.int64),
            "start": np.array([span.start for span in spans], dtype=np.int64),
            "end": np.array([span.end for span in spans], dtype=np.int64),
        }
        for side in DIRECTIONS:
            counted = self._unit_counts(units, side, layer, head, head_weights, count)[listed]
            columns |= {side: counted[chosen], f"{side}_rank": descending_ranks(counted)[chosen]}
        return pd.DataFrame(columns)

    def to_frame(self, level: Level = "token", *, count: PartnerCount | None = None) -> pd.DataFrame:
        """Return one row per word (or token) that was kept, in document order, with the counts over all heads."""
        import pandas as pd

        units, listed = self._units(level)
        columns: dict[str, object] = {
            "text": _texts(units.texts[i] for i in listed),
            "position": units.first_tokens[listed],
        }
        counts = {side: self._unit_counts(units, side, count=count)[listed] for side in DIRECTIONS}
        return pd.DataFrame(columns | counts)

    def saturation(
        self,
        direction: Direction = "attended",
        layer: int | None = None,
        head: int | None = None,
        *,
        count: PartnerCount | None = None,
    ) -> float | None:
        """Return the fraction of possible partners that the counted lists contain.

        At 1, counts cannot rank words; near 1, hardly. Where tokens are counted, the lists of a token in all layers and
        heads are combined. None for documents of more than `SHORT_DOCUMENT` tokens, which are not checked.
        """
        if self.visible_pairs is None:
            return None
        layers, heads = self.attended.shape[:2]
        layer = None if layer is None else check_layer(layer, layers)
        if resolve_count(count) == "tokens":
            possible = self.visible_pairs[-1 if layer is None else layer]
        else:
            chosen = self.visible_pairs[:-1] if layer is None else self.visible_pairs[layer]
            possible = chosen.sum() * (heads if head is None else 1)
        return float(self.counts(direction, layer, head, count=count).sum() / possible) if possible else 0.0

    def _unit_counts(
        self,
        units: Units,
        direction: Direction,
        layer: int | None = None,
        head: int | None = None,
        head_weights: npt.ArrayLike | None = None,
        count: PartnerCount | None = None,
    ) -> Values:
        """Counts of every word or token (U,), also of those that the filter dropped."""
        by_token = self.counts(direction, layer, head, head_weights, count=count)
        if units.level == "token" or resolve_count(count, head_weights) == "pairs":
            return units.fold(by_token)
        if units.level != "word":
            raise OptionError(f"Tokens are not counted by {units.level}; use level='word' or count='pairs'.")
        return self._distinct(direction, "word", layer, head)[units.first_tokens].astype(np.float64)

    def _type_counts(
        self,
        types: _Types,
        direction: Direction,
        layer: int | None,
        head: int | None,
        head_weights: npt.ArrayLike | None,
        count: PartnerCount | None,
    ) -> Values:
        """Counts of every type (T,)."""
        counts = self._unit_counts(types.units, direction, layer, head, head_weights, count)
        if resolve_count(count, head_weights) == "pairs":
            return types.sum(counts)
        grouping: Grouping = "token type" if types.units.level == "token" else "word type"
        return self._distinct(direction, grouping, layer, head)[types.first_tokens].astype(np.float64)

    def _distinct(self, direction: Direction, grouping: Grouping, layer: int | None, head: int | None) -> Counts:
        """Counts (n,) with every querying token counted once."""
        if not self.distinct:
            raise OptionError("Only pairs were counted; use count='pairs', or relation_counts() with distinct=True.")
        counts = self.distinct[direction, grouping]
        layers, heads = self.attended.shape[:2]
        layer = None if layer is None else check_layer(layer, layers)
        head = None if head is None else check_head(head, heads)
        if layer is not None:
            return np.asarray(counts.by_layer[layer] if head is None else counts.within_head[layer, head])
        return counts.total if head is None else np.asarray(counts.by_head[head])

    def _units(self, level: Level) -> tuple[Units, npt.NDArray[np.int64]]:
        """Return the words (or tokens) and the indices of those that were kept."""
        units = units_of(self.encoding, level)
        return units, np.flatnonzero(kept_units(self.filter, self.encoding, units))


class _Types:
    """The T types of some units, in order of first instance."""

    def __init__(self, units: Units, listed: npt.NDArray[np.int64]) -> None:
        numbers: dict[str, int] = {}
        self.units = units
        self.listed = listed
        self.of_unit = np.array([numbers.setdefault(units.types[i], len(numbers)) for i in listed], dtype=np.int64)
        self.names = list(numbers)
        self.instances = np.bincount(self.of_unit, minlength=len(numbers)).astype(np.int64)

    @property
    def first_tokens(self) -> npt.NDArray[np.int64]:
        """(T,) the first token of the first instance of each type in the document, whether listed or not."""
        return first_of_type(self.units)[self.units.first_tokens[self.listed[self._first_listed()]]]

    def sum(self, counts: Values) -> Values:
        """Sum the counts (U,) of all units over the listed instances of each type, (T,)."""
        sums = np.bincount(self.of_unit, weights=counts[self.listed], minlength=len(self.names))
        return sums.astype(np.float64)

    def _first_listed(self) -> npt.NDArray[np.int64]:
        return np.unique(self.of_unit, return_index=True)[1]


def first_of_type(units: Units) -> npt.NDArray[np.int64]:
    """Return for every token the first token of the first unit of its type (n,); specials map to themselves."""
    firsts: dict[str, int] = {}
    of_unit = [firsts.setdefault(kind, first) for kind, first in zip(units.types, units.first_tokens, strict=True)]
    inside = units.of_token >= 0
    positions = np.arange(len(inside))
    positions[inside] = np.array(of_unit, dtype=np.int64)[units.of_token[inside]]
    return positions


def _depth(top: int | None) -> int | None:
    return None if top is None else check_count("top", top)


def _texts(words: Iterable[str]) -> npt.NDArray[np.object_]:
    return np.array(list(words), dtype=object)
