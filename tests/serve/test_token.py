"""Access by token: header or cookie, nothing without it, and a page that asks for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from sightline.errors import UsageError
from sightline.serve.guards import check_token
from tests.browsing import settle_before_readings
from tests.patience import PATIENCE
from tests.serve.conftest import TEXT, Running

pytestmark = pytest.mark.slow

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def locked() -> Iterator[Running]:
    running = Running(token=TOKEN)
    yield running
    running.stop()


@pytest.mark.parametrize("path", ["/", "/static/server.js", "/api/health", "/openapi.json"])
def test_the_page_and_the_state_of_the_server_need_no_token(locked, path):
    assert locked.client.get(path).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": b"Bearer \xff\xfe"},
        {"Cookie": f"sightline-session={TOKEN}"},
        {"Cookie": "sightline-session="},
        {"Cookie": b"\xff=;;;\x01"},
    ],
)
@pytest.mark.parametrize("path", ["/api/models", "/api/jobs/x", "/api/jobs/x/result", "/nothing", "/api//health"])
def test_everything_else_needs_it(locked, path, headers):
    answer = httpx.get(f"{locked.url}{path}", headers=headers)
    assert answer.status_code in (400, 401)
    if answer.status_code == 401:
        assert "requires its token" in answer.json()["error"]
        assert answer.headers["www-authenticate"] == "Bearer"


def test_programs_send_it_in_a_header(locked):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert locked.client.get("/api/models", headers=headers).status_code == 200
    request = {"text": TEXT, "methods": ["random"]}
    assert locked.client.post("/api/explain", json=request).status_code == 401
    assert locked.client.post("/api/explain", json=request, headers=headers).status_code == 200


def test_the_page_exchanges_it_for_a_cookie_that_is_not_the_token(locked):
    with httpx.Client(base_url=locked.url) as browser:
        for wrong in ({"token": "wrong"}, {"token": TOKEN + "x"}):
            assert browser.post("/api/session", json=wrong).status_code == 401
        for invalid in ({}, {"token": 5}, {"token": "é"}, []):
            assert browser.post("/api/session", json=invalid).status_code == 422
        answer = browser.post("/api/session", json={"token": TOKEN})
        assert answer.status_code == 200
        assert TOKEN not in answer.headers["set-cookie"]
        assert "HttpOnly; SameSite=Strict" in answer.headers["set-cookie"]
        assert browser.get("/api/models").status_code == 200


def test_a_foreign_page_cannot_sign_in(locked):
    answer = locked.client.post("/api/session", json={"token": TOKEN}, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "token", ["", "short", "with spaces in between", "umlaut-ä-umlaut-ä", "new\nline-in-the-token"]
)
def test_a_token_must_be_long_and_fit_into_a_header(token):
    with pytest.raises(UsageError, match="at least 16 ASCII characters"):
        check_token(token)


@pytest.mark.browser
def test_the_page_asks_for_the_token_and_then_works(locked):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this system")
    playwright = pytest.importorskip("playwright.sync_api")

    def scenario() -> None:
        with settle_before_readings(), playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
            page = browser.new_page()
            page.set_default_timeout(1000 * PATIENCE)
            page.goto(locked.url)
            page.locator("#token").fill("wrong")
            assert page.locator("#asking").is_hidden()
            page.get_by_role("button", name="Sign in").click()
            page.locator("#trouble", has_text="not the token").wait_for()
            page.locator("#token").fill(TOKEN)
            page.get_by_role("button", name="Sign in").click()
            page.locator("#explain:enabled").wait_for()
            assert page.locator("#sign-in").is_hidden()
            assert page.locator("#trouble").is_hidden()
            page.locator("#file").set_input_files({"name": "my.txt", "mimeType": "text/plain", "buffer": TEXT.encode()})
            page.locator("#file-name", has_text="“my.txt” loaded").wait_for()
            page.locator("#explain").click()
            page.locator("#view .sightline[data-ready=true]").wait_for()
            with page.expect_download() as download:
                page.get_by_role("link", name="data (JSON)").click()
            assert json.loads(download.value.path().read_text())["explanations"]
            page.reload()
            page.locator("#view .sightline[data-ready=true]").wait_for()
            browser.close()

    with ThreadPoolExecutor(1) as pool:  # Playwright allows one driver per thread
        pool.submit(scenario).result()
