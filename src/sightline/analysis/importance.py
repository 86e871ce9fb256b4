"""Single heads: how important each one is, and how much of its attention has an effect.

Head importance says how strongly an output of the model depends on the weights of each head, to first order.

For one example with loss 𝓛 and head h of layer l

    I(l, h) = Σ_w (∂𝓛/∂w · w)²,

where w runs over the weights of the head (`models.head_weights`): its rows of the query, key and value projections
with their biases and its columns of the output projection (Molchanov et al. 2019, Taylor expansion; as in T3-Vis, Li
et al. 2021).

- `head_importance` takes 𝓛 = −log p(label), the cross-entropy, and the mean over the examples of a data set. Each
  example has a backward pass of its own: gradients of different examples would cancel if they were added first.
- `head_importance_of` takes what a trace explains, y, in place of 𝓛, and reads ∂y/∂w from the trace's own backward
  pass. For quantity "log_probability" both agree on one document.

Cost: one forward and one backward per example; for a trace that explains by gradients anyway, the products ∂y/∂w alone.

`effective_head` shows attention beside effective attention (`methods/attention_weights`): what cancels in each head.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import torch

from sightline.analysis.source import track
from sightline.errors import InputError, TargetError, UnsupportedError
from sightline.methods.attention_weights import effective_attention
from sightline.models import Network
from sightline.models.classes import classes_of, no_class
from sightline.models.head_weights import HeadWeights
from sightline.models.target import Request
from sightline.passes.trace import Trace
from sightline.progress import Progress
from sightline.settings.values import check_head, check_layer, check_one_of
from sightline.text import Encoding

if TYPE_CHECKING:
    import pandas as pd

    from sightline.api.loaded import Document
    from sightline.api.model import Model

Normalize = Literal["minmax", "sum", "raw"]
Importance = npt.NDArray[np.float64]


def head_importance(
    model: Model,
    encodings: Document | Iterable[Document],
    labels: Sequence[int | str | None] | None = None,
    normalize: Normalize | None = "minmax",
    *,
    progress: Progress | None = None,
) -> Importance:
    """Return the importance of every head over a data set, (L, H).

    encodings: one or several documents, as texts or encodings. labels: the true class of each; the predicted class
    where None. normalize: "minmax" maps the least important head to 0 and the most important one to 1, "sum" makes all
    heads sum to 1, "raw" (or None) leaves the values as they are.
    """
    _check_normalize(normalize)
    per_example = head_importance_per_example(model, encodings, labels, progress=progress)
    return normalized_importance(per_example.mean(axis=0), normalize)


def head_importance_of(trace: Trace, normalize: Normalize | None = "minmax") -> Importance:
    """Return how strongly y, what the trace explains, depends on every head, (L, H); normalised as `head_importance`.

    No further pass runs if `trace.require("head_importance")` was called before the trace was used. A document traced
    in a batch of several is run again alone, because the gradients of a batch are sums over its documents.
    """
    _check_normalize(normalize)
    return normalized_importance(trace.head_importance, normalize)


def head_importance_per_example(
    model: Model,
    encodings: Document | Iterable[Document],
    labels: Sequence[int | str | None] | None = None,
    *,
    progress: Progress | None = None,
) -> Importance:
    """Return the importance of every head for every example, (N, L, H), not normalised."""
    single = isinstance(encodings, str | Encoding)
    documents: list[Document] = [encodings] if single else list(encodings)  # type: ignore[list-item,arg-type]
    if not documents:
        raise InputError("Head importance needs at least one document; the list is empty.")
    if labels is not None and (isinstance(labels, str) or len(labels) != len(documents)):
        given = 1 if isinstance(labels, str) else len(labels)
        raise InputError(f"{given} labels were given for {len(documents)} documents; give one per document, or None.")
    network = model.network
    named = list(labels or ())
    if not network.task.classes_are_tokens:
        classes = classes_of(named, model.labels)
        if unknown := [label for label, index in classes.items() if index is None]:
            raise TargetError(no_class(unknown[0], model.labels))
        named = [None if label is None else model.labels[classes[label] or 0] for label in named]
    weights = HeadWeights(network)
    importance = np.zeros((len(documents), len(network.layers), network.heads))
    for number, document in enumerate(track(documents, "head importance", progress)):
        encoding = model.encode(document, truncate=True) if isinstance(document, str) else document
        importance[number] = _importance(network, weights, encoding, named[number] if named else None)
    return importance


def normalized_importance(importance: npt.ArrayLike, normalize: Normalize | None) -> Importance:
    """Scale importance (L, H) onto [0, 1] ("minmax"), to a sum of 1 ("sum"), or not at all ("raw" or None).

    Heads that are all equally important become all 1 under "minmax", so that as weights they give the plain mean.
    """
    values = np.asarray(importance, dtype=np.float64)
    _check_normalize(normalize)
    if normalize == "minmax":
        spread = values.max() - values.min()
        return (values - values.min()) / spread if spread > 0 else np.ones_like(values)
    if normalize == "sum":
        total = values.sum()
        return values / total if total > 0 else np.full_like(values, 1.0 / values.size)
    return values


def _check_normalize(normalize: str | None) -> None:
    if normalize is not None:
        check_one_of("normalize", normalize, ("minmax", "sum", "raw"))


def _importance(network: Network, weights: HeadWeights, encoding: Encoding, label: int | str | None) -> Importance:
    """Return the importance of every head for one example, (L, H)."""
    if len(network.task.facts.labels) == 1 and not network.task.facts.multi_label:
        raise UnsupportedError(
            "Head importance needs a loss over classes; this model has a single output, whose cross-entropy is 0."
        )
    (logits,) = network.run([encoding], gradient=True, within=weights.on_autograd_path())
    target = network.task.resolve(logits.detach(), encoding, Request(label, "log_probability"))
    # In double precision: for a confident prediction ∂𝓛/∂logits is 1 − p, which single precision rounds to few digits.
    loss = -network.task.value(logits.to("cpu", torch.float64), target)
    return weights.sum_squares(network.backward(loss, weights.tensors))


Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EffectiveHead:
    """The attention of one head beside its effective attention, and what is cancelled in every head."""

    layer: int
    head: int
    attention: Values
    """(n, n)."""
    effective: Values
    """(n, n); weights may be negative."""
    cancelled: Values
    """(L, H): the share of each head's squared weights that has no effect."""
    width: int
    """Dimensions of a head; nothing is cancelled in texts of at most this many tokens."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per head, the largest share first: layer, head, cancelled."""
        import pandas as pd

        layers, heads = np.indices(self.cancelled.shape)
        frame = pd.DataFrame({"layer": layers.ravel(), "head": heads.ravel(), "cancelled": self.cancelled.ravel()})
        return frame.sort_values("cancelled", ascending=False, kind="stable", ignore_index=True)


def effective_head(trace: Trace, layer: int, head: int) -> EffectiveHead:
    """Return one head's attention and effective attention, with the cancelled share of all heads."""
    layer, head = check_layer(layer, trace.layer_count), check_head(head, trace.head_count)
    return EffectiveHead(
        layer=layer,
        head=head,
        attention=np.asarray(trace.attentions[layer].head(head).dense()[0], dtype=np.float64),
        effective=effective_attention(trace, layer)[head],
        cancelled=cancelled_share(trace),
        width=int(trace.block(layer).values.shape[2]),
    )


def cancelled_share(trace: Trace) -> Values:
    """Return the share of every head's squared weights that has no effect, ‖A − A_eff‖² / ‖A‖², (L, H), in [0, 1]."""
    shares = []
    for layer in range(trace.layer_count):
        weights = np.asarray(trace.attentions[layer].dense(), dtype=np.float64)
        removed = ((weights - effective_attention(trace, layer)) ** 2).sum(axis=(1, 2))
        shares.append(removed / (weights**2).sum(axis=(1, 2)))
    return np.asarray(np.clip(np.array(shares), 0.0, 1.0))
