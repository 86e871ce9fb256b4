"""Owen values along the document's structure beside SHAP's partition explainer, with the same number of calls.

The built-in model, one document, the probability of one class, removed words replaced by the mask token. Both methods
get the same budget of calls. SHAP gets a balanced binary tree of neighbouring tokens and knows neither words nor
sentences. Reported are time, calls, what share of the text was measured word by word, and how well each ranks words:
the mean fall of the probability when the highest-ranked words are deleted, 1 to 20 % of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

import sightline as sl
from benchmarks import harness
from sightline import builtin
from sightline.api.model import Model
from sightline.metrics.measurement import measure_faithfulness
from sightline.text import Encoding

TARGET = 0
BUDGET = 200
RATIOS = (0.01, 0.05, 0.1, 0.2)


def document(model: Model, tokens: int) -> Encoding:
    """The beginning of the longest document that comes with the package, as text, of about `tokens` tokens."""
    texts = [path.read_text(encoding="utf-8") for path in builtin.documents().values()]
    text = max(texts, key=len)
    whole = model.encode(text)
    last = min(tokens, len(whole)) - 2
    return model.encode(text[: int(whole.offsets[last, 1])])


def merge_neighbours(count: int) -> np.ndarray:
    """Return a balanced binary tree over `count` tokens as a linkage (count − 1, 4): neighbours are merged first."""
    rows: list[tuple[int, int, float, int]] = []
    nodes = [(token, 1) for token in range(count)]
    height = 1.0
    while len(nodes) > 1:
        merged = []
        for (left, left_size), (right, right_size) in zip(nodes[::2], nodes[1::2], strict=False):
            rows.append((left, right, height, left_size + right_size))
            merged.append((count + len(rows) - 1, left_size + right_size))
        nodes = merged + (nodes[-1:] if len(nodes) % 2 else [])
        height += 1
    return np.array(rows, dtype=float)


def shap_scores(model: Model, encoding: Encoding) -> np.ndarray:
    """SHAP's partition explainer on the token ids, (n,): specials stay, the others are masked."""
    import shap

    ordinary = np.flatnonzero(~encoding.special)
    network, mask_id = model.network, model.network.token_id("mask")
    trace = model.trace(encoding, TARGET)

    def probability(rows: np.ndarray) -> np.ndarray:
        documents = []
        for row in rows:
            ids = encoding.ids.copy()
            ids[ordinary] = np.where(row > 0, ids[ordinary], mask_id)
            documents.append(encoding.replace_ids(ids))
        with torch.inference_mode():
            return np.array([trace.value_of(logits, "probability") for logits in network.run_many(documents)])

    masker = shap.maskers.Partition(np.zeros((1, len(ordinary))), clustering=merge_neighbours(len(ordinary)))
    explainer = shap.explainers.Partition(probability, masker)
    values = explainer(np.ones((1, len(ordinary))), max_evals=BUDGET, silent=True).values[0]
    scores = np.zeros(len(encoding))
    scores[ordinary] = values
    return scores


def main() -> None:
    """Run the comparison."""
    report = harness.start("owen", __doc__)
    model = sl.load()
    encoding = document(model, 256 if report.quick else 2048)
    report.fact("tokens", len(encoding))

    def ours() -> sl.Explanation:
        return model.explain(encoding, "owen", target=TARGET, budget=BUDGET)

    explanation = ours()
    for name in ("model_calls", "measured_share", "completeness_gap", "largest_standard_error"):
        report.fact(name, explanation.checks[name])
    seconds = harness.median_seconds(ours, 1)
    report.fact("CPU seconds", round(seconds, 2))
    occlusion = model.explain(encoding, "occlusion", target=TARGET, level="word", budget=BUDGET)
    report.fact("calls of occlusion", occlusion.checks["model_calls"])
    scores = {"owen": explanation.scores, "occlusion": occlusion.scores}
    theirs: list[np.ndarray] = []
    reference = harness.median_seconds(lambda: theirs.append(shap_scores(model, encoding)), 1)
    scores["shap partition"] = theirs[0]
    report.ratio("SHAP's time / ours", reference, seconds, seconds={"ours": seconds, "reference": reference})
    for name, vector in scores.items():
        measured = measure_faithfulness(
            model, replace(explanation, scores=vector), "aopc", ratios=RATIOS, reference_order=False, random_orderings=0
        )
        report.fact(f"fall of the probability, {name}", round(measured.value, 4))
    report.finish()


if __name__ == "__main__":
    main()
