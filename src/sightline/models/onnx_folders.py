"""Folders whose only weights are an ONNX graph: a classifier of texts, run by onnxruntime as a function.

    config.json      labels, kind of problem, longest text
    tokenizer.json   how texts become ids
    model.onnx       the graph, here or in onnx/, or the only .onnx file there; its first output are the logits
                     (documents, classes); encoder_*.onnx and decoder_*.onnx are parts of a generator and never read

Nothing but the answers to texts is known of such a model (`functions`).
"""

from __future__ import annotations

import hashlib
import mmap
import warnings
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightline.errors import ModelError, UnsupportedError
from sightline.files.foreign import first_line, quote, regular_file
from sightline.models.config import read_config
from sightline.models.families import family_of
from sightline.models.weights import has_weights
from sightline.settings.extras import require
from sightline.text.tokenizers import load_tokenizer

PLACES = ("model.onnx", "onnx/model.onnx")
PARTS = ("encoder", "decoder")
"""How the names of graphs begin that are half of a model that generates text."""
SCALED_BY_BATCH = b"DynamicQuantizeLinear"
"""The operation of quantised graphs that rounds numbers to a scale taken from the whole batch."""
NUMBERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


def find_graph(source: object) -> Path | None:
    """Return the graph of a folder that has no other weights, or a graph that is named itself; None for anything else.

    Raises ModelError if it cannot be told which of several graphs is meant.
    """
    if not isinstance(source, str | Path):
        return None
    try:
        folder = Path(source).expanduser()
        if folder.suffix == ".onnx" and folder.is_file():
            return folder
        if not folder.is_dir() or has_weights(folder):
            return None
    except (OSError, RuntimeError, ValueError):  # no path: what loads models says so
        return None
    named = [place for place in PLACES if regular_file(folder, place, ModelError) is not None]
    found = named[:1] or _classifiers(folder, "*.onnx") or _classifiers(folder, "onnx/*.onnx")
    if len(found) > 1:
        raise ModelError(
            f"The folder '{folder}' has several graphs ({', '.join(map(quote, found))}): load one of them by its path."
        )
    return regular_file(folder, found[0], ModelError) if found else None


def _classifiers(folder: Path, pattern: str) -> list[str]:
    """Return the graphs of a folder, by their paths in it, that are not half of a generator."""
    graphs = (path for path in folder.glob(pattern) if not path.name.startswith(PARTS))
    return sorted(str(path.relative_to(folder)) for path in graphs)


class OnnxClassifier:
    """A function from texts to logits: the tokenizer of a folder and its graph.

    labels, multi_label: what the classes are, where the config does not say it.
    """

    def __init__(
        self, graph: Path, tokenizer: Any = None, labels: Sequence[str] | None = None, *, multi_label: bool = False
    ) -> None:
        self.folder = graph.parent.parent if graph.parent.name == "onnx" else graph.parent
        facts = read_config(self.folder)
        names = facts.settings["id2label"]
        self.labels = [str(names[number]) for number in sorted(names)] if labels is None else list(labels)
        self.multi_label = multi_label or facts.settings.get("problem_type") == "multi_label_classification"
        self.values = len(self.labels) == 1 and not self.multi_label
        """Whether the one output is a number that has no probability."""
        self.tokenizer: Any = load_tokenizer(self.folder, local_only=True) if tokenizer is None else tokenizer
        if self.tokenizer is None:
            raise ModelError(f"The ONNX model in '{self.folder}' has no tokenizer.json, so it cannot read text.")
        positions = facts.number("max_position_embeddings", "n_positions")
        if positions is not None and family_of(facts.model_type).positions_after_padding:
            positions -= (facts.number("pad_token_id") or 0) + 1
        limit = self.tokenizer.model_max_length
        self.max_tokens = min(limit, positions or limit)
        self.graph = graph
        self._lock = Lock()
        self._open()
        with graph.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()
            self.mixes_batches = content.find(SCALED_BY_BATCH) >= 0
            """Whether what the graph says of a text depends on the other texts of its batch."""

    @property
    def __name__(self) -> str:
        return self.folder.name or self.folder.resolve().name

    def _open(self) -> None:
        runtime = require("onnxruntime", "onnx", f"The ONNX model in '{self.folder}'")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        try:
            self._session = runtime.InferenceSession(str(self.graph), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of the runtime's own types
            raise ModelError(f"'{self.graph.name}' in '{self.folder}' cannot be read: {first_line(error)}") from error
        self._inputs = {entry.name: NUMBERS.get(entry.type) for entry in self._session.get_inputs()}
        unknown = set(self._inputs) - {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
        if unknown or "input_ids" not in self._inputs or None in self._inputs.values():
            raise UnsupportedError(
                f"The ONNX model in '{self.folder}' reads {', '.join(self._inputs)}; Sightline gives it input_ids, "
                "attention_mask, token_type_ids and position_ids."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_session", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())
        self._open()

    def __call__(self, questions: list[Any]) -> NDArray[np.float64]:
        """Return the logits (B, C) of B texts, or pairs of texts."""
        rows = [self._encode(question) for question in questions]
        if self.mixes_batches:
            return np.concatenate([self._run([row]) for row in rows])
        results: dict[int, NDArray[np.float64]] = {}
        for length in sorted({len(row[0]) for row in rows}):  # not padded: the graph may ignore its mask
            places = [place for place, row in enumerate(rows) if len(row[0]) == length]
            results.update(zip(places, self._run([rows[place] for place in places]), strict=True))
        return np.stack([results[place] for place in range(len(rows))])

    def _encode(self, question: str | tuple[str, str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        text, pair = (question, None) if isinstance(question, str) else question
        with self._lock:  # a tokenizer cannot be shared by threads
            read = self.tokenizer(text, pair, verbose=False)
            tokens = len(read["input_ids"])
            if tokens > self.max_tokens:
                read = self.tokenizer(text, pair, truncation=True, max_length=self.max_tokens)
        if tokens > self.max_tokens:
            warnings.warn(
                f"A text has {tokens:,} tokens and the ONNX model reads {self.max_tokens:,}: its end is cut off.",
                stacklevel=2,
            )
        ids = np.array(read["input_ids"], dtype=np.int64)
        return ids, np.array(read.get("token_type_ids", np.zeros_like(ids)), dtype=np.int64)

    def _run(self, rows: list[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> NDArray[np.float64]:
        ids = np.stack([row[0] for row in rows])
        known = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.stack([row[1] for row in rows]),
            "position_ids": np.broadcast_to(np.arange(ids.shape[1]), ids.shape),
        }
        given = {name: known[name].astype(number) for name, number in self._inputs.items()}
        logits = np.asarray(self._session.run(None, given)[0], dtype=np.float64)
        if logits.shape != (len(rows), len(self.labels)):
            raise UnsupportedError(
                f"The output of the ONNX model in '{self.folder}' has shape {logits.shape} for {len(rows)} texts "
                f"and not ({len(rows)}, {len(self.labels)}): it is no classifier of texts with these labels (labels= "
                "names others)."
            )
        return logits
