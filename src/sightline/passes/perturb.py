"""Perturbed documents: evaluate the model on a document with some of its tokens replaced or deleted.

`Perturbations` is the one engine behind perturbation methods and faithfulness metrics. Request any number of sets of
removed tokens, run them together, then read the results. Requests that lead to the same input are run once, and the
rest run in batches of similar length.

    perturbations = Perturbations(network, encoding, target, read)
    keys = [perturbations.request(units.positions(removed), "mask") for removed in sets]
    perturbations.run()
    results = perturbations.results(keys)

`read(logits, target)` says what to keep of each run, for example a probability. Logits of a language model are large,
so only what `read` returns is stored.

Perturbation methods read the value y of each document, for whatever class is explained. `DocumentGame` is the coalition
game that they make up: v(present units) = y(document without the others). One rule says which tokens they remove: every
ordinary token may be replaced, also the one whose output is explained; special tokens stay; a token that the head reads
is never deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sightline.errors import InputError, OptionError, SizeError, UnsupportedError
from sightline.models import Network, Target
from sightline.models.inputs import find_global_tokens
from sightline.models.target import Quantity
from sightline.models.tasks import MaskedLanguageModel
from sightline.passes.trace import Trace
from sightline.progress import StepProgress
from sightline.settings.evaluation import Replacement as Replacement
from sightline.text import Encoding
from sightline.text.units import Level, Units, units_of

T = TypeVar("T")
OUTPUT_BYTES = 500_000_000
"""Size of the logits that are kept at a time until `read` has seen them."""
Key = bytes
"""Identifies an input: equal for inputs that the model cannot tell apart."""


def removable_units(encoding: Encoding, target: Target, level: Level = "word") -> Units:
    """Return the units that a metric or check removes: without special tokens and tokens whose output the head reads.

    Metrics delete units, and all of them remove the same ones, so that their curves can be compared. A token that the
    head reads (the masked token, the tokens of an answer) cannot be deleted: there would be nothing to measure.
    Perturbation methods, which replace tokens, score these as well (`request_removals`).
    """
    units = units_of(encoding, level).without(target.read_positions)
    if not len(units):
        raise InputError(f"The document has no {level} that could be removed: all its tokens are special.")
    return units


def default_replacement(network: Network) -> Replacement:
    """Return the first of mask, unk and pad that the model's vocabulary has, else "delete"."""
    known: tuple[Replacement, ...] = ("mask", "unk", "pad")
    return next((name for name in known if name in network.token_ids), "delete")


@dataclass(frozen=True)
class Perturbed:
    """A document as the model will read it."""

    encoding: Encoding
    hidden: tuple[int, ...]
    """Positions that no token attends to."""
    target: Target
    """The target, at the position where it then stands."""

    def key(self, network: Network) -> Key:
        """Return a digest of everything the model and the head read."""
        places = (*find_global_tokens(network, self.encoding), -1) if network.banded else ()
        reads = (self.target.position, *(self.target.span or ()), self.encoding.windows)
        arrays = (self.encoding.ids, self.encoding.type_ids, np.array(self.hidden), np.array(places))
        parts = (*(array.tobytes() for array in arrays), repr(reads).encode())
        lengths = np.array([len(part) for part in parts]).tobytes()
        return hashlib.blake2b(b"".join((lengths, *parts)), digest_size=16).digest()


def perturb(
    network: Network,
    encoding: Encoding,
    target: Target,
    removed: Sequence[int],
    replacement: Replacement,
    *,
    mask_pads: bool = False,
) -> Perturbed:
    """Return the document with the tokens at `removed` replaced or deleted.

    Deleted tokens move the ones behind them, and the target with them. With `mask_pads`, no token attends to the pads
    that take the place of removed tokens.
    """
    if not len(removed):
        return Perturbed(encoding, (), target)
    if replacement == "delete":
        if len(removed) == len(encoding):
            raise InputError(
                "Deleting all words would leave nothing to read: the document has no special tokens. "
                "Use replacement='mask', 'unk' or 'pad', or remove fewer words."
            )
        if not set(removed).isdisjoint(target.read_positions):
            raise OptionError(
                "The model's head reads one of the tokens to delete; use replacement='mask', 'unk' or 'pad'."
            )
        return Perturbed(encoding.drop(removed), (), target.after_removal(removed))
    ids = encoding.ids.copy()
    ids[list(removed)] = network.token_id(replacement)
    hidden = tuple(removed) if replacement == "pad" and mask_pads else ()
    return Perturbed(encoding.replace_ids(ids), hidden, target)


