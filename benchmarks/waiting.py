"""Threads that sleep while they wait, compared with threads that spin: elapsed time, on an idle and on a busy machine.

`import sightline` asks the OpenMP runtime to let waiting threads sleep, unless the environment says otherwise. The
runtime reads this when torch is first imported, so each form runs in a process of its own: one imports sightline first,
the other torch. Each explains and checks a document of 100 tokens with the built-in model and one thread per core, and
reports the elapsed seconds of the check; by turns, alone and while twice as many processes as there are cores count.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from benchmarks import harness
from benchmarks.side_by_side import neighbours

SENTENCES = "Gradient descent trains the network on labelled examples. The compiler checks every type. "
CHECK = f"""
import os, time
model = sightline.load()
torch.set_num_threads(os.cpu_count())
explanation = model.explain({SENTENCES!r} * 6, method="attcat")
begin = time.perf_counter()
model.check(explanation)
print(time.perf_counter() - begin)
"""
SLEEPS, SPINS = "import sightline, torch", "import torch, sightline"


def check_seconds(imports: str) -> float:
    """Return the elapsed seconds of one check in a new process that begins with these imports."""
    variables = {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
    environment = {name: value for name, value in os.environ.items() if name not in variables}
    command = [sys.executable, "-c", f"{imports}\n{CHECK}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Run both forms, without and with neighbours."""
    report = harness.start("waiting", __doc__)
    cores = os.cpu_count() or 1
    report.fact("cores", cores)
    for label, others in (("alone", 0), ("busy machine", 2 * cores)):
        with neighbours(others):
            turns = [(check_seconds(SLEEPS), check_seconds(SPINS)) for _ in range(1 if report.quick else 3)]
        ours, theirs = (statistics.median(times) for times in zip(*turns, strict=True))
        report.ratio(label, theirs, ours, None, {"ours": ours, "reference": theirs})
    report.finish()


if __name__ == "__main__":
    main()
