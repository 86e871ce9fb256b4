"""Four doors, one page: command line, server, notebook and `to_html` give the page the same data."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import zlib

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from sightline.api.load import load
from sightline.cli.app import app
from sightline.serve.requests import ExplainRequest
from sightline.serve.session import WorkerSession
from sightline.settings.serving import ServerLimits
from tests.tiny_models import FAMILIES, tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "The river runs past the old mill.\n\nHello, Miller! The mill is old.\n"
METHODS = ("attcat", "rollout")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    tiny_module("bert", dtype=torch.float32).save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    return folder


def page_data(html):
    """The JSON of a page without its arrays, and the bytes of the arrays by name."""
    data = json.loads(re.search(r'id="sightline-data">(.*?)</script>', html, re.DOTALL)[1])
    arrays = {name: zlib.decompress(base64.b64decode(info.pop("data"))) for name, info in data["arrays"].items()}
    return data, arrays


def plain(value):
    return json.loads(json.dumps(value))


def from_command_line(folder, tmp_path, methods):
    (tmp_path / "doc.txt").write_text(TEXT, encoding="utf-8")
    arguments = ["explain", str(tmp_path / "doc.txt"), "--model", str(folder), "--methods", ",".join(methods)]
    result = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.stderr
    return page_data((tmp_path / "page.html").read_text(encoding="utf-8"))


def from_server(folder, methods):
    session = WorkerSession(ServerLimits(models=(str(folder),)))
    request = ExplainRequest(text=TEXT, methods=list(methods), check=True, relations=True, model="tiny")
    _, parts = session.explain("job", dataclasses.asdict(request), lambda *_: None)
    data = json.loads(parts["payload"])
    assert data.pop("live") == {"relations": True, "tiles": True, "predict": True}
    return data, {name.removeprefix("array:"): value for name, value in parts.items() if name.startswith("array:")}


def from_notebook(report):
    widget = report.show()
    return plain(widget.payload), widget.arrays


def assert_same(doors):
    (first_name, (data, arrays)), *others = doors.items()
    for name, (other, other_arrays) in others:
        assert other.keys() == data.keys(), name
        for key in data:
            assert other[key] == data[key], f"{key} differs between {first_name} and {name}"
        assert other_arrays.keys() == arrays.keys(), name
        for array, values in arrays.items():
            assert bytes(other_arrays[array]) == values, f"{array} differs between {first_name} and {name}"


def test_every_door_gives_the_page_the_same_data(folder, tmp_path):
    pytest.importorskip("anywidget")
    report = load(folder).report(TEXT, METHODS)
    doors = {
        "to_html": page_data(report.to_html()),
        "command line": from_command_line(folder, tmp_path, METHODS),
        "server": from_server(folder, METHODS),
        "notebook": from_notebook(report),
    }
    assert_same(doors)
    data, arrays = doors["to_html"]
    assert len(data["explanations"]) == 2
    assert data["explanations"][0]["check"]["path"]
    assert {"importance", "thumbnails", "relations.all.attended.partners", "scores.1"} <= arrays.keys()


def test_a_single_explanation_is_drawn_as_a_report_of_itself(folder, tmp_path):
    pytest.importorskip("anywidget")
    report = load(folder).report(TEXT, methods=["attcat"])
    explanation = report.first
    doors = {
        "explanation": page_data(explanation.to_html(inside=report.inside)),
        "command line": from_command_line(folder, tmp_path, ["attcat"]),
        "server": from_server(folder, ["attcat"]),
        "notebook": from_notebook(report),
        "report": page_data(report.to_html()),
    }
    assert_same(doors)
    widget = explanation.show(inside=report.inside)
    assert plain(widget.payload) == doors["explanation"][0]


FIVE = ("attcat", "gradient", "input_x_gradient", "rollout", "attention_gradcam")


@pytest.mark.parametrize("family", FAMILIES)
def test_five_methods_and_inside_cost_one_forward_and_one_backward_before_the_check(family):
    model = tiny_model(family)
    network = model.network
    report = model.report(model.encode(ids=tiny_ids(family)), FIVE, check=False)
    assert (network.forward_passes, network.backward_passes) == (1, 1)
    assert report.inside.importance.shape == (report.inside.layers, report.inside.heads)


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_every_class_with_inside_costs_one_forward(family):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family))
    report = model.report(encoding, ("attcat", "rollout"), "all", check=False)
    assert model.network.forward_passes == 1
    assert model.network.backward_passes == 1 + len(model.labels)
    expected = model.report(encoding, ("attcat",), check=False)
    np.testing.assert_allclose(report.inside.importance, expected.inside.importance, rtol=1e-9, atol=1e-12)
