"""Explain a scikit-learn pipeline: which words made it say "good"."""

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import sightline as sl

texts = ["a fine film", "a dull film", "fine acting", "dull and slow", "fine and warm", "slow and long"]
pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, ["good", "bad"] * 2 + ["good", "bad"])

model = sl.load(pipeline)
report = model.report("A fine film, warm in parts, with a slow start.")
print(report.explanations["owen"].top(3))
report.to_html("scikit_learn.html")
