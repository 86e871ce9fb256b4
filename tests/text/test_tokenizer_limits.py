"""Tokenizers that make much of a little are refused before they take memory, whatever part of them it is."""

from __future__ import annotations

import json
import re
from importlib import import_module

import pytest
from tokenizers import normalizers

from sightline.errors import ModelError, SightlineError
from sightline.files.children import Channel, Child, Message
from sightline.files.processes import limit_resources
from sightline.text import encode_text, load_tokenizer
from sightline.text.tokenizer_limits import MAX_RATIO, PIECE
from tests.tiny_tokenizers import byte_level, unigram, wordpiece

TEXT = "the old mill [MASK] " * 5_000
ALLOWANCE = 2**29
IMPORTED = ("transformers.models.auto.tokenization_auto", "sightline.text", "tests.tiny_tokenizers")
MANY = 20_000


def _special(ids: int, pieces: int) -> dict:
    """A template of `pieces` special tokens that are `ids` tokens each."""
    mark = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    other = {"Sequence": {"id": "B", "type_id": 1}}
    return {
        "type": "TemplateProcessing",
        "single": [mark] * pieces + [text],
        "pair": [text, other],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [0] * ids, "tokens": ["[CLS]"] * ids}},
    }


def _repeating(times: int) -> dict:
    template = _special(1, 1)
    template["single"] = template["single"][:1] + template["single"][1:] * times
    return template


def _replace(pattern: dict, content: str) -> dict:
    return {"type": "Replace", "pattern": pattern, "content": content}


BOMBS = {
    "template of many pieces": ({"post_processor": _special(1, MANY)}, "post_processor .* has more than 64 parts"),
    "special token of many": ({"post_processor": _special(MANY, 1)}, "a special token of 20,000 tokens"),
    "template that repeats the text": ({"post_processor": _repeating(50)}, "post_processor .* repeats the text"),
    "nested template": (
        {"post_processor": {"type": "Sequence", "processors": [_special(MANY, 10)]}},
        "a special token of 20,000 tokens",
    ),
    "prefix of every part": ({"normalizer": {"type": "Prepend", "prepend": "x " * MANY}}, "more than 128 times"),
    "prefix of middling length": ({"normalizer": {"type": "Prepend", "prepend": "x " * 20}}, "more than 16 times"),
    "text at the start of every part": ({"normalizer": _replace({"Regex": "^"}, "x " * 20)}, "more than 16 times"),
    "text before what follows": ({"normalizer": _replace({"Regex": "(?=a)"}, "x " * 20)}, "more than 16 times"),
    "allowed replacement of every letter": (
        {"normalizer": _replace({"Regex": "[a-z]"}, "x " * 60)},
        "more than 8 tokens",
    ),
}


def _save(tokenizer, folder, **changes):
    tokenizer.save_pretrained(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    content.update(changes)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


def encode(channel: Channel, folder: str) -> None:
    """Load the tokenizer in `folder` and encode a long text, with half a gigabyte more than was imported."""
    for module in IMPORTED:  # where no fork server has
        import_module(module)
    limit_resources(ALLOWANCE, 600)
    try:
        encode_text(load_tokenizer(folder, local_only=True), TEXT, max_tokens=None)
    except SightlineError as error:
        channel.send(Message.unable(error))
    else:
        channel.send(Message("encoded"))


def _encode_in_child(folder):
    """Return what a process answers that may take half a gigabyte; None if it ended without an answer."""
    child = Child("tokenizer", encode, str(folder), preload=IMPORTED).start()
    try:
        return child.receive()
    finally:
        child.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_tokenizer_that_multiplies_a_text_is_refused_within_bounded_memory(name, tmp_path):
    changes, sentence = BOMBS[name]
    folder = _save(wordpiece(), tmp_path, **changes)
    answer = _encode_in_child(folder)
    assert answer is not None
    assert answer.facts["type"] == "ModelError"
    assert re.search(sentence, answer.facts["error"])


def test_a_long_special_token_is_refused_wherever_it_is_written(tmp_path):
    long = "[" + "x" * 300 + "]"
    for number, name in enumerate(("tokenizer.json", "tokenizer_config.json")):
        folder = tmp_path / str(number)
        wordpiece().save_pretrained(folder)
        text = (folder / name).read_text()
        assert "[UNK]" in text
        (folder / name).write_text(text.replace("[UNK]", long))
        with pytest.raises(ModelError, match="has 302 characters .* at most 256 are allowed"):
            load_tokenizer(folder, local_only=True)


def test_a_long_prefix_of_continued_words_is_refused(tmp_path):
    model = json.loads(wordpiece().backend_tokenizer.to_str())["model"]
    folder = _save(wordpiece(), tmp_path, model={**model, "continuing_subword_prefix": "#" * 1_000})
    with pytest.raises(ModelError, match="has 1,000 characters"):
        load_tokenizer(folder, local_only=True)


@pytest.mark.slow
def test_a_large_id_takes_no_memory(tmp_path):
    """The library writes a vocabulary in memory proportional to its largest id."""
    model = json.loads(wordpiece().backend_tokenizer.to_str())["model"]
    folder = _save(wordpiece(), tmp_path, model={**model, "vocab": {**model["vocab"], "mill": 2**31 - 1}})
    assert _encode_in_child(folder) is not None


def test_a_text_of_which_an_honest_tokenizer_makes_much_is_read_if_it_is_short():
    tokenizer = byte_level()
    tokenizer.backend_tokenizer.normalizer = normalizers.NFKD()
    ligature = "\ufdfa"  # eighteen characters in compatibility form
    assert len(encode_text(tokenizer, ligature * 100, max_tokens=None)) > MAX_RATIO * 100
    with pytest.raises(ModelError, match=r"^The tokenizer makes more than 8 tokens or characters of each"):
        encode_text(tokenizer, ligature * (PIECE + 1), max_tokens=None)


@pytest.mark.parametrize("tokenizer", [wordpiece(), byte_level(), unigram()], ids=["wordpiece", "bytes", "unigram"])
@pytest.mark.parametrize("text", ["the old mill ", "日本語 ", "😀👩‍👩‍👧 ", "क्षत्रिय "])
def test_long_texts_of_every_script_are_read(tokenizer, text):
    long = text * (2 * PIECE // len(text))
    assert encode_text(tokenizer, long, max_tokens=None).text == long
