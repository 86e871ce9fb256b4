"""Check scores that another program computed, and draw them."""

import sightline as sl

model = sl.load()
text = "The compiler learns to guess from measured programs which loops to unroll."
imported = model.import_scores(text, {"learns": 0.36, "compiler": -0.12, "guess": -0.12}, method="SHAP")
checked = model.check(imported)
print(checked.verdict.level)
checked.to_html("other_scores.html")
