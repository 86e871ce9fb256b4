"""Bounds on the options of methods: what a request to the server may ask for.

The library accepts any value that a method can compute with. A server shared by several people also bounds the cost of
one request and refuses values that only overflow or underflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sightline.serve.refusal import Refusal

LARGEST_NUMBER = 1e6
"""Bound on the magnitude of every number without an entry below."""
OPTION_RANGES: Mapping[str, tuple[float, float]] = {
    "samples": (1, 50_000),
    "steps": (1, 2_000),
    "max_evaluations": (1, 5_000),
    "budget": (1, 100_000),
    "tolerance": (1e-9, 1e6),
    "kernel_width": (1e-3, 1e3),
    "ridge": (0, 1e6),
    "noise": (0, 100),
    "seed": (0, 2**32 - 1),
}
"""Smallest and largest value by option name, for all methods that have the option."""


def check_options(options: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `Refusal` (422) if a number in the options of a method is outside its range."""
    for method, values in options.items():
        for name, value in values.items():
            low, high = OPTION_RANGES.get(name, (-LARGEST_NUMBER, LARGEST_NUMBER))
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, (int, float)) and not isinstance(number, bool) and not low <= number <= high:
                    raise Refusal(
                        422,
                        f"The option {name[:60]}={str(number)[:40]} of {method[:60]} is outside the range "
                        f"of this server, {low:,.10g} to {high:,.10g}.",
                    )
