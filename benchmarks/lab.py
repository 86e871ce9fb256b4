"""The lab: sparse projections, importances of all representations at once, and training on the band.

Projections: forward and backward of attention rows of 512 scores (12 heads), against softmax; ratios are softmax over
ours, so that 0.5 means twice as slow. The same inside banded attention of 4,096 tokens. Both take turns, and the
smallest CPU time of each counts: neighbours on a busy machine share the caches, which slows down one run or another.
Representations: one sweep against one backward pass per position, in a bidirectional LSTM of 200 words.
Training: one step (forward, backward, AdamW) of a Longformer that reads 4,096 tokens (2 layers, 4 heads, 128 wide,
window 256) with banded attention against the library's, and the losses of both over the first steps.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks import harness
from sightline.attention.projections import Projection
from sightline.lab.feature_importance import dependence_norms, encode_document
from sightline.models.longformer.band_kernel import BandPlan, window_attention
from sightline.models.longformer.encoder import use_banded
from sightline.models.single_attention import BilstmAttentionConfig, BilstmAttentionForSequenceClassification

HEADS, HEAD_WIDTH = 12, 64
SPREADS = (0.2, 0.5, 2.0)
"""Standard deviations of the scores; 2 is usual in trained heads. The closer, the more are candidates for weight."""


def backward_of(function: Any, *inputs: Tensor) -> None:
    """Run forward and backward with a fixed output gradient of ones."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    torch.autograd.grad(output, leaves, torch.ones_like(output))


def best_seconds(ours: harness.Work, reference: harness.Work, rounds: int) -> tuple[float, float]:
    """Return the smallest CPU seconds of both over `rounds` turns; each runs once unmeasured before."""
    best = [float("inf"), float("inf")]
    for turn in range(rounds + 1):
        for number, work in enumerate((ours, reference)):
            begin = time.process_time()
            work()
            if turn:
                best[number] = min(best[number], time.process_time() - begin)
    return best[0], best[1]


def compare_best(
    report: harness.Report, label: str, ours: harness.Work, reference: harness.Work, target: float, rounds: int
) -> None:
    """Record reference / ours of the best times of both."""
    mine, theirs = best_seconds(ours, reference, 1 if report.quick else rounds)
    report.ratio(label, theirs, mine, target, {"ours": mine, "reference": theirs})


def compare_projections(report: harness.Report) -> None:
    """Rows of scores, and rows inside banded attention."""
    n, tokens, window = 512, (1024 if report.quick else 4096), 256
    scores = {spread: spread * torch.randn(HEADS * n, n) for spread in SPREADS}
    q, k, v = (torch.randn(tokens, HEADS, HEAD_WIDTH) for _ in range(3))
    none = torch.zeros(tokens, dtype=torch.bool)
    plans = {
        name: (BandPlan.make(torch.tensor([0]), none, window, torch.float32, projection=Projection.named(name)),)
        for name in ("softmax", "sparsemax", "entmax15")
    }
    for name in ("sparsemax", "entmax15"):
        projection = Projection.named(name)
        for spread in SPREADS:
            compare_best(
                report,
                f"{name}, {n} scores, deviation {spread:g}",
                ours=lambda projection=projection, spread=spread: backward_of(projection, scores[spread]),
                reference=lambda spread=spread: backward_of(Projection(), scores[spread]),
                target=0.5,
                rounds=40,
            )
        compare_best(
            report,
            f"{name} on the band, {tokens} tokens",
            ours=lambda name=name: backward_of(lambda a, b, c: window_attention(a, b, c, plans[name]), q, k, v),
            reference=lambda: backward_of(lambda a, b, c: window_attention(a, b, c, plans["softmax"]), q, k, v),
            target=0.5,
            rounds=8,
        )


def compare_representations(report: harness.Report) -> None:
    """All representations at once against one backward each."""
    torch.manual_seed(0)
    words = 60 if report.quick else 200
    module = (
        BilstmAttentionForSequenceClassification(BilstmAttentionConfig(vocab_size=1000)).eval().requires_grad_(False)
    )
    encoder = module.model.encoder
    embeddings = module.model.embeddings(torch.randint(5, 1000, (words,)))

    def one_by_one() -> None:
        leaf = embeddings.clone().requires_grad_()
        norms = encode_document(encoder, leaf).norm(dim=-1)
        for norm in norms:
            torch.autograd.grad(norm, leaf, retain_graph=True)

    def at_once() -> None:
        hidden = encode_document(encoder, embeddings)
        dependence_norms(encoder, embeddings, torch.nn.functional.normalize(hidden, dim=-1)[None])

    report.compare("representations", ours=at_once, reference=one_by_one, target=5)


def compare_training(report: harness.Report) -> None:
    """Training steps of a Longformer, banded against the library's attention: time and losses."""
    from transformers import LongformerConfig, LongformerForSequenceClassification

    tokens = 1024 if report.quick else 4096
    config = LongformerConfig(
        vocab_size=1000,
        num_hidden_layers=2,
        hidden_size=128,
        num_attention_heads=4,
        intermediate_size=512,
        attention_window=256,
        max_position_embeddings=tokens + 2,
        initializer_range=0.2,  # far from uniform attention, so that a wrong weight would show in the loss
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    ids, label = torch.randint(5, 1000, (1, tokens)), torch.tensor([1])

    def trainer(banded: bool) -> Callable[[], float]:
        """Return a function that takes one step and returns its loss; both start from the same weights."""
        torch.manual_seed(0)
        module = LongformerForSequenceClassification(config).train()
        if banded:
            use_banded(module, verify=False)
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)

        def step() -> float:
            optimizer.zero_grad()
            loss = module(ids, labels=label).loss
            torch.autograd.backward(loss)
            optimizer.step()
            return float(loss.detach())

        return step

    ours, reference = trainer(banded=True), trainer(banded=False)
    pairs = [(ours(), reference()) for _ in range(4)]
    report.fact("losses of the library's", ", ".join(f"{second:.6f}" for _, second in pairs))
    report.fact("largest difference of losses", max(abs(first - second) for first, second in pairs))
    report.compare("training step", ours=ours, reference=reference, target=2, repeats=2, reference_repeats=2)


PARTS = {
    "projections": compare_projections,
    "representations": compare_representations,
    "training": compare_training,
}


def main() -> None:
    """Run all comparisons, or one part."""

    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--part", choices=PARTS, help="one part only")

    report = harness.start("lab", __doc__, add_options)
    torch.manual_seed(0)
    for name, compare in PARTS.items():
        if report.options.part in (None, name):
            compare(report)
    report.finish()


if __name__ == "__main__":
    main()
