"""Stores of corpus runs: a valid one, damaged in its manifest, plan, columns, values, bytes and kinds of files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import sightline as sl
from sightline.view.corpus_page import CorpusPages, write_corpus_page
from tests.corpus.conftest import LABELS, rows_of_data
from tests.fuzz.mutations import HOSTILE_STRINGS, damage_bytes, damage_json, odd_text, odd_value
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

_BOMB = "expands"
_VIEWS = ("documents", "words", "tokens", "explanations", "heads", "similarity", "errors", "rows", "texts", "results")
_NUMBERS = (0, -1, 1, 3, 7, 99, 127, 10**9, 2**31 - 1, -(2**31), 2**62, -(2**63))
_FLOATS = (float("nan"), float("inf"), -float("inf"), 5.0, -1e-9, 1e300, 1e-320, -0.0, 1.0)
_SQL = ("x' OR '1'='1", '"; DROP VIEW documents; --', 'attcat" FROM tokens --', "document", "Document")


class Stores:
    """`sl.open_run`, queries, reports, the page and what the server renders."""

    def prepare(self, workspace: Path) -> None:
        torch.manual_seed(0)
        model = sl.load(tiny_module("bert", dtype=torch.float32, id2label=LABELS), tokenizer=wordpiece())
        self.stores = [workspace / "predicted", workspace / "all"]
        rows = rows_of_data(16)
        sl.run(rows, model, ["attcat"], out=self.stores[0], measures=["heads"], unit_documents=8)
        settings: dict[str, Any] = {"target": "all", "check": True, "unit_documents": 8}
        sl.run(rows, model, ["attcat", "rollout"], out=self.stores[1], **settings)
        for store in self.stores:
            _query(sl.open_run(store))

    def build(self, random: Random, folder: Path, canary: Path) -> object:
        path = folder / "store"
        shutil.copytree(random.choice(self.stores), path)
        for _ in range(random.randint(1, 2)):
            try:
                random.choices(_DAMAGE, weights=(5, 5, 3, 1))[0](random, path, canary)
            except (OSError, ValueError, LookupError, TypeError, RecursionError, pa.ArrowException):
                continue  # damaged too much already
            if (path / _BOMB).exists():
                (path / _BOMB).unlink()
                break  # reading it again to damage it further would expand it here
        return path, random.randrange(2**32)

    def open(self, case: object, folder: Path) -> str:
        assert isinstance(case, tuple)
        path, seed = case
        page = folder / "page"
        try:
            return _use(path, Random(seed), page)
        finally:
            shutil.rmtree(page, ignore_errors=True)


def _use(path: Path, random: Random, page: Path) -> str:
    """Read a store in one of the ways in which people do."""
    way = random.choices(("query", "reports", "page", "server"), weights=(6, 3, 1, 1))[0]
    if way == "query":
        _query(sl.open_run(path))
    elif way == "reports":
        _reports(sl.open_run(path))
    elif way == "page":
        _page(sl.open_run(path), page)
    else:
        _serve(path)
    return way


def _query(store: sl.Store) -> None:
    assert repr(store)
    for view in _VIEWS:
        store.sql(f"SELECT * FROM {view}")
    documents = store.documents()
    probability = documents["probability"].dropna()
    assert ((probability >= 0) & (probability <= 1.0001)).all()
    store.heads()
    store.similarity()
    # Scores of documents that were explained for their predictions are put together by class.
    labels = (
        list(store.labels) if store.manifest["settings"]["target"] == "all" else [*documents["prediction"].dropna()]
    )
    frame = store.aggregate("type", class_=labels[0] if labels else None, min_documents=1)
    assert np.isfinite(frame["score"]).all()
    store.tokens()
    store.words()
    store.errors()


def _reports(store: sl.Store) -> None:
    for row in store.documents("status = 'done'")["row"][:2]:
        report = store.document(int(row))
        for explanation in report:
            assert np.isfinite(explanation.scores).all()
            assert explanation.verdict.level
        assert "</html>" in report.to_html()


def _page(store: sl.Store, page: Path) -> None:
    index = write_corpus_page(store, page, documents=1)
    text = index.read_text(encoding="utf-8")
    assert "</html>" in text
    assert "<script>alert(1)" not in text


def _serve(path: Path) -> None:
    pages = CorpusPages(str(path), "/corpus")
    assert "</html>" in pages.render_index()
    assert "</html>" in pages.render_document(0)


def _parquet_files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*.parquet") if file.is_file() and not file.is_symlink())


def _damage_manifest(random: Random, path: Path, canary: Path) -> None:
    manifest = path / "manifest.json"
    content = json.loads(manifest.read_bytes())
    if random.random() < 0.2:
        content["settings"]["methods"][0] = f"{random.choice(_SQL)}{random.choice(HOSTILE_STRINGS)}"
    if random.random() < 0.2:
        content["model"]["labels"][0] = random.choice((*HOSTILE_STRINGS, *_SQL))
    manifest.write_bytes(damage_json(random, content))


def _damage_values(random: Random, path: Path, canary: Path) -> None:
    """Write a table again with one value, column or type changed; sometimes one that expands to gigabytes."""
    file = random.choice(_parquet_files(path))
    table = pq.read_table(file)
    place = random.randrange(table.num_columns)
    name = table.schema.names[place]
    action = random.randrange(12)
    if action == 0:
        table = table.remove_column(place)
    elif action == 1:
        other = random.choice(table.schema.names)
        names = {name: other, other: name}
        table = table.rename_columns([names.get(column, column) for column in table.schema.names])
    elif action == 2:
        table = table.append_column(random.choice((name, "extra", *HOSTILE_STRINGS[:5])), table[name])
    elif action == 3:
        table = table.set_column(place, name, table[name].cast(random.choice((pa.string(), pa.float64(), pa.int8()))))
    elif action == 4:
        table = random.choice((table[:0], pa.concat_tables([table] * 3), table.slice(1)))
    elif action == 5:
        table = _bomb(random, table, place)
        (path / _BOMB).touch()
    else:
        values = table[name].to_pylist()
        for _ in range(random.randint(1, 3)):
            values[random.randrange(len(values))] = _odd_entry(random, table.schema.field(name).type)
        table = table.set_column(place, name, pa.array(values, table.schema.field(name).type))
    pq.write_table(table, file, compression=random.choice(("zstd", "none", "gzip")), store_schema=random.random() < 0.8)


def _odd_entry(random: Random, kind: pa.DataType) -> Any:
    if random.random() < 0.15:
        return None
    if pa.types.is_list(kind):
        return [_odd_entry(random, kind.value_type) for _ in range(random.choice((0, 1, 3, 40)))]
    if pa.types.is_boolean(kind):
        return random.random() < 0.5
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return max(-most, min(most - 1, random.choice(_NUMBERS)))
    if pa.types.is_floating(kind):
        return random.choice(_FLOATS)
    text = random.choice(
        (
            odd_text(random),
            json.dumps(odd_value(random)),
            "[" * 5_000,
            '{"a":' * 90 + "1" + "}" * 90,
            *_SQL,
            *HOSTILE_STRINGS,
        )
    )
    return text.encode(errors="replace").decode()


def _bomb(random: Random, table: pa.Table, place: int) -> pa.Table:
    """Return a table with millions of rows, or with one long string many times; small on disk."""
    if random.random() < 0.5:
        return table.take(pa.array([0] * random.choice((100_000, 1_000_000))))
    count = 2_000
    table = table.take(pa.array([0] * count))
    long = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["x" * 2_000_000]))
    return table.set_column(place, table.schema.names[place], long)


def _damage_bytes_of_file(random: Random, path: Path, canary: Path) -> None:
    file = random.choice(_parquet_files(path))
    raw = file.read_bytes()
    if random.random() < 0.5:  # the footer, where sizes and types are
        cut = random.randrange(max(1, len(raw) - 600), len(raw))
        file.write_bytes(raw[:cut] + damage_bytes(random, raw[cut:]))
    else:
        file.write_bytes(damage_bytes(random, raw))


def _damage_kind(random: Random, path: Path, canary: Path) -> None:
    """Replace a file or a folder by nothing, a pipe, a folder or a link."""
    file = random.choice([*_parquet_files(path), path / "manifest.json", path / "tokens", path / "plan"])
    if file.is_dir():
        file.rename(path / "moved")
    else:
        file.unlink()
    action = random.randrange(4)
    if action == 0:
        os.mkfifo(file)
    elif action == 1:
        file.mkdir()
    elif action == 2:
        targets = ("/dev/zero", "/dev/full", "/nowhere", "/etc/passwd", "/", str(file), str(path / "moved"))
        file.symlink_to(random.choice(targets))


_DAMAGE = (_damage_manifest, _damage_values, _damage_bytes_of_file, _damage_kind)
