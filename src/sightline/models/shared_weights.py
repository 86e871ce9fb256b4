"""Our copy of a model object: modules around the same weights, with LoRA adapters (PEFT) merged into its linear maps.

A module that a user hands over is never run itself: evaluation mode, attention implementation, hooks and number type
belong to a copy, whose parameters are other objects on the same memory. Training steps that update the weights in place
are therefore seen by the copy; tensors that the user replaces (`module.half()`, for example) are not.

PEFT wraps a linear map x·Wᵀ in a module that adds Σ s·x·Aᵀ·Bᵀ, so that reading W alone misses the adapter. In our copy
the map itself takes the wrapper's place, with W + Σ s·B·A as its weight: whatever reads or runs it gets the merged
model. Training steps that change W, A or B in place are followed before the next pass.

Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Conv1D

from sightline.errors import UnsupportedError
from sightline.files.foreign import first_line

SAMPLED_NUMBERS = 1024
"""Numbers of every tensor that `weights_state` looks at."""


def share_weights(module: Any) -> Any:
    """Return a copy of a module whose tensors are new objects on the same memory, without gradients.

    Raises UnsupportedError for a module that holds something that cannot be copied, such as a lock.
    """
    shared: dict[int, Any] = {}
    for part in module.modules():
        for tensor in _tensors(part):
            # No gradient passes through a tensor that was made in inference mode, so it is copied.
            alias = tensor.clone() if tensor.is_inference() else tensor.detach()
            is_parameter = isinstance(tensor, nn.Parameter)
            shared[id(tensor)] = nn.Parameter(alias, requires_grad=False) if is_parameter else alias
    return copy_module(module, shared)


def copy_module(module: Any, shared: dict[int, Any] | None = None) -> Any:
    """Return a copy of a module; objects whose id is in `shared` are replaced with what stands there."""
    try:
        return copy.deepcopy(module, shared)
    except (RuntimeError, TypeError) as error:
        raise UnsupportedError(
            f"This model holds something that cannot be copied, and Sightline runs a copy of it: {first_line(error)}"
        ) from error


def _tensors(part: nn.Module) -> Iterator[Tensor]:
    """Yield the tensors that a module holds itself, also those that are neither parameters nor buffers."""
    for held in (part._parameters, part._buffers, vars(part)):
        yield from (value for value in held.values() if isinstance(value, Tensor))


def hash_weights(module: nn.Module) -> str:
    """Return a hash of all weights: equal weights have equal hashes."""
    digest = hashlib.blake2b(digest_size=16)
    for key, tensor in sorted(module.state_dict().items()):
        digest.update(key.encode())
        digest.update(str(tensor.dtype).encode())
        digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def weights_state(parts: Iterable[nn.Module]) -> int:
    """Return a number that changes when the weights in these modules do, a hundred times faster than `hash_weights`.

    It combines the address of every tensor, torch's count of in-place changes, and up to 1,024 evenly spaced elements.
    Torch does not count changes through `.data`; one that leaves all of these elements unchanged goes unnoticed.
    """
    return hash(tuple(_tensor_state(tensor) for part in parts for tensor in _tensors(part)))


def _tensor_state(tensor: Tensor) -> tuple[int, int, bytes]:
    flat = tensor.detach().flatten()
    sample = flat[:: max(1, len(flat) // SAMPLED_NUMBERS)].cpu().contiguous()
    changes = 0 if tensor.is_inference() else tensor._version
    return tensor.data_ptr(), changes, sample.view(torch.uint8).numpy().tobytes()


class Adapter(nn.Module):
    """The weight of a linear map without its adapters, and the active adapters."""

    def __init__(self, wrapper: Any) -> None:
        super().__init__()
        base = wrapper.base_layer
        self.base = base.weight
        self.transposed = isinstance(base, Conv1D)
        names = [] if wrapper.disable_adapters or wrapper.merged else wrapper.active_adapters
        names = [name for name in names if name in wrapper.lora_A]
        self.down = nn.ModuleList(wrapper.lora_A[name] for name in names)
        self.up = nn.ModuleList(wrapper.lora_B[name] for name in names)
        self.scaling = [float(wrapper.scaling[name]) for name in names]
        self._merged: tuple[tuple[int, int], ...] = ()

    def merge_into(self, weight: Tensor) -> None:
        """Write W + Σ s·B·A to `weight`, unless that is what it holds."""
        tensors = [*self.parameters(), weight]
        if self._merged == _places(tensors):
            return
        with torch.no_grad():
            precise = torch.promote_types(self.base.dtype, torch.float32)
            merged = self.base.to(precise)
            for down, up, scale in zip(self.down, self.up, self.scaling, strict=True):
                change = scale * (up.weight.to(precise) @ down.weight.to(precise))  # type: ignore[operator]
                merged = merged + (change.T if self.transposed else change)
            weight.copy_(merged)
        self._merged = _places(tensors)


def merge_adapters(module: nn.Module) -> None:
    """Replace every adapter wrapper in our copy of a model with its linear map and the merged weight.

    Raises UnsupportedError for an adapter that is not a plain LoRA of a linear map.
    """
    wrappers = [(path, part) for path, part in module.named_modules() if hasattr(part, "base_layer")]
    for path, wrapper in wrappers:
        base: Any = wrapper.base_layer
        if not _is_plain(wrapper):
            raise UnsupportedError(
                f"The adapter '{path}' of this model ({type(wrapper).__name__} around {type(base).__name__}) is not a "
                "plain LoRA of a linear map: merge it first (merge_and_unload() in PEFT)."
            )
        base.adapter = Adapter(wrapper)
        base.weight = nn.Parameter(base.weight.clone(), requires_grad=False)
        parent, _, name = path.rpartition(".")
        setattr(module.get_submodule(parent), name, base)
    follow_adapters(module.modules())


def follow_adapters(parts: Iterable[nn.Module]) -> None:
    """Merge adapters in these modules again that have changed since they were merged."""
    for part in parts:
        adapter = part._modules.get("adapter")
        if isinstance(adapter, Adapter):
            adapter.merge_into(part.get_parameter("weight"))


def _is_plain(wrapper: Any) -> bool:
    """Return whether a wrapper adds a product of two matrices to a linear map, and nothing else."""
    if type(wrapper.base_layer) not in (nn.Linear, Conv1D) or not hasattr(wrapper, "lora_A"):
        return False
    variants = any(getattr(wrapper, "use_dora", {}).values()) or any(getattr(wrapper, "lora_variant", {}))
    parts = [*wrapper.lora_A.values(), *wrapper.lora_B.values()]
    return not variants and all(type(part) is nn.Linear and part.bias is None for part in parts)


def _places(tensors: list[Tensor]) -> tuple[tuple[int, int], ...]:
    """Return the address of every tensor and how often it has been changed in place."""
    return tuple((tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in tensors)
