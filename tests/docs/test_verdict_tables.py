"""The tool that measures verdicts: it continues where it stopped, and its page counts what it measured."""

from __future__ import annotations

import json

from tools import verdict_tables


def test_documents_are_measured_once_and_counted_in_halves(tmp_path, monkeypatch):
    results, page = tmp_path / "rules.jsonl", tmp_path / "page.md"
    monkeypatch.setattr(verdict_tables, "RULES", ("any",))
    command = ["rules", str(results), "--words", "14", "--documents", "2", "--orders", "1"]
    verdict_tables.main(command)
    first = results.read_text(encoding="utf-8")
    rows = [json.loads(line) for line in first.splitlines()]
    assert [row["document"] for row in rows] == [0, 1]
    assert set(rows[0]["right"]) == set(verdict_tables.METHODS)
    assert {len(answers) for answers in rows[1]["wrong"].values()} == {1}
    verdict_tables.main(command)
    assert results.read_text(encoding="utf-8") == first

    verdict_tables.main(["write", str(results), "--page", str(page)])
    text = page.read_text(encoding="utf-8")
    assert "## Rule “any”, 14 words" in text
    (line,) = [line for line in text.splitlines() if line.startswith("| `attnlrp` |")]
    hits = [row["right"]["attnlrp"]["matters"] == "yes" for row in rows]
    assert f"| {sum(hits)} of 2 (" in line
    assert line.endswith(f"| {int(hits[0])} of 1 | {int(hits[1])} of 1 |")


def test_texts_are_the_test_texts_within_the_lengths_in_an_order_of_the_seed(tmp_path):
    data = tmp_path / "texts.jsonl"
    rows = [{"text": "word " * size, "split": "train" if size == 9 else "test"} for size in range(1, 12)]
    data.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    texts = verdict_tables.read_texts(data, 8, 10, 5, 1)
    assert [len(text.split()) for text in texts] == [5, 5]
    assert len(verdict_tables.read_texts(data, 1, 20, None, 1)) == 10
