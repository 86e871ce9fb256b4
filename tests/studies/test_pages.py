"""The pages of docs/studies: short, with a verdict on every claim and the printed tables."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from sightline.view.frames import markdown
from sightline_studies import STUDIES
from sightline_studies.tables import read_published
from tools.studies import list_claims

PUBLISHED = Path(__file__).parents[2] / "src" / "sightline_studies" / "published"
TABLES = sorted(path.stem for path in PUBLISHED.glob("*.csv") if not path.stem.endswith("_facts"))
KEYS = {
    *("method", "data", "model", "against", "source", "table", "layer", "name", "encoder", "adversary", "projection"),
    *("importance_of", "measure", "scoring", "attention_layer", "scaled", "masked", "scope", "side", "rank"),
}
"""Columns of the printed tables that name a row; the others hold what is printed."""
PRINTED = re.compile("DistilBERT|BERT|RoBERTa")
"""Columns of printed values that are named after a model of the paper."""
PAGES = Path(__file__).parents[2] / "docs" / "studies"
MOST_WORDS = 1200


def page(name):
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_is_short_before_its_appendix(name):
    own, appendix, _ = page(name).partition("\n## Appendix\n")
    assert appendix
    words = [word for line in own.splitlines() if not line.startswith("|") for word in line.split()]
    assert len(words) <= MOST_WORDS


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_lists_every_claim_and_says_what_its_size_cannot_judge(name):
    study, text = STUDIES[name], page(name)
    for claim in study.claims:
        assert f"| {markdown(claim.name)} | {markdown(claim.where)} |" in text
        assert markdown(claim.sentence) in text
    assert any(markdown(limit) in text for limit in study.cannot_judge.values())


def plain(text):
    """A number, if the text is one; else the text as it was before Markdown."""
    text = re.sub(r"\\(.)", r"\1", text).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()
    try:
        return float(text.replace("−", "-"))
    except ValueError:
        return text


def printed_on(text):
    """Counts of the values in columns of printed ones, over all tables of a page."""
    values = Counter()
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines())
        for row in rows:
            for name, cell in zip(head, row, strict=True):
                if PRINTED.fullmatch(name) or "published" in name or "printed" in name:
                    values.update(plain(part) for part in cell.split(" ± "))
    return values


@pytest.mark.parametrize("table", TABLES)
def test_every_value_of_a_printed_table_stands_on_its_page(table):
    rows = read_published(table)
    wanted = Counter(plain(value) for row in rows for key, value in row.items() if key not in KEYS and value)
    assert len(wanted) > 5
    assert not wanted - printed_on(page(table.partition("_")[0]))


@pytest.mark.parametrize("name", STUDIES)
def test_the_list_of_pages_names_each_of_them(name):
    assert f"]({name}.md)" in (PAGES / "README.md").read_text(encoding="utf-8")


def test_the_list_of_claims_is_that_of_the_pages():
    listed = (PAGES / "claims.md").read_text(encoding="utf-8")
    assert listed == list_claims()
    assert listed.count("\n| [") == sum(len(study.claims) for study in STUDIES.values())
