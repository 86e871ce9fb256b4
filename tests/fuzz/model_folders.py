"""Model folders: valid ones of several families, damaged in their JSON, tensors, tokenizers, or with planted code."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

import sightline as sl
from tests.fuzz.model_files import Canary, damage_header, damage_tensors, link_elsewhere, read_or_none
from tests.fuzz.mutations import damage_json, odd_value
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import byte_level, unigram, wordpiece

_BASES: dict[str, Callable[[], Any]] = {
    "bert": wordpiece,
    "distilbert": wordpiece,
    "electra": wordpiece,
    "albert": unigram,
    "roberta": byte_level,
    "xlm-roberta": unigram,
    "modernbert": byte_level,
    "longformer": byte_level,
    "gpt2": byte_level,
}
_JSON_FILES = ("config.json", "config.json", "tokenizer.json", "tokenizer_config.json")
_PATTERNS = (
    "(a+)+$",
    "(a|a)*b",
    "a*a*a*a*a*a*$",
    "[",
    "(?<=a+)b",
    "\\1",
    "(?:x)+",
    "\\p{L}+|\\s",
    "",
    "(?R)",
    "a{1,99999}",
)


class ModelFolders:
    """`sl.load` and one explanation."""

    def prepare(self, workspace: Path) -> None:
        self.bases = {}
        for family, tokenizer in _BASES.items():
            folder = workspace / family
            made = tokenizer()
            tiny_module(family, vocab_size=len(made), dtype=torch.float32).save_pretrained(folder)
            made.save_pretrained(folder)
            self.bases[family] = folder
            sl.load(folder).explain("the old miller, hello world", method="attcat")

    def build(self, random: Random, folder: Path, canary: Path) -> object:
        base = self.bases[random.choice(list(self.bases))]
        for path in base.iterdir():
            shutil.copyfile(path, folder / path.name)
        for _ in range(random.randint(1, 2)):
            random.choices(
                (_change_json, _change_weights, _change_header, _change_tokenizer, _plant_code, _link, _resize),
                weights=(10, 3, 3, 6, 2, 1, 3),
            )[0](random, folder, canary)
        return random.random() < 0.3

    def open(self, case: object, folder: Path) -> str:
        model = sl.load(folder, allow_random=bool(case))
        with torch.random.fork_rng():
            if model.tokenizer is None:
                explanation = model.explain(model.encode(ids=[2, 5, 6, 7, 3]), method="attcat")
            else:
                explanation = model.explain(
                    "the old miller, hello world aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", method="attcat"
                )
        assert np.isfinite(explanation.scores).all(), "scores are not finite"
        assert len(explanation.scores) == len(explanation.tokens)
        return explanation.prediction.label if hasattr(explanation.prediction, "label") else "explained"


def _change_json(random: Random, folder: Path, canary: Path) -> None:
    path = folder / random.choice(_JSON_FILES)
    content = read_or_none(path)
    if content is not None:
        path.write_bytes(damage_json(random, content))


def _resize(random: Random, folder: Path, canary: Path) -> None:
    """Change sizes in the config by plausible and by absurd amounts."""
    content = read_or_none(folder / "config.json")
    if not isinstance(content, dict):
        return
    sizes = [key for key, value in content.items() if isinstance(value, int) and not isinstance(value, bool)]
    for key in random.sample(sizes, k=min(len(sizes), random.randint(1, 3))):
        content[key] = random.choice([0, 1, 2, 3, 31, 33, 64, 100, 513, 5_000, 10**5, 10**6, 10**7, 2**31, 10**12, -1])
    (folder / "config.json").write_text(json.dumps(content))


def _change_tokenizer(random: Random, folder: Path, canary: Path) -> None:
    """Change the parts of tokenizer.json that say how text is read."""
    path = folder / "tokenizer.json"
    content = read_or_none(path)
    if not isinstance(content, dict):
        return
    action = random.randrange(11)
    pattern = random.choice([{"Regex": random.choice(_PATTERNS)}, {"String": random.choice(("a", "", " "))}])
    if action == 0:
        content["pre_tokenizer"] = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    elif action == 1:
        replace = {"type": "Replace", "pattern": pattern, "content": random.choice(("", "a", "aa", "a" * 1000))}
        content["normalizer"] = {"type": "Sequence", "normalizers": [replace] * random.choice((1, 2, 40, 100))}
    elif action == 2 and isinstance(content.get("post_processor"), dict):
        content["post_processor"][random.choice(list(content["post_processor"]))] = odd_value(random)
    elif action == 3 and isinstance(content.get("model"), dict):
        content["model"][random.choice(list(content["model"]) or ["x"])] = odd_value(random)
    elif action == 4 and isinstance(content.get("added_tokens"), list) and content["added_tokens"]:
        token = random.choice(content["added_tokens"])
        if isinstance(token, dict) and token:
            token[random.choice(list(token))] = odd_value(random)
    elif action == 5 and isinstance(content.get("model"), dict) and isinstance(content["model"].get("vocab"), dict):
        vocabulary = content["model"]["vocab"]
        for word in random.sample(list(vocabulary), k=min(len(vocabulary), 5)):
            vocabulary[word] = random.choice([0, -1, 10**6, 2**31, 2**32, "0", None, vocabulary.pop(word)])
    elif action == 6:
        content["normalizer"] = {
            "type": "Precompiled",
            "precompiled_charsmap": random.choice(("", "AAAA", "////", "A" * 400)),
        }
    elif action == 7:
        content["padding"] = {
            "strategy": {"Fixed": random.choice((0, 5, 10**9))},
            "direction": "Right",
            "pad_to_multiple_of": random.choice((None, 0, 10**9)),
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "x",
        }
    elif action == 8:
        mark, text = {"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
        many, token = [random.choice((0, 1, 5, 100_000)) for _ in range(2)], random.choice(("x", "x" * 100_000))
        content["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [mark] * many[0] + [text] * random.choice((1, 2, 1_000)),
            "pair": [text, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"x": {"id": "x", "ids": [0] * many[1], "tokens": [token] * min(many[1], 100)}},
        }
    elif action == 9:
        content["normalizer"] = {"type": "Prepend", "prepend": random.choice(("", "x", " x" * 10, " x" * 10**6))}
    else:
        content["decoder"] = {"type": random.choice(("ByteLevel", "WordPiece", "Nothing", "BPEDecoder"))}
    path.write_text(json.dumps(content))


def _change_weights(random: Random, folder: Path, canary: Path) -> None:
    damage_tensors(random, folder / "model.safetensors")


def _change_header(random: Random, folder: Path, canary: Path) -> None:
    damage_header(random, folder / "model.safetensors")


def _link(random: Random, folder: Path, canary: Path) -> None:
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    link_elsewhere(random, folder / random.choice(names))


def _plant_code(random: Random, folder: Path, canary: Path) -> None:
    """Plant a module and pickles that create the canary, and references to them."""
    (folder / "c.py").write_text(f"import pathlib\npathlib.Path({str(canary)!r}).write_text('ran')\nclass C: pass\n")
    names = {"AutoConfig": "c.C", "AutoModelForSequenceClassification": "c.C", "AutoTokenizer": ["c.C", "c.C"]}
    action = random.randrange(4)
    if action < 2:
        path = folder / ("config.json", "tokenizer_config.json")[action]
        content = read_or_none(path)
        if isinstance(content, dict):
            content["auto_map"] = random.choice([names, ["c.C", "c.C"], {"AutoConfig": "somebody/else--c.C"}])
            if random.random() < 0.5:
                content["model_type"] = "unknown"
            path.write_text(json.dumps(content))
        return
    name = random.choice(("pytorch_model.bin", "weights.bin", "model-1.safetensors", "adapter_model.bin"))
    (folder / name).write_bytes(pickle.dumps(Canary(str(canary))))
    (folder / "model.safetensors").unlink(missing_ok=True)
    if action == 2:
        weight_map = {"a": random.choice((name, "../shared/bert/model.safetensors", "/dev/zero", "", ".", 3, None))}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "somebody/else"}))
