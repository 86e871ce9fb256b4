"""Run documents that are longer than the model reads: window by window, with the logits of the windows combined.

The result is a function of the whole document like any other, so perturbation methods and faithfulness measure it
without knowing about windows. Windows that several documents have in common (a word removed changes one or two of
them) run once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sightline.progress import StepProgress
from sightline.text import Encoding, window_encodings

if TYPE_CHECKING:
    from sightline.models.network import Network
    from sightline.models.task import Task


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
    return task.combine_windows(logits, places, len(encoding), encoding.windows.aggregation)


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
