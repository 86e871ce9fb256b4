"""Relevance propagation on a long document: time and peak memory.

One random Longformer of base shape (12 layers, 12 heads, 768 wide, window 512) at 4,096 tokens. Relevance keeps what
its rules read, among it the attention of every layer and the scores it was made of; all of it must fit beside the model
in 10 GB. The ratio is that limit divided by the peak.
"""

from __future__ import annotations

from benchmarks import harness
from benchmarks.methods import prepare

METHODS = ("lrp", "transatt")
LIMIT = 10_000.0
"""MB, the model included."""


def main() -> None:
    """Measure each method by itself."""
    report = harness.start("relevance", __doc__)
    tokens, layers = (512, 2) if report.quick else (4096, 12)
    for method in METHODS:
        peak = report.memory(
            f"{method}, with the model",
            "benchmarks.methods:prepare_from_nothing",
            methods=[method],
            tokens=tokens,
            layers=layers,
        )
        report.ratio(f"limit / peak, {method}", LIMIT, peak, target=1)
    # Last, because this process keeps the gigabytes it has once touched.
    for method in METHODS:
        seconds = harness.median_seconds(prepare([method], tokens, layers), 1)
        report.fact(f"CPU seconds of {method}", round(seconds, 1))
    report.finish()


if __name__ == "__main__":
    main()
