"""Texts: odd strings, pairs and ids through every kind of tokenizer and several families."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import torch

import sightline as sl
from tests.fuzz.mutations import odd_text, odd_value
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import ALL_KINDS

_FAMILIES = ("bert", "roberta", "longformer", "gpt2", "modernbert")
_METHODS = ("attcat", "rollout", "gradient", "input_x_gradient", "raw_attention")


class Texts:
    """`model.explain` on a text, a pair, ids, or something else altogether."""

    def prepare(self, workspace: Path) -> None:
        self.models = []
        for number, kind in enumerate(ALL_KINDS):
            tokenizer = ALL_KINDS[kind]()
            module = tiny_module(
                _FAMILIES[number % len(_FAMILIES)], vocab_size=max(128, len(tokenizer)), dtype=torch.float32
            )
            self.models.append(sl.load(module, tokenizer=tokenizer))

    def build(self, random: Random, folder: Path, canary: Path) -> object:
        model, method = random.choice(self.models), random.choice(_METHODS)
        text: object = odd_text(random, random.choice((5, 60, 400, 4_000)))
        pair: object = odd_text(random) if random.random() < 0.2 else None
        ids: object = None
        if random.random() < 0.05:
            text = odd_value(random)
        if random.random() < 0.1:
            ids = [random.choice((0, 1, 2, 5, 40, 100, -1, 10**9)) for _ in range(random.randrange(20))]
            ids = odd_value(random) if random.random() < 0.2 else ids
        return model, method, text, pair, ids

    def open(self, case: object, folder: Path) -> str:
        assert isinstance(case, tuple)
        model, method, text, pair, ids = case
        encoding = model.encode(ids=ids) if ids is not None else model.encode(text, pair=pair)
        explanation = model.explain(encoding, method=method)
        assert np.isfinite(explanation.scores).all(), "scores are not finite"
        assert len(explanation.scores) == len(encoding)
        assert (len(encoding) > model.max_tokens) == (encoding.windows is not None)
        if ids is None:
            texts = [text, pair]
            assert encoding.text == text
            for (start, end), segment, token in zip(encoding.offsets, encoding.segments, encoding.tokens, strict=True):
                if segment >= 0:
                    assert texts[segment][start:end] == token, "offsets do not give the token"
        for word in explanation.words():
            assert word.text
        return "explained"
