"""Take the screenshots in docs/images/: `python -m tools.screenshots` (needs Chromium and Playwright).

Everything is shown on a built-in document with the built-in model, or on what the guide to a planted cue makes, so
that anybody can make the pictures again. With names (`python -m tools.screenshots server-form page-dark`) only these
pictures are taken.
"""

from __future__ import annotations

import base64
import io
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from sightline import builtin
from sightline.api.load import load
from sightline.corpus.runner import run
from sightline.results.report import Report
from sightline.serve.process import WorkerProcess
from sightline.serve.server import Server, address, bound_socket
from sightline.settings.serving import ServerLimits
from sightline.view.corpus_page import write_corpus_page
from sightline.view.page.html import script, style

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "images"
COLOURS = 256
PATIENCE = 600_000
"""Milliseconds to wait for an explanation on a busy machine."""
LARGEST = 150_000
"""Bytes a picture may have: a repository keeps every version of it."""
METHODS = ("attnlrp", "alti", "rollout")
"""The default methods, and one of attention alone."""


@dataclass(frozen=True)
class Shot:
    """One picture: the state of the page in its address, and the window."""

    name: str
    address: str
    width: int = 1280
    height: int = 720
    dark: bool = False


SHOTS = (
    Shot("page-text", ""),
    Shot("page-word", "unit=143"),
    Shot("page-side-by-side", "compare=attention&unit=143&links=none"),
    Shot("page-sentences", "level=sentence"),
    Shot("page-outline", "layout=outline"),
    Shot("page-change", "view=change"),
    Shot("page-compare", "view=compare"),
    Shot("page-inside", "view=inside"),
    Shot("page-head", "view=inside&head=2,1"),
    Shot("page-dark", "unit=143", dark=True),
    Shot("page-phone", "", width=390, height=800),
)
NOTEBOOK_SHOTS = (Shot("page-notebook", "", width=950, height=716),)
"""The widget in a page of the width of a cell."""
SERVER_SHOTS = (
    Shot("server-form", "form"),
    Shot("server-result", "result"),
    Shot("server-dark", "form", dark=True),
    Shot("server-phone", "form", width=390, height=800),
    Shot("server-progress", "progress"),
)
"""`address` names the step that is shown; the explanation whose progress is shown keeps running, so it comes last."""
CORPUS_SHOTS = (
    Shot("corpus-words", "words"),
    Shot("corpus-wrong", "wrong"),
    Shot("corpus-change", "change"),
)


def document() -> str:
    """The built-in document that all pictures show."""
    return builtin.documents()["learned_compilers"].read_text(encoding="utf-8")


@cache
def report() -> Report:
    """The report on one built-in document by a few methods, for both classes."""
    model = load()
    made = model.report(document(), METHODS)
    other = model.explain(made.encoding, METHODS[0], target="programming languages")
    return Report.of([*made, other], inside=made.inside)


@contextmanager
def server() -> Iterator[str]:
    """The address of a server with the built-in model, while it is needed."""
    settings, answering = ServerLimits(), threading.Event()
    with bound_socket("127.0.0.1", 0) as listening:
        worker = WorkerProcess(settings).start()
        running = Server(settings, worker, "127.0.0.1", answering.set)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            answering.wait()
            yield address("127.0.0.1", listening)
        finally:
            running.should_exit = True
            thread.join()
            worker.stop()


def take(browser: Any, shot: Shot, prepare: Callable[[Any, Shot], None]) -> Path:
    """Bring a page into one state and take its picture."""
    window = {"width": shot.width, "height": shot.height}
    page = browser.new_page(viewport=window, color_scheme="dark" if shot.dark else "light")
    prepare(page, shot)
    page.wait_for_timeout(500)  # the strip and the maps are drawn a moment after the text
    path = FOLDER / f"{shot.name}.png"
    picture = Image.open(io.BytesIO(page.screenshot()))
    page.close()
    # A palette is a third of the size, and the difference is not visible on text and flat colours.
    small = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    return path


def report_shots(browser: Any, shots: Collection[Shot]) -> list[Path]:
    """Take the pictures of the report."""
    with tempfile.TemporaryDirectory() as folder:
        page_file = Path(folder) / "page.html"
        report().to_html(page_file)

        def prepare(page: Any, shot: Shot) -> None:
            page.goto(f"{page_file.as_uri()}#{shot.address}")
            page.wait_for_selector("[data-ready]")

        return [take(browser, shot, prepare) for shot in shots]


