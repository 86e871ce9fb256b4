"""Copy the page of a study that was run into docs/studies: `python -m tools.studies FOLDER…`.

Each folder is the `--out` of one `sightline study`, named like the study. Its Markdown becomes docs/studies/NAME.md,
its figures docs/studies/figures/NAME-*.png. Stored results and tables for other programs stay where they are.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "studies"


def copy_study(folder: Path) -> Path:
    """Copy one study and return its page."""
    name = folder.resolve().name
    text = (folder / "study.md").read_text(encoding="utf-8")
    figures = PAGES / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for old in figures.glob(f"{name}-*.png"):
        old.unlink()
    for figure in re.findall(r"\]\(figures/([\w-]+\.png)\)", text):
        shutil.copyfile(folder / "figures" / figure, figures / f"{name}-{figure}")
    page = PAGES / f"{name}.md"
    page.write_text(text.replace("](figures/", f"](figures/{name}-"), encoding="utf-8")
    return page


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(copy_study(Path(argument)))
