"""Training on questions: windows and labels by hand, the loss and the scores of SQuAD, and runs of tiny models."""

from __future__ import annotations

import json
import random
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from typer.testing import CliRunner

import sightline as sl
from sightline.cli.app import app
from sightline.errors import InputError, OptionError, UsageError
from sightline.lab.answer_rows import AnswerRows, answer_f1, exact_match, normalise_answer, pad_windows
from sightline.lab.trainer import AnswerTrainer
from sightline.lab.training_data import read_training_data
from sightline.text import Example
from sightline.text.new_tokenizers import word_tokenizer
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import byte_level, wordpiece

NAMES = ["anna", "bert", "carla"]
WORDS = ["the", "river", "old", "mill", "key"]
CONFIG = SimpleNamespace(type_vocab_size=2)


def rows_of(*rows, max_tokens=64, learnt=True, predicts_none=False, tokenizer=None, config=CONFIG):
    return AnswerRows(rows, tokenizer or wordpiece(), max_tokens, config, learnt=learnt, predicts_none=predicts_none)


def question(context, answer, asked="the river"):
    """A row whose answer is where its wording first occurs; None has no answer."""
    start = 0 if answer is None else context.index(answer)
    return Example(context, asked, answer=() if answer is None else ((start, start + len(answer)),), id="7")


def learnt_tokens(dataset, tokenizer):
    """What the labels of every window point at, as tokens."""
    windows = (dataset[number] for number in range(len(dataset)))
    return [
        tokenizer.convert_ids_to_tokens(window["input_ids"][window["start_positions"] : window["end_positions"] + 1])
        for window in windows
    ]


def test_labels_are_the_tokens_that_share_a_character_with_the_answer():
    dataset = rows_of(question("Old millers, hello.", "millers"))
    tokens = wordpiece().convert_ids_to_tokens(dataset[0]["input_ids"])
    assert " ".join(tokens) == "[CLS] the river [SEP] old mill ##er ##s , hello . [SEP]"
    assert (dataset[0]["start_positions"], dataset[0]["end_positions"]) == (5, 7)
    assert dataset[0]["token_type_ids"] == [0] * 4 + [1] * 8
    # Half a word is learnt as the tokens it touches, and white space around an answer is none of it.
    assert learnt_tokens(rows_of(question("Old millers, hello.", "ler")), wordpiece()) == [["mill", "##er"]]
    assert learnt_tokens(rows_of(question("Old millers, hello.", "Old ")), wordpiece()) == [["old"]]


def test_labels_count_characters_of_the_context_in_every_script():
    context = "🙂 日本語 the mill"
    for tokenizer in (wordpiece(), byte_level()):
        dataset = rows_of(question(context, "本語"), tokenizer=tokenizer)
        window = dataset[0]
        ids = window["input_ids"][window["start_positions"] : window["end_positions"] + 1]
        assert tokenizer.decode(ids).replace(" ", "") == "本語"


def test_a_question_without_an_answer_is_taught_the_first_token():
    assert learnt_tokens(rows_of(question("the old mill", None)), wordpiece()) == [["[CLS]"]]


def test_of_a_long_context_the_windows_that_hold_the_answer_learn_it_and_the_others_that_there_is_none():
    context = "the mill . " * 12 + "hello world . " + "old river . " * 12
    dataset = rows_of(question(context, "hello world"), max_tokens=32)
    learnt = learnt_tokens(dataset, wordpiece())
    assert len(learnt) > 2
    assert {tuple(tokens) for tokens in learnt} == {("hello", "world"), ("[CLS]",)}
    for number, tokens in enumerate(learnt):
        words = wordpiece().convert_ids_to_tokens(dataset[number]["input_ids"])
        assert len(words) <= 32
        assert words[:4] == ["[CLS]", "the", "river", "[SEP]"]
        assert ("hello" in words) == (tokens != ["[CLS]"])


