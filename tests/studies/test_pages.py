"""The pages of docs/studies: short, with a verdict on every claim and the printed tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.view.frames import markdown
from sightline_studies import STUDIES

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


@pytest.mark.parametrize("name", STUDIES)
def test_the_list_of_pages_names_each_of_them(name):
    assert f"]({name}.md)" in (PAGES / "README.md").read_text(encoding="utf-8")
