"""Seeds that depend only on the given seed, the document and the method.

So a number does not depend on what else is measured, or in which order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from sightline.methods import Method


def seed_for(seed: int, *names: str) -> int:
    """Return the seed of one document, method or metric, by their names."""
    digest = hashlib.blake2b("\0".join((str(seed), *names)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


def add_seed(method: Method, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the options of a method, with `seed` if the method takes one and none was given."""
    return {"seed": seed, **options} if "seed" in method.options else dict(options)
