"""Maps, strongest partners and totals of a long document, from its bands and from full matrices.

    python -m benchmarks.analysis [--quick] [--json]

A Longformer classifier of base shape (12 layers, 12 heads, width 768, window 512, random weights) and a document of
4,096 random tokens. The bands give all 144 maps, the ten most attended and attending tokens of every token in every
head, their counts, and the attention received; the same from full matrices is timed on one layer and scaled, with
matrices laid out from the bands. Peak memory, above the model, is that of the forward pass and all of this in a fresh
process.
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks import harness
from benchmarks.attention import ask_matrices
from benchmarks.longformer import random_model
from sightline.analysis import relation_counts, thumbnails, totals
from sightline.api.load import load
from sightline.passes.trace import Trace

FULL = {"tokens": 4096, "layers": 12}
SMALL = {"tokens": 1024, "layers": 2}


def trace_of(tokens: int, layers: int) -> Trace:
    """A trace that has not run yet."""
    torch.set_num_threads(1)
    model = load(random_model(tokens, layers))
    body = np.random.default_rng(0).integers(3, 1000, tokens - 2)
    return model.trace(model.encode(ids=[0, *body.tolist(), 2]))


def analyse(trace: Trace) -> None:
    """Make maps, counts and totals of all layers and heads."""
    thumbnails(trace)
    relation_counts(trace)
    totals(trace)


def prepare_analysis(tokens: int, layers: int) -> harness.Work:
    """For the measurement of memory; a small document first, so that loading compiled kernels is not counted."""
    analyse(trace_of(64, 1))
    trace = trace_of(tokens, layers)
    return lambda: analyse(trace)


def prepare_forward(tokens: int, layers: int) -> harness.Work:
    """For the measurement of memory: the forward pass alone, as it runs when attention is to be looked at."""
    trace = trace_of(tokens, layers)
    trace.require("attentions")
    return lambda: trace.probabilities


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
        ours=lambda: analyse(trace),
        reference=lambda: ask_matrices(trace.attentions[0]),
        repeats=1,
        reference_scale=shape["layers"],
    )
    report.memory("forward alone", "benchmarks.analysis:prepare_forward", **shape)
    peak = report.memory("forward and analysis", "benchmarks.analysis:prepare_analysis", **shape)
    report.ratio("memory below 2 GB", 2000, peak, 1.0)
    report.finish()


if __name__ == "__main__":
    main()
