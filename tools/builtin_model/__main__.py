"""`python -m tools.builtin_model --seed 0`: rebuild the shipped model from the package registry."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tools.builtin_model.corpus import package_documents, read_documents, write_documents
from tools.builtin_model.packages import NEITHER, read_packages

STAGES = ("corpus", "vocabulary", "train", "evaluate", "card")


def build_corpus(work: Path) -> None:
    """Download the wheels and write corpus.jsonl."""
    from tools.builtin_model.download import download

    packages = read_packages()
    wheels = download(packages, work / "wheels")
    documents = [document for package in packages for document in package_documents(package, wheels[package.name])]
    write_documents(documents, work / "corpus.jsonl")
    for (side, split), count in sorted(Counter((d.side, d.split) for d in documents).items()):
        words = sum(len(d.text.split()) for d in documents if (d.side, d.split) == (side, split))
        print(f"{side} {split}: {count} documents, {words:,} words")


def build_vocabulary(work: Path, output: Path, seed: int) -> None:
    """Learn the word pieces and write the tokenizer."""
    from tools.builtin_model.vocabulary import check_tokenizer, save_tokenizer, train_tokenizer

    documents = read_documents(work / "corpus.jsonl")
    tokenizer = train_tokenizer([document for document in documents if document.split == "train"], seed)
    unknown = check_tokenizer(tokenizer, [document.text for document in documents if document.split == "validation"])
    save_tokenizer(tokenizer, output)
    print(f"{tokenizer.get_vocab_size():,} word pieces; {unknown:.2%} unknown on the validation packages")


def train_model(work: Path, output: Path, seed: int, threads: int) -> None:
    """Train on the training packages, choose on the validation packages, write the weights."""
    import torch

    from tools.builtin_model.evaluate import evaluation_set
    from tools.builtin_model.train import Settings, save_model, train
    from tools.builtin_model.vocabulary import load_tokenizer

    torch.set_num_threads(threads)
    started = time.perf_counter()
    documents = read_documents(work / "corpus.jsonl")
    tokenizer = load_tokenizer(output)
    settings = Settings(seed=seed)
    model, validation = train(
        [document for document in documents if document.split == "train"],
        [
            *evaluation_set(documents, "validation", tokenizer, seed),
            *evaluation_set(documents, "validation", tokenizer, seed, sides=(NEITHER,)),
        ],
        tokenizer,
        settings,
        log=lambda line: print(f"[{time.perf_counter() - started:6.0f} s] {line}", flush=True),
    )
    save_model(model, output)
    parameters = sum(weight.numel() for weight in model.parameters())
    record = {"settings": asdict(settings), "validation": validation, "parameters": parameters}
    (work / "training.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def evaluate_model(work: Path, output: Path, seed: int, threads: int, papers: Path | None) -> None:
    """Read the test figures, look for shortcuts on the validation packages, and write metrics.json."""
    import torch
    from transformers import AutoModelForSequenceClassification

    from tools.builtin_model.evaluate import evaluate, evaluation_set
    from tools.builtin_model.shortcuts import leaning_words, sentence_readings
    from tools.builtin_model.vocabulary import load_tokenizer

    torch.set_num_threads(threads)
    documents = read_documents(work / "corpus.jsonl")
    tokenizer = load_tokenizer(output)
    test = evaluate(output, documents, "test", tokenizer, seed, papers)
    training = json.loads((work / "training.json").read_text(encoding="utf-8"))
    model = AutoModelForSequenceClassification.from_pretrained(output, dtype=torch.float32)
    metrics = {
        **training,
        "test": test,
        "leaning_words": leaning_words(model, evaluation_set(documents, "validation", tokenizer, seed), tokenizer),
        "sentences": sentence_readings(model, tokenizer),
    }
    (output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(test, indent=2))


def main() -> None:
    """Run the requested stage, or all stages in order."""
    parser = argparse.ArgumentParser(prog="python -m tools.builtin_model", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--work", type=Path, default=Path("build/builtin_model"), help="downloads and intermediate files"
    )
    parser.add_argument("--output", type=Path, default=Path("src/sightline/builtin/model"))
    parser.add_argument("--stage", choices=(*STAGES, "all"), default="all")
    parser.add_argument("--threads", type=int, default=1, help="of torch; sums depend on it in the last digits")
    parser.add_argument(
        "--papers", type=Path, help="JSON lines (text, label, split): also read the test split of these"
    )
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.output.mkdir(parents=True, exist_ok=True)
    for stage in STAGES if options.stage == "all" else (options.stage,):
        print(f"== {stage}", flush=True)
        if stage == "corpus":
            build_corpus(options.work)
        elif stage == "vocabulary":
            build_vocabulary(options.work, options.output, options.seed)
        elif stage == "train":
            train_model(options.work, options.output, options.seed, options.threads)
        elif stage == "evaluate":
            evaluate_model(options.work, options.output, options.seed, options.threads, options.papers)
        else:
            from tools.builtin_model.card import write_card

            write_card(options.output, read_packages())


if __name__ == "__main__":
    main()
