"""Explain the rows of a DataFrame and compare errors by slice."""

import pandas as pd

import sightline as sl

model = sl.load()
frame = pd.DataFrame(
    {
        "text": ["The compiler unrolls loops.", "The network learns from data.", "A parser reads programs."],
        "label": ["programming languages", "artificial intelligence", "artificial intelligence"],
        "source": ["blog", "paper", "blog"],
    }
)
frame["predicted"] = [prediction.label for prediction in model.predict(list(frame["text"]))]
frame["wrong"] = frame["predicted"] != frame["label"]
print(frame.groupby("source")["wrong"].mean())
store = sl.run(frame.to_dict("records"), model, methods=["input_x_gradient"], out="data_frame", measures=[])
store.document(2).to_html("data_frame.html")
