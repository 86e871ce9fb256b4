"""Threads: no more than there are idle physical cores."""

from __future__ import annotations

import math
import os
from functools import partial

import pytest
import torch

from sightline.cli import progress_bar as threads

needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no affinity")


@pytest.fixture
def four_processors(monkeypatch, tmp_path):
    """Four logical processors on two cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1, 2, 3})
    for number, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{siblings}\n")
    return tmp_path


@needs_affinity
def test_processors_of_one_core_count_once(four_processors):
    assert threads.count_physical_cores(four_processors) == 2


@needs_affinity
def test_every_processor_counts_where_the_system_does_not_say(four_processors):
    assert threads.count_physical_cores(four_processors / "absent") == 4


@pytest.mark.parametrize(("busy", "expected"), [(0.0, 4), (1.2, 3), (3.0, 1), (20.0, 1)])
def test_cores_that_others_use_are_left_alone(monkeypatch, busy, expected):
    chosen: list[int] = []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "count_physical_cores", lambda: 4)
    monkeypatch.setattr(threads, "_busy_cores", lambda: busy)
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    threads.use_free_cores()
    assert chosen == [expected]


@pytest.mark.parametrize(("limit", "expected"), [("100000 100000", 1), ("250000 100000", 2), ("50000 100000", 1)])
def test_no_more_than_a_container_allows(monkeypatch, tmp_path, limit, expected):
    (tmp_path / "cpu.max").write_text(f"{limit}\n")
    chosen: list[int] = []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "count_physical_cores", lambda: 4)
    monkeypatch.setattr(threads, "read_quota", partial(threads.read_quota, tmp_path / "cpu.max"))
    monkeypatch.setattr(threads, "_busy_cores", lambda: 0.0)
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    threads.use_free_cores()
    assert chosen == [expected]


@pytest.mark.parametrize("content", ["max 100000\n", "", "100000 0\n"])
def test_without_limits_every_core_may_be_used(tmp_path, content):
    assert threads.read_quota(tmp_path / "absent") == math.inf
    (tmp_path / "cpu.max").write_text(content)
    assert threads.read_quota(tmp_path / "cpu.max") == math.inf


@pytest.mark.slow
def test_explain_uses_the_idle_cores_without_being_told(sightline, good_model, monkeypatch):
    chosen: list[int] = []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "count_physical_cores", lambda: 2)
    monkeypatch.setattr(threads, "_busy_cores", lambda: 0.0)
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    sightline("explain", "doc.txt", "--model", good_model, "--format", "json")
    assert chosen == [2]


def test_a_number_of_threads_that_was_set_is_kept(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setattr(torch, "set_num_threads", lambda _count: pytest.fail("the threads were changed"))
    threads.use_free_cores()
