"""Relevance propagation on a long document beside a forward and backward pass: time and peak memory.

One random Longformer of base shape (12 layers, 12 heads, 768 wide, window 512) at 4,096 tokens. Relevance runs layer by
layer: it keeps the inputs of the layers and computes one layer again at a time. Wanted are 2.5 times the time of a
forward and backward (3.5 if gradients are needed as well), and 3 GB at the peak with the model, in the precision of the
model; `--precision double` measures the default of `lrp` and `partial_lrp`. The first ratio is forward+backward /
method, the second the limit divided by the peak. Each is measured once, in a process of its own; forward+backward
twice, at the beginning and at the end, and the mean counts.
"""

from __future__ import annotations

import argparse

import torch

from benchmarks import harness
from benchmarks.longformer import random_model

LIMIT = 3e9
"""Bytes, the model included."""
LONGEST = {"attnlrp": 2.5, "lrp": 2.5, "transatt": 3.5, "partial_lrp": 2.5}
"""Methods, and how many forward and backward passes each may take."""


def model_bytes(tokens: int, layers: int) -> int:
    """Return the size of the model's weights."""
    with torch.device("meta"):
        return sum(parameter.nbytes for parameter in random_model(tokens, layers).parameters())


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--layers", type=int, default=12, help="layers of the model")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of the document")
    parser.add_argument("--methods", nargs="+", choices=LONGEST, default=list(LONGEST), help="what to measure")
    parser.add_argument("--precision", choices=("model", "double"), default="model", help="of all but attnlrp")


def main() -> None:
    """Measure each method separately."""
    report = harness.start("relevance", __doc__, add_options)
    options = report.options
    size = {"tokens": 512, "layers": 2} if report.quick else {"tokens": options.tokens, "layers": options.layers}
    report.fact("tokens, layers", tuple(size.values()))
    passes = [measure([], size)]
    costs = {method: measure([method], size, options.precision) for method in options.methods}
    passes.append(measure([], size))
    one_pass = sum(cost.seconds for cost in passes) / len(passes)
    report.fact("CPU seconds, forward+backward", [round(cost.seconds, 2) for cost in passes])
    for method, cost in costs.items():
        peak = cost.added + model_bytes(**size)
        report.fact(f"peak in GB with the model, {method}", round(peak / 1e9, 2))
        report.ratio(f"limit / peak, {method}", LIMIT, peak, target=1)
        times = {"ours": cost.seconds, "reference": one_pass}
        report.ratio(f"forward+backward / {method}", one_pass, cost.seconds, target=1 / LONGEST[method], seconds=times)
    report.finish()


def measure(methods: list[str], size: dict[str, int], precision: str = "model") -> harness.Cost:
    """Return the cost of one explanation, or of a forward and backward, and print it."""
    chosen = {method: {"precision": precision} for method in methods if method != "attnlrp"}
    cost = harness.cost_alone("benchmarks.methods:prepare", methods=methods, options=chosen, **size)
    print(
        f"{' '.join(methods) or 'forward+backward'}: {cost.seconds:.1f} s, {cost.added / 1e9:.2f} GB added", flush=True
    )
    return cost


if __name__ == "__main__":
    main()
