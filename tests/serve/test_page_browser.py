"""The server's page as a person meets it: paste, wait, look, choose another method, come back later."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.browsing import settle_before_readings, wait_until
from tests.patience import PATIENCE
from tests.serve.conftest import LONG_TEXT, TEXT, Running
from tests.text.documents.samples import docx, paragraph

pytestmark = pytest.mark.browser

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
HOSTILE = "<script>window.hacked = 1</script> <img src=x onerror='window.hacked = 2'> compiler \u202e \"'>"

PASTED = LONG_TEXT[:1000]
REFUSED = re.compile(r"status of (404|413|422)")

Scenario = Callable[[Any], None]


@pytest.fixture
def browse(server: Running) -> Callable[[Scenario], None]:
    return browse_page_of(server)


def browse_page_of(server: Running) -> Callable[[Scenario], None]:
    """Return a function that runs a scenario on a server's page, in a new thread: Playwright allows one driver each.

    Afterwards nothing may have been said on the console, asked by a dialog, or requested from elsewhere.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this system")
    playwright = pytest.importorskip("playwright.sync_api")

    def run(scenario: Scenario) -> None:
        troubles: list[str] = []
        with settle_before_readings(), playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
            page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
            page.on(
                "request",
                lambda request: request.url.startswith(server.url) or troubles.append(f"request: {request.url}"),
            )
            # The browser reports every request that the server refuses.
            page.on("console", lambda line: REFUSED.search(line.text) or troubles.append(f"console: {line.text}"))
            page.set_default_timeout(1000 * PATIENCE)
            page.goto(server.url)
            page.locator("#explain:enabled").wait_for()
            scenario(page)
            browser.close()
        assert troubles == []

    def in_thread(scenario: Scenario) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(run, scenario).result()

    return in_thread


def open_settings(page: Any) -> None:
    page.locator("#settings").evaluate("details => details.open = true")


def choose(page: Any, *methods: str) -> None:
    open_settings(page)
    for box in page.locator("#methods input[name=method]").all():
        box.set_checked(box.get_attribute("value") in methods)


def explained(page: Any, text: str, *methods: str) -> None:
    page.locator("#asking").evaluate("details => details.open = true")
    page.locator("#text").fill(text)
    choose(page, *methods)
    before = page.locator("#view").get_attribute("data-job")
    page.locator("#explain").click()
    # The view of the job before stays until the server has taken the new one.
    wait_until(page, f"![undefined, {json.dumps(before or '')}].includes(document.querySelector('#view').dataset.job)")
    page.locator("#view .sightline[data-ready=true]").wait_for()


def test_paste_look_click_change_the_method_and_come_back(browse, server):
    def scenario(page):
        page.locator("#text").fill(PASTED)
        choose(page, "attcat", "rollout", "occlusion")
        page.get_by_label("Check against random words").check()
        with server.held_at("occlusion"):
            page.locator("#explain").click()
            page.locator("#stage", has_text="Occlusion: ").wait_for()
        page.locator("#view .sightline[data-ready=true]").wait_for()
        assert page.locator("#running").is_hidden()
        assert page.locator("#view .text").first.text_content() == PASTED

        page.locator("#view .text .unit", has_text="compiler").first.click()
        card = page.locator("#view [data-section=card]")
        assert card.locator("h2").first.inner_text() == "compiler"
        assert all(method in card.inner_text() for method in ("AttCAT", "Attention rollout", "Occlusion"))

        page.locator("#view nav.tabs button", has_text="What would change it").click()
        assert page.locator("#view .curve svg").is_visible()
        page.locator("#view nav.tabs button", has_text="Text").click()

        coloured = "all => all.map((one) => one.className)"
        before = page.locator("#view .text .unit").evaluate_all(coloured)
        page.locator("#view [data-control=method]").select_option("rollout")
        wait_until(page, "location.hash.includes('method=rollout')")
        assert page.locator("#view .text .unit").evaluate_all(coloured) != before

        job = page.evaluate("new URLSearchParams(location.search).get('job')")
        assert server.job(job)["status"] == "done"
        page.reload()
        page.locator("#view .sightline[data-ready=true]").wait_for()
        assert page.evaluate("location.hash").find("method=rollout") > 0

        explained(page, TEXT, "gradient")
        assert page.evaluate("location.hash") == ""
        assert page.locator("#view .text").first.text_content() == TEXT
        assert page.locator("#history > summary").inner_text() == "Earlier results (2)"
        page.locator("#history > summary").click()
        assert page.locator("#earlier a").count() == 2
        page.locator("#earlier a").last.click()
        page.locator("#view h1", has_text="The compiler").wait_for()
        wait_until(page, f"document.querySelector('#view .text')?.textContent.length === {len(PASTED)}")

    browse(scenario)


