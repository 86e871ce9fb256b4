"""A document of 4,000 tokens on a BERT of 512: explaining it in windows beside explaining its windows one by one.

A random BERT (2 layers, 256 wide), AttCAT and rollout. Reference: the same windows as documents of their own, each
explained by itself. What the whole document costs beyond the sum of its windows is cutting, sharing and merging.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, BertConfig

from benchmarks import harness
from sightline.api.load import load
from sightline.api.model import Model

METHODS = ["attcat", "rollout"]
WANTED = 1.2


def random_model() -> Model:
    """A classifier with random weights."""
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=2, hidden_size=256, num_attention_heads=4, intermediate_size=1024, vocab_size=1000
    )
    return load(AutoModelForSequenceClassification.from_config(config).eval())


def main() -> None:
    """Time both forms by turns."""
    report = harness.start("windows", __doc__)
    tokens = 1200 if report.quick else 4000
    model = random_model()
    ids = [101, *np.random.default_rng(0).integers(200, 1000, tokens - 2).tolist(), 102]
    encoding = model.encode(ids=ids)
    trace = model.trace(encoding)
    parts = [model.encode(ids=window.trace.encoding.ids.tolist()) for window in trace.windows()]
    report.fact("windows", len(parts))
    report.fact("tokens of the windows", sum(len(part) for part in parts))

    def whole() -> Any:
        return model.explain(encoding, methods=METHODS)

    def one_by_one() -> Any:
        return [model.explain(part, methods=METHODS) for part in parts]

    repeats = 1 if report.quick else 3
    report.compare(
        f"sum of windows / whole, {tokens}",
        ours=whole,
        reference=one_by_one,
        target=1 / WANTED,
        repeats=repeats,
        reference_repeats=repeats,
    )
    report.finish()


if __name__ == "__main__":
    main()
