"""Explanation: words and ranking by brute force, refusal of what cannot be kept, and files that give back every bit."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sightline.errors import InputError, ModelError, OptionError, UsageError
from sightline.models.target import Prediction, Target
from sightline.results.explanation import Explanation
from sightline.results.report import Report
from tests.sample_explanations import TEXT, encoding, explanation


def same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


@pytest.mark.parametrize("aggregate", ["sum", "mean", "max_abs"])
@pytest.mark.parametrize("bytes_", [False, True])
def test_a_word_gets_the_aggregate_of_its_tokens_and_specials_belong_to_none(aggregate, bytes_):
    exp = explanation(encoding("Hello, 👩‍🚀 miller of the old mill: naïve café!", bytes_=bytes_))
    combine = {
        "sum": sum,
        "mean": lambda values: sum(values) / len(values),
        "max_abs": lambda values: max(values, key=abs),
    }[aggregate]
    expected = []
    for index, word in enumerate(exp.encoding.words):
        positions = [i for i in range(len(exp.tokens)) if exp.encoding.word_ids[i] == index]
        if positions:
            expected.append((word.text, pytest.approx(combine([float(exp.scores[i]) for i in positions])), positions))
    words = exp.words(aggregate)
    assert [(w.text, w.score, list(w.tokens)) for w in words] == expected
    assert all(exp.encoding.text[w.start : w.end] == w.text for w in words)


def test_words_of_a_pair_keep_their_segment_and_come_in_document_order():
    exp = explanation(encoding("the old mill", "hello world"))
    assert [(w.text, w.segment) for w in exp.words()] == [
        ("the", 0), ("old", 0), ("mill", 0), ("hello", 1), ("world", 1)
    ]  # fmt: skip


def test_top_ranks_by_magnitude_with_ties_in_document_order_and_without_specials():
    encoded = encoding("hello world the old mill")
    # [CLS] and [SEP] are the strongest, and must not appear.
    exp = explanation(encoded, [9.0, 0.5, -0.5, 2.0, 0.0, -3.0, -9.0])
    assert [(w.text, w.score) for w in exp.top()] == [
        ("mill", -3.0), ("the", 2.0), ("hello", 0.5), ("world", -0.5), ("old", 0.0)
    ]  # fmt: skip
    assert [w.text for w in exp.top(sign="for")] == ["the", "hello"]
    assert [w.text for w in exp.top(1, sign="against")] == ["mill"]
    assert [w.text for w in exp.top(2, level="token")] == ["mill", "the"]


def test_instances_of_a_word_stay_apart_unless_merged_whatever_their_case():
    exp = explanation(encoding("The mill the MILL the"), [0.0, 1.0, -2.0, 1.0, 5.0, 1.5, 0.0])
    assert [w.text for w in exp.top(2)] == ["MILL", "mill"]
    merged = exp.top(merge=True)
    assert [(w.text, w.score, w.count, w.tokens) for w in merged] == [
        ("The", 3.5, 3, (1, 3, 5)),
        ("mill", 3.0, 2, (2, 4)),
    ]


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=5),
    st.integers(0, 7),
    st.sampled_from(["any", "for", "against"]),
)
def test_top_is_the_head_of_a_stable_sort(scores, k, sign):
    exp = explanation(encoding("hello world the old mill"), [1e9, *scores, -1e9])
    keep = {"any": lambda s: True, "for": lambda s: s > 0, "against": lambda s: s < 0}[sign]
    expected = sorted((i for i, s in enumerate(scores) if keep(s)), key=lambda i: -abs(scores[i]))[:k]
    assert [w.index for w in exp.top(k, sign=sign)] == expected


def test_frames_hold_every_token_or_every_word():
    exp = explanation()
    tokens = exp.to_frame()
    assert list(tokens["token"]) == list(exp.tokens)
    assert same_bits(tokens["score"].to_numpy(), exp.scores)
    assert list(tokens["special"]) == [True, *[False] * (len(exp.tokens) - 2), True]
    words = exp.to_frame("word")
    assert [tuple(row) for row in words[["word", "score", "start"]].itertuples(index=False)] == [
        (w.text, w.score, w.start) for w in exp.words()
    ]


def test_sentences_are_scored_by_the_sum_of_their_tokens():
    exp = explanation()
    sentences = exp.units("sentence")
    assert [sentence.text for sentence in sentences] == [
        "The river runs past the old mill.",
        "Hello, Miller!",
        "The mill is old.",
    ]
    for sentence in sentences:
        assert sentence.score == pytest.approx(sum(exp.scores[list(sentence.tokens)]))
    assert exp.to_frame("sentence")["sentence"].tolist() == [sentence.text for sentence in sentences]


@pytest.mark.parametrize("call", [
    lambda exp: exp.words("median"), lambda exp: exp.top(level="line"), lambda exp: exp.top(sign="both"),
    lambda exp: exp.to_frame("layer"), lambda exp: exp.top(-1),
])  # fmt: skip
def test_unknown_choices_are_named_in_the_error(call):
    with pytest.raises(OptionError):
        call(explanation())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_array_that_is_not_finite_is_ever_kept(value):
    n = len(encoding())
    bad = np.zeros(n)
    bad[3] = value
    with pytest.raises(ModelError, match=f"not finite \\(1 of {n}"):
        explanation(scores=bad)
    with pytest.raises(ModelError):
        explanation(layers=np.stack([bad, bad]))
    with pytest.raises(ModelError):
        explanation(extras={"raw": bad})
    with pytest.raises(OptionError, match="gap"):
        explanation(checks={"gap": value})


def test_shapes_must_fit_the_document():
    n = len(encoding())
    with pytest.raises(ValueError, match="scores"):
        explanation(scores=np.zeros(n + 1))
    with pytest.raises(ValueError, match="layers"):
        explanation(layers=np.zeros((2, n - 1)))
    with pytest.raises(TypeError):
        explanation(extras={"names": np.array(["a"])})


def test_what_cannot_be_written_as_json_is_refused_and_numpy_values_become_plain():
    with pytest.raises(OptionError, match="object"):
        explanation(options={"hook": object()})
    exp = explanation(checks={"gap": np.float32(0.25), "converged": np.bool_(True), "calls": np.int64(3)})
    assert exp.checks == {"gap": 0.25, "converged": True, "calls": 3}
    assert {type(value) for value in exp.checks.values()} == {float, bool, int}
    assert explanation(options={"layers": (1, 2), "weights": np.ones(2)}).options == {
        "layers": [1, 2],
        "weights": [1, 1],
    }


def test_arrays_are_read_only_copies():
    scores = np.zeros(len(encoding()))
    exp = explanation(scores=scores)
    scores[0] = 1.0
    assert exp.scores[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        exp.scores[0] = 2.0


def test_repr_says_what_matters_in_one_line():
    text = repr(explanation(encoding("hello world the old mill"), [9.0, 0.5, -0.5, 2.0, 0.0, -3.0, -9.0]))
    assert "attcat" in text
    assert "log-odds of 'PL'" in text
    assert "'mill' -3, 'the' +2" in text
    assert "\n" not in text


def test_repr_shows_a_label_with_terminal_escapes_on_one_line():
    label = "P\x1b[31mL\nx"
    shown = explanation(target=Target(1, label), prediction=dataclasses.replace(explanation().prediction, label=label))
    for text in (repr(shown), repr(Report.of([shown]))):
        assert "P�[31mL�x" in text
        assert text.isprintable()


def everything(dtype: type, scores: np.ndarray | None = None) -> Explanation:
    """An explanation in which every field holds something awkward."""
    encoded = encoding('naïve "café"\n\t日本語 </script> old', "hello\u2028 mill", max_tokens=20)
    n = len(encoded)
    generator = np.random.default_rng(1)
    scores = generator.standard_normal(n).astype(dtype) if scores is None else scores
    scores[:3] = [-0.0, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max]
    return explanation(
        encoded,
        scores,
        layers=generator.standard_normal((3, n)).astype(dtype),
        target=Target(1, "PL", 0, "AI", "log_probability"),
        checks={"completeness_gap": 0.1 + 0.2, "converged": True, "evaluations": 33, "replacement": "[MASK]"},
        options={"steps": None, "baseline": "pad", "window": [1, 2]},
        provenance={"model": "tiny", "seed": 0, "versions": {"torch": "2"}},
        extras={
            "flags": np.array([[True, False]]),
            "empty": np.zeros((0, 4), dtype=np.float16),
            "number": np.array(0.1, dtype=np.float32),
            "places": np.array([2**62, -5]),
        },
        signed=False,
    )


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_saved_explanation_comes_back_bit_for_bit(tmp_path, suffix, dtype):
    exp = everything(dtype)
    path = tmp_path / f"saved{suffix}"
    exp.save(path)
    back = Explanation.load(path)
    assert same_bits(back.scores, exp.scores)
    assert same_bits(back.layers, exp.layers)
    assert back.extras.keys() == exp.extras.keys()
    assert all(same_bits(back.extras[name], exp.extras[name]) for name in exp.extras)
    assert back.encoding == exp.encoding
    assert back.target == exp.target
    assert same_bits(back.prediction.logits, exp.prediction.logits)
    assert same_bits(back.prediction.probabilities, exp.prediction.probabilities)
    for name in ("method", "checks", "options", "provenance", "signed"):
        assert getattr(back, name) == getattr(exp, name)
    for name in ("index", "label", "probability", "labels"):
        assert getattr(back.prediction, name) == getattr(exp.prediction, name)
    assert [path.name for path in tmp_path.iterdir()] == [path.name]


@settings(max_examples=30, deadline=None)
@given(
    hnp.arrays(np.float64, 7, elements=st.floats(allow_nan=False, allow_infinity=False)),
    st.sampled_from([".json", ".parquet"]),
)
def test_every_finite_float_survives_both_formats(tmp_path_factory, scores, suffix):
    path = tmp_path_factory.mktemp("floats") / f"saved{suffix}"
    explanation(encoding("hello world the old mill"), scores).save(path)
    assert same_bits(Explanation.load(path).scores, scores)


def test_the_json_file_is_one_plain_document(tmp_path):
    exp = explanation()
    exp.save(tmp_path / "saved.json")
    record = json.loads((tmp_path / "saved.json").read_text(encoding="ascii"))
    assert record["tokens"] == list(exp.tokens)
    assert record["scores"] == exp.scores.tolist()
    assert record["encoding"]["text"] == TEXT
    assert record["version"] == 1


def test_the_parquet_file_has_a_row_a_token_for_other_tools(tmp_path):
    exp = explanation(layers=np.zeros((2, len(encoding()))))
    exp.save(tmp_path / "saved.parquet")
    table = pq.read_table(tmp_path / "saved.parquet")
    assert table.column("token").to_pylist() == list(exp.tokens)
    assert {"score", "start", "end", "word", "special", "layer_0", "layer_1"} <= set(table.column_names)


def with_changed_record(path: Path, change) -> None:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.update(version=2), "newer Sightline"),
        (lambda record: record.update(format="other"), "not an explanation"),
        (lambda record: record.pop("scores"), "'scores' is missing"),
        (lambda record: record["scores"].pop(), "is damaged"),
        (lambda record: record["scores"].__setitem__(0, "x"), "is damaged"),
        (lambda record: record["scores"].__setitem__(0, float("nan")), "is damaged"),
        (lambda record: record.update(scores_dtype="float12"), "is damaged"),
        (lambda record: record["target"].update(colour=1), "is damaged"),
        (lambda record: record["encoding"].pop("offsets"), "is damaged"),
        (lambda record: record.update(checks=None), "is damaged"),
    ],
)
def test_a_changed_json_file_is_refused_with_a_sentence(tmp_path, change, message):
    path = tmp_path / "saved.json"
    explanation().save(path)
    with_changed_record(path, change)
    with pytest.raises(InputError, match=message):
        Explanation.load(path)


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_a_damaged_file_is_refused_with_a_sentence(tmp_path, suffix):
    path = tmp_path / f"saved{suffix}"
    explanation().save(path)
    whole = path.read_bytes()
    for broken in (b"", whole[: len(whole) // 2], b"\x00" * 50, b"[1, 2]"):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="damaged|not an explanation"):
            Explanation.load(path)


def test_a_flipped_byte_in_a_parquet_column_is_found(tmp_path):
    path = tmp_path / "saved.parquet"
    explanation().save(path)
    content = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    content[column.data_page_offset + column.total_compressed_size - 3] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        Explanation.load(path)


def test_a_foreign_parquet_file_and_other_suffixes_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    with pytest.raises(InputError, match="not an explanation"):
        Explanation.load(tmp_path / "foreign.parquet")
    with pytest.raises(InputError, match="no file"):
        Explanation.load(tmp_path / "absent.json")
    with pytest.raises(UsageError, match=r"\.json or \.parquet"):
        explanation().save(tmp_path / "saved.pkl")


def test_a_newer_parquet_file_is_refused(tmp_path):
    path = tmp_path / "saved.parquet"
    explanation().save(path)
    table = pq.read_table(path)
    record = json.loads(table.schema.metadata[b"sightline"]) | {"version": 7}
    pq.write_table(table.replace_schema_metadata({b"sightline": json.dumps(record)}), path)
    with pytest.raises(InputError, match="newer Sightline"):
        Explanation.load(path)


def test_writing_leaves_the_old_file_when_it_fails_and_no_temporary_file_ever(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(UsageError, match="no space left"):
        explanation().to_html(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["absent/page.html", "file/page.html", "folder", "n" * 300])
def test_an_impossible_place_is_refused_with_a_sentence(tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="Cannot write"):
        explanation().to_html(tmp_path / place)


@pytest.mark.parametrize("draws", [explanation(), Report.of([explanation()])], ids=["explanation", "report"])
def test_to_html_returns_the_page_or_where_it_was_written(tmp_path, draws):
    """Not both: at the end of a cell, a notebook would show the text of the whole page."""
    path = tmp_path / "page.html"
    assert draws.to_html(path) == draws.to_html(str(path)) == path
    assert path.read_text(encoding="utf-8") == draws.to_html()


def test_a_link_is_followed_and_permissions_are_kept(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    explanation().save(link)
    assert link.is_symlink()
    assert Explanation.load(real).method == "attcat"
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is needed")
def test_a_full_device_is_refused_with_a_sentence():
    with pytest.raises(UsageError, match="Cannot write '/dev/full': no space left on device. Free some space, or"):
        explanation().to_html(Path("/dev/full"))


def test_a_number_is_not_written_as_a_certain_class():
    chosen = Prediction(1, "PL", 0.73, ("AI", "PL"), np.array([-0.5, 0.5]), np.array([0.27, 0.73]))
    number = Prediction(0, "score", 1.0, ("score",), np.array([-2.25]), np.array([1.0]))
    assert (chosen.value, chosen.describe()) == (None, "predicted 'PL' (73.0%)")
    assert (number.value, number.describe()) == (-2.25, "'score' is -2.25")
    assert "'score' is -2.25;" in repr(explanation(prediction=number))
