"""Documents with some of their tokens removed: their values y, and the coalition game that they make up.

v(present units) = y(document without the others).

One rule says which tokens perturbation methods remove: every ordinary token may be replaced, also the one whose output
is explained; special tokens stay; a token that the head reads is never deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sightline.errors import OptionError
from sightline.models.target import Quantity, Target
from sightline.models.tasks import MaskedLanguageModel
from sightline.passes.perturb import Key, Perturbations, Replacement
from sightline.passes.trace import Trace

Mask = NDArray[np.bool_]
"""(n,) True for every absent token."""
Value = Callable[[Sequence[Mask]], NDArray[np.float64]]
"""Maps coalitions, each given by its absent tokens, to their values v (B,)."""

_WHOLE_OUTPUT = Target(index=None, label="")
"""All logits are kept, for the classes to come. Asking for the target would run the model before the budget check."""


def request_removals(
    trace: Trace, removed: Iterable[Sequence[int]], replacement: Replacement
) -> tuple[Perturbations[Tensor], list[Key]]:
    """Request the document without each of the sets of tokens; return the engine and one key per set."""
    if replacement == "delete" and trace.target.read_positions:
        raise OptionError(
            "This model reads single tokens, and deleting others would move them; "
            "use replacement='mask', 'unk' or 'pad'."
        )
    removals = Perturbations(trace.network, trace.encoding, _WHOLE_OUTPUT, _output_to_keep(trace))
    return removals, [removals.request(positions, replacement) for positions in removed]


def _output_to_keep(trace: Trace) -> Callable[[Tensor, Target], Tensor]:
    """Return what is kept of the logits of a changed document: all, or of a language model the row that is read.

    The row stands in for all rows: y reads no other, and a vocabulary of logits per token and document would be
    gigabytes.
    """
    task = trace.network.task
    if not isinstance(task, MaskedLanguageModel):
        return lambda logits, _target: logits

    def keep_row(logits: Tensor, _target: Target) -> Tensor:
        row = logits[trace.target.position].clone()
        return row.expand(len(logits), -1)

    return keep_row


def evaluate_removals(
    trace: Trace, removals: Perturbations[Tensor], keys: Sequence[Key], quantity: Quantity | None = None
) -> NDArray[np.float64]:
    """Return y of every requested document, in the order of `keys`; classes explained together share the runs.

    quantity: in place of that of the target.
    """

    def run() -> dict[Key, Tensor]:
        removals.run(trace.progress)
        return {key: removals.result(key) for key in keys}

    logits = trace.once(tuple(dict.fromkeys(keys)), run)
    values = {key: trace.value_of(document_logits, quantity) for key, document_logits in logits.items()}
    return np.array([values[key] for key in keys], dtype=np.float64)


class DocumentGame:
    """Evaluates coalitions on the model, each once, and counts the calls; classes explained together share them."""

    def __init__(
        self, trace: Trace, replacement: Replacement, quantity: Quantity | None = None, budget: int | None = None
    ) -> None:
        self.trace = trace
        self.replacement: Replacement = replacement
        self.quantity = quantity
        self.budget = budget
        self._removals = trace.once(("document_game", replacement), lambda: request_removals(trace, [], replacement)[0])
        self._values: dict[Key, float] = {}

    @property
    def calls(self) -> int:
        """Distinct documents evaluated so far."""
        return len(self._values)

    def __call__(self, coalitions: Sequence[Mask]) -> NDArray[np.float64]:
        """Return v of every coalition, (B,)."""
        keys = [self._removals.request(np.flatnonzero(absent).tolist(), self.replacement) for absent in coalitions]
        self._removals.run()
        for key in keys:
            if key not in self._values:
                self._values[key] = self.trace.value_of(self._removals.result(key), self.quantity)
        if self.trace.progress is not None:
            self.trace.progress(self.calls, max(self.calls, self.budget or 0))
        return np.array([self._values[key] for key in keys], dtype=np.float64)
