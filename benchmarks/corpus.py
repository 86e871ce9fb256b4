"""Corpus runs: throughput against bare loops, size on disk, start of a finished run, aggregates over many words.

    python -m benchmarks.corpus aggregate --rows 10000000
    python -m benchmarks.corpus throughput --documents 200
    python -m benchmarks.corpus size
    python -m benchmarks.corpus memory --documents 10000

Throughput compares, in one run, two processes that only explain documents in a loop with a run of two workers, which
also plans, writes tables and restarts. Times need an idle machine; the ratios of one run are valid on a busy one, too.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import sightline as sl
from sightline.corpus import tables
from sightline.corpus.compute import UnitTables, explain_document, score_columns
from sightline.corpus.folder import RunFolder, write_table
from sightline.corpus.plan import PlannedDocument
from sightline.corpus.settings import RunSettings
from sightline.memory import release_memory, resident_bytes

WORDS = [
    "neural",
    "network",
    "learns",
    "typed",
    "program",
    "compiler",
    "data",
    "model",
    "gradient",
    "proof",
    "lambda",
    "value",
    "error",
    "loss",
    "tree",
]


def texts(count: int, words: int = 40) -> list[str]:
    """Return different texts of one length."""
    generator = np.random.default_rng(0)
    return [f"{number} " + " ".join(generator.choice(WORDS, words)) for number in range(count)]


def explain_all(documents: list[str]) -> None:
    """Explain documents in a loop and keep nothing."""
    import torch

    torch.set_num_threads(1)
    model = sl.load()
    settings = RunSettings(methods=("attcat",), measures=())
    columns = tuple(score_columns(settings, model.labels).values())
    for number, text in enumerate(documents):
        explain_document(model, PlannedDocument(number, "", text, None), settings, UnitTables(columns))


def throughput(count: int) -> None:
    """Compare two bare loops with a run of two workers."""
    documents = texts(count)
    context = mp.get_context("spawn")
    start = time.perf_counter()
    loops = [context.Process(target=explain_all, args=(documents[half::2],)) for half in (0, 1)]
    for process in loops:
        process.start()
    for process in loops:
        process.join()
    bare = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        sl.run(documents, None, ["attcat"], out=Path(folder) / "run", workers=2, measures=[])
        local = time.perf_counter() - start
    print(f"{count} documents: two loops {bare:.1f} s, run {local:.1f} s, ratio of rates {bare / local:.2f}")


def size() -> None:
    """Print the bytes of a document of 4,096 tokens with five methods."""
    model = sl.load()
    generator = np.random.default_rng(0)
    vocabulary = [token for token in model.tokenizer.get_vocab() if token.isalpha()]
    text = " ".join(generator.choice(vocabulary, 4500))
    methods = ["attcat", "rollout", "input_x_gradient", "grads", "attgrads"]
    with tempfile.TemporaryDirectory() as folder:
        store = sl.run([text], model, methods, out=Path(folder) / "run", measures=["received", "counts", "heads"])
        tokens = store.documents()["tokens"][0]
        sizes = {
            file.parent.name: file.stat().st_size for file in store.path.rglob("*.parquet") if "plan" not in file.parts
        }
    print(f"{tokens} tokens, {len(methods)} methods: {sum(sizes.values()) / 1000:.0f} KB", sizes)


def aggregate(rows: int) -> None:
    """Time aggregates over a synthetic store of `words` words of one token each."""
    per_document, per_unit = 500, 100
    generator = np.random.default_rng(0)
    types = np.array([f"word{number}" for number in range(20_000)], dtype=object)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "run"
        store = sl.run(["one text"], sl.load(), ["attcat"], out=out, measures=[], target=0)
        folder = RunFolder(out)
        (unit,) = folder.finished_units()
        schema = tables.token_schema(["attcat"])
        document_row = sl.corpus.open(out).sql("SELECT * FROM results", arrow=True)
        folder.remove_unit(unit)
        for number in range(rows // (per_document * per_unit)):
            first = number * per_unit
            documents = np.arange(first, first + per_unit)
            owner = np.repeat(documents, per_document)
            drawn = types[np.minimum(generator.zipf(1.2, len(owner)), len(types)) - 1]
            columns = {
                "document": owner,
                "position": np.tile(np.arange(per_document), per_unit),
                "word": np.tile(np.arange(per_document), per_unit),
                "type": drawn,
                "first_of_word": np.ones(len(owner), dtype=bool),
                "first_of_type": np.ones(len(owner), dtype=bool),
                "instances": np.ones(len(owner), dtype=np.int32),
                "attcat": generator.standard_normal(len(owner)).astype(np.float32),
            }
            table = pa.table(
                {
                    field.name: pa.array(columns[field.name]).cast(field.type)
                    if field.name in columns
                    else pa.nulls(len(owner), field.type)
                    for field in schema
                }
            )
            write_table(table, folder.file("tokens", f"{number:06d}-x"))
            repeated = pa.concat_tables([document_row] * per_unit).set_column(0, "document", pa.array(documents))
            write_table(repeated.cast(tables.SCHEMAS["documents"]), folder.file("documents", f"{number:06d}-x"))
            records = [{"row": int(row), "document": int(row), "id": str(row)} for row in documents]
            write_table(tables.table_of(records, tables.ROWS), folder.file("plan/rows", f"{number:06d}"))
        for by in ("type", "word", "position"):
            start = time.perf_counter()
            store = sl.corpus.open(out)
            result = store.aggregate(by, "attcat", rule="mean-all")
            print(f"aggregate by {by} over {rows:,} words: {time.perf_counter() - start:.2f} s, {len(result):,} rows")


def memory(count: int) -> None:
    """Print the resident memory of a worker after each tenth of many short documents."""
    model = sl.load()
    settings = RunSettings(methods=("attcat",), measures=())
    columns = tuple(score_columns(settings, model.labels).values())
    for number, text in enumerate(texts(count), 1):
        explain_document(model, PlannedDocument(number, "", text, None), settings, UnitTables(columns))
        if number % 64 == 0:
            release_memory()
        if number % max(1, count // 10) == 0:
            print(f"{number:,} documents: {resident_bytes() / 2**20:.0f} MB", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["throughput", "size", "aggregate", "memory"])
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--rows", type=int, default=10_000_000)
    chosen = parser.parse_args()
    match chosen.what:
        case "throughput":
            throughput(chosen.documents)
        case "size":
            size()
        case "aggregate":
            aggregate(chosen.rows)
        case "memory":
            memory(chosen.documents)
