"""InputEncoder: turns what users give (a text, a chat, token ids, a prompt with its continuation) into encodings.

`text/` knows tokenizers and offsets; this module adds what one model reads: its limit, its windows, its vocabulary.

Greedy generation gives the tokens that a language model itself would write behind a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from sightline.errors import InputError, ModelError, OptionError, UnsupportedError
from sightline.models import Network
from sightline.models.origin import check_vocabulary
from sightline.models.tasks import CausalLanguageModel
from sightline.models.torch_context import own_torch_context
from sightline.settings.arguments import check_count
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
from sightline.text.documents import DocumentText, plain_text_of
from sightline.text.word_tokens import encode_words


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
    with network.exclusive(), own_torch_context(), torch.no_grad():
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


@dataclass(frozen=True)
class InputEncoder:
    """Encodes what users give for one model."""

    network: Network
    tokenizer: Any

    @property
    def max_tokens(self) -> int:
        """Length in tokens of the longest document that the model reads: what positions and tokenizer allow."""
        limit = getattr(self.tokenizer, "model_max_length", None)
        # A limit of less than one token, from a damaged file, says nothing.
        return int(min(self.network.max_tokens, limit)) if limit and limit >= 1 else self.network.max_tokens

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
        """Return the encoding of a text, a chat or ids (see `Model.encode`)."""
        text, pair = plain_text_of(text), plain_text_of(pair)
        cut = partial(self._read_in_windows, overlap=overlap, aggregation=aggregation, max_windows=max_windows)
        positions = None if global_tokens is None else self.network.check_global_tokens(global_tokens)
        if (text is None) == (ids is None):
            raise InputError("Give either a text or ids=, exactly one of them.")
        if self.network.answers_only:
            return self._encode_words(text, pair)
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
                f"The model '{self.network.name}' has no tokenizer, so it cannot read text. "
                "Put its tokenizer.json into the model folder; in Python, tokenizer= gives one to load(), and "
                "encode(ids=[...]) takes token ids."
            )
        assert text is not None
        check_chat(text)
        if is_chat(text):
            return self._encode_chat(text, pair)
        problem = self.network.task.problem_with_pair(pair)
        if problem is not None:
            raise InputError(problem)
        encode = partial(encode_text, self.tokenizer, cast(str, text), pair, global_tokens=positions)
        whole = truncate or not self.network.reads_windows
        encoding = encode(max_tokens=self.max_tokens if whole else None)
        if len(encoding) > self.max_tokens:
            encoding = cut(encoding) or encode(max_tokens=self.max_tokens)
        check_known(encoding, self.tokenizer.unk_token_id)
        return encoding

    @staticmethod
    def _encode_words(text: str | Chat | None, pair: str | None) -> Encoding:
        """Return what a function reads."""
        if not isinstance(text, str):
            raise InputError("A function reads texts: give a text, neither token ids nor a chat.")
        return encode_words(text, pair)

    def encode_document(
        self, document: object, pair: str | DocumentText | None = None, truncate: bool = False
    ) -> Encoding:
        """Return an encoding as it is, and the encoding of a text: in windows where it is long, unless `truncate`."""
        if isinstance(document, Encoding):
            if pair is not None:
                raise OptionError("pair= goes with a text; an encoding already holds its pair.")
            if truncate:
                raise OptionError(
                    "truncate= goes with a text; how an encoding is read was decided by encode(text, truncate=...)."
                )
            check_vocabulary(document, self.network)
            return document
        if isinstance(document, tuple) and len(document) == 2 and pair is None:
            document, pair = document
        document = plain_text_of(document)
        if not isinstance(document, str):
            raise InputError(f"Each document is a text or an encoding, not {type(document).__name__}.")
        return self.encode(document, pair, truncate=truncate)

    def encode_continuation(
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
        if not isinstance(prompt, str | Encoding):
            raise InputError(f"A prompt is one text, one chat or one encoding, not {type(prompt).__name__}.")
        start = self.encode_document(prompt)
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
                special_ids=self.network.special_names,
                vocab_size=int(self.network.config.vocab_size),
            )
        if len(whole) > self.max_tokens + 1:  # the last token is predicted and not read
            raise InputError(
                f"Prompt and continuation have {len(whole)} tokens together, the model reads {self.max_tokens} at "
                "most: shorten one of them."
            )
        return whole, start

    def _encode_chat(self, messages: Chat, pair: str | None) -> Encoding:
        if pair is not None:
            raise InputError("pair= goes with a text, not with a chat.")
        encoding = encode_chat(self.tokenizer, messages)
        if len(encoding) > self.max_tokens:
            raise InputError(f"The chat has {len(encoding)} tokens, the model reads {self.max_tokens} at most.")
        return encoding

    def _read_in_windows(self, encoding: Encoding, **options: Any) -> Encoding | None:
        """Return a long document with its windows, or None if it can only be truncated."""
        return read_in_windows(encoding, self.max_tokens, **options) if self.network.reads_windows else None
