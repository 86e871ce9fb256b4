"""Model: the object users hold. It ties the rooms together: text → network → trace → method → explanation.

`models/` holds the network itself; this façade stands to the right of the methods because explaining needs them.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np
import torch

from sightline import builtin
from sightline.analysis.exchange import Rerun
from sightline.analysis.importance import Importance, head_importance_of
from sightline.analysis.internals import inside as look_inside
from sightline.checking import Checker, special_share
from sightline.continuation import ContinuationExplanation, Origin
from sightline.errors import InputError, ModelError, OptionError, TargetError, UnsupportedError
from sightline.explanation import Explanation, FloatArray
from sightline.methods import METHODS, Attribution, Method
from sightline.methods.applicability import check_applies, default_methods, methods_not_offered
from sightline.metrics.check import CheckReplacement
from sightline.models import ALL, Network, TargetLike, load_network
from sightline.models.batching import BATCH_TOKENS, batches_by_length
from sightline.models.generate import generate_greedily
from sightline.models.loading import AttentionKind
from sightline.models.target import ENTITIES
from sightline.models.tasks import CausalLanguageModel, MaskedLanguageModel, TokenClassification
from sightline.models.word_targets import name_tokens
from sightline.passes import Pass, Request
from sightline.prefixes import PrefixPass
from sightline.progress import Progress
from sightline.report import Report
from sightline.text import (
    Aggregation,
    Chat,
    Encoding,
    check_chat,
    check_known,
    continue_ids,
    continue_text,
    encode_chat,
    encode_ids,
    encode_text,
    is_chat,
    read_in_windows,
)
from sightline.trace import Trace
from sightline.windows import WindowedPass, describe_windows

if TYPE_CHECKING:
    from sightline.analysis.inspection import Inspection, InspectionSettings

Document = str | Encoding
Explainable = Document | Trace | Chat
ByClass = dict[str, Explanation]
"""Label -> explanation, in the order of the classes."""


def _check_document_type(document: object) -> None:
    if isinstance(document, Mapping) or hasattr(document, "columns"):
        # Iterating over a table gives the names of its columns, which would be explained silently.
        raise InputError("A table is not a document. Give the column with the texts, for example list(data['text']).")
    if not isinstance(document, Iterable | Trace | Encoding) or isinstance(document, bytes):
        raise InputError(f"A document is a text, an encoding or a trace, not {type(document).__name__}.")


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
    similar_to: str | None = None,
) -> Model:
    """Load a model from a folder, a hub id or a transformers model object; without a source, the built-in one.

    task: inferred from the architecture unless given. tokenizer: an object, a folder or a hub id; by default the
    model's own. attention: "banded" (exact, fast, for Longformer) or "library". allow_random: accept missing weights
    and mark every result as coming from an untrained model. similar_to: explain how similar a document is to this text,
    for a sentence-transformers folder without a classifier.
    """
    network, tokenizer = load_network(
        builtin.model_folder() if source is None else source,
        task=task,
        tokenizer=tokenizer,
        device=device,
        dtype=dtype,
        attention=attention,
        allow_pickle=allow_pickle,
        allow_random=allow_random,
        similar_to=similar_to,
    )
    if source is None:
        network.name = builtin.NAME
    model = Model(network, tokenizer)
    if not network.sees_inside:
        warnings.warn(
            f"Sightline knows only the embeddings and logits of '{network.config.model_type}' models, so methods that "
            f"look at layers or attention are not offered: {', '.join(model.methods_not_offered)}.",
            stacklevel=2,
        )
    return model


class Model:
    """A loaded model: encode a text, trace a pass, explain a prediction."""

    def __init__(self, network: Network, tokenizer: Any = None) -> None:
        self.network = network
        self.tokenizer = tokenizer

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
        limit = getattr(self.tokenizer, "model_max_length", None)
        # A limit of less than one token, from a damaged file, says nothing.
        return int(min(self.network.max_tokens, limit)) if limit and limit >= 1 else self.network.max_tokens

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
        text: str | Chat | None = None,
        pair: str | None = None,
        global_tokens: Iterable[int] | None = None,
        *,
        ids: Sequence[int] | None = None,
        truncate: bool = False,
        aggregation: Aggregation = "mean",
        overlap: int | None = None,
        max_windows: int | None = None,
    ) -> Encoding:
        """Turn a text (and its pair), a chat, or token ids, into what the model reads.

        A chat is a list of messages such as {"role": "user", "content": "Where are the keys?"}; the tokenizer's chat
        template turns it into a text up to where the assistant is to answer. What the template wrote is special.
        A document longer than the model reads is cut into overlapping windows (`.windows`), where the task permits:
        the logits of the document are the mean of the windows' logits, the largest of each class, or those of the first
        window (`aggregation`); windows share about `overlap` tokens. At most `max_windows` are read, by default as many
        as have 32,768 tokens together (64 of 512 tokens, at least 8). With truncate=True only the first is read. The
        rest is cut off, and `.dropped` says how many tokens that were.
        """
        cut = partial(self._read_in_windows, overlap=overlap, aggregation=aggregation, max_windows=max_windows)
        positions = None if global_tokens is None else self.network.check_global_tokens(global_tokens)
        if (text is None) == (ids is None):
            raise InputError("Give either a text or ids=, exactly one of them.")
        if ids is not None:
            if pair is not None:
                raise InputError("pair= goes with a text; ids already hold both texts and the marks between them.")
            encoding = encode_ids(
                ids,
                special_ids=self.network.special_names,
                vocab_size=int(self.network.config.vocab_size),
                tokenizer=self.tokenizer,
                global_tokens=positions,
            )
            self.network.check_left_padding(encoding)
            if len(encoding) > self.max_tokens:
                windowed = None if truncate else cut(encoding)
                if windowed is None:
                    raise InputError(f"{len(encoding)} ids were given, the model reads {self.max_tokens} at most.")
                return windowed
            return encoding
        if self.tokenizer is None:
            raise ModelError(
                f"The model '{self.name}' has no tokenizer, so it cannot read text. "
                "Give one with tokenizer=, or token ids with encode(ids=[...])."
            )
        assert text is not None
        check_chat(text)
        if is_chat(text):
            return self._encode_chat(text, pair)
        encode = partial(encode_text, self.tokenizer, cast(str, text), pair, global_tokens=positions)
        whole = truncate or not self.network.task.reads_windows
        encoding = encode(max_tokens=self.max_tokens if whole else None)
        if len(encoding) > self.max_tokens:
            encoding = cut(encoding) or encode(max_tokens=self.max_tokens)
        check_known(encoding, self.tokenizer.unk_token_id)
        return encoding

    def _encode_chat(self, messages: Chat, pair: str | None) -> Encoding:
        if pair is not None:
            raise InputError("pair= goes with a text, not with a chat.")
        encoding = encode_chat(self.tokenizer, messages)
        if len(encoding) > self.max_tokens:
            raise InputError(f"The chat has {len(encoding)} tokens, the model reads {self.max_tokens} at most.")
        return encoding

    def _read_in_windows(self, encoding: Encoding, **options: Any) -> Encoding | None:
        """Return a long document with its windows, or None if it can only be truncated."""
        return read_in_windows(encoding, self.max_tokens, **options) if self.network.task.reads_windows else None

    @overload
    def trace(  # type: ignore[overload-overlap]  # a str is a sequence of str, too
        self, document: Document, target: TargetLike = None, *, quantity: str = "logit", position: int | None = None
    ) -> Trace: ...

    @overload
    def trace(
        self,
        document: Sequence[Document],
        target: TargetLike = None,
        *,
        quantity: str = "logit",
        position: int | None = None,
    ) -> list[Trace]: ...

    def trace(
        self,
        document: Document | Sequence[Document],
        target: TargetLike = None,
        *,
        quantity: str = "logit",
        position: int | None = None,
    ) -> Trace | list[Trace]:
        """Return the trace of one pass over a document; nothing runs until something of it is needed.

        A list of documents runs as one padded batch and gives a list of unpadded traces.
        """
        if is_chat(document):
            document = self.encode(document)
        _check_document_type(document)
        if isinstance(self.network.task, MaskedLanguageModel) and self.tokenizer is not None:
            target = name_tokens(target, self.network.task, self.tokenizer)
        several = not isinstance(document, str | Encoding)
        documents: Sequence[Document] = document if several else [document]  # type: ignore[assignment,list-item]
        encodings = [self._encode_document(text) for text in documents]
        request = Request(target, quantity, position)
        short = [encoding for encoding in encodings if encoding.windows is None]
        if self.network.pads:
            shared = Pass(self.network, short, [request] * len(short))
            places = iter([(shared, number) for number in range(len(short))])
        else:
            places = iter([(Pass(self.network, [encoding], [request]), 0) for encoding in short])
        traces = [
            self._make_trace(*next(places))
            if encoding.windows is None
            else self._make_trace(WindowedPass(self.network, encoding, request), 0)
            for encoding in encodings
        ]
        return traces if several else traces[0]

    @overload
    def explain(
        self,
        document: Document,
        method: str | None = None,
        *,
        continuation: str | Sequence[int],
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
    ) -> dict[str, ByClass]: ...

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
    ) -> dict[str, Explanation]: ...

    @overload
    def explain(
        self, document: Sequence[Document], method: str | None = None, *, target: Literal["all"], **options: Any
    ) -> list[Any]: ...

    @overload
    def explain(
        self,
        document: Sequence[Document],
        method: str | None = None,
        target: TargetLike = None,
        *,
        methods: None = None,
        **options: Any,
    ) -> list[Explanation]: ...

    @overload
    def explain(
        self,
        document: Sequence[Document],
        method: None = None,
        target: TargetLike = None,
        *,
        methods: Sequence[str],
        **options: Any,
    ) -> list[dict[str, Explanation]]: ...

    def explain(
        self,
        document: Explainable | Sequence[Document],
        method: str | None = None,
        target: TargetLike = None,
        *,
        methods: Sequence[str] | None = None,
        quantity: str | None = None,
        position: int | None = None,
        pair: str | None = None,
        continuation: str | Sequence[int] | None = None,
        max_new_tokens: int | None = None,
        truncate: bool = False,
        check: bool = False,
        check_budget: int | None = None,
        check_replacement: CheckReplacement = "delete",
        artefacts: bool = True,
        progress: Progress | None = None,
        **options: Any,
    ) -> Any:
        """Explain a prediction by one method (by default the first of `default_methods`) or by several on one pass.

        document: a text, an encoding, a chat (see `encode`), or a list of texts or encodings (which gives a list, run
        in batches of similar length); or a trace of this model, whose pass is then shared and whose target is
        explained.
        target: the predicted class by default; a class number, a label, or a pair of them for a contrast. "all"
        explains every class on one shared forward and returns a dictionary label -> explanation; a class whose label is
        "all" is chosen by its number. "entities" explains every entity that a model which tags tokens finds in one
        document.
        quantity: "logit", "probability", "log_probability" or "margin"; by default the logit, for methods that change
        the input the probability. Further options belong to the method; with `methods`, options of one of them are
        given as a dictionary under its name: `rollout={"fusion": "max"}`. truncate: cut off the end of a text that is
        longer than the model reads, instead of reading it in windows (see `encode`).
        continuation: for a causal language model, the text (or the token ids) that follows the document, its prompt;
        every token of it is explained from the tokens before it on one shared forward, which gives a
        `ContinuationExplanation` with `.matrix` and `.rows`. With max_new_tokens instead, the model writes the
        continuation itself, always the likeliest next token. check: compare with random orders
        of the words on the model itself, for `checks` (`metrics.faithfulness_check`) and `removal`, in at most
        `check_budget` model calls; `check_replacement` is the `replacement` of `check`. artefacts: as part of the
        check, exchange the strongest words, for `exchange` and `artefacts`, in one to three further runs of the method
        (`analysis.exchange`); left out for methods that call the model many times.
        """
        chosen = self._choose_methods(method, methods, options, quantity)
        if is_chat(document):
            document = self.encode(document)
        if continuation is not None or max_new_tokens is not None:
            if (target, position, pair, check) != (None, None, None, False):
                raise OptionError(
                    "With a continuation every generated token is a target: leave target, position, pair and check out "
                    "(model.check() checks one of .rows)."
                )
            whole, prompt = self._encode_continuation(document, continuation, max_new_tokens)
            origin: Origin = "generated" if continuation is None else "given"
            continued = self._explain_continuation(whole, prompt, origin, chosen, quantity or "logit", progress)
            return continued if methods is not None else next(iter(continued.values()))
        finish = (
            partial(
                self._checker.check_all,
                budget=check_budget,
                replacement=check_replacement,
                artefacts=artefacts,
                progress=progress,
            )
            if check
            else lambda result: result
        )
        request: dict[str, Any] = {"target": target, "quantity": quantity or "logit", "position": position}
        _check_document_type(document)
        if isinstance(document, Trace):
            self._check_trace(document, target, quantity, position, pair)
        elif isinstance(document, str | Encoding):
            encoding = self._encode_document(document, pair, truncate)
            if target == ENTITIES and ENTITIES not in self.labels:
                by_method = finish(self._explain_entities(encoding, chosen, request["quantity"], progress))
                return by_method if methods is not None else next(iter(by_method.values()))
            document = self.trace(encoding, **request)
        if isinstance(document, Trace):
            by_method = finish(self._explain_traces([document], chosen, progress)[0])
            return by_method if methods is not None else next(iter(by_method.values()))
        if pair is not None:
            raise OptionError("pair= goes with one text; for several documents pass encodings made with encode().")
        encodings = [self._encode_document(text, truncate=truncate) for text in document]
        results: list[Any] = [None] * len(encodings)
        for batch in _batches(encodings, padded=self.network.pads):
            explained = self._explain_traces(self.trace([encodings[i] for i in batch], **request), chosen, progress)
            for index, by_method in zip(batch, map(finish, explained), strict=True):
                results[index] = by_method if methods is not None else next(iter(by_method.values()))
        return results

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

        Its strongest words are removed, and random sets of as many words, whatever made the scores: a method, an edit
        (`dataclasses.replace(explanation, scores=...)`) or another program. replacement: "delete" the words, replace
        them with the "mask" token, or "both", which also reports whether the two lead to the same level. `budget`
        bounds the model calls (64 by default, twice as many for both). artefacts: exchange the strongest words, if the
        scores are those that the method gives on this model.
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
        pair: str | None = None,
        truncate: bool = False,
        check_budget: int | None = None,
        check_replacement: CheckReplacement = "delete",
        artefacts: bool = True,
        progress: Progress | None = None,
        **options: Any,
    ) -> Report:
        """Explain one document and return everything a page shows: `Report`.

        The arguments are those of `explain` with `methods`; the default methods are `default_methods`. inside: add
        relations between tokens, head maps and head importance, from the pass that the methods share; a document that
        is read in windows has none, nor has a model whose layers are not known. check: compare every explanation with
        random orders of the words, for its verdict and its removal curve, and (`artefacts`) exchange its strongest
        words.
        """
        if is_chat(document):
            document = self.encode(document)
        if not isinstance(document, str | Encoding | Trace):
            raise InputError(f"A report is about one text, encoding or trace, not {type(document).__name__}.")
        if isinstance(document, Trace):
            self._check_trace(document, target, quantity, position, pair)
            trace = document
        else:
            encoding = self._encode_document(document, pair, truncate)
            trace = self.trace(encoding, target, quantity=quantity or "logit", position=position)
        seconds: dict[str, float] = {}
        with _time_stage(seconds, "explain"):
            seen = self.network.sees_inside and not trace.windowed
            importance = self._require_inside(trace) if inside and seen else None
            explanations: dict[str, Any] = self.explain(
                trace,
                methods=self.default_methods if methods is None else methods,
                quantity=quantity,
                progress=progress,
                **options,
            )
        looked_inside = None
        if importance is not None:
            with _time_stage(seconds, "inside"):
                looked_inside = look_inside(trace, importance=importance(), progress=progress)
        if check:
            with _time_stage(seconds, "check"):
                explanations = self._checker.check_all(
                    explanations,
                    budget=check_budget,
                    replacement=check_replacement,
                    artefacts=artefacts,
                    progress=progress,
                )
        return Report(explanations, inside=looked_inside, seconds=seconds)

    def _require_inside(self, trace: Trace) -> Callable[[], Importance | None]:
        """Announce what `inside` needs to the pass of the methods; return a function that gives the head importance.

        That is None if the weights of single heads are not known. If all classes are explained, it is the importance
        for the predicted class, computed first on a graph that is kept for the classes.
        """
        trace.require("attentions")
        try:
            trace.require("head_importance")
        except UnsupportedError:
            return lambda: None
        if trace.shared.requests[trace.document].target != ALL:
            return lambda: head_importance_of(trace)
        importance = head_importance_of(trace.with_target(None))
        trace.shared.keep_graph = False
        return lambda: importance

    def inspect(
        self,
        document: Document,
        settings: InspectionSettings | None = None,
        *,
        target: TargetLike = None,
        pair: str | None = None,
        progress: Progress | None = None,
        **fields: Any,
    ) -> Inspection:
        """Return what happens inside the model on one document: heads, maps, relations, totals, attributions.

        settings: `sl.analysis.InspectionSettings`, or its fields as further arguments (methods, stop_words, top_k,
        layer, head, …). One forward and one backward pass serve everything, unless a method changes the input.
        """
        from sightline.analysis.inspection import InspectionSettings, inspect_document

        self.network.require_layers()
        if settings is not None and fields:
            raise OptionError("Give either settings= or its fields, not both.")
        settings = settings or InspectionSettings(**fields)
        return inspect_document(
            self, self._encode_document(document, pair, truncate=True), settings, target=target, progress=progress
        )

    def _choose_methods(
        self, method: str | None, methods: Sequence[str] | None, options: Mapping[str, Any], quantity: str | None
    ) -> dict[Method, dict[str, Any]]:
        """Return the requested methods with their resolved options, before anything runs."""
        if methods is None:
            entry = METHODS.get(method or self.default_methods[0])
            return {entry: self._resolve_options(entry, options, quantity)}
        if method is not None:
            raise OptionError("Give either method= or methods=, not both.")
        if isinstance(methods, str) or not methods:
            raise OptionError(
                "methods= takes a list with at least one name, for example methods=['attcat', 'rollout']."
            )
        for name, method_options in options.items():
            if name not in methods or not isinstance(method_options, Mapping):
                raise OptionError(
                    f"With methods=, options are given by method, for example {methods[0]}={{...}}; "
                    f"'{name}' does not fit."
                )
        entries = [METHODS.get(name) for name in dict.fromkeys(methods)]
        return {entry: self._resolve_options(entry, options.get(entry.name, {}), quantity) for entry in entries}

    def _resolve_options(self, entry: Method, options: Mapping[str, Any], quantity: str | None) -> dict[str, Any]:
        """Return a method's options, including the requested quantity if the method has that option.

        A model with a single class (a regression) always has probability 1, which removing words cannot change; its
        default quantity is the logit.
        """
        check_applies(entry.name, self.network)
        if quantity is None and len(self.labels) == 1 and not self.network.task.facts.multi_label:
            quantity = "logit"
        defaults = {"quantity": quantity} if quantity is not None and "quantity" in entry.options else {}
        return entry.resolve_options({**defaults, **options})

    def _check_trace(
        self, trace: Trace, target: TargetLike, quantity: str | None, position: int | None, pair: str | None
    ) -> None:
        """Raise OptionError for a trace of another model, and for arguments that the trace already fixes."""
        if trace.network is not self.network:
            raise OptionError("The trace was made by another model. Give one of model.trace().")
        traced_quantity = trace.shared.requests[trace.document].quantity
        if (target, position, pair) != (None, None, None) or quantity not in (None, traced_quantity):
            raise OptionError(
                "A trace has its own document, target, quantity and position: leave them out, or give them to trace()."
            )

    def _explain_traces(
        self, traces: Sequence[Trace], chosen: dict[Method, dict[str, Any]], progress: Progress | None
    ) -> list[dict[str, Any]]:
        """Return method -> explanation of every trace of one pass; for all classes, method -> label -> explanation."""
        shared = traces[0].shared
        shared.require(*{need for entry, options in chosen.items() for need in entry.requirements(options)})
        if shared.requests[traces[0].document].target != ALL:
            return [self._run_methods(trace, chosen, progress, {}) for trace in traces]
        results: list[dict[str, Any]] = [{entry.name: {} for entry in chosen} for _ in traces]
        shared_attributions: list[dict[str, Attribution]] = [{} for _ in traces]
        for label, targets in shared.classes():
            traces = [trace.sibling(targets[trace.document]) for trace in traces]
            for trace, by_method, class_independent in zip(traces, results, shared_attributions, strict=True):
                for name, explanation in self._run_methods(trace, chosen, progress, class_independent).items():
                    by_method[name][label] = explanation
        return results

    def _run_methods(
        self,
        trace: Trace,
        chosen: dict[Method, dict[str, Any]],
        progress: Progress | None,
        class_independent: dict[str, Attribution],
    ) -> dict[str, Explanation]:
        """Run the methods on one trace; results that do not depend on the class are read from `class_independent`.

        Missing ones are added to it, unless the document is read in windows: which windows count depends on the class.
        """
        explanations = {}
        for step, (entry, options) in enumerate(chosen.items()):
            if progress is not None:
                progress(entry.name, step, len(chosen))
                trace.progress = partial(progress, entry.name)
            attribution = class_independent.get(entry.name) or entry.run(trace, options)
            if not entry.class_specific and not trace.windowed:
                class_independent[entry.name] = attribution
            explanations[entry.name] = self._make_explanation(trace, entry, options, attribution)
        trace.progress = None
        return explanations

    @property
    def _checker(self) -> Checker:
        return Checker(self.network, self._repeat, self._received)

    def _received(self, explanation: Explanation) -> FloatArray:
        """Return the attention that every token of an explained document receives, (L, H, n)."""
        target = explanation.target
        return self.trace(explanation.encoding, target, position=target.position).received

    def _repeat(self, explanation: Explanation) -> Rerun:
        """Return a function that computes the same scores for changed documents."""
        chosen = {METHODS.get(explanation.method): explanation.options}

        def rerun(encodings: Sequence[Encoding]) -> list[FloatArray]:
            scores: dict[int, FloatArray] = {}
            for batch in _batches(encodings, padded=self.network.pads):
                documents, target = [encodings[place] for place in batch], explanation.target
                traces = self.trace(documents, target, position=target.position)
                for place, by_method in zip(batch, self._explain_traces(traces, chosen, None), strict=True):
                    scores[place] = by_method[explanation.method].scores
            return [scores[place] for place in range(len(encodings))]

        return rerun

    def _explain_entities(
        self, document: Document | Trace, chosen: dict[Method, dict[str, Any]], quantity: str, progress: Progress | None
    ) -> dict[str, Any]:
        """Return method -> entity -> explanation for a document, on one forward and one backward per entity."""
        task = self.network.task
        if not isinstance(task, TokenClassification):
            raise TargetError(f"Entities are tagged tokens; a model for {self.task} has none to explain.")
        trace = document if isinstance(document, Trace) else self.trace(document)
        trace.shared.require(*{need for entry, options in chosen.items() for need in entry.requirements(options)})
        trace.shared.keep_graph = True
        entities = task.entities(trace.shared.logits(trace.document), trace.encoding, quantity)
        if not entities:
            raise TargetError("The model finds no entity in this text: give a token with position= instead.")
        explained: dict[str, Any] = {entry.name: {} for entry in chosen}
        for name, target in entities.items():
            for method, explanation in self._run_methods(trace.sibling(target), chosen, progress, {}).items():
                explained[method][name] = explanation
        return explained

    def _encode_continuation(
        self, prompt: object, continuation: str | Sequence[int] | None, max_new_tokens: int | None
    ) -> tuple[Encoding, Encoding]:
        """Return prompt and continuation as one encoding, and the prompt alone."""
        if not isinstance(self.network.task, CausalLanguageModel):
            raise UnsupportedError(f"Only a causal language model continues a text; this is a model for {self.task}.")
        if continuation is not None and max_new_tokens is not None:
            raise OptionError("Give either continuation= or max_new_tokens=, not both.")
        if isinstance(continuation, bytes) or not isinstance(continuation, Sequence | np.ndarray | None):
            raise InputError(
                f"The continuation must be a text or a list of token ids, not {type(continuation).__name__}."
            )
        check_chat(prompt)
        if not isinstance(prompt, str | Encoding):
            raise InputError(f"A prompt is one text, one chat or one encoding, not {type(prompt).__name__}.")
        start = self._encode_document(prompt)
        if start.dropped:
            raise InputError(
                f"The prompt has {len(start) + start.dropped} tokens and the model reads {self.max_tokens} at most: "
                "shorten it."
            )
        if isinstance(continuation, str):
            if self.tokenizer is None:
                raise ModelError(f"The model '{self.name}' has no tokenizer: give the continuation as a list of ids.")
            whole = continue_text(self.tokenizer, start, continuation)
        else:
            ids = continuation if max_new_tokens is None else generate_greedily(self.network, start, max_new_tokens)
            assert ids is not None
            whole = continue_ids(
                start,
                ids,
                tokenizer=self.tokenizer,
                special_ids=self.network.special_names,
                vocab_size=int(self.network.config.vocab_size),
            )
        if len(whole) > self.max_tokens + 1:  # the last token is predicted and not read
            raise InputError(
                f"Prompt and continuation have {len(whole)} tokens together, the model reads {self.max_tokens} at "
                "most: shorten one of them."
            )
        return whole, start

    def _explain_continuation(
        self,
        encoding: Encoding,
        prompt: Encoding,
        origin: Origin,
        chosen: dict[Method, dict[str, Any]],
        quantity: str,
        progress: Progress | None,
    ) -> dict[str, ContinuationExplanation]:
        """Return method -> continuation: one forward, one backward per generated token behind the prompt."""
        shared = PrefixPass(self.network, encoding, len(prompt), quantity)
        shared.require(*{need for entry, options in chosen.items() for need in entry.requirements(options)})
        rows, probabilities = [], []
        for number in range(len(shared.encodings)):
            trace = self._make_trace(shared, number)
            rows.append(self._run_methods(trace, chosen, None, {}))
            probabilities.append(self.network.task.probability(shared.logits(number).detach(), trace.target))
            if progress is not None:
                progress("explaining generated tokens", number + 1, len(shared.encodings))
        return {
            entry.name: ContinuationExplanation(
                tuple(row[entry.name] for row in rows),
                encoding,
                len(prompt),
                np.array(probabilities),
                origin,
                len(prompt.text),
            )
            for entry in chosen
        }

    def _make_trace(self, shared: Pass, document: int) -> Trace:
        trace = Trace(shared, document)
        trace.reader = self.encode
        return trace

    def _make_explanation(
        self, trace: Trace, entry: Method, options: dict[str, Any], attribution: Attribution
    ) -> Explanation:
        encoding = trace.encoding
        checks: dict[str, Any] = {
            "special_share": special_share(attribution.scores, encoding),
            "untrained": self.network.untrained,
            "dropped_tokens": encoding.dropped,
            **attribution.checks,
        }
        return Explanation(
            method=entry.name,
            scores=attribution.scores,
            encoding=encoding,
            target=replace(trace.target, quantity=options.get("quantity", trace.target.quantity)),
            prediction=trace.prediction,
            layers=attribution.layers,
            layer_kind=attribution.layer_kind,
            checks=checks,
            options=options,
            provenance=self.provenance(),
            extras={**attribution.extras, **describe_windows(trace.shared, trace.target)},
            signed=entry.signed,
        )

    def provenance(self) -> dict[str, str]:
        """Return what produces a result: model, hash of its weights, versions.

        `rounding_error`, present for models converted to a half type, is the relative error of their logits.
        """
        error = self.network.rounding_error
        return {
            "model": self.name,
            "model_type": str(self.network.config.model_type),
            "weights": self.network.weights_hash,
            "dtype": str(self.network.dtype).removeprefix("torch."),
            **({} if error is None else {"rounding_error": f"{error:.1e}"}),
            "sightline": _version("sightline"),
            "torch": torch.__version__,
            "transformers": _version("transformers"),
            "python": platform.python_version(),
        }

    def _encode_document(self, document: object, pair: str | None = None, truncate: bool = False) -> Encoding:
        if isinstance(document, Encoding):
            if pair is not None:
                raise OptionError("pair= goes with a text; an encoding already holds its pair.")
            return document
        if not isinstance(document, str):
            raise InputError(f"Each document is a text or an encoding, not {type(document).__name__}.")
        return self.encode(document, pair, truncate=truncate)


_version = cache(version)  # reading a package's metadata takes a millisecond


def _batches(encodings: Sequence[Encoding], *, padded: bool) -> Iterator[list[int]]:
    """Yield the numbers of documents that share a pass: documents with windows alone, others by length.

    If the model cannot be padded, every document has a pass of its own.
    """
    if not padded:
        yield from ([index] for index in range(len(encodings)))
        return
    short = [index for index, encoding in enumerate(encodings) if encoding.windows is None]
    yield from ([index] for index, encoding in enumerate(encodings) if encoding.windows is not None)
    for batch in batches_by_length([len(encodings[index]) for index in short], BATCH_TOKENS):
        yield [short[place] for place in batch]


@contextmanager
def _time_stage(seconds: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - start
