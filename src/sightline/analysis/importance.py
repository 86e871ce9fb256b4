"""Head importance: how strongly the loss depends on the weights of each head, to first order.

For one example with loss 𝓛 and head h of layer l

    I(l, h) = Σ_w (∂𝓛/∂w · w)²,

w running over the head's rows of the query, key and value projections with their biases (in Longformer also of those
for global tokens) and its columns of the output projection (Molchanov et al. 2019, Taylor expansion; as in T3-Vis, Li
et al. 2021). A data set's importance is the mean over its examples, each with a backward pass of its own: gradients
of different examples would cancel if they were added first. 𝓛 = −log p(label), the cross-entropy.

In ALBERT all layers share one set of weights. Importance here belongs to the *use* of a weight: ∂𝓛/∂w is taken for
each layer as if it had its own copy, so that layers can be compared.

Cost: one forward and one backward an example. The model is not changed: gradients flow to stand-ins that share the
parameters' memory, and the parameters themselves are back in place afterwards, also after an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sightline.analysis.source import Progress, tracked
from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.models import Network
from sightline.text import Encoding

if TYPE_CHECKING:
    from sightline.model import Document, Model

Normalize = Literal["minmax", "sum", "raw"]
Importance = npt.NDArray[np.float64]
Parts = list[tuple[nn.Module, str]]
"""Projections of one layer, each "in" (heads are blocks of its rows), "fused" (three times such) or "out" (columns)."""

GLOBAL_SUFFIX = "_global"
"""Longformer's projections for global tokens are named after the ordinary ones."""


def head_importance(
    model: Model,
    encodings: Document | Iterable[Document],
    labels: Sequence[int | str | None] | None = None,
    normalize: Normalize | None = "minmax",
    *,
    progress: Progress | None = None,
) -> Importance:
    """Return the importance of every head over a data set, (L, H).

    encodings: one document or many, as texts or encodings. labels: the true class of each; the predicted class where
    None. normalize: "minmax" maps the smallest of all heads to 0 and the largest to 1, "sum" makes them sum to 1,
    "raw" (or None) leaves them as they are.
    """
    _check_normalize(normalize)
    per_example = head_importance_per_example(model, encodings, labels, progress=progress)
    return normalized_importance(per_example.mean(axis=0), normalize)


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
        raise InputError(f"{given} labels were given for {len(documents)} documents; give one a document, or None.")
    network = model.network
    layers = [_parts(network, layer) for layer in network.layers]
    found = np.zeros((len(documents), len(layers), network.heads))
    for number, document in enumerate(tracked(documents, "head importance", progress)):
        encoding = model.encode(document) if isinstance(document, str) else document
        found[number] = _importance(network, layers, encoding, None if labels is None else labels[number])
    return found


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
    if normalize not in ("minmax", "sum", "raw", None):
        raise OptionError(f"normalize = '{normalize}' is not known. Known: minmax, sum, raw.")


def _importance(network: Network, layers: list[Parts], encoding: Encoding, label: int | str | None) -> Importance:
    """(L, H) of one example."""
    with _stand_ins(network, layers) as used:
        (logits,) = network.run([encoding], gradient=True)
        target = network.task.resolve(logits.detach(), encoding, label, "log_probability", None)
        scores = network.task.class_logits(logits, target.position)
        if scores.ndim == 1 and len(scores) == 1 and not network.task.facts.multi_label:
            raise UnsupportedError(
                "Head importance needs a loss over classes; this model has a single output, whose cross-entropy is 0."
            )
        # In double precision: for a sure prediction ∂𝓛/∂logits is 1 − p, of which single precision leaves a few digits.
        loss = -network.task.value(logits.to("cpu", torch.float64), target)
        weights = [weight for layer in used for _, pair in layer for weight in pair]
        gradients = iter(network.backward(loss, weights))
    heads = network.heads
    result = np.zeros((len(used), heads))
    for row, layer in zip(result, used, strict=True):
        for side, pair in layer:
            for weight in pair:
                squares = (next(gradients) * weight.detach()).double().square()
                if weight.ndim == 2 and network.family.transposed_weights:
                    squares = squares.T
                row += _by_head(squares, side, heads)
    return result


