"""Two threads against one: elapsed time of a forward and backward, on an idle machine.

One random Longformer of base shape (12 layers, 12 heads, 768 wide, window 512) at 4,096 tokens, by turns with one
thread and with one thread per physical core. Elapsed seconds, because CPU time does not show who waits: run it while
nothing else runs. The load average before the start is reported, and a ratio measured beside other work says nothing.

Three further ratios say what limits the first: one matrix product as large as those of a feed-forward block, which all
cores should share without loss; the products of one block of attention, twelve small ones; and a sum of two arrays that
fit in no cache, which is bound by the memory that the cores share.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Mapping

import torch

from benchmarks import harness
from benchmarks.longformer import document, forward_backward, random_model
from sightline.cli.progress_bar import count_physical_cores
from sightline.models.longformer.encoder import use_banded

IDLE = 0.5
"""Load average up to which a machine counts as idle."""


def elapsed(work: harness.Work, threads: int) -> float:
    """Return the elapsed seconds of one run with so many threads."""
    torch.set_num_threads(threads)
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def by_turns(work: harness.Work, cores: int, turns: int) -> dict[str, float]:
    """Return the median seconds with all cores ("ours") and with one ("reference"), after one unmeasured run each."""
    elapsed(work, 1)
    elapsed(work, cores)
    pairs = [(elapsed(work, cores), elapsed(work, 1)) for _ in range(turns)]
    return {
        "ours": statistics.median(pair[0] for pair in pairs),
        "reference": statistics.median(pair[1] for pair in pairs),
    }


def parts(tokens: int) -> Mapping[str, harness.Work]:
    """Return the kinds of work that a pass consists of."""
    rows, weight = torch.randn(tokens, 768), torch.randn(768, 3072)
    queries, keys = torch.randn(12, 96, 64), torch.randn(12, 64, 608)
    large = torch.randn(8 * tokens, 768)
    return {
        "product of a feed-forward block": lambda: [rows @ weight for _ in range(5)],
        "products of a block of attention": lambda: [torch.bmm(queries, keys) for _ in range(200)],
        "sum of large arrays": lambda: [large + large for _ in range(5)],
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--turns", type=int, default=3, help="runs with each number of threads")


def main() -> None:
    """Compare one thread with one per core."""
    report = harness.start("cores", __doc__, add_options)
    tokens, layers = (512, 2) if report.quick else (4096, 12)
    cores = count_physical_cores()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    report.fact("tokens, layers", (tokens, layers))
    report.fact("physical cores", cores)
    report.fact("load average of the last minute", round(load, 2))
    if not load <= IDLE:
        print("Other programs are running: the ratios below say little.", flush=True)
    model = random_model(tokens, layers)
    use_banded(model, verify=False)
    embeddings = document(model, tokens)
    seconds = by_turns(lambda: forward_backward(model, embeddings), cores, report.options.turns)
    target = 0.85 * cores if load <= IDLE else None
    report.ratio("forward+backward", seconds["reference"], seconds["ours"], target, seconds)
    for label, work in parts(tokens).items():
        seconds = by_turns(work, cores, report.options.turns)
        report.ratio(label, seconds["reference"], seconds["ours"], None, seconds)
    report.finish()


if __name__ == "__main__":
    main()
