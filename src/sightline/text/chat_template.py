"""Chat templates as data: the one of a tokenizer folder, read within bounds and never run here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sightline.errors import ModelError
from sightline.files.foreign import read_json, regular_file

TEMPLATE_CHARACTERS = 200_000
CONFIG_BYTES = 16_000_000


def read_chat_template(folder: Path) -> str | None:
    """Return the chat template of a tokenizer folder; None if there is none, or if it is no text of a usual size."""
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
