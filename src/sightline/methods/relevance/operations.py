"""Operations of an ordinary model as a torch function mode sees them: their names, and rules in place of gradients.

Two modes share this: relevance propagation (`mode`) and the network with fixed slopes (`decomposition.slopes`).
Operations that only move numbers (views, slices, concatenation) keep their gradient, and one that a mode does not know
is refused. Some modules count as one operation: activations that the library writes out as sums and powers, and
RMSNorm.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from sightline.errors import UnsupportedError
from sightline.methods.relevance.rules import fitted

RelevanceRule = Callable[..., tuple[Tensor, ...]]
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

ACTIVATION_MODULES = "transformers.activations"
"""Where the library keeps activation functions that are modules."""


class _Replaced(torch.autograd.Function):
    """An operation whose backward is a rule."""

    @staticmethod
    def forward(ctx: Any, compute: Callable[[], Tensor], rule: RelevanceRule, keep: Kept, *inputs: Tensor) -> Tensor:
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


def replaced(compute: Callable[[], Tensor], rule: RelevanceRule, *inputs: Tensor, keep: Kept = "inputs") -> Tensor:
    """Return compute() with `rule` as the way back to `inputs`."""
    return cast(Tensor, _Replaced.apply(compute, rule, keep, *inputs))  # type: ignore[no-untyped-call]


def _size_of(x: Tensor) -> Tensor:
    """Return a tensor of the same shape and type that holds one number."""
    return x.new_zeros(()).expand(x.shape)


def pass_on(R: Tensor, output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Hand R on unchanged."""
    return tuple(fitted(R, x) for x in inputs)


@contextmanager
def modules_as_operations(rule: RelevanceRule, keep: Kept) -> Iterator[None]:
    """Let `rule` stand for a whole module: some activations (gelu_new) are written out as sums and powers.

    So is RMSNorm, y_k = γ_k·x_k / √(mean x² + ε). With the root held fixed every component is scaled by a number of its
    own, as by an activation (Achtibat et al. 2024).

    The hooks are those for all modules of the process, because BigBird's classifier makes an activation at every call;
    modules that run in other threads are left alone.
    """
    thread = threading.get_ident()
    inputs: list[Tensor] = []

    def concerns(module: nn.Module) -> bool:
        is_one = type(module).__module__ == ACTIVATION_MODULES or is_rms_norm(module)
        return is_one and threading.get_ident() == thread

    def before(module: nn.Module, args: tuple[Tensor, ...]) -> Any:
        if not concerns(module):
            return None
        inputs.append(args[0])
        return (args[0].detach(), *args[1:])

    def after(module: nn.Module, _args: tuple[Tensor, ...], output: Tensor) -> Any:
        return replaced(lambda: output, rule, inputs.pop(), keep=keep) if concerns(module) else None

    with ExitStack() as stack:
        stack.enter_context(register_module_forward_pre_hook(before))
        stack.enter_context(register_module_forward_hook(after))
        yield


def is_rms_norm(module: nn.Module) -> bool:
    """Whether a module is an RMSNorm; every family of the library has a class of its own for it.

    T5's is called T5LayerNorm, although it neither centres nor has a bias.
    """
    return isinstance(module, nn.RMSNorm) or (
        type(module).__name__.endswith(("RMSNorm", "T5LayerNorm")) and [p.ndim for p in module.parameters()] == [1]
    )


def on_path(value: Any) -> bool:
    """Whether a value is a tensor on the autograd path."""
    return isinstance(value, Tensor) and value.requires_grad


def name_of(func: Callable[..., Any]) -> str:
    """The operation's name, the same for torch.add, Tensor.add and the like; of a property, the property's."""
    name = str(getattr(func, "__name__", func))
    return str(func.__self__.__name__) if name == "__get__" else name  # type: ignore[attr-defined]


def refusal(name: str, what: str) -> UnsupportedError:
    """Return the error for an operation that `what` cannot handle."""
    return UnsupportedError(
        f"{what} has no rule for the operation '{name}' as this model uses it. "
        "Use a method based on gradients instead, for example attcat."
    )
