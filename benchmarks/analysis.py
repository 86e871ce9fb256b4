"""Everything a first look inside a long document needs, and its attention on disk.

    python -m benchmarks.analysis [--quick] [--json]

A Longformer classifier of base shape (12 layers, 12 heads, width 768, window 512, random weights) and a document of
4,096 random tokens. One sweep over the bands makes all 144 maps, the ten most attended and attending of every token in
every head, their counts, and the attention received; the same from full matrices is timed on one layer and scaled, its
matrices made as anyone would who has bands. Peak memory, above the model, is that of forward and sweep in a fresh
process. Then all bands are stored to an error of 0.005, and the first view. Random weights attend to everything nearly
alike, which is easy to store, so queries are also enlarged until the entropy of what is stored is near its largest.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch

from benchmarks import harness
from benchmarks.attention import ask_matrices
from benchmarks.longformer import random_model
from sightline.analysis import first_view, store_attention
from sightline.model import load
from sightline.trace import Trace

FULL = {"tokens": 4096, "layers": 12}
SMALL = {"tokens": 1024, "layers": 2}
SHARPNESS = 6.0
"""Queries times this: rows then have few strong weights and many weak ones, as trained models do."""


def trace_of(tokens: int, layers: int, sharpness: float = 1.0) -> Trace:
    """A trace that has not run yet."""
    torch.set_num_threads(1)
    module = random_model(tokens, layers)
    for layer in module.longformer.encoder.layer:
        layer.attention.self.query.weight.mul_(sharpness)
    model = load(module)
    body = np.random.default_rng(0).integers(3, 1000, tokens - 2)
    return model.trace(model.encode(ids=[0, *body.tolist(), 2]))


def prepare_first_view(tokens: int, layers: int) -> harness.Work:
    """For the measurement of memory; a small document first, so that loading compiled kernels is not counted."""
    first_view(trace_of(64, 1))
    trace = trace_of(tokens, layers)
    return lambda: first_view(trace)


def prepare_forward(tokens: int, layers: int) -> harness.Work:
    """For the measurement of memory: the forward pass alone, as it runs when attention is to be looked at."""
    trace = trace_of(tokens, layers)
    trace.require("attentions")
    return lambda: trace.probabilities


def megabytes(path: Path) -> float:
    """Size of a file."""
    return path.stat().st_size / 1e6


def main() -> None:
    """Measure and report."""
    report = harness.start("analysis", __doc__)
    shape = SMALL if report.quick else FULL
    report.fact("shape", shape)
    trace = trace_of(**shape)
    report.fact("weights stored, millions", shape["layers"] * trace.attentions[0].nbytes / 4e6)
    report.fact("full matrices, GB", shape["layers"] * 12 * shape["tokens"] ** 2 * 4 / 1e9)
    report.compare(
        "maps, top k, totals, counts",
        ours=lambda: first_view(trace),
        reference=lambda: ask_matrices(trace.attentions[0]),
        repeats=1,
        reference_scale=shape["layers"],
    )
    report.memory("forward alone", "benchmarks.analysis:prepare_forward", **shape)
    peak = report.memory("forward and first view", "benchmarks.analysis:prepare_first_view", **shape)
    report.ratio("memory below 2 GB", 2000, peak, 1.0)
    with tempfile.TemporaryDirectory() as folder:
        view, bands = Path(folder, "view"), Path(folder, "bands")
        first_view(trace).save(view)
        report.fact("first view, MB", megabytes(view))
        report.ratio("first view below 2 MB", 2.0, megabytes(view), 1.0)
        for label, sharpness in (("flat", 1.0), ("sharp", SHARPNESS)):
            stored = store_attention(trace if sharpness == 1.0 else trace_of(**shape, sharpness=sharpness), bands)
            report.fact(f"stored bands ({label}), MB", megabytes(bands))
            report.fact(f"largest error ({label})", stored.measured_error)
            report.ratio(f"stored ({label}) below 150 MB", 150.0, megabytes(bands), 1.0)
    report.finish()


if __name__ == "__main__":
    main()
