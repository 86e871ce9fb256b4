"""Models of the hub: found in the library's cache on this machine, or fetched, as a folder.

Only the files that are read are fetched: config, safetensors weights, and the tokenizer's files.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from sightline.errors import ModelError
from sightline.files.foreign import first_line

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.model",
)
SENTENCE_FILES = ("modules.json", "sentence_bert_config.json", "*_*/config.json", "*_*/model.safetensors")
"""Files of sentence-transformers beside those of the body."""
MODEL_FILES = (
    "config.json",
    "adapter_config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    *TOKENIZER_FILES,
    *SENTENCE_FILES,
)
PICKLED_FILES = ("pytorch_model*.bin",)
_PATIENCE = 3.0
"""Seconds to wait for a first answer of the hub's host."""


def fetch_snapshot(name: str, *, local_only: bool, files: tuple[str, ...] = MODEL_FILES) -> Path:
    """Return the folder of a model by its name on the hub, from the cache if the hub cannot be asked.

    With `local_only` the hub is never asked. A hub that does not answer within seconds is not waited for.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        package = "the package huggingface-hub: pip install 'sightline-xai[hub]'"
        raise ModelError(f"'{name}' is not a folder, and a model of the hub needs {package}.") from None
    unreachable = None if local_only else why_unreachable()
    try:
        folder = snapshot_download(
            name, allow_patterns=list(files), local_files_only=local_only or unreachable is not None
        )
    except Exception as error:  # the library raises its own kinds, those of its HTTP client, and OSError
        reason = unreachable or ("it is not in the cache on this machine." if local_only else first_line(error))
        raise ModelError(f"No model '{name}' could be fetched from the hub: {reason}") from error
    return Path(folder)


def why_unreachable() -> str | None:
    """Return why the hub cannot be reached, or None if its address answers."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "the hub is switched off (HF_HUB_OFFLINE)."
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return None
    address = urlsplit(constants.ENDPOINT)
    host, port = address.hostname or "", address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((host, port), timeout=_PATIENCE).close()
    except OSError:
        return f"{host} cannot be reached from here."
    return None
