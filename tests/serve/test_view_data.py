"""What the view is given: payload and arrays of a job, tiles and relations on demand, as page-data.md says."""

from __future__ import annotations

import base64
import json
import re
import zlib

import numpy as np
import pytest

import sightline as sl
from sightline.serve import schemas
from tests.serve.conftest import LONG_TEXT, TEXT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def seen(server):
    """A job with relations, and its payload."""
    job = server.explain(text=LONG_TEXT[:3000], methods=["attcat", "rollout"], relations=True).json()["id"]
    return job, server.client.get(f"/api/jobs/{job}/payload").json()


@pytest.fixture(scope="module")
def dense():
    """The attention of the same document, every layer as a matrix (H, n, n) in float64."""
    trace = sl.load().trace(LONG_TEXT[:3000])
    return [np.asarray(trace.attentions[layer].dense(), dtype=np.float64) for layer in range(trace.layer_count)]


def array(server, job, name):
    answer = server.client.get(f"/api/jobs/{job}/arrays/{name}")
    assert answer.headers["content-type"] == "application/octet-stream"
    shape = [int(length) for length in answer.headers["x-shape"].split(",")]
    dtype = np.dtype(answer.headers["x-dtype"]).newbyteorder("<")
    return np.frombuffer(answer.content, dtype).reshape(shape)


def test_every_array_the_payload_lists_can_be_fetched_as_it_says(server, seen):
    job, payload = seen
    assert payload["format"] == "sightline-page"
    assert payload["live"] == {"relations": True, "tiles": True, "predict": True}
    assert {"thumbnails", "importance", "relations.all.attended.partners"} <= set(payload["arrays"])
    for name, info in payload["arrays"].items():
        values = array(server, job, name)
        assert list(values.shape) == info["shape"]
        assert values.dtype == np.dtype(info["dtype"]).newbyteorder("<")


def test_the_page_of_a_job_is_a_file_with_the_same_data(server, seen):
    job, payload = seen
    answer = server.client.get(f"/api/jobs/{job}/page")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-disposition"].startswith("attachment")
    data = json.loads(re.search(r'id="sightline-data">(.*?)</script>', answer.text, re.S)[1])
    assert data["explanations"] == payload["explanations"]
    assert "live" not in data
    for name, info in data["arrays"].items():
        stored = zlib.decompress(base64.b64decode(info["data"]))
        assert stored == server.client.get(f"/api/jobs/{job}/arrays/{name}").content
    assert server.client.get("/api/jobs/unknown/page").status_code == 404


def test_the_scores_of_the_view_are_those_of_the_result(server, seen):
    job, payload = seen
    result = server.client.get(f"/api/jobs/{job}/result").json()
    for number, shown in enumerate(payload["explanations"]):
        expected = result["explanations"][shown["method"]]["scores"]
        np.testing.assert_array_equal(array(server, job, f"scores.{number}"), np.float32(expected))


def test_a_check_is_answered_as_numbers(server):
    answer = server.explain(text=TEXT, methods=["attcat", "rollout"], target=1, check=True).json()
    schemas.ResultAnswer.read(answer)
    expected = sl.load().explain(TEXT, methods=["attcat", "rollout"], target=1, check=True)
    for method, explanation in answer["explanations"].items():
        wanted = expected[method]
        assert explanation["verdict"]["matters"] == wanted.verdict.matters
        if wanted.check is not None:
            np.testing.assert_allclose(explanation["check"]["random"], wanted.check.random, atol=1e-5)
    assert answer["explanations"]["rollout"]["check"] is None


def test_without_relations_no_inside_is_gathered_yet_it_can_be_requested(server, result):
    payload = server.client.get(f"/api/jobs/{result['id']}/payload").json()
    assert payload["inside"] is None
    assert "thumbnails" not in payload["arrays"]
    answer = server.client.get(f"/api/jobs/{result['id']}/relations", params={"token": 1})
    assert len(answer.json()["attended"]) == 8


