"""A run computes every document once, continues where it was, and refuses what is not the same run."""

from __future__ import annotations

import fcntl
import gc
import itertools
import json
import os
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from transformers import AutoModelForQuestionAnswering

import sightline as sl
from sightline.corpus.plan import read_documents, write_plan
from sightline.corpus.run_storage import RunFolder
from sightline.corpus.settings import RunSettings
from sightline.corpus.streaming import Row
from sightline.corpus.tables import round_to_bits
from sightline.errors import InputError, OptionError, TargetError, UsageError
from sightline.evaluation.subject import encode_example
from sightline.files.processes import release_memory, resident_bytes
from sightline.text import Example
from sightline.view.corpus_page import write_corpus_page
from tests.corpus.conftest import rows_of_data
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

pytestmark = pytest.mark.slow

METHODS = ["attcat"]


def contents(folder, tables=("tokens", "explanations", "heads", "similarity", "errors", "documents")):
    """Return the rows of all tables, sorted, as text: equal if and only if two runs computed the same."""
    found = {}
    for table in tables:
        rows = [row for file in (folder / table).glob("*.parquet") for row in parquet.read_table(file).to_pylist()]
        found[table] = sorted(json.dumps(row) for row in rows)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory, model, data_file):
    out = tmp_path_factory.mktemp("whole") / "run"
    return sl.run(data_file, model, METHODS, out=out, unit_documents=4)


def test_every_row_is_listed_and_every_text_is_computed_once(whole):
    frame = whole.documents()
    rows = rows_of_data()
    assert frame["id"].tolist() == [row["id"] for row in rows]
    assert whole.sql("SELECT count(*) AS n FROM results")["n"][0] == len(rows) - 3
    twins = frame[frame["id"].isin(["doc-0", "twin", "triplet"])]
    assert twins["document"].nunique() == 1
    assert twins["prediction"].nunique() == 1
    assert frame.set_index("id").loc["empty", "status"] == "failed"
    assert "empty" in frame.set_index("id").loc["empty", "error"]
    assert whole.complete


def test_a_label_is_right_wrong_or_unknown(whole):
    frame = whole.documents("status = 'done'").set_index("id")
    known = frame[frame["label"].isin(["AI", "PL", "other"])]
    assert (known["correct"] == (known["label"] == known["prediction"])).all()
    assert frame[~frame["label"].isin(["AI", "PL", "other"])]["correct"].isna().all()


def test_scores_are_those_of_the_model(whole, model):
    for row in (0, 7):
        text = rows_of_data()[row]["text"]
        report, expected = whole.document(row), model.report(text, METHODS, check=False, inside=False)
        assert report.encoding == expected.encoding
        assert report.first.scores.tolist() == round_to_bits(expected.first.scores).tolist()
        np.testing.assert_allclose(report.first.scores, expected.first.scores, rtol=2**-20)
        assert report.first.target == expected.first.target
        assert report.prediction.label == expected.prediction.label
        assert report.prediction.logits.tolist() == expected.prediction.logits.astype(float).tolist()
        assert report.to_html().startswith("<!doctype html>")


@given(st.floats(-(2.0**100), 2.0**100, width=32).filter(lambda value: value == 0 or abs(value) > 2.0**-100))
def test_rounding_keeps_twenty_significant_bits(value):
    rounded = round_to_bits(np.array([value]))
    assert abs(float(rounded[0]) - value) <= 2**-20 * abs(value)
    assert rounded.tobytes()[0] & 0b1111 == 0
    assert round_to_bits(rounded).tolist() == rounded.tolist()


def test_the_plan_depends_on_data_and_settings_only(whole, model, data_file, tmp_path):
    other = sl.run(data_file, model, METHODS, out=tmp_path / "again", unit_documents=4)
    assert other.manifest["plan"] == whole.manifest["plan"]
    assert contents(other.path) == contents(whole.path)
    sizes = sl.run(data_file, model, METHODS, out=tmp_path / "larger", unit_documents=5).manifest["plan"]
    assert sizes["hash"] != whole.manifest["plan"]["hash"]


def test_a_run_is_resumed_with_its_own_plan_whatever_the_size_of_units(whole, model, data_file):
    again = sl.run(data_file, model, METHODS, out=whole.path, unit_documents=7, unit_characters=100)
    assert again.complete
    assert again.manifest == whole.manifest


@pytest.mark.parametrize(("documents", "units"), [(10, 2), (300, 30), (3000, 32), (4096, 32), (4097, 33)])
def test_a_small_data_set_has_enough_units_for_many_workers(documents, units, tmp_path):
    folder = RunFolder(tmp_path)
    folder.make()
    texts = (Row(number, Example(f"text {number}")) for number in range(documents))
    plan = write_plan(folder, texts, RunSettings())
    assert len(plan.units) == units
    assert plan.documents == documents


