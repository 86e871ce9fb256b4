"""Numbers that the authors of ALTI stored with their code: Spearman's ρ with gradients and with blank-out.

From `data/{model}_{sst2,sva}_correlations.json` of the repository transformer-contributions, rounded to two digits.
Those of ALTI differ by up to 0.01 between versions of the files. GlobEnc is not in them.
"""

from __future__ import annotations

from sightline_studies.study import Published, two_digits

SOURCE = "authors' repository, data/*_correlations.json"
PUBLISHED: dict[str, dict[str, dict[str, float]]] = {
    "sst2": {
        "BERT": {"raw_attention": 0.29, "rollout": -0.03, "norm_rollout": 0.41, "alti": 0.55},
        "DistilBERT": {"raw_attention": 0.23, "rollout": 0.23, "norm_rollout": 0.29, "alti": 0.54},
        "RoBERTa": {"raw_attention": 0.24, "rollout": 0.01, "norm_rollout": 0.37, "alti": 0.68},
    },
    "sva": {
        "BERT": {"raw_attention": 0.24, "rollout": -0.02, "norm_rollout": 0.19, "alti": 0.40},
        "DistilBERT": {"raw_attention": 0.38, "rollout": 0.23, "norm_rollout": 0.31, "alti": 0.41},
        "RoBERTa": {"raw_attention": 0.17, "rollout": -0.09, "norm_rollout": 0.08, "alti": 0.43},
    },
}
"""Data set -> model -> method -> mean over sentences."""


def published_range(data: str, method: str) -> str:
    """Return the smallest and the largest ρ of the three models: "0.54 to 0.68"."""
    values = [by_method[method] for by_method in PUBLISHED[data].values() if method in by_method]
    return f"{two_digits(min(values))} to {two_digits(max(values))}" if values else "not given here"


def published_lead(other: str, *data: str) -> Published:
    """Return ρ of ALTI minus ρ of another method, in the model where it is smallest."""
    leads = {
        (name, model): by_method["alti"] - by_method[other]
        for name in data
        for model, by_method in PUBLISHED[name].items()
    }
    name, model = min(leads, key=lambda key: leads[key])
    return Published(round(leads[name, model], 2), f"{SOURCE}: the smallest of {len(leads)}, {model} on {name}")
