"""Saved explanations, reports and evaluations: valid ones, damaged in their JSON, columns, arrays or bytes."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sightline.evaluation import Evaluation
from sightline.results.continuation import ContinuationExplanation
from sightline.results.explanation import Explanation
from sightline.results.report import Report
from tests.evaluation.test_result import sample
from tests.fuzz.mutations import damage_bytes, damage_json, odd_value
from tests.sample_explanations import check_of, encoding, explanation, smallest_set_of
from tests.view.sample_inside import sample_inside

_DTYPES = ("<f2", "<f4", "<f8", "S999999999", "O", "<U9", "<i8", "|b1", "V8", "<c16", "datetime64[s]", "<f16", "")


CONTINUATION = "continuation.json"


def _continuation(scores: Any) -> ContinuationExplanation:
    """The last three tokens of a text, each explained from those before it."""
    encoded = encoding()
    prompt = len(encoded) - 3
    rows = [explanation(encoded.select(np.arange(length)), scores[:length]) for length in range(prompt, len(encoded))]
    return ContinuationExplanation(tuple(rows), encoded, prompt, np.array([0.1, 0.2, 0.3]))


class SavedFiles:
    """`load`, and everything that a loaded result is asked for: words, tables, pages, and saving it again."""

    def prepare(self, workspace: Path) -> None:
        encoded = encoding(pair="The mill is old.")
        facts: dict[str, Any] = {
            "checks": {"change": 0.1, "converged": True},
            "options": {"k": [1, 2]},
            "provenance": {"model": "x"},
        }
        scores = np.random.default_rng(0).standard_normal((3, len(encoded))).astype(np.float32)
        full = explanation(encoded, scores.sum(axis=0), layers=scores, layer_kind="additive", **facts)
        full = replace(full, check=check_of(full, 0, 1, smallest_set=smallest_set_of(full, 0, 1)))
        self.files = {name: workspace / name for name in ("a.json", "a.parquet", "a.zip", "evaluation", CONTINUATION)}
        full.save(self.files["a.json"])
        full.save(self.files["a.parquet"])
        Report({"attcat": full, "rollout": {"PL": explanation(encoded)}}, inside=sample_inside(encoded)).save(
            self.files["a.zip"]
        )
        sample().save(self.files["evaluation"])
        _continuation(scores[0]).save(self.files[CONTINUATION])
        for path in self.files.values():
            _use(path)

    def build(self, random: Random, folder: Path, canary: Path) -> object:
        name = random.choices(list(self.files), weights=(5, 3, 4, 4, 3))[0]
        path = folder / name
        if name == "evaluation":
            shutil.copytree(self.files[name], path)
        else:
            shutil.copyfile(self.files[name], path)
        for _ in range(random.randint(1, 2)):
            if random.random() < 0.1:
                target = random.choice(list(path.iterdir())) if path.is_dir() else path
                if random.random() < 0.2:
                    target.unlink()
                    target.symlink_to(random.choice(("/dev/zero", "/dev/full", str(target), "/nowhere", "/etc/passwd")))
                    break  # a device must not be read to damage it further
                target.write_bytes(damage_bytes(random, target.read_bytes()))
            else:
                try:
                    _DAMAGE[path.suffix](random, path)
                except (
                    OSError,
                    ValueError,
                    KeyError,
                    RecursionError,
                    zlib.error,
                    zipfile.BadZipFile,
                    pa.ArrowException,
                ):
                    continue  # damaged too much already
        return path

    def open(self, case: object, folder: Path) -> str:
        assert isinstance(case, Path)
        return _use(case)


def _use(path: Path) -> str:
    """Load a file and use what it holds in every way; return a word for it."""
    if path.suffix == "":
        loaded = Evaluation.load(path)
        assert len(repr(loaded)) > 0
        loaded.to_frame()
        loaded.failures()
        for metric in loaded.metrics:
            loaded.paired(metric, permutations=100)
            for method in loaded.methods:
                loaded.curves(method, metric)
        return "evaluation"
    if path.name == CONTINUATION:
        continuation = ContinuationExplanation.load(path)
        assert continuation.matrix.shape == (len(continuation), len(continuation.tokens))
        assert "</html>" in continuation.to_html()
        for level in ("token", "word", "sentence"):
            continuation.to_frame(level)
        assert repr(continuation)
        json.dumps(continuation.to_dict(), allow_nan=False)
        return "continuation"
    results: list[Explanation] = []
    if path.suffix == ".zip":
        report = Report.load(path)
        assert "</html>" in report.to_html()
        json.dumps(report.to_dict(), allow_nan=False)
        results = list(report)
    else:
        results = [Explanation.load(path)]
    for result in results:
        assert np.isfinite(result.scores).all()
        assert len(result.scores) == len(result.tokens) == len(result.encoding)
        for level in ("token", "word", "sentence", "paragraph"):
            result.to_frame(level)
        assert repr(result)
        assert result.verdict.level
        assert "</html>" in result.to_html()
        again = path.with_name("again.json")
        result.save(again)
        back = Explanation.load(again)
        again.unlink()
        assert back.scores.tobytes() == result.scores.tobytes(), "saving again changes the scores"
    return "loaded"


def _damage_json_file(random: Random, path: Path) -> None:
    content = json.loads(path.read_text())
    path.write_bytes(_damage_record(random, content))


def _damage_record(random: Random, content: Any) -> bytes:
    """Damage a record anywhere, or where it describes sizes and types."""
    if random.random() < 0.3 and isinstance(content, dict):
        change = random.choice((_change_type, _change_version, _change_list, _change_place))
        change(random, content)
        if random.random() < 0.7:
            return json.dumps(content).encode()
    return damage_json(random, content)


def _change_type(random: Random, content: dict[str, Any]) -> None:
    content["scores_dtype"] = random.choice(_DTYPES)
    prediction = content.get("prediction")
    for record in (content.get("layers"), prediction.get("logits") if isinstance(prediction, dict) else None):
        if isinstance(record, dict):
            record["dtype"] = random.choice(_DTYPES)
            record["shape"] = random.choice(
                [[0], [2**62, 2**62], [-1], [1, 2, 3], "x", [len(record.get("values", ""))]]
            )


def _change_version(random: Random, content: dict[str, Any]) -> None:
    content["version"] = random.choice([2, 99, "99", 1.5, [2], None, True, -1, 0, 10**400, {}])


def _change_list(random: Random, content: dict[str, Any]) -> None:
    """Change the length of a list, or one of its values by a plausible amount."""
    lists = [value for value in _containers(content) if isinstance(value, list) and value]
    if not lists:
        return
    chosen = random.choice(lists)
    place = random.randrange(len(chosen))
    action = random.randrange(4)
    if action == 0:
        chosen.pop(place)
    elif action == 1:
        chosen.insert(place, chosen[place])
    elif action == 2 and isinstance(chosen[place], int | float):
        chosen[place] = chosen[place] + random.choice((-1, 1, 5, 1000, 1e300, 0.5))
    else:
        chosen[place] = odd_value(random)


def _change_place(random: Random, content: dict[str, Any]) -> None:
    """Move a word, a token or the target."""
    encoded = content.get("encoding")
    if isinstance(encoded, dict) and isinstance(encoded.get("words"), list) and encoded["words"]:
        word = random.choice(encoded["words"])
        if isinstance(word, list) and word:  # an earlier change may have taken parts of it away
            word[random.randrange(len(word))] = random.choice((-1, 0, 1, 2, 50, 10**6))
    if isinstance(content.get("target"), dict):
        content["target"][random.choice(("position", "span", "index", "contrast"))] = random.choice(
            (0, 5, -1, 10**6, [0, 3], [5, 1], [0, 10**9], None)
        )


def _containers(content: Any) -> list[Any]:
    places, waiting = [], [content]
    while waiting and len(places) < 500:
        value = waiting.pop(0)
        places.append(value)
        inner = value.values() if isinstance(value, dict) else value
        waiting += [entry for entry in inner if isinstance(entry, dict | list)]
    return places


def _damage_parquet(random: Random, path: Path) -> None:
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata or {})
    action = random.randrange(6)
    if action < 3 and b"sightline" in metadata:
        metadata[b"sightline"] = _damage_record(random, json.loads(metadata[b"sightline"]))
        table = table.replace_schema_metadata(metadata)
    else:
        table = _damage_table(random, table).replace_schema_metadata(metadata)
    pq.write_table(table, path)


def _damage_table(random: Random, table: Any) -> Any:
    """Change one column: its values, its type or its name."""
    place = random.randrange(max(1, table.num_columns))
    name = table.column_names[place]
    values = table.column(name).to_pylist()
    action = random.randrange(7)
    if action == 0:
        return table.drop_columns([name])
    if action == 1:
        return table.rename_columns([column + ("_" if column == name else "") for column in table.column_names])
    if action == 2:
        return table.slice(0, random.randrange(table.num_rows + 1))
    if action == 3:
        return table.set_column(place, name, pa.array([str(value) for value in values]))
    if action == 4 and values:
        values[random.randrange(len(values))] = None
        return table.set_column(place, name, pa.array(values, table.column(name).type))
    if action == 5 and pa.types.is_floating(table.column(name).type) and values:
        values[random.randrange(len(values))] = random.choice((float("nan"), float("inf"), 1e308, -0.0))
        return table.set_column(place, name, pa.array(values, table.column(name).type))
    if pa.types.is_integer(table.column(name).type) and values:
        values[random.randrange(len(values))] = random.choice((-1, 0, 7, 10**6, 2**62))
        return table.set_column(place, name, pa.array(values, table.column(name).type))
    return table.append_column(name, table.column(name))


def _damage_report(random: Random, path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice([*parts] + ["report.json"] * len(parts))
    action = random.randrange(8)
    if name == "report.json":
        content = json.loads(parts[name])
        if action < 3 and isinstance(content, dict) and isinstance(content.get("inside"), dict):
            content["inside"][random.choice(("tokens", "layers", "heads", "k", "relations"))] = odd_value(random)
            parts[name] = json.dumps(content).encode()
        else:
            parts[name] = _damage_record(random, content)
    elif action == 0:
        del parts[name]
    elif action == 1:
        parts[name] = damage_bytes(random, parts[name])
    else:
        try:
            array = np.load(io.BytesIO(parts[name]))
        except (ValueError, EOFError, MemoryError):  # damaged before, in an earlier round of the same case
            parts[name] = damage_bytes(random, parts[name])
        else:
            parts[name] = _array_bytes(random, array)
    method = random.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(path, "w", method) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)


def _array_bytes(random: Random, array: Any) -> bytes:
    """Return another array, or the header of one that is much larger."""
    buffer = io.BytesIO()
    action = random.randrange(5)
    if action == 0:
        array = array.ravel()
    elif action == 1:
        array = array.astype(random.choice((np.float16, np.int8, np.complex64, "S3", np.float64)))
    elif action == 2 and array.size:
        array = array.copy()
        array.flat[random.randrange(array.size)] = random.choice((-1, 10**6, 0)) if array.dtype.kind == "i" else np.nan
    elif action == 3:
        array = array[:0]
    np.save(buffer, array)
    raw = buffer.getvalue()
    if action == 4:
        raw = raw.replace(b"'shape': (", b"'shape': (9999999, ", 1)
    return raw


def _damage_evaluation(random: Random, path: Path) -> None:
    if random.random() < 0.6:
        _damage_json_file(random, path / "evaluation.json")
    else:
        file = path / random.choice(("records.parquet", "curves.parquet"))
        pq.write_table(_damage_table(random, pq.read_table(file)), file)


_DAMAGE: dict[str, Callable[[Random, Path], None]] = {
    ".json": _damage_json_file,
    ".parquet": _damage_parquet,
    ".zip": _damage_report,
    "": _damage_evaluation,
}
