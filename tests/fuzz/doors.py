"""The doors that are attacked, by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.harness import Door
from tests.fuzz.model_folders import ModelFolders
from tests.fuzz.texts import Texts

DOORS: dict[str, Callable[[], Door]] = {"model_folders": ModelFolders, "texts": Texts}
LONG_RUN = {"model_folders": 10_000, "texts": 10_000}
"""Cases of `make fuzz`."""
