"""Continuations of decoders on the server: the JSON and the page of the command line, within the same limits."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sightline as sl
from sightline.results.continuation import ContinuationExplanation, combine_records
from sightline.serve.requests import ExplainRequest
from sightline.settings.options import declared_options
from sightline.view.continuation import render_continuation
from tests.serve.conftest import TEXT

MAX_NEW_TOKENS = declared_options(ExplainRequest)["max_new_tokens"].server
pytestmark = pytest.mark.slow

PROMPT, CONTINUATION = "the old mill", " hello world"


def test_a_given_continuation_is_answered_as_the_library_explains_it(writing, decoder, tmp_path):
    answer = writing.explain(text=PROMPT, continuation=CONTINUATION, methods=["attcat"])
    assert answer.status_code == 200, answer.text
    expected = sl.load(decoder).explain(PROMPT, methods=["attcat"], continuation=CONTINUATION)
    assert answer.json() == json.loads(json.dumps(combine_records(expected)))
    (tmp_path / "saved.json").write_bytes(answer.content)
    np.testing.assert_array_equal(
        ContinuationExplanation.load(tmp_path / "saved.json").matrix, expected["attcat"].matrix
    )
    page = writing.client.get(answer.headers["location"] + "/page")
    assert page.text == render_continuation(list(expected.values()))
    assert page.headers["content-disposition"] == "attachment"


def test_the_model_can_write_the_continuation_and_several_methods_can_explain_it(writing):
    answer = writing.explain(text=PROMPT, max_new_tokens=3, methods=["attcat", "alti"]).json()
    assert answer["format"] == "sightline-continuations"
    assert [entry["method"] for entry in answer["continuations"]] == ["attcat", "alti"]
    assert {entry["origin"] for entry in answer["continuations"]} == {"generated"}
    assert {len(entry["matrix"]) for entry in answer["continuations"]} == {3}


def test_a_job_says_that_it_explains_a_continuation_and_has_a_page_for_a_frame(writing):
    job = writing.submit(text=PROMPT, continuation=CONTINUATION, methods=["gradient"])
    state = writing.until(job, lambda state: state["status"] == "done")
    assert state["kind"] == "continuation"
    assert writing.client.get(f"/api/jobs/{job}/result").json()["text"] == CONTINUATION
    frame = writing.client.get(f"/api/jobs/{job}/frame")
    policy = frame.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; ")
    assert policy.endswith("; frame-ancestors 'self'")
    assert "content-disposition" not in frame.headers
    for path in ("payload", "arrays/x", "heads/0/0", "relations?token=1"):
        refused = writing.client.get(f"/api/jobs/{job}/{path}")
        assert refused.status_code == 404
        assert "explains a continuation" in refused.json()["error"]


def test_a_job_that_explains_a_prediction_has_no_frame(writing):
    job = writing.submit(text=PROMPT, methods=["gradient"])
    assert writing.until(job, lambda state: state["status"] == "done")["kind"] == "explanation"
    assert writing.client.get(f"/api/jobs/{job}/frame").status_code == 404


@pytest.mark.parametrize(
    ("fields", "status", "sentence"),
    [
        ({"continuation": ""}, 422, "The continuation is empty"),
        ({"continuation": " \n"}, 422, "The continuation is only white space"),
        ({"continuation": "\0"}, 422, "The continuation is only white space"),
        ({"continuation": 5}, 422, "The field 'continuation' must be a string or null."),
        ({"continuation": "x" * 1_000}, 413, "1,012 characters; this server accepts at most 1,000"),
        ({"max_new_tokens": 0}, 422, f"must be a whole number from 1 to {MAX_NEW_TOKENS}."),
        ({"max_new_tokens": MAX_NEW_TOKENS + 1}, 422, f"must be a whole number from 1 to {MAX_NEW_TOKENS}."),
        ({"max_new_tokens": 3, "continuation": " hello"}, 422, "not both"),
        ({"continuation": " hello", "target": 3}, 422, "every generated token is a target"),
        ({"continuation": " hello", "check": True}, 422, "every generated token is a target"),
    ],
)
def test_wrong_requests_are_refused_with_a_sentence(writing, fields, status, sentence):
    answer = writing.explain(text=PROMPT, methods=["gradient"], **fields)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]


def test_a_continuation_with_too_many_scores_is_refused_before_it_is_computed(writing):
    methods = [method.name for method in sl.list_methods()][:20]
    answer = writing.explain(text=PROMPT + " a" * 200, max_new_tokens=MAX_NEW_TOKENS, methods=methods)
    assert answer.status_code == 413
    assert "this server computes at most 1,000,000" in answer.json()["error"]


def test_a_model_that_does_not_write_is_named(server):
    answer = server.explain(text=TEXT, continuation=" more")
    assert answer.status_code == 422
    assert "Only a causal language model continues a text" in answer.json()["error"]
