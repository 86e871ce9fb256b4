"""One data file, one answer: what a row says and what the model says about it is the same at every door.

Each case is a data file; each door reads it in its own way and reports what it knows of every row. `explain` is given
the texts themselves; what it answers, and the classes that the case names, are what every other door must say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering

import sightline as sl
from sightline.analysis import inspect_dataset
from sightline.corpus import read_examples
from sightline.errors import InputError, TargetError
from sightline.lab.training_data import read_training_data
from sightline.metrics import METRICS
from sightline.passes.perturb import removable_units
from tests.serve.conftest import Running
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

pytestmark = pytest.mark.slow

METHODS = ["attcat", "gradient"]
CLASSES: dict[str, tuple[str, ...] | None] = {
    "named": ("AI", "PL", "other"),
    "signs": ("-1", "1"),
    "from-one": ("1", "2"),
    "answers": None,
}
TEXTS = ("The river runs past the mill.", "Hello, old world.", "The old mill, the old Miller.", "A naive cafe")
LONG = " ".join(f"{text} {number}" for number in range(20) for text in TEXTS)


@dataclass(frozen=True)
class Case:
    """A data file."""

    rows: Sequence[dict[str, Any]]
    classes: Sequence[str | None] = ()
    """What the label of every row means; a model that answers questions has no classes."""
    model: str = "named"
    split: str | None = None


def labelled(labels: Sequence[Any], texts: Sequence[str] = TEXTS, **fields: Sequence[Any]) -> list[dict[str, Any]]:
    """Return a row per text, with its label and the other fields."""
    columns = {"text": texts, "label": labels, **fields}
    return [{name: column[n % len(column)] for name, column in columns.items()} for n in range(len(labels))]


def asked(question: str, context: str) -> dict[str, Any]:
    """Return a row of a data set of questions; the answer is the mill."""
    answer = {"text": "mill", "answer_start": context.index("mill")}
    return {"text": context, "text_pair": question, "answers": [answer]}


NAMES = ("AI", "PL", "PL", "AI")
CASES = {
    "names": Case(labelled(NAMES), NAMES),
    "names in other case": Case(labelled(["ai", "PL ", "pl", "Ai"]), NAMES),
    "indices": Case(labelled([0, 1, 1, 0]), NAMES),
    "indices as text": Case(labelled(["0", "1.0", "+1", "0"]), NAMES),
    "-1 and +1": Case(labelled([-1, "+1", 1, "-1"]), ("-1", "1", "1", "-1"), "signs"),
    "names that are numbers": Case(labelled([1, 2, 2, 1]), ("1", "2", "2", "1"), "from-one"),
    "missing labels": Case(labelled(["AI", "", "PL", None, "AI", "PL"]), ("AI", None, "PL", None, "AI", "PL")),
    "splits": Case(
        labelled(NAMES * 3, TEXTS[:3], split=["Training"] * 8 + ["Dev", "Dev", "TEST", "test"]),
        ("PL", "AI"),
        split="Test",
    ),
    "pairs": Case(labelled(NAMES, text_pair=[*TEXTS[1:], ""]), NAMES),
    "long rows": Case(labelled(NAMES, [LONG, TEXTS[0], LONG[400:], TEXTS[1]]), NAMES),
    "duplicates": Case(labelled(NAMES, [TEXTS[0], TEXTS[1]]), NAMES),
    "other columns": Case(labelled(NAMES, prediction=["x"], year=[2020, 2021], id=["a", "a", "a#2", "b"]), NAMES),
    "questions": Case(
        [*map(asked, TEXTS, [TEXTS[0], TEXTS[2], LONG, f"Past the mill {LONG}"])],
        model="answers",
    ),
}


@dataclass
class Answer:
    """What a door says of every row, in the order of the file; an empty list is nothing."""

    label: list[str | None] = field(default_factory=list)
    """The class that the label means."""
    prediction: list[str] = field(default_factory=list)
    probability: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """How many tokens the model reads of the row."""
    scores: list[Any] = field(default_factory=list)
    """Of attcat for the prediction."""
    spread: list[float | None] = field(default_factory=list)
    """Entropy of the scores of attcat for the label; for the prediction of a question."""
    agreement: list[float | None] = field(default_factory=list)
    """Of attcat and gradient for the same."""


@dataclass(frozen=True)
class Visit:
    """A case with its file and its model."""

    case: Case
    path: Path
    folder: Path
    model: sl.Model
    target: str
    server: Running

    @property
    def rows(self) -> list[dict[str, Any]]:
        wanted = self.case.split and self.case.split.casefold()
        return [row for row in self.case.rows if wanted is None or row["split"].casefold() == wanted]

    def texts(self) -> list[tuple[str, str | None]]:
        """What the model reads of every row: of questions, the question first."""
        pairs = [(row["text"], row.get("text_pair") or None) for row in self.rows]
        return [(pair, text) for text, pair in pairs] if self.case.model == "answers" else pairs


def at_explain(visit: Visit) -> Answer:
    answer = Answer(list(visit.case.classes))
    for number, (text, pair) in enumerate(visit.texts()):
        encoding = visit.model.encode(text, pair)
        predicted = visit.model.explain(encoding, "attcat")
        answer.prediction.append(predicted.prediction.label)
        answer.probability.append(predicted.prediction.probability)
        answer.tokens.append(len(encoding))
        answer.scores.append(predicted.scores)
        target = answer.label[number] if answer.label else None
        if answer.label and target is None:
            answer.spread.append(None)
            answer.agreement.append(None)
            continue
        explained = visit.model.explain(encoding, methods=METHODS, target=target)
        units = removable_units(encoding, explained["attcat"].target, "word")
        scores = [units.fold(explained[method].scores.astype(float)) for method in METHODS]
        answer.spread.append(METRICS.get("entropy").compute({"scores": scores[0]}.__getitem__))
        both = {"scores": scores[0], "other_scores": scores[1]}
        answer.agreement.append(METRICS.get("spearman").compute(both.__getitem__))
    return answer


def known(labels: Iterable[Any]) -> list[str | None]:
    """Return the labels of a table, None where they are missing."""
    return [label if isinstance(label, str) else None for label in labels]


def at_run(visit: Visit, tmp_path: Path) -> Answer:
    selection = sl.Selection(split=visit.case.split)
    store = sl.run(visit.path, visit.model, ["attcat"], out=tmp_path / "out", measures=[], selection=selection)
    frame = store.documents()
    assert frame["error"].isna().all()
    assert (frame["dropped"] == 0).all()
    return Answer(
        known(frame["label"]) if visit.case.classes else [],
        list(frame["prediction"]),
        list(frame["probability"]),
        list(frame["tokens"]),
        [store.document(int(row)).explanations["attcat"].scores for row in frame["row"]],
    )


def at_evaluate(visit: Visit, tmp_path: Path) -> Answer:
    rows = read_examples(visit.path, split=visit.case.split)
    measured = sl.evaluate(visit.model, rows, ["attcat"], ["entropy"], target=visit.target)
    assert len(measured.documents) == len(rows)
    values = {record.document: record.value for record in measured.records}
    return Answer(spread=[values[row.id] for row in rows])


def at_compare(visit: Visit, tmp_path: Path) -> Answer:
    rows = read_examples(visit.path, split=visit.case.split)
    compared = sl.compare(visit.model, rows, METHODS, ["spearman"], target=visit.target, permutations=1)
    values = {pair.document: pair.value for pair in compared.pairs}
    return Answer(agreement=[values.get(row.id) for row in rows])


def at_inspect(visit: Visit, tmp_path: Path) -> Answer:
    rows = read_examples(visit.path, split=visit.case.split)
    predictions = inspect_dataset(visit.model, rows).predictions
    frame = predictions.to_frame()
    return Answer(
        known(frame["label"]),
        list(frame["predicted"]),
        list(frame["probability"]),
        [len(encoding) for encoding in predictions.encodings],
    )


def at_the_server(visit: Visit, tmp_path: Path) -> Answer:
    answer = Answer()
    for text, pair in visit.texts():
        response = visit.server.explain(text=text, pair=pair, model=visit.folder.name, methods=["attcat"])
        assert response.status_code == 200, response.text
        result = response.json()
        answer.prediction.append(result["prediction"]["label"])
        answer.probability.append(result["prediction"]["probability"])
        answer.tokens.append(len(result["tokens"]))
        answer.scores.append(np.array(result["explanations"]["attcat"]["scores"]))
    return answer


DOORS: dict[str, Callable[[Visit, Path], Answer]] = {
    "run": at_run,
    "evaluate": at_evaluate,
    "compare": at_compare,
    "inspect --data": at_inspect,
    "serve": at_the_server,
}
CLOSED = {("questions", "inspect --data")}
"""An inspection of a data set is for models with classes."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny models, which read 128 tokens at once."""
    root = tmp_path_factory.mktemp("models")
    for name, classes in CLASSES.items():
        if classes is None:
            module = tiny_module("bert", dtype=torch.float32, auto=AutoModelForQuestionAnswering, num_labels=2)
        else:
            labels = {"id2label": dict(enumerate(classes)), "num_labels": len(classes)}
            module = tiny_module("bert", dtype=torch.float32, **labels)
        module.save_pretrained(root / name)
        wordpiece().save_pretrained(root / name)
    return {name: root / name for name in CLASSES}


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> dict[str, sl.Model]:
    return {name: sl.load(folder) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def server(folders: dict[str, Path]) -> Iterator[Running]:
    running = Running(models=tuple(map(str, folders.values())))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def expected() -> dict[str, Answer]:
    """What `explain` says, by case."""
    return {}


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("door", DOORS)
def test_a_row_means_the_same_at_every_door(name, door, tmp_path, folders, models, server, expected):
    if (name, door) in CLOSED:
        pytest.skip("this door is not for such models")
    case = CASES[name]
    path = write(tmp_path / "data.jsonl", case.rows)
    target = "label" if case.classes else "predicted"
    visit = Visit(case, path, folders[case.model], models[case.model], target, server)
    if name not in expected:
        expected[name] = at_explain(visit)
    want, found = expected[name], DOORS[door](visit, tmp_path)
    assert any(vars(found).values())
    for quantity in ("label", "prediction", "tokens"):
        assert getattr(found, quantity) in ([], getattr(want, quantity)), quantity
    for quantity in ("probability", "spread", "agreement"):
        if values := getattr(found, quantity):
            assert values == [None if one is None else pytest.approx(one, abs=1e-6) for one in getattr(want, quantity)]
    for scores, those in zip(found.scores, want.scores, strict=bool(found.scores)):
        np.testing.assert_allclose(scores, those, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_training_reads_the_rows_that_the_other_doors_read(name, tmp_path):
    case = CASES[name]
    path = write(tmp_path / "data.jsonl", case.rows)
    task = "question_answering" if case.model == "answers" else "sequence_classification"
    data = read_training_data(path, task=task)
    assert data.left_out == sum(label is None for label in case.classes)
    if case.split is not None:
        rows = list(data.test)
        assert [row.id for row in rows] == [row.id for row in read_examples(path, split=case.split)]
    else:
        order = [row.id for row in read_examples(path)]
        rows = sorted((*data.train, *data.validation), key=lambda row: order.index(row.id))
        assert not data.test
    there = [row for row in read_examples(path, split=case.split) if row.label is not None or not case.classes]
    assert [(row.text, row.pair, row.answer) for row in rows] == [(row.text, row.pair, row.answer) for row in there]
    # The classes are new ones, in an order of their own: rows of one class stay rows of one class.
    classes = [number for numbers in data.classes(rows) for number in numbers]
    meant = [label for label in case.classes if label is not None]
    assert [classes.index(number) for number in classes] == [meant.index(label) for label in meant]


@pytest.mark.parametrize(
    ("model", "target", "label"),
    [
        ("named", 1, "PL"),
        ("named", "1", "PL"),
        ("named", "pl", "PL"),
        ("signs", -1, "-1"),
        ("signs", "+1", "1"),
        ("from-one", 1, "1"),
        ("from-one", "2", "2"),
    ],
)
def test_a_target_is_the_same_class_at_every_door(model, target, label, models, server, tmp_path):
    assert models[model].explain(TEXTS[0], "attcat", target=target).target.label == label
    store = sl.run([TEXTS[0]], models[model], ["attcat"], out=tmp_path / "run", measures=[], target=target)
    assert store.document(0).explanations["attcat"].target.label == label
    inspected = inspect_dataset(models[model], [TEXTS[0]], target=target)
    assert [words.first.target.label for words in inspected.words] == [label]
    answer = server.explain(text=TEXTS[0], model=model, methods=["attcat"], target=target).json()
    assert answer["explanations"]["attcat"]["target"]["label"] == label


@pytest.mark.parametrize(
    ("name", "labels", "reason"),
    [("named", ["AI", 1, "PL", 0], "cannot be told apart"), ("from-one", [0, 1, 1, 0], "no class named '0'")],
)
def test_labels_that_may_be_names_or_numbers_are_refused_before_anything_is_computed(
    name, labels, reason, models, tmp_path
):
    path = write(tmp_path / "data.jsonl", labelled(labels))
    model, read = models[name], read_examples(path)
    sentences = set()
    for door in (
        lambda: sl.run(path, model, ["attcat"], out=tmp_path / "out"),
        lambda: sl.evaluate(model, path, ["attcat"], ["entropy"]),
        lambda: sl.compare(model, path, METHODS, target="label"),
        lambda: inspect_dataset(model, read),
    ):
        with pytest.raises(InputError, match=reason) as refusal:
            door()
        sentences.add(str(refusal.value))
    assert len(sentences) == 1
    assert not list((tmp_path / "out").glob("documents/*"))
    with pytest.raises(InputError, match="stopped before it had read"):
        sl.open_run(tmp_path / "out")


def test_a_label_that_is_no_class_is_no_class_at_any_door(models, tmp_path):
    path = write(tmp_path / "data.jsonl", labelled([-1, 1, 1, -1]))
    model, says = models["named"], "The label '-1' is not a class of the model. Its classes: AI, PL, other."
    store = sl.run(path, model, ["attcat"], out=tmp_path / "out", measures=[])
    assert store.documents()["correct"].isna().all()
    assert store.documents()["label"].tolist() == ["-1", "1", "1", "-1"]
    measured = sl.evaluate(model, path, ["attcat"], ["entropy"], target="label")
    assert measured.records[0].error == says
    assert all(record.status == "failed" for record in measured.records)
    compared = sl.compare(model, path, METHODS, ["spearman"], target="label")
    assert compared.failures[0].error == says
    with pytest.raises(TargetError) as refusal:
        inspect_dataset(model, read_examples(path))
    assert says in str(refusal.value)
