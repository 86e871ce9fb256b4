"""Batches run side by side give the same numbers, report in the calling thread and leave no thread behind."""

from __future__ import annotations

import threading

import pytest
import torch

from sightline.models.batching import Cancelled, run_side_by_side
from tests.patience import PATIENCE
from tests.tiny_models import tiny_ids, tiny_model

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("family", ["bert", "longformer", "gpt2"])
def test_many_documents_get_the_logits_of_a_single_thread(family):
    network = tiny_model(family).network
    # 40 tokens apart, so that every document is a batch by itself.
    encodings = [tiny_model(family).encode(ids=tiny_ids(family, n, n)) for n in (1, 41, 81, 121, 5, 9)]
    hidden = [[], [3, 4], [], [7], [], []]
    torch.set_num_threads(1)
    passes = network.forward_passes
    alone = network.run_many(encodings, hidden=hidden)
    ran = network.forward_passes - passes
    torch.set_num_threads(2)
    reports = []
    together = network.run_many(
        encodings, hidden=hidden, progress=lambda *now: reports.append((now, threading.current_thread()))
    )
    for first, second in zip(alone, together, strict=True):
        assert torch.equal(first, second)
    assert network.forward_passes - passes == 2 * ran
    assert reports[-1] == ((6, 6), threading.current_thread())
    assert {thread for _, thread in reports} == {threading.current_thread()}
    assert torch.get_num_threads() == 2


def test_both_threads_are_at_work_at_once_with_a_core_each():
    barrier = threading.Barrier(2, timeout=PATIENCE)  # breaks if only one comes

    def work(worker, number, send):
        if number < 2:
            barrier.wait()
        send(number)
        return worker, torch.get_num_threads()

    received = []
    results = dict(run_side_by_side("ab", 5, work, received.append))
    assert sorted(results) == sorted(received) == list(range(5))
    assert {worker for worker, _ in results.values()} == {"a", "b"}
    assert {cores for _, cores in results.values()} == {1}


def test_an_error_reaches_the_caller_and_whoever_stops_listening_leaves_no_thread():
    before = threading.active_count()

    def fail(worker, number, send):
        raise MemoryError("too much")

    with pytest.raises(MemoryError, match="too much"):
        list(run_side_by_side("ab", 4, fail, print))

    ended = []

    def endless(worker, number, send):
        if number == 0:
            return worker
        try:
            while True:
                send(number)
        except Cancelled:
            ended.append(number)
            raise

    results = run_side_by_side("ab", 4, endless, lambda content: None)
    assert next(results)[0] == 0
    results.close()
    assert ended
    assert threading.active_count() == before
    assert torch.get_num_threads() == 2
