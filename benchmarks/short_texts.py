"""Short texts on a classifier: methods, predictions, runs and the server, each beside its plain form in one run.

    python -m benchmarks.short_texts --model FOLDER --data FILE

A BERT classifier and a file of rows with a `text`; the built-in model and texts of the package without them. Every
number is CPU seconds, of child processes as well. `--part NAME` runs one part.

methods    sentences per CPU second of three methods
predict    `predict(texts)` beside transformers called once per text
path       integrated gradients beside captum's with 50 steps, and the error of both against 300 steps
bert       input × gradient of BERT base beside captum, 512 tokens, random weights
run        `sl.run` beside `explain(list)`, without measures and with the default ones
server     `sightline serve` beside the same calls in this process
load       `sl.load()` in a fresh process beside the import of torch and transformers
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import torch
from captum.attr import LayerGradientXActivation, LayerIntegratedGradients
from torch import Tensor
from transformers import AutoModelForSequenceClassification, BertConfig

import sightline as sl
from benchmarks import harness
from sightline import builtin

WANTED = {"attnlrp": 45.0, "input_x_gradient": None, "alti": None}
"""Sentences per CPU second."""
CAPTUM_STEPS, FINE_STEPS = 50, 300


def texts_of(options: argparse.Namespace, count: int) -> list[str]:
    """Return the first texts of the data."""
    if options.data is not None:
        return [row.text for row in itertools.islice(sl.read_examples(options.data), count)]
    words = " ".join(path.read_text(encoding="utf-8") for path in builtin.documents().values()).split()
    return [" ".join(words[15 * number % len(words) :][:15]) for number in range(count)]


def library_module(model: sl.Model, folder: str | None) -> Any:
    """Return the model as transformers loads it, in single precision."""
    source = builtin.model_folder() if folder is None else folder
    return AutoModelForSequenceClassification.from_pretrained(source, dtype=torch.float32).eval()


def methods(report: harness.Report, model: sl.Model) -> None:
    """Sentences per CPU second."""
    texts = texts_of(report.options, 20 if report.quick else 200)
    for name, wanted in WANTED.items():
        model.explain(texts[:10], name)
        seconds = harness.median_seconds(lambda name=name: model.explain(texts, name), repeats=3)
        report.ratio(f"{name}, sentences per CPU second", len(texts) / seconds, 1.0, wanted)


def predict(report: harness.Report, model: sl.Model) -> None:
    """A list of texts against a loop over transformers' own model."""
    texts = texts_of(report.options, 60 if report.quick else 1_500)
    module, tokenizer = library_module(model, report.options.model), model.tokenizer

    def loop() -> list[Tensor]:
        with torch.inference_mode():
            return [module(**tokenizer(text, return_tensors="pt")).logits[0].softmax(-1) for text in texts]

    report.compare("predict", ours=lambda: model.predict(texts), reference=loop, target=2, repeats=2)
    report.compare(
        "predict, against predict in a loop",
        ours=lambda: model.predict(texts),
        reference=lambda: [model.predict(text) for text in texts],
        repeats=2,
    )
    pairs = zip(model.predict(texts), loop(), strict=True)
    report.fact("largest difference", max(float(np.abs(a.probabilities - b.numpy()).max()) for a, b in pairs))


