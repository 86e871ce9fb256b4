"""WindowedPass: the passes over the windows of one long document, presented as one pass over the document.

The logits of the document are a combination of those of its windows (`Task.combine_windows`). With y the number that is
explained and z_w the logits of window w, G_w = ∂y/∂z_w says how the window enters it, and is split into

    share_w        how much the window counts: 1/W under the mean, 1 for windows that alone decide, 0 for the others
    direction_w    G_w / share_w: the number of the window that is explained, Σ direction_w ⊙ z_w

For the logit of a class, direction_w is that very logit of the window. A method explains each window's number; the
score of a token is the sum over the windows that hold it of share_w times its score there (`merge_windows`).

Cost: one forward and one backward pass over the windows, like that many documents. Above `LIVE_TOKENS` tokens one more
forward pass, without gradients, finds what is predicted, so that the memory does not grow with the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.attention.arrays import as_array
from sightline.errors import UnsupportedError
from sightline.models import Network, Recorder, Target
from sightline.models.batching import BATCH_TOKENS, batches_by_length, combine, window_positions
from sightline.models.layerwise import BackwardRules, Relevance
from sightline.models.target import Direction, Request, check_quantity
from sightline.models.task import Task
from sightline.passes.forward import Gradients, Need, Pass, WindowPart
from sightline.text import Encoding, window_encodings

LIVE_TOKENS = 2 * BATCH_TOKENS
"""Tokens of all windows up to which their passes stay in memory together."""


@dataclass(frozen=True)
class _Weight:
    """How one window enters the number that is explained."""

    share: float
    target: Target


class WindowedPass(Pass):
    """The passes over the windows of one document."""

    def __init__(self, network: Network, encoding: Encoding, request: Request) -> None:
        super().__init__(network, [encoding], [request])
        self._positions = window_positions(encoding)
        self._windows = window_encodings(encoding, self._positions)
        lengths = [len(window) for window in self._windows]
        # Larger batches gain nothing on a CPU, and their weights and gradients no longer fit in its caches.
        batches = batches_by_length(lengths, network.worthwhile_tokens, padded=network.pads)
        self._batches = [sorted(batch) for batch in batches]
        self._stay_alive = sum(lengths) <= LIVE_TOKENS
        self._needs: set[Need] = set()
        self._passes: dict[int, Pass] = {}
        self._weights: dict[Target, list[_Weight]] = {}

    def require(self, *needs: Need) -> None:
        """Announce what will be needed of every window."""
        self._needs |= set(needs)
        for shared in self._passes.values():
            shared.require(*needs)

    @cached_property
    def window_logits(self) -> list[Tensor]:
        """The logits of every window, detached."""
        if not self._stay_alive:
            return self.network.run_many(self._windows)
        logits: dict[int, Tensor] = {}
        for number, batch in enumerate(self._batches):
            shared = self._pass(number)
            logits.update({window: shared.logits(place).detach() for place, window in enumerate(batch)})
        return [logits[window] for window in range(len(self._windows))]

    def logits(self, document: int) -> Tensor:
        """Return the logits of the document, detached."""
        return combine(self.network.task, self.encodings[0], self.window_logits, self._positions)

    def windows(self, target: Target, quantity: str | None = None) -> Iterator[WindowPart]:
        """Yield every window that enters y, with its pass and its share; those of one batch share their passes."""
        weights = self._weigh(target if quantity is None else replace(target, quantity=check_quantity(quantity)))
        for number, batch in enumerate(self._batches):
            if not any(weights[window].share for window in batch):
                continue
            shared = self._pass(number)
            shared.keep_graph = self.keep_graph or self.more_rounds
            shared.retarget([weights[window].target for window in batch])
            for place, window in enumerate(batch):
                if weights[window].share:
                    yield shared, place, self._positions[window], weights[window].share

    @property
    def window_spans(self) -> tuple[tuple[int, int], ...]:
        """Token ranges of the text that slides."""
        windows = self.encodings[0].windows
        assert windows is not None
        return windows.spans

    def shares(self, target: Target) -> NDArray[np.float64]:
        """Return how much every window counts, (W,)."""
        return np.array([weight.share for weight in self._weigh(target)])

    @property
    def recorder(self) -> Recorder:
        """Raise UnsupportedError: there is one recorder per batch of windows."""
        self._refuse()

    def gradients(self, document: int, target: Target) -> Gradients:
        """Raise UnsupportedError: every window has its own gradients."""
        self._refuse()

    def head_importance(self, document: int, target: Target) -> NDArray[np.float64]:
        """Raise UnsupportedError: every window has its own."""
        self._refuse()

    def relevance(self, document: int, target: Target, rules: BackwardRules) -> Relevance:
        """Raise UnsupportedError: every window has its own."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnsupportedError(
            f"The document is read in {len(self._windows)} windows, and each has its own attention and layers: "
            "encode it with truncate=True to look inside the first."
        )

    def _pass(self, batch: int) -> Pass:
        """Return the pass of a batch of windows; of a long document only one is in memory."""
        if batch not in self._passes:
            if not self._stay_alive:
                self._passes.clear()
            encodings = [self._windows[window] for window in self._batches[batch]]
            # `windows` replaces the requests before anything is explained.
            self._passes[batch] = Pass(self.network, encodings, [Request()] * len(encodings))
            self._passes[batch].require(*self._needs)
        return self._passes[batch]

    def _weigh(self, target: Target) -> list[_Weight]:
        """Return share and target of every window, from ∂y/∂z_w in double precision."""
        if target not in self._weights:
            self._weights[target] = self._differentiate(target)
        return self._weights[target]

    def _differentiate(self, target: Target) -> list[_Weight]:
        task, encoding = self.network.task, self.encodings[0]
        gradients = _window_gradients(task, encoding, self.window_logits, target)
        assert encoding.windows is not None
        mean = encoding.windows.aggregation == "mean" and gradients[0].ndim == 1
        weights = []
        for logits, gradient, positions in zip(self.window_logits, gradients, self._positions, strict=True):
            placed = task.place_in_window(target, positions)
            if not gradient.any():
                weights.append(_Weight(0.0, placed or _with_direction(target, gradient)))
                continue
            leaf = logits.cpu().double().requires_grad_()
            share = 1.0 / len(gradients) if mean else 1.0
            direction = gradient / share
            plain = placed is not None and self._is_gradient(direction, leaf, placed)
            chosen = placed if plain and placed is not None else _with_direction(target, direction)
            weights.append(_Weight(share, chosen))
        return weights

    def _is_gradient(self, direction: Tensor, leaf: Tensor, target: Target) -> bool:
        """Whether y of the window itself has this gradient whatever the logits are."""
        if not _is_linear(target):
            return False
        (gradient,) = torch.autograd.grad(self.network.task.value(leaf, target), leaf)
        return torch.equal(gradient, direction)


