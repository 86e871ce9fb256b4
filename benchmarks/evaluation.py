"""An evaluation of 200 sentences by ten methods and all metrics: how many minutes on two cores?

A BERT of MiniLM's shape (6 layers, 12 heads, 384 wide) with random weights, sentences of 6 to 50 tokens, 27 in the
middle, as in collections of film reviews; the ten methods and all metrics that `evaluate` takes by default, floor and
reference included. A sample of the sentences is measured, every core a document, and the CPU time stretched to 200: two
cores share it, for documents run side by side and wait for nobody. That this is so is measured as well: CPU time with
two threads beside one. The numbers must be the same.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import torch

import sightline as sl
from benchmarks import harness
from benchmarks.faithfulness import classifier
from sightline.api.model import Model
from sightline.evaluation import Evaluation, Record
from sightline.text import Encoding

SENTENCES = 200
SAMPLE = 12
CORES = 2
MINUTES = 15.0


def sentences(model: Model, count: int) -> list[Encoding]:
    """Random ids; lengths evenly spread over the quantiles of the lengths that sentences have."""
    generator = np.random.default_rng(0)
    lengths = np.quantile([6, 14, 27, 36, 50], (np.arange(count) + 0.5) / count).round().astype(int)
    return [model.encode(ids=[101, *generator.integers(1000, 20_000, size=n - 2).tolist(), 102]) for n in lengths]


def measured(model: Model, documents: list[Encoding], threads: int) -> tuple[Evaluation, float]:
    """Return the evaluation and its CPU seconds."""
    torch.set_num_threads(threads)
    begin = time.process_time()
    evaluation = sl.evaluate(model, documents)
    seconds = time.process_time() - begin
    torch.set_num_threads(1)
    return evaluation, seconds


def _numbers(evaluation: Evaluation) -> list[Record]:
    return [replace(record, seconds=0.0) for record in evaluation.records]


def main() -> None:
    """Run the evaluation with one thread and with two."""
    report = harness.start("evaluation", __doc__)
    model = classifier()
    documents = sentences(model, 4 if report.quick else SAMPLE)
    sl.evaluate(model, documents[:1], ["attcat"])  # first touch of everything
    alone, seconds = measured(model, documents, 1)
    together, shared = measured(model, documents, CORES)
    same = _numbers(alone) == _numbers(together)
    minutes = shared * SENTENCES / len(documents) / CORES / 60
    report.fact("methods, metrics", (len(together.methods), len(together.metrics)))
    report.fact("documents read for a sentence", math.ceil(together.calls_made / len(documents)))
    report.fact("CPU seconds a sentence", shared / len(documents))
    report.fact(f"minutes for {SENTENCES} on {CORES} cores", minutes)
    report.ratio("15 minutes", MINUTES, minutes, target=1)
    report.ratio("CPU time, one thread to two", seconds, shared)
    report.ratio("same numbers", float(same), 1.0, target=1)
    report.finish()


if __name__ == "__main__":
    main()