class Perturbations(Generic[T]):
    """Perturbed forms of one document, each distinct input run once."""

    def __init__(
        self,
        network: Network,
        encoding: Encoding,
        target: Target,
        read: Callable[[Tensor, Target], T],
        *,
        mask_pads: bool = False,
        budget: int | None = None,
    ) -> None:
        """Take a document, its target, and what to keep of the logits of each run.

        `read` gets the logits of one document and the target at its position in that document. `budget` is the largest
        number of documents the model may read.
        """
        self.network = network
        self.encoding = encoding
        self.target = target
        self.read = read
        self.mask_pads = mask_pads
        self.budget = budget
        self.calls_requested = 0
        self._requested: dict[tuple[str | int, ...], Key] = {}
        self._waiting: dict[Key, Perturbed] = {}
        self._results: dict[Key, T] = {}

    @property
    def calls_made(self) -> int:
        """Documents the model has read, and will have read after the next `run`."""
        return len(self._results) + len(self._waiting)

    @property
    def remaining(self) -> int | None:
        """Documents the budget still allows, negative if the requests exceed it; None without a budget."""
        return None if self.budget is None else self.budget - self.calls_made

    def affords(self, further: int = 0) -> bool:
        """Return whether the budget allows everything requested and `further` documents."""
        return self.remaining is None or self.remaining >= further

    def request(self, removed: Sequence[int], replacement: Replacement) -> Key:
        """Request the document without the tokens at `removed`; its result is available after `run`."""
        self.calls_requested += 1
        # Metrics remove the same positions again and again; the document is built for the first request only.
        request = (replacement if len(removed) else "", *removed)
        if request not in self._requested:
            perturbed = perturb(
                self.network, self.encoding, self.target, removed, replacement, mask_pads=self.mask_pads
            )
            self._requested[request] = key = perturbed.key(self.network)
            if key not in self._results:
                self._waiting.setdefault(key, perturbed)
        return self._requested[request]

    def run(self, progress: StepProgress | None = None) -> None:
        """Run what was requested since the last time; raise SizeError if that exceeds the budget."""
        if not self._waiting:
            return
        if not self.affords():
            raise SizeError(f"{self.calls_made:,} model calls are needed, the budget is {self.budget:,}.")
        # Sorted by content, so that the batches do not depend on the order of the requests.
        waiting = sorted(self._waiting.items(), key=lambda item: item[0])
        # A language model has one logit per token and word of the vocabulary: all documents at once would be gigabytes.
        size = 4 * len(self.encoding) * len(self.network.task.facts.labels)
        step = max(1, OUTPUT_BYTES // max(1, size))
        for start in range(0, len(waiting), step):
            part = waiting[start : start + step]
            hidden = [perturbed.hidden for _, perturbed in part]
            logits = self.network.run_many(
                [perturbed.encoding for _, perturbed in part],
                hidden=hidden if any(hidden) else None,
                progress=None if progress is None else partial(_report_part, progress, start, len(part), len(waiting)),
            )
            for (key, perturbed), document_logits in zip(part, logits, strict=True):
                self._results[key] = self.read(document_logits, perturbed.target)
        self._waiting.clear()

    def result(self, key: Key) -> T:
        """Return what `read` returned for a document that was run."""
        return self._results[key]

    def results(self, keys: Iterable[Key]) -> list[T]:
        """Return the results of several documents, in the order of `keys`."""
        return [self._results[key] for key in keys]

    def evaluate(
        self, sets: Iterable[Sequence[int]], replacement: Replacement, progress: StepProgress | None = None
    ) -> list[T]:
        """Request and run several sets of removed tokens; return their results in the order given."""
        keys = [self.request(removed, replacement) for removed in sets]
        self.run(progress)
        return self.results(keys)


def _report_part(progress: StepProgress, start: int, size: int, total: int, done: int, of_part: int) -> None:
    """Report the progress of a part of `size` documents; its own steps may be windows, of which there are more."""
    progress(start + size * done // max(1, of_part), total)


def perturb_probability(
    network: Network, encoding: Encoding, target: Target, *, mask_pads: bool = False, budget: int | None = None
) -> Perturbations[float]:
    """Return an engine whose results are the probability of the target's class, computed in double precision."""
    if target.span is None and len(network.task.facts.labels) < 2 and not network.task.facts.multi_label:
        raise UnsupportedError(
            "The model has a single output, whose probability is always 1: faithfulness cannot be measured on it."
        )

    def read(logits: Tensor, moved: Target) -> float:
        return network.task.probability(logits.cpu().double(), moved)

    return Perturbations(network, encoding, target, read, mask_pads=mask_pads, budget=budget)


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
