"""Relevance propagation on a long document beside a forward and backward pass: time and peak memory.

One random Longformer of base shape (12 layers, 12 heads, 768 wide, window 512) at 4,096 tokens. Relevance runs layer by
layer: it keeps the inputs of the layers and computes one layer again at a time. Wanted are 2.5 times the time of a
forward and backward (3 for the positive rule, 4 if gradients are needed as well), and 3 GB at the peak with the model.
The first ratio is forward+backward / method, the second the limit divided by the peak.
"""

from __future__ import annotations

from benchmarks import harness
from benchmarks.methods import prepare

LIMIT = 3_000.0
"""MB, the model included."""
LONGEST = {"attnlrp": 2.5, "partial_lrp": 3.0, "lrp": 3.0, "transatt": 4.0}
"""Methods, and how many forward and backward passes each may take."""


def main() -> None:
    """Measure each method separately."""
    report = harness.start("relevance", __doc__)
    tokens, layers = (512, 2) if report.quick else (4096, 12)
    report.fact("tokens, layers", (tokens, layers))
    for method in LONGEST:
        peak = report.memory(
            f"{method}, with the model",
            "benchmarks.methods:prepare_from_nothing",
            methods=[method],
            tokens=tokens,
            layers=layers,
        )
        report.ratio(f"limit / peak, {method}", LIMIT, peak, target=1)
    # Last, because this process keeps the memory it has once touched.
    passes = harness.median_seconds(prepare([], tokens, layers), 1)
    for method in LONGEST:
        seconds = harness.median_seconds(prepare([method], tokens, layers), 1)
        times = {"ours": seconds, "reference": passes}
        report.ratio(f"forward+backward / {method}", passes, seconds, target=1 / LONGEST[method], seconds=times)
    report.finish()


if __name__ == "__main__":
    main()