def test_cancel_bad_files_and_a_result_the_server_has_forgotten(browse, server):
    def scenario(page):
        file = page.locator("#file")
        file.set_input_files({"name": "cat.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n\xff"})
        page.locator("#trouble", has_text="“cat.png” is not a text file").wait_for()
        file.set_input_files({"name": "big.txt", "mimeType": "text/plain", "buffer": b"x" * 100_000})
        page.locator("#trouble", has_text="has 100,000 characters; this server accepts at most 20,000").wait_for()
        file.set_input_files({"name": "paper.docx", "mimeType": "", "buffer": docx(paragraph("The mill is old."))})
        page.locator("#file-name", has_text="“paper.docx” loaded.").wait_for()
        assert page.locator("#text").input_value() == "The mill is old.\n"
        file.set_input_files({"name": "good.txt", "mimeType": "text/plain", "buffer": LONG_TEXT.encode()})
        wait_until(page, "document.querySelector('#text').value.length > 1000")
        assert page.locator("#trouble").is_hidden()

        choose(page)
        page.locator("#explain").click()
        assert page.locator("#trouble").inner_text() == "Choose at least one method."
        choose(page, "occlusion")
        with server.held_at("occlusion"):
            page.locator("#explain").click()
            page.locator("#stage", has_text="Occlusion: ").wait_for()
            page.locator("#cancel").click()
        page.locator("#trouble", has_text="This job was cancelled.").wait_for()
        assert page.locator("#running").is_hidden()

        explained(page, TEXT, "random")
        for _ in range(5):
            assert server.explain(text=TEXT, methods=["random"]).status_code == 200
        page.reload()
        page.locator("#trouble", has_text="send the text again").wait_for()
        page.get_by_role("button", name="Run it again").click()
        page.locator("#view .sightline[data-ready=true]").wait_for()
        assert page.locator("#view .text").first.text_content() == TEXT

    browse(scenario)


def test_relations_heads_filters_search_and_tables_work_as_in_a_report(browse):
    def scenario(page):
        explained(page, TEXT, "attcat", "rollout")
        view = page.locator("#view")
        view.locator(".text .unit", has_text="network").first.click()
        view.locator(".partners[data-direction=attended] li").first.wait_for()
        view.locator(".partners[data-direction=attending] li").first.wait_for()
        wait_until(page, "document.querySelectorAll('#view .links path').length > 0")
        # Relations of one head are not in the first answer: they are fetched.
        tabs = view.locator("nav.tabs")
        tabs.get_by_role("button", name="Inside the model").click()
        view.get_by_role("button", name="Layer 1", exact=True).click()
        view.get_by_role("button", name="Head 2", exact=True).click()
        tabs.get_by_role("button", name="Text").click()
        wait_until(page, "document.querySelector('#view .relations').textContent.includes('head 2')")
        view.locator(".partners[data-direction=attended] li").first.wait_for()

        def count_ranked() -> int:
            return int(re.search(r"rank \d+ of (\d+)", view.locator(".status").inner_text())[1])

        ranked = count_ranked()
        view.locator("details.appearance > summary").click()
        view.get_by_label("stop words", exact=True).check()
        assert 3 < count_ranked() < ranked
        view.locator("[data-control=find]").fill("learns from")
        assert view.locator(".text .found").all_inner_texts() == ["learns", "from"]

        tabs.get_by_role("button", name="Compare methods").click()
        with page.expect_download() as download:
            view.locator("[data-control=csv]").click()
        header, *rows = download.value.path().read_text(encoding="utf-8-sig").splitlines()
        assert header.startswith("word,AttCAT")
        assert any(row.startswith("network,") for row in rows)

        tabs.get_by_role("button", name="Inside the model").click()
        view.locator(".thumbnail").nth(1).click()
        canvas = view.locator(".head canvas")
        canvas.scroll_into_view_if_needed()
        canvas.hover(position={"x": 3, "y": 3})
        view.locator("[data-section=named]", has_text="attends to").wait_for()
        whole = canvas.evaluate("canvas => canvas.toDataURL()")
        view.get_by_role("button", name="Zoom in").click()
        wait_until(page, f"document.querySelector('#view .head canvas').toDataURL() !== {json.dumps(whole)}")

    browse(scenario)


