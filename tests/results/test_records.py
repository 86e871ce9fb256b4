"""What is stored is read back bit for bit, and a record that is not what it must be is refused before it is built."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sightline.errors import InputError
from sightline.models.target import Target
from sightline.results.continuation import ContinuationExplanation
from sightline.results.explanation import Explanation
from sightline.results.explanation_storage import DocumentRecord
from sightline.results.records import Record, Whole
from sightline.results.report import Report
from sightline.text import encode_ids, encode_text
from tests.sample_explanations import encoding, explanation
from tests.tiny_tokenizers import wordpiece
from tests.view.sample_inside import sample_inside

ENCODED = encoding("hello world the old mill")
FLOATS = st.sampled_from([np.float16, np.float32, np.float64])
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    # Half of a surrogate pair is no character and cannot be written as UTF-8.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abß", max_size=3), inner, max_size=3),
    max_leaves=8,
)


def arrays(*shape):
    finite = {"allow_nan": False, "allow_infinity": False}
    return FLOATS.flatmap(lambda kind: hnp.arrays(kind, shape, elements=finite))


@st.composite
def explanations(draw):
    layers = draw(st.none() | arrays(2, len(ENCODED)))
    targets = st.sampled_from([Target(1, "PL"), Target(0, "AI", 1, "PL", "logit"), Target(None, "x", span=(1, 3))])
    return explanation(
        ENCODED,
        draw(arrays(len(ENCODED))),
        layers=layers,
        layer_kind=None if layers is None else "separate",
        target=draw(targets),
        signed=draw(st.booleans()),
        extras=draw(st.dictionaries(st.text("xyz", min_size=1), arrays(2, 3) | arrays(), max_size=2)),
        options=draw(st.dictionaries(st.text("ab", min_size=1), PLAIN, max_size=2)),
        provenance={"model": draw(st.text(st.characters(exclude_categories=["Cs"])))},
    )


def bits(value):
    """Every number of a record with its bits: −0.0 is not 0.0, and 1 is not 1.0."""
    return json.dumps(value)


def assert_same(first, second):
    assert bits(first.to_dict()) == bits(second.to_dict())
    for name in ("scores", "layers"):
        mine, other = getattr(first, name), getattr(second, name)
        assert (mine is None and other is None) or (mine.dtype == other.dtype and mine.tobytes() == other.tobytes())
    assert first.encoding == second.encoding


@settings(deadline=None, max_examples=60)
@given(explanations(), st.sampled_from([".json", ".parquet"]))
def test_an_explanation_is_read_back_bit_for_bit(tmp_path_factory, saved, suffix):
    path = tmp_path_factory.mktemp("records") / f"saved{suffix}"
    saved.save(path)
    assert_same(saved, Explanation.load(path))
    assert_same(saved, Explanation.from_record(saved.to_dict()))
    assert_same(saved, Explanation.from_record(json.loads(json.dumps(saved.to_dict()))))


@settings(deadline=None, max_examples=20)
@given(explanations(), explanations())
def test_a_report_is_read_back_bit_for_bit(tmp_path_factory, first, second):
    path = tmp_path_factory.mktemp("records") / "saved.zip"
    report = Report({"a": first, "b": {"PL": second}}, inside=sample_inside(ENCODED), seconds={"explain": 0.1})
    report.save(path)
    loaded = Report.load(path)
    assert bits(loaded.to_dict()) == bits(report.to_dict())
    for mine, other in zip(report, loaded, strict=True):
        assert_same(mine, other)
    assert loaded.first.encoding is loaded.entries()[1].explanation.encoding
    assert loaded.inside.images.tobytes() == report.inside.images.tobytes()


@settings(deadline=None, max_examples=20)
@given(arrays(len(ENCODED)), arrays(len(ENCODED)), st.floats(0, 1))
def test_a_continuation_is_read_back_bit_for_bit(tmp_path_factory, first, second, probability):
    path = tmp_path_factory.mktemp("records") / "saved.json"
    n = len(ENCODED)
    parts = [(n - 2, first[: n - 2]), (n - 1, second[: n - 1])]
    rows = tuple(explanation(ENCODED.select(np.arange(length)), scores) for length, scores in parts)
    saved = ContinuationExplanation(rows, ENCODED, n - 2, np.array([probability, 1.0]), "given")
    saved.save(path)
    for loaded in (ContinuationExplanation.load(path), ContinuationExplanation.from_record(saved.to_dict())):
        assert bits(loaded.to_dict()) == bits(saved.to_dict())
        assert loaded.matrix.tobytes() == saved.matrix.tobytes()


PAIR = encode_text(wordpiece(), "The miller", "old rivers!", max_tokens=None, global_tokens=(0, 3, 5))


def test_a_document_is_read_back():
    for document in (PAIR, PAIR.drop([2]), encode_ids([5, 6]), replace(PAIR, global_tokens=None, dropped=3)):
        again = DocumentRecord.read(json.dumps(DocumentRecord.plain(document))).document()
        assert again == document
        assert again.words == document.words
        assert again.ids.dtype == np.int64
        assert again.special.dtype == bool


@pytest.mark.parametrize(
    "damage",
    [
        {"ids": [1, 2]},
        {"ids": []},
        {"word_ids": [99] * 10},
        {"word_ids": [-2] * 10},
        {"words": [[0, 3, 7]]},
        {"words": "no"},
        {"offsets": None},
        {"global_tokens": [99]},
        {"text": None},
    ],
)
def test_a_damaged_document_is_refused(damage):
    record = DocumentRecord.plain(PAIR)
    with pytest.raises(ValueError, match="must|belongs"):
        DocumentRecord.read({**record, "encoding": record["encoding"] | damage}).document()
    with pytest.raises(ValueError, match="must have"):
        DocumentRecord.read({**record, "tokens": ["a"]}).document()


@pytest.mark.parametrize("missing", ["text", "ids", "words", "dropped"])
def test_an_incomplete_document_is_refused(missing):
    record = DocumentRecord.plain(PAIR)
    del record["encoding"][missing]
    with pytest.raises(ValueError, match=f"'encoding.{missing}' is missing"):
        DocumentRecord.read(record)


class Example(Record):
    count: Whole
    share: float
    flag: bool
    name: str
    numbers: list[int] | None = None


GOOD = '{"count": 1, "share": 0.5, "flag": true, "name": "a"}'


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('"count": 1', '"count": "1"'), "count must be a valid integer, not '1'"),
        (('"count": 1', '"count": 1.0'), "count must be a valid integer, not 1.0"),
        (('"count": 1', '"count": true'), "count must be a valid integer, not true"),
        (('"count": 1', '"count": -1'), "count must be greater than or equal to 0, not -1"),
        (('"count": 1', '"count": 1e400'), "count must be a valid integer"),
        (('"share": 0.5', '"share": NaN'), "share must be a finite number"),
        (('"share": 0.5', '"share": 1e400'), "share must be a finite number"),
        (('"share": 0.5', '"share": true'), "share must be a valid number, not true"),
        (("true", "1"), "flag must be a valid boolean, not 1"),
        (('"a"', "null"), "name must be a valid string, not null"),
        (('"a"', '"\\ud800"'), "it is not valid JSON"),
        (('"name"', '"nom"'), "'name' is missing"),
        (("{", '{"further": 1, '), "unknown entry 'further'"),
        (("}", ""), "it is not valid JSON"),
        (("}", ', "numbers": ' + "[" * 500 + "]" * 500 + "}"), "it is not valid JSON: recursion limit"),
        (("}", ', "numbers": ["x", "y"]}'), r"numbers\[0\] must be a valid integer"),
    ],
)
def test_values_are_not_converted(change, sentence):
    Example.read(GOOD)
    with pytest.raises(ValueError, match=sentence):
        Example.read(GOOD.replace(*change, 1))


def test_a_record_with_thousands_of_mistakes_is_refused_in_one_sentence():
    entries = ", ".join(f'"x{number}": 1' for number in range(5_000))
    with pytest.raises(ValueError, match="it has more than 1,000 wrong entries"):
        Example.read(f"{GOOD[:-1]}, {entries}}}")


def test_a_message_about_a_strange_name_is_printable(tmp_path):
    path = tmp_path / "saved.json"
    record = explanation().to_dict()
    record["\x1b[31m" + "x" * 500] = 1
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="unknown entry") as error:
        Explanation.load(path)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300
