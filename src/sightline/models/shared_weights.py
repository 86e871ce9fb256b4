"""Modules around the same weights: a copy with its own settings, a hash of the weights, and whether they have changed.

A module that a user hands over is never run itself: evaluation mode, attention implementation, hooks and number type
belong to a copy, whose parameters are other objects on the same memory. Training steps that update the weights in place
are therefore seen by the copy; tensors that the user replaces (`module.half()`, for example) are not.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

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

    It is made of where every tensor is, torch's count of its changes in place, and up to 1,024 of its numbers, evenly
    spaced. Torch does not count changes through `.data`; one that misses all of these numbers is not noticed.
    """
    return hash(tuple(_tensor_state(tensor) for part in parts for tensor in _tensors(part)))


def _tensor_state(tensor: Tensor) -> tuple[int, int, bytes]:
    flat = tensor.detach().flatten()
    sample = flat[:: max(1, len(flat) // SAMPLED_NUMBERS)].cpu().contiguous()
    changes = 0 if tensor.is_inference() else tensor._version
    return tensor.data_ptr(), changes, sample.view(torch.uint8).numpy().tobytes()
