"""Run tasks side by side: one thread per core, each with its own worker.

A matrix product split over two cores waits for the slower half, hundreds of times per pass, and on a machine where
others compute as well that is most of the time. Two independent passes do not wait for each other. The result of a task
must not depend on other tasks; then it does not depend on how many run at once either.
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
Send = Callable[[Any], None]
"""Given to a task, to report anything before it is finished."""


class Cancelled(Exception):  # noqa: N818 (a signal, not an error)
    """Raised by `send` when the result is no longer wanted."""


@dataclass(frozen=True)
class _Message:
    content: Any


@dataclass(frozen=True)
class _Result(Generic[R]):
    number: int
    value: R


def run_side_by_side(
    workers: Sequence[W], tasks: int, work: Callable[[W, int, Send], R], receive: Callable[[Any], None]
) -> Iterator[tuple[int, R]]:
    """Yield (number, work(worker, number, send)) for every number below `tasks`, in the order of completion.

    Every worker has one thread, in which torch uses one core. `receive` is called in the calling thread with everything
    that tasks send. The first error of a task stops all of them and is raised here. If the caller stops iterating, each
    running task ends when it next sends something.
    """
    queue: SimpleQueue[_Message | _Result[R] | BaseException | None] = SimpleQueue()
    numbers, numbers_lock, cancelled = iter(range(tasks)), threading.Lock(), threading.Event()

    def next_number() -> int | None:
        with numbers_lock:
            return None if cancelled.is_set() else next(numbers, None)

    def send(content: Any) -> None:
        if cancelled.is_set():
            raise Cancelled
        queue.put(_Message(content))

    def run_worker(worker: W) -> None:
        torch.set_num_threads(1)  # applies to this thread only
        try:
            while (number := next_number()) is not None:
                queue.put(_Result(number, work(worker, number, send)))
        except Cancelled:
            pass
        except BaseException as error:  # raised again in the calling thread, whatever it is
            queue.put(error)
        finally:
            queue.put(None)

    threads_before = torch.get_num_threads()
    threads = [threading.Thread(target=run_worker, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    running = len(threads)
    try:
        while running:
            match queue.get():
                case None:
                    running -= 1
                case BaseException() as error:
                    raise error
                case _Message(content):
                    receive(content)
                case _Result(number, value):
                    yield number, value
    finally:
        cancelled.set()
        for thread in threads:
            thread.join()
        torch.set_num_threads(threads_before)
