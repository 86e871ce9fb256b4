"""Model: the object users hold. It explains, checks and reports; `loaded` has what it knows, reads and predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import numpy as np

from sightline.api.checking import Checker
from sightline.api.explaining import build_report, check_trace, model_checks, provenance_of
from sightline.api.importing import align_scores
from sightline.api.loaded import Listed, LoadedModel, Readable, refuse_batch_size
from sightline.errors import InputError, OptionError
from sightline.methods.applicability import choose_methods
from sightline.models import TargetLike
from sightline.models.target import Request
from sightline.passes.reading import ReadPolicy, documents_of
from sightline.passes.trace import Trace
from sightline.progress import Progress
from sightline.results.continuation import ContinuationExplanation, Origin
from sightline.results.explanation import Explanation
from sightline.results.report import ByMethod, Report
from sightline.settings.explain import CheckSettings
from sightline.settings.names import MethodName
from sightline.text import Chat, Encoding, Level
from sightline.text.documents import DocumentText

if TYPE_CHECKING:
    from sightline.analysis.inspection import Inspection, InspectionSettings

Explainable = Readable | Trace | Chat
SeveralTargets = Literal["all", "entities"]


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


class Model(LoadedModel):
    """A loaded model, as `sl.load` returns it: encode a text, trace a pass, explain a prediction."""

    @overload
    def explain(
        self,
        document: Readable | Chat,
        method: MethodName | None = None,
        *,
        continuation: str | DocumentText | Sequence[int],
        methods: None = None,
        **options: Any,
    ) -> ContinuationExplanation: ...

    @overload
    def explain(
        self, document: Explainable, method: MethodName | None = None, *, target: SeveralTargets, **options: Any
    ) -> Report: ...

    @overload
    def explain(
        self,
        document: Explainable | None = None,
        method: MethodName | None = None,
        target: TargetLike = None,
        *,
        methods: None = None,
        **options: Any,
    ) -> Explanation: ...

    @overload
    def explain(
        self,
        document: Explainable | None = None,
        method: None = None,
        target: TargetLike = None,
        *,
        methods: Sequence[MethodName],
        **options: Any,
    ) -> ByMethod: ...

    @overload
    def explain(
        self, document: Listed, method: MethodName | None = None, *, target: SeveralTargets, **options: Any
    ) -> list[Report]: ...

    @overload
    def explain(
        self,
        document: Listed,
        method: MethodName | None = None,
        target: TargetLike = None,
        *,
        methods: None = None,
        **options: Any,
    ) -> list[Explanation]: ...

    @overload
    def explain(
        self,
        document: Listed,
        method: None = None,
        target: TargetLike = None,
        *,
        methods: Sequence[MethodName],
        **options: Any,
    ) -> list[ByMethod]: ...

    @_announced
    def explain(
        self,
        document: Explainable | Listed | None = None,
        method: MethodName | None = None,
        target: TargetLike = None,
        *,
        methods: Sequence[MethodName] | None = None,
        quantity: str | None = None,
        position: int | None = None,
        pair: str | DocumentText | None = None,
        question: str | None = None,
        context: str | DocumentText | None = None,
        continuation: str | DocumentText | Sequence[int] | None = None,
        max_new_tokens: int | None = None,
        truncate: bool = False,
        check: bool = False,
        check_all: bool = False,
        check_readings: int | None = None,
        threshold: float | None = None,
        artefacts: bool | None = None,
        batch_size: int | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Any:
        """Explain a prediction by one method, or by several that share one pass.

        Returns an `Explanation`; with `methods`, a dictionary from method to explanation (`ByMethod`); with several
        targets ("all", "entities"), a `Report`; with a continuation, a `ContinuationExplanation` in place of each
        explanation. A list of documents gives a list.

        document: a text, an encoding, a chat (see `encode`), or a list of texts, pairs (text, second text), chats or
        encodings, which run in batches of similar length. A trace of this model shares its pass and is explained for
        its own target and quantity.
        method: by default the first of `default_methods`.
        target: the predicted class by default; a class number, a label, or a contrast of two: the tuple (A, B) or the
        text "A:B", unless that is itself a label. "all" explains every class on one shared forward pass; a class whose
        label is "all" is chosen by its number. Of a token classifier, "word:Lovelace" is the entity of that word, and
        "entities" explains every entity that it finds.
        quantity: what is explained of the class: "log_odds" (the default, log p/(1 − p), of two classes the difference
        of their logits), "logit" (as in most papers), "probability", "log_probability" or "margin".
        position: the token whose output is explained, where the model predicts something for single tokens.
        pair: the second text of a pair.
        question, context: in place of a document, for a model that answers questions.
        continuation: for a causal language model, the text (or token ids) that follows the document; every token of it
        is explained from the tokens before it.
        max_new_tokens: let the model write the continuation, always the likeliest next token.
        truncate: cut off the end of a text that is longer than the model reads, instead of reading it in windows.
        check: delete words and see what the model says, for `check` and `verdict`; of several methods, that of the
        first.
        check_all: check the explanations of all methods.
        check_readings: the most documents that the check of one explanation may read.
        threshold: for a model with one output, the value at which the answer changes: the check then looks for the
        smallest set of words without which the value falls below it.
        artefacts: as part of the check, exchange the words to be named, for `exchange` and `artefacts`. This takes one
        to three further runs of the method, and is left out for methods that call the model many times.
        batch_size: the most documents of a list that share a pass.
        progress: called with the stage, the steps done and their total.
        options: options of the method. With `methods`, give the options of one of them as a dictionary under its name:
        `rollout={"fusion": "max"}`.

        Examples
        --------
        >>> import sightline as sl
        >>> model = sl.load()
        >>> explanation = model.explain("We trained a neural network on labelled pictures.")
        >>> [word.text for word in explanation.top(2, sign="for")]
        ['neural', 'network']

        Several methods share one forward and one backward pass:

        >>> several = model.explain("We trained a neural network.", methods=["attcat", "rollout"])
        >>> list(several)
        ['attcat', 'rollout']
        """
        chosen = choose_methods(self.network, method, methods, options)
        checking = CheckSettings(
            check=check,
            check_all=check_all,
            check_readings=check_readings,
            threshold=threshold,
            artefacts=artefacts,
        )
        add_checks = self._add_checks(checking, progress)
        document, pair = self._reader.order_question(document, pair, question, context)
        if continuation is not None or max_new_tokens is not None:
            if (target, position, pair, check, truncate) != (None, None, None, False, False):
                raise OptionError(
                    "With a continuation every generated token is a target and the prompt is read whole: leave target, "
                    "position, pair, truncate and check out (model.check() checks one of .rows)."
                )
            whole, prompt = self._reader.read_continuation(document, continuation, max_new_tokens)
            origin: Origin = "generated" if continuation is None else "given"
            continued = self._explainer.explain_continuation(whole, prompt, origin, chosen, quantity, progress)
            return continued if methods is not None else next(iter(continued.values()))

        def finish(by_method: dict[str, Any]) -> Any:
            checked = by_method if add_checks is None else add_checks(by_method)
            if any(isinstance(value, dict) for value in checked.values()):
                return Report(checked)
            return ByMethod(checked) if methods is not None else next(iter(checked.values()))

        request = Request(target, quantity, position)
        if isinstance(document, Trace):
            check_trace(document, self.network, request, pair, truncate)
            return finish(self._explainer.explain_traces([document], request, chosen, progress)[0])
        documents = documents_of(document)
        if documents is None:
            refuse_batch_size(batch_size)
        elif pair is not None:
            raise OptionError("pair= goes with one text; in a list of documents, give pairs (text, second text).")
        policy = ReadPolicy(pair=pair, truncate=truncate)
        encodings = [self._reader.read(one, policy) for one in ([document] if documents is None else documents)]
        results = {
            number: finish(by_method)
            for number, by_method in self._explainer.explain(encodings, request, chosen, progress, batch_size)
        }
        return results[0] if documents is None else [results[number] for number in range(len(encodings))]

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
        scores: one number per word (of ours or of `text.split()`) or per unit of another `level` (tokens with or
        without special ones), in document order; pairs (token, score) with the tokens of any tokenizer, which spell the
        text; triples (start, end, score) with characters of the text; a dictionary from words to scores, which are
        divided among the instances of a word; a `shap.Explanation` of one text, a record of captum's `visualize_text`,
        or an output of inseq for one text (its scores are added up; after `.aggregate()`, they are inseq's norms).
        method: the name under which the explanation is shown.
        target, quantity: what the scores explain, as in `explain`; the predicted class by default.
        signed: whether a negative score speaks against the target.

        Examples
        --------
        >>> import sightline as sl
        >>> imported = sl.load().import_scores("a neural network", [0.1, 0.7, 0.2], method="mine")
        >>> [(word.text, word.score) for word in imported.top(1)]
        [('neural', 0.7)]
        """
        encoding = self._reader.read(document)
        (trace,) = self._explainer.trace([encoding], Request(target, quantity))
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
        check_readings: int | None = None,
        threshold: float | None = None,
        artefacts: bool = True,
        progress: Progress | None = None,
    ) -> Explanation:
        """Return the explanation with `check`, `exchange` and `verdict` as this model measures them.

        Its strongest words are deleted, and so are random sets of as many words. Any scores can be checked: those of a
        method, edited ones (`dataclasses.replace(explanation, scores=...)`, which drops what belonged to the former
        scores) or those of another program.

        check_readings, threshold: as in `explain`.
        artefacts: also exchange the words to be named, if the scores are those that the method gives on this model.

        Examples
        --------
        >>> import sightline as sl
        >>> model = sl.load()
        >>> text = "Our compiler checks types. A neural network, trained on examples, predicts how long a loop runs."
        >>> checked = model.check(model.explain(text))
        >>> checked.verdict.matters
        'yes'
        >>> checked.verdict.smallest_set.label
        'programming languages'
        """
        if not isinstance(explanation, Explanation):
            raise InputError(f"An Explanation can be checked, not {type(explanation).__name__}.")
        settings = CheckSettings(check=True, check_readings=check_readings, threshold=threshold, artefacts=artefacts)
        return self._checker(settings).check(explanation, progress)

    @_announced
    def report(
        self,
        document: Explainable | None = None,
        methods: Sequence[MethodName] | None = None,
        target: TargetLike = None,
        *,
        check: bool = True,
        inside: bool = True,
        quantity: str | None = None,
        position: int | None = None,
        pair: str | DocumentText | None = None,
        question: str | None = None,
        context: str | DocumentText | None = None,
        truncate: bool = False,
        check_all: bool = False,
        check_readings: int | None = None,
        threshold: float | None = None,
        artefacts: bool | None = None,
        progress: Progress | None = None,
        on_explained: Callable[[Report], None] | None = None,
        **options: Any,
    ) -> Report:
        """Explain one document and return everything a page shows: `Report`.

        The arguments are those of `explain` with `methods`; the default methods are `default_methods`.

        inside: add relations between tokens, head maps and head importance, from the pass that the methods share. There
        are none for a document that is read in windows, or for a model whose layers are not known.
        check: check the explanation of the first method, for its verdict; with `check_all`, those of all methods.
        on_explained: called with the report before the check, which takes most of the time.

        Examples
        --------
        >>> import sightline as sl
        >>> model = sl.load()
        >>> report = model.report("We trained a neural network.", methods=["attcat", "rollout"], check=False)
        >>> list(report.explanations)
        ['attcat', 'rollout']
        >>> report.to_html("page.html")  # doctest: +SKIP
        """
        chosen = choose_methods(self.network, None, self.default_methods if methods is None else methods, options)
        document, pair = self._reader.order_question(document, pair, question, context)
        request = Request(target, quantity, position)
        if isinstance(document, Trace):
            check_trace(document, self.network, request, pair, truncate)
            trace = document
        elif documents_of(document) is not None:
            raise InputError(f"A report is about one text, encoding or trace, not {type(document).__name__}.")
        else:
            encoding = self._reader.read(document, ReadPolicy(pair=pair, truncate=truncate))
            (trace,) = self._explainer.trace([encoding], request)

        def explain() -> dict[str, Any]:
            return self._explainer.explain_traces([trace], request, chosen, progress)[0]

        seen = trace if inside else None
        checking = CheckSettings(
            check=check,
            check_all=check_all,
            check_readings=check_readings,
            threshold=threshold,
            artefacts=artefacts,
        )
        add_checks = self._add_checks(checking, progress, seen)
        return build_report(trace, explain, add_checks, inside=inside, progress=progress, on_explained=on_explained)

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
        encoding = self._reader.read(document, ReadPolicy(pair=pair, truncate=not isinstance(document, Encoding)))
        return inspect_document(self, encoding, settings, target=target, progress=progress)

    def _checker(self, settings: CheckSettings) -> Checker:
        if settings.threshold is not None and (len(self.labels) > 1 or self.network.task.facts.multi_label):
            raise OptionError("threshold= is for models with one output; this one chooses among labels: leave it out.")
        return Checker(self.network, self._explainer.repeat, self._explainer.received, settings)

    def _add_checks(
        self,
        settings: CheckSettings,
        progress: Progress | None,
        seen: Trace | None = None,
    ) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
        """Return a function that checks the explanations of a document, or None if no check is wanted.

        seen: a trace of the document whose attention is known already, and is not computed again.
        """
        if not settings.check:
            return None
        checker = self._checker(settings)
        if seen is not None:
            checker = replace(checker, received=lambda _explanation: seen.received)
        return partial(checker.check_all, every=settings.check_all, progress=progress)
