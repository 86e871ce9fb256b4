"""An installed package adds a method and a metric, and everything that handles methods and metrics handles them."""

from __future__ import annotations

import json

import pytest

from tests.plugin_packages import install_plugin, run_with_plugins

pytestmark = pytest.mark.slow

SOURCE = '''
import numpy as np
import sightline as sl


@sl.method(
    "token_length",
    title="Token length",
    summary="Number of characters of each token.",
    signed=False,
    class_specific=False,
    needs={"attentions"},
)
def token_length(trace, *, power: int = 1):
    """Return |token_i|^power, (n,)."""
    lengths = np.array([len(token) for token in trace.encoding.tokens], dtype=float)
    layers = np.stack([lengths**power / 2] * 2)
    return sl.methods.Attribution(layers.sum(axis=0), layers=layers, layer_kind="additive")


@sl.metric(
    name="largest_share",
    kind="dispersion",
    needs={"scores"},
    higher_is_better=None,
    summary="Share of the largest score.",
    citation="descriptive",
)
def largest_share(scores):
    """Return max|s| / sum|s|."""
    return float(np.abs(scores).max() / np.abs(scores).sum())
'''
PROGRAM = """
import json

import pytest
import sightline as sl
from tools.docs import page

model = sl.load()
text = "Gradient descent trains the network on labelled examples."
explanation = model.explain(text, "token_length", power=2)
evaluation = sl.evaluate(model, [{"text": text, "label": 0}], methods=["token_length"], metrics=["largest_share"])
html = explanation.to_html()
print(json.dumps({
    "scores": explanation.scores.tolist(),
    "expected": [len(token) ** 2 for token in explanation.tokens],
    "layer_kind": explanation.layer_kind,
    "origins": [sl.methods.METHODS.get("token_length").origin, sl.metrics.METRICS.get("largest_share").origin],
    "measured": evaluation.summary()[["method", "metric"]].to_dict("records"),
    "documented": "(from word_lengths 1.2)" in page() and "### token_length" in page(),
    "drawn": "Number of characters of each token." in html,
}))
"""


def test_a_method_and_a_metric_of_a_package_are_explained_evaluated_documented_and_drawn(tmp_path):
    install_plugin(tmp_path, "word_lengths", SOURCE, ("sightline.methods", "sightline.metrics"))
    done = run_with_plugins(tmp_path, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["scores"] == result["expected"]
    assert result["layer_kind"] == "additive"
    assert result["origins"] == ["word_lengths 1.2"] * 2
    assert result["measured"] == [{"method": "token_length", "metric": "largest_share"}]
    assert result["documented"]
    assert result["drawn"]


def test_the_command_line_lists_entries_of_a_package_with_their_origin(tmp_path):
    install_plugin(tmp_path, "word_lengths", SOURCE, ("sightline.methods", "sightline.metrics"))
    install_plugin(tmp_path, "broken", "raise RuntimeError('no licence')", ("sightline.methods",))
    run = "from sightline.cli.app import app; app(['{}'])"
    methods = run_with_plugins(tmp_path, "-c", run.format("methods"))
    assert methods.stdout.rstrip().endswith("Number of characters of each token. (from word_lengths 1.2)")
    assert "\nOther\n  token_length" in methods.stdout
    assert methods.stderr.strip() == (
        "Note: The plug-in 'broken' (broken 1.2) was not loaded: RuntimeError: no licence"
    )
    metrics = run_with_plugins(tmp_path, "-c", run.format("metrics"))
    assert "Share of the largest score. (from word_lengths 1.2)" in metrics.stdout
