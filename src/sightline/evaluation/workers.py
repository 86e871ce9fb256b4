"""Run documents in parallel: one thread per core, each with a network that has its own hooks and shares the weights.

Long documents would fill the memory, so they run one after the other; only their perturbed forms run side by side
(`Network.run_many`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from sightline.models.side_by_side import Send, run_side_by_side
from sightline.progress import Progress
from sightline.text import Encoding, Example

if TYPE_CHECKING:
    from sightline.api.model import Model

R = TypeVar("R")
Work = Callable[["Model", Example, Progress | None], R]

FEWEST_DOCUMENTS = 4
"""With fewer documents, a second network does not pay off."""
LONGEST_CHARACTERS = 4000
"""Documents up to here, about 1,000 tokens, run side by side."""


def report_document(progress: Progress | None, number: int, documents: int) -> Progress | None:
    """Report how many documents are done; return a function that reports the stages of the next one."""
    if progress is None:
        return None
    progress("documents", number, documents)
    prefix = f"document {number + 1} of {documents}: "
    return lambda stage, done, total: progress(prefix + stage, done, total)


def each_document(
    model: Model, examples: Sequence[Example], work: Work[R], progress: Progress | None
) -> Iterator[tuple[int, R]]:
    """Yield the number of every document and the result of `work` for it, in the order of completion."""
    threads = torch.get_num_threads()
    short = all(_characters(example) <= LONGEST_CHARACTERS for example in examples)
    if threads > 1 and short and len(examples) >= FEWEST_DOCUMENTS and model.network.device.type == "cpu":
        yield from _run_side_by_side(model, examples, work, progress, min(threads, len(examples) // 2))
        return
    for number, example in enumerate(examples):
        yield number, work(model, example, report_document(progress, number, len(examples)))


def _run_side_by_side(
    model: Model, examples: Sequence[Example], work: Work[R], progress: Progress | None, workers: int
) -> Iterator[tuple[int, R]]:
    # The tokenizer is copied as well: those of the library cannot be used by two threads at once.
    models = [type(model)(model.network.twin(), copy.deepcopy(model.tokenizer)) for _ in range(workers)]

    def run(twin: Model, number: int, send: Send) -> R:
        prefix = f"document {number + 1} of {len(examples)}: "
        return work(twin, examples[number], lambda stage, done, total: send((prefix + stage, done, total)))

    def receive(report: Any) -> None:
        if progress is not None:
            progress(*report)

    try:
        receive(("documents", 0, len(examples)))
        for done, (number, result) in enumerate(run_side_by_side(models, len(examples), run, receive), 1):
            yield number, result
            receive(("documents", done, len(examples)))
    finally:
        for twin in models:
            model.network.count_passes_of(twin.network)


def _characters(example: Example) -> int:
    if isinstance(example.text, Encoding):
        return len(example.text.text) + len(example.text.pair or "")
    return len(example.text) + len(example.pair or "")
