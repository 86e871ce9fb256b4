"""One sub-process of the harness: builds and opens cases, and writes one line of JSON per event to standard output."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

import torch

from sightline.errors import SightlineError
from tests.fuzz.doors import DOORS
from tests.fuzz.harness import Door

_LONGEST_SENTENCE = 2_000


def main(name: str, seed: str, first: str, stop: str, workspace: str, memory: str, show: str) -> None:
    """Run the cases first … stop-1 of a door."""
    # The door may print; only this copy of standard output is read by the harness.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    place = Path(workspace)
    shared = place / "shared"
    shared.mkdir()
    door = DOORS[name]()
    door.prepare(shared)
    _limit_memory(int(memory))
    baseline = _peak()

    def tell(**message: Any) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    for number in range(int(first), int(stop)):
        tell(starts=number)
        start = time.perf_counter()
        kind, detail = _judge(door, Random(f"{name}:{seed}:{number}"), place, show == "1")
        seconds = time.perf_counter() - start
        tell(number=number, kind=kind, detail=detail, seconds=seconds, memory=_peak() - baseline)


def _judge(door: Door, random: Random, place: Path, show: bool) -> tuple[str, str]:
    """Run one case and return the kind of its outcome and a detail."""
    folder, canary, temporary = place / "case", place / "canary", place / "temporary"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    case = door.build(random, folder, canary)
    before = _listing(folder)
    try:
        kind, detail = "right", door.open(case, folder)
    except SightlineError as error:
        kind, detail = "refused", str(error)
        if "\n" in detail or not detail.strip() or len(detail) > _LONGEST_SENTENCE or not detail.isprintable():
            kind = "not a sentence"
    except AssertionError as error:
        kind, detail = "wrong", _last_call(error)
    except MemoryError as error:
        kind, detail = "memory", _last_call(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of a Rust library is no Exception
        kind, detail = ("memory" if "allocate" in str(error) else "traceback"), _last_call(error)
        if show:
            traceback.print_exc()
    if show:
        sys.stderr.write(f"{kind}: {detail}\n{sorted(before)}\n")
    if canary.exists():
        canary.unlink()
        return "executed", f"the canary was written; {kind}: {detail}"
    if kind in ("right", "refused"):
        changed = _listing(folder) ^ before
        left = [path.name for path in temporary.iterdir()]
        if changed or left:
            shutil.rmtree(temporary)
            temporary.mkdir()
            return "left behind", f"{sorted(changed)} {left}"
    return kind, detail


def _listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _last_call(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "sightline" in frame.filename or "fuzz" in frame.filename]
    frame = (ours or frames)[-1]
    return f"{type(error).__name__}: {str(error)[:200]!r} at {Path(frame.filename).name}:{frame.lineno}"


def _limit_memory(allowance: int) -> None:
    """Limit the address space to what the process has now and `allowance` bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + allowance
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
