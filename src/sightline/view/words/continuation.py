"""A continuation as sentences, the same on a page, in a notebook and in a terminal, and its words in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.files.foreign import printable
from sightline.view.words.numbers import count, format_number
from sightline.view.words.sentences import MARKS, percent

if TYPE_CHECKING:
    from sightline.results.continuation import ContinuationExplanation, Origin

HEADINGS: dict[Origin | None, str] = {
    "generated": "Generated",
    "given": "Given continuation, not written by the model",
    None: "Continuation",
}
_OPENINGS: dict[Origin | None, str] = {
    "generated": "Written by the model, always the likeliest next token",
    "given": HEADINGS["given"],
    None: HEADINGS[None],
}
_CONTRIBUTION = "the share that each word has in the contributions to the vector that predicts the token"
_ATTENTION = "the share of the attention that reaches each word from where the token is predicted"
_WEIGHTED = "the attention to each word, weighted by what speaks for the token"
_ACTIVATION = "how far each word's activations raise (below zero: lower) the {quantity} of the token, over all layers"
MEANINGS = {
    "norm_rollout": _CONTRIBUTION,
    "globenc": _CONTRIBUTION,
    "alti": _CONTRIBUTION,
    "raw_attention": _ATTENTION,
    "rollout": _ATTENTION,
    "flow": _ATTENTION,
    "received_attention": "the attention that each word receives from all words",
    "attgrads": _WEIGHTED,
    "attention_gradcam": _WEIGHTED,
    "partial_lrp": _WEIGHTED,
    "transatt": _WEIGHTED,
    "gradient": "the share that each word has in how sensitive the {quantity} of the token is",
    "cat": _ACTIVATION,
    "attcat": f"{_ACTIVATION}, weighted by attention",
    "grads": "how the {quantity} of the token changes with the attention to each word",
    "random": "random numbers, which say nothing about any word",
}
"""What a score is, for methods whose scores are not what a word added to the quantity."""


def describe_origin(continuation: ContinuationExplanation) -> str:
    """Return who wrote the continuation and how long it is, as one sentence."""
    return (
        f"{_OPENINGS[continuation.origin]}: {count(len(continuation), 'token')} after a prompt of "
        f"{continuation.prompt_length:,}."
    )


def describe_scores(continuation: ContinuationExplanation) -> str:
    """Return what the scores of the method are, as one sentence."""
    quantity = continuation.rows[0].target.quantity.replace("_", " ")
    if continuation.method in MEANINGS:
        meaning = MEANINGS[continuation.method].format(quantity=quantity)
    elif continuation.signed:
        meaning = f"an estimate of what each word added to the {quantity} of the token (below zero: what it took away)"
    else:
        meaning = "how strongly each word counts, for or against the token"
    sign = "" if continuation.signed else ", without a sign"
    return f"Scores by {continuation.method}{sign}: for every token of the continuation, {meaning}."


def describe_check() -> str:
    """Return that a continuation has no verdict, as one sentence."""
    mark, words = MARKS["unchecked"]
    return f"{mark} {words}: nothing was tested on the model, so there is no verdict; model.check() tests one of .rows."


def describe_continuation(continuation: ContinuationExplanation, top: int) -> str:
    """Return lines of text: a few sentences, then one line per word: its probability and `top` earlier words."""
    words = [(printable(word), behind) for word, behind in continuation.top(top)]
    width = min(24, max((len(word) for word, _ in words), default=0))
    lines = [describe_origin(continuation), describe_scores(continuation), describe_check()]
    if words:
        lines.append("Each word of the continuation, its probability, and the earlier words that count most:")
    else:
        lines.append("The continuation has special tokens only, which belong to no word.")
    for (word, behind), probability in zip(words, continuation.unit_probabilities(), strict=True):
        listed = ", ".join(f"{printable(text)} {format_number(score)}" for text, score in behind)
        lines.append(f"  {word:<{width}}  {percent(float(probability)):>8}  {listed or '–'}")
    return "\n".join(lines) + "\n"
