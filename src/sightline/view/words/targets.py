"""What was predicted and what is explained, in words: a class or a number, and the word at a token."""

from __future__ import annotations

from sightline.results.explanation import Explanation


def predicted_value(explanation: Explanation) -> str | None:
    """Return the number that a model of one output gives (a regression, a similarity); None if it chooses a class."""
    prediction = explanation.prediction
    if len(prediction.labels) == 1 and prediction.probability == 1.0:
        return f"{float(prediction.logits[0]):.3g}"
    return None


def describe_target(explanation: Explanation) -> str:
    """Return a phrase such as "logit of 'B-PER' at “Ada” (token 1)" or "similarity to “a text” (cosine …)"."""
    reference = explanation.provenance.get("similar_to")
    if reference is not None:
        return f"similarity to “{reference}” (cosine of the two vectors)"
    phrase, position, word = explanation.target.description(), explanation.target.position, target_word(explanation)
    if word is None:
        return phrase
    return phrase.removesuffix(f" at token {position}") + f" at “{word}” (token {position})"


def target_word(explanation: Explanation) -> str | None:
    """Return the word that is tagged or predicted, for models that score single tokens; None for others."""
    position, encoding = explanation.target.position, explanation.encoding
    if position is None or not 0 <= position < len(encoding) or encoding.word_ids[position] < 0:
        return None
    text: str = encoding.words[encoding.word_ids[position]].text
    return text
