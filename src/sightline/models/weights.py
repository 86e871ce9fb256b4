"""Weight files: which ones a folder may bring, and what their headers promise before a single number is read.

A safetensors file starts with the length of its header (8 bytes, little-endian) and the header, a JSON object that maps
every tensor's name to its type, shape and place in the rest of the file. The header is cheap to read, so that sizes in
config.json can be compared with it before anything is allocated.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors.torch import load_file
from torch import Tensor

from sightline.errors import ModelError, SizeError
from sightline.files.foreign import first_line, parse_json, quote, read_json, regular_file
from sightline.files.processes import machine_memory

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
OTHER_FORMS = {
    "*.gguf": "GGUF",
    "*.onnx": "ONNX",
    "onnx/*.onnx": "ONNX",
    "tf_model*.h5": "TensorFlow",
    "flax_model*.msgpack": "Flax",
    "openvino_model*.xml": "OpenVINO",
}
"""Weight files of other programs: pattern -> name."""
HEADER_BYTES = 100_000_000
"""The format's own limit."""
INDEX_BYTES = 100_000_000
MAX_SHARDS = 10_000
NUMBER_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""Types of numbers that are read, with the bytes of one."""
SPARE_NUMBERS = 50_000_000
"""A model may be larger than its weights by this much: missing weights are then counted and named after loading."""
MAX_RANDOM_NUMBERS = 500_000_000
"""Largest model that is filled with random weights."""


@dataclass(frozen=True)
class Checkpoint:
    """The weight files of a folder."""

    files: tuple[Path, ...]
    shapes: Mapping[str, tuple[int, ...]]
    """By tensor name; empty for pickles, whose content is not known before they are read."""
    pickled: bool = False

    @property
    def numbers(self) -> int:
        """Total number of elements of all tensors."""
        return sum(math.prod(shape) for shape in self.shapes.values())


def find_checkpoint(folder: Path, *, allow_pickle: bool) -> Checkpoint | None:
    """Return the weight files of a model folder, with their headers checked; None if there is no weight file.

    Only safetensors files inside the folder count. A pickle is refused with advice unless `allow_pickle`.
    """
    single = regular_file(folder, SINGLE_FILE, ModelError)
    if single is not None:
        return Checkpoint((single,), read_header(single))
    index = regular_file(folder, INDEX_FILE, ModelError)
    if index is not None:
        return _read_index(folder, index)
    pickled = sorted(path.name for path in folder.glob("pytorch_model*.bin"))
    if not pickled:
        return None
    if not allow_pickle:
        raise ModelError(
            f"The weights of '{folder}' are a pickle ({pickled[0]}), which can run code when it is read. "
            "Convert them to safetensors, or allow it with --allow-pickle (allow_pickle=True) if you trust the source."
        )
    files = [regular_file(folder, name, ModelError) for name in pickled]
    return Checkpoint(tuple(path for path in files if path is not None), {}, pickled=True)


def has_weights(folder: Path) -> bool:
    """Return whether a folder has a file of weights that could be read, whatever is in it."""
    return any(next(folder.glob(pattern), None) for pattern in (SINGLE_FILE, INDEX_FILE, "pytorch_model*.bin"))


def describe_other_weights(folder: Path) -> str:
    """Return a sentence about weights in a form that is not read, with a space before it; "" if there are none."""
    for pattern, kind in OTHER_FORMS.items():
        path = next(iter(sorted(folder.glob(pattern))), None)
        if path is not None:
            return (
                f" It has {kind} weights ({quote(path.name)}), which Sightline does not read: give the original model."
            )
    return ""


def read_header(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor in a safetensors file, or raise a `ModelError` if file and header disagree."""
    try:
        with path.open("rb") as file:
            return dict(_read_tensor_shapes(file, os.fstat(file.fileno()).st_size, f"The weights '{path}'"))
    except OSError as error:
        raise ModelError(f"The weights '{path}' could not be loaded: {error.strerror}.") from None


