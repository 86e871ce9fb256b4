"""A copy of a network whose body computes in bfloat16, for many readings where little precision is needed.

Processors with instructions for bfloat16 multiply such numbers two to three times as fast as single precision. The head
keeps the type of the weights: logits in bfloat16 would have two to three digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from sightline.models.network import Network


def bfloat16_copy(network: Network, tokens: int) -> Network | None:
    """Return a copy for documents of so many tokens; None where it would not be faster, or would be less than exact.

    Short documents take their time elsewhere, and functions and unseen models have no body that is known.
    """
    if not network.sees_inside or network.module.base_model is network.module:
        return None
    is_single = network.dtype == torch.float32 and network.device.type == "cpu"
    if not (is_single and tokens >= network.worthwhile_tokens and has_bfloat16()):
        return None
    return network.converted(_halve_body)


def has_bfloat16() -> bool:
    """Return whether this processor has instructions for bfloat16."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # torch offers no public name
    return any(getattr(torch.cpu, name, bool)() for name in names)


def _halve_body(module: Any) -> Any:
    body = module.base_model.to(torch.bfloat16)
    for part in module.children():
        if body not in part.modules():
            part.register_forward_pre_hook(_to_single)
    return module


def _to_single(_part: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value.float() if torch.is_tensor(value) and value.is_floating_point() else value for value in inputs)
