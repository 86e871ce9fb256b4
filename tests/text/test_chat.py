"""Chats: the library's own text and ids, marks told apart from what was said, and templates that misbehave."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

import sightline as sl
from sightline.errors import InputError, ModelError
from sightline.text import chat, encode_chat
from sightline.text.tokenizers import TEMPLATE_CHARACTERS, bound_template, read_chat_template
from tests.tiny_models import VOCABULARY, tiny_module
from tests.tiny_tokenizers import byte_level

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'alien' %}{{ raise_exception('only users may speak') }}{% endif %}"
    "[{{ message.role }}] {{ message.content | trim }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
CHAT = [
    {"role": "system", "content": "the mill is old"},
    {"role": "user", "content": " hello world, the river? "},
]


@pytest.fixture(scope="module")
def tokenizer():
    made = byte_level()
    made.chat_template = TEMPLATE
    return made


def test_rendering_imports_nothing_from_the_current_folder(tokenizer, tmp_path, monkeypatch):
    """The current folder may be the downloaded one."""
    (tmp_path / "json.py").write_text("open('executed', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    assert encode_chat(tokenizer, CHAT).text
    assert not (tmp_path / "executed").exists()


def test_text_and_ids_are_those_of_the_library_and_only_contents_are_text(tokenizer):
    encoding = encode_chat(tokenizer, CHAT)
    assert encoding.text == tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    expected = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    assert encoding.ids.tolist() == list(expected)
    said = "".join(token for token, special in zip(encoding.tokens, encoding.special, strict=True) if not special)
    assert said.replace(" ", "") == "themillisoldhelloworld,theriver?"
    assert [word.text for word in encoding.words] == [
        *["the", "mill", "is", "old", "hello", "world"],
        ",",
        "the",
        "river",
        "?",
    ]
    marks = "".join(token for token, special in zip(encoding.tokens, encoding.special, strict=True) if special)
    assert "[system]" in marks
    assert marks.endswith("[assistant]")
    assert not encoding.offsets[encoding.special].any()


@pytest.mark.slow
def test_a_chat_is_explained_and_continued(tokenizer):
    module = tiny_module("llama", auto=AutoModelForCausalLM, vocab_size=max(VOCABULARY, len(tokenizer)))
    model = sl.load(module, tokenizer=tokenizer)
    encoding = model.encode(CHAT)
    assert model.explain(CHAT, "gradient").encoding == encoding
    result = model.explain(CHAT, "gradient", continuation=" old mill")
    np.testing.assert_array_equal(result.encoding.special[: len(encoding)], encoding.special)
    np.testing.assert_array_equal(result.encoding.ids[: len(encoding)], encoding.ids)
    assert result.text == " old mill"


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([{"role": "user"}], "Message 0 of the chat must be"),
        ([{"role": "user", "content": 3}], "Message 0 of the chat must be"),
        ([{"role": "user", "content": "hello", "name": "x"}], "Message 0 of the chat must be"),
        ([{"role": "alien", "content": "hello"}], "template refuses these messages: only users may speak"),
        ([{"role": "user", "content": ""}], "All messages of the chat are empty"),
    ],
)
def test_wrong_messages_are_one_sentence(tokenizer, messages, sentence):
    with pytest.raises(InputError, match=sentence):
        encode_chat(tokenizer, messages)


@pytest.mark.slow
@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 99999999999 }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% for",
        "{{ messages[0]['nothing'].x }}",
    ],
)
def test_a_template_that_misbehaves_is_one_sentence(template):
    tokenizer = byte_level()
    tokenizer.chat_template = template
    with pytest.raises((InputError, ModelError), match="chat"):
        encode_chat(tokenizer, CHAT)


def test_templates_are_read_as_data(tmp_path):
    assert read_chat_template(tmp_path) is None
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": [{"name": "default", "template": "a"}]}')
    assert read_chat_template(tmp_path) == "a"
    (tmp_path / "chat_template.jinja").write_text("b")
    assert read_chat_template(tmp_path) == "b"
    (tmp_path / "chat_template.jinja").write_text("b" * (TEMPLATE_CHARACTERS + 1))
    assert read_chat_template(tmp_path) is None
    assert bound_template({"tool": "x"}) is None
    assert bound_template(3) is None


def test_a_folder_brings_its_template_and_one_without_is_refused(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    from sightline.text import load_tokenizer

    assert load_tokenizer(tmp_path, local_only=True).chat_template == TEMPLATE
    with pytest.raises(InputError, match="has no chat template: give the prompt as one text"):
        encode_chat(byte_level(), CHAT)
    assert chat.is_chat(CHAT)
    assert not chat.is_chat(["a"])
