"""Integrated gradients with adaptive steps beside captum's LayerIntegratedGradients with 50 Gauss-Legendre steps.

The built-in model, a document of 2,048 tokens, the logit of one class against the other, pad baseline, the whole
embedding output. Captum runs the same weights in the library's own Longformer encoder, the steps in batches of the same
size as ours. Errors are Σ|s − s*| / Σ|s*| against s* of 128 Gauss-Legendre steps. Time per evaluation is that of a
forward and backward at one point of the path.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from captum.attr import LayerIntegratedGradients
from torch import Tensor

import sightline as sl
from benchmarks import harness
from sightline import builtin
from sightline.api.model import Model
from sightline.models.batching import BATCH_TOKENS
from sightline.text import Encoding

CONTRAST = (0, 1)
CAPTUM_STEPS = 50
FINE_STEPS = 128
LARGEST_ERROR = 0.01
LARGEST_TIME_SHARE = 0.75


def document(model: Model, tokens: int) -> Encoding:
    """The beginning of the longest document that comes with the package, cut to `tokens`."""
    texts = (path.read_text(encoding="utf-8") for path in builtin.documents().values())
    ids = max((model.encode(text).ids for text in texts), key=len)
    return model.encode(ids=[*ids[: tokens - 1].tolist(), int(ids[-1])])


def captum_scores(model: Model, encoding: Encoding, steps: int) -> np.ndarray:
    """Captum on the library's model, (n,)."""
    module = model.network.module
    inputs = model.network.inputs([encoding])
    ids = inputs.pop("input_ids")
    baseline = torch.where(torch.from_numpy(encoding.special), ids, model.network.token_id("pad"))

    def margin(points: Tensor) -> Tensor:
        further = {name: tensor.expand(len(points), -1) for name, tensor in inputs.items()}
        logits: Tensor = module(points, **further).logits
        return logits[:, CONTRAST[0]] - logits[:, CONTRAST[1]]

    method = LayerIntegratedGradients(margin, module.base_model.embeddings)
    attributions = method.attribute(
        ids,
        baselines=baseline,
        n_steps=steps,
        method="gausslegendre",
        internal_batch_size=max(1, BATCH_TOKENS // len(encoding)),
    )
    # The library pads documents to a multiple of the window inside the model.
    scores: np.ndarray = attributions[0, : len(encoding)].sum(-1).detach().numpy()
    return scores


def error(scores: np.ndarray, exact: np.ndarray) -> float:
    """Σ|s − s*| / Σ|s*|."""
    return float(np.abs(scores - exact).sum() / np.abs(exact).sum())


def main() -> None:
    """Run the comparison."""
    report = harness.start("integrated_gradients", __doc__)
    tokens, captum_steps, fine_steps = (256, 6, 16) if report.quick else (2048, CAPTUM_STEPS, FINE_STEPS)
    ours, library = sl.load(), sl.load(attention="library")
    encoding = document(ours, tokens)
    report.fact("tokens", len(encoding))

    def adaptive() -> sl.Explanation:
        return ours.explain(encoding, "integrated_gradients", target=CONTRAST)

    theirs: list[np.ndarray] = []
    label = f"captum's {captum_steps} steps"
    report.compare(
        label,
        ours=adaptive,
        reference=lambda: theirs.append(captum_scores(library, encoding, captum_steps)),
        target=8,
        repeats=3,
    )
    explanation = adaptive()
    evaluations = int(explanation.checks["evaluations"])
    exact = ours.explain(encoding, "integrated_gradients", target=CONTRAST, steps=fine_steps).scores
    report.fact("evaluations", evaluations)
    report.fact("completeness gap", float(explanation.checks["completeness_gap"]))
    report.fact("error", error(explanation.scores, exact))
    report.fact("error of captum", error(theirs[0], exact))
    report.ratio("error limit", LARGEST_ERROR, max(error(explanation.scores, exact), math.ulp(1.0)), target=1)

    seconds = report.seconds[label]
    each = {"ours": seconds["ours"] / evaluations, "reference": seconds["reference"] / captum_steps}
    report.ratio("one evaluation", each["reference"], each["ours"], target=1 / LARGEST_TIME_SHARE, seconds=each)
    report.finish()


if __name__ == "__main__":
    main()
