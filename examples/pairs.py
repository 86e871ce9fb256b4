"""Explain a function that compares two texts: which words of both make them alike."""

import sightline as sl


def overlap(pairs):
    """Return how alike two texts are: the share of their words that they have in common."""
    words = [(set(a.lower().split()), set(b.lower().split())) for a, b in pairs]
    return [len(a & b) / max(1, len(a | b)) for a, b in words]


model = sl.load(overlap, labels=["different", "alike"])
explanation = model.explain("where is the key", "occlusion", target="alike", pair="the key is lost")
print(explanation.top(4))
explanation.to_html("pairs.html")
