"""The data sets of the AttCAT study, shortened for a quick run, and the models that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sightline.api.model import Model
from sightline.errors import UsageError
from sightline.evaluation.planted import BATCH, PlantedTask
from sightline.evaluation.planted import train as train_planted
from sightline.text import Example
from sightline.text.sentences import sentence_starts
from sightline_studies.base_models import classifier, fine_tuned
from sightline_studies.data import DataSet
from sightline_studies.generated import planted_sentences
from sightline_studies.workbench import Subject, Workbench

ROLES = {
    **dict.fromkeys(("sst2", "amazon", "yelp", "imdb"), ("sentiment",)),
    "qqp": ("qqp",),
    "mnli": ("mnli",),
    **dict.fromkeys(("squad", "squad_v2"), ("squad", "squad2", "squad3")),
}
"""Data set -> roles of the models that read it; questions are put to as many models as are given."""
QUESTIONS = ("squad", "squad_v2")
MORE_PAIRS = "snli"
"""Data set whose pairs the model of mnli is trained on as well, since it has the same three classes."""


def choose_subjects(bench: Workbench) -> tuple[list[tuple[DataSet, Subject]], list[str]]:
    """Return data sets with the models that read them, and what is left out for want of a model or data.

    The first documents of a data set are explained; accuracy is measured on all of them. A model that was not given is
    trained on the first data set of its role (`base_models`).
    """
    if not bench.sources.paths:
        rows = max(bench.number("documents"), bench.number("tested"))
        data = bench.read("sst2", lambda: planted_sentences(rows, bench.seed + 1), documents=rows)
        return [(data, bench.given_model("sentiment") or planted_subject(bench))], [
            "SST-2, QQP, MNLI, Amazon, Yelp, IMDB and SQuAD: give the files with --data and the models with --model."
        ]
    chosen: list[tuple[DataSet, Subject]] = []
    left_out = []
    readers: dict[tuple[str, ...], list[Subject]] = {}
    for name, roles in ROLES.items():
        if name not in bench.sources.paths:
            left_out.append(f"{name}: needs --data {name}=FILE.")
            continue
        given = [subject for role in roles if (subject := bench.given_model(role)) is not None]
        data = _read(bench, name, train=not given and roles not in readers)
        if roles not in readers:
            readers[roles] = given or _train_readers(bench, name, roles, data.train)
        if not readers[roles]:
            left_out.append(f"{name}: needs --model {roles[0]}=FOLDER, or --model base=FOLDER to train one from.")
        chosen += [(data, subject) for subject in readers[roles]]
    if not chosen:
        without_model = [sentence for sentence in left_out if "--model" in sentence]
        raise UsageError(" ".join(["No model reads these data.", *without_model[:1]]))
    return chosen, left_out


def _train_readers(bench: Workbench, name: str, roles: Sequence[str], rows: Sequence[Example]) -> list[Subject]:
    """Return the models that a study trains for a role."""
    if name in QUESTIONS:
        trained = [
            fine_tuned(bench, roles[0], rows, "question_answering"),
            fine_tuned(bench, f"{roles[0]}-shorter", rows, "question_answering", shorter=True),
        ]
        return [subject for subject in trained if subject is not None]
    return [classifier(bench, roles[0], roles[0], rows)]


def _read(bench: Workbench, name: str, *, train: bool) -> DataSet:
    """Return a data set with its texts shortened, and rows to train on if the model has to be trained."""
    documents = bench.number("documents")
    tested = max(documents, bench.number("questions" if name in QUESTIONS else "tested"))
    training = bench.number("training") if train else 0
    data = bench.read(name, list, documents=tested, training=training)
    rows = list(data.train)
    if train and name == "mnli" and MORE_PAIRS in bench.sources.paths:
        rows += bench.read(MORE_PAIRS, list, documents=1, training=max(1, training - len(rows))).train
    cut = _shortening(bench, name)
    return replace(data, train=[cut(row) for row in rows], test=[cut(row) for row in data.test])


def _shortening(bench: Workbench, name: str) -> Callable[[Example], Example]:
    if name in QUESTIONS:
        return keep_answer_sentence if bench.number("answer_sentence") else lambda row: row
    words = bench.number("words")
    return partial(first_words, words=words) if words else lambda row: row


def first_words(example: Example, words: int) -> Example:
    """Return a document cut after so many words; pairs of texts stay whole."""
    pieces = str(example.text).split()
    if example.pair is not None or len(pieces) <= words:
        return example
    return replace(example, text=" ".join(pieces[:words]))


def keep_answer_sentence(example: Example) -> Example:
    """Return a question on the one sentence of its context that holds the first answer; the answers in it are kept.

    An answer that continues in the next sentence keeps both. A question without an answer keeps its first sentence.
    """
    text, answers = str(example.text), example.answer or ()
    starts = sentence_starts(text)
    first, last = answers[0] if answers else (0, 1)
    begin = int(starts[np.searchsorted(starts, first, side="right") - 1])
    after = int(np.searchsorted(starts, last, side="left"))
    end = int(starts[after]) if after < len(starts) else len(text)
    kept = tuple((start - begin, stop - begin) for start, stop in answers if begin <= start and stop <= end)
    return replace(example, text=text[begin:end].rstrip(), answer=None if example.answer is None else kept)


def planted_subject(bench: Workbench) -> Subject:
    """Return a tiny BERT trained on generated sentences, in seconds."""
    steps, seed = bench.number("steps"), bench.seed

    def make() -> Model:
        documents = PlantedTask().documents(steps * BATCH, np.random.default_rng(seed))
        labels = [document.label for document in documents]
        return train_planted(documents, labels, steps=steps, seed=seed, progress=bench.progress)

    return bench.made_model("tiny BERT trained on planted words", {"steps": steps}, make)
