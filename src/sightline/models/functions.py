"""A function as a model: texts go in, one row of numbers per text comes out, and nothing else is known.

`FunctionNetwork` stands where a `Network` stands: it turns encodings whose tokens are words (`text.encode`) back into
texts, asks the function in batches, and returns the answers as logits. Probabilities p become ln p, or ln p/(1 − p)
where labels are independent, so that softmax and sigmoid give them back.

For models behind an API: batches are asked side by side (`concurrency`), answers are kept in a file (`AnswerCache`), a
budget bounds the texts that are sent, and a batch is repeated if the function raises `Retry`.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Semaphore
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import Pipeline, PretrainedConfig

from sightline.errors import ModelError, OptionError, Retry, SightlineError, SizeError, UnsupportedError
from sightline.files.foreign import first_line
from sightline.models.answer_cache import AnswerCache, Texts
from sightline.models.families import unseen_family
from sightline.models.function_identity import fingerprint_function
from sightline.models.network import Network
from sightline.models.task import TaskFacts
from sightline.models.tasks import SequenceClassification
from sightline.progress import StepProgress
from sightline.settings.values import check_count
from sightline.text import MAX_CHARACTERS, Encoding
from sightline.text.encode import join_words

Output = Literal["probabilities", "logits", "values"]
"""What the function returns: probabilities of the labels, their logits, or one number that has no probability."""
Answers = NDArray[np.float64]
BATCH_SIZE = 32
SMALLEST_PROBABILITY = 1e-9
"""Smaller probabilities count as this one: an answer that was rounded to zero has finite log-odds."""
LARGEST_ROUNDING = 0.02
"""How far the sum of a row of rounded probabilities may be from 1."""
MOST_RETRIES = 5
"""How often one batch is repeated when the function raises `Retry`."""


@dataclass(frozen=True)
class FunctionSettings:
    """How a function is called, and how its answers are interpreted."""

    labels: tuple[str, ...]
    output: Output = "probabilities"
    multi_label: bool = False
    """Whether labels are independent, so that their probabilities need not add up to 1."""
    batch_size: int = BATCH_SIZE
    """The most texts per call."""
    concurrency: int = 1
    """Most calls at once, each in a thread."""
    cache: Path | str | None = None
    """The file that keeps answers."""
    budget: int | None = None
    """The most texts that may be sent."""
    announce: Callable[[str], None] | None = None
    """Called with a sentence that says how many texts will be sent, before any of them is."""

    def __post_init__(self) -> None:
        if not self.labels:
            raise OptionError("labels= takes a list with the name of every class, for example labels=['no', 'yes'].")
        if self.output not in get_args(Output):
            raise OptionError(f"There is no output '{self.output}'. Choose {', '.join(get_args(Output))}.")
        labels = tuple(str(label) for label in self.labels)
        if len(set(labels)) < len(labels):
            raise OptionError(f"Two classes have the same name: {', '.join(labels)}.")
        if self.output == "values" and len(labels) > 1:
            raise OptionError(
                "output='values' is for a function that returns one number per text, with one label that names it; "
                "scores of several classes are probabilities or logits."
            )
        if self.output != "values" and len(labels) == 1 and not self.multi_label:
            raise OptionError(
                f"A single class '{labels[0]}' has nothing to compete with: name both classes, or give "
                "multi_label=True for one label that applies or not, or output='values' for a number."
            )
        check_count("batch_size", self.batch_size)
        check_count("concurrency", self.concurrency)
        if self.budget is not None:
            check_count("budget", self.budget)
        object.__setattr__(self, "labels", labels)


def find_function(source: Any, labels: Sequence[str] | None) -> tuple[Callable[[list[Any]], Any], Sequence[str] | None]:
    """Return the function of a source, and its labels where the source knows them: a classifier of scikit-learn does.

    source: a function, any other object that can be called with a list of texts, or one with `predict_proba`.
    """
    if hasattr(source, "predict_proba"):
        classes = getattr(source, "classes_", None)
        return source.predict_proba, labels if labels is not None or classes is None else [str(c) for c in classes]
    if not callable(source) and hasattr(source, "decision_function"):
        raise UnsupportedError(
            f"This {type(source).__name__} has no predict_proba, so it gives no probabilities: calibrate it "
            "(sklearn.calibration.CalibratedClassifierCV), or give a function that returns scores, with "
            "output='logits'."
        )
    return (source.predict if not callable(source) else source), labels


def load_function(source: Any, labels: Sequence[str] | None, **settings: Any) -> FunctionNetwork:
    """Return the network of a function, or of an object that answers texts like one; `settings`: `FunctionSettings`."""
    function, names = find_function(source, labels)
    if names is None or isinstance(names, str):
        raise OptionError("A function does not say what its classes are called: give labels=['no', 'yes'].")
    name = getattr(source, "__name__", None) or type(source).__name__
    return FunctionNetwork(function, FunctionSettings(labels=tuple(names), **settings), name=name)


def is_function(source: object) -> bool:
    """Whether a source of `load` is a function, or an object that answers texts like one."""
    if isinstance(source, nn.Module | Pipeline | str | Path):
        return False
    return callable(source) or hasattr(source, "predict_proba") or hasattr(source, "predict")


class FunctionConfig(PretrainedConfig):  # type: ignore[misc]
    """The config of a function, which has no settings."""

    model_type = "function"


class _NoModule(nn.Module):
    """An empty module in place of the module of other networks."""

    device = torch.device("cpu")
    dtype = torch.float64

    def __init__(self) -> None:
        super().__init__()
        self.config = FunctionConfig()
        self.base_model = None

    def forward(self) -> None:
        """Never called."""


class FunctionNetwork(Network):
    """A function that is asked about texts."""

    answers_only = True

    def __init__(self, function: Callable[[list[Any]], Any], settings: FunctionSettings, *, name: str) -> None:
        facts = TaskFacts(labels=settings.labels, multi_label=settings.multi_label)
        super().__init__(_NoModule(), unseen_family("function"), SequenceClassification(facts), name=name)
        self.settings = settings
        self.texts_sent = 0
        """Texts that the function has been asked about."""
        self._function = function
        self._fingerprint = fingerprint_function(function)
        self._gate = Semaphore(settings.concurrency)
        identity = {"labels": settings.labels, "output": settings.output, "multi_label": settings.multi_label}
        self._cache = None if settings.cache is None else AnswerCache(settings.cache, identity)

    @property
    def max_tokens(self) -> int:
        """The largest number of words in a text that is read: a function has no known limit."""
        return MAX_CHARACTERS

    @property
    def weights_state(self) -> int:
        """A constant: changes inside a function cannot be detected."""
        return 0

    @property
    def weights_hash(self) -> str:
        """A hash of the function's name and labels, and of its code as it was when it was loaded."""
        settings = self.settings.labels, self.settings.output, self.settings.multi_label
        known = repr((self.name, *settings, self._fingerprint))
        return hashlib.blake2b(known.encode(), digest_size=16).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_gate": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_gate": Semaphore(state["settings"].concurrency)})

    def twin(self) -> Network:
        """Return the network itself: it holds nothing that threads could not share."""
        return self

    def count_passes_of(self, twin: Network) -> None:
        """Do nothing: a twin is the network itself, and has counted already."""

    def require_layers(self) -> None:
        """Raise UnsupportedError: nothing inside is known."""
        raise UnsupportedError(_only_answers("Looking inside"))

    def run(self, encodings: Sequence[Encoding], *_: Any, **options: Any) -> list[Tensor]:
        """Return the logits (C,) of each document."""
        if any(options.get(name) for name in ("gradient", "given", "step")):
            raise UnsupportedError(_only_answers("This method"))
        return self.run_many(encodings, hidden=options.get("hidden"))

    def run_many(
        self,
        encodings: Sequence[Encoding],
        *,
        hidden: Sequence[Sequence[int]] | None = None,
        progress: StepProgress | None = None,
    ) -> list[Tensor]:
        """Return the logits (C,) of any number of documents; the function is asked once per different text."""
        if hidden is not None and any(hidden):
            raise UnsupportedError("Words cannot be hidden from a function: delete them instead.")
        asked = [join_words(encoding) for encoding in encodings]
        different = list(dict.fromkeys(asked))
        answers = {} if self._cache is None else self._cache.find(different)
        waiting = [texts for texts in different if texts not in answers]
        budget, sent = self.settings.budget, self.texts_sent
        if budget is not None and sent + len(waiting) > budget:
            raise SizeError(
                f"{len(waiting):,} texts would be sent to '{self.name}' now and {sent:,} have been; the budget is "
                f"{budget:,} (budget=)."
            )
        size = self.settings.batch_size
        batches = [waiting[start : start + size] for start in range(0, len(waiting), size)]
        with ThreadPoolExecutor(self.settings.concurrency) as pool:
            for batch, logits in zip(batches, pool.map(self._ask, batches), strict=True):
                answers |= dict(zip(batch, logits, strict=True))
                if progress is not None:
                    progress(len(answers), len(different))
        self.forward_passes += len(batches)
        return [torch.from_numpy(answers[texts].copy()) for texts in asked]

    def run_each(
        self,
        encodings: Sequence[Encoding],
        *,
        hidden: Sequence[Sequence[int]] | None = None,
        batch_size: int | None = None,
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield the number and the logits (C,) of every document."""
        if batch_size is not None:
            raise OptionError("The batches of a function are those of load(..., batch_size=): leave batch_size out.")
        yield from enumerate(self.run_many(encodings, hidden=hidden))

    def _ask(self, batch: list[Texts]) -> Answers:
        """Return the logits (B, C) of one batch; a function that raises `Retry` is asked again after a while."""
        questions = [texts[0] if len(texts) == 1 else texts for texts in batch]
        for attempt in range(MOST_RETRIES + 1):
            try:
                with self._gate:
                    self.texts_sent += len(batch)
                    raw = self._function(questions)
                break
            except Retry as error:
                if attempt == MOST_RETRIES:
                    raise ModelError(
                        f"'{self.name}' asked {MOST_RETRIES + 1} times to be called again later: {first_line(error)}"
                    ) from error
                time.sleep(error.after)
            except SightlineError:
                raise
            except Exception as error:
                raise ModelError(
                    f"'{self.name}' failed on {len(batch)} text{'s' if len(batch) > 1 else ''}: "
                    f"{type(error).__name__}: {first_line(error)}"
                ) from error
        logits = read_answers(raw, len(batch), self.settings, self.name)
        if self._cache is not None:
            self._cache.add(dict(zip(batch, logits, strict=True)))
        return logits

    def announce_calls(self, compute: Callable[[Network], object]) -> None:
        """Announce how many texts `compute` will send, and raise SizeError if the budget does not allow them.

        `compute` runs on a network that answers at random, so the number is exact where a method's questions do not
        depend on the answers, and nearly so elsewhere; a check that may end early is counted to its end.
        """
        settings = self.settings
        if settings.budget is None and settings.announce is None:
            return
        calls = self.count_calls(compute)
        left = None if settings.budget is None else settings.budget - self.texts_sent
        if left is not None and calls > left:
            raise SizeError(
                f"About {calls:,} calls of '{self.name}' are needed, and {max(0, left):,} of the budget of "
                f"{settings.budget:,} are left: raise budget=, give the method a smaller one, or leave the check out."
            )
        if settings.announce is not None:
            rest = "" if left is None else f"; {left - calls:,} of the budget of {settings.budget:,} remain"
            settings.announce(f"About {calls:,} call{'' if calls == 1 else 's'} of '{self.name}'{rest}.")

    def count_calls(self, compute: Callable[[Network], object]) -> int:
        """Return about how many texts `compute` would send that no earlier call has answered."""
        asked: dict[Any, None] = {}

        def answer(questions: list[Any]) -> Answers:
            asked.update(dict.fromkeys(questions))
            return np.array([_pretend(question, len(self.settings.labels)) for question in questions])

        silent = replace(self.settings, cache=None, budget=None, announce=None, concurrency=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about scores that mean nothing
            rehearsal = FunctionNetwork(answer, silent, name=self.name)
            rehearsal.is_rehearsal = True
            compute(rehearsal)
        texts = [(question,) if isinstance(question, str) else question for question in asked]
        return len(texts) - (0 if self._cache is None else len(self._cache.find(texts)))


def _only_answers(what: str) -> str:
    return (
        f"{what} needs the inside of a model, and of a function only the answers are known. Use occlusion, owen, lime "
        "or kernel_shap."
    )


def _pretend(question: object, labels: int) -> Answers:
    """Return probabilities (C,) that depend on the question, the first one always the largest."""
    digest = hashlib.blake2b(repr(question).encode(), digest_size=8).digest()
    shares = np.random.default_rng(int.from_bytes(digest, "big")).random(labels)
    shares[0] += 1
    return np.asarray(shares / shares.sum() if labels > 1 else shares / 2)


def read_answers(raw: Any, count: int, settings: FunctionSettings, name: str) -> Answers:
    """Return what a function returned for `count` texts as logits (B, C); raise ModelError if it is something else.

    raw: an array (B, C); (B,) for one label, or for the probability of the second of two; or per text the labels with
    their scores, as pipelines return them ([{"label": "yes", "score": 0.9}, …]) or as a dictionary.
    """
    labels = settings.labels
    if isinstance(raw, Sequence) and len(raw) and isinstance(raw[0], Mapping | list) and _has_names(raw[0]):
        raw = [_in_order(row, labels, name) for row in raw]
    try:
        array = np.asarray(raw.detach().cpu() if isinstance(raw, Tensor) else raw, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"'{name}' must return numbers, and returned {type(raw).__name__}.") from None
    if array.ndim == 1 and len(array) == count:
        array = array[:, None]
    if array.shape == (count, 1) and len(labels) == 2 and settings.output == "probabilities":
        array = np.hstack([1 - array, array])
    if array.shape != (count, len(labels)):
        raise ModelError(
            f"'{name}' returned numbers of shape {array.shape} for {count} text{'s' if count > 1 else ''}; expected is "
            f"one row per text with {len(labels)} number{'s' if len(labels) > 1 else ''} ({', '.join(labels[:5])})."
        )
    if not np.isfinite(array).all():
        raise ModelError(f"'{name}' returned numbers that are not finite.")
    if settings.output != "probabilities":
        return array
    if array.min() < -1e-6 or array.max() > 1 + 1e-6:
        raise ModelError(
            f"'{name}' returned {array.min():.3g} to {array.max():.3g}, which are no probabilities: for logits, load "
            "it with output='logits'; for a number, with output='values'."
        )
    array = np.clip(array, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY if settings.multi_label else 1)
    if settings.multi_label:
        return np.asarray(np.log(array) - np.log1p(-array))
    totals = array.sum(axis=1)
    worst = totals[np.abs(totals - 1).argmax()]
    if abs(worst - 1) > LARGEST_ROUNDING:
        raise ModelError(
            f"The probabilities that '{name}' returns for a text add up to {worst:.3g}, not to 1: for independent "
            "labels, load it with multi_label=True."
        )
    return np.asarray(np.log(array))


def _has_names(row: Any) -> bool:
    first = row if isinstance(row, Mapping) else next(iter(row), None)
    return isinstance(first, Mapping)


def _in_order(row: Any, labels: tuple[str, ...], name: str) -> list[float]:
    """Return the scores of one text in the order of the labels."""
    entries = [row] if isinstance(row, Mapping) else list(row)
    if isinstance(row, Mapping) and not {"label", "score"} <= set(row):
        scores = {str(label): score for label, score in row.items()}
    else:
        scores = {str(entry["label"]): entry["score"] for entry in entries}
    missing = [label for label in labels if label not in scores]
    if len(labels) == 2 and len(missing) == 1 and len(scores) == 1:
        ((_, score),) = scores.items()
        return [1 - score if label in missing else score for label in labels]
    if missing:
        raise ModelError(
            f"'{name}' returned no score of {', '.join(map(repr, missing[:5]))}: it must score every label (a pipeline "
            "does with top_k=None), and labels= must name them as it does."
        )
    return [scores[label] for label in labels]
