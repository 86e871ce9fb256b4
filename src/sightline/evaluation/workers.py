"""Documents side by side: one thread a core, each with a network of its own hooks and shared weights.

Short documents are small work: a matrix product split over two cores waits for the slower half hundreds of times a
document, and on a machine where others compute as well that is most of the time. Two documents at once wait for
nobody. What a document gives does not depend on the others, so neither does it depend on how many run at once.

Long documents keep every core busy by themselves and fill the memory: they run one after the other.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

import torch

from sightline.evaluation.explaining import Progress, watcher
from sightline.text import Encoding, Example

if TYPE_CHECKING:
    from sightline.model import Model

R = TypeVar("R")
Work = Callable[["Model", Example, Progress | None], R]

FEWEST_DOCUMENTS = 4
"""Fewer are not worth a second network."""
LONGEST_CHARACTERS = 4000
"""Documents up to here, about 1,000 tokens, run side by side."""


def each_document(
    model: Model, examples: Sequence[Example], work: Work[R], progress: Progress | None
) -> Iterator[tuple[int, R]]:
    """Yield the number of every document with what `work` gives for it, as they get ready."""
    threads = torch.get_num_threads()
    short = all(_characters(one) <= LONGEST_CHARACTERS for one in examples)
    side_by_side = threads > 1 and short and len(examples) >= FEWEST_DOCUMENTS and model.network.device.type == "cpu"
    if side_by_side:
        yield from _SideBySide(model, examples, work, progress, min(threads, len(examples) // 2)).results()
        return
    for number, example in enumerate(examples):
        yield number, work(model, example, watcher(progress, number, len(examples)))


def _characters(example: Example) -> int:
    if isinstance(example.text, Encoding):
        return len(example.text.text) + len(example.text.pair or "")
    return len(example.text) + len(example.pair or "")


class _Stopped(Exception):  # noqa: N818 (a signal, not an error)
    """Ends the work of a thread when nobody waits for it any more."""


class _SideBySide(Generic[R]):
    """Threads that take one document after the other; all they tell goes through one queue to the calling thread."""

    def __init__(
        self, model: Model, examples: Sequence[Example], work: Work[R], progress: Progress | None, workers: int
    ) -> None:
        self.model = model
        self.examples = examples
        self.work = work
        self.progress = progress
        # The tokenizer as well: those of the library refuse two threads at once.
        self.models = [type(model)(model.network.twin(), copy.deepcopy(model.tokenizer)) for _ in range(workers)]
        self.told: SimpleQueue[tuple[str, int, int] | tuple[int, R] | BaseException | None] = SimpleQueue()
        self.numbers = iter(range(len(examples)))
        self.taking = threading.Lock()
        self.stopping = threading.Event()

    def results(self) -> Iterator[tuple[int, R]]:
        """Yield (number, result) of every document in the order they get ready."""
        before = torch.get_num_threads()
        workers = [threading.Thread(target=self._labour, args=(one,), daemon=True) for one in self.models]
        for worker in workers:
            worker.start()
        done, at_work = 0, len(workers)
        self._tell("documents", 0)
        try:
            while at_work:
                match self.told.get():
                    case None:
                        at_work -= 1
                    case BaseException() as error:
                        raise error
                    case (str(stage), int(step), int(steps)):
                        if self.progress is not None:
                            self.progress(stage, step, steps)
                    case (int(number), result):
                        yield number, result
                        done += 1
                        self._tell("documents", done)
        finally:
            self.stopping.set()
            for worker in workers:
                worker.join()
            torch.set_num_threads(before)
            for one in self.models:
                self.model.network.forward_passes += one.network.forward_passes
                self.model.network.backward_passes += one.network.backward_passes

    def _labour(self, model: Model) -> None:
        torch.set_num_threads(1)  # of this thread's products; the others are the other threads' own
        try:
            while (number := self._next()) is not None:
                self.told.put((number, self.work(model, self.examples[number], self._watcher(number))))
        except _Stopped:
            pass
        except BaseException as error:  # whatever it is, the calling thread must hear of it
            self.told.put(error)
        finally:
            self.told.put(None)

    def _next(self) -> int | None:
        with self.taking:
            return None if self.stopping.is_set() else next(self.numbers, None)

    def _watcher(self, number: int) -> Progress:
        where = f"document {number + 1} of {len(self.examples)}: "

        def watch(stage: str, done: int, total: int) -> None:
            if self.stopping.is_set():
                raise _Stopped
            self.told.put((where + stage, done, total))

        return watch

    def _tell(self, stage: str, done: int) -> None:
        if self.progress is not None:
            self.progress(stage, done, len(self.examples))
