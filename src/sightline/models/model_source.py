"""Where the files of a model are: a folder of this machine, or a snapshot of a model on the hub.

The network is asked only for owner/name and hf://name, so that a mistyped folder is answered at once; a name alone is
looked up in the library's cache on this machine.
"""

from __future__ import annotations

import re
from pathlib import Path

from sightline.errors import ModelError, NoModelError, OptionError, SightlineError, UsageError
from sightline.files.hub import MODEL_FILES, PICKLED_FILES, fetch_snapshot
from sightline.registry import suggestion

HUB = "hf://"
"""Says that what follows is the name of a model on the hub, whatever folders there are."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.\-]*(/[\w.\-]+)?")


def find_folder(source: str | Path, allow_pickle: bool) -> tuple[Path, str]:
    """Return the folder with the files of a model, and the model's name."""
    if not isinstance(source, str | Path):
        raise OptionError(
            "A model is a folder, a name on the hub, or a model or pipeline object of transformers, not "
            f"{type(source).__name__}."
        )
    files = (*MODEL_FILES, *PICKLED_FILES) if allow_pickle else MODEL_FILES
    if isinstance(source, str) and source.startswith(HUB):
        name = source.removeprefix(HUB)
        if not HUB_ID.fullmatch(name):
            raise UsageError(f"'{source}' does not name a model on the hub; write hf://owner/name.")
        return fetch_snapshot(name, local_only=False, files=files), name
    try:
        path = Path(source).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError, ValueError):  # a name too long, an unknown user's home, a NUL byte
        raise UsageError(f"There is no model folder '{str(source)[:200]}'.") from None
    if is_folder:
        return path, path.name or path.resolve().name
    if is_file:
        original = " of the original model" if path.suffix == ".gguf" else ""
        raise NoModelError(f"'{source}' is a file; give the folder{original} that holds config.json and the weights.")
    # If the first half of owner/name is a folder here, the second half is a mistake in a path.
    if isinstance(source, Path) or not HUB_ID.fullmatch(source) or ("/" in source and path.parent.is_dir()):
        raise UsageError(f"There is no model folder '{source}'.{_similar(path)}")
    try:
        return fetch_snapshot(source, local_only="/" not in source, files=files), source
    except ModelError as error:
        raise _not_fetched(source, error) from error


def _similar(path: Path) -> str:
    """Return a question about a model folder beside `path` that is called almost the same, if there is one."""
    return suggestion(path.name, [config.parent.name for config in path.parent.glob("*/config.json")])


def _not_fetched(source: str, error: ModelError) -> SightlineError:
    """Return what to say about a name that is neither a folder nor a model that could be fetched."""
    if "/" not in source:
        return UsageError(
            f"There is no model folder '{source}'.{_similar(Path(source))} To fetch a model of that name from the hub, "
            f"write hf://{source}."
        )
    reason = str(error).partition(": ")[2]
    return ModelError(
        f"There is no model folder '{source}', and no model of that name could be fetched from the hub: {reason}"
    )
