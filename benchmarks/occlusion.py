"""Occlusion in batches of similar length beside one model call per token.

The built-in model, a document of 256 tokens, every token in turn replaced by the mask token and, in a second run,
deleted. Both forms run the same model on the same documents; the largest difference of their scores is reported.
"""

from __future__ import annotations

import numpy as np
import torch

import sightline as sl
from benchmarks import harness
from benchmarks.integrated_gradients import document
from sightline.api.model import Model
from sightline.passes.perturb import Replacement, perturb
from sightline.text import Encoding

TARGET = 0
REPLACEMENTS: tuple[Replacement, ...] = ("mask", "delete")
LARGEST_DIFFERENCE = 1e-6


def one_call_a_token(model: Model, encoding: Encoding, replacement: Replacement) -> np.ndarray:
    """Scores (n,) by plain calls."""
    trace = model.trace(encoding, TARGET)

    def probability(changed: Encoding) -> float:
        with torch.inference_mode():
            return trace.value_of(model.network.run([changed])[0], "probability")

    whole = probability(encoding)
    scores = np.zeros(len(encoding))
    for i in np.flatnonzero(~encoding.special):
        changed = perturb(model.network, encoding, trace.target, [int(i)], replacement).encoding
        scores[i] = whole - probability(changed)
    return scores


def main() -> None:
    """Run the comparison."""
    report = harness.start("occlusion", __doc__)
    model = sl.load()
    encoding = document(model, 64 if report.quick else 256)
    report.fact("tokens", len(encoding))
    for replacement in REPLACEMENTS:
        theirs: list[np.ndarray] = []

        def batched(replacement: Replacement = replacement) -> sl.Explanation:
            return model.explain(encoding, "occlusion", target=TARGET, replacement=replacement)

        def single(replacement: Replacement = replacement, theirs: list[np.ndarray] = theirs) -> None:
            theirs.append(one_call_a_token(model, encoding, replacement))

        report.compare(replacement, ours=batched, reference=single, target=1.15, repeats=3, reference_repeats=3)
        difference = float(np.abs(batched().scores - theirs[0]).max())
        report.fact(f"difference, {replacement}", difference)
        report.ratio(f"difference limit, {replacement}", LARGEST_DIFFERENCE, max(difference, 1e-16), target=1)
    report.finish()


if __name__ == "__main__":
    main()
