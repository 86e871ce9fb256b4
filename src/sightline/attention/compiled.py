"""Loops compiled by numba, for passes over a band that torch has no operation for.

Only modules with kernels import this one, and the operations that need them import those when called: numba takes half
a second to load. The machine code is cached beside the source, or in the user's cache folder, so that a kernel is
compiled (about a second) once per installation and not once per run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def compiled(kernel: Kernel) -> Kernel:
    """Compile a function on first use; it releases the interpreter lock while it runs."""
    return _compile(kernel)


def compiled_with_reordering(kernel: Kernel) -> Kernel:
    """Compile a function whose sums the compiler may reorder, which lets it use vector instructions.

    It does so for short loops over places, without max(): that keeps the order of NaN and 0.
    """
    return _compile(kernel, fastmath={"reassoc", "contract", "nsz"})


def _compile(kernel: Kernel, **options: Any) -> Kernel:
    try:
        return cast(Kernel, numba.njit(cache=True, nogil=True, **options)(kernel))
    except RuntimeError:  # numba's way of saying that no folder is writable: compile in every run instead
        return cast(Kernel, numba.njit(nogil=True, **options)(kernel))
