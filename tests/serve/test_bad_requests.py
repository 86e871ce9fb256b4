"""Bad input: every request that cannot be answered gets a status and a sentence, and the server stays up."""

from __future__ import annotations

import json
import re

import pytest

from sightline.serve.guards import HostNames, is_loopback
from tests.serve.conftest import TEXT

pytestmark = pytest.mark.slow

XSS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; alert(1); //",
    "</script><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "\u202e<b>\u2066",
    "{{7*7}}${7*7}",
    "%3Cscript%3E",
    "\u2028</title>",
]


@pytest.mark.parametrize(
    ("request_", "status", "sentence"),
    [
        ({"text": TEXT, "model": "/etc"}, 404, "There is no model called '/etc'."),
        ({"text": TEXT, "model": "buildin"}, 404, "There is no model called 'buildin'. Did you mean 'built-in'?"),
        ({"text": TEXT, "methods": ["rollot"]}, 422, "There is no method called 'rollot'. Did you mean 'rollout'?"),
        ({"text": TEXT, "methods": []}, 422, "The field 'methods' must be a list of 1 to 32 names."),
        ({"text": TEXT, "method": "attcat"}, 422, "There is no field 'method'. Did you mean 'methods'?"),
        ({"text": TEXT, "target": "poetry"}, 422, "There is no label 'poetry'."),
        ({"text": TEXT, "target": 5}, 422, "Class 5 asked for, the model has 2 classes"),
        ({"text": TEXT, "target": [0, 0]}, 422, "A contrast needs two different classes"),
        ({"text": TEXT, "target": [0]}, 422, "The field 'target' must be a label"),
        ({"text": TEXT, "target": True}, 422, "The field 'target' must be a label"),
        ({"text": TEXT, "quantity": "money"}, 422, "The field 'quantity' must be one of log_odds, logit"),
        ({"text": TEXT, "options": {"rollout": {}}}, 422, "Options are given for 'rollout', which is not one of"),
        (
            {"text": TEXT, "methods": ["attcat"], "options": {"attcat": {"x": 1}}},
            422,
            "The method 'attcat' has no option 'x'.",
        ),
        ({"text": TEXT, "options": {"attcat": 3}}, 422, "The field 'options' must be an object of objects"),
        ({"text": TEXT, "global_tokens": [99_999]}, 422, "Global token 99999 asked for"),
        ({"text": 5}, 422, "The field 'text' must be a string."),
        ({}, 422, "The field 'text' is missing."),
        ({"text": ""}, 422, "The text is empty"),
        ({"text": " \n\t"}, 422, "The text is only white space"),
        ({"text": "\0"}, 422, "The text is only white space"),
        ({"text": TEXT, "pair": ""}, 422, "The second text is empty"),
        ({"text": "x" * 20_001}, 413, "The text has 20,001 characters; this server accepts at most 20,000."),
        ({"text": "tea " * 4_500}, 422, "this server explains at most 2,000"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else None,
)
def test_a_bad_request_is_answered_with_a_sentence(server, request_, status, sentence):
    answer = server.explain(**request_)
    assert answer.status_code == status, answer.text
    assert sentence in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"", 422, "The body is not JSON"),
        (b"{", 422, "The body is not JSON"),
        (b"[1]", 422, "The body must be a JSON object"),
        (b'{"text": "caf\xe9"}', 422, "The body is not JSON in UTF-8: byte 0xe9 at position 13 is invalid."),
        (b'{"text": "hello", "target": "all"}', 422, "one class per request"),
        (b'{"text": "hello", "seed": NaN}', 422, "NaN is not a number"),
        (
            b'{"text": "hello", "methods": ["attcat"], "options": {"attcat": {"x": 1e999}}}',
            422,
            "Numbers must be finite.",
        ),
        (b'{"text": "a \\ud800 b"}', 422, "The text has half a surrogate pair at character 2"),
        (b'{"text": "hello", "\\ud800": 1}', 422, "Field names must be valid Unicode"),
        (b'{"text": "hello", "methods": ["\\ud800"]}', 422, "There is no method called '�'."),
        (b"[" * 200_000, 422, "The body is not JSON: it is nested too deeply."),
        (b'{"text": "' + b"x" * 400_000 + b'"}', 413, "The request is larger than 305,536 bytes"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else None,
)
def test_a_body_that_is_not_a_request_is_refused(server, body, status, sentence):
    answer = server.client.post("/api/explain", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert sentence in answer.json()["error"]


def test_a_body_of_unknown_length_is_cut_off_when_it_grows_too_large(server):
    def endless():
        for _ in range(100):
            yield b"x" * 10_000

    answer = server.client.post("/api/explain", content=endless(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/docs", 404),
        ("GET", "/static/../settings.py", 404),
        ("GET", "/static/%2e%2e%2fsettings.py", 404),
        ("GET", "/api/jobs/nobody/result", 404),
        ("DELETE", "/api/jobs/nobody", 404),
        ("GET", "/api/jobs/nobody/events", 404),
        ("PUT", "/api/health", 405),
        ("GET", "/api/explain", 405),
    ],
)
def test_an_address_that_is_not_there_is_answered_with_a_sentence(server, method, path, status):
    answer = server.client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")


@pytest.mark.parametrize("hostile", XSS)
def test_hostile_text_comes_back_as_data_in_json_only(server, hostile):
    text = f"hello {hostile} world"
    answer = server.explain(text=text, methods=["random"], relations=True)
    assert answer.headers["content-type"] == "application/json"
    for word in answer.json()["words"]:
        assert text[word["start"] : word["end"]] == word["text"]
    for refused in (
        server.explain(text=text, model=hostile),
        server.explain(text=text, methods=[hostile]),
        server.explain(text=text, target=hostile),
        server.explain(**{"text": text, hostile: 1}),
        server.client.get(f"/api/jobs/{answer.json()['id']}/arrays/{hostile.replace('/', '')}"),
    ):
        assert 400 <= refused.status_code < 500
        assert refused.headers["content-type"] == "application/json"
        assert "error" in refused.json()


@pytest.mark.parametrize("path", ["/", "/static/server.js", "/api/health", "/nothing", "/api/jobs/nobody"])
def test_every_answer_forbids_foreign_and_inline_content(server, path):
    headers = server.client.get(path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_the_page_has_no_inline_script_or_style_and_loads_nothing_foreign(server):
    page = server.client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<style" not in page.text
    assert " style=" not in page.text
    assert "<script>" not in page.text
    assert not re.search(r"\son\w+\s*=", page.text)
    assert "http" not in page.text


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.io", "[::1", "localhost:x"]
)
def test_a_foreign_host_is_refused(server, host):
    answer = server.client.get("/api/health", headers={"Host": host})
    assert answer.status_code in (400, 421)
    answer = server.client.post("/api/explain", json={"text": TEXT}, headers={"Host": host})
    assert answer.status_code in (400, 421)


def test_names_of_this_server_are_its_own_and_loopback():
    names = HostNames("192.168.1.5", ["box.local"])
    for known in ("localhost:8000", "127.0.0.1", "[::1]:80", "192.168.1.5:1", "BOX.local"):
        assert known in names
    assert "192.168.1.6" not in names
    everywhere = HostNames("0.0.0.0")
    assert "10.0.0.7:8000" in everywhere
    assert "[fe80::1]" in everywhere
    assert "evil.example" not in everywhere
    assert [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "192.168.1.5", "box")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_foreign_page_can_neither_ask_nor_cancel(server, result):
    foreign = {"Origin": "http://evil.example"}
    assert server.client.post("/api/explain", json={"text": TEXT}, headers=foreign).status_code == 403
    assert server.client.delete(f"/api/jobs/{result['id']}", headers=foreign).status_code == 403
    own = {"Origin": server.url}
    assert server.client.delete(f"/api/jobs/{result['id']}", headers=own).status_code == 200
    preflight = server.client.options("/api/explain", headers=foreign | {"Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 405


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_only_json_is_taken(server, kind):
    answer = server.client.post("/api/explain", content=b'{"text": "hello"}', headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]


def test_strange_but_possible_texts_are_explained(server):
    for text in ("שלום עולם <script>", "e\u0301" * 50, "a" * 15_000, "👩‍👩‍👧‍👦 " * 20, "\u202eabc"):
        answer = server.explain(text=text, methods=["random"])
        assert answer.status_code in (200, 422), answer.text
        assert answer.status_code == 200 or answer.json()["error"].endswith(".")


@pytest.mark.parametrize("path", ["/api/jobs/a%0Ab%1B[31m", "/static/a%0Ab%1B[31m", "/nowhere/a%0Ab%1B[31m"])
def test_what_an_answer_quotes_cannot_break_a_line_or_a_terminal(server, path):
    answer = server.client.get(path)
    assert answer.status_code == 404
    assert "b�[31m" in answer.json()["error"]
    assert answer.json()["error"].isprintable()
