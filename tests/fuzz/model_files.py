"""Damage to the files of models and checkpoints: tensors and headers of their files, links, pickles that run code."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.fuzz.mutations import damage_bytes, damage_json


class Canary:
    """Writes the canary when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path(self.path).write_text, ("ran",))


def damage_tensors(random: Random, path: Path) -> None:
    """Remove, rename, reshape or convert tensors of a safetensors file, or fill them with odd numbers."""
    try:
        weights = load_file(path)
    except Exception:  # damaged before
        return
    for name in random.sample(sorted(weights), k=min(len(weights), random.randint(1, 3))):
        tensor = weights.pop(name)
        action = random.randrange(7)
        if action == 0:
            continue
        if action == 1:
            weights[name + random.choice(("", ".extra", "\n"))] = tensor
        elif action == 2:
            weights[name] = tensor.to(random.choice([torch.float16, torch.bfloat16, torch.float64, torch.int64]))
        elif action == 3:
            weights[name] = torch.zeros([random.randrange(5) for _ in range(random.randrange(4))])
        elif action == 4:
            value = random.choice([float("nan"), float("inf"), 1e38, 0.0])  # 1e38 is infinite in half precision
            weights[name] = torch.full(tensor.shape, value).to(tensor.dtype)
        elif action == 5:
            weights[name] = tensor.repeat(2, *[1] * (tensor.ndim - 1)) if tensor.ndim else tensor
        else:
            weights[name] = tensor.flatten()
    save_file(weights, path, metadata={"format": "pt"})


def damage_header(random: Random, path: Path) -> None:
    """Damage the bytes of a safetensors file, or the JSON with which it begins."""
    if not path.is_file():
        return
    try:
        raw = path.read_bytes()
    except OSError:  # linked to something that cannot be read, in an earlier round of the same case
        return
    action = random.randrange(4)
    if action == 0:
        path.write_bytes(damage_bytes(random, raw))
    elif action == 1:
        path.write_bytes(random.choice([b"", b"\0" * 8, (2**63).to_bytes(8, "little"), raw[: random.randrange(200)]]))
    else:
        length = int.from_bytes(raw[:8], "little")
        try:
            header = json.loads(raw[8 : 8 + length])
        except (ValueError, RecursionError):
            return
        changed = damage_json(random, header)
        path.write_bytes(len(changed).to_bytes(8, "little") + changed + raw[8 + length :])


def link_elsewhere(random: Random, path: Path) -> None:
    """Put a link to a device, to a file outside or to nothing in the place of a file."""
    path.unlink(missing_ok=True)
    path.symlink_to(
        random.choice(("/dev/zero", "/etc/passwd", str(path), "/nowhere", "/dev/full", ".", "/proc/self/mem"))
    )


def read_or_none(path: Path) -> Any:
    """Return the content of a JSON file, or None if it is damaged already."""
    try:
        return json.loads(path.read_text()) if path.is_file() and not path.is_symlink() else None
    except (ValueError, RecursionError, OSError):
        return None
