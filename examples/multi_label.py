"""Explain every label of a function whose labels are independent."""

import sightline as sl


def topics(texts):
    """Return the probabilities of "sport" and "money", which need not add up to 1."""
    return [[0.9 if "match" in text else 0.1, 0.8 if "price" in text else 0.2] for text in texts]


model = sl.load(topics, labels=["sport", "money"], multi_label=True)
report = model.explain("The price of the match ticket rose.", "occlusion", target="all")
for label, explanation in report.by_target().items():
    print(label, explanation.top(1)[0].text)
report.to_html("multi_label.html")
