"""A network with its slopes held fixed at one document: linear in the tokens, plus what its biases add.

Attention weights, the deviations that norms divide by, and the slopes f(z)/z of activations are constants; a product of
two activations (a gated feed-forward block) counts half for each. Then every logit is exactly a sum of what the tokens'
embeddings and the biases contribute (Modarressi et al. 2023, DecompX):

    Σ_j w_j z_j = Σ_i ⟨x^0_i, G^0_i⟩ + Σ_l Σ_i (before^l_i + after^l_i) + head

G^l is ∂(Σ_j w_j z_j)/∂x^l with fixed slopes, before^l_i is what the biases contribute that belong to token i before
it is mixed with others in layer l (those of the value projection and of a norm in front of it), after^l_i what the
biases behind that contribute in row i; the biases of the head make up the rest. One forward and one backward pass,
layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm
from torch.overrides import TorchFunctionMode

from sightline.errors import ModelError
from sightline.methods.registry import Array
from sightline.methods.relevance.operations import MOVING, modules_as_operations, name_of, on_path, refusal, replaced
from sightline.passes.trace import Trace

LINEAR = MOVING | {
    *("add", "__add__", "__radd__", "add_", "__iadd__", "sub", "__sub__", "__rsub__", "neg", "__neg__"),
    *("mul", "multiply", "__mul__", "__rmul__", "div", "true_divide", "__truediv__"),
    *("matmul", "bmm", "__matmul__", "einsum", "linear", "addmm", "sum", "mean", "__getitem__"),
}
"""Operations that are linear in what lies on the autograd path, where one operand does."""
PRODUCTS = frozenset(("mul", "multiply", "__mul__", "__rmul__"))
SCORES = frozenset(("matmul", "bmm", "__matmul__", "einsum"))
"""A product of two matrices on the path makes attention scores, which are held fixed."""
ZERO_AT_ZERO = frozenset(("elu", "gelu", "leaky_relu", "mish", "relu", "relu6", "selu", "silu", "tanh"))
"""Activations with f(0) = 0, whose slope f(z)/z is finite."""

Receive = Callable[[Tensor, Tensor, int], None]
"""(weight beside the bias, contribution per row (rows,), first row)"""


class FixedSlopes(TorchFunctionMode):
    """While active, operations on the autograd path are linear, and `receive` learns what biases contribute."""

    def __init__(self, receive: Receive) -> None:
        super().__init__()
        self._receive = receive
        self._rows: dict[int, int] = {}
        """Rows that a linear map or norm has been applied to so far (long documents come in chunks), by its weight."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operation, or the linear one in its place."""
        options = kwargs or {}
        name, operands = name_of(func), [value for value in (*args, *options.values()) if on_path(value)]
        if not torch.is_grad_enabled() or not operands:
            return func(*args, **options)
        if name == "layer_norm":
            return self._norm(*args, **options)
        result = func(*args, **options)
        if name == "softmax" or (name in SCORES and len(operands) > 1):
            return result.detach()
        if name in ZERO_AT_ZERO and len(operands) == 1:
            return replaced(lambda: result.detach(), fixed_slope, operands[0], keep="all")
        if name in PRODUCTS and len(operands) == 2:
            a, b = operands
            return (a * b.detach() + a.detach() * b) / 2
        if name == "linear":
            self._watch(result, *args[1:], **options)
        elif name == "addmm":
            self._watch(result, args[2], args[0])
        elif any(map(on_path, result if isinstance(result, tuple | list) else (result,))) and (
            name not in LINEAR or (len(operands) > 1 and "div" in name)
        ):
            raise refusal(name, "Decomposition by tokens")
        return result

    def _norm(
        self,
        input: Tensor,
        normalized_shape: Any,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        shape = tuple(normalized_shape)

        def rule(R: Tensor, _output: Tensor, x: Tensor) -> tuple[Tensor]:
            deviation = (x.var(dim=-1, keepdim=True, unbiased=False) + eps).sqrt()
            scaled = R / deviation if weight is None else R * weight / deviation
            return (scaled - scaled.mean(dim=-1, keepdim=True),)

        output = replaced(lambda: layer_norm(input, shape, weight, bias, eps), rule, input)
        if weight is not None:
            self._watch(output, weight, bias)
        return output

    def _watch(self, output: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
        first = self._rows.get(id(weight), 0)
        self._rows[id(weight)] = first + output.shape[:-1].numel()
        if bias is None:
            return
        added: Tensor = bias

        def receive(gradient: Tensor) -> None:
            self._receive(weight, gradient.flatten(0, -2) @ added, first)

        output.register_hook(receive)  # type: ignore[no-untyped-call]


def fixed_slope(R: Tensor, output: Tensor, x: Tensor) -> tuple[Tensor]:
    """R · f(x)/x, and nothing where x is 0."""
    return (R * torch.where(x == 0, 0, output / x),)


class _LinearNetwork:
    """The backward rules of a pass with fixed slopes, which collect what the biases of every layer contribute."""

    by_document = False
    through_attention = False

    def __init__(self, trace: Trace) -> None:
        family, layers = trace.network.family, trace.network.layers
        self.before, self.after = np.zeros((2, len(layers), trace.token_count))
        self._modules = layers
        names = {family.query, family.key, family.value} | {f"{family.value}_global"}
        self._names = names | {family.attention_norm} if family.pre_norm else names
        self._active = len(layers) + 1
        self.total = 0.0

    def active(self, module: nn.Module) -> AbstractContextManager[None]:
        """First the network as a whole, then its layers from the top, each by itself."""
        self._active -= 1
        if self._active == len(self._modules):
            return _fixed(lambda *_: None)
        layer, parts = self._active, dict(self._modules[self._active].named_modules())
        in_front = {id(p) for name in self._names & parts.keys() for p in parts[name].parameters()}

        def receive(weight: Tensor, contribution: Tensor, first: int) -> None:
            # GPT-2 passes its matrix as it is stored, others a view or the parameter itself.
            owner = weight if weight._base is None else weight._base
            rows = (self.before if id(owner) in in_front else self.after)[layer, first : first + len(contribution)]
            rows += contribution[: len(rows)].double().numpy(force=True)

        return _fixed(receive)

    def seeds(self, logits: Tensor, gradient: Tensor) -> list[tuple[float, Tensor]]:
        """∂y/∂logits: the gradient of Σ_j w_j z_j."""
        self.total = float((gradient * logits).sum())
        return [(1.0, gradient)]

    def reduce(self, relevance: Tensor, gradient: Tensor | None) -> tuple[Tensor, ...]:
        """Nothing: attention is held fixed."""
        return ()


@contextmanager
def _fixed(receive: Receive) -> Iterator[None]:
    with modules_as_operations(fixed_slope, "all"), FixedSlopes(receive):
        yield


@dataclass(frozen=True)
class LinearParts:
    """What a target is made of with all slopes fixed."""

    total: float
    """Σ_j w_j z_j, the number that is decomposed."""
    embeddings: Array
    """⟨x^0_i, G^0_i⟩, (n,)."""
    before: Array
    """(L, n)."""
    after: Array
    """(L, n)."""
    head: float
    """What the biases of the head contribute."""
    top_slopes: Array
    """G^L (n, d)."""
    error: float
    """How far the parts are from adding up to the total, relative to its size or that of the largest part."""


LARGEST_ERROR = 1e-3
"""Relative error of the sum above which something in the model is not what the decomposition takes it for."""


def linear_parts(trace: Trace) -> LinearParts:
    """Return the parts of the target; raise ModelError if they do not add up to it."""
    rules = _LinearNetwork(trace)
    slopes = trace.relevance(rules)
    states = trace.hidden_states
    bottom, top = ((states[i] * slopes.hidden[i]).sum(-1, dtype=float) for i in (0, -1))
    parts = float(bottom.sum() + rules.before.sum() + rules.after.sum())
    size = max(abs(top.sum()), np.abs(bottom).sum())
    error = abs(parts - float(top.sum())) / size if size else 0.0
    limit = max(LARGEST_ERROR, 32 * torch.finfo(trace.network.dtype).eps)
    if not error <= limit:
        raise ModelError(
            f"The logit cannot be decomposed by tokens: the parts add up to {parts:.4g} instead of {top.sum():.4g}, "
            "because the model adds numbers that no linear map or norm of it has; choose attnlrp or "
            "integrated_gradients."
        )
    return LinearParts(
        total=rules.total,
        embeddings=bottom,
        before=rules.before,
        after=rules.after,
        head=rules.total - float(top.sum()),
        top_slopes=slopes.hidden[-1],
        error=error,
    )
