"""LoadedModel: the facts of a loaded model, how it reads documents and what it predicts. `Model` adds explanations.

`models/` holds the network itself; this façade stands to the right of the methods, which it lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self, overload

import torch

from sightline.api.explaining import Explainer, provenance_of
from sightline.errors import InputError, OptionError
from sightline.methods.applicability import default_methods, methods_not_offered
from sightline.models import Network, Prediction, TargetLike
from sightline.models.loading import move_network
from sightline.models.sentence_models import compare_with
from sightline.models.target import Request
from sightline.passes.reading import WHOLE, Reader, ReadPolicy, documents_of
from sightline.passes.trace import Trace
from sightline.text import Aggregation, Chat, Encoding
from sightline.text.documents import DocumentText, plain_text_of

Document = str | Encoding
Readable = Document | DocumentText
Listed = Sequence[Readable | tuple[str, str] | Chat]
"""A list of documents: texts, encodings, pairs (text, second text) and chats."""
PREDICTED_AT_ONCE = 512
"""Documents of a long list whose encodings are held at once."""


def refuse_batch_size(batch_size: int | None) -> None:
    """Raise OptionError if a batch size is given for a single document."""
    if batch_size is not None:
        raise OptionError("batch_size= goes with a list of documents: a single one has a pass of its own.")


class LoadedModel:
    """A network with what reads for it."""

    def __init__(self, network: Network, tokenizer: Any = None) -> None:
        self.network = network
        network.tokenizer = tokenizer

    def __repr__(self) -> str:
        facts = f"{self.network.config.model_type}, {self.task}, labels={list(self.labels[:5])}"
        return f"{type(self).__name__}({self.name!r}, {facts}, max_tokens={self.max_tokens})"

    @property
    def name(self) -> str:
        """Folder name or hub id."""
        return self.network.name

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of transformers that reads texts for the model; None if it has no tokenizer."""
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
        return self._reader.max_tokens

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.network.device

    def to(self, device: str | torch.device) -> Self:
        """Move the model to another device, for example "cuda:0", and return it; a model object that was given stays.

        Traces made before belong to the old device.
        """
        move_network(self.network, device)
        return self

    def similar_to(self, text: str | DocumentText) -> Self:
        """Return a model that explains how similar documents are to another text; it shares the weights of this one.

        The similarity is symmetric, so the words of either side are explained: those of `b` by
        `model.similar_to(a).explain(b)`, those of `a` by `model.similar_to(b).explain(a)`.
        """
        return type(self)(compare_with(self.network, plain_text_of(text)), self.tokenizer)

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

        Examples
        --------
        >>> import sightline as sl
        >>> sl.load().encode("a neural network").tokens
        ('[CLS]', 'a', 'neural', 'network', '[SEP]')
        """
        if (text is None) == (ids is None):
            raise InputError("Give either a text or ids=, exactly one of them.")
        policy = ReadPolicy(
            pair=pair,
            global_tokens=global_tokens,
            truncate=truncate,
            aggregation=aggregation,
            overlap=overlap,
            max_windows=max_windows,
        )
        return self._reader.read_ids(ids, policy) if ids is not None else self._reader.read(text, policy)

    def read(self, document: Readable | Chat | tuple[str, str], policy: ReadPolicy = WHOLE) -> Encoding:
        """Return what the model reads of a document of any kind; an encoding of this model unchanged.

        policy: the arguments of `encode` as one object, for many documents that are read alike.
        """
        return self._reader.read(document, policy)

    @overload
    def trace(  # type: ignore[overload-overlap]  # a str is a sequence of str, too
        self,
        document: Readable | Chat,
        target: TargetLike = None,
        *,
        quantity: str | None = None,
        position: int | None = None,
    ) -> Trace: ...

    @overload
    def trace(
        self, document: Listed, target: TargetLike = None, *, quantity: str | None = None, position: int | None = None
    ) -> list[Trace]: ...

    def trace(
        self,
        document: Readable | Chat | Listed,
        target: TargetLike = None,
        *,
        quantity: str | None = None,
        position: int | None = None,
    ) -> Trace | list[Trace]:
        """Return the trace of one pass over a document; nothing runs until something of it is needed.

        A list of documents runs as one padded batch and gives a list of unpadded traces.

        Examples
        --------
        >>> import sightline as sl
        >>> trace = sl.load().trace("a neural network")
        >>> trace.prediction.label
        'artificial intelligence'
        >>> len(trace.attentions) == trace.layer_count
        True
        """
        documents = documents_of(document)
        encodings = [self._reader.read(one) for one in ([document] if documents is None else documents)]
        traces = self._explainer.trace(encodings, Request(target, quantity, position))
        return traces[0] if documents is None else traces

    @overload
    def predict(  # type: ignore[overload-overlap]  # a str is a sequence of str, too
        self,
        document: Readable | Chat | None = None,
        *,
        position: int | None = None,
        question: str | None = None,
        context: str | DocumentText | None = None,
    ) -> Prediction: ...

    @overload
    def predict(
        self, document: Listed, *, position: int | None = None, batch_size: int | None = None
    ) -> list[Prediction]: ...

    def predict(
        self,
        document: Readable | Chat | Listed | None = None,
        *,
        position: int | None = None,
        question: str | None = None,
        context: str | DocumentText | None = None,
        batch_size: int | None = None,
    ) -> Prediction | list[Prediction]:
        """Return what the model predicts for a document, without explaining it; for a list of documents, a list.

        A list runs in batches of similar length; its entries may be pairs (text, second text) or chats.

        position: the token, for models that score single tokens.
        question, context: in place of a document, for a model that answers questions.
        batch_size: the most documents of a batch; by default as many as have 4,096 tokens together.
        """
        document, pair = self._reader.order_question(document, None, question, context)
        documents = documents_of(document)
        if documents is None:
            refuse_batch_size(batch_size)
            encoding = self._reader.read(document, ReadPolicy(pair=pair))
            return self._explainer.predict([encoding], position)[0]
        predictions: list[Prediction] = []
        for start in range(0, len(documents), PREDICTED_AT_ONCE):
            encodings = [self._reader.read(one) for one in documents[start : start + PREDICTED_AT_ONCE]]
            predictions += self._explainer.predict(encodings, position, batch_size)
        return predictions

    def provenance(self) -> dict[str, str]:
        """Return what produces a result: model, hash of its weights, versions.

        `rounding_error`, present for models converted to a half type, is the relative error of their logits;
        `similar_to`, present for similarity models, is the text that documents are compared with.
        """
        return provenance_of(self.network)

    @property
    def _reader(self) -> Reader:
        return Reader(self.network)

    @property
    def _explainer(self) -> Explainer:
        return Explainer(self.network)
