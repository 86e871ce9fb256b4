"""Agreement of explanations over the documents of a study, stored part by part like every other result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from sightline.evaluation.agreement import Agreement, Pair
from sightline.text import Example
from sightline_studies.workbench import Workbench


def measure_agreement(
    bench: Workbench,
    name: str,
    identity: Mapping[str, Any],
    examples: Sequence[Example],
    compare_rows: Callable[[Sequence[Example]], Agreement],
    between: Literal["layers", "models"],
    **settings: Any,
) -> Agreement:
    """Return what `compare_rows` says about all examples; rows that it leaves out have no value.

    Documents are numbered, since results that are stored must not depend on the place of a row in its file. settings:
    those of the `Agreement` that later summaries read, such as the reference.
    """

    def measure(part: Sequence[Example]) -> Iterator[list[list[Any]]]:
        compared = compare_rows(part)
        if not compared.complete:
            raise KeyboardInterrupt
        for row in part:
            yield [
                [pair.method, pair.first, pair.second, pair.metric, pair.value, pair.chance]
                for pair in compared.pairs
                if pair.document == row.id
            ]

    stored = bench.measure_documents(name, identity, examples, measure, at_once=10)
    pairs = tuple(Pair(str(number), *row) for number, rows in enumerate(stored) for row in rows)
    return Agreement(
        pairs=pairs,
        between=between,
        documents=tuple(str(number) for number in range(len(examples))),
        metrics=tuple(dict.fromkeys(pair.metric for pair in pairs)),
        settings={"seed": bench.seed, **settings},
    )