def test_the_garbage_collector_is_as_before_after_a_run(model, tmp_path):
    gc.unfreeze()
    with pytest.raises(ZeroDivisionError):
        sl.run(["The mill."], model, METHODS, out=tmp_path / "run", progress=lambda state: 1 / 0)
    assert gc.get_freeze_count() == 0


def test_units_hold_documents_of_similar_length(whole):
    lengths = whole.sql("SELECT document, length(text) AS n FROM texts")
    assert len(lengths) == 22
    folder = RunFolder(whole.path)
    ends = []
    for unit in sorted(folder.finished_units(whole.plan.units)):
        sizes = [len(document.text) for document in read_documents(folder, unit)]
        assert len(sizes) <= 4
        ends.append((min(sizes), max(sizes)))
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ends))


def test_a_stopped_run_resumes_where_it_stopped(whole, model, data_file, tmp_path):
    class StopError(Exception):
        pass

    seen = []

    def stop_after_two(progress):
        seen.append(progress.done)
        if len(seen) == 2:
            raise StopError

    out = tmp_path / "run"
    with pytest.raises(StopError):
        sl.run(data_file, model, METHODS, out=out, unit_documents=4, progress=stop_after_two)
    half = sl.open_run(out)
    assert not half.complete
    assert set(half.documents()["status"]) == {"done", "failed", "pending"}
    with pytest.raises(InputError, match="pending"):
        half.document(int(half.documents("status = 'pending'")["row"].iloc[0]))
    first = {file.name: file.stat().st_mtime_ns for file in (out / "documents").iterdir()}
    sl.run(data_file, model, METHODS, out=out, unit_documents=4)
    assert contents(out) == contents(whole.path)
    assert all((out / "documents" / name).stat().st_mtime_ns == time for name, time in first.items())


@pytest.mark.parametrize("limit", [15, None])
@pytest.mark.parametrize("finish", [True, False], ids=["finished", "stopped"])
def test_a_larger_limit_extends_a_run_to_what_a_fresh_one_computes(model, data_file, tmp_path, limit, finish):
    class StopError(Exception):
        pass

    def stop(progress):
        raise StopError

    def run(out, limit, **settings):
        selection = sl.Selection(limit=limit)
        return sl.run(data_file, model, METHODS, out=out, unit_documents=4, selection=selection, **settings)

    out = tmp_path / "extended"
    with nullcontext() if finish else pytest.raises(StopError):
        run(out, 6, progress=None if finish else stop)
    first = {file.name: file.stat().st_mtime_ns for file in (out / "documents").iterdir()}
    extended, fresh = run(out, limit), run(tmp_path / "fresh", limit)
    assert extended.complete
    assert contents(extended.path) == contents(fresh.path)
    assert extended.documents().equals(fresh.documents())
    predicted = str(fresh.documents("status = 'done'")["prediction"].iloc[0])
    assert extended.aggregate(class_=predicted).equals(fresh.aggregate(class_=predicted))
    assert all((out / "documents" / name).stat().st_mtime_ns == time for name, time in first.items())
    assert run(out, limit).manifest == extended.manifest


@pytest.mark.parametrize("last", ["texts", "plan"])
def test_an_extension_that_was_killed_leaves_the_shorter_run_valid(
    whole, model, data_file, tmp_path, monkeypatch, last
):
    """`last` is the folder of the last file that was written."""

    def run(limit):
        return sl.run(data_file, model, METHODS, out=tmp_path, unit_documents=4, selection=sl.Selection(limit=limit))

    before = run(6)
    write = RunFolder.write_table

    def write_and_die(self, table, name):
        write(self, table, name)
        if name.startswith(last) and "/rows/" not in name:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "write_table", write_and_die)
        with pytest.raises(KeyboardInterrupt):
            run(15)
    assert len(sl.open_run(tmp_path).documents()) == 6
    assert run(6).manifest == before.manifest
    assert contents(run(None).path) == contents(whole.path)


def test_a_run_cannot_be_shortened(whole, model, data_file, tmp_path):
    def run(limit, out=tmp_path, **selection):
        return sl.run(data_file, model, METHODS, out=out, selection=sl.Selection(limit=limit, **selection))

    run(6)
    with pytest.raises(UsageError, match="a run with limit 6, which cannot be shortened to 5. A larger limit extends"):
        run(5)
    with pytest.raises(UsageError, match="a run without a limit, which cannot be shortened to 5"):
        run(5, whole.path)
    with pytest.raises(UsageError, match=r"selection\.limit: 6 before, 9 now; selection\.sample: null before, 3 now"):
        run(9, sample=3)


