"""Banded Longformer attention beside the library's own, in one run on one random model.

    python -m benchmarks.longformer [--quick] [--json] [--tokens 2048 4096]

A classifier of base shape (12 layers, 12 heads, width 768, window 512, random weights) runs forward, and forward +
backward to the word embeddings, with each encoder by turns; CPU time at one thread, medians after one unmeasured run.
Each encoder has a process of its own, as in use: most of what the library's costs beyond its products is the first
touch of fresh memory, and in a shared process it would find memory that the other has touched and freed.

Peak memory above the model is that of one forward + backward, in a fresh process too. The largest differences between
the logits and between the input gradients of the two are given relative to the largest value.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LongformerConfig, LongformerForSequenceClassification

from benchmarks.harness import Report
from sightline.models.longformer import use_banded, use_library

Array = NDArray[np.floating]
BASE_LAYERS, QUICK_LAYERS = 12, 3
ENCODERS = {"ours": partial(use_banded, verify=False), "reference": use_library}


def random_model(tokens: int, layers: int) -> LongformerForSequenceClassification:
    """A classifier of base shape with random frozen weights; the vocabulary, which costs no time, is small."""
    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=1000,
        num_hidden_layers=layers,
        attention_window=512,
        max_position_embeddings=tokens + 2,
        pad_token_id=1,
        num_labels=2,
    )
    return LongformerForSequenceClassification(config).eval().requires_grad_(False)


def logits(model: LongformerForSequenceClassification, embeddings: torch.Tensor) -> torch.Tensor:
    """The logits of one document (1, n, d) with global attention on the first token: (2,)."""
    global_mask = torch.zeros(embeddings.shape[:2], dtype=torch.long)
    global_mask[:, 0] = 1
    outputs = model(inputs_embeds=embeddings, global_attention_mask=global_mask)
    found: torch.Tensor = outputs.logits[0]
    return found


def document(model: LongformerForSequenceClassification, tokens: int) -> torch.Tensor:
    """Word embeddings of a random document, (1, n, d)."""
    ids = torch.randint(2, model.config.vocab_size, (1, tokens), generator=torch.Generator().manual_seed(1))
    embeddings: torch.Tensor = model.get_input_embeddings()(ids)
    return embeddings.detach()


def forward(model: LongformerForSequenceClassification, embeddings: torch.Tensor) -> torch.Tensor:
    """The logits, without gradient."""
    with torch.inference_mode():
        return logits(model, embeddings)


def forward_backward(model: LongformerForSequenceClassification, embeddings: torch.Tensor) -> torch.Tensor:
    """The gradient of a logit with respect to the word embeddings, (1, n, d)."""
    leaf = embeddings.clone().requires_grad_()
    return torch.autograd.grad(logits(model, leaf)[1], leaf)[0]


WORK = {"forward": forward, "forward+backward": forward_backward}


def prepare(encoder: str, tokens: int, layers: int) -> Callable[[], object]:
    """For the memory measurement: one forward + backward, ready to run."""
    torch.set_num_threads(1)
    model = random_model(tokens, layers)
    ENCODERS[encoder](model)
    embeddings = document(model, tokens)
    return lambda: forward_backward(model, embeddings)


class Runner:
    """A process that holds one encoder's model and document, and runs and times work on them when asked to."""

    def __init__(self, encoder: str, tokens: int, layers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, encoder, tokens, layers), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, work: str) -> tuple[float, Array]:
        """CPU seconds and result of one piece of WORK."""
        self._connection.send(work)
        seconds, result = self._connection.recv()
        return seconds, result

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join()


def _serve(connection: Connection, encoder: str, tokens: int, layers: int) -> None:
    """A runner's side of the pipe: answer until it is closed."""
    torch.set_num_threads(1)
    model = random_model(tokens, layers)
    ENCODERS[encoder](model)
    embeddings = document(model, tokens)
    with suppress(EOFError):
        while True:
            work = WORK[connection.recv()]
            begin = time.process_time()
            result = work(model, embeddings)
            connection.send((time.process_time() - begin, result.numpy()))


def largest_difference(ours: Array, reference: Array) -> float:
    """Largest difference relative to the largest value."""
    return float(np.abs(ours - reference).max() / np.abs(reference).max())


def measure(report: Report, tokens: int, layers: int, repeats: int) -> None:
    """All figures at one length."""
    targets = (
        {"forward": 2.0, "forward+backward": 2.5, "memory": 3.0} if (tokens, layers) == (4096, BASE_LAYERS) else {}
    )
    runners = {name: Runner(name, tokens, layers) for name in ENCODERS}
    for label, quantity in (("forward", "logits"), ("forward+backward", "input gradients")):
        results = {name: runner.run(label)[1] for name, runner in runners.items()}
        report.fact(f"difference of {quantity} {tokens}", largest_difference(results["ours"], results["reference"]))
        turns = [{name: runner.run(label)[0] for name, runner in runners.items()} for _ in range(repeats)]
        seconds = {name: statistics.median(turn[name] for turn in turns) for name in runners}
        report.ratio(f"{label} {tokens}", seconds["reference"], seconds["ours"], targets.get(label), seconds)
    for runner in runners.values():
        runner.close()
    prepared = "benchmarks.longformer:prepare"
    peak = {
        name: report.memory(f"{name} {tokens}", prepared, encoder=name, tokens=tokens, layers=layers)
        for name in ENCODERS
    }
    report.ratio(f"memory {tokens}", peak["reference"], peak["ours"], targets.get("memory"))


def main() -> None:
    """Read the options and measure every length."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.longformer", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,024 tokens and few layers: shows that it runs")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on the last line")
    parser.add_argument("--tokens", type=int, nargs="+", help="lengths to measure (default: 2048 4096)")
    parser.add_argument("--layers", type=int, help="layers of the model (default: 12, quick 3)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each encoder, by turns")
    options = parser.parse_args()
    torch.set_num_threads(1)
    report = Report("longformer", options.quick, options.json)
    layers = options.layers or (QUICK_LAYERS if options.quick else BASE_LAYERS)
    report.fact("layers", layers)
    for tokens in options.tokens or ([1024] if options.quick else [2048, 4096]):
        measure(report, tokens, layers, 1 if options.quick else options.repeats)
    report.finish()


if __name__ == "__main__":
    main()