def test_an_answer_that_no_window_holds_is_left_out_of_training_and_counts_in_validation():
    context = "the old mill . " * 20
    long = question(context, context.strip())
    learnt, measured = rows_of(long, max_tokens=32), rows_of(long, max_tokens=32, learnt=False)
    assert (len(learnt), learnt.left_out) == (0, 1)
    assert len(measured.rows) == 1
    assert measured.left_out == 0


@pytest.mark.parametrize(
    ("predicted", "answers", "match", "f1"),
    [
        ("The Cat!", ["cat"], 1, 1),
        ("black cat", ["a cat", "the black dog"], 0, 2 / 3),
        ("cat cat dog", ["cat dog dog"], 0, 2 / 3),
        ("", [], 1, 1),
        ("", ["cat"], 0, 0),
        ("cat", [], 0, 0),
        ("Denver Broncos", ["Denver Broncos", "the Denver Broncos"], 1, 1),
        ("1,000", ["1000"], 1, 1),
        ("theatre", ["atre"], 0, 0),
    ],
)
def test_answers_are_scored_as_squad_does(predicted, answers, match, f1):
    assert exact_match(predicted, answers) == match
    assert answer_f1(predicted, answers) == pytest.approx(f1)
    assert normalise_answer("An  answer, the ANSWER.") == "answer answer"


def test_the_loss_is_the_mean_cross_entropy_of_start_and_end(tmp_path):
    from transformers import TrainingArguments

    module = tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2, vocab_size=len(wordpiece()))
    dataset = rows_of(question("Old millers, hello.", "millers"), question("the mill", None))
    arguments = TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    trainer = AnswerTrainer(model=module, args=arguments, train_dataset=dataset)
    for number in range(2):
        batch = pad_windows([dataset[number]], 0)
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
        with torch.no_grad():
            output = module(**inputs)
            loss = float(trainer.compute_loss(module, batch))
        expected = 0.0
        for scores, place in ((output.start_logits, "start_positions"), (output.end_logits, "end_positions")):
            values = scores[0].numpy()
            expected += (np.log(np.exp(values - values.max()).sum()) + values.max() - values[batch[place]].item()) / 2
        assert loss == pytest.approx(expected, rel=1e-12)


def key_rows(count=48, seed=0, unanswered=0):
    """Contexts of six words, one of them a name: who is it? The last `unanswered` rows have no name."""
    generator = random.Random(seed)
    made = []
    for number in range(count):
        words = generator.choices(WORDS, k=6)
        name = generator.choice(NAMES)
        place = generator.randrange(6)
        if number < count - unanswered:
            words[place] = name
        text = " ".join(words)
        found = [] if number >= count - unanswered else [name]
        answers = {"text": found, "answer_start": [text.index(name)] if found else []}
        made.append({"context": text, "question": "who", "answers": answers})
    return made


COLUMNS = {"text": "context", "pair": "question"}
QUICK = {"task": "question_answering", **COLUMNS, "batch": 4, "learning_rate": 0.005}


def saved(folder, family="bert", auto=AutoModelForQuestionAnswering, **facts):
    tokenizer = word_tokenizer([*NAMES, *WORDS, "who"])
    options = {"vocab_size": len(tokenizer), "pad_token_id": 0, "num_labels": 2, **facts}
    tiny_module(family, auto=auto, dtype=torch.float32, **options).save_pretrained(folder)
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    return sl.lab.train(key_rows(), saved(folder / "base"), out=folder / "model", epochs=10, **QUICK)


def test_a_model_learns_to_answer_and_its_folder_says_how_well(answering):
    metrics = answering.metrics["validation"]
    assert metrics["exact_match"] == metrics["f1"] == 1
    assert {"exact_match_low", "exact_match_high", "f1_low", "f1_high", "loss"} <= set(metrics)
    model = sl.load(answering.folder)
    assert model.task == "question_answering"
    assert model.explain(model.encode("who", "the old river carla mill key"), "gradient").prediction.label == "carla"
    card = (answering.folder / "README.md").read_text()
    assert "pipeline_tag: question-answering" in card
    assert re.search(r"\| validation \| 1\.000 \(0\.\d+ to 1\.000\) \| 1\.000 \(0\.\d+ to 1\.000\)", card)
    assert "without an answer: 0" in card


