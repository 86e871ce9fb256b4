"""Explain a document of 3,000 words: paragraphs first, then the sentences and words that matter."""

import sightline as sl

model = sl.load()
paragraph = "The compiler reads every loop of the program and writes it again. " * 40
text = "\n\n".join([paragraph] * 6 + ["The neural network learns to guess which loops to unroll."])
explanation = model.explain(text, "owen", budget=60)
print(explanation.top(3))
explanation.to_html("long_document.html")
