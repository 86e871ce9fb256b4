"""Methods and metrics in words: what a method measures; range, direction, chance level and needs of a metric."""

from __future__ import annotations

import math

from sightline.metrics import MetricEntry
from sightline.metrics.registry import NEEDS

_PLAIN = {
    "raw_attention": "How much one layer attends to each word when the answer is formed.",
    "received_attention": "How much attention each word receives from all words.",
    "rollout": "How much attention reaches each word from the answer, followed through all layers.",
    "flow": "The most attention that can flow from the answer to each word through all layers.",
    "grads": "How strongly the answer reacts to the last layer's attention to each word.",
    "attgrads": "Attention to each word, counted where more of it would support the answer.",
    "attention_gradcam": "The last layer's attention to each word, weighted by what each head does for the answer.",
    "cat": "How strongly the answer reacts to each word's vectors, for or against it.",
    "attcat": "How strongly the answer reacts to each word's vectors, weighted by the attention it receives.",
    "layer_conductance": "How much each word contributes to the answer through each layer, for or against it.",
    "gradient": "How strongly the answer reacts to a small change of each word, in either direction.",
    "input_x_gradient": "A quick estimate of how much each word adds to the answer or takes from it.",
    "integrated_gradients": "How much each word adds to the answer or takes from it, while the text is faded in.",
    "gradient_shap": "How much each word adds to the answer or takes from it, averaged over noisy copies of the text.",
    "norm_rollout": "How much of each word's vector reaches the answer, measured by length, through all layers.",
    "globenc": "How much of each word's vector reaches the answer, measured after each whole layer.",
    "alti": "How much each word shapes the vector that the answer is read from, whichever way.",
    "decompx": "What each word passes on to the answer, for or against it, if all layers are read as straight lines.",
    "alti_logit": "What every layer writes for or against the answer, shared out among the words it was mixed from.",
    "partial_lrp": "The share of the answer's score that the last layer's attention takes from each word.",
    "lrp": "The answer's score, handed back through the layers to the words it came from, for or against it.",
    "transatt": "Attention to each word through all layers, counted where it supports the answer.",
    "attnlrp": "The answer's score, handed back through attention and layers to its words, for or against it.",
    "owen": "How much each word changes the probability, averaged over texts with and without its neighbours.",
    "occlusion": "How much the probability changes when each word is hidden.",
    "leave_one_out": "How much the probability changes when each word is erased inside the model.",
    "lime": "How much each word counts in a simple model that imitates this one on shortened texts.",
    "kernel_shap": "How much each word changes the probability, averaged over texts with random words removed.",
    "random": "Random numbers: what any useful method must do better than.",
}
_DIRECTIONS = {True: "higher is better", False: "lower is better", None: "neither direction is better"}


def plain_summary(method: str, summary: str) -> str:
    """Return the sentence on a method for any reader; `summary` for a method that is not built in."""
    return _PLAIN.get(method, summary)


def describe_direction(metric: MetricEntry) -> str:
    """Return which direction is better: "higher is better"."""
    return _DIRECTIONS[metric.higher_is_better]


def describe_range(metric: MetricEntry) -> str:
    """Return the lowest and the highest value: "−1 to 1"; "any number" without bounds."""
    if not any(map(math.isfinite, metric.range)):
        return "any number"
    low, high = (f"{bound:.3g}".replace("-", "−").replace("inf", "∞") for bound in metric.range)
    return f"{low} to {high}"


def describe_chance(metric: MetricEntry) -> str:
    """Return what scores without information give: "random scores: the share of answer tokens"."""
    return "not defined" if metric.chance is None else f"{metric.chance.name}: {metric.chance.text}"


def describe_needs(metric: MetricEntry) -> str:
    """Return what has to be supplied, separated by commas."""
    return ", ".join(words for need, words in NEEDS.items() if need in metric.needs)
