"""Reader: turns what users give (a text, a pair, a chat, token ids, a prompt with its continuation) into encodings.

`text/` knows tokenizers and offsets; here is decided what one model reads of a document: windows, truncation, pairs,
chats. Greedy generation gives the tokens that a language model itself would write behind a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args
from warnings import warn

import numpy as np
import torch

from sightline.errors import InputError, ModelError, OptionError, UnsupportedError
from sightline.models import Network
from sightline.models.answers import QuestionAnswering
from sightline.models.inputs import check_global_tokens, check_left_padding, check_vocabulary, special_names
from sightline.models.tasks import CausalLanguageModel
from sightline.models.torch_context import own_torch_context
from sightline.settings.values import check_count, check_one_of, refuse_unused
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
from sightline.text.documents import DocumentText, names_document, plain_text_of
from sightline.text.encode import encode_words


def generate_greedily(network: Network, prompt: Encoding, max_new_tokens: int) -> list[int]:
    """Return the ids of the likeliest next tokens, one after the other, until the text ends or the limit is reached.

    The token that ends the text is part of the result. Settings of the model folder for sampling, penalties or
    forbidden words do not apply. Cost: one forward over the prompt, then one step per token on cached keys and values.
    """
    check_count("max_new_tokens", max_new_tokens)
    module = network.module
    if not hasattr(module, "generate"):
        raise UnsupportedError("This model cannot generate text: give the text to explain with continuation=.")
    room = network.max_tokens - len(prompt)
    if room < 1:
        raise InputError(
            f"The prompt has {len(prompt)} tokens and the model reads {network.max_tokens} at most: there is no room "
            "to generate."
        )
    ids = torch.tensor(prompt.ids)[None].to(network.device)
    with network.alone(), own_torch_context(), torch.no_grad():
        output = module.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=min(max_new_tokens, room),
            do_sample=False,
            num_beams=1,
            pad_token_id=network.token_ids.get("pad", 0),
        )
    network.forward_passes += 1
    return [int(token) for token in output[0, len(prompt) :]]


@dataclass(frozen=True, kw_only=True)
class ReadPolicy:
    """How a document is read; `Model.encode` describes the fields."""

    pair: str | DocumentText | None = None
    global_tokens: Iterable[int] | None = None
    truncate: bool = False
    aggregation: Aggregation = "mean"
    overlap: int | None = None
    max_windows: int | None = None

    def __post_init__(self) -> None:
        check_one_of("aggregation", self.aggregation, get_args(Aggregation))
        if self.truncate:
            of_windows = {
                "aggregation": self.aggregation != "mean",
                "overlap": self.overlap,
                "max_windows": self.max_windows,
            }
            refuse_unused(of_windows, "is about windows, which truncate=True leaves out: give one of them.")


WHOLE = ReadPolicy()
"""A text alone, in windows if it is longer than the model reads at once."""


def documents_of(document: object) -> Sequence[Any] | None:
    """Return the documents of a list, or None for a single one; raise InputError for what is neither."""
    if is_chat(document) or isinstance(document, str | Encoding | DocumentText):
        return None
    if isinstance(document, Mapping) or hasattr(document, "columns") or hasattr(document, "column_names"):
        # Iterating over a table gives the names of its columns, which would be explained silently.
        raise InputError("A table is not a document. Give the column with the texts, for example list(data['text']).")
    if isinstance(document, Path):
        raise InputError(f"A path is not a document. To read the file, give sl.read_document('{document}').")
    if not isinstance(document, Iterable) or isinstance(document, bytes):
        raise InputError(f"A document is a text, an encoding or a trace, not {type(document).__name__}.")
    return list(document)


@dataclass(frozen=True)
class Reader:
    """Reads what users give for one model."""

    network: Network

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the model; None if it has none."""
        return self.network.tokenizer

    @property
    def max_tokens(self) -> int:
        """Length in tokens of the longest document that the model reads: what positions and tokenizer allow."""
        limit = getattr(self.tokenizer, "model_max_length", None)
        # A limit of less than one token, from a damaged file, says nothing.
        return int(min(self.network.max_tokens, limit)) if limit and limit >= 1 else self.network.max_tokens

    def read(self, document: Any, policy: ReadPolicy = WHOLE) -> Encoding:
        """Return the encoding of a text, a pair (text, second text) or a chat; an encoding unchanged."""
        if isinstance(document, Encoding):
            return self._check_encoding(document, policy)
        pair = plain_text_of(policy.pair)
        if isinstance(document, tuple) and len(document) == 2 and pair is None:
            document, pair = document[0], plain_text_of(document[1])
        document = plain_text_of(document)
        if isinstance(document, str) and names_document(document):
            warn(
                f"'{document}' is the name of a file, and only the name is read. To read the file, give "
                f"sl.read_document('{document}').",
                stacklevel=4,
            )
        positions = None if policy.global_tokens is None else check_global_tokens(self.network, policy.global_tokens)
        if self.network.answers_only:
            if not isinstance(document, str):
                raise InputError("A function reads texts: give a text, neither token ids nor a chat.")
            return encode_words(document, pair)
        if self.tokenizer is None:
            raise ModelError(
                f"The model '{self.network.name}' has no tokenizer, so it cannot read text. "
                "Put its tokenizer.json into the model folder; in Python, tokenizer= gives one to load(), and "
                "encode(ids=[...]) takes token ids."
            )
        check_chat(document)
        if is_chat(document):
            return self._read_chat(document, pair)
        if not isinstance(document, str):
            raise InputError(f"Each document is a text or an encoding, not {type(document).__name__}.")
        problem = self.network.task.problem_with_pair(pair)
        if problem is not None:
            raise InputError(problem)
        encode = partial(encode_text, self.tokenizer, document, pair, global_tokens=positions)
        cut_off = policy.truncate or not self.network.reads_windows
        encoding = encode(max_tokens=self.max_tokens if cut_off else None)
        encoding = self._fit(encoding, policy) or encode(max_tokens=self.max_tokens)
        check_known(encoding, self.tokenizer.unk_token_id)
        return encoding

    def read_ids(self, ids: Sequence[int], policy: ReadPolicy = WHOLE) -> Encoding:
        """Return the encoding of token ids, for a model without tokenizer; too many are never cut off."""
        if self.network.answers_only:
            raise InputError("A function reads texts: give a text, neither token ids nor a chat.")
        if policy.pair is not None:
            raise InputError("pair= goes with a text; ids already hold both texts and the marks between them.")
        positions = None if policy.global_tokens is None else check_global_tokens(self.network, policy.global_tokens)
        encoding = encode_ids(
            ids,
            special_ids=special_names(self.network),
            vocab_size=int(self.network.config.vocab_size),
            tokenizer=self.tokenizer,
            global_tokens=positions,
        )
        check_left_padding(self.network, encoding)
        fitting = self._fit(encoding, policy)
        if fitting is None:
            raise InputError(f"{len(encoding)} ids were given, the model reads {self.max_tokens} at most.")
        return fitting

    def _fit(self, encoding: Encoding, policy: ReadPolicy) -> Encoding | None:
        """Return an encoding as the model reads it, at once or in windows; None if it has to be cut off."""
        if len(encoding) <= self.max_tokens:
            return encoding
        if policy.truncate or not self.network.reads_windows:
            return None
        return read_in_windows(
            encoding,
            self.max_tokens,
            overlap=policy.overlap,
            aggregation=policy.aggregation,
            max_windows=policy.max_windows,
        )

    def _check_encoding(self, encoding: Encoding, policy: ReadPolicy) -> Encoding:
        if policy.pair is not None:
            raise OptionError("pair= goes with a text; an encoding already holds its pair.")
        if policy.truncate:
            raise OptionError(
                "truncate= goes with a text; how an encoding is read was decided by encode(text, truncate=...)."
            )
        check_vocabulary(encoding, self.network)
        return encoding

    def _read_chat(self, messages: Chat, pair: str | None) -> Encoding:
        if pair is not None:
            raise InputError("pair= goes with a text, not with a chat.")
        encoding = encode_chat(self.tokenizer, messages)
        if len(encoding) > self.max_tokens:
            raise InputError(f"The chat has {len(encoding)} tokens, the model reads {self.max_tokens} at most.")
        return encoding

    def order_question(
        self, document: Any, pair: str | DocumentText | None, question: str | None, context: str | DocumentText | None
    ) -> tuple[Any, str | DocumentText | None]:
        """Return the document and its pair; a question and its context are those of a model that answers questions."""
        if question is None and context is None:
            return document, pair
        if not isinstance(self.network.task, QuestionAnswering):
            raise OptionError(
                "question= and context= are for models that answer questions; this is a model for "
                f"{self.network.task.name}."
            )
        if document is not None or pair is not None or question is None or context is None:
            raise OptionError("Give question= and context= together, in place of a document and its pair.")
        return question, context

    def read_continuation(
        self, prompt: object, continuation: str | DocumentText | Sequence[int] | None, max_new_tokens: int | None
    ) -> tuple[Encoding, Encoding]:
        """Return prompt and continuation as one encoding, and the prompt alone."""
        prompt, continuation = plain_text_of(prompt), plain_text_of(continuation)
        if not isinstance(self.network.task, CausalLanguageModel):
            raise UnsupportedError(
                f"Only a causal language model continues a text; this is a model for {self.network.task.name}."
            )
        if continuation is not None and max_new_tokens is not None:
            raise OptionError("Give either continuation= or max_new_tokens=, not both.")
        if isinstance(continuation, bytes) or not isinstance(continuation, Sequence | np.ndarray | None):
            raise InputError(
                f"The continuation must be a text or a list of token ids, not {type(continuation).__name__}."
            )
        check_chat(prompt)
        if not isinstance(prompt, str | Encoding) and not is_chat(prompt):
            raise InputError(f"A prompt is one text, one chat or one encoding, not {type(prompt).__name__}.")
        start = self.read(prompt)
        if start.dropped:
            raise InputError(
                f"The prompt has {len(start) + start.dropped} tokens and the model reads {self.max_tokens} at most: "
                "shorten it."
            )
        if isinstance(continuation, str):
            if self.tokenizer is None:
                raise ModelError(
                    f"The model '{self.network.name}' has no tokenizer: give the continuation as a list of ids."
                )
            whole = continue_text(self.tokenizer, start, continuation)
        else:
            ids = continuation if max_new_tokens is None else generate_greedily(self.network, start, max_new_tokens)
            assert ids is not None
            whole = continue_ids(
                start,
                ids,
                tokenizer=self.tokenizer,
                special_ids=special_names(self.network),
                vocab_size=int(self.network.config.vocab_size),
            )
        if len(whole) > self.max_tokens + 1:  # the last token is predicted and not read
            raise InputError(
                f"Prompt and continuation have {len(whole)} tokens together, the model reads {self.max_tokens} at "
                "most: shorten one of them."
            )
        return whole, start
