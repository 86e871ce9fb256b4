"""Banded Longformer attention beside the library's own, in one run on one random model.

    python -m benchmarks.longformer [--quick] [--json] [--tokens 2048 4096]

A classifier of base shape (12 layers, 12 heads, width 768, window 512, random weights) runs forward, and forward +
backward to the word embeddings, through both encoders by turns; CPU time at one thread, medians. Peak memory above the
model is that of one forward + backward in a fresh process each. The largest differences between the two encoders' logits
and input gradients are reported relative to the largest value.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial

import torch
from transformers import LongformerConfig, LongformerForSequenceClassification

from benchmarks.harness import Report, median_seconds
from sightline.models.longformer import use_banded, use_library

BASE_LAYERS, QUICK_LAYERS = 12, 4
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


def logit(model: LongformerForSequenceClassification, embeddings: torch.Tensor) -> torch.Tensor:
    """The logit of the second class for one document (1, n, d), global attention on the first token."""
    global_mask = torch.zeros(embeddings.shape[:2], dtype=torch.long)
    global_mask[:, 0] = 1
    logits: torch.Tensor = model(inputs_embeds=embeddings, global_attention_mask=global_mask).logits
    return logits[0, 1]


def document(model: LongformerForSequenceClassification, tokens: int) -> torch.Tensor:
    """Word embeddings of a random document, (1, n, d)."""
    ids = torch.randint(2, model.config.vocab_size, (1, tokens), generator=torch.Generator().manual_seed(1))
    embeddings: torch.Tensor = model.get_input_embeddings()(ids)
    return embeddings.detach()


def forward(model: LongformerForSequenceClassification, embeddings: torch.Tensor) -> torch.Tensor:
    """The logit, no gradient."""
    with torch.inference_mode():
        return logit(model, embeddings)


def forward_backward(model: LongformerForSequenceClassification, embeddings: torch.Tensor) -> torch.Tensor:
    """The gradient of the logit with respect to the word embeddings, (1, n, d)."""
    leaf = embeddings.clone().requires_grad_()
    return torch.autograd.grad(logit(model, leaf), leaf)[0]


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


def measure(report: Report, tokens: int, layers: int, repeats: int) -> None:
    """All figures at one length."""
    targets = {"forward": 2.0, "forward+backward": 2.5, "memory": 3.0} if tokens >= 4096 and not report.quick else {}
    model = random_model(tokens, layers)
    embeddings = document(model, tokens)
    for label, work in (("forward", forward), ("forward+backward", forward_backward)):
        results: dict[str, torch.Tensor] = {}
        seconds: dict[str, list[float]] = {name: [] for name in ENCODERS}
        for _ in range(repeats):
            for name, switch in ENCODERS.items():
                switch(model)

                def run(name: str = name, work: Callable[..., torch.Tensor] = work) -> None:
                    results[name] = work(model, embeddings)

                seconds[name].append(median_seconds(run, 1))
        median = {name: statistics.median(times) for name, times in seconds.items()}
        report.ratio(f"{label} {tokens}", median["reference"], median["ours"], targets.get(label), median)
        quantity = "logit" if label == "forward" else "input gradient"
        report.fact(f"difference of {quantity} {tokens}", largest_difference(results["ours"], results["reference"]))
    peak = {
        name: report.memory(
            f"{name} {tokens}", "benchmarks.longformer:prepare", encoder=name, tokens=tokens, layers=layers
        )
        for name in ENCODERS
    }
    report.ratio(f"memory {tokens}", peak["reference"], peak["ours"], targets.get("memory"))


def main() -> None:
    """Read the options and measure every length."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.longformer", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,024 tokens and few layers: shows that it runs")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on the last line")
    parser.add_argument("--tokens", type=int, nargs="+", help="lengths to measure (default: 2048 4096)")
    parser.add_argument("--layers", type=int, help="layers of the model (default: 12, quick 4)")
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
