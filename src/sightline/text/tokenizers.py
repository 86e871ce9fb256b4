"""Tokenizers of the transformers library: loading one, and refusing one that does not fit the model.

The library builds a tokenizer from almost anything: from a folder with nothing but a model configuration it makes one
that knows five special tokens and calls every word unknown. Such a tokenizer explains nothing, so it is noticed here.
What its native code writes to standard error meanwhile is held back.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from sightline.errors import ModelError, SightlineError
from sightline.files.foreign import first_line
from sightline.files.hub import TOKENIZER_FILES, fetch_snapshot
from sightline.text.encoding import Encoding
from sightline.text.tokenizer_files import has_vocabulary, lay_out, read_chat_template
from sightline.text.tokenizer_limits import check_backend

_one_at_a_time = threading.RLock()


@contextmanager
def hold_back_stderr() -> Iterator[None]:
    """Buffer what is written to file descriptor 2 inside this block; forward it only if the block succeeds.

    A Rust panic prints its message and, if the user asked for it, a backtrace before Python sees an exception; the
    exception becomes a sentence, and the message is not needed. Where there is no standard error (a
    service without a terminal), nothing is done.
    """
    with _one_at_a_time:
        try:
            sys.stderr.flush()
            saved = os.dup(2)
        except (OSError, ValueError, AttributeError):
            yield
            return
        with tempfile.TemporaryFile() as held:
            os.dup2(held.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(saved, 2)
                os.close(saved)
            held.seek(0)
            while chunk := held.read(65536):
                os.write(2, chunk)


_UNKNOWN_SHARE = 0.5
_ENOUGH_TOKENS = 8
"""With fewer tokens than this, many unknown ones say something about the text and not about the tokenizer."""
_FINGERPRINTS: WeakKeyDictionary[Any, tuple[int, str]] = WeakKeyDictionary()
"""Number of tokens and digest of each vocabulary: computing the digest takes about 0.1 s."""
_PROBE = "A probe of 3 words, é 日本\n[CLS]<s> 😀"


def load_tokenizer(folder_or_id: str | Path, *, local_only: bool) -> Any | None:
    """Return the fast tokenizer of a model folder or hub id, or None if there is none.

    A folder is read without the network in any case, a hub id only from the local cache if `local_only`. Code that
    comes with a tokenizer is never run, and a tokenizer that fails on a short text is refused here.
    """
    folder = Path(folder_or_id)
    if not folder.is_dir():
        if folder.is_absolute() or isinstance(folder_or_id, Path) or folder.parts[:1] in ((".",), ("..",), ("~",)):
            raise ModelError(f"There is no tokenizer folder '{folder}'.")
        try:
            folder = fetch_snapshot(str(folder_or_id), local_only=local_only, files=(*TOKENIZER_FILES, "config.json"))
        except ModelError as error:
            reason = str(error).partition(": ")[2]
            raise ModelError(f"The tokenizer of '{folder_or_id}' cannot be loaded: {reason}") from error
    if not has_vocabulary(folder):
        return None
    with tempfile.TemporaryDirectory(prefix="sightline-") as temporary:
        lay_out(folder, Path(temporary))
        with tokenizer_errors(f"The tokenizer in {folder} cannot be loaded"), hold_back_stderr():
            tokenizer = _load(temporary)
            require_fast(tokenizer)
            check_backend(tokenizer.backend_tokenizer)
            tokenizer(_PROBE, truncation=False, padding=False, verbose=False)
            ordinary = _ordinary_tokens(tokenizer)
    tokenizer.name_or_path = str(folder_or_id)
    tokenizer.chat_template = read_chat_template(folder)
    return tokenizer if ordinary else None


@contextmanager
def tokenizer_errors(what: str) -> Iterator[None]:
    """Turn whatever a foreign tokenizer raises into a `ModelError` that starts with `what`.

    The tokenizers library is written in Rust; where it panics, a `PanicException` arrives that is no `Exception`.
    """
    try:
        yield
    except (SightlineError, MemoryError):
        raise
    except Exception as error:  # the library raises nearly every type here, for files it cannot read
        raise ModelError(f"{what}: {first_line(error)}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"{what}: its tokenizer.json is faulty ({first_line(error).rstrip('.')}).") from None


def _load(folder: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def require_fast(tokenizer: Any) -> None:
    """Refuse a tokenizer that cannot return the character offsets of its tokens."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"{type(tokenizer).__name__} is not a fast tokenizer and gives no character offsets: "
            "use one with a tokenizer.json (PreTrainedTokenizerFast)."
        )


def special_tokens(tokenizer: Any) -> dict[int, str]:
    """Return {id: name} of the tokens that mark a sequence: CLS, SEP, BOS, EOS and PAD.

    Mask and unknown tokens stand for text and are not special. A tokenizer whose pad token *is* its unknown or mask
    token has no special pad: documents are never padded here, and their unknown words are words.
    """
    marks = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}
    if tokenizer.pad_token_id not in (tokenizer.unk_token_id, tokenizer.mask_token_id):
        marks.add(tokenizer.pad_token_id)
    return {token_id: tokenizer.convert_ids_to_tokens(token_id) for token_id in sorted(marks - {None})}


def fingerprint_vocabulary(tokenizer: Any) -> str:
    """Return a digest of a vocabulary: equal where the same tokens have the same ids."""
    size, digest = _FINGERPRINTS.get(tokenizer, (-1, ""))
    if size != len(tokenizer):  # tokens may be added later
        listed = json.dumps(sorted(tokenizer.get_vocab().items()))
        digest = hashlib.blake2b(listed.encode(), digest_size=16).hexdigest()
        _FINGERPRINTS[tokenizer] = len(tokenizer), digest
    return digest


def check_fit(tokenizer: Any, vocab_size: int) -> None:
    """Refuse a tokenizer with ids that the model has no embedding for, or with hardly any vocabulary.

    `vocab_size` is the number of rows of the model's embedding matrix. Fewer tokens than rows are usual (padding of the
    matrix); whether most of a text is unknown can only be seen on a text: `check_known`.
    """
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest >= vocab_size:
        raise ModelError(
            f"The tokenizer does not fit the model: its ids go up to {largest:,}, the model knows {vocab_size:,} "
            f"tokens (0-{vocab_size - 1:,}). Give the tokenizer the model was trained with."
        )
    if not _ordinary_tokens(tokenizer):
        raise ModelError(
            f"The tokenizer does not fit the model: it knows only its {len(tokenizer)} special tokens, the model "
            f"{vocab_size:,}. Its vocabulary file is missing or was not read."
        )


def check_known(encoding: Encoding, unknown_id: int | None) -> None:
    """Refuse a document of mostly unknown tokens; `unknown_id` is None if the tokenizer has no unknown token."""
    if unknown_id is None:
        return
    ids = encoding.ids[encoding.without_specials()]
    unknown = int((ids == unknown_id).sum())
    if len(ids) >= _ENOUGH_TOKENS and unknown > _UNKNOWN_SHARE * len(ids):
        raise ModelError(
            f"{unknown:,} of {len(ids):,} tokens are unknown to the tokenizer: it does not fit the model, "
            "or the model was not made for this language."
        )


def _ordinary_tokens(tokenizer: Any) -> int:
    """Count the tokens that are not special in any sense of the library."""
    return len(set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens))