def test_a_torn_unit_does_not_count(whole, model, data_file, tmp_path):
    out = shutil.copytree(whole.path, tmp_path / "run")
    unit = sorted((out / "documents").iterdir())[0]
    unit.unlink()  # as if the process had died before the last table was written
    table = parquet.read_table(out / "tokens" / unit.name)
    parquet.write_table(table.slice(0, 1), out / "tokens" / unit.name)
    sl.run(data_file, model, METHODS, out=out, unit_documents=4)
    assert contents(out) == contents(whole.path)
    assert not list(out.rglob("*.part"))


def test_a_table_of_others_in_the_folder_of_a_run_is_not_replaced(whole, model, data_file, tmp_path):
    out = shutil.copytree(whole.path, tmp_path / "run")
    unit = sorted((out / "documents").iterdir())[0]
    unit.unlink()
    parquet.write_table(parquet.read_table(out / "tokens" / unit.name).replace_schema_metadata(), tmp_path / "mine")
    for content in (b"mine", (tmp_path / "mine").read_bytes()):
        (out / "tokens" / unit.name).write_bytes(content)
        with pytest.raises(UsageError, match="was not written by Sightline and would be replaced"):
            sl.run(data_file, model, METHODS, out=out, unit_documents=4)
        assert (out / "tokens" / unit.name).read_bytes() == content


@pytest.mark.parametrize("content", [b"my essay", b"\xff\xfe", b"run away\n"])
def test_a_file_of_others_in_the_place_of_a_log_is_not_replaced(content, whole, model, data_file, tmp_path):
    out = shutil.copytree(whole.path, tmp_path / "run")
    unit = sorted((out / "documents").iterdir())[0]
    unit.unlink()
    log = out / "attempts" / f"{unit.stem}.log"
    log.write_bytes(content)
    with pytest.raises(UsageError, match="was not written by Sightline and would be replaced"):
        sl.run(data_file, model, METHODS, out=out, unit_documents=4)
    assert log.read_bytes() == content
    log.write_text("run 0123abcd\nbegin 3\n")  # of an earlier run
    sl.run(data_file, model, METHODS, out=out, unit_documents=4)
    assert contents(out) == contents(whole.path)


@pytest.mark.parametrize(
    "selection", [sl.Selection(where="year >= 2012"), sl.Selection(sample=3, seed=1)], ids=["where", "sample"]
)
def test_a_selection_of_later_rows_is_read_like_any_other(model, data_file, tmp_path, selection):
    store = sl.run(data_file, model, ["attcat"], out=tmp_path / "run", selection=selection)
    done = store.documents("status = 'done'")
    assert max(done["row"]) >= len(done)
    assert [store.document(int(row)).prediction.label for row in done["row"]] == list(done["prediction"])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"methods": ["rollout"]}, "settings.methods"),
        ({"target": "PL"}, "settings.target"),
        ({"check": True}, "settings.check"),
        ({"measures": ["heads"]}, "settings.measures"),
        ({"selection": sl.Selection(sample=5)}, "selection.sample"),
        ({"data": "other"}, "data.sha256"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_another_run_is_refused_with_the_difference(whole, model, data_file, tmp_path, change, named):
    other = tmp_path / "other.jsonl"
    other.write_text(data_file.read_text().replace("river", "brook"))
    data = other if change.pop("data", None) else data_file
    with pytest.raises(UsageError, match=named.replace(".", r"\.")):
        sl.run(data, model, **{"methods": METHODS, "out": whole.path, "unit_documents": 4, **change})


def test_another_model_is_refused(whole, data_file, tmp_path):
    from tests.corpus.conftest import LABELS
    from tests.tiny_models import tiny_module
    from tests.tiny_tokenizers import wordpiece

    tiny_module("bert", seed=3, id2label=LABELS).float().save_pretrained(tmp_path)
    wordpiece().save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"model\.weights"):
        sl.run(data_file, sl.load(tmp_path), METHODS, out=whole.path, unit_documents=4)


def test_a_copy_of_the_data_at_another_time_is_the_same_data(whole, model, data_file, tmp_path):
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(data_file.read_bytes())
    os.utime(copy, ns=(1, 1))
    assert sl.run(copy, model, METHODS, out=whole.path, unit_documents=4).complete


