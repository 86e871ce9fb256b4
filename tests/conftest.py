"""Settings for all tests: one thread per process (tests run in parallel), no access to the hub, and few families when
tests are to be fast.

A test that is parametrised over model families runs on `FAST_FAMILIES` in `make test-fast`: its variants for other
families are marked `slow` here, in one place. A test that has no variant for one of the fast families keeps them all.
"""

import gc
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

FAST_FAMILIES = frozenset({"bert", "longformer", "gpt2"})


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without looking for garbage, then leave what was imported and collected out of every later look.

    It all stays to the end: millions of objects, which take half a second to go through, again and again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m deselects
def pytest_collection_modifyitems(items):
    families = {item: families_of(item) for item in items}
    runs_fast = {item.nodeid.partition("[")[0] for item in items if families[item] <= FAST_FAMILIES}
    for item in items:
        if not families[item] <= FAST_FAMILIES and item.nodeid.partition("[")[0] in runs_fast:
            item.add_marker(pytest.mark.slow)


def families_of(item):
    """Return the model families among the parameters of a test."""
    from tests.tiny_models import FAMILIES

    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {value for value in parameters if isinstance(value, str) and value in FAMILIES}
