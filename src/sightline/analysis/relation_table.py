"""Counts of relations by position and by word, within a head, a layer, or over all.

A count says how often a token is somebody's partner; a word's count is the sum of its tokens', a type's the sum of its
instances', whatever their case. Tables hold the words that the filter kept, most counted first, equal counts in
document order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from sightline.analysis.filters import TokenFilter, kept_tokens
from sightline.analysis.source import check_head_weights
from sightline.arguments import check_count, check_head, check_layer, check_one_of
from sightline.metrics.token_sets import descending_ranks
from sightline.text import Encoding
from sightline.text.units import Level, Units, units_of

if TYPE_CHECKING:
    import pandas as pd

Direction = Literal["attended", "attending", "mutual"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
Counts = npt.NDArray[np.uint32]
Values = npt.NDArray[np.float64]


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

    def counts(
        self,
        direction: Direction = "attended",
        layer: int | None = None,
        head: int | None = None,
        head_weights: npt.ArrayLike | None = None,
    ) -> Values:
        """Return counts by position (n,): of one head, of one layer, over one head number of all layers, or over all.

        With `head_weights` (L, H) each head counts by its weight divided by the mean weight of those counted.
        """
        check_one_of("direction", direction, DIRECTIONS)
        counted: Counts = getattr(self, direction)
        layers, heads = counted.shape[:2]
        weights = check_head_weights(head_weights, layers, heads)
        if layer is not None:
            layer = check_layer(layer, layers)
            counted, weights = counted[layer : layer + 1], weights[layer : layer + 1]
        if head is not None:
            head = check_head(head, heads)
            counted, weights = counted[:, head : head + 1], weights[:, head : head + 1]
        mean = weights.mean()
        return np.tensordot(weights / mean if mean > 0 else weights, counted.astype(np.float64), axes=2)

    def by_position(
        self,
        direction: Direction = "attended",
        layer: int | None = None,
        head: int | None = None,
        *,
        level: Level = "word",
        head_weights: npt.ArrayLike | None = None,
        top: int | None = None,
    ) -> pd.DataFrame:
        """Return one row per word (or token), most counted first: rank, text, position, count."""
        import pandas as pd

        units, listed = self._units(level)
        count = units.fold(self.counts(direction, layer, head, head_weights))
        order = listed[np.argsort(-count[listed], kind="stable")][: _depth(top)]
        return pd.DataFrame(
            {
                "rank": np.arange(1, len(order) + 1),
                "text": _texts(units.texts[i] for i in order),
                "position": units.first_tokens[order],
                "count": count[order],
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
        top: int | None = None,
    ) -> pd.DataFrame:
        """Return one row per word type (case folded), most counted first: rank, type, count, instances, mean."""
        import pandas as pd

        types, instances, (count,) = self._types(level, [self.counts(direction, layer, head, head_weights)])
        order = np.argsort(-count, kind="stable")[: _depth(top)]
        return pd.DataFrame(
            {
                "rank": np.arange(1, len(order) + 1),
                "type": _texts(types[i] for i in order),
                "count": count[order],
                "instances": instances[order],
                "mean": count[order] / instances[order],
            }
        )

    def intersection(
        self,
        layer: int | None = None,
        head: int | None = None,
        *,
        level: Level = "word",
        head_weights: npt.ArrayLike | None = None,
        top: int = 20,
    ) -> pd.DataFrame:
        """Return the types among the `top` both attended and attending: type, both counts, both ranks.

        Best sum of ranks first.
        """
        import pandas as pd

        both = [self.counts(side, layer, head, head_weights) for side in ("attended", "attending")]
        types, _, counts = self._types(level, both)
        ranks = [descending_ranks(count) for count in counts]
        common = np.flatnonzero(np.maximum(*ranks) <= check_count("top", top))
        order = common[np.argsort((ranks[0] + ranks[1])[common], kind="stable")]
        return pd.DataFrame(
            {
                "type": _texts(types[i] for i in order),
                "attended": counts[0][order],
                "attending": counts[1][order],
                "attended_rank": ranks[0][order],
                "attending_rank": ranks[1][order],
            }
        )

    def instances(
        self,
        word: str,
        layer: int | None = None,
        head: int | None = None,
        *,
        head_weights: npt.ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Return where each instance of one word stands, in document order.

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
            count = units.fold(self.counts(side, layer, head, head_weights))[listed]
            columns |= {side: count[chosen], f"{side}_rank": descending_ranks(count)[chosen]}
        return pd.DataFrame(columns)

    def to_frame(self, level: Level = "token") -> pd.DataFrame:
        """Return one row per word (or token) that was kept, in document order, with the counts over all heads."""
        import pandas as pd

        units, listed = self._units(level)
        columns: dict[str, object] = {
            "text": _texts(units.texts[i] for i in listed),
            "position": units.first_tokens[listed],
        }
        return pd.DataFrame(columns | {side: units.fold(self.counts(side))[listed] for side in DIRECTIONS})

    def _units(self, level: Level) -> tuple[Units, npt.NDArray[np.int64]]:
        """The words (or tokens) and the numbers of those that were kept."""
        units = units_of(self.encoding, level)
        return units, np.flatnonzero(kept_tokens(self.filter, self.encoding)[units.first_tokens])

    def _types(self, level: Level, counts: list[Values]) -> tuple[list[str], npt.NDArray[np.int64], list[Values]]:
        """Types in order of first instance, the number of their instances, and their counts."""
        units, listed = self._units(level)
        numbers: dict[str, int] = {}
        of_unit = np.array([numbers.setdefault(units.types[i], len(numbers)) for i in listed], dtype=np.int64)
        size = len(numbers)
        folded = [np.zeros(size) for _ in counts]
        for total, head_counts in zip(folded, counts, strict=True):
            np.add.at(total, of_unit, units.fold(head_counts)[listed])
        return list(numbers), np.bincount(of_unit, minlength=size).astype(np.int64), folded


def _depth(top: int | None) -> int | None:
    return None if top is None else check_count("top", top)


def _texts(words: Iterable[str]) -> npt.NDArray[np.object_]:
    return np.array(list(words), dtype=object)
