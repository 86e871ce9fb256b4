"""A server with a corpus: its index, reading pages from the store, and the same guards as everywhere."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sightline as sl
from sightline.errors import UsageError
from sightline.serve.process import WorkerProcess
from sightline.settings.serving import ServerLimits
from tests.browsing import wait_until
from tests.patience import PATIENCE
from tests.serve.conftest import Running
from tests.view.conftest import FLAGS

pytestmark = pytest.mark.slow

TOKEN = "correct-horse-battery"
TEXTS = [
    {"text": "The compiler infers the types.", "label": "programming languages", "id": "types"},
    {"text": "A neural network learns <b>functions</b>.", "id": "net"},
    {"text": "", "id": "nothing"},
    {"text": "The parser reads the tokens of a program. " * 20 + "Then comes Zanzibar.", "id": "long"},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Running]:
    out = tmp_path_factory.mktemp("corpus") / "run"
    sl.run(TEXTS, sl.load(), ["attcat"], out=out, measures=[])
    running = Running(corpus=str(out), token=TOKEN)
    running.client.headers["Authorization"] = f"Bearer {TOKEN}"
    yield running
    running.stop()


def test_the_index_links_to_the_reading_pages_of_explained_documents(served):
    answer = served.client.get("/corpus")
    assert answer.status_code == 200
    assert "3 of 4 rows are explained, 1 failed" in answer.text
    assert '"/corpus/documents/1"' in answer.text
    assert '"/corpus/documents/2"' not in answer.text
    reading = served.client.get("/corpus/documents/1")
    assert reading.status_code == 200
    assert "A neural network learns" in reading.text
    for policy in (answer.headers["Content-Security-Policy"], reading.headers["Content-Security-Policy"]):
        assert "unsafe-inline" not in policy
        assert "frame-ancestors 'none'" in policy


def test_the_search_of_the_index_finds_words_beyond_the_excerpts(served):
    records = json.loads(re.search(r'id="corpus">(.*?)</script>', served.client.get("/corpus").text)[1])["documents"]
    found = [record["id"] for record in records if "zanzibar" in record["vocabulary"]]
    assert found == ["long"]
    assert "Zanzibar" not in records[-1]["text"]


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/corpus/documents/2", 404, "empty"),
        ("/corpus/documents/99", 404, "no document 99"),
        ("/corpus/documents/-1", 422, "row"),
        ("/corpus/documents/99999999999999999999", 422, "row"),
        ("/corpus/documents/..%2f..%2fmanifest.json", 404, "nothing at"),
    ],
)
def test_what_cannot_be_shown_is_answered_with_a_sentence(served, path, status, says):
    answer = served.client.get(path)
    assert answer.status_code == status
    assert says in answer.json()["error"]


def test_the_corpus_needs_the_token(served):
    assert httpx.get(f"{served.url}/corpus", timeout=PATIENCE).status_code == 401
    assert httpx.get(f"{served.url}/corpus/documents/0", timeout=PATIENCE).status_code == 401


def test_the_worker_opens_the_run_and_refuses_a_folder_without_one(tmp_path):
    with pytest.raises(UsageError, match="contains no results"):
        WorkerProcess(ServerLimits(corpus=str(tmp_path))).start()


def test_a_damaged_run_is_answered_with_a_sentence_and_the_server_goes_on(tmp_path):
    sl.run(TEXTS, sl.load(), ["attcat"], out=tmp_path / "run", measures=[])
    for path in (tmp_path / "run/documents").iterdir():
        table = pq.read_table(path)
        place = table.schema.get_field_index("probability")
        pq.write_table(table.set_column(place, "probability", pa.array([5.0] * len(table))), path)
    running = Running(corpus=str(tmp_path / "run"))
    try:
        for address in ("/corpus", "/corpus/documents/0"):
            answer = running.client.get(address)
            assert answer.status_code == 404
            assert "'probability' must be from 0 to 1" in answer.json()["error"]
        assert running.client.get("/api/health").json()["status"] == "ok"
    finally:
        running.stop()


@pytest.mark.browser
def test_search_finds_whole_texts_and_a_click_on_a_document_opens_its_reading_page(served):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this system")
    playwright = pytest.importorskip("playwright.sync_api")

    def scenario() -> list[str]:
        troubles: list[str] = []
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_page(extra_http_headers={"Authorization": f"Bearer {TOKEN}"})
            page.set_default_timeout(1000 * PATIENCE)
            page.on("pageerror", lambda error: troubles.append(str(error)))
            page.on("console", lambda message: troubles.append(message.text))
            page.goto(f"{served.url}/corpus")
            page.wait_for_selector("[data-ready]")
            page.fill("[name=search]", "zanzibar")
            wait_until(page, "document.querySelector('#list tbody').textContent.startsWith('long')")
            page.fill("[name=search]", "")
            page.get_by_role("link", name="net").click()
            page.wait_for_url("**/corpus/documents/1")
            page.wait_for_selector(".sightline[data-ready=true]")
            wait_until(page, "document.body.textContent.includes('neural network')")
            browser.close()
        return troubles

    with ThreadPoolExecutor(1) as pool:  # Playwright allows one driver per thread
        assert pool.submit(scenario).result() == []


def test_the_home_page_is_told_that_there_is_a_corpus(served):
    assert served.client.get("/api/health").json()["corpus"] is True
