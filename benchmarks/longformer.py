"""Banded Longformer attention beside the library's own, in one run on one random model.

    python -m benchmarks.longformer [--quick] [--json] [--tokens 2048 4096]

A classifier of base shape (12 layers, 12 heads, width 768, window 512, random weights) runs forward, and forward +
backward to the word embeddings, with each encoder by turns: CPU time at one thread, medians after one unmeasured run.
The largest differences between the logits and between the input gradients of the two are given relative to the largest
value. Peak memory above the model is that of one forward + backward in a fresh process.

How to read the times. A large part of the library's is system time: the first touch of fresh memory, tens of gigabytes
a pass. How much depends on what the process did before (memory once touched and freed may be handed out again, by
either encoder), so each encoder has a process of its own for each length and runs forward passes first. The system time
is reported; without it the ratios are smaller.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LongformerConfig, LongformerForSequenceClassification

from benchmarks.harness import Report
from sightline.models.longformer.encoder import use_banded, use_library

Array = NDArray[np.floating]
BASE_LAYERS, QUICK_LAYERS = 12, 2
ENCODERS: dict[str, Callable[[LongformerForSequenceClassification], object]] = {
    "ours": partial(use_banded, verify=False),
    "reference": use_library,
}


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
    class_logits: torch.Tensor = outputs.logits[0]
    return class_logits


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


WORK: dict[str, Callable[[LongformerForSequenceClassification, torch.Tensor], torch.Tensor]] = {
    "forward": forward,
    "forward+backward": forward_backward,
}


def prepare(encoder: str, tokens: int, layers: int) -> Callable[[], object]:
    """For the memory measurement: one forward + backward, ready to run."""
    torch.set_num_threads(1)
    model = random_model(tokens, layers)
    ENCODERS[encoder](model)
    embeddings = document(model, tokens)
    return lambda: forward_backward(model, embeddings)


class Outcome(NamedTuple):
    """What one run took and gave."""

    seconds: float
    """CPU time, user and system."""
    system: float
    """The system's part of it."""
    result: Array


class Runner:
    """A process that holds one encoder's model and document, and runs and times work on them on request."""

    def __init__(self, encoder: str, tokens: int, layers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, encoder, tokens, layers), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, work: str) -> Outcome:
        """Do one piece of WORK."""
        self._connection.send(work)
        outcome: Outcome = self._connection.recv()
        return outcome

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
            begin = resource.getrusage(resource.RUSAGE_SELF)
            result = work(model, embeddings)
            end = resource.getrusage(resource.RUSAGE_SELF)
            system = end.ru_stime - begin.ru_stime
            connection.send(Outcome(end.ru_utime - begin.ru_utime + system, system, result.numpy()))


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
        first = {name: runner.run(label).result for name, runner in runners.items()}
        report.fact(f"difference of {quantity} {tokens}", largest_difference(first["ours"], first["reference"]))
        turns = [{name: runner.run(label) for name, runner in runners.items()} for _ in range(repeats)]
        seconds = {name: statistics.median(turn[name].seconds for turn in turns) for name in runners}
        system = {name: statistics.median(turn[name].system for turn in turns) for name in runners}
        report.ratio(f"{label} {tokens}", seconds["reference"], seconds["ours"], targets.get(label), seconds)
        report.fact(f"system seconds of {label} {tokens}", system)
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
    parser.add_argument("--layers", type=int, help="layers of the model (default: 12, quick 2)")
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
