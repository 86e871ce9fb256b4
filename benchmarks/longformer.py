"""Banded Longformer attention beside the library's own, in one run on one random model.

    python -m benchmarks.longformer [--quick] [--json] [--tokens 2048 4096]

A classifier of base shape (12 layers, 12 heads, width 768, window 512, random weights) runs forward, and forward +
backward to the word embeddings, through both encoders by turns; CPU time at one thread, medians. Peak memory above the
model is that of one forward + backward, each encoder in a fresh process. The largest differences between the logits and
between the input gradients of the two are given relative to the largest value.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from transformers import LongformerConfig, LongformerForSequenceClassification

from benchmarks.harness import Report
from sightline.models.longformer import use_banded, use_library

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


def prepare(encoder: str, tokens: int, layers: int) -> Callable[[], object]:
    """For the memory measurement: one forward + backward, ready to run."""
    torch.set_num_threads(1)
    model = random_model(tokens, layers)
    ENCODERS[encoder](model)
    embeddings = document(model, tokens)
    return lambda: forward_backward(model, embeddings)


def largest_difference(ours: torch.Tensor, reference: torch.Tensor) -> float:
    """Largest difference relative to the largest value."""
    return float((ours - reference).abs().max() / reference.abs().max())


def by_turns(
    work: Callable[[], torch.Tensor], model: LongformerForSequenceClassification, repeats: int
) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Median seconds, and the result, of the same work with each encoder."""
    results: dict[str, torch.Tensor] = {}
    seconds: dict[str, list[float]] = {name: [] for name in ENCODERS}
    for _ in range(repeats):
        for name, switch in ENCODERS.items():
            switch(model)
            begin = time.process_time()
            results[name] = work()
            seconds[name].append(time.process_time() - begin)
    return {name: statistics.median(times) for name, times in seconds.items()}, results


def measure(report: Report, tokens: int, layers: int, repeats: int) -> None:
    """All figures at one length."""
    targets = (
        {"forward": 2.0, "forward+backward": 2.5, "memory": 3.0} if (tokens, layers) == (4096, BASE_LAYERS) else {}
    )
    model = random_model(tokens, layers)
    embeddings = document(model, tokens)
    for label, quantity, work in (
        ("forward", "logits", partial(forward, model, embeddings)),
        ("forward+backward", "input gradients", partial(forward_backward, model, embeddings)),
    ):
        seconds, results = by_turns(work, model, repeats)
        report.ratio(f"{label} {tokens}", seconds["reference"], seconds["ours"], targets.get(label), seconds)
        report.fact(f"difference of {quantity} {tokens}", largest_difference(results["ours"], results["reference"]))
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
