"""Take the pictures of the page that docs/images/ holds: `python -m tools.screenshots` (needs Chromium and Playwright).

Everything is shown on a built-in document with the built-in model, so that anybody can make the pictures again.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from sightline import builtin
from sightline.analysis.inside import inside
from sightline.model import load
from sightline.view.page import render_page

FOLDER = Path(__file__).parents[1] / "docs" / "images"
COLOURS = 256
LARGEST = 200_000
"""Bytes a picture may have: a repository keeps every version of it."""
METHODS = ("attcat", "gradient", "rollout")


@dataclass(frozen=True)
class Shot:
    """One picture: the state of the page in its address, and the window."""

    name: str
    address: str
    width: int = 1280
    height: int = 720
    dark: bool = False


SHOTS = (
    Shot("page-read", ""),
    Shot("page-word", "unit=112&links=attended"),
    Shot("page-compare", "compare=attention&scale=quantile"),
    Shot("page-sentences", "level=sentence&method=gradient"),
    Shot("page-heads", "view=heads&head=2,1"),
    Shot("page-words", "view=words"),
    Shot("page-layers", "view=layers"),
    Shot("page-dark", "unit=112&links=attended", dark=True),
    Shot("page-phone", "unit=112&links=none", width=390, height=800),
)


def report() -> str:
    """The page of one built-in document by a few methods, for both classes."""
    model = load()
    encoding = model.encode(builtin.documents()["learned_compilers"].read_text(encoding="utf-8"))
    explanations = list(model.explain(encoding, methods=METHODS).values())
    explanations.append(model.explain(encoding, "attcat", target="programming languages"))
    return render_page(explanations, inside=inside(model.trace(encoding)))


def take(browser: Any, page_file: Path, shot: Shot) -> Path:
    """Open the page in one state and take its picture."""
    window = {"width": shot.width, "height": shot.height}
    page = browser.new_page(viewport=window, color_scheme="dark" if shot.dark else "light")
    page.goto(f"{page_file.as_uri()}#{shot.address}")
    page.wait_for_selector("[data-ready]")
    page.wait_for_timeout(500)  # the strip and the maps are drawn a moment after the text
    path = FOLDER / f"{shot.name}.png"
    picture = Image.open(io.BytesIO(page.screenshot()))
    page.close()
    # A palette is a third of the size, and nobody sees the difference on text and flat colours.
    small = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    return path


def main() -> int:
    """Write all pictures; returns 1 if one of them is too large."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder) / "page.html"
        page_file.write_text(report(), encoding="utf-8")
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        paths = [take(browser, page_file, shot) for shot in SHOTS]
        browser.close()
    for path in paths:
        print(f"{path.relative_to(FOLDER.parents[1])}: {path.stat().st_size:,} bytes")
    return int(any(path.stat().st_size > LARGEST for path in paths))


if __name__ == "__main__":
    sys.exit(main())
