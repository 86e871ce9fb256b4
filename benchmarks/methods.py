"""Ten methods on one document against one bare forward and backward of the same model.

One random Longformer of base shape (12 layers, 12 heads, 768 wide, window 512) at 4,096 tokens. The ratio is the time
of one forward + backward (input gradients) divided by the time of ten explanations that share one trace: 1/1.3 or more
is wanted. Peak memory is that of rollout + attcat + gradient in one pass, model included: 4 GB at most are wanted.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import harness
from benchmarks.longformer import random_model

TEN_METHODS = [
    "raw_attention",
    "received_attention",
    "rollout",
    "gradient",
    "input_x_gradient",
    "grads",
    "attgrads",
    "attention_gradcam",
    "cat",
    "attcat",
]


def prepare(
    methods: list[str], tokens: int, layers: int, options: dict[str, dict[str, object]] | None = None
) -> Callable[[], object]:
    """Return the work: explain one random document by `methods`; with none of them, one forward and backward.

    options: method -> its options.
    """
    import torch

    from sightline.api.load import load

    model = load(random_model(tokens, layers))
    ids = [0, *torch.randint(10, 900, (tokens - 2,), generator=torch.Generator().manual_seed(0)).tolist(), 2]
    encoding = model.encode(ids=ids)
    if methods:
        return lambda: model.explain(encoding, methods=methods, target=0, **(options or {}))

    def forward_and_backward() -> object:
        trace = model.trace(encoding, target=0)
        trace.require("gradients")
        return trace.embedding_gradient

    return forward_and_backward


def prepare_from_nothing(methods: list[str], tokens: int, layers: int) -> Callable[[], object]:
    """Return the same work with the making of the model inside, so that it counts in the peak."""
    return lambda: prepare(methods, tokens, layers)()


def main() -> None:
    """Compare and report."""
    report = harness.start("methods", __doc__)
    tokens, layers = (512, 2) if report.quick else (4096, 12)
    report.compare(
        "forward+backward / ten methods",
        ours=prepare(TEN_METHODS, tokens, layers),
        reference=prepare([], tokens, layers),
        target=1 / 1.3,
        repeats=1 if not report.quick else 3,
    )
    report.memory(
        "rollout + attcat + gradient, with the model",
        "benchmarks.methods:prepare_from_nothing",
        methods=["rollout", "attcat", "gradient"],
        tokens=tokens,
        layers=layers,
    )
    report.finish()


if __name__ == "__main__":
    main()
