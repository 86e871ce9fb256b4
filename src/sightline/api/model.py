"""Model: the object users hold. It ties the rooms together: text → network → trace → method → explanation.

`models/` holds the network itself; this façade stands to the right of the methods because explaining needs them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import numpy as np
import torch
from transformers import PreTrainedModel

from sightline import builtin
from sightline.api.checking import Checker
from sightline.api.explaining import Explainer, batches, build_report, check_trace, model_checks, provenance_of
from sightline.api.importing import align_scores
from sightline.errors import InputError, OptionError
from sightline.methods.applicability import choose_methods, default_methods, methods_not_offered
from sightline.metrics.check import CheckReplacement
from sightline.models import Network, Prediction, TargetLike, load_network
from sightline.models.functions import BATCH_SIZE, Output, is_function, load_function
from sightline.models.loading import AttentionKind, move_network
from sightline.models.target import ENTITIES
from sightline.models.task import name_tokens
from sightline.models.tasks import MaskedLanguageModel
from sightline.models.user_modules import unwrap
from sightline.passes.forward import Request
from sightline.passes.input_encoder import InputEncoder
from sightline.passes.trace import Trace
from sightline.progress import Progress
from sightline.results.continuation import ContinuationExplanation, Origin
from sightline.results.explanation import Explanation
from sightline.results.report import ByClass, ByMethod, Report, group
from sightline.settings.arguments import refuse_unused
from sightline.settings.explain import CheckSettings
from sightline.text import Aggregation, Chat, Encoding, Level, is_chat
from sightline.text.documents import DocumentText, names_document, plain_text_of

if TYPE_CHECKING:
    from sightline.analysis.inspection import Inspection, InspectionSettings

Document = str | Encoding
Readable = Document | DocumentText
ReadableOrPair = Readable | tuple[str, str]
Explainable = Readable | Trace | Chat


def _check_document_type(document: object) -> None:
    if isinstance(document, Mapping) or hasattr(document, "columns"):
        # Iterating over a table gives the names of its columns, which would be explained silently.
        raise InputError("A table is not a document. Give the column with the texts, for example list(data['text']).")
    if isinstance(document, Path):
        raise InputError(f"A path is not a document. To read the file, give sl.read_document('{document}').")
    if not isinstance(document, Iterable | Trace | Encoding) or isinstance(document, bytes):
        raise InputError(f"A document is a text, an encoding or a trace, not {type(document).__name__}.")


F = TypeVar("F", bound=Callable[..., Any])


def _announced(compute: F) -> F:
    """Let a method announce what it will cost before anything is spent, on networks that count their calls."""

    @wraps(compute)
    def run(self: Model, *args: Any, **options: Any) -> Any:
        if not any(isinstance(value, Trace) for value in (*args, *options.values())):  # its call has announced it
            silent = {name: value for name, value in options.items() if name not in ("progress", "on_explained")}
            self.network.announce_calls(lambda network: compute(Model(network, self.tokenizer), *args, **silent))
        return compute(self, *args, **options)

    return cast(F, run)


def load(
    source: str | Path | Any | None = None,
    task: str | None = None,
    tokenizer: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    *,
    attention: AttentionKind = "banded",
    allow_pickle: bool = False,
    allow_random: bool = False,
    similar_to: str | DocumentText | None = None,
    labels: Sequence[str] | None = None,
    embeddings: str | None = None,
    output: Output = "probabilities",
    multi_label: bool = False,
    batch_size: int | None = None,
    concurrency: int = 1,
    cache: str | Path | None = None,
    budget: int | None = None,
    announce: Callable[[str], None] | None = None,
) -> Model:
    """Load a model from a folder, a hub id, an object or a function; without a source, the built-in one.

    source: a folder, a hub id (`owner/name` or `hf://name`), a transformers model, or a pipeline with its tokenizer. Of
    the settings of a pipeline, `truncation` and `max_length` are followed; a warning names others that matter. An
    object is not changed: a module of our own shares its weights, and sees them when they are updated in place.
    task: inferred from the architecture unless given, for example "sequence_classification".
    tokenizer: an object, a folder or a hub id; by default the model's own.
    device: where the model runs, for example "cpu" or "cuda:0".
    dtype: "float32", "float64", or "float16" and "bfloat16" for half the memory. The error that half precision brings
    to the logits is measured and becomes part of the provenance.
    attention: for Longformer, "banded" (exact and fast) or "library" (that of transformers).
    allow_pickle: also read weights that are pickled; only for sources you trust.
    allow_random: accept missing weights, and mark every result as coming from an untrained model.
    similar_to: explain how similar a document is to this text, for a sentence-transformers folder without a classifier.

    A torch module with a tokenizer that returns logits (documents, classes), as a tensor, the first of a tuple or
    `.logits`, is a model: with all methods if a model of transformers of a known family is inside, else with those that
    need embeddings and logits only.
    labels: the names of the classes, in the order of the numbers.
    embeddings: where the module looks words up, for example "encoder.embed"; found unless there are several tables.
    output: "values" for a module that returns one number, which `labels` names.

    A function that takes a list of texts and returns one row of numbers per text is a model as well, and so is a
    classifier of scikit-learn that reads texts (a pipeline with `predict_proba`) and anything that answers like a
    pipeline. Its units are words, and the methods are those that change the text. For pairs it gets (text, pair).
    labels: as above; a classifier of scikit-learn knows them.
    output: "probabilities"; "logits"; or "values" for one number, which `labels` names.
    multi_label: whether labels are independent, so that probabilities need not add up to 1.
    batch_size: the most texts per call, 32 by default.
    concurrency: calls that may run at once, each in a thread.
    cache: a file that keeps every answer by text, so that no text is sent twice.
    budget: the most texts that may be sent in all. What an explanation needs is counted before anything is sent, and
    refused if it is too much.
    announce: called with that count in a sentence, for example `print`.
    """
    of_classes = {"labels": labels, "output": output != "probabilities", "multi_label": multi_label}
    of_functions = {
        "batch_size": batch_size,
        "concurrency": concurrency != 1,
        "cache": cache,
        "budget": budget,
        "announce": announce,
    }
    if source is not None and is_function(source):
        of_modules = {"task": task, "tokenizer": tokenizer, "device": device, "dtype": dtype, "similar_to": similar_to}
        of_modules |= {
            "embeddings": embeddings,
            "attention": attention != "banded",
            "allow_pickle": allow_pickle,
            "allow_random": allow_random,
        }
        refuse_unused(of_modules, "has no effect on a function: leave it out.")
        return Model(
            load_function(
                source,
                labels,
                output=output,
                multi_label=multi_label,
                batch_size=BATCH_SIZE if batch_size is None else batch_size,
                concurrency=concurrency,
                cache=cache,
                budget=budget,
                announce=announce,
            )
        )
    refuse_unused(of_functions, "belongs to a function that is loaded as a model: leave it out.")
    source, tokenizer = unwrap(source, tokenizer)
    foreign = isinstance(source, torch.nn.Module) and not isinstance(source, PreTrainedModel)
    if not foreign:
        refuse_unused({**of_classes, "embeddings": embeddings}, "is what this model says itself: leave it out.")
    elif not labels or isinstance(labels, str):
        raise OptionError("A module does not say what its classes are called: give labels=['no', 'yes'].")
    if source is None:
        of_folders = {"allow_pickle": allow_pickle, "allow_random": allow_random}
        refuse_unused(of_folders, "has no effect on the built-in model: name another one, or leave it out.")
    network, tokenizer = load_network(
        builtin.model_folder() if source is None else source,
        task=task,
        tokenizer=tokenizer,
        device=device,
        dtype=dtype,
        attention=attention,
        allow_pickle=allow_pickle,
        allow_random=allow_random,
        similar_to=plain_text_of(similar_to),
        labels=labels,
        embeddings=embeddings,
        multi_label=multi_label,
        regression=output == "values",
    )
    if source is None:
        network.name = builtin.NAME
    model = Model(network, tokenizer)
    if not network.sees_inside:
        warnings.warn(
            f"Sightline knows only the embeddings and logits of '{network.config.model_type}' models, so methods that "
            f"need layers or attention are not offered: {', '.join(model.methods_not_offered)}.",
            stacklevel=2,
        )
    return model


class Model:
    """A loaded model, as `sl.load` returns it: encode a text, trace a pass, explain a prediction."""

    def __init__(self, network: Network, tokenizer: Any = None) -> None:
        self.network = network
        network.tokenizer = tokenizer

    def __repr__(self) -> str:
        kind = self.network.config.model_type
        return (
            f"Model({self.name!r}, {kind}, {self.task}, labels={list(self.labels[:5])}, max_tokens={self.max_tokens})"
        )

    @property
    def name(self) -> str:
        """Folder name or hub id."""
        return self.network.name

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of transformers that reads texts for the model; None if there is none."""
        return self.network.tokenizer

    @property
    def task(self) -> str:
        """What the head does, for example "sequence_classification"."""
        return self.network.task.name

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.network.task.facts.labels

    @property
    def max_tokens(self) -> int:
        """Length in tokens of the longest document that the model reads: what positions and tokenizer allow."""
        return self._encoder.max_tokens

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.network.device

    def to(self, device: str | torch.device) -> Model:
        """Move the model to another device, for example "cuda:0", and return it; a model object that was given stays.

        Traces made before belong to the old device.
        """
        move_network(self.network, device)
        return self

    @property
    def default_methods(self) -> tuple[str, ...]:
        """Methods that explain a document unless others are asked for."""
        return default_methods(self.network)

    @property
    def methods_not_offered(self) -> dict[str, str]:
        """Methods that mean nothing for this model or cannot run on it, each with the reason in a sentence."""
        return methods_not_offered(self.network)

    def encode(
        self,
        text: str | DocumentText | Chat | None = None,
        pair: str | DocumentText | None = None,
        global_tokens: Iterable[int] | None = None,
        *,
        ids: Sequence[int] | None = None,
        truncate: bool = False,
        aggregation: Aggregation = "mean",
        overlap: int | None = None,
        max_windows: int | None = None,
    ) -> Encoding:
        """Turn a text (and its pair), a chat, or token ids, into what the model reads.

        A text is a string or what `read_document` returns, here and wherever a model takes a text.
        A chat is a list of messages such as {"role": "user", "content": "Where are the keys?"}; the tokenizer's chat
        template turns it into a text up to where the assistant is to answer. Tokens that the template wrote are
        special. A document longer than the model reads is cut into overlapping windows (`.windows`), where the task
        permits. Whatever no window reads is cut off, and `.dropped` is the number of tokens lost.

        global_tokens: positions with global attention (Longformer); by default the model's own.
        ids: token ids instead of a text, for a model without tokenizer.
        truncate: read only what the model reads at once.
        aggregation: the logits of the document are the "mean" of the windows' logits, the largest of each class
        ("max"), or those of the "first" window.
        overlap: about how many tokens neighbouring windows share.
        max_windows: by default as many as have 32,768 tokens together (64 of 512 tokens), at least 8.
        """
        return self._encoder.encode(
            text,
            pair,
            global_tokens,
            ids=ids,
            truncate=truncate,
            aggregation=aggregation,
            overlap=overlap,
            max_windows=max_windows,
        )

    @overload
    def trace(  # type: ignore[overload-overlap]  # a str is a sequence of str, too
        self, document: Readable, target: TargetLike = None, *, quantity: str | None = None, position: int | None = None
    ) -> Trace: ...

    @overload
    def trace(
        self,
        document: Sequence[Readable],
        target: TargetLike = None,
        *,
        quantity: str | None = None,
        position: int | None = None,
    ) -> list[Trace]: ...

    def trace(
        self,
        document: Readable | Sequence[Readable],
        target: TargetLike = None,
        *,
        quantity: str | None = None,
        position: int | None = None,
    ) -> Trace | list[Trace]:
        """Return the trace of one pass over a document; nothing runs until something of it is needed.

        A list of documents runs as one padded batch and gives a list of unpadded traces.
        """
        document = self._read(document)
        _check_document_type(document)
        if isinstance(self.network.task, MaskedLanguageModel) and self.tokenizer is not None:
            target = name_tokens(target, self.network.task, self.tokenizer)
        several = not isinstance(document, str | Encoding)
        documents: Sequence[Readable] = document if several else [document]  # type: ignore[assignment,list-item]
        encodings = [self._encoder.encode_document(text) for text in documents]
        traces = self._explainer.trace(encodings, Request(target, quantity, position))
        return traces if several else traces[0]

    @overload
    def predict(  # type: ignore[overload-overlap]  # a str is a sequence of str, too
        self, document: Readable | Chat, *, position: int | None = None
    ) -> Prediction: ...

    @overload
    def predict(self, document: Sequence[ReadableOrPair], *, position: int | None = None) -> list[Prediction]: ...

    def predict(
        self, document: Readable | Chat | Sequence[ReadableOrPair], *, position: int | None = None
    ) -> Prediction | list[Prediction]:
        """Return what the model predicts for a document, without explaining it; for a list of documents, a list.

        A list runs in batches of similar length; its entries may be pairs (text, second text).

        position: the token, for models that score single tokens.
        """
        document = self._read(document)
        _check_document_type(document)
        if isinstance(document, str | Encoding):
            return self.trace(self._encoder.encode_document(document), position=position).prediction
        encodings = [self._encoder.encode_document(text) for text in cast(Sequence[Readable], document)]
        predictions: dict[int, Prediction] = {}
        for batch in batches(encodings, padded=self.network.pads):
            traces = self.trace([encodings[index] for index in batch], position=position)
            predictions.update(zip(batch, (trace.prediction for trace in traces), strict=True))
        return [predictions[index] for index in range(len(encodings))]

    @overload
    def explain(
        self,
        document: Readable,
        method: str | None = None,
        *,
        continuation: str | DocumentText | Sequence[int],
        methods: None = None,
        **options: Any,
    ) -> ContinuationExplanation: ...

    @overload
    def explain(
        self,
        document: Explainable,
        method: str | None = None,
        *,
        target: Literal["all"],
        methods: None = None,
        **options: Any,
    ) -> ByClass: ...

    @overload
    def explain(
        self,
        document: Explainable,
        method: None = None,
        *,
        target: Literal["all"],
        methods: Sequence[str],
        **options: Any,
    ) -> ByMethod[ByClass]: ...

    @overload
    def explain(
        self,
        document: Explainable,
        method: str | None = None,
        target: TargetLike = None,
        *,
        methods: None = None,
        **options: Any,
    ) -> Explanation: ...

    @overload
    def explain(
        self,
        document: Explainable,
        method: None = None,
        target: TargetLike = None,
        *,
        methods: Sequence[str],
        **options: Any,
    ) -> ByMethod[Explanation]: ...

    @overload
    def explain(
        self, document: Sequence[ReadableOrPair], method: str | None = None, *, target: Literal["all"], **options: Any
    ) -> list[Any]: ...

    @overload
    def explain(
        self,
        document: Sequence[ReadableOrPair],
        method: str | None = None,
        target: TargetLike = None,
        *,
        methods: None = None,
        **options: Any,
    ) -> list[Explanation]: ...

    @overload
    def explain(
        self,
        document: Sequence[ReadableOrPair],
        method: None = None,
        target: TargetLike = None,
        *,
        methods: Sequence[str],
        **options: Any,
    ) -> list[ByMethod[Explanation]]: ...

    @_announced
    def explain(
        self,
        document: Explainable | Sequence[ReadableOrPair],
        method: str | None = None,
        target: TargetLike = None,
        *,
        methods: Sequence[str] | None = None,
        quantity: str | None = None,
        position: int | None = None,
        pair: str | DocumentText | None = None,
        continuation: str | DocumentText | Sequence[int] | None = None,
        max_new_tokens: int | None = None,
        truncate: bool = False,
        check: bool = False,
        check_budget: int | None = None,
        check_replacement: CheckReplacement | None = None,
        artefacts: bool | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Any:
        """Explain a prediction by one method, or by several that share one pass.

        Returns an `Explanation`; with `methods`, a dictionary from method to explanation (`ByMethod`); with
        target="all", a dictionary from label to explanation (`ByClass`) in place of each; with a list of documents, a
        list of these; with a continuation, a `ContinuationExplanation`. `.plot()` draws a dictionary as one figure.

        document: a text, an encoding, a chat (see `encode`), or a list of texts, pairs (text, second text) or
        encodings, which run in batches of similar length. A trace of this model shares its pass and is explained for
        its own target and quantity.
        method: by default the first of `default_methods`.
        target: the predicted class by default; a class number, a label, or a contrast of two: the tuple (A, B) or the
        text "A:B", unless that is itself a label. "all" explains every class on one shared forward pass; a class whose
        label is "all" is chosen by its number. "entities" explains every entity that a token classifier finds
        in one document.
        quantity: what is explained of the class: "log_odds" (the default, log p/(1 − p), of two classes the difference
        of their logits), "logit" (as in most papers), "probability", "log_probability" or "margin".
        position: the token whose output is explained, where the model predicts something for single tokens.
        pair: the second text of a pair.
        continuation: for a causal language model, the text (or token ids) that follows the document; every token of it
        is explained from the tokens before it.
        max_new_tokens: let the model write the continuation, always the likeliest next token.
        truncate: cut off the end of a text that is longer than the model reads, instead of reading it in windows.
        check: compare with random orders of the words on the model itself, for `checks`, `removal` and `verdict`.
        check_budget: the most model calls that the check may make.
        check_replacement: the `replacement` of `check`.
        artefacts: as part of the check, exchange the strongest words, for `exchange` and `artefacts`. This takes one to
        three further runs of the method, and is left out for methods that call the model many times.
        progress: called with the stage, the steps done and their total.
        options: options of the method. With `methods`, give the options of one of them as a dictionary under its name:
        `rollout={"fusion": "max"}`.
        """
        chosen = choose_methods(self.network, method, methods, options)
        checking = CheckSettings(
            check=check, check_budget=check_budget, check_replacement=check_replacement, artefacts=artefacts
        )
        check_all = self._check_all(checking, progress)
        document = self._read(document)
        if continuation is not None or max_new_tokens is not None:
            if (target, position, pair, check, truncate) != (None, None, None, False, False):
                raise OptionError(
                    "With a continuation every generated token is a target and the prompt is read whole: leave target, "
                    "position, pair, truncate and check out (model.check() checks one of .rows)."
                )
            whole, prompt = self._encoder.encode_continuation(document, continuation, max_new_tokens)
            origin: Origin = "generated" if continuation is None else "given"
            continued = self._explainer.explain_continuation(whole, prompt, origin, chosen, quantity, progress)
            return continued if methods is not None else next(iter(continued.values()))

        def finish(by_method: dict[str, Any]) -> Any:
            checked = group(by_method if check_all is None else check_all(by_method))
            return checked if methods is not None else next(iter(checked.values()))

        request: dict[str, Any] = {"target": target, "quantity": quantity, "position": position}
        _check_document_type(document)
        if isinstance(document, Trace):
            check_trace(document, self.network, target, quantity, position, pair, truncate)
        elif isinstance(document, str | Encoding):
            encoding = self._encoder.encode_document(document, pair, truncate)
            if self._names_entities(target):
                trace = self.trace(encoding)
                return finish(self._explainer.explain_entities(trace, chosen, quantity, progress))
            document = self.trace(encoding, **request)
        if isinstance(document, Trace):
            return finish(self._explainer.explain_traces([document], chosen, progress)[0])
        if pair is not None:
            raise OptionError("pair= goes with one text; in a list of documents, give pairs (text, second text).")
        documents = cast(Sequence[Readable], document)
        encodings = [self._encoder.encode_document(text, truncate=truncate) for text in documents]
        results: list[Any] = [None] * len(encodings)
        for batch in batches(encodings, padded=self.network.pads):
            traces = self.trace([encodings[index] for index in batch], **request)
            explained = self._explainer.explain_traces(traces, chosen, progress)
            for index, by_method in zip(batch, explained, strict=True):
                results[index] = finish(by_method)
        return results

    def import_scores(
        self,
        document: Readable,
        scores: Any,
        method: str = "imported",
        level: Level = "word",
        target: TargetLike = None,
        *,
        quantity: str | None = None,
        signed: bool = True,
    ) -> Explanation:
        """Return scores that another program computed as an explanation of this model, ready for `check` and pages.

        document: the text that was scored.
        scores: one number per word (or another `level`; tokens with or without special ones), in document order; pairs
        (token, score) with the tokens of any tokenizer, which spell the text; triples (start, end, score) with
        characters of the text; a dictionary from words to scores, which are divided among the instances of a word; a
        `shap.Explanation` of one text, a record of captum's `visualize_text`, or an output of inseq for one text.
        method: the name under which the explanation is shown.
        target, quantity: what the scores explain, as in `explain`; the predicted class by default.
        signed: whether a negative score speaks against the target.
        """
        encoding = self._encoder.encode_document(self._read(document))
        trace = self.trace(encoding, target, quantity=quantity)
        explained = trace.target
        values = align_scores(encoding, scores, level, explained.index, explained.label)
        if not np.isfinite(values).all():
            raise InputError("Some scores are not finite.")
        return Explanation(
            method=method,
            scores=values,
            encoding=encoding,
            target=explained,
            prediction=trace.prediction,
            checks=model_checks(values, encoding, self.network),
            provenance=provenance_of(self.network),
            signed=signed,
        )

    @_announced
    def check(
        self,
        explanation: Explanation,
        *,
        replacement: CheckReplacement = "delete",
        orderings: int | None = None,
        budget: int | None = None,
        seed: int = 0,
        artefacts: bool = True,
        progress: Progress | None = None,
    ) -> Explanation:
        """Return the explanation with `checks`, `removal`, `exchange` and `verdict` as this model measures them.

        Its strongest words are removed, and so are random sets of as many words. Any scores can be checked: those of a
        method, edited ones (`dataclasses.replace(explanation, scores=...)`, which drops what belonged to the former
        scores) or those of another program.

        replacement: "delete" the words, replace them with the "mask" token, or "both", which also reports whether the
        two lead to the same level.
        orderings: number of random orders; by default as many as the budget allows, 9 to 20.
        budget: the most model calls, by default 64, or 32 in documents of 1,000 words or more; twice that for "both".
        artefacts: also exchange the strongest words, if the scores are those that the method gives on this model.
        """
        if not isinstance(explanation, Explanation):
            raise InputError(f"An Explanation can be checked, not {type(explanation).__name__}.")
        return self._checker.check(
            explanation,
            replacement=replacement,
            orderings=orderings,
            budget=budget,
            seed=seed,
            artefacts=artefacts,
            progress=progress,
        )

    @_announced
    def report(
        self,
        document: Explainable,
        methods: Sequence[str] | None = None,
        target: TargetLike = None,
        *,
        check: bool = True,
        inside: bool = True,
        quantity: str | None = None,
        position: int | None = None,
        pair: str | DocumentText | None = None,
        truncate: bool = False,
        check_budget: int | None = None,
        check_replacement: CheckReplacement | None = None,
        artefacts: bool | None = None,
        progress: Progress | None = None,
        on_explained: Callable[[Report], None] | None = None,
        **options: Any,
    ) -> Report:
        """Explain one document and return everything a page shows: `Report`.

        The arguments are those of `explain` with `methods`; the default methods are `default_methods`.

        inside: add relations between tokens, head maps and head importance, from the pass that the methods share. There
        are none for a document that is read in windows, or for a model whose layers are not known.
        check: compare every explanation with random orders of the words, for its verdict and its removal curve, and
        exchange its strongest words (`artefacts`).
        on_explained: called with the report before the check, which takes most of the time.
        """
        document = self._read(document)
        if not isinstance(document, str | Encoding | Trace):
            _check_document_type(document)
            raise InputError(f"A report is about one text, encoding or trace, not {type(document).__name__}.")
        if isinstance(document, Trace):
            check_trace(document, self.network, target, quantity, position, pair, truncate)
            trace = document
        else:
            encoding = self._encoder.encode_document(document, pair, truncate)
            wanted = None if self._names_entities(target) else target
            trace = self.trace(encoding, wanted, quantity=quantity, position=position)
        names = self.default_methods if methods is None else methods

        def explain() -> dict[str, Any]:
            if self._names_entities(target):
                chosen = choose_methods(self.network, None, names, options)
                return self._explainer.explain_entities(trace, chosen, quantity, progress)
            return self.explain(trace, methods=names, quantity=quantity, progress=progress, **options)

        seen = trace if inside else None
        checking = CheckSettings(
            check=check, check_budget=check_budget, check_replacement=check_replacement, artefacts=artefacts
        )
        check_all = self._check_all(checking, progress, seen)
        return build_report(trace, explain, check_all, inside=inside, progress=progress, on_explained=on_explained)

    def inspect(
        self,
        document: Readable,
        settings: InspectionSettings | None = None,
        *,
        target: TargetLike = None,
        pair: str | DocumentText | None = None,
        progress: Progress | None = None,
        **fields: Any,
    ) -> Inspection:
        """Return what happens inside the model on one document: heads, maps, relations, totals, attributions.

        One forward and one backward pass serve everything, unless a method changes the input.

        settings: `sl.analysis.InspectionSettings`, or its fields as further arguments (methods, stop_words, top_k,
        layer, head, …).
        """
        from sightline.analysis.inspection import InspectionSettings, inspect_document

        self.network.require_layers()
        if settings is not None and fields:
            raise OptionError("Give either settings= or its fields, not both.")
        settings = settings or InspectionSettings(**fields)
        document = self._read(document)
        encoding = self._encoder.encode_document(document, pair, truncate=not isinstance(document, Encoding))
        return inspect_document(self, encoding, settings, target=target, progress=progress)

    def _read(self, document: Any) -> Any:
        """Return a chat as its encoding, and a document that was read from a file as its text."""
        if is_chat(document):
            return self.encode(document)
        document = plain_text_of(document)
        if isinstance(document, str) and names_document(document):
            warnings.warn(
                f"'{document}' is the name of a file, and only the name is read. To read the file, give "
                f"sl.read_document('{document}').",
                stacklevel=3,
            )
        return document

    def _names_entities(self, target: TargetLike) -> bool:
        """Return whether every entity is to be explained; a label of this name takes precedence."""
        return isinstance(target, str) and target == ENTITIES and ENTITIES not in self.labels

    @property
    def _encoder(self) -> InputEncoder:
        return InputEncoder(self.network, self.tokenizer)

    @property
    def _explainer(self) -> Explainer:
        return Explainer(self.network, self._encoder)

    @property
    def _checker(self) -> Checker:
        return Checker(self.network, self._explainer.repeat, self._explainer.received)

    def _check_all(
        self,
        settings: CheckSettings,
        progress: Progress | None,
        seen: Trace | None = None,
    ) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
        """Return a function that checks all explanations of a document, or None if no check is wanted.

        seen: a trace of the document whose attention is known already, and is not computed again.
        """
        if not settings.check:
            return None
        checker = self._checker
        if seen is not None:
            checker = replace(checker, received=lambda _explanation: seen.received)
        return partial(
            checker.check_all,
            budget=settings.check_budget,
            replacement=settings.check_replacement or "delete",
            artefacts=settings.artefacts is not False,
            progress=progress,
        )

    def provenance(self) -> dict[str, str]:
        """Return what produces a result: model, hash of its weights, versions.

        `rounding_error`, present for models converted to a half type, is the relative error of their logits;
        `similar_to`, present for similarity models, is the text that documents are compared with.
        """
        return provenance_of(self.network)
