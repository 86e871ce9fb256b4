"""The files of a tokenizer, read as data and written again before the library loads them.

The library reads a dozen files of a folder and follows what they say: class names, further files, versions, templates.
It therefore gets a temporary folder instead, with unchanged vocabulary files and with a tokenizer_config.json
that holds only settings listed here.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sightline.errors import ModelError
from sightline.foreign import quote, read_json, regular_file
from sightline.text.patterns import why_unsafe

VOCABULARY_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt")
VOCABULARY_PATTERNS = ("*.model", "*.vocab", "*.tiktoken")
FILE_BYTES = 256_000_000
CONFIG_BYTES = 16_000_000
MAX_GROWTH = 128
"""By how much the replacements of a tokenizer may lengthen a text, taken together."""
MAX_WORD = 1_000
"""Longest word that WordPiece may be told to split, in O(length²) steps; 100 is usual."""
MAX_PARTS = 64
MAX_ID = 2**31 - 1

_SETTINGS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token"), (str, dict)),
    "mask_token": (str, dict),
    "additional_special_tokens": list,
    "extra_special_tokens": (list, dict),
    "added_tokens_decoder": dict,
    **dict.fromkeys(("do_lower_case", "tokenize_chinese_chars", "add_prefix_space", "trim_offsets", "legacy"), bool),
    **dict.fromkeys(("strip_accents", "keep_accents", "remove_space", "do_basic_tokenize"), bool),
    **dict.fromkeys(
        ("clean_up_tokenization_spaces", "add_bos_token", "add_eos_token", "use_default_system_prompt"), bool
    ),
    **dict.fromkeys(("split_special_tokens", "from_slow", "wordpieces_prefix_is_special"), bool),
    **dict.fromkeys(("padding_side", "truncation_side", "wordpieces_prefix", "errors"), str),
    "model_input_names": list,
    "model_max_length": (int, float),
}
"""Settings of tokenizer_config.json that are handed on, with their types; null is always allowed."""
_NAME = re.compile(r"\w{1,100}")
_ONE_CHARACTER = r"(?:\\[sSdDwW]|\\[pP]\{\w+\}|\\[^A-Za-z0-9]|\[[^\]\[]+\]|[^\\^$*+?()\[\]{}|])"
_NEVER_EMPTY = re.compile(rf"(?:{_ONE_CHARACTER}(?:\+|\{{[1-9]\d*(?:,\d*)?\}})?)+")
"""Expressions that certainly match at least one character."""


def has_vocabulary(folder: Path) -> bool:
    """Whether a folder holds a file that a tokenizer could be made from."""
    names = (*VOCABULARY_FILES[:3], *VOCABULARY_PATTERNS)
    return any(any(folder.glob(pattern)) for pattern in names)


def lay_out(folder: Path, target: Path) -> None:
    """Put the checked files of the tokenizer in `folder` into the empty folder `target`."""
    whole = regular_file(folder, "tokenizer.json", ModelError)
    if whole is not None:
        check_tokenizer(read_json(whole, limit=FILE_BYTES, error=ModelError, name=_label(folder, "tokenizer.json")))
    names = [
        *VOCABULARY_FILES,
        *(path.name for pattern in VOCABULARY_PATTERNS for path in sorted(folder.glob(pattern))),
    ]
    for name in names:
        path = regular_file(folder, name, ModelError)
        if path is None:
            continue
        if path.stat().st_size > FILE_BYTES:
            raise ModelError(f"{_label(folder, name)} is larger than {FILE_BYTES:,} bytes.")
        _link(path, target / name)
    settings = _settings(folder, whole is not None)
    _write(target / "tokenizer_config.json", settings)
    for name in ("special_tokens_map.json", "added_tokens.json"):
        content = _object(folder, name)
        if content is not None:
            _write(target / name, _token_map(content, _label(folder, name)))
    config = _object(folder, "config.json") or {}
    handed_on = {}
    if isinstance(family := config.get("model_type"), str) and _known_family(family):
        handed_on["model_type"] = family
    if isinstance(kind := config.get("tokenizer_class"), str) and _NAME.fullmatch(kind) and _is_fast(kind):
        handed_on["tokenizer_class"] = kind
    _write(target / "config.json", handed_on)


def check_tokenizer(content: Any) -> None:
    """Refuse a tokenizer.json with expressions or replacements that would exhaust the machine on an ordinary text."""
    if not isinstance(content, dict):
        raise ModelError("The tokenizer.json is not a JSON object.")
    model = content.get("model")
    if isinstance(model, dict):
        longest = model.get("max_input_chars_per_word")
        if isinstance(longest, int) and longest > MAX_WORD:
            raise ModelError(
                f"The tokenizer.json asks to split words of {quote(longest)} characters (max_input_chars_per_word); "
                f"at most {MAX_WORD:,} are allowed."
            )
    for stage in ("normalizer", "pre_tokenizer", "decoder"):
        growth = 1.0
        for number, part in enumerate(_parts(content.get(stage)), start=1):
            growth *= _growth(part)
            if growth > MAX_GROWTH:
                raise ModelError(
                    f"The {stage} of the tokenizer.json may make a text more than {MAX_GROWTH} times as long."
                )
            if number > MAX_PARTS:
                raise ModelError(f"The {stage} of the tokenizer.json has more than {MAX_PARTS} parts.")
            expression = _expression(part)
            problem = None if expression is None else why_unsafe(expression)
            if problem is not None:
                raise ModelError(
                    f"A regular expression in the tokenizer.json ({quote(expression)}) {problem}; matching it could "
                    "take forever, so it is not used."
                )


def _parts(stage: Any) -> Iterator[dict[str, Any]]:
    """Yield the parts of a stage; a Sequence has its parts in a list."""
    waiting = [stage]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            for value in part.values():
                if isinstance(value, list):
                    waiting.extend(inner for inner in value if isinstance(inner, dict))


def _expression(part: dict[str, Any]) -> str | None:
    pattern = part.get("pattern")
    expression = pattern.get("Regex") if isinstance(pattern, dict) else None
    return expression if isinstance(expression, str) else None


def _growth(part: dict[str, Any]) -> float:
    """Return by how much one part may lengthen a text, at most."""
    if part.get("type") == "Precompiled":
        return float(_longest_replacement(part.get("precompiled_charsmap")))
    content = part.get("content")
    if part.get("type") != "Replace" or not isinstance(content, str):
        return 1.0
    pattern = part.get("pattern")
    fixed = pattern.get("String") if isinstance(pattern, dict) else None
    if isinstance(fixed, str) and fixed:
        return max(1.0, len(content) / len(fixed))
    expression = _expression(part)
    if expression is not None and _NEVER_EMPTY.fullmatch(expression):
        return max(1.0, len(content))
    return 1.0 + len(content)  # it may match between any two characters


def _longest_replacement(encoded: Any) -> int:
    """Return the bytes of the longest replacement in a character map of SentencePiece.

    The map is the length of a trie (4 bytes, little-endian), the trie, and replacements that end with a zero byte.
    """
    if not isinstance(encoded, str):
        return 1
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ModelError("The tokenizer.json has a character map that is not valid base64.") from None
    replacements = raw[4 + int.from_bytes(raw[:4], "little") :]
    return max((len(replacement) for replacement in replacements.split(b"\0")), default=1) or 1


def _settings(folder: Path, whole: bool) -> dict[str, Any]:
    """Return the settings of tokenizer_config.json that are handed on."""
    label = _label(folder, "tokenizer_config.json")
    content = _object(folder, "tokenizer_config.json") or {}
    if content.get("auto_map"):
        raise ModelError(
            f"The tokenizer needs code of its own ('auto_map' in {label[0].lower()}{label[1:]}), and Sightline never "
            "runs code from a model folder."
        )
    settings: dict[str, Any] = {}
    for name, kinds in _SETTINGS.items():
        value = content.get(name)
        if value is None:
            continue
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise ModelError(
                f"'{name}' in {label[0].lower()}{label[1:]} is {quote(value)}, which is of the wrong type."
            )
        settings[name] = value
    for name in ("added_tokens_decoder", "extra_special_tokens"):
        if isinstance(settings.get(name), dict):
            settings[name] = _token_map(settings[name], label)
    kind = content.get("tokenizer_class")
    if kind is not None:
        if isinstance(kind, str) and _NAME.fullmatch(kind) and _is_fast(kind):
            settings["tokenizer_class"] = kind
        elif not whole:
            raise ModelError(
                f"{label} asks for {quote(kind)}, which is not a fast tokenizer and gives no character offsets: "
                "use one with a tokenizer.json (PreTrainedTokenizerFast)."
            )
    return settings


def _token_map(content: dict[str, Any], label: str) -> dict[str, Any]:
    """Check a map of tokens: the ids in it must be small enough for the library's integers."""
    for key, value in content.items():
        number = int(key) if key.isdecimal() and len(key) < 20 else value if isinstance(value, int) else 0
        if not 0 <= number <= MAX_ID or (key.isdecimal() and len(key) >= 20):
            raise ModelError(f"{label} has the token id {quote(number)}; ids lie between 0 and {MAX_ID:,}.")
    return content


def _is_fast(name: str) -> bool:
    """Whether transformers has a tokenizer class of this name that gives character offsets."""
    import transformers

    kind = getattr(transformers, name, None)
    return isinstance(kind, type) and issubclass(kind, transformers.PreTrainedTokenizerFast)


def _known_family(model_type: str) -> bool:
    from transformers import CONFIG_MAPPING

    return model_type in CONFIG_MAPPING


def _object(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the content of a JSON file in the folder, which must be an object; None if there is no file."""
    path = regular_file(folder, name, ModelError)
    if path is None:
        return None
    content = read_json(path, limit=CONFIG_BYTES, error=ModelError, name=_label(folder, name))
    if not isinstance(content, dict):
        raise ModelError(f"{_label(folder, name)} is {quote(content)}, not a JSON object.")
    return content


def _label(folder: Path, name: str) -> str:
    return f"The {name} in '{folder}'"


def _link(path: Path, target: Path) -> None:
    if target.exists():
        return
    try:
        target.symlink_to(path)
    except (OSError, NotImplementedError):  # no links on this file system
        shutil.copyfile(path, target)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