def test_a_text_is_changed_explained_again_and_compared_and_a_reload_keeps_that(browse):
    def scenario(page):
        explained(page, TEXT, "attcat")
        view = page.locator("#view")
        view.locator(".text .unit", has_text="network").first.click()
        view.locator("[data-control=try-without]").click()
        view.locator("[data-section=without-unit]", has_text="→").wait_for()
        view.locator("nav.tabs").get_by_role("button", name="What would change it").click()
        trials = view.locator("[data-section=trials] tbody")
        assert trials.locator("tr").count() == 1
        assert "without “network”" in trials.inner_text()
        view.locator("[data-control=edit]").click()
        view.locator("[data-control=edit-0]").fill(TEXT.replace("learns", "guesses"))
        view.locator("[data-control=rerun]").click()
        wait_until(page, "document.querySelectorAll('#view [data-section=trials] tbody tr').length === 2")
        assert "“learns” → “guesses”" in trials.locator("tr").first.inner_text()
        trials.locator("tr", has_text="points").nth(1).wait_for()

        def assert_compared():
            compared = view.locator("[data-section=comparison]")
            changed = compared.locator("tbody tr", has_text="learns")
            changed.wait_for()
            assert changed.inner_text().endswith("not there")
            assert compared.locator("del").inner_text() == "learns"
            assert compared.locator("ins").inner_text() == "guesses"

        assert_compared()
        before = trials.inner_text()
        page.reload()
        trials.locator("tr", has_text="points").nth(1).wait_for()
        assert trials.inner_text() == before
        assert_compared()

    browse(scenario)


def test_a_file_sent_at_once_is_read_first_and_a_second_click_sends_nothing(browse):
    def scenario(page):
        choose(page, "random")
        page.evaluate(
            f"""() => {{
                const files = new DataTransfer();
                files.items.add(new File([{json.dumps(TEXT)}], "my.txt"));
                const file = document.querySelector("#file");
                file.files = files.files;
                file.dispatchEvent(new Event("change"));
                for (let clicks = 0; clicks < 2; clicks++) document.querySelector("#explain").click();
            }}"""
        )
        page.locator("#view .sightline[data-ready=true]").wait_for()
        assert page.locator("#view .text").first.text_content() == TEXT
        assert page.locator("#earlier a").count() == 1

    browse(scenario)


def test_a_result_that_arrives_while_the_next_text_is_written_leaves_the_form_alone(browse):
    def scenario(page):
        page.locator("#text").fill(TEXT)
        choose(page, "random")
        page.evaluate(
            """async () => {
                document.querySelector("#explain").click();
                for (let turns = 0; turns < 5; turns++) await null; // the form is read, no answer can be there yet
                const text = document.querySelector("#text");
                text.focus();
                text.value = "The next";
                text.dispatchEvent(new InputEvent("input", {bubbles: true}));
            }"""
        )
        page.locator("#view .sightline[data-ready=true]").wait_for()
        page.keyboard.type(" text")
        assert page.locator("#text").input_value() == "The next text"
        assert page.locator("#view .text").first.text_content() == TEXT

    browse(scenario)


def test_a_hostile_text_is_only_ever_text(browse):
    def scenario(page):
        explained(page, HOSTILE, "attcat")
        assert page.locator("#view .text").first.text_content() == HOSTILE
        page.locator("#history > summary").click()
        assert page.locator("#earlier a").first.inner_text().startswith("<script>window.hacked")
        assert page.evaluate("window.hacked ?? null") is None
        assert page.evaluate("document.querySelectorAll('#view img, #earlier img, body script').length") == 0
        page.locator("#forget").click()
        assert page.locator("#history").is_hidden()
        assert page.evaluate("localStorage.length + sessionStorage.length") == 0

    browse(scenario)


