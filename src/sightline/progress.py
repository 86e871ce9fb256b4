"""The functions that long computations call to say how far they are."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total); total is 0 if it is not known in advance."""
StepProgress = Callable[[int, int], None]
"""Called with (done, total) by a computation that is a single stage."""
