"""What mkdocs needs beside docs/ to build the site (`make site`): hooks, named in mkdocs.yml.

Three kinds of pages are not in docs/: the files at the root of the repository that readers look for, the notebooks,
and the pages of the gallery, which `python -m tools.gallery` writes into build/gallery. They are added when the site is
built. A link to any other file outside docs/, to source code for example, becomes plain text.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tools.docs_api import anchor

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "build" / "gallery"
ROOT_PAGES = {
    "CHANGELOG.md": "project/CHANGELOG.md",
    "CONTRIBUTING.md": "project/CONTRIBUTING.md",
    "SECURITY.md": "project/SECURITY.md",
    "src/sightline/builtin/model/MODEL_CARD.md": "project/MODEL_CARD.md",
    "README.md": "index.md",
}
"""Files of the repository that have a place on the site; the site has a front page of its own."""
_COPIES = {source: target for source, target in ROOT_PAGES.items() if source != "README.md"}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def slug(heading: str, _separator: str) -> str:
    """Return the anchor of a heading, the same that the repository's own pages link to."""
    return anchor(heading)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    for source, target in _COPIES.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text(encoding="utf-8")))
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        content = notebook_page(json.loads(notebook.read_text(encoding="utf-8")), notebook.name)
        files.append(File.generated(config, f"tutorials/{notebook.stem}.md", content=content))
        files.append(File.generated(config, f"tutorials/{notebook.name}", abs_src_path=str(notebook)))
    for page in sorted(GALLERY.glob("*.html")):
        files.append(File.generated(config, f"gallery/{page.name}", abs_src_path=str(page)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at the places that files have on the site."""
    place = page.file.src_uri
    origin = next((source for source, target in _COPIES.items() if target == place), f"docs/{place}")
    if place.startswith("tutorials/"):
        return markdown
    return _LINK.sub(lambda match: _relinked(match, origin, place), markdown)


def _relinked(link: re.Match[str], origin: str, place: str) -> str:
    picture, text, target = link.groups()
    path, _, section = target.partition("#")
    if not path or "://" in target or target.startswith("mailto:"):
        return link[0]
    source = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    inside = source.removeprefix("docs/") if source.startswith("docs/") else ROOT_PAGES.get(source)
    if inside is None:
        return text
    address = posixpath.relpath(inside, posixpath.dirname(place) or ".")
    return f"{picture}[{text}]({address}{'#' + section if section else ''})"


def notebook_page(notebook: dict[str, Any], name: str) -> str:
    """Return a notebook as a page: its text, its code, and the outputs that are text."""
    parts = [f"[Download this notebook]({name}){{ .md-button }}"]
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            text = "".join(output.get("text") or output.get("data", {}).get("text/plain") or [])
            if text.strip():
                parts.append(f"```text\n{text.rstrip()}\n```")
    # The title comes first: mkdocs takes it from there.
    if len(parts) > 1:
        parts[0], parts[1] = parts[1], parts[0]
    return "\n\n".join(parts) + "\n"
