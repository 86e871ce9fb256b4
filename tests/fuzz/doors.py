"""The doors that are attacked, by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.data_sets import DataSets
from tests.fuzz.documents import Documents
from tests.fuzz.harness import Door
from tests.fuzz.http_requests import HttpRequests
from tests.fuzz.model_folders import ModelFolders
from tests.fuzz.saved_files import SavedFiles
from tests.fuzz.stores import Stores
from tests.fuzz.texts import Texts
from tests.fuzz.training_folders import TrainingFolders

DOORS: dict[str, Callable[[], Door]] = {
    "model_folders": ModelFolders,
    "texts": Texts,
    "saved_files": SavedFiles,
    "data_sets": DataSets,
    "documents": Documents,
    "stores": Stores,
    "training_folders": TrainingFolders,
    "http_requests": HttpRequests,
}
LONG_RUN = {
    "model_folders": 10_000,
    "texts": 10_000,
    "saved_files": 10_000,
    "data_sets": 5_000,
    "documents": 5_000,
    "stores": 5_000,
    "training_folders": 5_000,
    "http_requests": 5_000,
}
"""Cases of `make fuzz`."""
