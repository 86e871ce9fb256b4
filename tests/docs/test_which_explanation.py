"""The guide "Which explanation should I believe?": its Python runs, and its tables are the measured ones."""

from __future__ import annotations

import re

import pytest

from tools.docs_evaluation import BEGIN, END, METHODS, METRICS, PAGE, PARAGRAPHS, paragraphs


@pytest.mark.slow
def test_the_guide_s_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    exec("\n".join(blocks), {})  # one block goes on where the other ends
    assert (tmp_path / "out" / "records.parquet").exists()
    assert "random does not change when every weight is random" in capsys.readouterr().out


def test_the_tables_name_every_method_and_metric_and_how_they_were_measured():
    measured = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    for method in METHODS:
        assert len(re.findall(rf"^\| `{method}` \|", measured, flags=re.MULTILINE)) == 2, method
    assert all(f" {metric} " in measured for metric in METRICS)
    assert re.search(r"Measured with Sightline \S+ on 2 cores, CPU, seed 0", measured)


def test_the_documents_are_paragraphs_of_every_text_about_the_subjects():
    by_text = paragraphs(PARAGRAPHS)
    assert {name: len(examples) for name, examples in by_text.items()} == dict.fromkeys(by_text, PARAGRAPHS)
    assert len(by_text) == 3
    assert all(len(example.text.split()) >= 60 for examples in by_text.values() for example in examples)
