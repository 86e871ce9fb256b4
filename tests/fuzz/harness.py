"""Runs the cases of a door in sub-processes with a memory and a time limit, and judges what happened.

The oracle is the same for every door: a case ends with a right result or with one `SightlineError` of one sentence,
within the limits; nothing in the input is executed; nothing is left behind.

A case is fully determined by (door, seed, number), so that every finding can be repeated alone. Many cases share one
process: imports take seconds, a case takes milliseconds. If a process dies or overruns its time, the case it was
working on is the finding, and a new process goes on with the next one.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
"""Limit of one case; generous, because a busy machine must not fail it. Typical cases take milliseconds."""
STARTING_SECONDS = 300.0
MEMORY = 2_000_000_000
"""Bytes of address space that the cases may take beyond what a process has after its imports."""


class Door(Protocol):
    """One way in. Objects live in a worker process; `prepare` runs once, the other two once per case."""

    def prepare(self, workspace: Path) -> None:
        """Build what all cases share (models, valid files) inside `workspace`."""

    def build(self, random: Random, folder: Path, canary: Path) -> object:
        """Write the input of one case into the empty `folder` and return whatever `open` needs.

        Code planted in the input must create the file `canary` when it is run.
        """

    def open(self, case: object, folder: Path) -> str:
        """Hand the input to Sightline and return a word for the outcome.

        Raise AssertionError if the result is wrong. A `SightlineError` is a proper refusal; anything else is a finding.
        """


@dataclass(frozen=True)
class Outcome:
    """What one case came to."""

    number: int
    kind: str
    """"right", "refused", or a finding: "wrong", "traceback", "not a sentence", "executed", "left behind", "memory",
    "time", "died"."""
    detail: str = ""
    seconds: float = 0.0
    memory: int = 0
    """Bytes by which the peak of the process lies above that after its imports."""

    @property
    def is_finding(self) -> bool:
        """Whether the case broke the promise."""
        return self.kind not in ("right", "refused")


@dataclass
class Summary:
    """All outcomes of one run."""

    door: str
    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    end: float | None = None
    """When the run stops, whether or not all cases have run; None for never."""

    @property
    def out_of_time(self) -> bool:
        """Whether no further case may start."""
        return self.end is not None and time.monotonic() > self.end

    @property
    def findings(self) -> list[Outcome]:
        """The cases that broke the promise."""
        return [outcome for outcome in self.outcomes if outcome.is_finding]

    def describe(self) -> str:
        """Return counts, the worst time and memory, and the first findings with the command that repeats them."""
        counts = Counter(outcome.kind for outcome in self.outcomes)
        slowest = max((outcome.seconds for outcome in self.outcomes), default=0.0)
        largest = max((outcome.memory for outcome in self.outcomes), default=0)
        lines = [
            f"{self.door}: {len(self.outcomes):,} cases (seed {self.seed}): "
            + ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
            + f"; slowest {slowest:.1f} s, most memory {largest / 1e6:,.0f} MB"
        ]
        for outcome in self.findings[:20]:
            repeat = f"python -m tests.fuzz {self.door} --seed {self.seed} --first {outcome.number} --count 1 --show"
            lines.append(f"  {outcome.kind}: {outcome.detail[:300]}\n    {repeat}")
        return "\n".join(lines)


def run(
    door: str,
    *,
    count: int,
    seed: int = 0,
    first: int = 0,
    workers: int = 1,
    show: bool = False,
    seconds: float | None = None,
) -> Summary:
    """Run cases first … first+count-1 of a door on several processes; start none after `seconds`."""
    summary = Summary(door, seed, end=None if seconds is None else time.monotonic() + seconds)
    share = -(-count // workers)
    spans = [(start, min(start + share, first + count)) for start in range(first, first + count, share)]
    threads = [threading.Thread(target=_run_span, args=(summary, start, stop, show)) for start, stop in spans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    summary.outcomes.sort(key=lambda outcome: outcome.number)
    return summary


def _run_span(summary: Summary, start: int, stop: int, show: bool) -> None:
    """Run the cases of one span, in as many processes as it takes."""
    while start < stop:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as workspace:
            start = _run_process(summary, start, stop, Path(workspace), show)


def _run_process(summary: Summary, start: int, stop: int, workspace: Path, show: bool) -> int:
    """Run cases until all are done or the process ends; return the number of the next case."""
    (workspace / "temporary").mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "TMPDIR": str(workspace / "temporary"),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "RUST_BACKTRACE": "0",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, "-m", "tests.fuzz.worker", summary.door, str(summary.seed), str(start), str(stop)]
    errors = workspace / "stderr"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, str(workspace), str(MEMORY), str(int(show))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if show else stderr,
            cwd=ROOT,
            env=environment,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"y\n" * 64)  # whoever asks a question gets the worst answer
    process.stdin.close()
    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line)
        lines.put(b"")

    threading.Thread(target=read, daemon=True).start()
    current, limit = start, STARTING_SECONDS
    try:
        while True:
            try:
                line = lines.get(timeout=limit)
            except queue.Empty:
                summary.outcomes.append(Outcome(current, "time", f"no answer within {limit:.0f} s", limit))
                return current + 1
            if not line:
                break
            message = json.loads(line)
            if "starts" in message:
                current, limit = message["starts"], SECONDS
            else:
                summary.outcomes.append(Outcome(**message))
                current = message["number"] + 1
                if summary.out_of_time:
                    return stop
    finally:
        process.kill()
        process.wait()
    if current < stop:
        tail = errors.read_bytes()[-300:].decode(errors="replace") if not show else ""
        summary.outcomes.append(Outcome(current, "died", f"exit code {process.returncode}: {tail}"))
        return current + 1
    return stop
