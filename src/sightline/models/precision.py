"""Half precision: half the memory, and how much of the output that costs.

float16 has 11 significant bits and bfloat16 has 8. How far rounding moves the output depends on the model, so it is
measured when the model is loaded: the logits of one document before and after the conversion.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from sightline.models.network import Network
from sightline.text.encode import encode_ids

HALF_TYPES = (torch.float16, torch.bfloat16)
PROBE_TOKENS = 128
LARGEST_ERROR = 0.05
"""Relative error of the logits above which a warning is issued."""


def convert_to_half(network: Network, dtype: torch.dtype) -> float:
    """Convert the weights to a half type in place and return the relative error of the logits.

    The error is max |ŷ − y| / max |y| over the logits y (float32 or better) and ŷ (half type) of one document of random
    tokens. Cost: two forwards of 128 tokens.
    """
    before = _probe(network)
    network.module.to(dtype)
    error = float(
        (_probe(network) - before).abs().max() / before.abs().max().clamp_min(torch.finfo(torch.float32).tiny)
    )
    if error > LARGEST_ERROR:
        name = str(dtype).removeprefix("torch.")
        warnings.warn(
            f"In {name} the logits of this model are off by {error:.1%} of the largest one; use dtype='float32' where "
            "the memory allows it.",
            stacklevel=2,
        )
    return error


def _probe(network: Network) -> Tensor:
    """Return the logits of one document of random tokens, in double precision."""
    size = int(network.config.vocab_size)
    ids = np.random.default_rng(0).integers(size, size=min(PROBE_TOKENS, network.max_tokens))
    passes = network.forward_passes
    (logits,) = network.run([encode_ids(ids.tolist(), vocab_size=size)])
    network.forward_passes = passes
    return logits.cpu().double()
