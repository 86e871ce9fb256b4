"""Data sets: files of every form with odd cells, odd structure, odd line ends and damaged bytes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sightline.corpus import read_examples
from sightline.files.spreadsheet_cells import restore_text
from sightline.view.frames import to_csv
from tests.fuzz.mutations import HOSTILE_STRINGS, damage_bytes, damage_json, odd_text, odd_value

_FORMS = ("csv", "csv", "tsv", "jsonl", "json", "parquet", "folder")
_FIELDS = (
    "text",
    "text_pair",
    "label",
    "id",
    "split",
    "rationale",
    "rationale_tokens",
    "answer",
    "answers",
    "sentence",
)
_FORMULAS = ("=1+1", "+1", "-1", "@x", "'=1", "\t=1", "=cmd|'/C calc'!A0")


class DataSets:
    """`read_examples`, and what examples are used for: ids and labels in tables."""

    def prepare(self, workspace: Path) -> None:
        from datasets import Dataset, DatasetDict

        rows = [{"id": str(i), "text": "the old miller", "label": i % 2, "split": "test"} for i in range(4)]
        self.folders = [workspace / "one", workspace / "two"]
        Dataset.from_list(rows).save_to_disk(self.folders[0])
        DatasetDict({"train": Dataset.from_list(rows)}).save_to_disk(self.folders[1])
        for folder in self.folders:
            assert len(read_examples(folder)) == 4

    def build(self, random: Random, folder: Path, canary: Path) -> object:
        form = random.choice(_FORMS)
        path = folder / f"data.{form}"
        if form == "folder":
            self._build_folder(random, path)
        else:
            fields = random.sample(_FIELDS, k=random.randint(1, 6))
            if random.random() < 0.9 and "text" not in fields:
                fields[0] = "text"
            if random.random() < 0.1:
                fields.append(random.choice((*HOSTILE_STRINGS, "h" * 200_000)))
            rows = [{field: _cell(random, field) for field in fields} for _ in range(random.randint(0, 6))]
            raw = _WRITERS[form](random, fields, rows)
            if random.random() < 0.3:
                raw = damage_bytes(random, raw)
            if form != "parquet" and random.random() < 0.2:
                path, raw = path.with_name(path.name + ".gz"), gzip.compress(raw)
                raw = damage_bytes(random, raw) if random.random() < 0.2 else raw
            path.write_bytes(raw)
            if random.random() < 0.02:
                path.unlink()
                path.symlink_to(random.choice(("/dev/zero", "/dev/full", str(path), "/nowhere", "/dev/stdin")))
        options: dict[str, Any] = {}
        if random.random() < 0.2:
            options["limit"] = random.choice((1, 2, 100))
        if random.random() < 0.1:
            options[random.choice(("label", "pair", "text"))] = random.choice(_FIELDS)
        if random.random() < 0.1:
            options["split"] = random.choice(("test", "train", "absent"))
        return path, options

    def _build_folder(self, random: Random, path: Path) -> None:
        shutil.copytree(random.choice(self.folders), path)
        files = [file for file in path.rglob("*") if file.is_file()]
        file = random.choice([file for file in files if file.suffix == ".json"] + files)
        if file.suffix == ".json" and random.random() < 0.8:
            content = json.loads(file.read_text())
            if "_data_files" in content and random.random() < 0.3:
                name = random.choice(("../../shared/one/state.json", "/dev/zero", "/etc/passwd", "..", "", "absent"))
                content["_data_files"] = [{"filename": name}]
                file.write_text(json.dumps(content))
            else:
                file.write_bytes(damage_json(random, content))
        else:
            file.write_bytes(damage_bytes(random, file.read_bytes()))

    def open(self, case: object, folder: Path) -> str:
        assert isinstance(case, tuple)
        path, options = case
        examples = read_examples(path, **options)
        ids = [example.id for example in examples]
        assert len(set(ids)) == len(ids), "two examples have one id"
        for example in examples:
            assert isinstance(example.text, str)
            for start, end in (*(example.rationale or ()), *(example.answer or ())):
                assert 0 <= start <= end <= len(example.text), "a span lies outside the text"
        written = to_csv(pd.DataFrame({"text": ids, "label": [str(example.label) for example in examples]}))
        assert not any(
            cell.startswith(("=", "+", "-", "@")) and not set(cell[1:]) <= set("0123456789.eE+-")
            for row in csv.reader(io.StringIO(written))
            for cell in row
        )
        again = folder / "again.csv"
        again.write_bytes(written.encode())
        # White space alone is no id; a line with many NUL characters is no text.
        if ids and not any("\0" in name for name in ids):
            read = [restore_text(str(example.text)) for example in read_examples(again)]
            assert read == ids, "ids change when written and read"
        again.unlink()
        return "read"


def _cell(random: Random, field: str) -> Any:
    kind = random.random()
    if kind < 0.15:
        return odd_value(random)
    if kind < 0.2:
        return random.choice((float("inf"), float("nan"), 10**400, "9" * 5_000, "[" * 3_000, 1e308, -1, "-1", "1.0"))
    if field in ("text", "text_pair", "sentence"):
        return odd_text(random, random.choice((5, 60, 400)))
    if field == "label":
        return random.choice((0, 1, "0", "1.0", "good", -1, True, *_FORMULAS))
    if field in ("id", "split"):
        return random.choice(("a", "test", "train", 7, odd_text(random, 20), *_FORMULAS))
    span = [random.choice((0, 1, 3, -1, 10**9)), random.choice((1, 4, 99, 10**30))]
    if field in ("rationale", "rationale_tokens", "answer"):
        return random.choice(([span], json.dumps([span]), [], span, [[span]], "word"))
    answers = {"text": random.choice((["a"], "a", 5, [None], [])), "answer_start": random.choice(([0], 0, "0", [1.5]))}
    return random.choice((answers, json.dumps(answers), [answers], [[0, "a"]], [span], "a"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _write_table(random: Random, fields: list[str], rows: list[dict[str, Any]], delimiter: str = ",") -> bytes:
    buffer = io.StringIO()
    quoting = random.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL))
    writer = csv.writer(
        buffer, delimiter=delimiter, quoting=quoting, lineterminator=random.choice(("\n", "\r\n", "\r"))
    )
    writer.writerow(fields)
    for row in rows:
        cells = [_text(value) for value in row.values()]
        if random.random() < 0.1:
            cells += ["more"] * random.choice((1, 5))
        writer.writerow(cells)
    encoding = random.choices(("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"), weights=(10, 3, 3, 1, 1))[0]
    return buffer.getvalue().encode(encoding, "surrogatepass")


def _write_json_lines(random: Random, fields: list[str], rows: list[dict[str, Any]]) -> bytes:
    lines = [json.dumps(row, ensure_ascii=random.random() < 0.5) for row in rows]
    if lines and random.random() < 0.3:
        lines[random.randrange(len(lines))] = random.choice(("7", "null", "[]", '"text"', "{", "[" * 50_000, "NaN"))
    return random.choice(("\n", "\r\n", "\r", "\n\n")).join(lines).encode("utf-8", "surrogatepass")


def _write_json_list(random: Random, fields: list[str], rows: list[dict[str, Any]]) -> bytes:
    if random.random() < 0.3:
        return damage_json(random, rows)
    return json.dumps(rows, indent=random.choice((None, 1))).encode()


def _write_parquet(random: Random, fields: list[str], rows: list[dict[str, Any]]) -> bytes:
    columns: dict[str, Any] = {}
    for field in fields:
        try:
            columns[field] = pa.array([row[field] for row in rows])
        except (pa.ArrowException, OverflowError, UnicodeError):
            columns[field] = pa.array([repr(row[field]) for row in rows])
    if random.random() < 0.3:
        kind = random.choice((pa.timestamp("ms"), pa.timestamp("us"), pa.date32(), pa.duration("s"), pa.time64("us")))
        numbers = [random.choice((0, 1, 2**31 - 1, 2**62, -(2**62))) for _ in rows]
        if kind == pa.date32():
            numbers = [min(max(number, -(2**31)), 2**31 - 1) for number in numbers]
        integers = pa.array(numbers, pa.int32() if kind == pa.date32() else pa.int64())
        columns[random.choice(("time", "id", "label", "text"))] = integers.view(kind)
    names = [name.encode("utf-8", "replace").decode() for name in columns]
    buffer = io.BytesIO()
    try:
        pq.write_table(pa.table(list(columns.values()), names=names), buffer)
    except pa.ArrowException:
        pq.write_table(pa.table({"text": ["the old miller"]}), buffer)
    return buffer.getvalue()


_WRITERS = {
    "csv": _write_table,
    "tsv": lambda random, fields, rows: _write_table(random, fields, rows, "\t"),
    "jsonl": _write_json_lines,
    "json": _write_json_list,
    "parquet": _write_parquet,
}
