"""Training on generated rows: what is learnt, written, resumed and refused. Tiny models, a few steps each."""

from __future__ import annotations

import json
import random
import re
import resource
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoModelForTokenClassification
from typer.testing import CliRunner

import sightline as sl
from sightline.cli.app import app
from sightline.errors import InputError, ModelError, OptionError, SightlineError, UsageError
from sightline.lab.card import metric_with_interval
from sightline.lab.checkpoints import writing_failure
from sightline.lab.starting_points import starting_point
from sightline.lab.train import _class_weights
from sightline.lab.trainer import ClassifierTrainer, DivergedError
from sightline.lab.training_data import read_training_data
from sightline.lab.training_tasks import TokenisedRows
from sightline.settings.training import StartingSettings, TrainingSettings
from sightline.text import Example
from sightline.text.new_tokenizers import learn_subword_tokenizer, learn_word_tokenizer, word_tokenizer
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import byte_level, unigram, wordpiece

SIDES = {"good": ["great", "lovely", "superb"], "bad": ["awful", "dull", "poor"]}
FILLERS = ["the", "film", "plot", "was", "and"]
SMALL = {"sizes": {"embedding_size": 16, "hidden_size": 16}, "learning_rate": 0.02, "batch": 16}


def rows(count=64, seed=0):
    """Documents of six words, one of which decides the class."""
    generator = random.Random(seed)
    made = []
    for number in range(count):
        label = list(SIDES)[number % 2]
        words = [*generator.choices(FILLERS, k=5), generator.choice(SIDES[label])]
        generator.shuffle(words)
        made.append({"text": " ".join(words), "label": label})
    return made


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab") / "model"
    return sl.lab.train(rows(), "new-bilstm", out=folder, epochs=6, projection="sparsemax", **SMALL)


def test_a_new_model_learns_the_task_and_every_door_takes_it(trained):
    assert trained.metrics["validation"]["accuracy"] == 1
    assert trained.labels == ("bad", "good")
    model = sl.load(trained.folder)
    explanation = model.explain("the plot was superb and the film", "raw_attention")
    assert explanation.prediction.label == "good"
    assert explanation.scores.sum() == pytest.approx(1)
    assert model.network.config.projection == "sparsemax"


def test_the_folder_says_how_the_model_was_made(trained):
    card = (trained.folder / "README.md").read_text()
    assert "| train | 58 | bad: 29, good: 29 |" in card
    assert "| validation | 1.000 (0.541 to 1.000) |" in card
    record = json.loads((trained.folder / "training.json").read_text())
    assert record["settings"]["epochs"] == 6
    assert {"loss", "step"} <= set(record["history"][0])
    assert not trained.folder.with_name("model.training").exists()
    assert not list(trained.folder.glob("*.bin"))
    assert list(trained.to_frame()["step"])[-1] == trained.steps


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights_and_leaves_the_random_state_alone(trained, tmp_path):
    before = torch.get_rng_state()
    again = sl.lab.train(rows(), "new-bilstm", out=tmp_path / "again", epochs=6, projection="sparsemax", **SMALL)
    assert torch.equal(torch.get_rng_state(), before)
    assert sl.load(again.folder).network.weights_hash == sl.load(trained.folder).network.weights_hash


class InterruptedTestError(Exception):
    pass


@pytest.mark.slow
def test_a_run_that_was_interrupted_resumes_with_the_same_curve(trained, tmp_path):
    def stop(stage, done, total):
        if done == 14:
            raise InterruptedTestError

    options = {"out": tmp_path / "model", "epochs": 6, "projection": "sparsemax", **SMALL}
    with pytest.raises(InterruptedTestError):
        sl.lab.train(rows(), "new-bilstm", progress=stop, **options)
    assert not (tmp_path / "model").exists()
    with pytest.raises(UsageError, match="holds checkpoints of an earlier run"):
        sl.lab.train(rows(), "new-bilstm", **options)
    with pytest.raises(UsageError, match="other settings of learning_rate"):
        sl.lab.train(rows(), "new-bilstm", resume=True, **{**options, "learning_rate": 0.1})
    with pytest.raises(UsageError, match="other settings of data"):
        sl.lab.train(rows(seed=5), "new-bilstm", resume=True, **options)
    # As a kill in the middle of writing leaves it.
    (tmp_path / "model.training" / "checkpoint-900").mkdir()
    resumed = sl.lab.train(rows(), "new-bilstm", resume=True, **options)
    for entry, expected in zip(resumed.history, trained.history, strict=True):
        assert entry.get("loss") == expected.get("loss")
        assert entry.get("eval_loss") == expected.get("eval_loss")
    assert sl.load(resumed.folder).network.weights_hash == sl.load(trained.folder).network.weights_hash


@pytest.mark.slow
def test_a_run_that_was_killed_before_its_first_step_leaves_nothing_that_refuses_to_resume(tmp_path, monkeypatch):
    def fail(path, content):
        raise InterruptedTestError

    monkeypatch.setattr(sys.modules["sightline.lab.train"], "write_whole", fail)
    with pytest.raises(InterruptedTestError):
        sl.lab.train(rows(), "new-bilstm", out=tmp_path / "model", **SMALL)
    assert list(tmp_path.iterdir()) == []


