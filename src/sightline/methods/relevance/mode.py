"""Relevance propagation through an ordinary model: backward rules replaced while it runs.

A torch function mode sees every operation of the model by name. Operations that compute get a rule of the chosen set
instead of their gradient; operations that only move numbers (views, slices, concatenation) keep their gradient, which
moves relevance the same way. An operation it does not know is refused rather than given its gradient in silence.
Outputs are those of the unchanged model, bit for bit.

`propagate` returns the relevance of everything in a trace by one set of rules.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from sightline.errors import UnsupportedError
from sightline.methods.relevance.rules import Rules, fitted, sum_shares
from sightline.models.relevance import Relevance
from sightline.passes.trace import Trace

Rule = Callable[..., tuple[Tensor, ...]]
"""(R, output, *inputs) -> the relevance of each input."""
Kept = Literal["all", "inputs", "shapes"]
"""What a rule reads besides R, and so what is kept for it until relevance comes back: output and inputs, the inputs, or
only how large they are. On long documents most of the memory goes here."""

MOVING = frozenset(
    (
        *("T", "mT", "movedim", "permute", "transpose", "flatten", "unflatten", "reshape", "view", "view_as"),
        *("squeeze", "unsqueeze", "expand", "expand_as", "contiguous", "clone", "detach", "requires_grad_"),
        *("cat", "stack", "chunk", "split", "split_with_sizes", "unbind", "narrow", "select", "index_select", "gather"),
        *("unfold", "repeat"),
        *("index_copy", "masked_fill", "where", "pad", "to", "type_as", "float", "double", "half", "bfloat16"),
        "dropout",
    )
)
"""Operations that move or drop numbers and change none (dropout is off while explaining)."""
ACTIVATIONS = ("elu", "gelu", "leaky_relu", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "tanh")

LOGITS_ALONE = 32
"""Logits that are propagated one by one where seeds of both signs must not meet; each costs a backward pass."""

ACTIVATION_MODULES = "transformers.activations"
"""Where the library keeps activation functions that are modules."""


class _Replaced(torch.autograd.Function):
    """An operation whose backward is a rule."""

    @staticmethod
    def forward(ctx: Any, compute: Callable[[], Tensor], rule: Rule, keep: Kept, *inputs: Tensor) -> Tensor:
        output = compute()
        ctx.rule = rule
        ctx.save_for_backward(
            output if keep == "all" else _size_of(output),
            *(x if keep != "shapes" else _size_of(x) for x in inputs),
        )
        # A result that is its own input (an operation that had nothing to do) must not be taken for the input.
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        output, *inputs = ctx.saved_tensors
        relevances = ctx.rule(gradients[0], output, *inputs)
        return None, None, None, *(relevance.to(x.dtype) for relevance, x in zip(relevances, inputs, strict=True))


def replaced(compute: Callable[[], Tensor], rule: Rule, *inputs: Tensor, keep: Kept = "inputs") -> Tensor:
    """Return compute() with `rule` as the way back to `inputs`."""
    return cast(Tensor, _Replaced.apply(compute, rule, keep, *inputs))  # type: ignore[no-untyped-call]


def _size_of(x: Tensor) -> Tensor:
    """Return a tensor of the same shape and type that holds one number."""
    return x.new_zeros(()).expand(x.shape)


def _pass(R: Tensor, output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Hand R on unchanged."""
    return tuple(fitted(R, x) for x in inputs)


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
        name = _name(func)
        if torch.is_grad_enabled() and name in self._handlers and any(map(_on_path, (*args, *options.values()))):
            output = self._handlers[name](lambda: func(*args, **options), *args, **options)
            if output is not None:
                return output
            raise _refusal(name)
        result = func(*args, **options)
        if name not in MOVING and any(map(_on_path, result if isinstance(result, tuple | list) else (result,))):
            raise _refusal(name)
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
        if _on_path(input) and isinstance(other, int) and other == 0:
            return replaced(compute, _pass, input, keep="shapes")  # a sum that begins with sum = 0
        if alpha != 1 or not (isinstance(input, Tensor) and isinstance(other, Tensor)):
            return None
        rules, readers = self.rules, (self._read(input), self._read(other))
        # What is added to attention scores (four dimensions) and depends on no token is a bias: a mask, or learned
        # scores of distances (T5, MPNet). Positions that are added to embeddings keep their part instead.
        is_bias = not rules.bias_absorbs and input.ndim == 4 and not _on_path(other)

        def back(R: Tensor, _: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            shares = rules.add(R, a, torch.zeros_like(b) if is_bias else sign * b)
            return tuple(
                reader.relevance(rules, share, x) for reader, share, x in zip(readers, shares, (a, b), strict=True)
            )

        return replaced(compute, back, input, other)

    def _add_in_place(self, compute: Callable[[], Tensor], input: Any, other: Any) -> Tensor | None:
        """Add into new memory, which then becomes that of the tensor: rules that kept the old one find it unchanged."""
        if not _on_path(input):
            return None
        before = input.view_as(input)
        output = self._add(lambda: torch.add(before, other), before, other)
        if output is not None:
            input.data = output.data
        return output

    def _multiply(self, compute: Callable[[], Tensor], input: Any, other: Any) -> Tensor:
        if _on_path(input) and _on_path(other):
            halves: Rule = lambda R, _, a, b: (fitted(R / 2, a), fitted(R / 2, b))  # noqa: E731
            return replaced(compute, halves, input, other, keep="shapes")
        constant, varying = (other, input) if _on_path(input) else (input, other)
        if not isinstance(constant, Tensor):
            return replaced(compute, _pass, varying, keep="shapes")
        # A constant of zero is a mask: nothing came through.
        masked: Rule = lambda R, _, x: (fitted(torch.where(constant == 0, 0, R), x),)  # noqa: E731
        return replaced(compute, masked, varying, keep="shapes")

    def _matmul(self, compute: Callable[[], Tensor], input: Tensor, other: Tensor) -> Tensor | None:
        if not _on_path(input) or input.ndim < 2 or other.ndim < 2:
            return None
        if not _on_path(other):
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
        if not _on_path(input) or any(map(_on_path, (*others, *options.values()))):
            return None
        return replaced(compute, _pass, input, keep="shapes")

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
def relevance_mode(module: nn.Module, rules: Rules) -> Iterator[None]:
    """Run `module` inside this block, then differentiate its outputs to propagate relevance."""
    with ExitStack() as stack:
        for part in module.modules():
            if type(part).__module__ == ACTIVATION_MODULES or is_rms_norm(part):
                stack.enter_context(_as_one_activation(part))
        stack.enter_context(_activations_made_anew(module))
        stack.enter_context(RelevanceMode(rules))
        yield


@dataclass(frozen=True)
class Propagation:
    """A rule set as a trace takes it."""

    rules: Rules
    whole_attention: bool = False
    """Keep the relevance of every attention weight instead of means over heads, as much as the attention itself."""

    def active(self, module: nn.Module) -> AbstractContextManager[None]:
        """While open, what runs in the module gets the rules."""
        return relevance_mode(module, self.rules)

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


@contextmanager
def _as_one_activation(module: nn.Module) -> Iterator[None]:
    """Let relevance pass a module as a whole: some activations (gelu_new) are written out as sums and powers.

    So is RMSNorm, y_k = γ_k·x_k / √(mean x² + ε). With the root held fixed every component is scaled by a number of its
    own, so that all of R_k belongs to x_k in every rule set (Achtibat et al. 2024).
    """
    before, after = _hooks_of_one_activation(lambda _module: True)
    with ExitStack() as stack:
        stack.callback(module.register_forward_pre_hook(before).remove)
        stack.callback(module.register_forward_hook(after).remove)
        yield


@contextmanager
def _activations_made_anew(module: nn.Module) -> Iterator[None]:
    """Do the same for activations that are not part of the module: BigBird's classifier makes one at every call.

    Hooks for all modules of the process see them; the module's own and those of other threads are left alone.
    """
    own, thread = {id(part) for part in module.modules()}, threading.get_ident()

    def is_new(part: nn.Module) -> bool:
        return type(part).__module__ == ACTIVATION_MODULES and id(part) not in own and threading.get_ident() == thread

    before, after = _hooks_of_one_activation(is_new)
    with ExitStack() as stack:
        stack.callback(register_module_forward_pre_hook(before).remove)
        stack.callback(register_module_forward_hook(after).remove)
        yield


def _hooks_of_one_activation(concerns: Callable[[nn.Module], bool]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return hooks before and after a module that take its inside off the autograd path and hand R on unchanged."""
    inputs: list[Tensor] = []

    def before(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        if not concerns(module):
            return None
        inputs.append(args[0])
        return (args[0].detach(), *args[1:])

    def after(module: nn.Module, _args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        return replaced(lambda: output, _pass, inputs.pop(), keep="shapes") if concerns(module) else None

    return before, after


def is_rms_norm(module: nn.Module) -> bool:
    """Whether a module is an RMSNorm; every family of the library has a class of its own for it.

    T5's is called T5LayerNorm, although it neither centres nor has a bias.
    """
    return isinstance(module, nn.RMSNorm) or (
        type(module).__name__.endswith(("RMSNorm", "T5LayerNorm")) and [p.ndim for p in module.parameters()] == [1]
    )


def _on_path(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _name(func: Callable[..., Any]) -> str:
    """The operation's name, the same for torch.add, Tensor.add and the like; of a property, the property's."""
    name = str(getattr(func, "__name__", func))
    return str(func.__self__.__name__) if name == "__get__" else name  # type: ignore[attr-defined]


def _refusal(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"Relevance propagation has no rule for the operation '{name}' as this model uses it. "
        "Use a method based on gradients instead, for example attcat."
    )


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
