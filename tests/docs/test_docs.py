"""The documentation is correct: generated pages are current, links resolve, Python blocks run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tools import docs, docs_api, docs_metrics, docs_models, docs_names, gallery

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ON_THE_SITE = {
    *(ROOT / "docs" / "gallery" / f"{entry.name}.html" for entry in gallery.ENTRIES),
    *(ROOT / "docs" / "tutorials" / f"{notebook.stem}.md" for notebook in (ROOT / "notebooks").glob("*.ipynb")),
}
"""Pages that exist only on the site, made from the notebooks and by `python -m tools.gallery`."""


@pytest.mark.parametrize(
    "tool",
    [docs, docs_api, docs_metrics, docs_models, docs_names],
    ids=["methods", "api", "metrics", "models", "names"],
)
def test_the_generated_pages_are_current(tool):
    assert tool.PAGE.read_text() == tool.page(), "run: python -m tools.docs"


def test_the_api_reference_holds_every_public_name_once():
    page = docs_api.PAGE.read_text()
    headings = re.findall(r"^#{3,4} (\S+)$", page, flags=re.MULTILINE)
    lines = re.findall(r"^- `((?:sl|sightline)\.[\w.]+)", page, flags=re.MULTILINE)
    linked = [f"sl.{room}.{name}" for name, room in re.findall(r"\[`(\w+)`\]\((methods|metrics)\.md", page)]
    assert docs_api.public_names() == set(headings + lines + linked) - docs_api.additional_names()
    assert len(headings) == len(set(headings))


def test_the_api_reference_shows_no_address_path_or_factory():
    assert not re.search(r"0x[0-9a-f]{4}|<(?:object|function|factory|class)|/(?:home|tmp|usr)/", docs_api.page())


def test_every_function_and_class_of_the_api_reference_says_what_it_does():
    without_code = re.sub(r"```.*?```", "", docs_api.PAGE.read_text(), flags=re.DOTALL)
    entries = re.split(r"^#{3,4} ", without_code, flags=re.MULTILINE)[1:]
    assert [heading for heading, _, text in (entry.partition("\n") for entry in entries) if not text.strip()] == []


def test_the_architecture_lists_every_package_in_the_order_of_the_import_contract():
    page = (ROOT / "docs" / "architecture.md").read_text()
    packages = {path.stem for path in (ROOT / "src" / "sightline").iterdir() if not path.name.startswith("_")} - {"py"}
    table = page.split("## The packages")[1].split("\n\n`src/")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    rows = [re.findall(r"`(\w+)(?:\.py|/)`", cell) for cell in cells]
    assert {name for row in rows for name in row} == packages
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    assert [set(row) for row in rows] == [set(re.split(" [:|] ", layer)) for layer in reversed(contract)]


def test_nobody_is_told_to_install_the_package_of_another_project():
    """The name `sightline` on the package index is taken; ours is `sightline-xai`."""
    sources = [*PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "web" / "src").rglob("*.ts"), ROOT / "pyproject.toml"]
    for path in sources:
        assert not re.search(r"pip install[^\n]*\bsightline(?!-xai)\b(?!_xai)|['`\"]sightline\[", path.read_text()), (
            path
        )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_to_files_resolve(path):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        file = (path.parent / target).resolve()
        assert file.exists() or file in ON_THE_SITE, f"{path.name} links to {target}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_to_sections_resolve(path):
    for target, section in re.findall(r"\]\(([^)#:]*\.md|)#([^)]+)\)", path.read_text()):
        page = (path.parent / target if target else path).read_text()
        headings = {docs_api.anchor(heading) for heading in re.findall(r"^#+ (.*)$", page, flags=re.MULTILINE)}
        assert section in headings, f"{path.name} links to {target}#{section}"


def python_of(path: Path) -> str:
    """Return the Python blocks of a page as one program."""
    return "\n".join(re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL))


@pytest.mark.parametrize(
    ("name", "writes"),
    [
        ("README.md", "explanation.json"),
        ("docs/index.md", None),
        ("docs/guides/check-other-scores.md", None),
        ("docs/guides/explain.md", None),
        ("docs/guides/functions.md", "page.html"),
        ("docs/guides/corpus.md", "document.html"),
        ("docs/guides/inspect.md", "heads.svg"),
        ("docs/guides/planted-cue.md", "corpus.csv"),
        ("docs/guides/studies.md", "attcat/index.html"),
        ("docs/guides/tasks.md", None),
    ],
)
def test_the_python_of_a_page_runs(name, writes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(python_of(ROOT / name), {})
    assert writes is None or (tmp_path / writes).exists()


@pytest.mark.parametrize("client", ["mlflow", "wandb"])
def test_the_guide_to_trackers_logs_what_it_makes(client, tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guides/experiment-trackers.md").read_text(), re.DOTALL)
    made, *others = blocks
    (logged,) = (block for block in others if block.startswith(f"import {client}"))
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {}
    exec(made, shown)
    assert (tmp_path / "page.html").exists()
    assert (tmp_path / "report.zip").exists()
    pytest.importorskip(client)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("WANDB_MODE", "offline")
    exec(logged, shown)
    assert [*tmp_path.glob("mlruns/**/page.html"), *tmp_path.glob("wandb/**/*.html")]


def test_the_decoder_guide_finds_the_words_that_decide_agreement_and_pronoun(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {}
    exec(python_of(ROOT / "docs/guides/decoders.md"), shown)
    assert (tmp_path / "generated.html").exists()
    assert (shown["agreement"].prediction.label, shown["strongest"]) == ("is", "key")
    assert shown["pronoun"].top(1)[0].text == "Tom"
    assert shown["written"]["alti"].text == " her dog"
