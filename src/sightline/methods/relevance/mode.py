"""Relevance propagation through an ordinary model: backward rules replaced while it runs.

A torch function mode sees every operation of the model by name. Operations that compute get a rule of the chosen set
instead of their gradient; operations that only move numbers (views, slices, concatenation) keep their gradient, which
moves relevance the same way. An operation it does not know is refused rather than given its gradient in silence.
Outputs are those of the unchanged model, bit for bit.

`propagate` returns the relevance of everything in a trace by one set of rules.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sightline.methods.relevance.operations import (
    ACTIVATIONS,
    MOVING,
    RelevanceRule,
    modules_as_operations,
    name_of,
    on_path,
    pass_on,
    refusal,
    replaced,
)
from sightline.methods.relevance.rules import Rules, fitted, sum_shares
from sightline.models.layerwise import Relevance
from sightline.passes.trace import Trace

LOGITS_ALONE = 32
"""Logits that are propagated one by one where seeds of both signs must not meet; each costs a backward pass."""


@dataclass
class _Readers:
    """How many linear maps and sums read one activation."""

    all: int = 0
    linear: int = 0

    def relevance(self, rules: Rules, received: Tensor, x: Tensor) -> Tensor:
        """What one reader hands back to x, once all readers are known."""
        return rules.copy(received, x) if rules.copy is not None and self.all > 1 else received


class RelevanceMode(TorchFunctionMode):
    """While active, what is computed from tensors on the autograd path hands relevance back by `rules`."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.rules = rules
        self._readers: dict[int, tuple[Tensor, _Readers]] = {}
        self._handlers: dict[str, Callable[..., Tensor | None]] = {
            "linear": self._linear,
            "addmm": self._affine,
            "layer_norm": self._norm,
            "softmax": self._softmax,
            "__getitem__": self._slice,
            **dict.fromkeys(("add", "__add__", "__radd__"), self._add),
            **dict.fromkeys(("add_", "__iadd__"), self._add_in_place),
            **dict.fromkeys(("sub", "__sub__"), partial(self._add, sign=-1)),
            **dict.fromkeys(("mul", "multiply", "__mul__", "__rmul__"), self._multiply),
            **dict.fromkeys(("div", "true_divide", "__truediv__", "neg", "__neg__"), self._scale),
            **dict.fromkeys(("matmul", "bmm", "__matmul__"), self._matmul),
            **dict.fromkeys(("sum", "mean"), self._sum),
            **dict.fromkeys(ACTIVATIONS, self._scale),
        }

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let the rule of the operation take its place, or run it as it is."""
        options = kwargs or {}
        name = name_of(func)
        if torch.is_grad_enabled() and name in self._handlers and any(map(on_path, (*args, *options.values()))):
            output = self._handlers[name](lambda: func(*args, **options), *args, **options)
            if output is not None:
                return output
            raise refusal(name, "Relevance propagation")
        result = func(*args, **options)
        if name not in MOVING and any(map(on_path, result if isinstance(result, tuple | list) else (result,))):
            raise refusal(name, "Relevance propagation")
        return result

    def __exit__(self, *details: Any) -> None:
        """Forget the activations seen."""
        self._readers.clear()
        super().__exit__(*details)  # type: ignore[no-untyped-call]

    def _read(self, value: Tensor) -> _Readers:
        """Count one more reader of an activation."""
        # The tensor is kept beside its count so that its id stays its own.
        readers = self._readers.setdefault(id(value), (value, _Readers()))[1]
        readers.all += 1
        return readers

    def _slice(self, compute: Callable[[], Tensor], input: Tensor, index: Any) -> Tensor:
        copy, output = self.rules.copy, compute()
        return output if copy is None else replaced(lambda: output, lambda R, _, x: (copy(R, x),), output)

    def _linear(
        self, compute: Callable[[], Tensor], input: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        rules, readers = self.rules, self._read(input)
        readers.linear += 1

        def back(R: Tensor, output: Tensor, x: Tensor) -> tuple[Tensor]:
            relevance = readers.relevance(rules, rules.linear(R, x, weight, bias, output), x)
            # Query, key and value read copies of one copy; the residual has the other.
            return (rules.copy(relevance, x) if rules.copy is not None and readers.linear > 1 else relevance,)

        return replaced(compute, back, input, keep="all")

    def _affine(self, compute: Callable[[], Tensor], bias: Tensor, input: Tensor, weight: Tensor) -> Tensor:
        """GPT-2 writes its linear maps as bias + x·W, W (in, out)."""
        return self._linear(compute, input, weight.T, bias)

    def _norm(
        self,
        compute: Callable[[], Tensor],
        input: Tensor,
        normalized_shape: Any,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        rule, shape = self.rules.norm, tuple(normalized_shape)
        return replaced(compute, lambda R, output, x: (rule(R, x, output, shape, weight, eps),), input, keep="all")

    def _softmax(self, compute: Callable[[], Tensor], input: Tensor, dim: int = -1, **_options: Any) -> Tensor:
        rule = self.rules.softmax
        return replaced(compute, lambda R, output, x: (rule(R, x, output, dim),), input, keep="all")

    def _add(
        self, compute: Callable[[], Tensor], input: Any, other: Any, *, alpha: float = 1, sign: int = 1
    ) -> Tensor | None:
        if on_path(input) and isinstance(other, int) and other == 0:
            return replaced(compute, pass_on, input, keep="shapes")  # a sum that begins with sum = 0
        if alpha != 1 or not (isinstance(input, Tensor) and isinstance(other, Tensor)):
            return None
        rules, readers = self.rules, (self._read(input), self._read(other))
        # What is added to attention scores (four dimensions) and depends on no token is a bias: a mask, or learned
        # scores of distances (T5, MPNet). Positions that are added to embeddings keep their part instead.
        is_bias = not rules.bias_absorbs and input.ndim == 4 and not on_path(other)

        def back(R: Tensor, _: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            shares = rules.add(R, a, torch.zeros_like(b) if is_bias else sign * b)
            return tuple(
                reader.relevance(rules, share, x) for reader, share, x in zip(readers, shares, (a, b), strict=True)
            )

        return replaced(compute, back, input, other)

    def _add_in_place(self, compute: Callable[[], Tensor], input: Any, other: Any) -> Tensor | None:
        """Add into new memory, which then becomes that of the tensor: rules that kept the old one find it unchanged."""
        if not on_path(input):
            return None
        before = input.view_as(input)
        output = self._add(lambda: torch.add(before, other), before, other)
        if output is not None:
            input.data = output.data
        return output

    def _multiply(self, compute: Callable[[], Tensor], input: Any, other: Any) -> Tensor:
        if on_path(input) and on_path(other):
            halves: RelevanceRule = lambda R, _, a, b: (fitted(R / 2, a), fitted(R / 2, b))  # noqa: E731
            return replaced(compute, halves, input, other, keep="shapes")
        constant, varying = (other, input) if on_path(input) else (input, other)
        if not isinstance(constant, Tensor):
            return replaced(compute, pass_on, varying, keep="shapes")
        # A constant of zero is a mask: nothing came through.
        masked: RelevanceRule = lambda R, _, x: (fitted(torch.where(constant == 0, 0, R), x),)  # noqa: E731
        return replaced(compute, masked, varying, keep="shapes")

    def _matmul(self, compute: Callable[[], Tensor], input: Tensor, other: Tensor) -> Tensor | None:
        if not on_path(input) or input.ndim < 2 or other.ndim < 2:
            return None
        if not on_path(other):
            return self._project(compute, input, other) if input.ndim == other.ndim == 3 else None
        rule = self.rules.matmul
        if input.shape[-1] < min(input.shape[-2], other.shape[-1]):
            # Scores are larger than queries and keys, and cost one of a hundred products to compute again.
            return replaced(compute, lambda R, _, a, b: rule(R, a, b, a @ b), input, other)
        return replaced(compute, lambda R, output, a, b: rule(R, a, b, output), input, other, keep="all")

    def _project(self, compute: Callable[[], Tensor], input: Tensor, matrices: Tensor) -> Tensor:
        """A product x·M (b, n, e)·(b, e, k) with constants M is a linear map without bias for every b.

        DeBERTa multiplies queries and keys with vectors of positions.
        """
        rule = self.rules.linear

        def back(R: Tensor, output: Tensor, x: Tensor) -> tuple[Tensor]:
            parts = zip(R, x, matrices.transpose(1, 2), output, strict=True)
            return (torch.stack([rule(R_b, x_b, weight, None, output_b) for R_b, x_b, weight, output_b in parts]),)

        return replaced(compute, back, input, keep="all")

    def _scale(self, compute: Callable[[], Tensor], input: Any, *others: Any, **options: Any) -> Tensor | None:
        if not on_path(input) or any(map(on_path, (*others, *options.values()))):
            return None
        return replaced(compute, pass_on, input, keep="shapes")

    def _sum(
        self,
        compute: Callable[[], Tensor],
        input: Tensor,
        dim: int | tuple[int, ...] | None = None,
        keepdim: bool = False,
        **_options: Any,
    ) -> Tensor:
        dimensions = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        reduced_shape = [1 if d in {i % input.ndim for i in dimensions} else size for d, size in enumerate(input.shape)]
        return replaced(compute, lambda R, _, x: (sum_shares(R.reshape(reduced_shape), x, dimensions),), input)


@contextmanager
def relevance_mode(rules: Rules) -> Iterator[None]:
    """Run a network inside this block, then differentiate its outputs to propagate relevance."""
    with modules_as_operations(pass_on, "shapes"), RelevanceMode(rules):
        yield


@dataclass(frozen=True)
class Propagation:
    """A rule set as a trace takes it."""

    rules: Rules
    whole_attention: bool = False
    """Keep the relevance of every attention weight instead of means over heads, as much as the attention itself."""
    through_attention: bool = True

    @property
    def by_document(self) -> bool:
        """Whether each document has one seed, and no rule counts the readers of an activation, also between layers."""
        return self.rules.additive and self.rules.copy is None

    def active(self, module: nn.Module) -> AbstractContextManager[None]:
        """While open, what runs in this thread gets the rules."""
        return relevance_mode(self.rules)

    def seeds(self, logits: Tensor, gradient: Tensor) -> list[tuple[float, Tensor]]:
        """1 for the logit of the target class (in general ∂y/∂logits), or that times the logits, all at once.

        Where rules are not additive, seeds of both signs would cancel in the sums that they keep. Every logit is then
        propagated by itself, with relevance 1, and counts by its weight ∂y/∂logit. Of more than `LOGITS_ALONE` logits
        those with the smallest weights (a vocabulary's tail) are propagated together, each sign by itself.
        """
        if self.rules.additive:
            return [(1.0, gradient * logits if self.rules.seed_is_value else gradient)]
        if bool((gradient >= 0).all()) or bool((gradient <= 0).all()):
            return [_scaled_to_one(gradient)]
        weights = gradient.flatten()
        order = weights.abs().argsort(descending=True, stable=True)[: int(weights.count_nonzero())]
        alone, tail = order[:LOGITS_ALONE], order[LOGITS_ALONE:]
        groups = [*torch.split(alone, 1), tail[weights[tail] > 0], tail[weights[tail] < 0]]
        seeds = [torch.zeros_like(weights).index_copy(0, group, weights[group]) for group in groups if len(group)]
        return [_scaled_to_one(seed.view_as(gradient)) for seed in seeds]

    def reduce(self, relevance: Tensor, gradient: Tensor | None) -> tuple[Tensor, ...]:
        """mean_h max(0, R(A)), and mean_h max(0, ∂y/∂A ⊙ R(A)) given ∂y/∂A; or R(A) itself."""
        if self.whole_attention:
            return (relevance,)
        positive = relevance.relu().mean(dim=-3, keepdim=True)
        if gradient is None:
            return (positive,)
        return positive, (gradient * relevance).relu_().mean(dim=-3, keepdim=True)


def _scaled_to_one(seed: Tensor) -> tuple[float, Tensor]:
    """Return a weight and the seed divided by it, whose largest entry is 1: ε is small beside that, whatever y is."""
    weight = float(seed.flatten()[seed.abs().argmax()])
    return (weight, seed / weight) if weight else (1.0, seed)


def propagate(trace: Trace, rules: Rules, *, whole_attention: bool = False) -> Relevance:
    """Return the relevance of everything in the trace; methods with the same rules and target share the pass.

    Of the relevance of attention the positive means over heads are kept (`Propagation.reduce`), or all of it.
    """
    relevance = trace.relevance(Propagation(rules, whole_attention))
    if relevance.lost:
        warnings.warn(
            f"{relevance.lost} relevances exceeded {trace.network.dtype} where contributions cancel, and count as zero"
            + ('; load the model with dtype="float64".' if trace.network.dtype != torch.float64 else "."),
            stacklevel=3,
        )
    return relevance
