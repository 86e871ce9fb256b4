"""The API by itself: what it answers, and that the answer is the library's."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sightline as sl
from sightline.serve import schemas
from tests.serve.conftest import LONG_TEXT, TEXT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model():
    return sl.load()


def test_the_answer_holds_what_the_library_computes(result, model):
    expected = model.explain(TEXT, methods=["attcat", "rollout"])
    schemas.ResultAnswer.read(result)
    assert result["tokens"] == list(expected["attcat"].tokens)
    assert result["prediction"]["label"] == expected["attcat"].prediction.label
    for method, explanation in result["explanations"].items():
        np.testing.assert_array_equal(np.float32(explanation["scores"]), expected[method].scores.astype(np.float32))
        assert explanation["word_scores"] == [word.score for word in expected[method].words()]
        assert explanation["checks"] == json.loads(json.dumps(expected[method].checks))
        assert explanation["signed"] == expected[method].signed
    for word in result["words"]:
        assert TEXT[word["start"] : word["end"]] == word["text"]
    for (start, end), token, special in zip(result["offsets"], result["tokens"], result["special"], strict=True):
        assert special or TEXT[start:end] == token


def test_target_options_and_seed_reach_the_method(server, model):
    label = model.labels[0]
    answer = server.explain(
        text=TEXT,
        methods=["rollout", "random"],
        target=[label, 1],
        quantity="probability",
        options={"rollout": {"fusion": "max"}},
        seed=7,
    ).json()["explanations"]
    expected = model.explain(
        TEXT,
        methods=["rollout", "random"],
        target=(0, 1),
        quantity="probability",
        rollout={"fusion": "max"},
        random={"seed": 7},
    )
    for method, explanation in expected.items():
        assert answer[method]["target"]["description"] == explanation.target.description()
        np.testing.assert_allclose(answer[method]["scores"], explanation.scores, rtol=1e-6)


def test_a_model_method_and_metric_are_described_as_documented(server):
    models = server.client.get("/api/models").json()
    assert [listed["name"] for listed in models] == ["built-in"]
    assert models[0]["max_tokens"] == 4096
    for path, schema in (
        ("models", schemas.ModelAnswer),
        ("methods", schemas.MethodAnswer),
        ("metrics", schemas.MetricAnswer),
    ):
        for entry in server.client.get(f"/api/{path}").json():
            schema.model_validate(entry, strict=True)
    assert {listed["name"] for listed in server.client.get("/api/methods").json()} == {
        listed.name for listed in sl.list_methods()
    }
    assert {listed["name"] for listed in server.client.get("/api/metrics").json()} == {
        listed.name for listed in sl.list_metrics()
    }
    fusion = next(listed for listed in server.client.get("/api/methods").json() if listed["name"] == "rollout")
    assert set(fusion["options"]["fusion"]["choices"]) == {"mean", "max", "min"}


def test_health_says_what_the_server_accepts(server):
    health = schemas.HealthAnswer.model_validate(server.health())
    assert health.status == "ok"
    assert health.limits.max_characters == 20_000


def test_a_job_is_followed_by_polling_and_by_events(server):
    job = server.submit(text=LONG_TEXT[:1000], methods=["attcat", "occlusion"])
    with server.client.stream("GET", f"/api/jobs/{job}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in stream.iter_lines() if line]
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    states = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert names == ["progress"] * (len(names) - 1) + ["end"]
    assert states[-1]["status"] == "done"
    # What is quicker than a report may be missing; a model call for every word is not.
    assert "occlusion" in {state["progress"]["stage"] for state in states}
    status = schemas.JobAnswer.model_validate(server.job(job), strict=True)
    assert (status.status, status.error, status.place) == ("done", None, 0)
    result = server.client.get(f"/api/jobs/{job}/result").json()
    assert set(result["explanations"]) == {"attcat", "occlusion"}


def test_the_answer_to_a_waiting_client_names_its_job(server):
    answer = server.explain(text=TEXT)
    again = server.client.get(answer.headers["location"] + "/result")
    assert again.content == answer.content


def test_a_pair_is_read_as_two_segments(server):
    answer = server.explain(text="The compiler infers types.", pair="It learns from data.").json()
    assert set(answer["segments"]) == {-1, 0, 1}


def test_the_latest_results_are_kept_and_the_oldest_forgotten(server):
    jobs = [server.explain(text=TEXT, methods=["random"]).json()["id"] for _ in range(6)]
    statuses = [server.client.get(f"/api/jobs/{job}/result").status_code for job in jobs]
    assert statuses == [404, 404, 200, 200, 200, 200]
    sentence = server.client.get(f"/api/jobs/{jobs[0]}").json()["error"]
    assert "send the text again" in sentence


def test_an_edited_text_is_predicted_by_the_model_of_the_job(server):
    first = server.explain(text=TEXT, methods=["random"]).json()
    other = "The parser checks the types of the program."
    answer = server.client.post(f"/api/jobs/{first['id']}/predict", json={"text": other})
    assert answer.status_code == 200
    expected = server.explain(text=other, methods=["random"]).json()["prediction"]
    assert answer.json()["label"] == expected["label"]
    assert answer.json()["probability"] == pytest.approx(expected["probability"], abs=1e-6)
    assert answer.json().get("words") is None
    assert server.client.post(f"/api/jobs/{first['id']}/predict", json={"text": 3}).status_code == 422
    assert server.client.post("/api/jobs/nothing/predict", json={"text": other}).status_code == 404


def test_an_edited_text_is_explained_by_the_method_and_for_the_class_asked_for(server):
    first = server.explain(text=TEXT, methods=["attcat"], options={"attcat": {}}).json()
    other, target = "The parser checks the types of the program.", "artificial intelligence"
    body = {"text": other, "methods": ["attcat"], "target": target}
    words = server.client.post(f"/api/jobs/{first['id']}/predict", json=body).json()["words"]
    expected = sl.load().explain(other, "attcat", target).words()
    assert [word["text"] for word in words] == [word.text for word in expected]
    np.testing.assert_allclose([word["score"] for word in words], [word.score for word in expected], rtol=1e-5)
    unknown = server.client.post(f"/api/jobs/{first['id']}/predict", json={**body, "methods": ["nothing"]})
    assert unknown.status_code == 422


def test_ids_cannot_be_guessed(server):
    jobs = {server.explain(text=TEXT, methods=["random"]).json()["id"] for _ in range(3)}
    assert len(jobs) == 3
    assert all(len(job) >= 22 for job in jobs)


def test_the_description_is_valid_openapi_with_an_example_that_is_a_request(server):
    from fastapi.openapi.models import OpenAPI

    described = server.client.get("/openapi.json").json()
    OpenAPI.model_validate(described)
    text = json.dumps(described)
    for reference in set(_references(described)):
        place = described
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
    assert "cdn" not in text
    assert set(described["paths"]) == {
        "/api/health",
        "/api/session",
        "/api/jobs/{id}/predict",
        "/api/models",
        "/api/methods",
        "/api/metrics",
        "/api/document",
        "/api/explain",
        "/api/jobs/{id}",
        "/api/jobs/{id}/events",
        "/api/jobs/{id}/result",
        "/api/jobs/{id}/page",
        "/api/jobs/{id}/frame",
        "/api/jobs/{id}/payload",
        "/api/jobs/{id}/arrays/{name}",
        "/api/jobs/{id}/heads/{layer}/{head}",
        "/api/jobs/{id}/relations",
    }
    schema = described["paths"]["/api/explain"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    for example in schema["examples"]:
        answer = server.explain(**example)
        assert answer.status_code in (200, 202), answer.text


def _references(value):
    if isinstance(value, dict):
        for key, element in value.items():
            if key == "$ref":
                yield element
            else:
                yield from _references(element)
    elif isinstance(value, list):
        for element in value:
            yield from _references(element)