HOST = """async ([source, style, payload, arrays]) => {
    document.head.append(Object.assign(document.createElement('style'), { textContent: style }));
    const { default: view } = await import(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));
    const buffers = Object.fromEntries(Object.entries(arrays).map(([name, text]) => {
        const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
        return [name, new DataView(bytes.buffer)];
    }));
    const el = document.body.appendChild(document.createElement('div'));
    view.render({ model: { get: (name) => (name === 'payload' ? payload : buffers) }, el });
}"""


def notebook_shots(browser: Any, shots: Collection[Shot]) -> list[Path]:
    """Take the picture of the widget with a word selected, drawn by its module as a notebook does."""
    widget = report().show()
    arrays = {name: base64.b64encode(data).decode() for name, data in widget.arrays.items()}

    def prepare(page: Any, shot: Shot) -> None:
        page.set_content("<!doctype html>")
        page.evaluate(HOST, [script(), style(), widget.payload, arrays])
        page.wait_for_selector("[data-ready]")
        page.locator(".text .unit", has_text="models").first.click()

    return [take(browser, shot, prepare) for shot in shots]


def server_shots(browser: Any, shots: Collection[Shot]) -> list[Path]:
    """Take the pictures of the server's page: the form, filled in; the progress; the result."""
    with server() as base:

        def prepare(page: Any, shot: Shot) -> None:
            page.set_default_timeout(PATIENCE)
            page.goto(base)
            page.locator("#explain:enabled").wait_for()
            page.locator("#text").fill(document())
            if shot.address == "progress":
                page.locator("#methods input[value=occlusion]").check()
            if shot.address != "form":
                page.locator("#explain").click()
            if shot.address == "progress":
                page.locator("#stage", has_text="Occlusion: ").wait_for()
            if shot.address == "result":
                page.locator("#view [data-ready=true]").wait_for()

        return [take(browser, shot, prepare) for shot in shots]


def planted_cue(folder: Path) -> Path:
    """Follow the guide to a planted cue in a folder; return the index of the corpus page."""
    guide = (DOCS / "guides" / "planted-cue.md").read_text(encoding="utf-8")
    with chdir(folder):
        exec("\n".join(re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)), {})
        store = run("corpus.csv", load("letters"), methods=["occlusion"], check=True, out="explained")
        return write_corpus_page(store, folder / "page")


def corpus_shots(browser: Any, shots: Collection[Shot]) -> list[Path]:
    """Take the pictures of the corpus page and of a document that was opened from it."""
    with tempfile.TemporaryDirectory() as folder:
        index = planted_cue(Path(folder))

        def prepare(page: Any, shot: Shot) -> None:
            page.goto(index.as_uri())
            page.wait_for_selector("[data-ready]")
            if shot.address == "words":
                return
            page.locator("[name=outcome]").select_option("false")
            page.locator("#words button", has_text="ticket").first.click()
            if shot.address == "change":
                page.goto(f"{page.locator('#list a').first.evaluate('link => link.href')}#view=change")
                page.wait_for_selector("[data-ready]")

        return [take(browser, shot, prepare) for shot in shots]


def main() -> int:
    """Write all pictures, or those named; returns 1 if one of them is too large."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    kinds = (
        (report_shots, SHOTS),
        (notebook_shots, NOTEBOOK_SHOTS),
        (corpus_shots, CORPUS_SHOTS),
        (server_shots, SERVER_SHOTS),
    )
    wanted = set(sys.argv[1:]) or {shot.name for _, shots in kinds for shot in shots}
    with sync_playwright() as driver:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        paths: list[Path] = []
        for taken, shots in kinds:
            chosen = [shot for shot in shots if shot.name in wanted]
            paths += taken(browser, chosen) if chosen else []
        browser.close()
    for path in paths:
        print(f"{path.relative_to(FOLDER.parents[1])}: {path.stat().st_size:,} bytes")
    return int(any(path.stat().st_size > LARGEST for path in paths))


# The server starts its worker as a new process, which reads this file again.
if __name__ == "__main__":
    sys.exit(main())
