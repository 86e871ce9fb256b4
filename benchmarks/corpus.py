"""Corpus runs: throughput, memory, bytes on disk, resumption, and aggregates over many words.

- aggregate: data-set tables over a synthetic store of ten million words.
- resume: `run` on a store in which all of 100,000 documents are finished: loading the model, comparing data and
  settings, reading the plan, listing what is finished.
- size: bytes per document of 4,096 tokens with five methods; words are drawn as often as in a text (Zipf's law).
- local, ray: documents per second of a run with two workers. `local` compares them with two processes that call
  `model.explain` on the texts of the same units in a loop and keep nothing; `ray` compares Ray with local workers. The
  sides alternate, and both rates count from the second finished unit to the last: with two workers every unit after
  that was computed in this time. Computing time per document is that of the workers, without loading the model.
- memory: peak of a process that explains 10,000 short documents with a tiny model, after 1,000 and after 9,000.

`--part NAME` runs one of them. Ratios of elapsed times hold on a busy machine as well, if they are repeated.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from transformers import BertConfig, BertForSequenceClassification

import sightline as sl
from benchmarks import harness
from sightline.corpus import tables
from sightline.corpus.plan import read_documents, write_plan
from sightline.corpus.run_storage import RunFolder
from sightline.corpus.runner import RunProgress
from sightline.corpus.settings import RunSettings
from sightline.corpus.streaming import stream_examples

VOCABULARY = ("neural", "network", "learns", "typed", "program", "compiler", "gradient", "proof", "lambda", "tree")
METHODS = ("attcat", "rollout", "input_x_gradient", "grads", "attgrads")
MOST_BYTES = 150_000
AGGREGATE_SECONDS = 3.0
RESUME_SECONDS = 5.0
LARGEST_GROWTH = 1.05
RATE_DOCUMENTS = 4096
"""32 units of 128 documents."""


def texts(count: int, words: int = 40) -> list[str]:
    """Return different texts of one length."""
    generator = np.random.default_rng(0)
    return [f"{number} " + " ".join(generator.choice(VOCABULARY, words)) for number in range(count)]


@dataclass(frozen=True)
class Throughput:
    """How fast two workers were."""

    rate: float
    """Documents per second."""
    cpu: float
    """Computing time per document in milliseconds."""

    @classmethod
    def of(cls, finished: Sequence[tuple[float, int, float]]) -> Throughput:
        """Return the throughput of units that were finished at these times: (time, documents, CPU seconds) each."""
        ordered = sorted(finished)
        documents = sum(count for _, count, _ in ordered[2:])
        cpu = sum(seconds for _, _, seconds in ordered) / sum(count for _, count, _ in ordered)
        return cls(documents / (ordered[-1][0] - ordered[1][0]), 1000 * cpu)


def bare_loop(units: list[list[str]], answers: Queue[list[tuple[float, int, float]]]) -> None:
    """Explain the texts of some units in a loop, keep nothing, and report when each unit was finished."""
    torch.set_num_threads(1)
    model = sl.load()
    finished = []
    for unit in units:
        cpu = time.process_time()
        for text in unit:
            model.explain(text, methods=["attcat"])
        finished.append((time.monotonic(), len(unit), time.process_time() - cpu))
    answers.put(finished)


def measure_loops(documents: list[str]) -> Throughput:
    """Return the throughput of two bare loops together, each over every second unit of the plan."""
    with tempfile.TemporaryDirectory() as name:
        folder = RunFolder(Path(name))
        folder.make()
        plan = write_plan(folder, stream_examples(documents), RunSettings())
        units = [[document.text for document in read_documents(folder, unit)] for unit in plan.units]
    context = mp.get_context("spawn")
    answers: Queue[list[tuple[float, int, float]]] = context.Queue()
    loops = [context.Process(target=bare_loop, args=(units[half::2], answers)) for half in (0, 1)]
    for process in loops:
        process.start()
    finished = answers.get() + answers.get()
    for process in loops:
        process.join()
    return Throughput.of(finished)


def measure_run(documents: list[str], engine: str) -> Throughput:
    """Return the throughput of a run with two workers."""
    finished: list[tuple[float, int, float]] = []
    before = (0, 0.0)

    def record(progress: RunProgress) -> None:
        nonlocal before
        done, cpu = before
        finished.append((time.monotonic(), progress.done - done, progress.cpu_seconds - cpu))
        before = (progress.done, progress.cpu_seconds)

    with tempfile.TemporaryDirectory() as folder:
        sl.run(
            documents,
            None,
            ["attcat"],
            out=Path(folder) / "run",
            engine=engine,
            workers=2,
            measures=[],
            progress=record,
        )
    return Throughput.of(finished)


def compare_throughput(
    report: harness.Report,
    label: str,
    ours: Callable[[list[str]], Throughput],
    reference: Callable[[list[str]], Throughput],
    target: float,
) -> None:
    """Record the medians of the ratios of rates and of computing times, measured alternately."""
    documents = texts(128 if report.quick else RATE_DOCUMENTS)
    rates, times = [], []
    for _ in range(1 if report.quick else report.options.repeats):
        mine, theirs = ours(documents), reference(documents)
        rates.append(mine.rate / theirs.rate)
        times.append(theirs.cpu / mine.cpu)
        report.fact(f"{label}, documents per second", [round(mine.rate, 1), round(theirs.rate, 1)])
        report.fact(f"{label}, CPU milliseconds per document", [round(mine.cpu, 1), round(theirs.cpu, 1)])
    report.fact(f"{label}, ratios of rates", [round(ratio, 2) for ratio in rates])
    report.fact(f"{label}, ratios of computing times", [round(ratio, 2) for ratio in times])
    report.ratio(f"{label}, rates, median", statistics.median(rates), 1.0, target)
    report.ratio(f"{label}, computing times, median", statistics.median(times), 1.0, target)


def local(report: harness.Report) -> None:
    """Compare local workers with bare loops."""
    compare_throughput(report, "local against loops", lambda texts: measure_run(texts, "local"), measure_loops, 0.9)


def ray(report: harness.Report) -> None:
    """Compare Ray with local workers."""
    compare_throughput(
        report,
        "ray against local",
        lambda texts: measure_run(texts, "ray"),
        lambda texts: measure_run(texts, "local"),
        0.8,
    )


def size(report: harness.Report) -> None:
    """Record the bytes of one long document."""
    model = sl.load()
    vocabulary = np.array([token for token in model.tokenizer.get_vocab() if token.isalpha()])
    generator = np.random.default_rng(0)
    length = 600 if report.quick else 4500
    # Words come again as in a text; three documents of this length make a unit.
    documents = [" ".join(vocabulary[generator.zipf(1.3, length) % len(vocabulary)]) for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        store = sl.run(documents, model, METHODS, out=out, measures=["received", "counts", "heads"])
        report.fact("tokens", store.documents()["tokens"].tolist())
        sizes = dict.fromkeys((folder.name for folder in out.iterdir() if folder.is_dir()), 0)
        for file in out.rglob("*.parquet"):
            sizes[file.relative_to(out).parts[0]] += file.stat().st_size // len(documents)
    report.fact("bytes per document by table", sizes)
    report.ratio("150 KB against bytes per document", MOST_BYTES, sum(sizes.values()), 1.0)


def aggregate(report: harness.Report) -> None:
    """Time aggregates over a synthetic store."""
    rows = 200_000 if report.quick else 10_000_000
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "run"
        write_synthetic_words(out, rows)
        for by in ("type", "word", "position"):
            start, cpu = time.perf_counter(), time.process_time()
            result = sl.open_run(out).aggregate(by, "attcat", rule="mean-all")
            elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
            report.fact(f"by {by}: elapsed, CPU seconds, result rows", [round(elapsed, 2), round(cpu, 2), len(result)])
            # Two cores share the work; other programs may hold them meanwhile.
            report.ratio(f"3 s against half the CPU time by {by}", AGGREGATE_SECONDS, cpu / 2, 1.0)


def write_synthetic_words(out: Path, rows: int) -> None:
    """Write a store of documents of 500 words of one token each."""
    per_document, per_unit = 500, 100
    generator = np.random.default_rng(0)
    types = np.array([f"word{number}" for number in range(20_000)], dtype=object)
    sl.run(["one text"], sl.load(), ["attcat"], out=out, measures=[], target=0)
    folder = RunFolder(out)
    (unit,) = folder.finished_units()
    document_row = sl.open_run(out).sql("SELECT * FROM results", arrow=True)
    folder.remove_unit(unit)
    schema = tables.token_schema(["attcat"])
    for number in range(rows // (per_document * per_unit)):
        documents = np.arange(number * per_unit, (number + 1) * per_unit)
        owner = np.repeat(documents, per_document)
        columns = {
            "document": owner,
            "position": np.tile(np.arange(per_document), per_unit),
            "word": np.tile(np.arange(per_document), per_unit),
            "type": types[np.minimum(generator.zipf(1.2, len(owner)), len(types)) - 1],
            "first_of_word": np.ones(len(owner), dtype=bool),
            "first_of_type": np.ones(len(owner), dtype=bool),
            "instances": np.ones(len(owner), dtype=np.int32),
            "attcat": generator.standard_normal(len(owner)).astype(np.float32),
        }
        arrays = {
            field.name: pa.array(columns[field.name]).cast(field.type)
            if field.name in columns
            else pa.nulls(len(owner), field.type)
            for field in schema
        }
        name = f"{number:06d}-x"
        folder.write_table(pa.table(arrays), folder.file("tokens", name))
        repeated = pa.concat_tables([document_row] * per_unit).set_column(0, "document", pa.array(documents))
        folder.write_table(repeated.cast(tables.SCHEMAS["documents"]), folder.file("documents", name))
        records = [{"row": int(row), "document": int(row), "id": str(row)} for row in documents]
        folder.write_table(
            tables.pa.Table.from_pylist(records, schema=tables.ROWS), folder.file("plan/rows", f"{number:06d}")
        )


def resume(report: harness.Report) -> None:
    """Time `run` on a store in which everything is finished."""
    count = 2_000 if report.quick else 100_000
    model = sl.load()
    arguments: dict[str, Any] = {"methods": ["attcat"], "measures": []}
    with tempfile.TemporaryDirectory() as name:
        data, out = Path(name) / "data.jsonl", Path(name) / "run"
        data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(count, 20)))

        def stop(progress: RunProgress) -> None:
            raise StopIteration

        with suppress(StopIteration):
            sl.run(data, model, out=out, progress=stop, **arguments)
        folder = RunFolder(out)
        (unit,) = folder.finished_units()
        result = folder.read_table(folder.file("documents", unit)).slice(0, 1)
        for other in folder.list_units("texts"):
            numbers = pa.array([document.document for document in read_documents(folder, other)])
            copies = pa.concat_tables([result] * len(numbers)).set_column(0, "document", numbers)
            folder.write_table(copies.cast(tables.SCHEMAS["documents"]), folder.file("documents", other))
        start, cpu = time.perf_counter(), time.process_time()
        store = sl.run(data, None, out=out, workers=1, **arguments)
        elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
        assert store.complete
        report.fact("documents, units", [count, len(folder.finished_units())])
    report.fact("elapsed, CPU seconds", [round(elapsed, 2), round(cpu, 2)])
    report.ratio("5 s against the CPU time to resume", RESUME_SECONDS, cpu, 1.0)


def memory(report: harness.Report) -> None:
    """Record the peak memory of a process along a run over many short documents."""
    count = 200 if report.quick else 10_000
    torch.manual_seed(0)
    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    model = sl.load(BertForSequenceClassification(config), tokenizer=sl.load().tokenizer)
    peaks: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as name:

        def record(progress: RunProgress) -> None:
            peaks[progress.done] = harness._peak() / 2**20

        sl.run(texts(count, 20), model, ["attcat"], out=Path(name) / "run", measures=[], progress=record)
    early = max(peak for done, peak in peaks.items() if done <= max(64, count // 10))
    late = max(peak for done, peak in peaks.items() if done <= max(64, 9 * count // 10))
    report.fact("peak MB after a tenth and after nine tenths", [round(early), round(late)])
    report.ratio("1.05 against the growth", LARGEST_GROWTH, late / early, 1.0)


PARTS = {
    "aggregate": aggregate,
    "resume": resume,
    "size": size,
    "local": local,
    "ray": ray,
    "memory": memory,
}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=PARTS, help="run one part; by default all")
    parser.add_argument("--repeats", type=int, default=3, help="how often rates are compared")


def main() -> None:
    """Run all parts, or the chosen one."""
    report = harness.start("corpus", __doc__, _add_options)
    for name, part in PARTS.items():
        if report.options.part in (None, name):
            part(report)
    report.finish()


if __name__ == "__main__":
    main()
