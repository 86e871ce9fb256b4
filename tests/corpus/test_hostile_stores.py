"""A store from a stranger is checked before it is used: files, sizes, columns, values, and names that reach SQL."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sightline as sl
from sightline.corpus.corpus_summary import summarise
from sightline.corpus.manifest import describe_run
from sightline.errors import InputError, OptionError
from sightline.view.corpus_page import write_corpus_page
from tests.corpus.conftest import rows_of_data

TABLES = ("rows", "texts", "results", "tokens", "explanations", "heads", "similarity", "errors", "documents", "words")


@pytest.fixture
def copy(store, tmp_path) -> Path:
    """A copy of the store that may be damaged."""
    return Path(shutil.copytree(store.path, tmp_path / "store"))


def read_all(folder: Path) -> None:
    """Read everything that a store holds, in every way."""
    store = sl.open_run(folder)
    for table in TABLES:
        store.sql(f"SELECT * FROM {table}")
    for row in store.documents("status = 'done'")["row"]:
        store.document(int(row))
    summarise(store)


def files_of(folder: Path, table: str) -> list[Path]:
    return sorted((folder / ("plan/rows" if table == "rows" else table)).glob("*.parquet"))


def change(folder: Path, table: str, edit: Callable[[pa.Table], pa.Table]) -> None:
    """Write the first file of a table again."""
    path = files_of(folder, table)[0]
    pq.write_table(edit(pq.read_table(path)), path)


def put(name: str, value: object) -> Callable[[pa.Table], pa.Table]:
    """Return a change of the last value of a column."""

    def edit(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[-1] = value
        return table.set_column(
            table.schema.get_field_index(name), name, pa.array(values, table.schema.field(name).type)
        )

    return edit


def edit_manifest(folder: Path, place: str, value: object) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    *outer, last = place.split(".")
    inner = manifest
    for name in outer:
        inner = inner[name]
    inner[last] = value
    if value is None:
        del inner[last]
    path.write_text(json.dumps(manifest))


def test_the_copy_is_read(copy):
    read_all(copy)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("version", None, "'version' is missing"),
        ("version", "1", "version must be a valid integer"),
        ("model", [], "model must be an object"),
        ("model.labels", ["AI", 1], r"model.labels\[1\] must be a valid string"),
        ("model.task", "cooking", "model.task must be one of"),
        ("settings.methods", [], "settings.methods"),
        ("settings.methods", ["Document", "rollout"], "settings.methods"),
        ("settings.target", {"a": 1}, "settings.target"),
        ("versions", [], "versions must have at least 1 entries"),
        ("plan", {"units": 1}, "'plan.hash' is missing"),
        ("plan.blocks", 10**9, "plan.blocks must be less than or equal to 1000000"),
        ("plan.blocks", 25, "must be at most its 24 rows"),
        ("plan.rows", -1, "plan.rows must be"),
        ("plan.hash", "0" * 16, "was changed"),
        ("selection", {}, "'selection.text' is missing"),
    ],
)
def test_a_damaged_manifest_is_refused_with_the_entry(copy, place, value, says):
    edit_manifest(copy, place, value)
    with pytest.raises(InputError, match=says):
        read_all(copy)


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"format": "sightline-corpus", "version": NaN}', b"\xff\xfe", b""]
)
def test_a_manifest_that_is_not_plain_json_is_refused(copy, content, model, data_file):
    (copy / "manifest.json").write_bytes(content)
    with pytest.raises(InputError, match="is damaged: "):
        sl.open_run(copy)
    with pytest.raises(InputError, match="is damaged: "):
        sl.run(data_file, model, ["attcat"], out=copy)


@pytest.mark.parametrize("name", ["manifest.json", "plan/units.parquet", "plan/rows/000000.parquet", "tokens", "texts"])
@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
def test_only_regular_files_inside_the_folder_are_read(copy, tmp_path, name, kind):
    path = copy / name if "." in name else files_of(copy, name)[0]
    (tmp_path / "outside").write_bytes(path.read_bytes())
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "outside")
    with pytest.raises(InputError, match="leads out of the folder|is not a regular file"):
        read_all(copy)


def test_a_folder_that_leads_out_of_the_store_is_not_read(copy, tmp_path):
    (copy / "tokens").rename(tmp_path / "elsewhere")
    (copy / "tokens").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="leads out of the folder"):
        read_all(copy)


VALUES = {
    "a probability of 5": ("documents", put("probability", 5.0), "'probability' must be from 0 to 1"),
    "a probability that is NaN": ("documents", put("probability", float("nan")), "not finite"),
    "probabilities above 1": ("documents", put("probabilities", [0.0, 0.5, 5.0]), "'probabilities' must be"),
    "too few probabilities": ("documents", put("probabilities", [0.5]), "prediction.probabilities has the shape"),
    "a class that the model lacks": ("documents", put("class", 99), "'class' must be from 0 to 2"),
    "infinite logits": ("documents", put("logits", [0.0, float("inf"), 0.0]), "not finite"),
    "an offset beyond every text": ("tokens", put("end", 10**9), "'end' must be from 0 to"),
    "an offset beyond its text": ("tokens", put("end", 60), "is special and must have no place|is not at characters"),
    "a score that is NaN": ("tokens", put("rollout", float("nan")), "'rollout' has values that are not finite"),
    "a missing score": ("tokens", put("rollout", None), "'rollout' has missing values"),
    "a segment": ("tokens", put("segment", 7), "'segment' must be from -1 to 1"),
    "a column of ours": (
        "explanations",
        put("column", "document"),
        "'column' has a value that does not belong to the run",
    ),
    "a method": ("explanations", put("method", "x' OR 1=1"), "'method' has a value that does not belong to the run"),
    "a verdict": ("explanations", put("verdict", "<b>"), "'verdict' has a value"),
    "checks": ("explanations", put("checks", '{"converged": "S9"}'), "checks converged must be"),
    "nested checks": ("explanations", put("checks", "[" * 90_000), "nested more than"),
    "a target": ("explanations", put("target", '{"label": 3}'), "target"),
    "a digest": ("texts", put("digest", "../../etc"), "'digest' has a value in an unexpected format"),
    "a document": ("texts", put("document", -1), "'document' must not be negative"),
    "a missing text": ("texts", put("text", None), "'text' has missing values"),
    "a head": ("heads", put("importance", float("inf")), "not finite"),
    "a similarity": ("similarity", put("value", float("nan")), "not finite"),
    "a row": ("rows", put("row", -5), "'row' must not be negative"),
    "the same document twice": ("documents", lambda table: pa.concat_tables([table, table]), "same 'document'"),
    "a renamed column": (
        "tokens",
        lambda table: table.rename_columns({"start": "Start"}),
        "no scores 'Start'|no column",
    ),
    "a column twice": (
        "texts",
        lambda table: table.append_column("text", table["text"]),
        "two columns|Multiple matches",
    ),
    "a missing column": ("texts", lambda table: table.drop_columns("pair"), "no column 'pair'"),
    "another column": ("heads", lambda table: table.append_column("x", table["head"]), "unknown column 'x'"),
    "another type": (
        "heads",
        lambda table: table.set_column(1, "layer", pc.cast(table["layer"], pa.string())),
        "'layer' has the wrong type",
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_no_run_writes_are_refused(copy, name):
    table, edit, says = VALUES[name]
    change(copy, table, edit)
    with pytest.raises(InputError, match=says):
        read_all(copy)


def test_a_name_of_a_unit_is_no_path(copy):
    units = pq.read_table(copy / "plan/units.parquet")
    pq.write_table(put("unit", "../../../etc/passwd")(units), copy / "plan/units.parquet")
    with pytest.raises(InputError, match="'unit' has a value in an unexpected format"):
        read_all(copy)


def test_a_small_file_does_not_become_gigabytes(copy):
    path = files_of(copy, "texts")[0]
    texts = pq.read_table(path)
    count = 1_000
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["x" * 4_800_000]))
    bomb = pa.table(
        {
            "document": pa.array(range(count, 2 * count), pa.int64()),
            "digest": pa.array([texts["digest"][0].as_py()] * count),
            "text": repeated,
            "pair": pa.nulls(count, pa.string()),
        }
    )
    pq.write_table(bomb, path, compression="zstd")
    assert path.stat().st_size < 20_000
    edit_manifest(copy, "plan.rows", 2 * count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="too large for its size on disk"):
        sl.open_run(copy).sql("SELECT text FROM texts")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


def test_a_file_of_millions_of_equal_rows_is_refused(copy):
    path = files_of(copy, "heads")[0]
    count = 9_000_000
    values = {"document": pa.int64(), "layer": pa.int16(), "head": pa.int16(), "importance": pa.float64()}
    pq.write_table(pa.table({name: pa.repeat(pa.scalar(0, kind), count) for name, kind in values.items()}), path)
    with pytest.raises(InputError, match="9,000,000 rows are too many"):
        sl.open_run(copy).heads()


def test_a_footer_that_contradicts_itself_is_refused_before_it_ends_the_process(copy):
    path = files_of(copy, "documents")[0]
    optional, required = b"\x25\x02\x18\x05words", b"\x25\x00\x18\x05words"  # how the schema begins a column
    content = path.read_bytes()
    assert content.count(optional) == 1
    path.write_bytes(content.replace(optional, required))
    with pytest.raises(InputError, match=f"{path.name}' is damaged: .* histogram size mismatch"):
        sl.open_run(copy).documents()


def test_a_document_without_scores_of_a_method_is_refused(copy):
    for path in files_of(copy, "explanations"):
        table = pq.read_table(path)
        pq.write_table(table.filter(pc.not_equal(table["method"], "attcat")), path)
    store = sl.open_run(copy)
    row = int(store.documents("status = 'done'")["row"][0])
    with pytest.raises(InputError, match="is damaged: it has no scores of 'attcat'"):
        store.document(row)


def test_a_loop_of_links_is_refused(copy):
    shutil.rmtree(copy / "plan")
    (copy / "plan").symlink_to(copy / "plan")
    with pytest.raises(InputError, match="plan"):
        read_all(copy)


def test_words_that_are_said_to_occur_nowhere_have_finite_scores(copy):
    for path in files_of(copy, "tokens"):
        table = pq.read_table(path)
        nowhere = pa.array([0] * len(table), pa.int32())
        pq.write_table(table.set_column(table.schema.get_field_index("instances"), "instances", nowhere), path)
    store = sl.open_run(copy)
    assert np.isfinite(store.aggregate("type", "rollout", min_documents=1)["score"]).all()


def test_a_method_name_is_no_sql(copy):
    evil = "x' UNION SELECT row, 'injected', 0 FROM rows --"
    edit_manifest(copy, "settings.methods", [evil, "rollout"])
    for path in files_of(copy, "tokens"):
        table = pq.read_table(path)
        names = [name.replace("attcat:", f"{evil}:") for name in table.schema.names]
        pq.write_table(table.rename_columns(names), path)
    for path in files_of(copy, "explanations"):
        table = pq.read_table(path)
        for name in ("method", "column"):
            replaced = pc.replace_substring(table[name], "attcat", evil)
            table = table.set_column(table.schema.get_field_index(name), name, replaced)
        pq.write_table(table, path)
    for path in files_of(copy, "similarity"):
        table = pq.read_table(path)
        place = table.schema.get_field_index("method")
        pq.write_table(table.set_column(place, "method", pc.replace_substring(table["method"], "attcat", evil)), path)
    summary = summarise(sl.open_run(copy))
    assert "injected" not in set(summary.documents["verdict"])
    assert summary.documents["verdict"].notna().any()


def test_a_page_of_a_damaged_store_is_refused_and_leaves_nothing(copy, tmp_path):
    change(copy, "documents", put("probability", 5.0))
    with pytest.raises(InputError, match="probability"):
        write_corpus_page(sl.open_run(copy), tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_a_wrong_query_is_still_the_fault_of_the_query(store):
    with pytest.raises(OptionError, match="The query cannot be answered"):
        store.sql("SELECT nothing FROM documents")


def test_a_run_is_not_resumed_from_damaged_texts(model, tmp_path):
    out = tmp_path / "run"
    rows = rows_of_data()
    settings = {"methods": ["attcat"], "measures": [], "unit_documents": 4}
    sl.run(rows, model, out=out, **settings)
    for path in (out / "documents").glob("*.parquet"):
        path.unlink()
    change(out, "texts", put("digest", "zz"))
    with pytest.raises(InputError, match="'digest' has a value in an unexpected format"):
        sl.run(rows, model, out=out, **settings)


def test_what_a_run_writes_is_what_is_checked(model, store):
    assert set(describe_run(model, {}, sl.Selection(), sl.corpus.settings.RunSettings())) == set(store.manifest)
