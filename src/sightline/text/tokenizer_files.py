"""The files of a tokenizer, read as data and written again before the library loads them.

The library reads a dozen files of a folder and follows what they say: class names, further files, versions, templates.
It therefore gets a temporary folder instead, with unchanged vocabulary files and with a tokenizer_config.json
that holds only settings listed here. Chat templates are read within bounds and never run here.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from sightline.errors import ModelError
from sightline.files.foreign import quote, read_json, regular_file
from sightline.text.tokenizer_limits import check_tokenizer

VOCABULARY_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt")
VOCABULARY_PATTERNS = ("*.model", "*.vocab", "*.tiktoken")
FILE_BYTES = 256_000_000
CONFIG_BYTES = 16_000_000
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


TEMPLATE_CHARACTERS = 200_000


def read_chat_template(folder: Path) -> str | None:
    """Return the chat template of a tokenizer folder; None if there is none, or if it is too large or not a text."""
    own_file = regular_file(folder, "chat_template.jinja", ModelError)
    if own_file is not None:
        if own_file.stat().st_size > 4 * TEMPLATE_CHARACTERS:
            return None
        return bound_template(own_file.read_text(encoding="utf-8", errors="replace"))
    settings = regular_file(folder, "tokenizer_config.json", ModelError)
    if settings is None:
        return None
    name = f"The tokenizer config in '{folder}'"
    content = read_json(settings, limit=CONFIG_BYTES, error=ModelError, name=name)
    return bound_template(content.get("chat_template") if isinstance(content, dict) else None)


def bound_template(template: Any) -> str | None:
    """Return a template of at most `TEMPLATE_CHARACTERS`, of several the one without a name of its own, else None."""
    if isinstance(template, list) and all(isinstance(entry, dict) for entry in template):
        template = {str(entry.get("name")): entry.get("template") for entry in template}
    if isinstance(template, dict):
        template = template.get("default")
    return template if isinstance(template, str) and 0 < len(template) <= TEMPLATE_CHARACTERS else None
