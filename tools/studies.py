"""Copy pages of studies that were run into docs/studies: `python -m tools.studies [FOLDER…] [--without FIGURE…]`.

Each folder is the `--out` of one `sightline study`, named like the study. Its Markdown becomes docs/studies/NAME.md,
its figures docs/studies/figures/NAME-*.png. The claims of all pages are then listed in docs/studies/claims.md. Stored
results and tables for other programs stay where they are. Figures that show texts which may not be passed on are left
out by name.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
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


def read_table(text: str, title: str) -> list[dict[str, str]]:
    """Return the rows of the table under a title of a page."""
    part = text.partition(f"\n### {title}\n")[2].partition("\n###")[0]
    head, *rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return [dict(zip(head, row, strict=True)) for row in rows[1:]]


def why_open(cases: Sequence[Mapping[str, str]]) -> str:
    """Return why a claim with these cases cannot be told: what its deciding cases show, or why none decides."""
    verdicts = Counter(case["verdict"] for case in cases)
    if verdicts["agrees"] and verdicts["disagrees"]:
        return "cases contradict each other"
    open_cases = [case for case in cases if case["verdict"] == "cannot tell"]
    if open_cases:
        controls = sum(case["artefact"] == "yes" for case in open_cases)
        reasons = {"the interval allows both": len(open_cases) - controls, "the control shows as much": controls}
        return "; ".join(f"{reason} ({number})" for reason, number in reasons.items() if number)
    return "; ".join(dict.fromkeys(case["reason"].partition(" \\(")[0] for case in cases)) or "not measured"


def power_of(claim: Mapping[str, str], cases: Sequence[Mapping[str, str]]) -> str:
    """Return the difference that would have shown: of the deciding cases, or the largest of all if none decides."""
    shown = [case["could show"] for case in cases if case["could show"] != "–"]
    return max(shown, key=float) if claim["could show"] == "–" and shown else claim["could show"]


def list_claims() -> str:
    """Return the table of all claims on the pages: verdict, artefact, the difference that would have shown, reason."""
    columns = ("claim", "where", "verdict", "artefact")
    lines = [
        "# Every claim of the five papers",
        "",
        "The verdicts of all pages, collected by `python -m tools.studies`. could show: the smallest difference that "
        "the sample would have shown. reason: why a claim cannot be told, and in how many cases.",
        "",
        f"| study | {' | '.join(columns)} | could show | reason |",
        f"| :-- |{' :-- |' * len(columns)} --: | :-- |",
    ]
    for page in sorted(path for path in PAGES.glob("*.md") if "\n### Verdicts\n" in path.read_text(encoding="utf-8")):
        text = page.read_text(encoding="utf-8")
        cases = read_table(text, "Published beside measured")
        for claim in read_table(text, "Verdicts"):
            own = [case for case in cases if case["claim"] == claim["claim"]]
            reason = why_open(own) if claim["verdict"] == "cannot tell" else "–"
            cells = [f"[{page.stem}]({page.name})", *(claim[name] for name in columns), power_of(claim, own), reason]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Copy pages of studies into docs/studies.")
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--without", nargs="*", default=[], metavar="FIGURE")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        print(copy_study(folder, arguments.without))
    (PAGES / "claims.md").write_text(list_claims(), encoding="utf-8")
