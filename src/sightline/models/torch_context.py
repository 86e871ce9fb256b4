"""The settings of torch under which everything here runs, whatever the caller has set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def own_torch_context() -> Iterator[None]:
    """Leave the caller's autocast, no_grad, inference mode, default device and number type inside this block.

    The default number type belongs to the whole process, so it is touched only where the caller has changed it.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    default = torch.get_default_dtype()
    cpu = torch.device("cpu")
    with (
        nullcontext() if torch.get_default_device() == cpu else cpu,
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        torch.autocast(device, enabled=False),
    ):
        if default == torch.float32:
            yield
            return
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(default)
