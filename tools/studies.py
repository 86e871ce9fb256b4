"""Copy the page of a study that was run into docs/studies: `python -m tools.studies FOLDER… [--without FIGURE…]`.

Each folder is the `--out` of one `sightline study`, named like the study. Its Markdown becomes docs/studies/NAME.md,
its figures docs/studies/figures/NAME-*.png. Stored results and tables for other programs stay where they are. Figures
that show texts which may not be passed on are left out by name.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "studies"
FIGURE = re.compile(r"### [^\n]*\n\n!\[[^\n]*\]\(figures/(?P<name>[\w-]+)\.png\)\n\n[^\n]*\n\n?")


def copy_study(folder: Path, without: Sequence[str] = ()) -> Path:
    """Copy one study, without the figures of some names, and return its page."""
    study = folder.resolve().name
    text = (folder / "study.md").read_text(encoding="utf-8")
    text = FIGURE.sub(lambda match: "" if match["name"] in without else match[0], text)
    figures = PAGES / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for old in figures.glob(f"{study}-*.png"):
        old.unlink()
    for name in re.findall(r"\]\(figures/([\w-]+\.png)\)", text):
        shutil.copyfile(folder / "figures" / name, figures / f"{study}-{name}")
    page = PAGES / f"{study}.md"
    page.write_text(text.replace("](figures/", f"](figures/{study}-"), encoding="utf-8")
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Copy pages of studies into docs/studies.")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--without", nargs="*", default=[], metavar="FIGURE")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        print(copy_study(folder, arguments.without))