def test_rows_in_memory_run_as_well(whole, model, tmp_path):
    pandas = pytest.importorskip("pandas")
    rows = rows_of_data()
    store = sl.run(pandas.DataFrame(rows), model, METHODS, out=tmp_path / "frame", unit_documents=4)
    assert contents(store.path) == contents(whole.path)
    with pytest.raises(UsageError, match="sha256"):
        sl.run(rows[:-1], model, METHODS, out=tmp_path / "frame", unit_documents=4)


def test_a_second_run_on_the_same_folder_is_refused_and_the_lock_dies_with_its_holder(whole, model, data_file):
    descriptor = os.open(whole.path / ".lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(UsageError, match="Another run is writing"):
        sl.run(data_file, model, METHODS, out=whole.path, unit_documents=4)
    os.close(descriptor)
    sl.run(data_file, model, METHODS, out=whole.path, unit_documents=4)


def test_a_folder_with_other_things_in_it_is_left_alone(model, data_file, tmp_path):
    (tmp_path / "thesis.doc").write_text("precious")
    with pytest.raises(UsageError, match=r"not empty \('thesis.doc'\)"):
        sl.run(data_file, model, METHODS, out=tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="is not the manifest of a run"):
        sl.run(data_file, model, METHODS, out=tmp_path)
    with pytest.raises(UsageError, match="Cannot use"):
        sl.run(data_file, model, METHODS, out=tmp_path / "thesis.doc" / "inside")


def test_a_newer_format_and_a_missing_store_are_refused(whole, tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({**whole.manifest, "version": 99}))
    with pytest.raises(InputError, match="newer Sightline"):
        sl.open_run(tmp_path)
    with pytest.raises(InputError, match="no manifest"):
        sl.open_run(tmp_path / "nowhere")


def test_failed_documents_are_computed_again_on_request(model, tmp_path, monkeypatch):
    import sightline.corpus.compute as computing

    compute = computing.explain_document

    def fail_on_river(model, document, settings, results):
        if "river" in document.text:
            raise RuntimeError("the river is too wide")
        compute(model, document, settings, results)

    texts = ["The river.", "The mill.", "The old world."]
    monkeypatch.setattr(computing, "explain_document", fail_on_river)
    broken = sl.run(texts, model, METHODS, out=tmp_path / "run")
    assert broken.errors()["error"].tolist() == ["RuntimeError: the river is too wide"]
    monkeypatch.undo()
    assert len(sl.run(texts, model, METHODS, out=tmp_path / "run").errors()) == 1
    repaired = sl.run(texts, model, METHODS, out=tmp_path / "run", retry_failed=True)
    assert repaired.errors().empty
    assert contents(repaired.path) == contents(sl.run(texts, model, METHODS, out=tmp_path / "fresh").path)


def test_unusual_texts_run_or_are_recorded(model, tmp_path):
    texts = ["  ", "\u200b", "mill " * 500, "日本語 😀 café", "hello \ud800 world", "mill\x00er", "old\r\nmill"]
    frame = sl.run(texts, model, METHODS, out=tmp_path / "run").documents()
    assert len(frame) == len(texts)
    assert set(frame["status"]) == {"done", "failed"}
    assert frame["error"][frame["status"] == "failed"].str.len().min() > 10
    assert frame["dropped"][2] == 0


def test_a_long_document_is_read_as_in_explain(model, tmp_path):
    text = "The river is old. " * 60
    for truncate in (False, True):
        store = sl.run([text, "The mill."], model, ["attcat"], out=tmp_path / str(truncate), truncate=truncate)
        expected = model.explain(text, "attcat", truncate=truncate)
        rebuilt = store.document(0).first
        assert rebuilt.encoding == expected.encoding
        np.testing.assert_allclose(rebuilt.scores, expected.scores, rtol=1e-5, atol=1e-9)
        # Attention is measured where the document is read at once.
        measured = store.sql("SELECT document FROM tokens WHERE received IS NOT NULL GROUP BY 1 ORDER BY 1")
        assert measured["document"].tolist() == ([0, 1] if truncate else [1])


def test_a_text_with_a_nul_character_is_explained_with_offsets_into_that_text(model, tmp_path):
    text = "The old\0 mill by the e\0cient river."
    path = tmp_path / "data.csv"
    path.write_bytes(f'text,id\n"{text}","a\0b"\n'.encode())
    store = sl.run(path, model, METHODS, out=tmp_path / "run")
    encoding = store.document(0).encoding
    assert encoding == model.encode(text)
    assert [text[word.start : word.end] for word in encoding.words] == [
        *("The", "old", "mill", "by", "the", "e", "cient", "river", ".")
    ]
    assert store.words()["text"].tolist() == [word.text for word in encoding.words]
    assert store.documents()["id"].tolist() == ["a\0b"]
    write_corpus_page(store, tmp_path / "page")
    assert store.document("a\0b").to_html().startswith("<!doctype html>")


def test_rows_that_cannot_be_read_are_recorded_and_the_others_run(model, tmp_path):
    path = tmp_path / "mixed.jsonl"
    path.write_text('{"text": "The mill."}\n{"text": 7}\n')
    store = sl.run(path, model, METHODS, out=tmp_path / "run")
    assert store.documents()["status"].tolist() == ["done", "unreadable"]
    assert "holds 7" in store.errors()["error"][0]


def test_pairs_are_explained_as_pairs(model, tmp_path):
    rows = [{"text": "The river.", "text_pair": "The mill?"}, {"text": "The river.", "text_pair": "Old world."}]
    store = sl.run(rows, model, METHODS, out=tmp_path / "run")
    report = store.document(1)
    assert report.encoding == model.encode("The river.", "Old world.")
    assert store.words("document = 1")["segment"].tolist() == [0, 0, 0, 1, 1, 1]


def test_question_and_context_are_read_in_the_same_order_by_all_commands(tmp_path):
    """In a row, the text is the context and the pair the question; the model reads the question first."""
    module = tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2, dtype=torch.float32)
    reader = sl.load(module, tokenizer=wordpiece())
    context, question = "The old mill is by the river, the world is old.", "old river"
    row = {"text": context, "text_pair": question}
    predicted = reader.predict(reader.encode(question, context))
    store = sl.run([row], reader, methods=["gradient"], out=tmp_path / "run")
    encoding = store.document(0).encoding
    assert (encoding.text, encoding.pair) == (question, context)
    assert store.document(0).prediction.label == predicted.label
    assert store.document(0).prediction.probability == pytest.approx(predicted.probability, rel=1e-4)
    assert encode_example(reader, Example(context, pair=question)).text == question