def bert_folder(folder, **facts):
    words = [*FILLERS, *(word for side in SIDES.values() for word in side)]
    tokenizer = word_tokenizer(words)
    module = tiny_module("bert", dtype=torch.float32, vocab_size=len(tokenizer), pad_token_id=0, **facts)
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_checkpoint_with_other_classes_gets_a_new_head(tmp_path):
    source = bert_folder(tmp_path / "bert")
    result = sl.lab.train(rows(), source, out=tmp_path / "tuned", max_steps=3, learning_rate=1e-3)
    model = sl.load(result.folder)
    assert tuple(model.labels) == ("bad", "good")
    changed = sl.load(source).network.module.bert.embeddings.word_embeddings.weight
    assert torch.allclose(model.network.module.bert.embeddings.word_embeddings.weight, changed, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("attention", [None, "entmax15"])
def test_a_longformer_trains_on_the_band_with_dropout(attention, tmp_path):
    source = bert_folder(tmp_path / "bert", attention_probs_dropout_prob=0.2)
    sl.lab.convert(source, out=tmp_path / "long", positions=256, window=16, attention=attention)
    result = sl.lab.train(rows(24), tmp_path / "long", out=tmp_path / "tuned", max_steps=3, batch=4)
    model = sl.load(result.folder)
    assert model.network.banded
    assert np.isfinite(model.explain("the plot was superb and the film", "attcat").scores).all()


@pytest.mark.slow
def test_an_encoder_without_head_can_be_tuned_and_one_without_layers_cannot(tmp_path):
    from safetensors.torch import load_file, save_file

    source = bert_folder(tmp_path / "bert")
    weights = load_file(source / "model.safetensors")
    bare = {name: value for name, value in weights.items() if not name.startswith("classifier.")}
    save_file(bare, source / "model.safetensors", metadata={"format": "pt"})
    sl.lab.train(rows(), source, out=tmp_path / "tuned", max_steps=2)
    bare.pop("bert.encoder.layer.1.output.dense.weight")
    save_file(bare, source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lack 1 of the encoder \(for example encoder.layer.1.output.dense.weight\)"):
        sl.lab.train(rows(), source, out=tmp_path / "other", max_steps=2)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["", "0_Transformer"])
def test_the_transformer_of_a_sentence_transformers_folder_can_be_tuned(place, tmp_path):
    from transformers import AutoModel

    folder = bert_folder(tmp_path / "sentences" / place)
    AutoModel.from_pretrained(folder).save_pretrained(folder)
    (tmp_path / "sentences" / "1_Pooling").mkdir()
    (tmp_path / "sentences" / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    kinds = [(place, "Transformer"), ("1_Pooling", "Pooling")]
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds]
    (tmp_path / "sentences" / "modules.json").write_text(json.dumps(modules))
    result = sl.lab.train(rows(), tmp_path / "sentences", out=tmp_path / "tuned", max_steps=1, learning_rate=1e-9)
    tuned, body = sl.load(result.folder).network.module, AutoModel.from_pretrained(folder)
    assert tuned.num_labels == 2
    for name, value in body.encoder.state_dict().items():
        torch.testing.assert_close(tuned.bert.encoder.state_dict()[name], value, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_training_and_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    compute = ClassifierTrainer.compute_loss

    def explode(self, *arguments, **options):
        loss = compute(self, *arguments, **options)
        return loss * float("nan") if self.model.training and self.state.global_step == 6 else loss

    monkeypatch.setattr(ClassifierTrainer, "compute_loss", explode)
    with pytest.raises(DivergedError, match=r"step 7 is nan.*last good checkpoint is in .*checkpoint-4"):
        sl.lab.train(rows(), "new-bilstm", out=tmp_path / "model", epochs=6, **SMALL)
    assert not (tmp_path / "model").exists()
    assert (tmp_path / "model.training" / "checkpoint-4" / "model.safetensors").is_file()


@pytest.fixture
def small_files():
    """No file may grow beyond 100 kB, as on a disk that is nearly full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.slow
def test_a_checkpoint_that_does_not_fit_on_the_disk_is_reported(tmp_path, small_files):
    sizes = {"embedding_size": 128, "hidden_size": 128}
    with pytest.raises(UsageError, match=r"A checkpoint could not be written to .*Make room and go on"):
        sl.lab.train(rows(16), "new-bilstm", out=tmp_path / "model", max_steps=1, sizes=sizes)
    assert not (tmp_path / "model").exists()


def test_an_error_of_the_model_is_no_full_disk():
    with pytest.raises(RuntimeError, match="shapes"):
        writing_failure(RuntimeError("shapes do not fit"))
    assert "disk may be full" in writing_failure(RuntimeError("[enforce fail at inline_container.cc:672] . unexpected"))


@pytest.mark.slow
def test_a_full_disk_is_reported_with_advice(tmp_path, monkeypatch):
    def fail(self, *arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ClassifierTrainer, "_save_checkpoint", fail)
    with pytest.raises(UsageError, match=r"no space left on device. Make room and go on"):
        sl.lab.train(rows(), "new-bilstm", out=tmp_path / "model", epochs=1, **SMALL)


def test_rows_are_split_by_class_or_by_the_field_split(tmp_path):
    data = read_training_data(rows(40), validation=0.25)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [30, 10, 0]
    assert sum(number for (number,) in data.classes(data.validation)) == 5
    path = tmp_path / "data.jsonl"
    splits = ["train"] * 20 + ["dev"] * 6 + ["test"] * 4
    path.write_text("".join(json.dumps({**row, "split": s}) + "\n" for row, s in zip(rows(30), splits, strict=True)))
    data = read_training_data(path)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [20, 6, 4]


@pytest.mark.parametrize("names", [("Train", "Val", "TEST"), ("training", "valid", "test"), ("train", "DEV", "Test")])
def test_splits_keep_their_rows_under_all_usual_names(names, tmp_path):
    splits = [names[0]] * 20 + [names[1]] * 6 + [names[2]] * 4
    made = [{**row, "split": split} for row, split in zip(rows(30), splits, strict=True)]
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    texts = [row["text"] for row in made]
    for source in (path, made):
        data = read_training_data(source)
        parts = [[row.text for row in part] for part in (data.train, data.validation, data.test)]
        assert parts == [texts[:20], texts[20:26], texts[26:]]
        assert data.notes[0] == "Rows: 20 for training, 6 for validation (as the data set says), 4 for test."


@pytest.mark.parametrize("task", ["sequence_classification", "masked_lm"])
def test_rows_with_equal_texts_are_held_out_together(task):
    texts = [f"text number {number}" for number in range(20)]
    made = [{"text": text, "label": number % 2} for number, text in enumerate(texts)] * 3
    data = read_training_data(made, validation=0.2, task=task)
    assert not {row.text for row in data.train} & {row.text for row in data.validation}
    assert [len(data.train), len(data.validation)] == [48, 12]
    assert data.notes[1:] == ("40 rows repeat the text of another row.",)
    changed = [{**row, "text": row["text"].title() if place >= 20 else row["text"]} for place, row in enumerate(made)]
    held_out = {row.text.casefold() for row in read_training_data(changed, validation=0.2, task=task).validation}
    assert len(held_out) == 4
    # A second text makes another document.
    pairs = [{**row, "text_pair": str(place)} for place, row in enumerate(made)]
    assert len(read_training_data(pairs, validation=0.2, task=task).notes) == 1


def test_without_a_second_text_per_class_rows_are_held_out_and_said_to_be_known():
    data = read_training_data([("a b", 0), ("c d", 1)] * 5, validation=0.2)
    assert [len(data.train), len(data.validation)] == [8, 2]
    assert data.notes[2].startswith("2 of 2 validation rows have a text that is also trained on")


def test_labels_that_differ_only_in_case_or_blanks_are_one_class(tmp_path):
    labels = ["Bad", "bad ", "Bad", "very  good", "Very good", "very good", "very good"] * 3
    made = [{"text": f"text {number}", "label": label} for number, label in enumerate(labels)]
    path = tmp_path / "data.csv"
    path.write_text("text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in made))
    for source in (made, path):
        data = read_training_data(source)
        assert data.labels == ("Bad", "very good")
        assert {row.label for row in (*data.train, *data.validation)} == {"Bad", "very good"}
        assert data.notes[1:] == (
            "Labels read as 'Bad', from which they differ only in case or blanks: 'bad'.",
            "Labels read as 'very good', from which they differ only in case or blanks: 'very  good', 'Very good'.",
        )
    tagged = [{"text": f"Ann number {number}", "label": "per O o"} for number in range(6)]
    assert read_training_data(tagged, task="token_classification").labels == ("O", "per")


def test_a_text_with_two_labels_takes_no_class_out_of_training():
    made = [{"text": f"text {number}", "label": "a"} for number in range(6)]
    made += [{"text": "text 0", "label": "b"}, {"text": "text 1", "label": "b"}]
    for seed in range(10):
        data = read_training_data(made, validation=0.4, seed=seed)
        assert data.labels == ("a", "b")
        assert not {row.text for row in data.train} & {row.text for row in data.validation}


def test_given_splits_that_share_texts_are_named():
    splits = ["train"] * 10 + ["validation"] * 5 + ["test"] * 3
    made = [{"text": f"text {number}", "label": number % 2} for number in range(18)]
    made[11]["text"], made[12]["text"], made[17]["text"] = "text 3", "text 4", "text 11"
    data = read_training_data([{**row, "split": split} for row, split in zip(made, splits, strict=True)])
    assert data.notes[1] == "2 rows repeat the text of another row."
    assert data.notes[2].startswith("2 of 5 validation rows have a text that is also trained on")
    assert len(data.notes) == 3


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (["train"] * 6 + ["holdout"] * 2, r"splits .* are train \(6 rows\), holdout \(2 rows\)"),
        (["train"] * 6 + ["", None], r"train \(6 rows\), empty \(2 rows\)"),
        (["test"] * 8, r"No row .* is in the split train. Its splits: test \(8 rows\)"),
    ],
)
def test_splits_that_cannot_be_used_are_refused_by_name(splits, message):
    with pytest.raises(InputError, match=message):
        read_training_data([{**row, "split": split} for row, split in zip(rows(8), splits, strict=True)])


def test_a_saved_data_set_keeps_its_splits_and_one_without_splits_is_divided(tmp_path):
    datasets = pytest.importorskip("datasets")
    made = rows(30)
    whole = datasets.Dataset.from_list(made)
    whole.save_to_disk(tmp_path / "whole")
    data = read_training_data(tmp_path / "whole", validation=0.2)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [24, 6, 0]
    parts = {"Train": whole.select(range(20)), "val": whole.select(range(20, 26)), "test": whole.select(range(26, 30))}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "parts")
    data = read_training_data(tmp_path / "parts")
    assert [row.text for row in data.validation] == [row["text"] for row in made[20:26]]
    assert [row.text for row in data.test] == [row["text"] for row in made[26:]]


def test_a_limit_draws_of_every_class_its_share_the_same_rows_for_the_same_seed(tmp_path):
    """A file sorted by label, whose first rows are all of one class."""
    sorted_rows = [*sorted(rows(90), key=lambda row: row["label"]), {"text": "the odd film", "label": "odd"}]
    made = [{**row, "text": f"{row['text']} {number}"} for number, row in enumerate(sorted_rows)]
    data = read_training_data(made, limit=31, validation=0.2)
    counts = Counter(row.label for row in (*data.train, *data.validation))
    assert counts == {"bad": 15, "good": 15, "odd": 1}
    texts = [row.text for row in data.train]
    assert texts == sorted(texts, key=[row["text"] for row in made].index)
    again, other = (read_training_data(made, limit=31, validation=0.2, seed=seed) for seed in (0, 1))
    assert again == data
    assert {row.text for row in other.train} != set(texts)
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({**row, "split": "train"}) + "\n" for row in made))
    assert [row.text for row in read_training_data(path, limit=31, validation=0.2).train] == texts
    with pytest.raises(OptionError, match="limit=2 is too few: .* have 3 classes"):
        read_training_data(made, limit=2)
    assert len(read_training_data(made, limit=1000).train) == len(read_training_data(made).train)


def test_a_limit_keeps_the_shares_of_unequal_classes():
    made = [
        {"text": f"text {number}", "label": label}
        for label, size in (("a", 700), ("b", 200), ("c", 100))
        for number in range(size)
    ]
    data = read_training_data(made, limit=50)
    assert Counter(row.label for row in (*data.train, *data.validation)) == {"a": 35, "b": 10, "c": 5}


def test_a_bad_row_of_the_validation_split_is_an_error_and_not_a_missing_split(tmp_path):
    path = tmp_path / "data.jsonl"
    made = [{**row, "split": "train" if number < 20 else "validation"} for number, row in enumerate(rows(30))]
    made[25]["label"] = 1.5
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    with pytest.raises(InputError, match=r"line 26: the label 1.5 is not a class"):
        read_training_data(path)


@pytest.mark.slow
def test_rows_without_text_or_label_are_left_out_and_counted(tmp_path):
    made = [*rows(24), {"text": "the film", "label": float("nan")}, {"text": "", "label": "good"}, {"text": "plot"}]
    result = sl.lab.train(made, "new-bilstm", out=tmp_path / "model", max_steps=1, **SMALL)
    assert result.left_out == 3
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    outcome = CliRunner().invoke(app, ["train", str(path), "--out", str(tmp_path / "other"), "--epochs", "1"])
    assert "Note: left out 3 rows without text or label." in outcome.stderr


@pytest.mark.slow
def test_accumulated_gradients_are_those_of_one_larger_batch(tmp_path):
    source = saved(
        tmp_path / "base", AutoModelForSequenceClassification, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    made = [{"text": row["text"], "label": row["label"].split()[0]} for row in named_rows()]
    curves = []
    for batch, accumulate in ((8, 1), (4, 2)):
        out = tmp_path / str(batch)
        result = sl.lab.train(made, source, out=out, max_steps=3, batch=batch, accumulate=accumulate)
        curves.append([entry["grad_norm"] for entry in result.history if "loss" in entry])
    # Batches of equally long texts, so that both runs see the same rows in every step.
    assert curves[0] == pytest.approx(curves[1], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("names", "stays"), [(("0", "1"), True), (("bad", "good"), False)])
def test_a_head_stays_only_if_its_classes_are_the_same(names, stays, tmp_path):
    """Numbers count the classes of the model; other names are other classes, even if there are as many."""
    source = bert_folder(tmp_path / "bert", num_labels=2, id2label={0: "negative", 1: "positive"})
    made = [{**row, "label": names[number % 2]} for number, row in enumerate(rows())]
    result = sl.lab.train(made, source, out=tmp_path / "tuned", max_steps=1, learning_rate=1e-9)
    before, after = (sl.load(folder).network.module for folder in (source, result.folder))
    assert torch.allclose(before.classifier.weight, after.classifier.weight, atol=1e-6) == stays
    torch.testing.assert_close(before.bert.pooler.dense.weight, after.bert.pooler.dense.weight, atol=1e-6, rtol=0)


def test_class_weights_balance_the_classes():
    data = read_training_data([*rows(20)[::2], *rows(80)[1::2]])
    weights = _class_weights(data)
    counts = np.bincount(np.ravel(data.classes(data.train)))
    np.testing.assert_allclose(weights.numpy() * counts, len(data.train) / 2)


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        ([{"text": "a b"}] * 8, {}, InputError, "No row .* has a label"),
        ([{"text": "a b", "label": 1}] * 8, {}, InputError, "a classifier needs two classes"),
        ([("a b", 0), ("a c", 1)], {}, InputError, "too few to train on"),
        ([(f"a {n}", n) for n in range(8)], {}, InputError, "Every row has a class of its own"),
        ([("word", 0), ("word", 1)] * 4, {}, InputError, "a vocabulary needs at least two"),
        (rows(8), {"projection": "entmax0.5"}, OptionError, "alpha >= 1"),
        (rows(8), {"projection": "sparsegen2"}, OptionError, "lam < 1"),
        (rows(8), {"model": "new-gru"}, OptionError, "Unknown new model 'new-gru'"),
        (rows(8), {"epochs": 0}, OptionError, "epochs must be a number above 0"),
        (rows(8), {"speed": 3}, OptionError, "no setting 'speed'"),
        (rows(8), {"validation": 1.5}, OptionError, "validation must be a number above 0 and below 1"),
        (rows(8), {"sizes": {"depth": 3}}, OptionError, "no size 'depth'"),
        (rows(8), {"resume": True}, UsageError, "no run to resume"),
        (rows(8), {"max_tokens": 10**6}, OptionError, "more than the 8192 tokens"),
        (rows(8), {"dropout": 1.0}, OptionError, "dropout must be a number of at least 0 and below 1"),
        (rows(8), {"units": "letters"}, OptionError, "units"),
        (rows(8), {"units": "subwords", "vocabulary": 100}, OptionError, "at least 261 entries, not 100"),
        (rows(8), {"best": "f1"}, OptionError, "best"),
        (rows(8), {"epochs": float("inf")}, OptionError, "epochs must be a number above 0"),
        (rows(8), {"learning_rate": float("inf")}, OptionError, "learning_rate must be a number above 0"),
        (rows(8), {"max_tokens": 2}, OptionError, "no room for text beside 2 special tokens"),
        (rows(8), {"projection": "sparsegen-inf"}, OptionError, "lam < 1"),
        (rows(8), {"projection": "entmaxinf"}, OptionError, "alpha >= 1"),
        (
            [*rows(8), {"text": "a \ud800", "label": "good"}],
            {},
            InputError,
            "Row 8: The text has half a surrogate pair",
        ),
        ([{"text": "\u200b", "label": 1}] * 8, {}, InputError, "has a text in the field 'text'"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(data, options, error, message, tmp_path):
    options = {"model": "new-bilstm", "out": tmp_path / "model", **options}
    with pytest.raises(error, match=message):
        sl.lab.train(data, options.pop("model"), **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("file", "exists and is not an empty folder"),
        ("link", "exists and is not an empty folder"),
        ("missing/model", "does not exist. Create it first"),
        ("x" * 250, "file name too long"),
        ("x" * 300, "Cannot write"),
    ],
)
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_read(name, message, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "else")
    with pytest.raises(UsageError, match=message):
        sl.lab.train("no such data set", "new-bilstm", out=tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link"}


def test_a_folder_without_permission_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    def fail(path, flags, mode):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sys.modules["sightline.files.writing"].os, "open", fail)
    with pytest.raises(UsageError, match=r"Cannot write .*model.training': permission denied"):
        sl.lab.train("no such data set", "new-bilstm", out=tmp_path / "model")


def test_numbers_that_are_missing_in_a_table_are_not_a_class(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("text,label\n" + "the film,nan\nthe plot,1\nthe actor,0\n" * 8)
    data = read_training_data(path)
    assert data.labels == ("0", "1")
    assert data.left_out == 8
    named = [{"text": f"text {number}", "label": ("none", "some")[number % 2]} for number in range(8)]
    assert read_training_data(named).labels == ("none", "some")


@pytest.mark.slow
def test_weights_that_diverged_in_the_last_step_are_not_written(tmp_path, monkeypatch):
    predict = ClassifierTrainer.predict

    def diverged(self, rows):
        prediction = predict(self, rows)
        prediction.metrics["test_loss"] = float("nan")
        return prediction

    monkeypatch.setattr(ClassifierTrainer, "predict", diverged)
    with pytest.raises(DivergedError, match="loss of the validation rows is not finite, so no model was written"):
        sl.lab.train(rows(), "new-bilstm", out=tmp_path / "model", max_steps=1, **SMALL)
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_names_of_classes_do_not_break_the_card(tmp_path):
    made = [{**row, "label": f"\x1b[31m{row['label']}\n|x"} for row in rows(24)]
    result = sl.lab.train(made, "new-bilstm", out=tmp_path / "model", max_steps=1, **SMALL)
    card = (result.folder / "README.md").read_text()
    assert "\x1b" not in card
    assert "[31mbad�\\|x: 11" in card


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "tokenizer", "facts"),
    [
        ("gpt2", byte_level, {"pad_token_id": None}),  # a causal model without a pad token
        ("xlnet", unigram, {}),  # relative positions: no number of positions
        ("funnel", wordpiece, {}),
        ("big_bird", wordpiece, {}),  # attention that is replaced after loading
    ],
)
def test_families_with_oddities_are_trained(family, tokenizer, facts, tmp_path):
    reader = tokenizer()
    if family == "gpt2":
        reader.pad_token = None
    module = tiny_module(family, dtype=torch.float32, vocab_size=len(reader), **facts)
    module.save_pretrained(tmp_path / "base")
    reader.save_pretrained(tmp_path / "base")
    result = sl.lab.train(rows(24), tmp_path / "base", out=tmp_path / "model", max_steps=2, batch=4)
    assert tuple(sl.load(result.folder).labels) == ("bad", "good")


def named_rows(count=48, seed=0):
    """Texts with one class per word: names are "person", all other words "other"."""
    generator = random.Random(seed)
    made = []
    for _ in range(count):
        words = generator.choices(["anna", "bert", "the", "river", "old", "mill"], k=6)
        labels = ["person" if word in ("anna", "bert") else "other" for word in words]
        made.append({"text": " ".join(words), "label": " ".join(labels)})
    return made


def saved(folder, auto, **facts):
    """A tiny random BERT with its tokenizer, in a folder."""
    tokenizer = word_tokenizer(["anna", "bert", "the", "river", "old", "mill"])
    module = tiny_module(auto=auto, dtype=torch.float32, vocab_size=len(tokenizer), num_labels=2, **facts)
    module.save_pretrained(folder)
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_words_are_classified_where_the_label_has_one_class_per_word(tmp_path):
    source = saved(tmp_path / "base", AutoModelForTokenClassification)
    result = sl.lab.train(
        named_rows(),
        source,
        out=tmp_path / "model",
        task="token_classification",
        batch=4,
        epochs=12,
        learning_rate=0.005,
    )
    assert result.labels == ("other", "person")
    assert result.metrics["validation"]["accuracy"] == 1
    model = sl.load(tmp_path / "model")
    assert model.task == "token_classification"
    assert model.explain("the old bert", "gradient", position=3).target.name == "person"
    assert "# Token classifier" in (tmp_path / "model" / "README.md").read_text()


def test_the_first_token_of_a_word_carries_its_class():
    dataset = TokenisedRows([Example("old millers, rivers")], [[0, 1, 2]], wordpiece(), 32, "token_classification")
    tokens = wordpiece().convert_ids_to_tokens(dataset[0]["input_ids"])
    assert tokens == ["[CLS]", "old", "mill", "##er", "##s", ",", "river", "##s", "[SEP]"]
    assert dataset[0]["labels"] == [-100, 0, 1, -100, -100, -100, 2, -100, -100]


@pytest.mark.slow
def test_a_masked_language_model_learns_texts_without_labels(tmp_path):
    source = saved(tmp_path / "base", AutoModelForMaskedLM)
    texts = [{"text": "mill mill mill mill mill mill"}] * 40
    options = {"task": "masked_lm", "epochs": 4, "learning_rate": 0.01, "batch": 4}
    result = sl.lab.train(texts, source, out=tmp_path / "model", **options)
    losses = [entry["eval_loss"] for entry in result.history if "eval_loss" in entry]
    assert losses[-1] < losses[0] / 2
    assert "macro_f1" not in result.metrics["validation"]
    again = sl.lab.train(texts, source, out=tmp_path / "again", **options)
    assert again.metrics == result.metrics
    model = sl.load(tmp_path / "model")
    assert sl.load(source).trace("mill [MASK] mill").prediction.label != "mill"
    assert model.trace("mill [MASK] mill").prediction.label == "mill"
    card = (tmp_path / "model" / "README.md").read_text()
    assert "# Masked language model" in card
    assert "F1" not in card
    assert "per class" not in card
    assert "| split | accuracy on hidden tokens | loss |\n|---|---|---|\n| validation | " in card
    assert f"| {result.metrics['validation']['loss']:.4f} |" in card


@pytest.mark.slow
def test_a_body_without_a_head_becomes_a_masked_language_model(tmp_path):
    """A model fine-tuned for classes has lost the head that predicts words; its word embeddings serve a new one."""
    source = saved(tmp_path / "base", AutoModelForSequenceClassification)
    texts = [{"text": "mill mill mill mill mill mill"}] * 40
    options = {"task": "masked_lm", "epochs": 4, "learning_rate": 0.01, "batch": 4}
    result = sl.lab.train(texts, source, out=tmp_path / "model", **options)
    assert result.new_head
    losses = [entry["eval_loss"] for entry in result.history if "eval_loss" in entry]
    assert losses[-1] < losses[0] / 2
    card = (tmp_path / "model/README.md").read_text()
    assert "The head is new: its output embeddings are the word embeddings" in card

    model = sl.load(tmp_path / "model")
    assert model.task == "masked_lm"
    assert not model.network.untrained
    module = model.network.module
    assert module.get_output_embeddings().weight is module.get_input_embeddings().weight
    assert model.trace("mill [MASK] mill").prediction.label == "mill"
    explanation = model.explain("mill [MASK] mill", "gradient", target="mill")
    assert explanation.target.name == "mill"
    assert np.abs(explanation.scores).sum() > 0
    again = sl.lab.train(texts, tmp_path / "model", out=tmp_path / "again", task="masked_lm", max_steps=1)
    assert not again.new_head
    assert "The head is new" not in (tmp_path / "again/README.md").read_text()


def test_training_of_a_masked_language_model_starts_with_the_weights_of_the_body(tmp_path):
    source = saved(tmp_path / "base", AutoModelForSequenceClassification)
    data = read_training_data([{"text": "the old mill"}] * 4, task="masked_lm")
    body, start = (
        AutoModelForSequenceClassification.from_pretrained(source).bert,
        starting_point(source, data, StartingSettings(), {}),
    )
    started = start.module.bert.state_dict()
    for name, value in body.state_dict().items():
        assert name.startswith("pooler.") or torch.equal(started[name], value), name


def test_a_body_whose_word_embeddings_are_not_tied_cannot_become_a_masked_language_model(tmp_path):
    source = saved(tmp_path / "base", AutoModelForSequenceClassification, tie_word_embeddings=False)
    with pytest.raises(ModelError, match="are not tied to the word embeddings"):
        sl.lab.train([{"text": "the old mill"}] * 4, source, out=tmp_path / "model", task="masked_lm")
    assert not (tmp_path / "model").exists()


def test_the_bias_of_a_new_head_does_not_start_with_what_was_in_memory(tmp_path):
    source = tmp_path / "base"
    tiny_module("longformer", dtype=torch.float32).longformer.save_pretrained(source)
    wordpiece().save_pretrained(source)
    data = read_training_data([{"text": "the old mill"}] * 4, task="masked_lm")
    junk = torch.full((5_000,), 1e30)  # which the bias would be given if nobody set it
    del junk
    head = starting_point(source, data, StartingSettings(), {}).module.lm_head
    assert not head.bias.any()


def test_a_tokenizer_without_a_mask_token_trains_no_masked_language_model(tmp_path):
    source = tmp_path / "base"
    tiny_module("bert", dtype=torch.float32).save_pretrained(source)
    tokenizer = wordpiece()
    tokenizer.mask_token = None
    tokenizer.save_pretrained(source)
    with pytest.raises(OptionError, match="no mask token"):
        sl.lab.train([{"text": "the old mill"}] * 4, source, out=tmp_path / "model", task="masked_lm")
    assert not (tmp_path / "model").exists()


def test_a_body_without_its_layers_cannot_become_a_masked_language_model(tmp_path):
    source = saved(tmp_path / "base", AutoModelForSequenceClassification)
    weights = load_file(source / "model.safetensors")
    save_file({name: w for name, w in weights.items() if "layer.0" not in name}, source / "model.safetensors")
    with pytest.raises(ModelError, match=r"lack \d+ of the encoder"):
        sl.lab.train([{"text": "the old mill"}] * 4, source, out=tmp_path / "model", task="masked_lm")


@pytest.mark.slow
def test_a_batch_without_hidden_tokens_is_no_divergence(tmp_path):
    source = saved(tmp_path / "base", AutoModelForMaskedLM)
    texts = [{"text": "the old mill"}] * 20
    result = sl.lab.train(texts, source, out=tmp_path / "model", task="masked_lm", batch=1, max_steps=16)
    losses = [entry["loss"] for entry in result.history if "loss" in entry]
    assert 0.0 in losses
    assert any(loss > 0 for loss in losses)


@pytest.mark.slow
def test_mixed_precision_rounds_the_forward_pass_and_keeps_the_weights(tmp_path):
    source = saved(tmp_path / "base", AutoModelForSequenceClassification)
    made = [{"text": row["text"], "label": row["label"].split()[0]} for row in named_rows()]
    curves = {}
    for precision in ("float32", "bfloat16"):
        result = sl.lab.train(made, source, out=tmp_path / precision, max_steps=4, precision=precision)
        curves[precision] = [entry["loss"] for entry in result.history if "loss" in entry]
        weights = load_file(tmp_path / precision / "model.safetensors")
        assert {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()} == {torch.float32}
    assert curves["bfloat16"] != curves["float32"]
    assert curves["bfloat16"] == pytest.approx(curves["float32"], abs=0.05)
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match="needs a GPU"):
            sl.lab.train(made, source, out=tmp_path / "half", precision="float16")


@pytest.mark.slow
def test_the_single_attention_learns_at_a_rate_of_its_own_and_never_decays(tmp_path):
    def weights(name, **options):
        trained = sl.lab.train(rows(), "new-bilstm", out=tmp_path / name, max_steps=1, warmup=0.0, **SMALL, **options)
        return load_file(trained.folder / "model.safetensors")

    rates = [weights(f"rate {rate}", attention_rate=rate, weight_decay=0.0) for rate in (1.0, 3.0, 5.0)]
    decayed = weights("decayed", weight_decay=0.5)
    for name in rates[0]:
        first, second, third = (part[name] for part in rates)
        is_attention = name.startswith("model.attention.")
        # One step of AdamW is linear in its rate.
        torch.testing.assert_close(third - second, second - first, atol=1e-6, rtol=0)
        assert torch.equal(first, second) != is_attention
        if is_attention:
            assert torch.equal(decayed[name], first)
    assert not torch.equal(decayed["classifier.weight"], rates[0]["classifier.weight"])
    with pytest.raises(OptionError, match="attention_rate is for models with a single attention"):
        sl.lab.train(rows(), "new-encoder", out=tmp_path / "encoder", attention_rate=2.0)


def test_gradient_checkpointing_gives_the_same_curve(tmp_path):
    source = saved(tmp_path / "base", AutoModelForSequenceClassification)
    made = [{"text": row["text"], "label": row["label"].split()[0]} for row in named_rows()]
    curves = []
    for checkpointing in (False, True):
        out = tmp_path / str(checkpointing)
        result = sl.lab.train(made, source, out=out, max_steps=4, gradient_checkpointing=checkpointing)
        curves.append([entry["loss"] for entry in result.history if "loss" in entry])
    assert len(curves[0]) == 4
    assert curves[0] == pytest.approx(curves[1], abs=1e-5)


@pytest.mark.parametrize(
    ("data", "model", "options", "error", "message"),
    [
        (
            named_rows(8),
            "new-bilstm",
            {"task": "token_classification"},
            OptionError,
            "'new-bilstm' classifies documents",
        ),
        (rows(8), "new-bilstm", {"task": "token_classification"}, InputError, "has 6 words and 1 labels"),
        (rows(8), "new-bilstm", {"task": "question_answering"}, InputError, "has a question in the field 'text_pair'"),
        (rows(8), "new-bilstm", {"task": "causal_lm"}, OptionError, "task"),
        (rows(8), AutoModelForMaskedLM, {"task": "masked_lm", "class_weights": True}, OptionError, "needs classes"),
    ],
)
def test_tasks_that_cannot_be_trained_are_refused(data, model, options, error, message, tmp_path):
    source = model if isinstance(model, str) else saved(tmp_path / "base", model)
    with pytest.raises(error, match=message):
        sl.lab.train(data, source, out=tmp_path / "model", **options)
    assert not (tmp_path / "model").exists()


def test_a_label_that_training_does_not_know_is_named(tmp_path):
    path = tmp_path / "data.jsonl"
    made = [*({**row, "split": "train"} for row in rows(8)), {"text": "a", "label": "odd", "split": "validation"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    with pytest.raises(InputError, match=r"label 'odd' of row 8 \(validation\)"):
        read_training_data(path)


def test_settings_out_of_range_are_refused():
    for wrong in ({"batch": 0}, {"learning_rate": 0.0}, {"warmup": 1.0}, {"seed": -1}, {"patience": 0}):
        with pytest.raises(SightlineError):
            TrainingSettings(**wrong)


def test_the_learnt_vocabulary_depends_on_the_texts_alone():
    texts = ["The cat, the dog.", "A dog!", "the bird and the cat"]
    tokenizer = learn_word_tokenizer(texts)
    assert tokenizer.convert_ids_to_tokens(range(5, len(tokenizer))) == ["the", "cat", "dog"]
    assert tokenizer.get_vocab() == learn_word_tokenizer(reversed(texts)).get_vocab()


def test_subwords_keep_the_ending_of_rare_words_and_depend_on_the_texts_alone():
    texts = ["the cats and the dogs", "dogs and cats", "birds", "the Plasmas"] * 3
    tokenizer = learn_subword_tokenizer(texts, size=300)
    assert tokenizer.get_vocab() == learn_subword_tokenizer(texts, size=300).get_vocab()
    tokens = tokenizer.tokenize("quarks 猫")
    assert tokenizer.unk_token not in tokens
    assert tokenizer.convert_tokens_to_string(tokens).strip() == "quarks 猫"
    assert len(tokenizer.tokenize("the cats")) < len(tokenizer.tokenize("the qats"))


@pytest.mark.slow
def test_a_new_model_reads_subwords_with_its_own_dropout_and_settings(tmp_path):
    result = sl.lab.train(
        rows(24), "new-encoder", out=tmp_path / "model", units="subwords", vocabulary=300, dropout=0.25, max_steps=2
    )
    config = json.loads((result.folder / "config.json").read_text())
    assert [config[name] for name in ("embd_pdrop", "attn_pdrop", "resid_pdrop")] == [0.25] * 3
    settings = json.loads((result.folder / "training.json").read_text())["settings"]
    assert (settings["learning_rate"], settings["batch"], settings["patience"]) == (5e-4, 32, 5)
    explanation = sl.load(result.folder).explain("the unseen film was superb", "gradient")
    assert [word.text for word in explanation.words()] == ["the", "unseen", "film", "was", "superb"]


@pytest.mark.parametrize("options", [{"dropout": 0.2}, {"units": "words"}, {"vocabulary": 20_000}])
def test_what_a_checkpoint_brings_itself_cannot_be_chosen(options, tmp_path):
    source = bert_folder(tmp_path / "bert")
    with pytest.raises(OptionError, match="for new models"):
        sl.lab.train(rows(8), source, out=tmp_path / "model", **options)


@pytest.mark.slow
def test_the_best_weights_are_those_of_the_named_metric(tmp_path):
    kept = {}
    for best in ("loss", "accuracy"):
        result = sl.lab.train(rows(32), "new-bilstm", out=tmp_path / best, best=best, epochs=3, **SMALL)
        curve = [entry for entry in result.history if "eval_loss" in entry]
        kept[best] = result.metrics["validation"][best]
        assert kept[best] == pytest.approx((min if best == "loss" else max)(entry[f"eval_{best}"] for entry in curve))


@pytest.mark.slow
def test_texts_of_similar_length_share_a_batch(tmp_path, monkeypatch):
    seen = []
    original = ClassifierTrainer.compute_loss

    def spy(self, model, inputs, *arguments, **options):
        if model.training:
            seen.append(inputs["attention_mask"].float().mean().item())
        return original(self, model, inputs, *arguments, **options)

    monkeypatch.setattr(ClassifierTrainer, "compute_loss", spy)
    made = [{**row, "text": f"{row['text']} " * (1 + 9 * (number % 2))} for number, row in enumerate(rows())]
    sl.lab.train(made, "new-bilstm", out=tmp_path / "model", epochs=1, **{**SMALL, "batch": 2})
    # Drawn at random, half of the pairs would be a short text with a long one.
    assert sum(share > 0.95 for share in seen) > 0.7 * len(seen)


def test_the_command_trains(tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows(24)))
    arguments = ["train", str(data), "--out", str(tmp_path / "model"), "--epochs", "1", "--learning-rate", "0.01"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert re.search(r"validation, \d+ rows: accuracy", result.stdout)
    assert re.search(
        r"Note: Rows: \d+ for training, \d+ for validation \(drawn from the training rows\)", result.stderr
    )
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_a_metric_is_written_with_its_interval_if_it_has_one():
    values = {"accuracy": 1.0, "accuracy_low": 0.5, "accuracy_high": 1.0, "rows": 3}
    assert metric_with_interval(values, "accuracy") == "1.000 (0.500 to 1.000)"
    assert metric_with_interval({"macro_f1": 1.0}, "macro_f1") == "1.000"
