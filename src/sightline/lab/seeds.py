"""Seeds: the whole numbers that every generator takes."""

from __future__ import annotations

from sightline.errors import OptionError

LARGEST_SEED = 2**32 - 1


def check_seed(seed: int) -> int:
    """Return the seed; raise OptionError if a generator would refuse it."""
    if not 0 <= seed <= LARGEST_SEED:
        raise OptionError(f"A seed is a whole number from 0 to {LARGEST_SEED}, not {seed}.")
    return seed
