"""Phrases for what is predicted and explained: the word at a token, and numbers where a model gives no class."""

from __future__ import annotations

import json
import re

import pytest
import torch
from transformers import AutoModelForTokenClassification

from sightline.api.load import load
from sightline.view.words.headline import headline
from sightline.view.words.phrases import describe_target, predicted_value
from tests.sample_pages import render_page
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "The old mill. Hello river world."


def payload_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL).group(1))


@pytest.fixture(scope="module")
def entities():
    labels = {0: "B-ORG", 1: "B-PER", 2: "B-LOC"}  # every word is an entity
    module = tiny_module(
        auto=AutoModelForTokenClassification, dtype=torch.float32, vocab_size=len(wordpiece()), id2label=labels
    )
    return load(module, tokenizer=wordpiece()).explain(TEXT, "attcat", target="entities").by_target()


def test_the_target_of_an_entity_names_its_word(entities):
    assert len(entities) > 1
    for name, explanation in entities.items():
        target, encoding = explanation.target, explanation.encoding
        word = encoding.words[encoding.word_ids[target.position]].text
        assert name.startswith(word)
        assert describe_target(explanation) == f"log-odds of '{target.label}' at “{word}” (token {target.position})"


def test_the_headline_of_an_entity_names_its_word(entities):
    for explanation in entities.values():
        word = explanation.encoding.words[explanation.encoding.word_ids[explanation.target.position]].text
        assert f" %) at “{word}”" in headline(explanation)


def test_the_page_calls_entities_by_their_words(entities):
    names = [one["target"]["description"] for one in payload_of(render_page(list(entities.values())))["explanations"]]
    assert [name.startswith("the log-odds of 'B-") and " at “" in name for name in names] == [True] * len(entities)


def test_a_model_of_one_output_gives_a_number_and_not_a_hundred_percent():
    module = tiny_module(dtype=torch.float32, vocab_size=len(wordpiece()), num_labels=1, problem_type="regression")
    explanation = load(module, tokenizer=wordpiece()).explain(TEXT, "attcat")
    expected = f"{explanation.prediction.logits[0]:.3g}".replace("-", "−")
    assert predicted_value(explanation) == expected
    assert payload_of(render_page([explanation]))["explanations"][0]["prediction"]["value"] == expected


def test_a_classifier_gives_a_probability(entities):
    assert all(predicted_value(explanation) is None for explanation in entities.values())