def _with_direction(target: Target, direction: Tensor) -> Target:
    weights = direction.detach().cpu().numpy()
    return replace(target, position=None, span=None, window=None, direction=Direction(weights))


def _is_linear(target: Target) -> bool:
    """Whether y is a logit or a contrast of logits."""
    is_difference = target.contrast is not None and target.quantity in ("log_odds", "margin")
    return target.quantity == "logit" or is_difference


def combines_linearly(encoding: Encoding, target: Target) -> bool:
    """Whether y of a document is a fixed linear function of the logits of its windows.

    Log-odds are taken as such: with their gradient at the prediction, +1 for the class and −p_j/(1 − p_c) for others.
    """
    by_token = target.position is not None or target.span is not None
    fixed = _is_linear(target) or target.quantity == "log_odds"
    return fixed and (encoding.windows is None or by_token or encoding.windows.aggregation != "max")


def window_targets(task: Task, encoding: Encoding, logits: Sequence[Tensor], target: Target) -> list[Target]:
    """Return for every window the number Σ G_w ⊙ z_w that has the gradient of y at these `logits` of the windows."""
    return [_with_direction(target, gradient) for gradient in _window_gradients(task, encoding, logits, target)]


def _window_gradients(task: Task, encoding: Encoding, logits: Sequence[Tensor], target: Target) -> list[Tensor]:
    """Return G_w = ∂y/∂z_w for every window, in double precision."""
    leaves = [window_logits.cpu().double().requires_grad_() for window_logits in logits]
    with torch.enable_grad():
        value = task.value(combine(task, encoding, leaves), target)
        return list(torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True))


def describe_windows(shared: Pass, target: Target) -> dict[str, NDArray[Any]]:
    """Return arrays for `Explanation.extras` of a document with W windows; nothing for one that is read at once.

    window_spans (W, 2): token ranges of the text that slides; window_shares (W,): how much each window counts; and,
    where the model classifies documents, window_logits and window_probabilities (W, C) of every window alone.
    """
    if not isinstance(shared, WindowedPass):
        return {}
    arrays: dict[str, NDArray[Any]] = {
        "window_spans": np.array(shared.window_spans),
        "window_shares": shared.shares(target),
    }
    if shared.window_logits[0].ndim == 1:
        logits = torch.stack(shared.window_logits)
        probabilities = torch.stack([shared.network.task.probabilities(row) for row in logits])
        arrays |= {"window_logits": as_array(logits), "window_probabilities": as_array(probabilities)}
    return arrays