@pytest.mark.parametrize(
    ("rows", "columns", "size"), [(None, None, 7), ("10:30", "0:64", 16), ("5:6", "5:6", 256), ("3:200", "100:101", 64)]
)
def test_a_tile_is_the_mean_of_its_cells(server, seen, dense, rows, columns, size):
    params = {name: value for name, value in (("rows", rows), ("columns", columns), ("size", size)) if value}
    answer = server.client.get(f"/api/jobs/{seen[0]}/heads/2/1", params=params)
    tile_values = np.frombuffer(answer.content, "<f2").reshape(
        [int(number) for number in answer.headers["x-shape"].split(",")]
    )
    n = dense[2].shape[-1]
    (top, bottom), (left, right) = (
        [int(number) for number in (span or f"0:{n}").split(":")] for span in (rows, columns)
    )
    part = dense[2][1, top:bottom, left:right]
    height, width = min(size, bottom - top), min(size, right - left)
    assert tile_values.shape == (height, width)
    expected = np.zeros((height, width))
    for p in range(height):
        for q in range(width):
            chosen_rows = [i for i in range(bottom - top) if i * height // (bottom - top) == p]
            chosen_columns = [j for j in range(right - left) if j * width // (right - left) == q]
            expected[p, q] = part[np.ix_(chosen_rows, chosen_columns)].mean()
    np.testing.assert_allclose(tile_values, expected, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(
    ("tokens", "layers", "heads"), [([17], None, None), ([17], [1], [3]), ([40, 41, 42], [0, 3], [0, 2])]
)
def test_relations_are_means_of_rows_and_columns(server, seen, dense, tokens, layers, heads):
    params = {"token": tokens, "k": 5}
    params |= {name: ",".join(map(str, value)) for name, value in (("layers", layers), ("heads", heads)) if value}
    relations = server.client.get(f"/api/jobs/{seen[0]}/relations", params=params).json()
    mean = np.mean([dense[layer][heads or slice(None)].mean(axis=0) for layer in layers or range(len(dense))], axis=0)
    for direction, weights in (("attended", mean[tokens].mean(axis=0)), ("attending", mean[:, tokens].sum(axis=1))):
        order = np.argsort(-weights, kind="stable")[:5]
        np.testing.assert_allclose([weight for _, weight in relations[direction]], weights[order], rtol=1e-5)
        assert [position for position, _ in relations[direction]] == order.tolist()


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("heads/9/0", "Layer 9 asked for, the model has 4"),
        ("heads/0/4", "Head 4 asked for, the model has 4"),
        ("heads/0/0?rows=5:5", "rows=5:5 asked for, the document has"),
        ("heads/0/0?columns=0:100000", "columns=0:100000 asked for"),
        ("heads/0/0?rows=a:b", "The parameter 'rows' is invalid"),
        ("heads/0/0?size=100000", "The parameter 'size' is invalid"),
        ("heads/x/0", "The parameter 'layer' is invalid"),
        ("relations", "The parameter 'token' is invalid"),
        ("relations?token=99999", "Token 99999 asked for"),
        ("relations?token=1&layers=77", "Layer 77 asked for"),
    ],
)
def test_what_is_not_there_is_reported_in_a_sentence(server, seen, path, sentence):
    answer = server.client.get(f"/api/jobs/{seen[0]}/{path}")
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]


def test_an_unknown_array_is_not_found(server, seen):
    answer = server.client.get(f"/api/jobs/{seen[0]}/arrays/scores.99")
    assert (answer.status_code, "no array 'scores.99'" in answer.json()["error"]) == (404, True)


def test_a_document_no_longer_held_is_run_again(server, seen):
    path = f"/api/jobs/{seen[0]}/heads/0/0?size=8"
    before = server.client.get(path).content
    for text in (TEXT, TEXT + " More.", TEXT + " And more."):
        job = server.explain(text=text, methods=["random"]).json()["id"]
        server.client.get(f"/api/jobs/{seen[0]}")  # asked about, so the job itself is kept
        assert server.client.get(f"/api/jobs/{job}/heads/0/0").status_code == 200
    assert server.client.get(path).content == before
