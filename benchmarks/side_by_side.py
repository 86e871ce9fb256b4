"""Many inputs with one core each, compared with all cores for each: elapsed time, on an idle and on a busy machine.

The built-in model reads a long document with parts of it deleted, as the check against random orders does. One form
runs the batches one after the other, each product split over all cores (what torch does by itself); the other is
`Network.run_many`, a batch a core. By turns, elapsed seconds, because CPU time does not show who waits. Then once more
while as many other processes as there are cores do nothing but count.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

import sightline as sl
from benchmarks import harness
from sightline import builtin
from sightline.text import Encoding

COUNT = "while True: pass"


def changed_documents(encoding: Encoding, count: int) -> list[Encoding]:
    """The document with a share of its tokens deleted, another share each time."""
    generator, free = np.random.default_rng(0), np.flatnonzero(~encoding.special)
    shares = np.linspace(0.1, 0.7, count)
    return [encoding.drop(generator.choice(free, int(share * len(free)), replace=False)) for share in shares]


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Other processes that keep the cores busy."""
    busy = [subprocess.Popen([sys.executable, "-c", COUNT]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def elapsed(work: harness.Work) -> float:
    """Seconds on the clock."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Run both forms, without and with neighbours."""
    report = harness.start("side_by_side", __doc__)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    network = (model := sl.load()).network
    text = next(iter(builtin.documents().values())).read_text(encoding="utf-8")
    documents = changed_documents(model.encode(text[: 3_000 if report.quick else None]), 8 if report.quick else 24)
    report.fact("cores", cores)
    report.fact("tokens", [len(document) for document in documents])
    logits: dict[str, Sequence[torch.Tensor]] = {}

    def one_after_the_other() -> None:
        logits["reference"] = [network.run([document])[0] for document in documents]

    def together() -> None:
        logits["ours"] = network.run_many(documents)

    torch.set_num_threads(cores)
    together()
    for label, others in (("free machine", 0), ("busy machine", cores)):
        with neighbours(others):
            turns = [(elapsed(together), elapsed(one_after_the_other)) for _ in range(1 if report.quick else 3)]
        ours, theirs = (statistics.median(times) for times in zip(*turns, strict=True))
        report.ratio(label, theirs, ours, None, {"ours": ours, "reference": theirs})
    pairs = zip(logits["ours"], logits["reference"], strict=True)
    report.fact("difference", max(float((first - second).abs().max()) for first, second in pairs))
    report.finish()


if __name__ == "__main__":
    main()
