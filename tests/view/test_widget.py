"""The notebook's widget: payload and arrays as traits, the same view, a clear word when anywidget is missing."""

from __future__ import annotations

import base64
import json
import re
import sys

import numpy as np
import pytest

from sightline.errors import UnsupportedError
from sightline.models.target import Prediction, Target
from sightline.view.page import widget
from sightline.view.page.assets import script, style
from tests.sample_explanations import encoding, explanation
from tests.sample_pages import show
from tests.view.sample_inside import sample_inside

pytest.importorskip("anywidget")

HOSTILE = "hello <script>window.hacked = 1</script> <img src=x onerror='window.hacked = 2'> שלום e\u0301\u0323 mill"


def test_show_gives_a_widget_with_json_and_buffers():
    encoded = encoding()
    shown = explanation(encoded).show(inside=sample_inside(encoded))
    json.dumps(shown.payload)
    assert shown.payload["arrays"].keys() == shown.arrays.keys()
    assert all("data" not in info for info in shown.payload["arrays"].values())
    scores = np.frombuffer(shown.arrays["scores.0"], dtype="<f4")
    assert scores.tolist() == explanation(encoded).scores.astype(np.float32).tolist()
    assert shown.get_state()["payload"]["format"] == "sightline-page"


def test_without_anywidget_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    widget._widget_class.cache_clear()
    with pytest.raises(UnsupportedError, match=r"sightline-xai\[notebook\]"):
        explanation().show()


def test_a_notebook_keeps_an_escaped_form_without_script_for_those_who_cannot_run_the_widget():
    encoded = encoding(HOSTILE)
    signed, plain = explanation(encoded), explanation(encoded, method="<i>m</i>")
    data, _ = show([signed, plain])._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert signed._repr_html_() in data["text/html"]
    assert "The widget also shows: &lt;i&gt;m&lt;/i&gt; (" in data["text/html"]
    assert not re.search(r"<(script|img|i)\b", data["text/html"])
    assert show([signed])._repr_mimebundle_()[0]["text/html"] == signed._repr_html_()


HOST = """async ([source, style, payload, arrays]) => {
    document.head.append(Object.assign(document.createElement('style'), { textContent: style }));
    const address = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
    const { default: view } = await import(address);
    const buffers = Object.fromEntries(Object.entries(arrays).map(([name, text]) => {
        const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
        return [name, new DataView(bytes.buffer)];
    }));
    const el = document.body.appendChild(document.createElement('div'));
    window.close_view = view.render({ model: { get: (name) => (name === 'payload' ? payload : buffers) }, el });
}"""


@pytest.mark.browser
def test_the_widget_draws_in_a_foreign_page_and_leaves_that_page_alone(browser):
    encoded = encoding(HOSTILE)
    evil = Prediction(0, HOSTILE, 0.5, (HOSTILE, "<b>"), np.zeros(2), np.full(2, 0.5))
    exp = explanation(encoded, prediction=evil, target=Target(0, HOSTILE), method="<i>m</i>")
    shown = show([exp], inside=sample_inside(encoded), title=HOSTILE)
    page = browser.new_page()
    page.set_content("<h1>A notebook</h1><input id='cell'>")
    arrays = {name: base64.b64encode(data).decode() for name, data in shown.arrays.items()}
    page.evaluate(HOST, [script(), style(), shown.payload, arrays])
    page.wait_for_selector("[data-ready]")
    assert page.evaluate("document.querySelector('.text').textContent") == HOSTILE
    page.locator(".text .unit", has_text="mill").click()
    page.wait_for_selector(".partners[data-direction=attended] li")
    assert page.locator(".partners[data-direction=attended] li").count() == 3
    assert page.evaluate("[location.hash, window.hacked ?? null]") == ["", None]
    # Keys belong to the notebook unless the view has the focus.
    page.locator(".card .close").click()
    page.locator("#cell").press("n")
    assert page.locator(".chosen").count() == 0
    page.locator(".host").press("n")
    assert page.locator(".chosen").count() == 1
    # A click takes the focus, and JupyterLab's own keys stand back from what carries this mark.
    page.evaluate("document.activeElement.blur()")
    page.locator(".text .unit", has_text="mill").click()
    assert page.evaluate("document.activeElement.matches('.host[data-lm-suppress-shortcuts]')")
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).fontFamily") != ""
    page.evaluate("window.close_view()")
    assert page.locator(".text").count() == 0
    page.close()
