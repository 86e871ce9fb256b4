"""Work side by side: one thread a core, each with a worker of its own.

A matrix product split over two cores waits for the slower half, hundreds of times in a pass, and on a machine where
others compute as well that is most of the time. Two passes at once wait for nobody. What a task gives must not depend
on the others; then it does not depend on how many run at once either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import torch

W = TypeVar("W")
R = TypeVar("R")
Tell = Callable[[Any], None]
"""Given to the work, for whatever it has to say before it is finished."""


class Unwanted(Exception):  # noqa: N818 (a signal, not an error)
    """Raised by `tell` when nobody waits for the result any more."""


@dataclass(frozen=True)
class _Said:
    what: Any


@dataclass(frozen=True)
class _Done(Generic[R]):
    number: int
    result: R


def side_by_side(
    workers: Sequence[W], tasks: int, work: Callable[[W, int, Tell], R], hear: Callable[[Any], None]
) -> Iterator[tuple[int, R]]:
    """Yield (number, work(worker, number, tell)) for every number below `tasks`, as they get ready.

    Every worker has a thread, and torch computes with one core in it. `hear` is called in the calling thread with what
    the work tells. An error ends everything and is raised here; whoever stops listening waits for the tasks under way
    at most until they next tell something.
    """
    mail: SimpleQueue[_Said | _Done[R] | BaseException | None] = SimpleQueue()
    numbers, taking, unwanted = iter(range(tasks)), threading.Lock(), threading.Event()

    def following() -> int | None:
        with taking:
            return None if unwanted.is_set() else next(numbers, None)

    def tell(what: Any) -> None:
        if unwanted.is_set():
            raise Unwanted
        mail.put(_Said(what))

    def labour(worker: W) -> None:
        torch.set_num_threads(1)  # of this thread's products; the others are the other threads' own
        try:
            while (number := following()) is not None:
                mail.put(_Done(number, work(worker, number, tell)))
        except Unwanted:
            pass
        except BaseException as error:  # whatever it is, the calling thread must hear of it
            mail.put(error)
        finally:
            mail.put(None)

    before = torch.get_num_threads()
    threads = [threading.Thread(target=labour, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    at_work = len(threads)
    try:
        while at_work:
            match mail.get():
                case None:
                    at_work -= 1
                case BaseException() as error:
                    raise error
                case _Said(what):
                    hear(what)
                case _Done(number, result):
                    yield number, result
    finally:
        unwanted.set()
        for thread in threads:
            thread.join()
        torch.set_num_threads(before)
