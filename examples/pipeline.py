"""Explain a prediction of a transformers pipeline; the pipeline itself is not changed."""

from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

import sightline as sl
from sightline.builtin import model_folder

folder = model_folder()
classify = pipeline(
    "text-classification",
    model=AutoModelForSequenceClassification.from_pretrained(folder),
    tokenizer=AutoTokenizer.from_pretrained(folder),
)
model = sl.load(classify)
model.report("The compiler learns to guess.", check=True).to_html("pipeline.html")