def test_the_measured_answers_are_those_of_the_loaded_model_in_any_order_of_windows(answering):
    """Windows are predicted in an order of their own; contexts of several windows are answered as when explained."""
    model = sl.load(answering.folder)
    generator = random.Random(1)
    contexts = [" ".join(generator.choices([*NAMES, *WORDS], k=length)) for length in (5, 90, 40, 120)]
    dataset = rows_of(
        *(Example(context, "who", answer=()) for context in contexts),
        max_tokens=64,
        learnt=False,
        tokenizer=model.tokenizer,
        config=model.network.config,
    )
    assert len(dataset) > len(contexts)
    order = np.random.default_rng(0).permutation(len(dataset))
    batch = pad_windows([dataset[int(number)] for number in order], 0)
    with torch.no_grad():
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
        output = model.network.module(**inputs)
    scores = torch.stack((output.start_logits, output.end_logits), -1).numpy()
    answers = dataset.predicted_answers(scores, batch["number"].numpy())
    assert answers == [model.trace(model.encode("who", context)).prediction.label for context in contexts]


@pytest.mark.slow
def test_a_model_learns_that_there_is_no_answer_where_some_questions_have_none(tmp_path):
    data = key_rows(64, unanswered=32)
    result = sl.lab.train(data, saved(tmp_path / "base"), out=tmp_path / "model", epochs=12, **QUICK)
    assert result.metrics["validation"]["exact_match"] == 1
    counts = re.findall(r"without an answer: (\d+)", (result.folder / "README.md").read_text())
    assert sum(map(int, counts)) == 32
    assert 0 < int(counts[1]) < 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "auto", "facts"),
    [
        ("bert", AutoModelForSequenceClassification, {"num_labels": 3}),
        ("bert", AutoModelForTokenClassification, {"num_labels": 5}),
        ("bert", AutoModelForMaskedLM, {}),
        ("distilbert", AutoModelForSequenceClassification, {}),
        ("roberta", AutoModelForSequenceClassification, {"num_labels": 4}),
        ("longformer", AutoModelForSequenceClassification, {"num_labels": 3}),
    ],
)
def test_any_encoder_gets_a_new_head_for_answers(family, auto, facts, tmp_path):
    source = saved(tmp_path / "base", family, auto, **facts)
    result = sl.lab.train(key_rows(12), source, out=tmp_path / "model", max_steps=1, **{**QUICK, "learning_rate": 1e-9})
    tuned = sl.load(result.folder).network.module
    assert tuned.config.num_labels == 2
    before, after = (sl.load(folder).network.module.base_model.state_dict() for folder in (source, result.folder))
    for name in after:
        torch.testing.assert_close(after[name], before[name], atol=1e-6, rtol=0)