def path(report: harness.Report, model: sl.Model) -> None:
    """Integrated gradients of the margin between both classes, at the error of captum's 50 steps."""
    texts = texts_of(report.options, 4 if report.quick else 50)
    module = library_module(model, report.options.model)
    encodings = [model.encode(text) for text in texts]
    steps = 4 if report.quick else CAPTUM_STEPS

    def margin(ids: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = module(ids, attention_mask=mask).logits
        return logits[:, 1] - logits[:, 0]

    method = LayerIntegratedGradients(margin, module.base_model.embeddings)

    def captum() -> list[np.ndarray]:
        results = []
        for encoding in encodings:
            ids = torch.from_numpy(encoding.ids)[None]
            pads = torch.where(torch.from_numpy(encoding.special), ids, model.network.token_id("pad"))
            given = {"additional_forward_args": (torch.ones_like(ids),), "n_steps": steps, "method": "gausslegendre"}
            results.append(method.attribute(ids, baselines=pads, **given)[0, : len(encoding)].sum(-1).detach().numpy())
        return results

    def ours(**options: Any) -> list[np.ndarray]:
        found = model.explain(encodings, "integrated_gradients", target=(1, 0), **options)
        return [explanation.scores for explanation in found]

    exact = ours(steps=FINE_STEPS)

    def errors(results: list[np.ndarray]) -> np.ndarray:
        pairs = zip(results, exact, strict=True)
        return np.array([np.abs(scores - fine).sum() / np.abs(fine).sum() for scores, fine in pairs])

    theirs = errors(captum())
    report.fact("error of captum: median, mean, largest", [f"{f(theirs):.1e}" for f in (np.median, np.mean, np.max)])
    for label, options in (("default", {}), ("50 steps", {"steps": CAPTUM_STEPS}), ("24 steps", {"steps": 24})):
        mine = errors(ours(**options))
        report.fact(f"our error, {label}", [f"{f(mine):.1e}" for f in (np.median, np.mean, np.max)])
        report.compare(
            f"integrated gradients, {label}",
            ours=lambda options=options: ours(**options),
            reference=captum,
            repeats=1,
            target=4 if label == "default" else None,
        )


def bert(report: harness.Report, model: sl.Model) -> None:
    """Input × gradient of the margin on BERT base."""
    tokens = 64 if report.quick else 512
    torch.manual_seed(0)
    module = AutoModelForSequenceClassification.from_config(
        BertConfig(num_hidden_layers=2 if report.quick else 12)
    ).eval()
    large = sl.load(module)
    encoding = large.encode(ids=list(range(1_000, 1_000 + tokens)))
    ids = torch.from_numpy(encoding.ids)[None]

    def margin(points: Tensor) -> Tensor:
        logits: Tensor = module(points).logits
        return logits[:, 1] - logits[:, 0]

    method = LayerGradientXActivation(margin, module.bert.embeddings.word_embeddings)
    theirs: list[Tensor] = []
    report.compare(
        "BERT base, input x gradient",
        ours=lambda: large.explain(encoding, "input_x_gradient", target=(1, 0)),
        reference=lambda: theirs.append(method.attribute(ids)),
        repeats=5,
        reference_repeats=5,
        target=1,
    )


@contextmanager
def spent() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the CPU seconds since then, of this process and of children that have ended."""
    before = sum(os.times()[:4])
    yield lambda: sum(os.times()[:4]) - before


def run(report: harness.Report, model: sl.Model) -> None:
    """A run in this process against `explain(list)` with the same methods; what a worker needs to start is `load`."""
    texts = texts_of(report.options, 40 if report.quick else report.options.rows)
    with spent() as seconds:
        for start in range(0, len(texts), 100):
            model.explain(texts[start : start + 100], methods=model.default_methods)
        plain = seconds()
    for label, options, target in (("no measures", {"measures": []}, 0.9), ("default", {}, 0.8)):
        with tempfile.TemporaryDirectory() as folder, spent() as seconds:
            sl.run(texts, model, out=Path(folder) / "run", **options)
            report.ratio(f"run, {label}", plain, seconds(), target, {"ours": seconds(), "reference": plain})


def server(report: harness.Report, model: sl.Model) -> None:
    """Explanations of single texts over HTTP, without check, against `explain` and its record in this process."""
    texts = texts_of(report.options, 10 if report.quick else 200)
    command = [sys.executable, "-c", "from sightline.cli import main; main()", "serve", "--port", "0"]
    command += [] if report.options.model is None else ["--model", report.options.model]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3].rstrip("/")
        tree = [psutil.Process(process.pid)]

        def used() -> float:
            family = [*tree, *tree[0].children(recursive=True)]
            return sum(sum(member.cpu_times()[:2]) for member in family)

        def ask(text: str) -> None:
            request = {"text": text, "methods": ["attnlrp"], "check": False}
            httpx.post(f"{url}/api/explain", json=request, timeout=120).raise_for_status()

        ask(texts[0])
        before, began = used(), time.perf_counter()
        for text in texts:
            ask(text)
        theirs, elapsed = used() - before, time.perf_counter() - began
    finally:
        process.terminate()
        process.wait()
    model.explain(texts[0], "attnlrp").to_dict()
    before, began = time.process_time(), time.perf_counter()
    for text in texts:
        model.report(text, ["attnlrp"], check=False, inside=False).to_dict()
    mine, ours_elapsed = time.process_time() - before, time.perf_counter() - began
    report.ratio("server, CPU", mine, theirs, 0.9, {"ours": theirs, "reference": mine})
    report.ratio("server, elapsed", ours_elapsed, elapsed, None, {"ours": elapsed, "reference": ours_elapsed})


def load(report: harness.Report, model: sl.Model) -> None:
    """CPU seconds of a fresh process."""
    programs = {
        "ours": "import sightline as sl; sl.load()",
        "reference": "import torch, transformers; "
        "from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel",
    }
    best = {}
    for name, program in programs.items():
        times = []
        for _ in range(1 if report.quick else 3):
            with spent() as seconds:
                subprocess.run([sys.executable, "-c", program], check=True)
                times.append(seconds())
        best[name] = min(times)
    report.fact("sl.load(), CPU seconds", round(best["ours"], 2))
    report.ratio("load, against the libraries alone", best["reference"], best["ours"], None, best)


PARTS: dict[str, Callable[[harness.Report, sl.Model], None]] = {
    part.__name__: part for part in (methods, predict, path, bert, run, server, load)
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program."""
    parser.add_argument("--model", help="the folder of a BERT classifier of two classes")
    parser.add_argument("--data", help="a file of rows with a text")
    parser.add_argument("--rows", type=int, default=2_000, help="rows of the run")
    parser.add_argument("--part", choices=PARTS, help="run one part; by default all")


def main() -> None:
    """Run the parts."""
    report = harness.start("short_texts", __doc__, add_options)
    model = sl.load(report.options.model)
    for name, part in PARTS.items():
        if report.options.part in (None, name):
            part(report, model)
    report.finish()


if __name__ == "__main__":
    main()
