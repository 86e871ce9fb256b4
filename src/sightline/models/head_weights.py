"""Weights of the attention heads on the autograd path of one forward pass, and sums of (gradient · weight)² by head.

A head owns rows of the query, key and value projections with their biases (in Longformer also of those for global
tokens) and columns of the output projection, whose bias belongs to no head. Where a group of query heads shares one key
and value head, each head of the group gets an equal part of the sum over the shared weights.

In ALBERT all layers share one set of weights. Each *use* of a weight counts on its own here: ∂y/∂w is taken for each
layer as if it had a copy of the weights, so that layers can be compared.

The model is not changed: while a pass runs, stand-ins that share the parameters' memory and require gradients take
their places, and the parameters are put back afterwards, also after an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sightline.errors import UnsupportedError

if TYPE_CHECKING:
    from sightline.models.network import Network

Side = Literal["in", "fused", "by_head", "out"]
"""How heads divide a projection: blocks of rows, such blocks for query, key and value in turn, one block per head for
all three, or blocks of columns."""
Projections = list[tuple[nn.Module, Side]]

GLOBAL_SUFFIX = "_global"
"""Longformer's projections for global tokens are named after the ordinary ones."""


class HeadWeights:
    """The projections of all heads of a network; L layers, H heads."""

    def __init__(self, network: Network) -> None:
        """Find the projections; raise UnsupportedError if the weights cannot be divided among the heads."""
        self._network = network
        self._layers = [_projections(network, layer) for layer in network.layers]
        self._used: list[list[tuple[Side, list[Tensor]]]] = []

    @property
    def tensors(self) -> list[Tensor]:
        """The weights and biases that the last pass used, layer by layer, to differentiate by."""
        return [weight for layer in self._used for _, weights in layer for weight in weights]

    @contextmanager
    def on_autograd_path(self) -> Iterator[None]:
        """Replace the parameters by stand-ins that require gradients while a pass runs."""
        network = self._network
        originals: dict[nn.Module, dict[str, nn.Parameter]] = {}
        for projections in self._layers:
            for module, _ in projections:
                originals.setdefault(module, dict(module.named_parameters(recurse=False)))

        def replace(projections: Projections) -> None:
            layer: list[tuple[Side, list[Tensor]]] = []
            for module, side in projections:
                stand_ins = {name: nn.Parameter(original.detach()) for name, original in originals[module].items()}
                for name, parameter in stand_ins.items():
                    setattr(module, name, parameter)
                layer.append((side, [p for name, p in stand_ins.items() if name == "weight" or side != "out"]))
            self._used.append(layer)

        self._used = []
        modules = {id(layer): layer for layer in network.layers}
        with ExitStack() as stack:
            stack.callback(_restore, originals)
            if len(modules) < len(network.layers):
                # New stand-ins whenever the shared module runs separate ∂y/∂w into the shares of the layers.
                def before(module: nn.Module, _args: Any, _kwargs: Any) -> None:
                    replace(_projections(network, module))

                for layer in modules.values():
                    stack.enter_context(layer.register_forward_pre_hook(before, with_kwargs=True))
            else:
                for projections in self._layers:
                    replace(projections)
            yield

    def sum_squares(self, gradients: Sequence[Tensor]) -> npt.NDArray[np.float64]:
        """Return Σ_w (g_w · w)² over the weights w of every head, (L, H); g as in `tensors`."""
        heads = self._network.heads
        width = (
            _sizes(self._network, self._layers[0][-1][0])[1] // heads
        )  # e, from the columns of the output projection
        remaining = iter(gradients)
        result = np.zeros((len(self._used), heads))
        for row, layer in zip(result, self._used, strict=True):
            for side, weights in layer:
                for weight in weights:
                    squares = (next(remaining) * weight.detach()).cpu().double().square()
                    if weight.ndim == 2 and self._network.family.transposed_weights:
                        squares = squares.T
                    row += _sum_by_head(squares, side, heads, width)
        return result


def _sum_by_head(squares: Tensor, side: Side, heads: int, width: int) -> npt.NDArray[np.float64]:
    """Sum over the weights of each head: (H,).

    Rows of an "in" projection are (H, e), or (G, e) where G key and value heads serve H/G query heads each; where one
    matrix makes query, key and value, they are (H + 2G, e), or (H, 3, e) "by_head". "out" has (H, e) columns.
    """
    if side == "out":
        squares = squares.T
    blocks = squares.reshape(len(squares), -1).sum(dim=1).view(-1, width).sum(dim=1)
    if side == "by_head":
        return np.asarray(blocks.view(heads, 3).sum(dim=1).cpu().numpy())
    groups = (len(blocks) - heads) // 2
    parts = torch.split(blocks, [heads, groups, groups]) if side == "fused" else (blocks,)
    return np.asarray(sum(_share_among_heads(part, heads) for part in parts))


def _share_among_heads(blocks: Tensor, heads: int) -> npt.NDArray[np.float64]:
    """(G,) -> (H,): every group's number divided among its heads."""
    size = heads // len(blocks)
    return np.asarray((blocks / size).repeat_interleave(size).cpu().numpy())


def _projections(network: Network, layer: nn.Module) -> Projections:
    """Return the projections of one layer and how heads divide each."""
    family = network.family
    if family.single_attention:
        raise UnsupportedError(
            f"A '{family.model_type}' model has a single attention and no heads whose importance could be compared."
        )
    projections: Projections = []
    for path in dict.fromkeys((family.query, family.key, family.value)):
        fused = family.query == family.key == family.value
        side: Side = "by_head" if family.fused_by_head else "fused" if fused else "in"
        projections.append((_linear(network, layer, path), side))
        if _has(layer, path + GLOBAL_SUFFIX):
            projections.append((_linear(network, layer, path + GLOBAL_SUFFIX), "in"))
    projections.append((_linear(network, layer, family.attention_output), "out"))
    width = _sizes(network, projections[-1][0])[1]
    groups = int(getattr(network.config, "num_key_value_heads", None) or network.heads)
    shared = width * groups // network.heads
    queries = _linear(network, layer, family.query)
    for module, side in projections:
        rows = width if module is queries else shared
        expected = {"in": rows, "fused": width + 2 * shared, "by_head": 3 * width, "out": width}[side]
        actual = _sizes(network, module)[1 if side == "out" else 0]
        if actual != expected or width % network.heads:
            raise _unsupported(network, f"a projection has {actual} rows where {expected} were expected")
    return projections


def _has(layer: nn.Module, path: str) -> bool:
    parent, _, name = path.rpartition(".")
    return hasattr(layer.get_submodule(parent), name)


def _linear(network: Network, layer: nn.Module, path: str) -> nn.Module:
    module = layer.get_submodule(path) if _has(layer, path) else None
    if module is None or getattr(module, "weight", torch.empty(0)).ndim != 2:
        raise _unsupported(network, f"'{path}' is not a linear map")
    return module


def _sizes(network: Network, module: nn.Module) -> tuple[int, int]:
    """Return (outputs, inputs) of the map x -> W x."""
    weight = module.get_parameter("weight")
    rows, columns = weight.T.shape if network.family.transposed_weights else weight.shape
    return rows, columns


def _unsupported(network: Network, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"Head importance does not know where the heads of a '{network.config.model_type}' model keep their weights "
        f"({reason})."
    )


def _restore(originals: dict[nn.Module, dict[str, nn.Parameter]]) -> None:
    for module, parameters in originals.items():
        for name, parameter in parameters.items():
            setattr(module, name, parameter)
