"""Owen values along the document's structure beside SHAP's partition explainer, with the same number of calls.

The built-in model, one document, the probability of one class, removed words replaced by the mask token. Both methods
get the same budget of calls. SHAP clusters the tokens into a balanced binary tree and knows neither words nor
sentences. Reported are time, calls, what share of the words each measured singly, and how well each ranks words: the
mean fall of the probability when the highest-ranked words are deleted, 1 to 20 % of them.
"""

from __future__ import annotations

import numpy as np
import torch

import sightline as sl
from benchmarks import harness
from sightline import builtin
from sightline.metrics.measurement import measure_faithfulness
from sightline.model import Model
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

    clustering = shap.utils.hclust(np.arange(len(ordinary))[:, None].repeat(2, axis=1).T.astype(float)[:2])
    masker = shap.maskers.Partition(np.zeros((1, len(ordinary))), clustering=clustering)
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
    from dataclasses import replace

    for name, vector in scores.items():
        found = measure_faithfulness(
            model, replace(explanation, scores=vector), "aopc", ratios=RATIOS, ceiling=False, random_orderings=5
        )
        report.fact(f"fall of the probability, {name}", round(found.value, 4))
        report.fact("fall by random orders", None if found.floor is None else round(found.floor, 4))
    report.finish()


if __name__ == "__main__":
    main()
