"""Explain a number: the stars that a regressor of scikit-learn predicts."""

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import sightline as sl

texts = ["fine film", "dull film", "fine and warm", "dull and slow"]
regressor = make_pipeline(CountVectorizer(), Ridge()).fit(texts, [4.0, 2.0, 5.0, 1.0])
model = sl.load(regressor, labels=["stars"], output="values")
explanation = model.explain("A fine but slow film.", "occlusion")
print(explanation.top(2))
explanation.to_html("regression.html")
