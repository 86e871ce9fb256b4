"""What comes into an Attention, numpy or torch, and the arguments of its operations: checked, and in one form."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightline.errors import InputError, SizeError

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Integers: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]
Vector: TypeAlias = npt.ArrayLike | Tensor
HALF = (torch.float16, torch.bfloat16)


def to_tensor(array: Vector, name: str, dtype: torch.dtype | None = None) -> Tensor:
    """Return `array` as a detached, contiguous, finite CPU tensor; without `dtype`, float32 or float64.

    Memory is shared with the input where possible, so the caller must not change the array afterwards.
    float32 and float64 stay, half precision becomes float32, integers float64.
    """
    if isinstance(array, Tensor):
        tensor = array.detach().to("cpu")
    else:
        values = np.asarray(array)
        if values.dtype.kind not in "fiub":
            raise InputError(f"{name} must be numbers, not {values.dtype}.")
        # torch can share neither read-only memory nor negative strides
        shareable = values.flags.writeable and all(stride >= 0 for stride in values.strides)
        tensor = torch.from_numpy(values if shareable else values.copy())
    if dtype is None:
        if tensor.dtype in (torch.float32, torch.float64):
            dtype = tensor.dtype
        else:
            dtype = torch.float32 if tensor.dtype in HALF else torch.float64
    tensor = tensor.to(dtype).contiguous()
    # NaN and infinity survive a sum, so one cheap pass accepts nearly every input; a sum can also overflow by itself
    if not bool(tensor.sum().isfinite()) and not bool(tensor.isfinite().all()):
        raise InputError(f"{name} must be finite numbers, none of them NaN or infinite.")
    return tensor


def numpy_dtype(tensor: Tensor) -> np.dtype[np.floating[Any]]:
    """Return the numpy dtype of a float32 or float64 tensor."""
    return np.dtype(np.float64 if tensor.dtype == torch.float64 else np.float32)


def to_array(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a result as a numpy array that owns its memory."""
    return tensor.contiguous().numpy()


def as_array(tensor: Tensor) -> Floats:
    """Return a tensor's values as a numpy array, off the autograd path; half precision becomes float32.

    numpy has no bfloat16, and sums in float16 would lose precision that the model still has.
    """
    values = tensor.detach().cpu()
    return (values.float() if values.dtype in HALF else values).numpy()


def check_dense_size(heads: int, tokens: int, itemsize: int, limit: int) -> None:
    """Refuse to build matrices of more than `limit` bytes."""
    size = heads * tokens * tokens * itemsize
    if size > limit:
        raise SizeError(
            f"The full matrices ({heads} heads, {tokens} × {tokens}) would take {size / 1e9:.2g} GB, above the limit "
            f"of {limit / 1e9:.2g} GB. Use row(i), column(j), received(), top_attended(k), left(v) or image(size), "
            "or reduce the heads first with head(h) or mean()."
        )


def row_vectors(v: Vector, heads: int, tokens: int, dtype: torch.dtype) -> Tensor:
    """Return the argument of `left` as (heads, n)."""
    vectors = to_tensor(v, "The vector", dtype)
    if vectors.shape not in ((tokens,), (heads, tokens)):
        raise InputError(f"left(v) needs v of shape ({tokens},) or ({heads}, {tokens}), not {tuple(vectors.shape)}.")
    return vectors.expand(heads, tokens)


def column_vectors(v: Vector, heads: int, tokens: int, dtype: torch.dtype) -> tuple[Tensor, bool]:
    """Return the argument of `right` as (heads, n, m), and whether it was one vector (m = 1, to be dropped again)."""
    vectors = to_tensor(v, "The vector", dtype)
    shape = tuple(vectors.shape)
    if shape in ((tokens,), (heads, tokens)):
        return vectors.expand(heads, tokens).unsqueeze(-1), True
    if (len(shape) == 2 and shape[0] == tokens) or (len(shape) == 3 and shape[:2] == (heads, tokens)):
        return vectors.expand(heads, tokens, shape[-1]), False
    raise InputError(
        f"right(v) needs v of shape ({tokens},), ({heads}, {tokens}), ({tokens}, m) or ({heads}, {tokens}, m), "
        f"not {shape}."
    )


def head_weights(weights: Vector | None, heads: int, dtype: torch.dtype) -> Tensor:
    """Return the weights of a head mean, (heads,), divided by their sum."""
    if weights is None:
        return torch.full((heads,), 1.0 / heads, dtype=dtype)
    values = to_tensor(weights, "The head weights", torch.float64)
    if values.shape != (heads,):
        raise InputError(f"mean(weights) needs one weight per head, shape ({heads},), not {tuple(values.shape)}.")
    total = values.sum()
    if total == 0:
        raise InputError("The head weights sum to 0, so their mean is undefined; give at least one head a weight.")
    return (values / total).to(dtype)
