"""BigBird's block-sparse attention beside the library's, in one run on one random model.

A classifier of two layers of base width (12 heads, 768 wide, blocks of 64, 3 random blocks) runs forward, and forward +
backward to the word embeddings, once with our self-attention and once with the library's. Logits and gradients are
compared. Peak memory is that of one forward + backward in a fresh process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import BigBirdConfig, BigBirdForSequenceClassification

from benchmarks import harness
from sightline.models.block_sparse import use_blocks

LAYERS = 2


def random_model(tokens: int, ours: bool) -> Any:
    """A classifier with random frozen weights; the vocabulary, which costs no time, is small."""
    torch.manual_seed(0)
    config = BigBirdConfig(
        vocab_size=1000, num_hidden_layers=LAYERS, max_position_embeddings=tokens, num_labels=2, hidden_act="gelu"
    )
    model = BigBirdForSequenceClassification(config).eval().requires_grad_(False)
    if ours:
        use_blocks(model)
    return model


def document(tokens: int) -> Tensor:
    """Ids of a random document, (1, n)."""
    return torch.randint(100, 1000, (1, tokens), generator=torch.Generator().manual_seed(1))


def forward(model: Any, ids: Tensor) -> Tensor:
    """The logits, without gradient."""
    with torch.inference_mode():
        logits: Tensor = model(ids).logits[0]
        return logits


def forward_backward(model: Any, ids: Tensor) -> Tensor:
    """The gradient of a logit with respect to the word embeddings, (1, n, d)."""
    embedded: list[Tensor] = []

    def make_leaf(_module: Any, _args: Any, output: Tensor) -> Tensor:
        embedded[:] = [output.detach().requires_grad_()]
        return embedded[0]

    handle = model.get_input_embeddings().register_forward_hook(make_leaf)
    try:
        logits = model(ids).logits[0]
    finally:
        handle.remove()
    return torch.autograd.grad(logits[1], embedded[0])[0]


def prepare(ours: bool, tokens: int) -> Callable[[], object]:
    """For the memory measurement: one forward + backward, ready to run."""
    torch.set_num_threads(1)
    model, ids = random_model(tokens, ours), document(tokens)
    return lambda: forward_backward(model, ids)


def main() -> None:
    """Measure one length."""
    report = harness.start("block_sparse", __doc__)
    tokens = 1024 if report.quick else 4096
    ours, reference, ids = random_model(tokens, True), random_model(tokens, False), document(tokens)
    for label, work, target in (("forward", forward, 1.0), ("forward+backward", forward_backward, None)):
        mine, theirs = work(ours, ids), work(reference, ids)
        report.fact(f"difference, {label}", float((mine - theirs).abs().max() / theirs.abs().max()))
        report.compare(
            f"{label} {tokens}",
            ours=lambda work=work: work(ours, ids),  # type: ignore[misc]
            reference=lambda work=work: work(reference, ids),  # type: ignore[misc]
            target=target,
            repeats=1 if report.quick else 2,
            reference_repeats=1 if report.quick else 2,
        )
    peak = {
        name: report.memory(f"{name} {tokens}", "benchmarks.block_sparse:prepare", ours=name == "ours", tokens=tokens)
        for name in ("ours", "reference")
    }
    report.ratio(f"memory {tokens}", peak["reference"], peak["ours"])
    report.finish()


if __name__ == "__main__":
    main()
