"""How many documents run: in batches of similar length, several batches side by side, and long documents in windows.

Batches of similar length waste little work on padding. `graph_tokens` says how many tokens a forward with gradients may
hold at once on this machine. The rule looks at the memory that the machine *has*, not at what is free: the size of a
batch decides in which order numbers are added, so a rule that followed other programs would give other last digits from
one day to the next.

Tasks run side by side with one thread per core, each with its own worker. A matrix product split over two cores waits
for the slower half, hundreds of times per pass, and on a machine where others compute as well that is most of the time.
Two independent passes do not wait for each other. The result of a task must not depend on other tasks; then it does not
depend on how many run at once either.

A document that is longer than the model reads runs window by window, with the logits of the windows combined. The
result is a function of the whole document like any other, so perturbation methods and faithfulness measure it without
knowing about windows. Windows that several documents have in common (a word removed changes one or two of them) run
once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sightline.files.processes import machine_memory
from sightline.progress import StepProgress
from sightline.settings.values import check_count
from sightline.text import Encoding, window_encodings

if TYPE_CHECKING:
    from sightline.models.network import Network
    from sightline.models.task import Task

BATCH_TOKENS = 4096
"""Tokens per batch (padding included): enough for efficient matrix products, few enough for a laptop's memory."""
SHORTEST_SHARE = 0.75
"""A document joins a batch only if it fills at least this share of the longest one's length."""
LARGEST_GAP = 32
"""Nor may it be shorter by more tokens than this: for long documents, a separate batch costs less than padding."""


def batches_by_length(
    lengths: Sequence[int], tokens: int, enough: int | None = None, *, most: int | None = None, padded: bool = True
) -> Iterator[list[int]]:
    """Yield lists of document indices, longest first; each pads to at most `tokens` (or holds one document).

    A batch has at most `most` documents.

    No shorter document joins a batch that already has `enough` tokens: another batch costs less than padding. If the
    model cannot be `padded`, the documents of a batch are equally long.
    """
    if most is not None:
        check_count("batch_size", most)
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        filled = len(batch) * longest
        shortest = max(SHORTEST_SHARE * longest, longest - LARGEST_GAP)
        if not padded or (enough is not None and filled >= enough):
            shortest = longest
        if batch and (filled + longest > tokens or lengths[index] < shortest or len(batch) == most):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


SHARE = 0.25
"""Share of the machine's memory for the graph of one batch."""
KEPT_WIDTHS = 16
"""Numbers that a backward needs per token and layer, in widths of the model: 11 in a Longformer, and some room."""
CEILING = 16 * BATCH_TOKENS
"""Tokens of a batch on an accelerator. On a CPU, batches of more than BATCH_TOKENS are not faster."""


WORTHWHILE_PRODUCTS = 2.5e9
"""Multiplications (tokens × weights of the layers) above which a batch on a CPU gains nothing from more documents: the
matrix products are as fast as they get, and starting a pass costs a few percent."""


def worthwhile_tokens(layers: Sequence[nn.Module], device: torch.device) -> int:
    """Return the tokens per batch above which larger batches gain nothing."""
    weights = sum(weight.numel() for layer in layers for weight in layer.parameters())
    return BATCH_TOKENS if device.type != "cpu" else min(BATCH_TOKENS, int(WORTHWHILE_PRODUCTS / weights) + 1)


def graph_tokens(config: Any, device: torch.device, dtype: torch.dtype) -> int:
    """Return the most tokens of a batch whose graph is kept for a backward, at least 1."""
    per_token = KEPT_WIDTHS * int(getattr(config, "hidden_size", 1024)) * int(getattr(config, "num_hidden_layers", 12))
    memory = total_memory(device)
    ceiling = BATCH_TOKENS if device.type == "cpu" else CEILING
    if memory is None:
        return BATCH_TOKENS
    return max(1, min(ceiling, int(SHARE * memory / (per_token * dtype.itemsize))))


def total_memory(device: torch.device) -> int | None:
    """Return the bytes that the device, or this container, has in all; None where that is not known."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return machine_memory() or None  # an MPS device shares it


W = TypeVar("W")
R = TypeVar("R")
Send = Callable[[Any], None]
"""A function that a task calls to report something before it is finished."""


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


MIN_BATCHES_PER_WORKER = 2
"""With fewer batches, a second copy of the modules does not pay off."""


def run_batches(
    network: Network,
    batches: Sequence[Sequence[int]],
    encodings: Sequence[Encoding],
    hidden: Sequence[Sequence[int]] | None,
) -> Iterator[tuple[int, list[Tensor]]]:
    """Yield the number of every batch and the logits of its documents, in the order of completion."""

    def run(of: Network, number: int, _send: Send | None = None) -> list[Tensor]:
        batch = batches[number]
        masked = None if hidden is None else [hidden[i] for i in batch]
        return of.run([encodings[i] for i in batch], hidden=masked)

    workers = min(torch.get_num_threads(), len(batches) // MIN_BATCHES_PER_WORKER)
    if workers < 2 or network.device.type != "cpu":
        yield from ((number, run(network, number)) for number in range(len(batches)))
        return
    twins = [network.twin() for _ in range(workers)]
    try:
        yield from run_side_by_side(twins, len(batches), run, lambda _content: None)
    finally:
        for twin in twins:
            network.count_passes_of(twin)


def window_positions(encoding: Encoding) -> list[NDArray[np.int64]]:
    """Return the positions of the tokens of every window; windows without any token are left out."""
    if encoding.windows is None:
        return [np.arange(len(encoding))]
    return [positions for positions in encoding.windows.positions(len(encoding)) if len(positions)]


def combine(
    task: Task, encoding: Encoding, logits: Sequence[Tensor], positions: Sequence[NDArray[np.int64]] | None = None
) -> Tensor:
    """Return the logits of a document from those of its windows; a document without windows has one."""
    if encoding.windows is None:
        return logits[0]
    places = window_positions(encoding) if positions is None else positions
    return task.combine_windows(logits, places, encoding)


def run_windows(
    network: Network,
    encodings: Sequence[Encoding],
    hidden: Sequence[Sequence[int]] | None = None,
    progress: StepProgress | None = None,
) -> list[Tensor]:
    """Return the logits of documents of which some or all are read in windows; the arguments of `run_many`."""
    places = [window_positions(encoding) for encoding in encodings]
    distinct: dict[bytes, int] = {}
    parts: list[Encoding] = []
    parts_hidden: list[Sequence[int]] = []
    numbers: list[list[int]] = []
    for document, (encoding, positions) in enumerate(zip(encodings, places, strict=True)):
        masked = np.zeros(len(encoding), dtype=bool)
        masked[list(hidden[document]) if hidden is not None else []] = True
        global_ = np.isin(np.arange(len(encoding)), encoding.global_tokens or ())
        numbers.append([])
        for window in positions:
            read = (encoding.ids, encoding.type_ids, encoding.segments, masked, global_)
            default = b"" if encoding.global_tokens is None else b"given"
            key = b"|".join([len(window).to_bytes(8), default, *(array[window].tobytes() for array in read)])
            if key not in distinct:
                distinct[key] = len(parts)
                parts += [encoding] if encoding.windows is None else window_encodings(encoding, [window])
                parts_hidden.append(np.flatnonzero(masked[window]).tolist())
            numbers[-1].append(distinct[key])
    logits = network.run_many(parts, hidden=parts_hidden if any(parts_hidden) else None, progress=progress)
    return [
        combine(network.task, encoding, [logits[number] for number in parts_read], positions)
        for encoding, parts_read, positions in zip(encodings, numbers, places, strict=True)
    ]