def test_bad_requests_are_refused_before_anything_is_written(model, model_folder, data_file, tmp_path):
    out = tmp_path / "run"
    for arguments, error, says in [
        ({"methods": ["attcta"]}, OptionError, "attcta"),
        ({"methods": []}, OptionError, "at least one"),
        ({"target": "cats"}, TargetError, "cats"),
        ({"measures": ["weather"]}, OptionError, "weather"),
        ({"options": {"attcat": {"colour": 1}}}, OptionError, "colour"),
        ({"options": {"rollout": {}}}, OptionError, "rollout"),
        ({"engine": "cloud"}, OptionError, "cloud"),
        ({"workers": 0}, OptionError, "workers must be"),
        ({"address": "ray://x:1"}, OptionError, "address"),
    ]:
        with pytest.raises(error, match=says):
            sl.run(data_file, model_folder, **{"methods": METHODS, "out": out, **arguments})
    with pytest.raises(OptionError, match="loaded model"):
        sl.run(data_file, model, METHODS, out=out, workers=2)
    with pytest.raises(InputError, match="no field 'body'"):
        sl.run(data_file, model, METHODS, out=out, selection=sl.Selection(text="body"))
    with pytest.raises(InputError, match="empty"):
        sl.run(data_file, model, METHODS, out=out, selection=sl.Selection(where="year < 0"))
    with pytest.raises(InputError, match="stopped before it had read its data set"):
        sl.open_run(out)
    assert sl.run(data_file, model, METHODS, out=out).complete  # nothing was computed, so the run may be another one


@pytest.mark.parametrize("target", ["Team: A", "Team: A:PL", ("Team: A", "PL")])
def test_a_target_is_read_as_in_explain(tmp_path, target):
    labels = {0: "Team: A", 1: "PL", 2: "A"}
    model = sl.load(tiny_module("bert", dtype=torch.float32, id2label=labels), tokenizer=wordpiece())
    text = "The river is old."
    store = sl.run([text], model, ["attcat"], out=tmp_path / "run", target=target, measures=[])
    (explained,) = store.sql("SELECT class FROM explanations")["class"]
    assert explained == model.explain(text, "attcat", target=target).target.name


def test_the_allocator_gives_memory_back():
    blocks = [bytearray(100_000) for _ in range(2000)]
    full = resident_bytes()
    del blocks
    release_memory()
    assert resident_bytes() < full - 100_000_000


def test_a_run_without_methods_uses_those_that_the_model_can_run(tmp_path):
    library = sl.load(attention="library")
    assert library.default_methods == ("attcat",)
    store = sl.run(["the old mill", "a parser for a language"], library, out=tmp_path / "run", measures=())
    assert tuple(store.methods) == ("attcat",)
