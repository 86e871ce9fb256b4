"""ModernBERT on long documents: attention received, rollout and top ten without keeping any matrix of weights.

A random classifier of base width (12 heads, 768 wide; every third layer full, the others with a window of 128), three
layers at 4,096 tokens unless `--tokens` and `--layers` say otherwise. Ours: one observed forward, then attention
received by every token in every head, the readout row of rollout, and the ten most attended tokens of every token in
every head. Reference: one forward of the library's model with eager attention that keeps all weights
(`output_attentions`), and nothing computed from them. Peak memory is measured in fresh processes.

With all 22 layers at 8,192 tokens the weights alone would take 22 · 12 · 8,192² · 4 bytes = 70.9 GB, which is why the
reference runs on fewer layers: one full layer and two sliding ones are the mixture of the whole model (8 and 14).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import ModernBertConfig, ModernBertForSequenceClassification

from benchmarks import harness
from sightline.api.load import load

LARGEST_DIFFERENCE = 1e-4


def random_module(tokens: int, layers: int) -> Any:
    """A classifier with random weights; the vocabulary, which costs no time, is small."""
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=1000,
        num_hidden_layers=layers,
        max_position_embeddings=tokens,
        pad_token_id=0,
        cls_token_id=1,
        sep_token_id=2,
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation="eager",
    )
    return ModernBertForSequenceClassification(config).eval().requires_grad_(False)


def document(tokens: int) -> Tensor:
    """Ids of a random document, (n,)."""
    return torch.randint(3, 1000, (tokens,), generator=torch.Generator().manual_seed(1))


def eager(tokens: int, layers: int) -> Callable[[], Any]:
    """One forward of the library's model that keeps all weights, ready to run."""
    torch.set_num_threads(1)
    module, ids = random_module(tokens, layers), document(tokens)[None]

    def run() -> Any:
        with torch.inference_mode():
            return module(ids, output_attentions=True).attentions

    return run


def streamed(tokens: int, layers: int) -> Callable[[], Any]:
    """One observed forward and three questions about its attention, ready to run."""
    torch.set_num_threads(1)
    model = load(random_module(tokens, layers))
    encoding = model.encode(ids=document(tokens).tolist())

    def run() -> Any:
        trace = model.trace(encoding, target=0)
        received = trace.received
        row = np.eye(1, tokens)[0]
        for mean in reversed(trace.mean_attentions):
            row = 0.5 * row + 0.5 * mean.left(row)[0]
        return received, row, [attention.top_attended(10) for attention in trace.attentions]

    return run


def largest_error(ours: Any, weights: Any) -> float:
    """Largest difference of received attention, rollout and top ten from the kept weights, relative to the largest."""
    received, row, top = ours
    expected = np.eye(1, len(row))[0]
    errors = []
    for layer, kept in enumerate(weights):
        matrix = kept[0].double().numpy()
        errors.append(np.abs(received[layer] - matrix.sum(1)).max() / matrix.sum(1).max())
        best = np.sort(matrix, axis=-1)[:, :, :-11:-1]
        errors.append(np.abs(top[layer].values - best).max() / best.max())
    for kept in reversed(weights):
        expected = 0.5 * expected + 0.5 * expected @ kept[0].double().mean(0).numpy()
    errors.append(np.abs(row - expected).max() / expected.max())
    return float(max(errors))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the shape."""
    parser.add_argument("--tokens", type=int, help="length of the document (default: 4096, quick 2048)")
    parser.add_argument("--layers", type=int, default=3, help="layers of the model")
    parser.add_argument("--memory", action="store_true", help="measure our peak memory only")


def main() -> None:
    """Measure one shape."""
    report = harness.start("modernbert", __doc__, add_options)
    tokens = report.options.tokens or (2048 if report.quick else 4096)
    layers = report.options.layers
    shape = {"tokens": tokens, "layers": layers}
    ours = report.memory(f"ours {tokens}", "benchmarks.modernbert:streamed", **shape)
    kept = layers * 12 * tokens**2 * 4 / 1e6
    report.fact("weights of all layers, MB", kept)
    if not report.options.memory:
        reference = report.memory(f"reference {tokens}", "benchmarks.modernbert:eager", **shape)
        report.ratio(f"memory {tokens}", reference, ours, target=4)
        mine, theirs = streamed(**shape), eager(**shape)
        off = largest_error(mine(), theirs()) if report.quick else 0.0
        if report.quick:
            report.ratio("difference limit", LARGEST_DIFFERENCE, off)
        report.compare(f"time {tokens}", ours=mine, reference=theirs, target=1 / 1.5, repeats=1)
    report.finish()


if __name__ == "__main__":
    main()
