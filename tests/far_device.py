"""A device for tests on machines without an accelerator: "far" tensors hold real data that only they can reach.

Like those of a graphics card, they do not mix with tensors of the CPU (numbers without a dimension excepted) and do not
become numpy arrays; `.cpu()`, `.item()` and `.tolist()` bring values back. Every operation runs on the CPU behind the
scenes, so results are those of the CPU. It is torch's private-use backend: `model.to("far")`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

aten = torch.ops.aten
MOVES = {aten._to_copy.default, aten.copy_.default, aten._copy_from.default}
TAKES_INDICES = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
"""Operations whose lists of indices may be on the CPU, as on a graphics card."""


class FarTensor(Tensor):
    """A tensor of the device "far"; `near` holds its data."""

    near: Tensor

    @staticmethod
    def __new__(cls, near: Tensor) -> FarTensor:
        made: FarTensor = Tensor._make_wrapper_subclass(
            cls,
            near.shape,
            strides=near.stride(),
            storage_offset=near.storage_offset(),
            dtype=near.dtype,
            device=torch.device("far:0"),
        )
        made.near = near
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(operation, args, kwargs or {})

    def tolist(self) -> Any:
        """Return the values, which devices hand out; torch does not let subclasses."""
        return self.near.tolist()

    def __repr__(self) -> str:
        return f"far {self.near!r}"


def run(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the data behind far tensors; raise RuntimeError if it mixes them with those of the CPU."""
    target = kwargs.get("device")
    if operation not in MOVES:
        check_devices(operation, args, kwargs)
    near_args, near_kwargs = tree_map(unwrap, (args, kwargs))
    if target is not None:
        near_kwargs["device"] = torch.device("cpu")
    if operation is aten.copy_.default:
        args[0].near.copy_(near_args[1]) if isinstance(args[0], FarTensor) else args[0].copy_(near_args[1])
        return args[0]
    near_kwargs.pop("pin_memory", None)
    result = operation(*near_args, **near_kwargs)
    if target is not None and torch.device(target).type == "cpu":
        return result.clone() if any(result is tensor for tensor in tree_flatten(near_args)[0]) else result
    if operation is aten.equal.default or operation is aten._local_scalar_dense.default:
        return result
    wrapped = tree_map(lambda value: FarTensor(value) if isinstance(value, Tensor) else value, result)
    if target is not None and not any(isinstance(value, Tensor) for value in tree_flatten((args, kwargs))[0]):
        return wrapped
    return return_and_correct_aliasing(operation, args, kwargs, wrapped)


def unwrap(value: Any) -> Any:
    """Return the data of a far tensor, and anything else unchanged."""
    return value.near if isinstance(value, FarTensor) else value


def check_devices(operation: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError for a tensor of the CPU beside far ones."""
    checked = (args[0], *args[2:]) if operation in TAKES_INDICES else (args, kwargs)
    strangers = [
        value
        for value in tree_flatten(checked)[0]
        if isinstance(value, Tensor) and not isinstance(value, FarTensor) and value.ndim
    ]
    if strangers:
        raise RuntimeError(f"{operation}: expected all tensors on the device far:0, found {strangers[0].device}")


class _Module(_DummyBackendModule):  # type: ignore[misc]  # torch has no types for it
    """What torch asks a device: which types it computes in by itself."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """Return the types of automatic mixed precision."""
        return [torch.bfloat16]

    def get_rng_state(self, device: Any = None) -> Tensor:
        """Return the state of the CPU's generator, which draws this device's numbers."""
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        """Set the state of the CPU's generator."""
        torch.set_rng_state(state)


@cache
def set_up() -> None:
    """Register the device with torch, once per process."""
    _setup_privateuseone_for_python_backend("far", backend_module=_Module())
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda operation, *args, **kwargs: run(operation, args, kwargs), "PrivateUse1")
    set_up.library = library  # type: ignore[attr-defined]  # the registration lives as long as the object
    make = torch.tensor

    def tensor(data: Any, *, device: Any = None, **options: Any) -> Tensor:
        return make(data, **options) if device is None else make(data, **options).to(device)

    torch.tensor = tensor  # which moves data behind the back of subclasses
