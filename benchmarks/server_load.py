"""A server under load: four times its queue, slow clients and health checks at once; loopback only, bounded in time.

    python -m benchmarks.server_load --seconds 120

Prints how many health checks were answered and how fast, what became of the explanations, and the memory of the server
and its worker processes at the start, ten times in between, and at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter

import httpx
import psutil

QUEUE = 8
RUN = "from sightline.cli import main; main()"
HEAD = b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
HALF_SENT = HEAD + b"Content-Length: 900\r\n\r\n{"
TEXT = "The compiler infers the types of all expressions, and a neural network learns from data. "


def main() -> None:
    """Start a server, load it, and stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--slow", type=int, default=600, help="half-sent requests held open")
    parser.add_argument("--descriptors", type=int, default=1_024, help="files that the server may open")
    parser.add_argument("--quick", action="store_true", help="10 seconds, 50 slow clients")
    arguments = parser.parse_args()
    seconds, slow = (10.0, 50) if arguments.quick else (arguments.seconds, arguments.slow)
    program = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({arguments.descriptors},) * 2)\n{RUN}"
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--queue", str(QUEUE)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3].rstrip("/")
        measure(url, process.pid, seconds, slow)
    finally:
        process.terminate()
        process.wait()


def measure(url: str, pid: int, seconds: float, slow: int) -> None:
    """Run all clients for `seconds` and print what happened."""
    end = time.monotonic() + seconds
    answers: Counter[object] = Counter()
    threads = [threading.Thread(target=explain, args=(url, end, answers, n)) for n in range(4 * QUEUE)]
    threads.append(threading.Thread(target=hold_half_sent, args=(url, end, slow)))
    httpx.post(f"{url}/api/explain", json={"text": TEXT}, timeout=60)
    print("memory at the start:", memory(pid))
    for thread in threads:
        thread.start()
    times: list[float] = []
    failures = 0
    next_report = time.monotonic() + seconds / 10
    while time.monotonic() < end:
        start = time.perf_counter()
        try:
            failures += httpx.get(f"{url}/api/health", timeout=10).status_code != 200
        except httpx.HTTPError:
            failures += 1
        times.append(time.perf_counter() - start)
        if time.monotonic() >= next_report:
            next_report += seconds / 10
            print(
                f"after {seconds - (end - time.monotonic()):.0f} s: {memory(pid)}, {answers[200]} explained", flush=True
            )
        time.sleep(0.2)
    for thread in threads:
        thread.join()
    print(f"health: {len(times)} checks, {failures} failed")
    print(f"seconds per health check: median {statistics.median(times):.3f}, worst {max(times):.3f}")
    print("explanations by status:", dict(answers))
    print("memory at the end:", memory(pid))


def explain(url: str, end: float, answers: Counter[object], number: int) -> None:
    """Send one explanation after the other; back off as a client would when the queue is full."""
    with httpx.Client(base_url=url, timeout=600) as client:
        for count in itertools.count():
            if time.monotonic() > end:
                return
            text = f"{number} {count} " + TEXT * (1 + count % 20)
            try:
                status: object = client.post("/api/explain", json={"text": text, "relations": True}).status_code
            except httpx.HTTPError as error:
                status = type(error).__name__
            answers[status] += 1
            if status != 200:
                time.sleep(0.5)


def hold_half_sent(url: str, end: float, slow: int) -> None:
    """Keep `slow` half-sent requests open, and open new ones for those that the server closes."""
    host, port = url.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        for number in range(slow):
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            connection.sendall(HALF_SENT if number % 2 else HALF_SENT[:30])
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=10) as connection:
                connection.sendall(HALF_SENT[:50])
                time.sleep(0.05)


def memory(pid: int) -> str:
    """Return the resident memory of the server and its children in MB."""
    process = psutil.Process(pid)
    processes = [process, *process.children(recursive=True)]
    return ", ".join(f"{each.memory_info().rss / 1e6:.0f} MB" for each in processes)


if __name__ == "__main__":
    main()