def test_the_result_can_be_taken_away_as_a_page_and_as_json(browse, server, tmp_path):
    def scenario(page):
        explained(page, TEXT, "attcat", "rollout")
        with page.expect_download() as saved:
            page.locator("#save-page").click()
        assert saved.value.suggested_filename == "The-compiler-infers-the-types-of-all-exp.html"
        saved.value.save_as(tmp_path / "page.html")
        with page.expect_download() as saved:
            page.locator("#save").click()
        assert saved.value.suggested_filename.endswith(".json")
        saved.value.save_as(tmp_path / "data.json")
        shown = page.locator("#view .sentence").inner_text()
        # The file opens without the server, and shows the same.
        offline = page.context.browser.new_page()
        offline.goto((tmp_path / "page.html").as_uri())
        offline.locator("[data-ready]").wait_for()
        assert offline.locator(".sentence").inner_text() == shown
        assert offline.locator("nav.tabs button", has_text="Inside the model").count() == 1
        offline.close()

    browse(scenario)
    data = json.loads((tmp_path / "data.json").read_text())
    assert set(data["explanations"]) == {"attcat", "rollout"}
    assert data["consensus"]["methods"] == ["attcat", "rollout"]


def test_earlier_results_are_one_line_above_the_result_and_a_phone_shows_everything(browse):
    def scenario(page):
        page.locator("#file").set_input_files({"name": "my.txt", "mimeType": "text/plain", "buffer": TEXT.encode()})
        page.locator("#file-name", has_text="“my.txt” loaded").wait_for()
        assert page.locator("#methods").is_hidden()
        assert page.locator("#chosen").inner_text()
        open_settings(page)
        assert page.locator("#methods h3").first.inner_text() == "Recommended"
        explained(page, TEXT, "attcat")
        assert page.locator("h1:visible").all_inner_texts()[0].lower() == "sightline"
        assert page.locator("#view .brand").is_hidden()
        page.set_viewport_size({"width": 1400, "height": 900})
        history, view = page.locator("#history").bounding_box(), page.locator("#view").bounding_box()
        assert history["y"] + history["height"] <= view["y"]
        assert history["height"] < 40
        assert view["width"] > 1340
        assert page.locator("#view .details").is_visible()
        page.locator("#history > summary").click()
        assert page.locator("#earlier [aria-current=page]").count() == 1
        page.set_viewport_size({"width": 375, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        for selector in ("#save-page", "#save", "#view .text", "#view [data-control=strongest]", "#earlier a"):
            assert page.locator(selector).first.is_visible(), selector
        page.locator("#view .text .unit", has_text="compiler").first.click()
        assert page.locator("#view [data-section=card] h2").inner_text() == "compiler"
        page.locator("#asking > summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert page.locator("#explain").is_visible()

    browse(scenario)


def test_a_decoder_offers_continuations_and_shows_the_words_behind_each_word(writing, tmp_path):
    def scenario(page):
        page.locator("#text").fill("the old mill\n")
        page.locator("#continuation").fill(" hello world")
        choose(page, "attcat", "alti")
        page.locator("#explain").click()
        frame = page.frame_locator("#view iframe")
        frame.locator("body[data-ready=true]").wait_for()
        assert frame.locator("#prompt").text_content() == "the old mill"
        frame.locator("#continuation button", has_text="world").click()
        frame.locator("#status", has_text="“world” had a probability of").wait_for()
        assert frame.locator("#list tbody tr").count() > 0
        with page.expect_download() as saved:
            page.locator("#save-page").click()
        saved.value.save_as(tmp_path / "page.html")

        page.reload()
        frame.locator("body[data-ready=true]").wait_for()
        page.locator("#history > summary").click()
        page.locator("#earlier a", has_text="the old mill").click()
        page.locator("#asking > summary").click()
        page.locator("#continuation").fill("")
        page.locator("#max-new-tokens").fill("3")
        before = page.locator("#view").get_attribute("data-job")
        page.locator("#explain").click()
        wait_until(page, f"![undefined, {json.dumps(before)}].includes(document.querySelector('#view').dataset.job)")
        frame.locator("h2", has_text="Generated").wait_for()

    browse_page_of(writing)(scenario)
    assert "The words behind the given continuation" in (tmp_path / "page.html").read_text()


def test_a_classifier_offers_no_continuation(browse):
    browse(lambda page: page.locator("#continuing").wait_for(state="hidden"))


def test_the_home_page_opens_with_a_text_and_one_button(browse):
    def scenario(page):
        assert page.locator("#corpus").is_hidden()
        assert page.locator("#asking button:visible").all_inner_texts() == ["Explain"]
        page.locator("#explain").click()
        page.locator("#view .sightline[data-ready=true]").wait_for()
        assert page.locator("#earlier a").count() == 1

    browse(scenario)
