"""Accuracy on packages that were never seen, beside TF-IDF with logistic regression, with 95 % intervals.

An evaluation set holds documents of at least 1,500 word pieces, at most ten of one package (a large package must not
decide the figure) and as many of one side as of the other.
"""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification

from tools.builtin_model.corpus import Document
from tools.builtin_model.packages import NEITHER, SIDES
from tools.builtin_model.train import document_logits
from tools.builtin_model.vocabulary import MAX_TOKENS

MIN_TOKENS = 1_500
MOST_OF_ONE_PACKAGE = 10
NEUTRAL = Path(__file__).with_name("neutral.txt")
"""Everyday texts of two or three sentences about neither subject, in no part of the training."""


def evaluation_set(
    documents: Sequence[Document], split: str, tokenizer: Tokenizer, seed: int, sides: Sequence[str] = SIDES
) -> list[Document]:
    """Return the long documents of a split: capped per package, all sides equally many."""
    chosen = [document for document in documents if document.split == split and document.side in sides]
    encodings = tokenizer.encode_batch([document.text for document in chosen], add_special_tokens=False)
    packages: dict[str, list[Document]] = {}
    for document, encoding in zip(chosen, encodings, strict=True):
        if len(encoding.ids) >= MIN_TOKENS:
            packages.setdefault(document.package, []).append(document)
    generator = random.Random(seed)
    long: dict[str, list[Document]] = {side: [] for side in sides}
    for name in sorted(packages):
        generator.shuffle(packages[name])
        long[packages[name][0].side] += packages[name][:MOST_OF_ONE_PACKAGE]
    size = min(map(len, long.values()))
    return [document for side in sides for document in generator.sample(long[side], size)]


def wilson(right: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the 95 % interval of a proportion (Wilson 1927, Probable inference, J. Am. Stat. Assoc. 22).

    centre = (p + z²/2n) / (1 + z²/n), half width = z/(1 + z²/n) · √(p(1-p)/n + z²/4n²).
    """
    share, scale = right / total, 1 + z * z / total
    centre = (share + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return centre - half, centre + half


def over_packages(right: np.ndarray, packages: Sequence[str], seed: int, draws: int = 10_000) -> tuple[float, float]:
    """Return the 95 % bootstrap interval when whole packages, not documents, are drawn anew.

    Documents of one package resemble each other, so this interval is the honest one for "a package never seen".
    """
    names, places = np.unique(np.array(packages), return_inverse=True)
    hits = np.bincount(places, weights=right)
    sizes = np.bincount(places)
    drawn = np.random.default_rng(seed).integers(len(names), size=(draws, len(names)))
    low, high = np.percentile(hits[drawn].sum(1) / sizes[drawn].sum(1), [2.5, 97.5])
    return float(low), float(high)


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 10) -> float:
    """Return the expected calibration error of the predicted class (Guo et al. 2017).

    Predictions are sorted into bins of equal width by their probability: Σ_b n_b/n · |accuracy_b - mean probability_b|.
    """
    chosen = np.where(probabilities > 0.5, probabilities, 1 - probabilities)
    right = (probabilities > 0.5) == (labels == 1)
    places = np.minimum((chosen * bins).astype(int), bins - 1)
    members = np.bincount(places, minlength=bins)
    gaps = np.bincount(places, weights=right - chosen, minlength=bins)
    return float(np.abs(gaps).sum() / members.sum())


def undecided(probabilities: np.ndarray) -> dict[str, object]:
    """Return where the probabilities of artificial intelligence lie for texts about neither subject."""
    low, high = np.percentile(probabilities, [10, 90])
    return {
        "documents": len(probabilities),
        "mean": round(float(probabilities.mean()), 4),
        "between_40_and_60": round(float(((probabilities >= 0.4) & (probabilities <= 0.6)).mean()), 4),
        "percentiles_10_90": [round(float(low), 4), round(float(high), 4)],
    }


def reading(right: np.ndarray, labels: np.ndarray, packages: Sequence[str] | None, seed: int) -> dict[str, object]:
    """Return accuracy with its intervals and per side, ready for metrics.json."""
    interval = wilson(int(right.sum()), len(right))
    figures: dict[str, object] = {
        "documents": len(right),
        "right": int(right.sum()),
        "accuracy": round(float(right.mean()), 4),
        "wilson_95": [round(bound, 4) for bound in interval],
        "per_side": {side: round(float(right[labels == index].mean()), 4) for index, side in enumerate(SIDES)},
    }
    if packages is not None:
        figures["package_bootstrap_95"] = [round(bound, 4) for bound in over_packages(right, packages, seed)]
    return figures


def tf_idf(training: Sequence[str], training_labels: Sequence[int], texts: Sequence[str]) -> np.ndarray:
    """Return the classes that TF-IDF (words and pairs of words) with logistic regression gives to `texts`."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(
        TfidfVectorizer(sublinear_tf=True, min_df=3, ngram_range=(1, 2), max_features=200_000),
        LogisticRegression(C=10.0, class_weight="balanced", max_iter=1000),
    )
    return np.asarray(pipeline.fit(training, training_labels).predict(texts))


