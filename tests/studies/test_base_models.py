"""Models that a study trains because they were not given, and the texts that it shortens for them."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from sightline.errors import ModelError, UsageError
from sightline.text import Example
from sightline_studies import STUDIES, run_study
from sightline_studies.attcat_subjects import choose_subjects, first_words, keep_answer_sentence
from sightline_studies.base_models import every_second_layer
from sightline_studies.workbench import Workbench
from tests.tiny_models import tiny_ids, tiny_module
from tests.tiny_tokenizers import wordpiece

WORDS = ("the", "river", "runs", "past", "old", "mill")


def save_base(folder, family="bert", **options):
    module = tiny_module(family, dtype=torch.float32, **options)
    module.save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    return module


def sentences(count, start=0):
    """Sentences whose label follows from one word."""
    for number in range(start, start + count):
        yield {
            "text": " ".join(WORDS[(number * place) % len(WORDS)] for place in range(1, 5))
            + (" mill" if number % 2 else " river")
            + f" {number}",
            "label": number % 2,
        }


def write_rows(path, splits, **fields):
    rows = [{**row, **fields, "split": split} for split, start in splits for row in sentences(60, start)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "longformer"])
def test_a_shorter_model_computes_what_the_kept_layers_compute(family, tmp_path):
    module = save_base(tmp_path / "base", family)
    bench = Workbench(STUDIES["attcat"], tmp_path / "study", size="tiny")
    folder = every_second_layer(bench, str(tmp_path / "base"))
    shorter = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    body = getattr(module, module.base_model_prefix)
    stack = body.transformer if family == "distilbert" else body.encoder
    stack.layer = torch.nn.ModuleList(list(stack.layer)[::2])
    if family == "longformer":
        module.config.attention_window = module.config.attention_window[::2]
        for number, layer in enumerate(stack.layer):
            layer.attention.self.layer_id = number
    ids = torch.tensor([tiny_ids(family)])
    with torch.no_grad():
        torch.testing.assert_close(shorter(ids).logits, module(ids).logits)
    assert every_second_layer(bench, str(tmp_path / "base")) == folder


def test_a_base_whose_layers_cannot_be_chosen_is_named(tmp_path):
    bench = Workbench(STUDIES["attcat"], tmp_path / "study", size="tiny")
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="Every second layer of 'base' cannot be taken: it needs model.safetensors"):
        every_second_layer(bench, str(tmp_path / "base"))
    with pytest.raises(ModelError, match="'owner/name' is not a folder"):
        every_second_layer(bench, "owner/name")


def test_a_question_keeps_the_sentence_with_its_answer():
    text = "The mill is old. It stands by the river Aare. Nobody works there."
    start = text.index("Aare")
    row = keep_answer_sentence(Example(text, pair="Where?", answer=((start, start + 4), (4, 8))))
    assert row.text == "It stands by the river Aare."
    assert [row.text[first:last] for first, last in row.answer] == ["Aare"]
    long = (text.index("old"), text.index("stands"))
    across = keep_answer_sentence(Example(text, answer=(long,)))
    assert across.text == "The mill is old. It stands by the river Aare."
    assert across.answer == (long,)
    assert keep_answer_sentence(Example(text, answer=())).text == "The mill is old."


def test_long_texts_are_cut_and_pairs_are_not():
    assert first_words(Example("a b c d"), 2).text == "a b"
    assert first_words(Example("a b"), 2).text == "a b"
    assert first_words(Example("a b c d", pair="e"), 2).text == "a b c d"


def test_data_that_only_a_missing_model_reads_are_refused(tmp_path):
    path = write_rows(tmp_path / "squad.jsonl", [("test", 0)])
    bench = Workbench(STUDIES["attcat"], tmp_path / "study", size="tiny", data=[f"squad={path}"])
    with pytest.raises(UsageError, match="No model reads these data. .*--model base=FOLDER to train one from"):
        choose_subjects(bench)


@pytest.mark.slow
def test_one_command_trains_the_models_that_were_not_given(tmp_path):
    save_base(tmp_path / "base", num_labels=2)
    data = tmp_path / "data"
    data.mkdir()
    write_rows(data / "sst2.jsonl", [("train", 0), ("test", 60)])
    write_rows(data / "qqp.jsonl", [("validation", 0), ("test", 60)], text_pair="the old mill")
    contexts = [f"The mill is old. It stands past the river {number}." for number in range(20)]
    questions = [{"text": text, "text_pair": "where", "answers": [[text.index("past"), "past"]]} for text in contexts]
    (data / "squad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    result = run_study(
        "attcat", tmp_path / "out", size="tiny", data=[data], models={"base": tmp_path / "base"}, documents=2
    )
    tables = {table.name: table.frame for table in result.outcome.tables}
    assert set(tables["accuracy"]["data"]) == {"sst2", "qqp"}
    assert list(tables["answers"]["model"]) == ["squad", "squad-shorter"]
    assert {path.name.rpartition("-")[0] for path in (tmp_path / "out" / "models").iterdir()} == {
        "sentiment",
        "qqp",
        "squad",
        "squad-shorter",
        "base-shorter",
    }
    assert any(sentence.startswith("mnli: needs --data") for sentence in result.outcome.left_out)
