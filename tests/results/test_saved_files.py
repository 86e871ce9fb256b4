"""Saved explanations, reports and evaluations from strangers: whatever loads can be shown; the rest gets a sentence."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sightline.errors import InputError, SizeError
from sightline.evaluation import Evaluation
from sightline.results.check import Artefact, Exchange
from sightline.results.explanation import Explanation
from sightline.results.report import Report
from sightline.results.verdict import DIAGNOSTICS
from sightline.view.words import sentences
from tests.evaluation.test_result import sample
from tests.sample_explanations import check_of, encoding, explanation
from tests.view.sample_inside import sample_inside

DEEP: list = []
for _ in range(70):
    DEEP = [DEEP]


def put(path, value):
    """Return a change of a record: the entry at `path` ("prediction.labels.0") becomes `value`."""

    def change(record):
        *way, last = [int(name) if name.isdigit() else name for name in path.split(".")]
        for name in way:
            record = record[name]
        record[last] = value

    return change


DAMAGE = {
    "offset beyond the text": (put("encoding.offsets.1", [0, 10_000]), "token 1 is not at characters"),
    "offset of another token": (put("encoding.offsets.1", [1, 4]), "token 1 is not at characters"),
    "special with a place": (put("encoding.offsets.0", [0, 3]), "token 0 is special"),
    "word beyond the text": (put("encoding.words.0", [0, 10_000, 0]), r"words\[0\] must be a range of characters"),
    "word of a missing pair": (put("encoding.words.0", [0, 3, 1]), r"words\[0\] must be a range of characters"),
    "words in another order": (put("encoding.words.1", [0, 3, 0]), "must be in the order of the text"),
    "word number": (put("encoding.word_ids.1", 999), "damaged"),
    "segments": (put("encoding.segments", 5), "segments must be a valid array, not 5"),
    "segment of a missing pair": (put("encoding.segments.1", 1), "segments must be"),
    "negative id": (put("encoding.ids.1", -1), r"ids\[1\] must be greater than or equal to 0"),
    "id as text": (put("encoding.ids.1", "5"), r"ids\[1\] must be a valid integer, not '5'"),
    "global token": (put("encoding.global_tokens", [999]), "global_tokens must be whole numbers from 0"),
    "lone surrogate": (put("encoding.text", "\ud800"), "it is not valid JSON"),
    "too few labels": (put("prediction.labels", ["AI"]), "prediction.probabilities has the shape 2, expected 1"),
    "no labels": (put("prediction.labels", []), "prediction.labels must have at least 1 entries"),
    "probability": (
        put("prediction.probability", 7),
        "probability must be less than or equal to 1.00001, not 7",
    ),
    "probabilities": (put("prediction.probabilities.values", [0.5, 7.0]), "must be from 0 to 1"),
    "score as text": (put("scores.0", "1.0"), r"scores\[0\] must be a valid number, not '1.0'"),
    "giant dtype": (put("scores_dtype", "S999999999"), "scores_dtype must be '<f2', .*, not 'S999999999'"),
    "object dtype": (put("scores_dtype", "O"), "scores_dtype must be"),
    "dtype of another kind": (put("scores_dtype", ["<f8"]), "scores_dtype must be"),
    "layer shape": (put("layers.shape", [2**62, 4]), "layers has the shape"),
    "negative shape": (put("layers.shape", [-1, 5]), "damaged"),
    "layer kind": (put("layer_kind", "sideways"), "layer_kind must be 'additive'"),
    "version as text": (put("version", "99"), "version must be a valid integer"),
    "fractional version": (put("version", 1.5), "version must be a valid integer"),
    "version list": (put("version", [2]), "version must be a valid integer"),
    "true as version": (put("version", True), "version must be a valid integer"),
    "newer version": (put("version", 99), "newer Sightline"),
    "nested options": (put("options", {"a": DEEP}), "nested more than 64 levels"),
    "huge integer": (put("options", {"a": 10**100}), "options must hold numbers of at most 64 bits"),
    "check of a wrong type": (put("checks.change", "much"), "checks change must be a valid number"),
    "text as error of conservation": (put("checks.conservation_error", "S9"), "conservation_error must be a valid"),
    "flag as number": (put("checks.converged", 1.5), "checks converged must be a valid boolean"),
    "count as text": (put("checks.exchanged_words", "many"), "checks exchanged_words must be a valid integer"),
    "share above one": (put("checks.special_share", 7), "checks special_share must be less than or equal to 1.00001"),
    "list as check": (put("checks.note", [1]), "checks note.bool must be a valid boolean"),
    "word that was never tested": (put("check.named.0.index", 10_000), "check.named must name words where they are"),
    "target position": (put("target.position", 10_000), "target.position must be a whole number"),
    "target span": (put("target.span", [5, 1]), "target.span must be a range within"),
    "target quantity": (put("target.quantity", "charm"), "target.quantity must be 'log_odds'"),
    "exchange": (put("exchange", []), "exchange must be an object"),
    "exchanged tokens": (put("exchange.artefacts.0.tokens", [10_000]), "must be positions of tokens, ascending"),
    "no exchanged token": (put("exchange.artefacts.0.tokens", []), "must be positions of tokens, ascending"),
    "exchanged twice": (
        put("exchange.artefacts", [{"tokens": [1], "reason": "sink", "stays": 1.0, "moves": 0.0}] * 2),
        "must name every token once",
    ),
    "reason of an artefact": (put("exchange.artefacts.0.reason", "special"), "reason must be 'position' or 'sink'"),
    "share of an artefact": (put("exchange.artefacts.0.stays", None), "stays must be a finite number"),
    "number of exchanges": (put("exchange.tested", 0), "exchange.tested must be a whole number from 1"),
    "artefact share": (put("checks.artefact_share", "all"), "checks artefact_share must be a valid number"),
    "extra array": (
        put("extras", {"a": {"dtype": "<f8", "shape": [3], "values": [1.0]}}),
        "extras.a must have 3 entries",
    ),
}


def full() -> Explanation:
    encoded = encoding()
    layers = np.random.default_rng(0).standard_normal((2, len(encoded)))
    exchange = Exchange(3, 2, (Artefact((2, 3), "sink", 0.9, 0.1),))
    explained = explanation(
        encoded, layers.sum(axis=0), layers=layers, layer_kind="additive", checks={"change": 0.1}, exchange=exchange
    )
    return replace(explained, check=check_of(explained, 0, 1))


def refused(path, sentence):
    with pytest.raises(InputError, match=sentence) as error:
        Explanation.load(path)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_explanation_is_refused(tmp_path, name):
    change, sentence = DAMAGE[name]
    path = tmp_path / "saved.json"
    full().save(path)
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    refused(path, sentence)


@pytest.mark.parametrize("value", ["S9", True, -1.5, 10**19])
@pytest.mark.parametrize("name", [*DIAGNOSTICS, "of_a_plug_in"])
def test_a_check_that_loads_can_be_shown(tmp_path, name, value):
    path = tmp_path / "saved.json"
    full().save(path)
    record = json.loads(path.read_text())
    record["checks"][name] = value
    path.write_text(json.dumps(record))
    try:
        loaded = Explanation.load(path)
    except InputError:
        refused(path, "checks [a-z_.]+ must be")
    else:
        assert loaded.checks[name] == value
        assert loaded.to_html()


def test_every_check_with_a_sentence_of_its_own_has_a_type():
    assert set(sentences._SENTENCES) <= set(DIAGNOSTICS)


def test_numbers_that_json_knows_but_an_explanation_does_not(tmp_path):
    path = tmp_path / "saved.json"
    full().save(path)
    text = path.read_text()
    probability = json.dumps(json.loads(text)["prediction"]["probability"])
    for number, sentence in [
        ("1e999", "finite"),
        ("NaN", "finite number"),
        ("9" * 5_000, "number out of range"),
    ]:
        path.write_text(text.replace(f'"probability": {probability}', f'"probability": {number}'))
        refused(path, sentence)
    path.write_text("[" * 100_000)
    refused(path, "not valid JSON: recursion limit")
    path.write_bytes(b" " * 200_000_002)
    refused(path, "larger than 200 MB")


def test_single_precision_overflow_is_refused(tmp_path):
    path = tmp_path / "saved.json"
    full().save(path)
    record = json.loads(path.read_text())
    record["scores"][0], record["scores_dtype"] = 1e300, "<f4"
    path.write_text(json.dumps(record))
    refused(path, "scores must hold finite numbers")


def test_only_regular_files_are_loaded(tmp_path):
    for name in ("a.json", "a.parquet", "a.zip"):
        (tmp_path / name).symlink_to("/dev/zero")
        with pytest.raises(InputError, match="not a regular file"):
            (Report if name == "a.zip" else Explanation).load(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda table: table.drop_columns(["word"]), "word"),
        (lambda table: table.set_column(1, "score", pa.array(["x"] * len(table))), "the column 'score'"),
        (lambda table: table.set_column(1, "score", pa.array([None, *[0.5] * (len(table) - 1)])), "the column 'score'"),
        (lambda table: table.set_column(2, "id", pa.array([0.5] * len(table))), "the column 'id'"),
        (lambda table: table.append_column("more", pa.array([[1]] * len(table))), "columns of lists"),
    ],
)
def test_damaged_columns_are_refused(tmp_path, change, sentence):
    path = tmp_path / "saved.parquet"
    full().save(path)
    table = pq.read_table(path)
    metadata = table.schema.metadata
    pq.write_table(change(table).replace_schema_metadata(metadata), path)
    refused(path, sentence)


@pytest.mark.parametrize("layers", [10**12, "2", -1, 1.5, True])
def test_the_number_of_layers_in_a_parquet_file_is_checked(tmp_path, layers):
    path = tmp_path / "saved.parquet"
    full().save(path)
    table = pq.read_table(path)
    record = json.loads(table.schema.metadata[b"sightline"])
    record["layers"] = layers
    pq.write_table(table.replace_schema_metadata({b"sightline": json.dumps(record)}), path)
    refused(path, "layers must be ")


def test_what_is_too_large_to_be_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("sightline.results.explanation_storage.LARGEST_FILE", 1_000)
    for name in ("a.json", "a.parquet"):
        with pytest.raises(SizeError, match="more than the 0 MB that can be loaded again"):
            full().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def save_report(path):
    encoded = encoding()
    Report({"attcat": explanation(encoded)}, inside=sample_inside(encoded)).save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path, parts):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def array_bytes(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("part", "change", "sentence"),
    [
        ("inside/received.npy", lambda array: array[:1], "has the shape"),
        ("inside/received.npy", lambda array: array.astype("S4"), "holds .S4, not numbers"),
        ("inside/received.npy", lambda array: array * np.nan, "not finite"),
        ("inside/images.npy", lambda array: array[..., :2], "must be square"),
        ("inside/images.npy", lambda array: array[..., :0, :0], "must be square"),
        ("inside/all.attended.partners.npy", lambda array: array + 10**6, "must be tokens"),
        ("inside/all.attended.partners.npy", lambda array: array.astype(np.float32), "not whole numbers"),
    ],
)
def test_arrays_of_a_report_must_fit_it(tmp_path, part, change, sentence):
    parts = save_report(tmp_path / "a.zip")
    parts[part] = array_bytes(change(np.load(io.BytesIO(parts[part]))))
    pack(tmp_path / "a.zip", parts)
    with pytest.raises(InputError, match=sentence):
        Report.load(tmp_path / "a.zip")


def test_an_array_whose_header_ends_within_a_bracket_is_refused(tmp_path):
    parts = save_report(tmp_path / "a.zip")
    raw = parts["inside/received.npy"]
    parts["inside/received.npy"] = raw.replace(b")", b" ", 1).replace(b"}", b" ", 1)
    pack(tmp_path / "a.zip", parts)
    with pytest.raises(InputError, match="has a damaged header"):
        Report.load(tmp_path / "a.zip")


def test_an_array_is_not_unpacked_before_its_size_is_known(tmp_path):
    parts = save_report(tmp_path / "a.zip")
    record = json.loads(parts["report.json"])
    heads, layers = record["inside"]["heads"], record["inside"]["layers"]
    header = io.BytesIO()
    giant = {"descr": "<f4", "fortran_order": False, "shape": (layers, heads, 10**5, 10**5)}
    np.lib.format.write_array_header_1_0(header, giant)
    parts["inside/images.npy"] = header.getvalue()
    pack(tmp_path / "a.zip", parts)
    with pytest.raises(InputError, match="its arrays take more than 2,000,000,000 bytes"):
        Report.load(tmp_path / "a.zip")
    parts["inside/images.npy"] = header.getvalue().replace(b"100000, 100000", b"16, 16        ") + b"\0" * 50_000_000
    pack(tmp_path / "a.zip", parts)
    with pytest.raises(InputError, match="has more than"):
        Report.load(tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put("version", "1"), "version must be a valid integer"),
        (put("version", 1.5), "version must be a valid integer"),
        (put("explanations", []), "explanations must have at least 1 entries"),
        (put("explanations.0.document", 7), r"explanations\[0\].document must be"),
        (put("explanations.0.method", 7), r"explanations\[0\].method must be a valid string"),
        (put("explanations.0.explanation.scores", 5), "scores must be a valid array"),
        (put("documents.0.encoding.segments", 5), "segments must be a valid array"),
        (put("inside.tokens", 10**9), "inside.tokens must be less than or equal to"),
        (put("inside.layers", 0), "inside.layers must be greater than or equal to 1"),
        (put("inside.relations", ["all", "head-99-99"]), "which does not exist in this model"),
        (put("inside.relations", ["../../etc/passwd", "all"]), "which does not exist in this model|missing"),
        (put("inside.relations", []), "must name every map once"),
        (put("seconds", {"explain": -1}), "seconds.explain must be greater than or equal to 0"),
        (put("seconds", 5), "seconds must be an object"),
    ],
)
def test_a_damaged_record_of_a_report_is_refused(tmp_path, change, sentence):
    parts = save_report(tmp_path / "a.zip")
    record = json.loads(parts["report.json"])
    change(record)
    parts["report.json"] = json.dumps(record).encode()
    pack(tmp_path / "a.zip", parts)
    with pytest.raises(InputError, match=sentence):
        Report.load(tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put("version", "99"), "version must be a valid integer"),
        (put("version", [2]), "version must be a valid integer"),
        (put("version", None), "version must be a valid integer"),
        (put("documents", ["1", "2", "3"]), "names a document that is not among the documents"),
        (put("documents", ["1", "1", "2", "3", "4"]), "must not contain duplicates"),
        (put("methods", [5, "b"]), r"methods\[0\] must be a valid string"),
        (put("settings", [1]), "settings must be an object"),
        (put("settings.seed", "x"), "settings.seed must be a whole number"),
        (put("settings.deep", DEEP), "nested more than 64 levels"),
        (put("calls_made", -1), "calls_made must be greater than or equal to 0"),
        (put("seconds", "1"), "seconds must be a valid number"),
        (put("complete", 1), "complete must be a valid boolean"),
        (put("skipped", {"a": 1}), "skipped.a must be a text"),
    ],
)
def test_a_damaged_evaluation_is_refused(tmp_path, change, sentence):
    sample().save(tmp_path)
    record = json.loads((tmp_path / "evaluation.json").read_text())
    change(record)
    (tmp_path / "evaluation.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=sentence):
        Evaluation.load(tmp_path)


@pytest.mark.parametrize(
    ("file", "column", "values", "sentence"),
    [
        ("records.parquet", "value", [float("inf")], "value must be a finite number"),
        ("records.parquet", "status", ["fine"], "status must be 'ok'"),
        ("records.parquet", "value", [None], "has a value exactly if its status is ok"),
        ("records.parquet", "seconds", [-1.0], "seconds must be greater than or equal to 0"),
        ("curves.parquet", "values", [[0.5]], "values must have 3 entries, not 1"),
        ("curves.parquet", "ratios", [[0.0, 0.5, 7.0]], r"ratios\[2\] must be less than or equal to 1"),
        ("curves.parquet", "values", [None], "values must be a valid list"),
    ],
)
def test_damaged_tables_of_an_evaluation_are_refused(tmp_path, file, column, values, sentence):
    sample().save(tmp_path)
    table = pq.read_table(tmp_path / file)
    rest = table.column(column).to_pylist()[len(values) :]
    place = table.column_names.index(column)
    changed = table.set_column(place, column, pa.array(values + rest, table.schema.field(column).type))
    pq.write_table(changed, tmp_path / file)
    with pytest.raises(InputError, match=sentence):
        Evaluation.load(tmp_path)
    pq.write_table(table.drop_columns([column]), tmp_path / file)
    with pytest.raises(InputError, match="has other columns than those of an evaluation"):
        Evaluation.load(tmp_path)