@pytest.mark.slow
def test_a_trained_head_is_kept(answering, tmp_path):
    again = sl.lab.train(
        key_rows(12), answering.folder, out=tmp_path / "model", max_steps=1, **{**QUICK, "learning_rate": 1e-9}
    )
    heads = (sl.load(folder).network.module.qa_outputs.weight for folder in (answering.folder, again.folder))
    torch.testing.assert_close(*heads, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_long_contexts_are_read_by_the_trained_model_in_the_windows_it_was_trained_on(tmp_path):
    source = saved(tmp_path / "base")
    data = [{**row, "context": f"{row['context']} " + "the old mill " * 20} for row in key_rows(12)]
    result = sl.lab.train(data, source, out=tmp_path / "model", max_steps=2, max_tokens=24, **QUICK)
    windows = sl.load(result.folder).encode("who", data[0]["context"]).windows
    assert windows is not None
    assert max(end - start for start, end in windows.spans) <= 24 - 4


class InterruptedTestError(Exception):
    pass


@pytest.mark.slow
def test_an_interrupted_run_resumes_with_the_same_weights(answering, tmp_path):
    def stop(stage, done, total):
        if done == 30:
            raise InterruptedTestError

    source = saved(tmp_path / "base")
    options = {"out": tmp_path / "model", "epochs": 10, **QUICK}
    with pytest.raises(InterruptedTestError):
        sl.lab.train(key_rows(), source, progress=stop, **options)
    moved = key_rows()
    moved[0] = {**moved[0], "answers": {"text": [], "answer_start": []}}
    with pytest.raises(UsageError, match="other settings of data"):
        sl.lab.train(moved, source, resume=True, **options)
    resumed = sl.lab.train(key_rows(), source, resume=True, **options)
    assert sl.load(resumed.folder).network.weights_hash == sl.load(answering.folder).network.weights_hash


def test_questions_on_one_context_are_held_out_together():
    data = [{**row, "question": f"who {number}"} for row in key_rows(20) for number in range(4)]
    made = read_training_data(data, **COLUMNS, task="question_answering", validation=0.2)
    contexts = [{row.text for row in part} for part in (made.train, made.validation)]
    assert not contexts[0] & contexts[1]
    assert len(made.validation) == 16
    assert len(made.train) == 64
    spaced = [{**row, "context": f"{row['context']} {' ' * (place % 3)}"} for place, row in enumerate(data)]
    made = read_training_data(spaced, **COLUMNS, task="question_answering", validation=0.2)
    assert not {row.text.strip() for row in made.train} & {row.text.strip() for row in made.validation}


SPACES = {"context": "the mill  is old", "question": "who", "answer": [[8, 10]]}
WRONG = {"context": "the old mill", "question": "who", "answers": {"text": ["river"], "answer_start": [4]}}


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        ([WRONG] * 8, {}, InputError, r"Row 0 .*the answer 'river' is not at character 4 of the text"),
        ([*key_rows(8), SPACES], {}, InputError, r"Row 8: the answer at characters 8 to 10 of the context is white"),
        (
            [{"context": "a", "question": "b"}] * 8,
            {},
            InputError,
            "has answers. They are read from the field 'answers'",
        ),
        (key_rows(8), {"pair": "asked"}, InputError, "has a question in the field 'asked'"),
        (key_rows(8), {"text": "text"}, InputError, "no field 'text'"),
        ([key_rows(1)[0]] * 8, {}, InputError, "All questions have the same context"),
        (key_rows(8), {"max_tokens": 4}, OptionError, "max_tokens=4 is too few"),
        (key_rows(8), {"class_weights": True}, OptionError, "needs classes"),
        (key_rows(2), {}, InputError, "too few to train on"),
    ],
)
def test_rows_that_cannot_be_learnt_from_are_refused(data, options, error, message, tmp_path):
    source = saved(tmp_path / "base")
    with pytest.raises(error, match=message):
        sl.lab.train(data, source, out=tmp_path / "model", **{**QUICK, **options})
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_rows_without_question_or_answers_are_left_out_and_counted(tmp_path):
    data = [*key_rows(12), {"context": "the mill", "question": ""}, {"context": "the mill", "question": "who"}]
    result = sl.lab.train(data, saved(tmp_path / "base"), out=tmp_path / "model", max_steps=1, **QUICK)
    assert result.left_out == 2


def test_the_command_trains_and_the_model_is_explained_with_its_context(tmp_path):
    data = tmp_path / "questions.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in key_rows(24)))
    model = str(tmp_path / "model")
    columns = ["--text", "context", "--pair", "question", "--task", "question_answering"]
    arguments = [
        "train",
        str(data),
        "--model",
        str(saved(tmp_path / "base")),
        "--out",
        model,
        "--epochs",
        "1",
        *columns,
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert re.search(r"validation, \d+ rows: exact match ", result.stdout)
    assert ", F1 " in result.stdout
    for name, text in (("asked.txt", "who"), ("context.txt", "the river anna the mill")):
        (tmp_path / name).write_text(text)
    explained = ["explain", str(tmp_path / "asked.txt"), "--pair", str(tmp_path / "context.txt"), "--model", model]
    result = CliRunner().invoke(app, [*explained, "--method", "gradient"])
    assert result.exit_code == 0, result.output
