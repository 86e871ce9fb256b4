"""What all benchmarks share: options, timing, peak memory, and the report.

A benchmark is a module with a `main`:

    def main() -> None:
        report = harness.start("rollout", __doc__)
        n = 512 if report.quick else 4096
        report.compare("rollout", ours=lambda: ..., reference=lambda: ..., target=500)
        report.memory("ours", "benchmarks.rollout:prepare_ours", tokens=n)
        report.finish()

Time is CPU time of this process at one torch thread: on an idle machine that is wall time, on a busy one it is not
disturbed by the neighbours. Peak memory is measured in a fresh process, from the moment the input is ready.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

Work = Callable[[], object]
"""Something to measure: no arguments, result thrown away."""


@dataclass
class Report:
    """Collects ratios and peak memory, prints them as they arrive, and ends with one JSON line if requested."""

    name: str
    quick: bool
    json: bool
    options: argparse.Namespace = field(default_factory=argparse.Namespace)
    """The options of the command line."""
    ratios: dict[str, float] = field(default_factory=dict)
    targets: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    peak_memory: dict[str, float] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)
    """Anything else worth keeping: shapes, errors between the two forms."""

    def compare(
        self,
        label: str,
        *,
        ours: Work,
        reference: Work,
        target: float | None = None,
        repeats: int = 5,
        reference_repeats: int = 1,
        reference_scale: float = 1.0,
    ) -> float:
        """Time both forms and record reference / ours under `label`.

        ours runs once unmeasured (compilation, first touch of memory), then `repeats` times, the reference
        `reference_repeats` times; medians count. `reference_scale` stretches a reference that ran on a part of the
        work: 6.0 when it did 2 layers of 12.
        """
        ours()
        mine = median_seconds(ours, repeats)
        theirs = median_seconds(reference, reference_repeats) * reference_scale
        return self.ratio(label, theirs, mine, target, {"ours": mine, "reference": theirs})

    def ratio(
        self,
        label: str,
        reference: float,
        ours: float,
        target: float | None = None,
        seconds: dict[str, float] | None = None,
    ) -> float:
        """Record reference / ours for quantities measured elsewhere; more is better, `target` is the goal."""
        value = reference / ours
        self.ratios[label] = value
        line = f"{label:32s} {value:10.1f}x"
        if seconds is not None:
            self.seconds[label] = seconds
            line += f"   ours {seconds['ours']:10.5f} s   reference {seconds['reference']:10.4f} s"
        if target is not None and not self.quick:  # small sizes only show that it runs
            self.targets[label] = target
            line += f"   target {target:g}x {'reached' if value >= target else 'MISSED'}"
        print(line, flush=True)
        return value

    def memory(self, label: str, prepare: str, **arguments: object) -> float:
        """Record what a piece of work adds to a fresh process at its peak, in MB, see `cost_alone`."""
        self.peak_memory[label] = cost_alone(prepare, **arguments).added / 1e6
        print(f"{'peak memory, ' + label:32s} {self.peak_memory[label]:10.1f} MB", flush=True)
        return self.peak_memory[label]

    def fact(self, label: str, value: object) -> None:
        """Record and print something that is neither a ratio nor memory."""
        self.facts[label] = value
        print(f"{label:32s} {value}", flush=True)

    def finish(self) -> None:
        """Print the JSON line if `--json` was given."""
        if self.json:
            reached = {label: self.ratios[label] >= target for label, target in self.targets.items()}
            print(
                json.dumps(
                    {
                        "name": self.name,
                        "quick": self.quick,
                        "ratios": self.ratios,
                        "targets": self.targets,
                        "reached": reached,
                        "seconds": self.seconds,
                        "peak_memory": self.peak_memory,
                        "peak_memory_unit": "MB",
                        "facts": self.facts,
                    }
                ),
                flush=True,
            )


def start(
    name: str, description: str | None, add_options: Callable[[argparse.ArgumentParser], None] | None = None
) -> Report:
    """Read `--quick`, `--json` and what `add_options` adds, set one torch thread, and open the report."""
    import torch

    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast it is")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on the last line")
    if add_options is not None:
        add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    return Report(name, options.quick, options.json, options)


def median_seconds(work: Work, repeats: int = 5) -> float:
    """Median CPU seconds of `repeats` runs."""
    times = []
    for _ in range(repeats):
        gc.collect()
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return statistics.median(times)


@dataclass(frozen=True)
class Cost:
    """What a piece of work cost in a fresh process."""

    seconds: float
    """CPU seconds."""
    added: float
    """Bytes that it added to the process at its peak; imports and input are not counted."""
    peak: float
    """Bytes of the whole process at its peak: imports, model and input included."""


def cost_alone(prepare: str, **arguments: object) -> Cost:
    """Return the cost of a piece of work in a fresh process, where no memory of earlier work is reused.

    prepare: "package.module:function"; called there with `arguments` (JSON values) it makes the input and returns the
    work to measure.
    """
    command = [sys.executable, "-m", "benchmarks.harness", prepare, json.dumps(arguments)]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"Measuring {prepare} failed:\n{done.stderr}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _measure_here(prepare: str, arguments: str) -> Cost:
    """The child's side of `cost_alone`."""
    module, function = prepare.split(":")
    work = getattr(importlib.import_module(module), function)(**json.loads(arguments))
    gc.collect()
    baseline = _forget_peak()
    begin = time.process_time()
    work()
    seconds, peak = time.process_time() - begin, _peak()
    return Cost(seconds, max(0.0, peak - baseline), peak)


_STATUS = Path("/proc/self/status")


def _forget_peak() -> float:
    """Reset the peak memory of the process to its current memory and return that, in bytes."""
    if not _STATUS.exists():
        return _peak()
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> float:
    """Peak resident bytes of this process.

    Linux keeps the peak of *this program* in /proc; getrusage there also remembers the parent that started it.
    """
    if _STATUS.exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _status(key: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(key + ":"))
    return float(line.split()[1]) * 1024


if __name__ == "__main__":
    print(json.dumps(asdict(_measure_here(*sys.argv[1:]))))
