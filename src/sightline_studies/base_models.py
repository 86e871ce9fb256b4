"""The models of a study that were not given: trained on its data, from a base model or from scratch.

| the model | with `--model base=FOLDER` | without |
|---|---|---|
| classifies texts | the base, fine-tuned | a small encoder trained from scratch (`new-encoder`) |
| answers questions, fills in a mask | the base with a new head, fine-tuned | left out: it needs a pretrained body |

A second model of each kind has every second layer of the base, as DistilBERT was begun (Sanh et al. 2019, section 3).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from sightline.errors import InputError, ModelError
from sightline.files.writing import new_folder, write_whole
from sightline.text import Example
from sightline_studies.workbench import BASE, MODELS, Subject, Workbench, digest_of, hash_files

FINE_TUNING: Mapping[str, Mapping[str, Any]] = {
    "sequence_classification": {"epochs": 1, "batch": 32, "learning_rate": 1e-4, "max_tokens": 96},
    "question_answering": {"epochs": 3, "batch": 16, "learning_rate": 2e-4, "max_tokens": 128},
    "masked_lm": {"epochs": 3, "batch": 32, "learning_rate": 5e-4, "max_tokens": 64},
}
FROM_SCRATCH: Mapping[str, Any] = {"units": "subwords", "dropout": 0.2, "batch": 32, "learning_rate": 1e-3}
WEIGHTS, CONFIG = "model.safetensors", "config.json"
LAYER_COUNTS = ("num_hidden_layers", "n_layers")
"""Names of the number of layers in configs."""
LAYER = re.compile(r"(?P<before>(?:.*\.)?layers?\.)(?P<number>\d+)(?P<after>\..*)")
"""The name of a weight in a layer."""


def fine_tuned(
    bench: Workbench,
    name: str,
    rows: Sequence[Example],
    task: str = "sequence_classification",
    *,
    shorter: bool = False,
) -> Subject | None:
    """Return the base, or every second layer of it, trained on rows; None if no base was given."""
    base = bench.given_models.get(BASE)
    if base is None:
        return None
    start = every_second_layer(bench, base) if shorter else base
    return bench.trained_model(name, rows, start, task=task, **FINE_TUNING[task])


def classifier(bench: Workbench, role: str, name: str, rows: Sequence[Example]) -> Subject:
    """Return the model that was given for a role, or the base trained on rows, or a new encoder trained on them."""
    given = bench.given_model(role)
    if given is None and not any(row.label is not None for row in rows):
        raise InputError(
            f"There are no rows with labels to train the model '{role}' on. Give it with --model {role}=FOLDER, or add "
            "a field 'label' to its data."
        )
    return given or fine_tuned(bench, name, rows) or new_classifier(bench, name, rows)


def new_classifier(bench: Workbench, name: str, rows: Sequence[Example]) -> Subject:
    """Return a small encoder that is trained on rows from scratch."""
    return bench.trained_model(
        name,
        rows,
        "new-encoder",
        epochs=bench.number("epochs"),
        sizes={"n_layer": bench.number("layers"), "n_head": 8, "n_embd": bench.number("width"), "n_positions": 256},
        **FROM_SCRATCH,
    )


def every_second_layer(bench: Workbench, source: str) -> str:
    """Return a folder of the study with layers 0, 2, 4 … of a model, as a starting point for training."""
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise ModelError(
            f"'{source}' is not a folder, so its layers cannot be chosen. Download it and give its folder."
        )
    out = bench.folder / MODELS / f"{folder.name}-shorter-{digest_of(hash_files(folder))}"
    with bench.only_here(out):
        if not out.is_dir():
            _write_every_second_layer(folder, out)
    return str(out)


def _write_every_second_layer(source: Path, out: Path) -> None:
    try:
        config = json.loads((source / CONFIG).read_text(encoding="utf-8"))
        count = next(name for name in LAYER_COUNTS if name in config)
        with safe_open(source / WEIGHTS, framework="pt") as file:
            names = {name: _renumber(name) for name in list(file.keys())}
            kept = {renamed: file.get_tensor(name) for name, renamed in names.items() if renamed is not None}
    except (OSError, ValueError, StopIteration, SafetensorError):
        raise ModelError(
            f"Every second layer of '{source.name}' cannot be taken: it needs {WEIGHTS}, and {CONFIG} with the number "
            f"of layers ({' or '.join(LAYER_COUNTS)})."
        ) from None
    with new_folder(out) as folder:
        for path in source.iterdir():
            if path.is_file() and path.suffix in (".json", ".txt", ".model") and "safetensors" not in path.name:
                shutil.copyfile(path, folder / path.name)
        write_whole(folder / CONFIG, json.dumps(_shorten_config(config, count), indent=2) + "\n")
        save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})


def _shorten_config(config: Mapping[str, Any], count: str) -> dict[str, Any]:
    """Return a config with half the layers; lists with an entry per layer keep those of the layers that are kept."""
    layers = config[count]
    kept = {
        key: value[::2] if isinstance(value, list) and len(value) == layers else value for key, value in config.items()
    }
    return {**kept, count: -(-layers // 2)}


def _renumber(name: str) -> str | None:
    """Return the name of a weight in the shorter model, or None if its layer is left out."""
    match = LAYER.fullmatch(name)
    if match is None:
        return name
    half, odd = divmod(int(match["number"]), 2)
    return None if odd else f"{match['before']}{half}{match['after']}"
