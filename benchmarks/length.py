"""Time and peak memory against the length of the document: are both linear in n?

One random Longformer of base shape (12 heads, 768 wide, window 512) with `--layers` layers; of the last one only the
row that the classifier reads is computed. Each method explains a document of 2,048, 4,096, 8,192 … tokens: attcat and
rollout in one pass, integrated gradients with 7 evaluations, and relevance by attnlrp. The exponents are the slopes of
log time and log memory over log n by least squares: 1 is linear, 2 quadratic. Every figure comes from a process of its
own, which reuses no memory of an earlier one; memory is that of the whole process, model included, and its exponent is
that of what the work adds. `--methods` picks some of them, `--results FILE` keeps what has been measured, so that a
second run measures only the rest, and `--chart FILE` draws seconds against tokens.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.longformer import random_model

METHODS: dict[str, dict[str, Any]] = {
    "forward + backward": {"methods": ["gradient"]},
    "attcat + rollout": {"methods": ["attcat", "rollout"]},
    "integrated_gradients": {"methods": ["integrated_gradients"], "integrated_gradients": {"steps": 7}},
    "attnlrp": {"methods": ["attnlrp"]},
}
LARGEST_EXPONENT = 1.1
LIMITED_LENGTH, LARGEST_PEAK = 16384, 8e9
"""Tokens, and bytes of the whole process that a document of this length may take."""
SMALLEST = 1e-3
"""Seconds, or MB."""
QUICK_LENGTHS, LENGTHS = (512, 1024), (2048, 4096, 8192, 16384)


def prepare(work: str, tokens: int, layers: int) -> harness.Work:
    """Return the work: explain one random document by the methods of `work`."""
    import torch

    from sightline.api.load import load

    model = load(random_model(tokens, layers))
    ids = [0, *torch.randint(10, 900, (tokens - 2,), generator=torch.Generator().manual_seed(0)).tolist(), 2]
    encoding = model.encode(ids=ids)
    return lambda: model.explain(encoding, target=0, **METHODS[work])


def fit_exponent(lengths: Sequence[int], values: list[float]) -> float:
    """Return the slope of log(values) over log(lengths); values below what can be measured count as that."""
    return float(np.polyfit(np.log(lengths), np.log(np.maximum(values, SMALLEST)), 1)[0])


def draw(path: Path, lengths: Sequence[int], costs: dict[str, dict[int, harness.Cost]], layers: int) -> None:
    """Draw seconds against tokens, both axes logarithmic, one line per method."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for label, by_length in costs.items():
        axes.plot(list(by_length), [cost.seconds for cost in by_length.values()], marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.set_xlabel("tokens")
    axes.set_ylabel(f"CPU seconds, {layers} layer{'s' if layers > 1 else ''} of base shape")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


class Results:
    """Costs by method, layers and tokens, kept in a JSON file if one is named."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._costs: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def measure(self, work: str, tokens: int, layers: int) -> harness.Cost:
        """Return the cost of one document, measured unless the file has it."""
        key = f"{work}, {layers} layers, {tokens} tokens"
        if key not in self._costs:
            cost = harness.cost_alone("benchmarks.length:prepare", work=work, tokens=tokens, layers=layers)
            self._costs[key] = asdict(cost)
            if self._path is not None:
                self._path.write_text(json.dumps(self._costs, indent=1))
        return harness.Cost(**self._costs[key])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--layers", type=int, default=12, help="layers of the model")
    parser.add_argument("--lengths", type=int, nargs="+", default=None, help="tokens of the documents")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="what to measure")
    parser.add_argument("--results", type=Path, default=None, help="keep measured costs in this file (.json)")
    parser.add_argument("--chart", type=Path, default=None, help="write a chart of seconds against tokens (.svg)")


def main() -> None:
    """Measure every method at every length."""
    report = harness.start("length", __doc__, add_options)
    options = report.options
    layers = 2 if report.quick else options.layers
    lengths: list[int] = sorted(options.lengths or (QUICK_LENGTHS if report.quick else LENGTHS))
    report.fact("layers", layers)
    results = Results(options.results)
    costs: dict[str, dict[int, harness.Cost]] = {label: {} for label in options.methods}
    for tokens in lengths:
        for label, by_length in costs.items():
            cost = by_length[tokens] = results.measure(label, tokens, layers)
            report.fact(f"CPU seconds, {label}, {tokens:,}", round(cost.seconds, 2))
            report.fact(f"peak in GB, {label}, {tokens:,}", round(cost.peak / 1e9, 2))
            if tokens == LIMITED_LENGTH:
                report.ratio(f"limit / peak, {label}, {tokens:,}", LARGEST_PEAK, cost.peak, target=1)
    for label, by_length in costs.items() if len(lengths) > 1 else ():
        time_and_memory = {
            "time": [cost.seconds for cost in by_length.values()],
            "memory": [cost.added / 1e6 for cost in by_length.values()],
        }
        for what, values in time_and_memory.items():
            exponent = fit_exponent(lengths, values)
            report.ratio(f"linear / {what} of {label}", LARGEST_EXPONENT, max(exponent, SMALLEST), target=1)
            report.fact(f"exponent of {what}, {label}", round(exponent, 2))
    if options.chart is not None:
        draw(options.chart, lengths, costs, layers)
    report.finish()


if __name__ == "__main__":
    main()