def read_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint by name."""
    weights: dict[str, Tensor] = {}
    for path in checkpoint.files:
        try:
            weights.update(_read_pickle(path) if checkpoint.pickled else load_file(path))
        except ModelError:
            raise
        except Exception as error:  # the libraries raise many kinds for damaged files
            raise ModelError(f"The weights '{path}' could not be loaded: {first_line(error)}") from error
    return weights


def check_size(model: torch.nn.Module, checkpoint: Checkpoint | None, place: str) -> None:
    """Refuse a model that needs far more numbers than its weights have, or more memory than the machine has.

    `model` is on the meta device: it has shapes and no memory. Names are not compared here, because the library renames
    old ones while loading; what is missing or misshapen in a model of a plausible size is reported after loading.
    """
    parameters = dict(model.named_parameters())
    needed = sum(parameter.numel() for parameter in parameters.values())
    name, largest = max(parameters.items(), key=lambda item: item[1].numel())
    biggest = f"'{name}' alone has {' × '.join(f'{size:,}' for size in largest.shape)} numbers"
    if checkpoint is None or checkpoint.pickled:
        if needed > MAX_RANDOM_NUMBERS and checkpoint is None:
            raise SizeError(
                f"The config of '{place}' describes a model of {needed:,} numbers ({biggest}); random weights are made "
                f"for at most {MAX_RANDOM_NUMBERS:,}."
            )
    elif needed > checkpoint.numbers + SPARE_NUMBERS:
        raise ModelError(
            f"The weights of '{place}' do not fit its config: they have {checkpoint.numbers:,} numbers, and the config "
            f"describes a model of {needed:,} ({biggest})."
        )
    memory = machine_memory()
    if memory and 4 * needed > memory:
        raise SizeError(
            f"The model in '{place}' needs {4 * needed / 1e9:.0f} GB for its weights alone; this machine has "
            f"{memory / 1e9:.0f} GB."
        )


def _read_index(folder: Path, index: Path) -> Checkpoint:
    """Return the files that an index names; they are files of this folder or nothing."""
    name = f"The weights index of '{folder}'"
    content = read_json(index, limit=INDEX_BYTES, error=ModelError, name=name)
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(file, str) for file in places.values()):
        raise ModelError(f"{name} has no 'weight_map' from tensor names to file names.")
    names = sorted(set(places.values()))
    if len(names) > MAX_SHARDS:
        raise ModelError(f"{name} names {len(names):,} files; at most {MAX_SHARDS:,} are read.")
    files, shapes = [], {}
    for file in names:
        if not file.endswith(".safetensors") or "/" in file or "\\" in file:
            raise ModelError(
                f"{name} names '{quote(file)}'; weights are read only from safetensors files in the folder itself."
            )
        path = regular_file(folder, file, ModelError)
        if path is None:
            raise ModelError(f"{name} names '{quote(file)}', which is not there.")
        files.append(path)
        shapes.update(read_header(path))
    missing = next((tensor for tensor in places if tensor not in shapes), None)
    if missing is not None:
        raise ModelError(f"{name} lists '{quote(missing)}', which no file contains.")
    return Checkpoint(tuple(files), shapes)


def _read_tensor_shapes(file: BinaryIO, size: int, name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    def damaged(reason: str) -> ModelError:
        return ModelError(f"{name} could not be loaded: {reason}; the file is damaged or is no safetensors file.")

    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(HEADER_BYTES, size - 8):
        raise damaged("the header does not fit into the file")
    header = parse_json(file.read(length), error=ModelError, name=name)
    if not isinstance(header, dict):
        raise damaged("the header is not an object")
    room = size - 8 - length
    taken = 0
    for tensor, described in header.items():
        if tensor == "__metadata__":
            continue
        facts = described if isinstance(described, dict) else {}
        dtype, shape, ends = facts.get("dtype"), facts.get("shape"), facts.get("data_offsets")
        if not (isinstance(shape, list) and isinstance(ends, list) and len(ends) == 2 and len(shape) <= 8):
            raise damaged(f"'{quote(tensor)}' has no shape or no place")
        if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in shape + ends):
            raise damaged(f"'{quote(tensor)}' has no shape or no place")
        if not isinstance(dtype, str) or dtype not in NUMBER_BYTES:
            raise ModelError(
                f"{name} store '{quote(tensor)}' as {quote(dtype)}; known number types are {', '.join(NUMBER_BYTES)}."
            )
        if not ends[0] <= ends[1] <= room or math.prod(shape) * NUMBER_BYTES[dtype] != ends[1] - ends[0]:
            raise damaged(f"'{quote(tensor)}' does not fit into its place")
        taken += ends[1] - ends[0]
        if taken > room:
            raise damaged("tensors overlap")
        yield tensor, tuple(shape)


def _read_pickle(path: Path) -> dict[str, Any]:
    weights = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(weights, dict) or not all(isinstance(tensor, Tensor) for tensor in weights.values()):
        raise ModelError(f"The weights '{path}' could not be loaded: they are no mapping from names to tensors.")
    return weights