def _by_head(squares: Tensor, side: str, heads: int) -> npt.NDArray[np.float64]:
    """Sum over what belongs to each head: (H,).

    Rows of an "in" projection are (H, e), or (3, H, e) where one matrix makes query, key and value; "out" has (H, e)
    columns.
    """
    if side == "out":
        squares = squares.T
    rows = squares.reshape(len(squares), -1).sum(dim=1)
    width = rows.numel() // heads
    if side == "fused":
        return np.asarray(rows.view(3, heads, width // 3).sum(dim=(0, 2)).cpu().numpy())
    return np.asarray(rows.view(heads, width).sum(dim=1).cpu().numpy())


def _parts(network: Network, layer: nn.Module) -> Parts:
    """The projections of one layer and how heads divide each."""
    family = network.family
    parts: Parts = []
    for path in dict.fromkeys((family.query, family.key, family.value)):
        fused = family.query == family.key == family.value
        parts.append((_linear(network, layer, path), "fused" if fused else "in"))
        if _has(layer, path + GLOBAL_SUFFIX):
            parts.append((_linear(network, layer, path + GLOBAL_SUFFIX), "in"))
    parts.append((_linear(network, layer, family.attention_output), "out"))
    width = _sizes(network, parts[-1][0])[1]
    for module, side in parts:
        expected = {"in": width, "fused": 3 * width, "out": width}[side]
        found = _sizes(network, module)[1 if side == "out" else 0]
        if found != expected or width % network.heads:
            raise _unsupported(network, f"a projection has {found} rows where {expected} were expected")
    return parts


def _has(layer: nn.Module, path: str) -> bool:
    parent, _, name = path.rpartition(".")
    return hasattr(layer.get_submodule(parent), name)


def _linear(network: Network, layer: nn.Module, path: str) -> nn.Module:
    module = layer.get_submodule(path) if _has(layer, path) else None
    if module is None or getattr(module, "weight", torch.empty(0)).ndim != 2:
        raise _unsupported(network, f"'{path}' is not a linear map")
    return module


def _sizes(network: Network, module: nn.Module) -> tuple[int, int]:
    """(rows, columns) of the map x -> W x: what comes out and what goes in."""
    weight = module.get_parameter("weight")
    rows, columns = weight.T.shape if network.family.transposed_weights else weight.shape
    return rows, columns


def _unsupported(network: Network, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"Head importance does not know where the heads of a '{network.config.model_type}' model keep their weights "
        f"({reason})."
    )


Used = list[list[tuple[str, list[Tensor]]]]
"""For every layer: side, and weight and (for "in") bias of every projection."""


@contextmanager
def _stand_ins(network: Network, layers: list[Parts]) -> Iterator[Used]:
    """Put stand-ins that ask for gradients in the parameters' places; yields those each layer uses."""
    originals: dict[nn.Module, dict[str, nn.Parameter]] = {}
    for parts in layers:
        for module, _ in parts:
            originals.setdefault(module, dict(module.named_parameters(recurse=False)))

    def replace(parts: Parts) -> list[tuple[str, list[Tensor]]]:
        found: list[tuple[str, list[Tensor]]] = []
        for module, side in parts:
            fresh = {name: nn.Parameter(kept.detach()) for name, kept in originals[module].items()}
            for name, parameter in fresh.items():
                setattr(module, name, parameter)
            # The output projection's bias belongs to no head.
            found.append((side, [p for name, p in fresh.items() if name == "weight" or side != "out"]))
        return found

    used: Used = []
    shared = len({id(layer) for layer in network.layers}) < len(network.layers)
    with ExitStack() as stack:
        stack.callback(_restore, originals)
        if shared:
            # Fresh ones at every run of the shared module: ∂𝓛/∂w then falls apart into the layers' shares.
            def before(module: nn.Module, _args: Any, _kwargs: Any) -> None:
                used.append(replace(_parts(network, module)))

            for layer in {id(layer): layer for layer in network.layers}.values():
                stack.callback(layer.register_forward_pre_hook(before, with_kwargs=True).remove)
        else:
            used.extend(replace(parts) for parts in layers)
        yield used


def _restore(originals: dict[nn.Module, dict[str, nn.Parameter]]) -> None:
    for module, parameters in originals.items():
        for name, parameter in parameters.items():
            setattr(module, name, parameter)