def read_papers(path: Path) -> tuple[list[str], list[int]]:
    """Read the test split of a JSON-lines file with fields text, label (0 PL, 1 AI) and split; gzip or plain."""
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).split(b"\n")
    rows = [row for row in map(json.loads, filter(None, lines)) if row["split"] == "test"]
    return [row["text"] for row in rows], [int(row["label"]) for row in rows]


def evaluate(
    folder: Path,
    documents: Sequence[Document],
    split: str,
    tokenizer: Tokenizer,
    seed: int,
    papers: Path | None = None,
    lengths: Sequence[int] = (MAX_TOKENS, 2_048),
) -> dict[str, object]:
    """Measure the model saved in `folder` and TF-IDF on one split, and on papers when a file of them is given."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    held_out = evaluation_set(documents, split, tokenizer, seed)
    sets = {
        "held_out_packages": (
            [document.text for document in held_out],
            np.array([SIDES.index(document.side) for document in held_out]),
            [document.package for document in held_out],
        )
    }
    if papers is not None:
        texts, paper_labels = read_papers(papers)
        sets["papers"] = (texts, np.array(paper_labels), None)
    training = [
        document
        for document in documents
        if document.split == "train" and document.side in SIDES and len(document.text.split()) >= 100
    ]
    everything = [text for texts, _, _ in sets.values() for text in texts]
    baseline = tf_idf(
        [document.text for document in training], [SIDES.index(document.side) for document in training], everything
    )
    results: dict[str, Any] = {"split": split, "seed": seed}
    start = 0
    for name, (texts, labels, packages) in sets.items():
        ids = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
        rows: dict[str, object] = {}
        for length in lengths:
            probabilities = document_logits(model, ids, length).softmax(1)[:, 1].numpy()
            right = (probabilities > 0.5) == (labels == 1)
            rows[f"model_{length}"] = {
                **reading(right.astype(float), labels, packages, seed),
                "calibration_error": round(calibration_error(probabilities, labels), 4),
            }
        guess = baseline[start : start + len(texts)]
        rows["tf_idf"] = reading((guess == labels).astype(float), labels, packages, seed)
        start += len(texts)
        results[name] = rows
    neutral = {
        "empty": [""],
        "everyday": NEUTRAL.read_text(encoding="utf-8").splitlines(),
        "other_packages": [d.text for d in evaluation_set(documents, split, tokenizer, seed, sides=(NEITHER,))],
    }
    results["neither"] = {}
    for name, texts in neutral.items():
        ids = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
        results["neither"][name] = undecided(document_logits(model, ids, MAX_TOKENS).softmax(1)[:, 1].numpy())
    return results
