"""All classes of CAT and AttCAT from one forward, beside one pass per class.

Random classifiers of base shape with 2 and with 8 classes: BERT at 128 and 512 tokens, Longformer at 2,048. Two
references, each with a whole pass per class:

plain       the usual code: the library's model, the layers' inputs kept, `backward()` on the logit, which
            fills the gradients of all parameters on the way (for Longformer CAT only: the reference has less to do)
one by one  our own `explain` called once per class, which needs no gradients of parameters

A backward to the layers' inputs takes about as much arithmetic as the forward, so that against the second, one forward
for C classes can save no more than 2C / (1 + C): 1.33x for two classes, 1.78x for eight.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, BertConfig, LongformerConfig

from benchmarks import harness
from sightline.api.load import load
from sightline.api.model import Model
from sightline.results.explanation import Explanation
from sightline.text import Encoding

METHODS = ["cat", "attcat"]
WANTED = {2: 1.8, 8: 2.5}
SIZES = {"bert": (128, 512), "longformer": (2048,)}
QUICK_SIZES = {"bert": (64,), "longformer": (256,)}
LARGEST_DIFFERENCE = 1e-4


def random_module(family: str, classes: int, layers: int) -> Any:
    """A classifier with random weights, as the library makes it; the vocabulary, which costs no time, is small."""
    torch.manual_seed(0)
    common = {"vocab_size": 1000, "num_hidden_layers": layers, "num_labels": classes}
    config = (
        BertConfig(**common)
        if family == "bert"
        else LongformerConfig(**common, attention_window=512, max_position_embeddings=2050, pad_token_id=1)
    )
    return AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").eval()


def plain_pass(module: Any, encoding: Encoding, target: int) -> dict[str, Tensor]:
    """Scores (n,) of one class from a pass of the library's model; AttCAT where attention is a matrix."""
    module.zero_grad()
    dense, ids = module.config.model_type == "bert", torch.from_numpy(encoding.ids)[None]
    further = {} if dense else {"global_attention_mask": torch.eye(1, len(encoding), dtype=torch.long)}
    inputs: list[Tensor] = []

    def keep(_layer: Any, args: tuple[Tensor, ...]) -> None:
        args[0].retain_grad()
        inputs.append(args[0])

    with ExitStack() as stack:
        for layer in module.base_model.encoder.layer:
            stack.callback(layer.register_forward_pre_hook(keep).remove)
        outputs = module(ids, output_attentions=dense, **further)
    outputs.logits[0, target].backward()
    layers = torch.stack([(state.grad * state)[0, : len(encoding)].sum(dim=-1) for state in inputs]).detach()
    scores = {"cat": layers.sum(dim=0)}
    if dense:
        received = torch.stack([weights[0].mean(dim=(0, 1)) for weights in outputs.attentions]).detach()
        scores["attcat"] = (received * layers).sum(dim=0)
    return scores


def difference(ours: dict[str, dict[str, Explanation]], plain: list[dict[str, Tensor]]) -> float:
    """Largest difference over methods and classes, relative to the largest score."""
    worst = 0.0
    for target, scores in enumerate(plain):
        for method, theirs in scores.items():
            mine = list(ours[method].values())[target].scores
            worst = max(worst, float(np.abs(mine - theirs.numpy()).max() / theirs.abs().max()))
    return worst


def measure(report: harness.Report, family: str, tokens: int, classes: int, layers: int) -> None:
    """Time all three forms on one document."""
    module = random_module(family, classes, layers)
    model: Model = load(random_module(family, classes, layers))
    body = torch.randint(110, 900, (tokens - 2,), generator=torch.Generator().manual_seed(1)).tolist()
    encoding = model.encode(ids=[101, *body, 102] if family == "bert" else [0, *body, 2])
    plain_scores: list[dict[str, Tensor]] = []
    label = f"{family} {tokens} tokens, {classes} classes"

    def together() -> dict[str, dict[str, Explanation]]:
        return model.explain(encoding, methods=METHODS, target="all")

    def one_by_one() -> None:
        for target in range(classes):
            model.explain(encoding, methods=METHODS, target=target)

    def plain() -> None:
        plain_scores[:] = [plain_pass(module, encoding, target) for target in range(classes)]

    together()
    # By turns, so that a busy neighbour disturbs all three alike.
    turns = [
        {work.__name__: harness.median_seconds(work, 1) for work in (together, plain, one_by_one)}
        for _ in range(1 if report.quick else 3)
    ]
    seconds = {name: float(np.median([turn[name] for turn in turns])) for name in turns[0]}
    ours = seconds["together"]
    for reference, wanted in (("plain", WANTED[classes]), ("one_by_one", None)):
        theirs = seconds[reference]
        name = f"{label}, {reference.replace('_', ' ')}"
        report.ratio(name, theirs, ours, wanted, {"ours": ours, "reference": theirs})
    off = difference(together(), plain_scores)
    report.fact(f"difference, {label}", off)
    report.ratio(f"difference limit, {label}", LARGEST_DIFFERENCE, max(off, 1e-16), target=1)


def main() -> None:
    """Measure every family, length and number of classes."""
    report = harness.start("classes", __doc__)
    layers = 2 if report.quick else 12
    for family, lengths in (QUICK_SIZES if report.quick else SIZES).items():
        for tokens in lengths:
            for classes in WANTED:
                measure(report, family, tokens, classes, layers)
    report.finish()


if __name__ == "__main__":
    main()
