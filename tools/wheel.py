"""Build the wheel, check that the built page is inside, install it into an empty environment and explain a text there.

No extra is installed: this shows that the required packages are enough for one document.

python -m tools.wheel            builds into dist/, checks, installs and runs
python -m tools.wheel --no-run   builds and checks only

A wheel without the committed front-end files would install and then fail on the first page; this check finds that.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
REQUIRED = (
    "sightline/view/static/report.html",
    "sightline/view/static/view.js",
    "sightline/view/static/view.css",
    "sightline/serve/static/index.html",
    "sightline/serve/static/server.js",
    "sightline/serve/static/server.css",
    "sightline/builtin/model/model.safetensors",
    "sightline/py.typed",
)
"""Files that a wheel must contain besides the Python modules; none may be empty except the type marker."""


def build() -> Path:
    """Build the wheel from the checkout and return its path."""
    for old in DIST.glob("sightline_xai-*.whl"):
        old.unlink()
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(DIST), str(ROOT))
    (wheel,) = DIST.glob("sightline_xai-*.whl")
    return wheel


def missing_files(wheel: Path) -> list[str]:
    """Return the required files that are missing or empty in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    return [name for name in REQUIRED if name not in sizes or (sizes[name] == 0 and not name.endswith("py.typed"))]


def run_installed(wheel: Path) -> None:
    """Install the wheel without extras into an empty environment; run `demo` and `explain` outside the checkout."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "venv"
        venv.create(environment, with_pip=True)
        python = str(environment / "bin" / "python")
        constraints = str(ROOT / "constraints.txt")
        _run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, "torch")
        _run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, str(wheel))
        (Path(folder) / "letter.txt").write_text("The delivery was late, and the box was broken.\n")
        for command in (["demo"], ["explain", "letter.txt"]):
            page = Path(folder) / f"{command[0]}.html"
            _run(str(environment / "bin" / "sightline"), *command, "-o", str(page), cwd=folder)
            if "<html" not in page.read_text(encoding="utf-8"):
                raise SystemExit(f"sightline {command[0]} ran from the wheel but wrote no page.")


def _run(*command: str, cwd: str | None = None) -> None:
    subprocess.run(command, check=True, cwd=cwd)


def main() -> None:
    """Build, check and run; exit with a sentence if something is missing."""
    wheel = build()
    missing = missing_files(wheel)
    if missing:
        raise SystemExit(f"{wheel.name} lacks {', '.join(missing)}. Run `make web` and build again.")
    print(f"{wheel.name}: all required files are inside.")
    if "--no-run" not in sys.argv[1:]:
        run_installed(wheel)
        print(f"{wheel.name}: installed into an empty environment without extras; demo and explain wrote their pages.")


if __name__ == "__main__":
    main()
