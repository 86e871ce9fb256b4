"""Network: a loaded model that can be run on encodings and observed while it runs.

It knows about padding, devices, position ids and hooks, so that nothing to its right has to. Shapes: B documents,
N tokens of the longest, d width of the model.
"""

from __future__ import annotations

import copy
import inspect
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sightline.errors import InputError, ModelError, OptionError, SizeError, UnsupportedError
from sightline.models import hooks
from sightline.models.adapters import follow_adapters
from sightline.models.batching import BATCH_TOKENS, batches_by_length, graph_tokens
from sightline.models.block_sparse import documents_of
from sightline.models.families import Family, family_of, unseen_family
from sightline.models.hooks import EmbeddingTable, Place, Step
from sightline.models.longformer.encoder import BandedEncoder, one_row_mask
from sightline.models.origin import check_vocabulary
from sightline.models.recording import Recorder, recording
from sightline.models.sentence_models import PooledClassifier
from sightline.models.shared_weights import hash_weights, share_weights, weights_state
from sightline.models.side_by_side import Send, run_side_by_side
from sightline.models.task import Task
from sightline.models.torch_context import own_torch_context
from sightline.models.user_modules import ModuleClassifier
from sightline.models.windowed import run_windows
from sightline.progress import StepProgress
from sightline.text import Encoding

WORTHWHILE_PRODUCTS = 2.5e9
"""Multiplications (tokens × weights of the layers) above which a batch on a CPU gains nothing from more documents: the
matrix products are as fast as they get, and starting a pass costs a few percent."""
UNBOUNDED_TOKENS = 512
"""Longest document of a model without a table of positions (T5, XLNet): the length such models were trained with."""
MAX_RESERVED = 4
"""Rows of a position table that models which count from behind the pad token leave unused, at most."""
MIN_BATCHES_PER_WORKER = 2
"""With fewer batches, a second copy of the modules does not pay off."""


class _Reached(Exception):  # noqa: N818 (a signal, not an error)
    """Ends a forward pass that has reached the requested place."""


class Network:
    """A transformers model in evaluation mode, its family's facts and its task."""

    answers_only = False
    """Whether nothing but the answers to texts is known (`functions.FunctionNetwork`)."""

    def __init__(
        self,
        module: Any,
        family: Family,
        task: Task,
        *,
        name: str,
        token_ids: Mapping[str, int] | None = None,
        untrained: bool = False,
        limit: int | None = None,
        truncates: bool = False,
    ) -> None:
        self.module = module.eval().requires_grad_(False)
        """A module of our own: a user's is copied around its weights first (`shared_weights`)."""
        self.family = family
        self.task = task
        self.name = name
        self.token_ids = dict(token_ids or {})
        """Ids of the tokens "pad", "mask" and "unk", as far as the vocabulary has them."""
        self.untrained = untrained
        self.limit = limit
        """Longest document in tokens, where it is shorter than the position embeddings allow."""
        self.truncates = truncates
        """Whether longer texts are cut off instead of read in windows, as in the pipeline that the model comes from."""
        self.tokenizer: Any = None
        """What reads texts for this model; None if it has no tokenizer."""
        self.rounding_error: float | None = None
        """Relative error of the logits that the conversion to a half type has brought; None without one."""
        self.reference_text: str | None = None
        """The text that documents are compared with; None unless the model measures similarity."""
        self.forward_passes = 0
        self.backward_passes = 0
        self._hashed: tuple[int, str] | None = None
        """The hash of the weights, with their state when it was computed."""
        # Hooks belong to the module: two threads that run it at once would record each other's tensors.
        self._lock = threading.RLock()
        accepted = getattr(module, "accepted_inputs", None)
        self._accepted = frozenset(accepted or inspect.signature(module.forward).parameters)
        # Causal models cache keys and values for generation, which is never used here.
        self._settings = {"use_cache": False} if "use_cache" in self._accepted else {}

    @property
    def reads_windows(self) -> bool:
        """Whether a document longer than the limit is read in windows."""
        return self.task.reads_windows and not self.truncates

    @property
    def config(self) -> Any:
        """The transformers config."""
        return self.module.config

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = self.module.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        dtype: torch.dtype = self.module.dtype
        return dtype

    @cached_property
    def layers(self) -> list[nn.Module]:
        """The encoder layers in the order they run."""
        return self.family.layers(self.module.base_model, self.config)

    @property
    def heads(self) -> int:
        """Number of attention heads per layer; 0 if they are not seen."""
        return int(self.config.num_attention_heads) if self.sees_inside else 0

    @property
    def max_tokens(self) -> int:
        """Length of the longest document that the position embeddings cover, or that the model is limited to."""
        return self._positions if self.limit is None else min(self._positions, self.limit)

    @property
    def _positions(self) -> int:
        positions = getattr(self.config, "max_position_embeddings", None)
        if not isinstance(positions, int) or positions < 1:  # positions are relative
            return UNBOUNDED_TOKENS
        first = self._first_position
        # Where an unseen model counts from is unknown: from behind the pad token, to be on the safe side.
        counts_later = self.family.positions_after_padding or (not self.sees_inside and first <= MAX_RESERVED)
        return positions - first if counts_later else positions

    @property
    def sees_inside(self) -> bool:
        """Whether layers and attention are known, and not only embeddings and logits."""
        return self.family.attention_layout != "unseen"

    @property
    def pads(self) -> bool:
        """Whether documents of unequal length may share a batch."""
        return self.sees_inside and not isinstance(self.module, ModuleClassifier)

    @property
    def banded(self) -> bool:
        """Whether attention is a window plus global tokens (Longformer)."""
        return self.family.attention_layout == "band"

    @cached_property
    def has_custom_head(self) -> bool:
        """Whether the classifier is not one of the library's, so that the rows it reads have to be measured."""
        from_library = type(self.module).__module__.startswith(("transformers.", "sightline."))
        known = from_library and not isinstance(self.module, PooledClassifier | ModuleClassifier)
        return self.task.name == "sequence_classification" and self.sees_inside and not known

    @property
    def weights_state(self) -> int:
        """A number that changes when the weights do."""
        follow_adapters(self.module)
        return weights_state(self.module)

    @property
    def weights_hash(self) -> str:
        """A hash of all weights as they are now: equal weights have equal hashes."""
        state = self.weights_state
        if self._hashed is None or self._hashed[0] != state:
            self._hashed = state, hash_weights(self.module)
        return self._hashed[1]

    @own_torch_context()
    def twin(self) -> Network:
        """Return a network that shares the weights of this one but has its own hooks.

        Two threads that share one network take turns; with one twin per thread they run side by side.
        """
        with self._lock:  # or the hooks of a running pass would be copied as well
            return self._with_module(share_weights(self.module))

    @own_torch_context()
    def in_double(self) -> Network:
        """Return a copy of this network in double precision; the network itself if it has that or cannot."""
        if self.dtype == torch.float64 or self.device.type == "mps":
            return self
        with self._lock:
            return self._with_module(copy.deepcopy(self.module).double())

    def _with_module(self, module: Any) -> Network:
        """Return a network with everything of this one but the module."""
        twin = Network(
            module,
            self.family,
            self.task,
            name=self.name,
            token_ids=self.token_ids,
            untrained=self.untrained,
            limit=self.limit,
            truncates=self.truncates,
        )
        twin.rounding_error, twin.tokenizer = self.rounding_error, self.tokenizer
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs; a lock cannot be copied, nor the functions of a family, which has a name."""
        with self._lock:
            known = self.family.model_type, self.sees_inside
            return {**vars(self), "_lock": None, "family": known}

    def __setstate__(self, state: dict[str, Any]) -> None:
        model_type, sees_inside = state["family"]
        family = family_of(model_type) if sees_inside else unseen_family(model_type)
        vars(self).update(state, _lock=threading.RLock(), family=family, _hashed=None)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let no other thread run the module inside this block."""
        with self._lock:
            yield

    def count_passes_of(self, twin: Network) -> None:
        """Add the passes that a twin has run to the counters of this network."""
        self.forward_passes += twin.forward_passes
        self.backward_passes += twin.backward_passes

    @cached_property
    def worthwhile_tokens(self) -> int:
        """Tokens per batch above which larger batches gain nothing, see `WORTHWHILE_PRODUCTS`."""
        layers = self.layers or [self.module]
        weights = sum(weight.numel() for layer in layers for weight in layer.parameters())
        return BATCH_TOKENS if self.device.type != "cpu" else min(BATCH_TOKENS, int(WORTHWHILE_PRODUCTS / weights) + 1)

    @property
    def graph_tokens(self) -> int:
        """Tokens of a batch whose graph is kept for a backward, by the memory of this machine."""
        return graph_tokens(self.config, self.device, self.dtype)

    def token_id(self, name: str) -> int:
        """Return the id of the pad, mask or unknown token; raise OptionError if the vocabulary has none."""
        if name not in self.token_ids:
            known = ", ".join(sorted(self.token_ids)) or "none"
            raise OptionError(f"The model's vocabulary has no {name} token that Sightline knows of (known: {known}).")
        return self.token_ids[name]

    @cached_property
    def special_names(self) -> dict[int, str]:
        """Ids and names of the special tokens for encodings made without a tokenizer."""
        size = int(self.config.vocab_size)
        names = {index: name for index, name in self.family.special_ids if index < size}
        for role in ("pad", "bos", "eos", "cls", "sep"):
            index = getattr(self.config, f"{role}_token_id", None)
            if isinstance(index, int) and 0 <= index < size:
                names.setdefault(index, f"[{role.upper()}]")
        return names

    def check_left_padding(self, encoding: Encoding) -> None:
        """Raise InputError if ids for a causal model begin with padding, which its tokens would attend to.

        A single pad token that also begins texts (GPT-2's end of text) is no padding.
        """
        pad = self.config.pad_token_id
        words = np.flatnonzero(encoding.ids != pad)
        if not self.family.causal or pad is None or not len(words) or words[0] == 0:
            return
        if words[0] > 1 or pad != self.config.bos_token_id:
            raise InputError(
                f"The ids begin with {words[0]} pad token{'s' if words[0] > 1 else ''} (padding on the left): leave "
                "padding out, documents of different lengths are padded here."
            )

    def check_global_tokens(self, positions: Iterable[int]) -> tuple[int, ...]:
        """Return requested global positions, sorted and distinct; raise InputError if they are not a list."""
        if not self.banded:
            raise OptionError(
                f"Global tokens exist only in Longformer models; this one is of type '{self.config.model_type}'."
            )
        refusal = InputError(f"Global tokens are a list of positions such as [0, 5], not {positions!r}.")
        try:
            listed = list(positions)
            unique = {operator.index(position) for position in listed}
        except TypeError:
            raise refusal from None
        if any(isinstance(position, bool) for position in listed):
            raise refusal
        return tuple(sorted(unique))

    def global_tokens(self, encoding: Encoding) -> tuple[int, ...]:
        """Return the positions with global attention: those of the encoding, else those the task is trained with."""
        if encoding.global_tokens is not None:
            return encoding.global_tokens
        if self.task.name == "sequence_classification":
            return (0,)
        if self.task.name == "question_answering":
            return self._question(encoding)
        return ()

    def _question(self, encoding: Encoding) -> tuple[int, ...]:
        """Return the positions up to the end of the question."""
        if encoding.pair is not None:
            question = np.flatnonzero(encoding.segments == 0)
            return tuple(range(int(question[-1]) + 1)) if len(question) else (0,)
        # Without a pair, separators mark the end of the question: <s> question </s></s> text </s>.
        separators = np.flatnonzero(encoding.ids == self.config.sep_token_id)
        return tuple(range(int(separators[0]))) if len(separators) == 3 else ()

    def inputs(self, encodings: Sequence[Encoding], hidden: Sequence[Sequence[int]] | None = None) -> dict[str, Tensor]:
        """Return the padded input tensors of the model: ids, mask, positions, token types, global attention.

        `hidden` holds, per document, the token positions that the attention mask excludes; the others keep their
        positions.
        """
        for encoding in encodings:
            check_vocabulary(encoding, self)
            if len(encoding) > self.max_tokens:
                raise InputError(f"The document has {len(encoding)} tokens, the model reads {self.max_tokens} at most.")
        longest = max(len(encoding) for encoding in encodings)
        if not self.pads and any(len(encoding) < longest for encoding in encodings):
            raise RuntimeError("a model that is not known to read its attention mask got documents to pad")
        if hidden is not None and any(hidden) and "attention_mask" not in self._accepted:
            raise UnsupportedError(
                f"A '{self.config.model_type}' model has no attention mask, so tokens cannot be hidden from it; "
                "replace or delete them instead."
            )
        pad = int(self.config.pad_token_id or 0)
        shape = (len(encodings), longest)
        ids = torch.full(shape, pad)
        mask, types, global_mask = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
        # Explicit, so that pad tokens inside a text (baselines, perturbations) do not shift the words after them.
        first = self._first_position if self.family.positions_after_padding else 0
        positions = torch.full(shape, pad if self.family.positions_after_padding else 0)
        for row, encoding in enumerate(encodings):
            n = len(encoding)
            ids[row, :n] = torch.tensor(encoding.ids)
            mask[row, :n] = 1
            if hidden is not None:
                mask[row, list(hidden[row])] = 0
            positions[row, :n] = torch.arange(first, first + n)
            types[row, :n] = torch.tensor(self._check_types(encoding))
            if self.banded:
                global_mask[row, list(self.global_tokens(encoding))] = 1
        tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "token_type_ids": types}
        if self.family.type_table is None:
            del tensors["token_type_ids"]
        if not self.sees_inside:  # it counts by a rule of its own
            del tensors["position_ids"]
        if self.banded:
            tensors["global_attention_mask"] = global_mask
        return {key: tensor.to(self.device) for key, tensor in tensors.items() if key in self._accepted}

    def _check_types(self, encoding: Encoding) -> NDArray[np.int64]:
        """Return the token types of a document, or zeros for a model with one type."""
        known = int(getattr(self.config, "type_vocab_size", 0) or 0)
        if known <= 1:
            return np.zeros_like(encoding.type_ids)
        if len(encoding) and not 0 <= encoding.type_ids.min() <= encoding.type_ids.max() < known:
            raise InputError(
                f"The tokenizer does not fit the model: it gives a token the type {encoding.type_ids.max()}, and the "
                f"model knows {known} types (0-{known - 1})."
            )
        return encoding.type_ids

    @own_torch_context()
    def run(
        self,
        encodings: Sequence[Encoding],
        recorder: Recorder | None = None,
        *,
        gradient: bool = False,
        given: Mapping[Place, Tensor] | None = None,
        hidden: Sequence[Sequence[int]] | None = None,
        within: AbstractContextManager[None] | None = None,
        step: Step | None = None,
    ) -> list[Tensor]:
        """Run one padded batch and return the logits of each document.

        `given` holds tensors (B, n, ·) that replace what the model computes at these places; documents must then be
        equally long. `gradient` records the autograd path from there, else from the word embeddings. `hidden` tokens of
        each document are masked out of attention. Only the forward of the module runs inside the context `within`.
        `step` runs every layer (see `hooks.step_layers`).
        """
        given = given or {}
        lengths = tuple(len(encoding) for encoding in encodings)
        with ExitStack() as stack:
            stack.enter_context(self._lock)
            if self.module.training:  # dropout would make every result another one
                self.module.eval()
            follow_adapters(self.module)
            stack.enter_context(self._declare_pad_token(encodings))
            inputs = self.inputs(encodings, hidden)
            stack.enter_context(torch.enable_grad() if gradient else torch.no_grad())
            if self.family.attention_layout == "blocks":
                stack.enter_context(documents_of(lengths))
            for place, tensor in given.items():
                stack.enter_context(hooks.replace_at(self, place, tensor))
            stack.enter_context(hooks.record_embeddings(self, recorder, leaf=gradient and not given))
            if recorder is not None:
                recorder.lengths = lengths
                stack.enter_context(hooks.record_layers(self, recorder))
                if recorder.blocks:
                    stack.enter_context(hooks.record_blocks(self, recorder))
                stack.enter_context(recording(recorder))
            else:
                stack.enter_context(hooks.cut_last_layer(self))
            if step is not None:
                stack.enter_context(hooks.step_layers(self, step))
            if within is not None:
                stack.enter_context(within)
            outputs = self._call_within_memory(inputs)
        self.forward_passes += 1
        if recorder is not None:
            self._check_complete(recorder)
        logits = [self.task.document_logits(outputs, row, n) for row, n in enumerate(lengths)]
        if not all(torch.isfinite(scores).all() for scores in logits):
            raise ModelError(
                "The model's output is not finite: numbers inside it overflow. Its weights may be damaged, or the "
                "number type too narrow (try dtype='float32')."
            )
        return logits

    def _call_within_memory(self, inputs: dict[str, Tensor]) -> Any:
        """Run the module; raise SizeError if the memory does not suffice, which torch reports in its own ways."""
        try:
            return self._call(inputs)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            rows, tokens = inputs["input_ids"].shape
            raise SizeError(
                f"There is not enough memory to run the model '{self.name}' on {rows * tokens:,} tokens: take a "
                "shorter text, fewer methods or a smaller model."
            ) from error

    def _call(self, inputs: dict[str, Tensor]) -> Any:
        """Run the module on its inputs; an unseen one on word embeddings that are looked up here.

        Some types turn ids around before they look them up, others look them up more than once.
        """
        if not self.sees_inside and "inputs_embeds" in self._accepted:
            others = {key: tensor for key, tensor in inputs.items() if key != "input_ids"}
            embedded = self.tables["word"](inputs["input_ids"])
            # A copy, because some types scale what they get in place.
            return self.module(inputs_embeds=embedded.clone(), **others, **self._settings)
        with nullcontext() if self.banded_encoder is None else one_row_mask(self.module):
            return self.module(**inputs, **self._settings)

    def run_many(
        self,
        encodings: Sequence[Encoding],
        *,
        hidden: Sequence[Sequence[int]] | None = None,
        progress: StepProgress | None = None,
    ) -> list[Tensor]:
        """Return the logits of any number of documents, in batches of similar length, in the order given.

        On a CPU with several threads the batches run side by side, each on one core (`side_by_side`). A document with
        windows is run window by window (`windowed`).
        """
        if any(encoding.windows is not None for encoding in encodings):
            return run_windows(self, encodings, hidden, progress)
        lengths = [len(encoding) for encoding in encodings]
        batches = list(batches_by_length(lengths, BATCH_TOKENS, self.worthwhile_tokens, padded=self.pads))
        logits: dict[int, Tensor] = {}
        for number, batch_logits in self._run_batches(batches, encodings, hidden):
            logits.update(zip(batches[number], batch_logits, strict=True))
            if progress is not None:
                progress(len(logits), len(encodings))
        return [logits[index] for index in range(len(encodings))]

    def _run_batches(
        self, batches: Sequence[Sequence[int]], encodings: Sequence[Encoding], hidden: Sequence[Sequence[int]] | None
    ) -> Iterator[tuple[int, list[Tensor]]]:
        """Yield the number of every batch and the logits of its documents, in the order of completion."""

        def run(network: Network, number: int, _send: Send | None = None) -> list[Tensor]:
            batch = batches[number]
            masked = None if hidden is None else [hidden[i] for i in batch]
            return network.run([encodings[i] for i in batch], hidden=masked)

        workers = min(torch.get_num_threads(), len(batches) // MIN_BATCHES_PER_WORKER)
        if workers < 2 or self.device.type != "cpu":
            yield from ((number, run(self, number)) for number in range(len(batches)))
            return
        twins = [self.twin() for _ in range(workers)]
        try:
            yield from run_side_by_side(twins, len(batches), run, lambda _content: None)
        finally:
            for twin in twins:
                self.count_passes_of(twin)

    @own_torch_context()
    def embed(self, encoding: Encoding, place: Place) -> Tensor:
        """Return the vectors (n, ·) of one document at the output of an embedding table or the input of a layer."""
        vectors: list[Tensor] = []

        def stop(hidden: Tensor) -> Tensor:
            vectors.append(hidden[0, : len(encoding)].detach())
            raise _Reached

        follow_adapters(self.module)
        with self._lock, hooks.change_at(self, place, stop), torch.no_grad():
            try:
                self._call(self.inputs([encoding]))
            except _Reached:
                return vectors[0]
        raise RuntimeError(f"the forward pass ended without reaching {place!r}")

    @cached_property
    def tables(self) -> dict[EmbeddingTable, nn.Module]:
        """The embedding tables whose sum is the input of the first layer."""
        tables: dict[EmbeddingTable, nn.Module] = {"word": self.module.get_input_embeddings()}
        paths: dict[EmbeddingTable, str | None] = {
            "word": self.family.word_table,
            "position": self.family.position_table,
            "type": self.family.type_table,
        }
        modules = dict(self.module.base_model.named_modules())  # without tables that a config leaves out
        tables.update({table: modules[path] for table, path in paths.items() if path is not None and path in modules})
        return tables

    @own_torch_context()
    def backward(self, value: Tensor, inputs: Sequence[Tensor], *, keep_graph: bool = False) -> list[Tensor]:
        """Return ∂value/∂input for each input (zeros where the value does not depend on it)."""
        self.backward_passes += 1
        gradients = torch.autograd.grad(value, list(inputs), retain_graph=keep_graph, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, gradients, strict=True)]

    def announce_calls(self, compute: Callable[[Network], object]) -> None:
        """Announce what `compute` will cost on this network, where calls are counted (`functions`); else do nothing."""

    def require_layers(self) -> None:
        """Raise UnsupportedError if the layers of this model are not known."""
        if not self.sees_inside:
            raise UnsupportedError(
                f"Sightline does not know the layers of '{self.config.model_type}' models, so it cannot look inside. "
                "Explain a document instead, with gradients or by changing its words."
            )

    def require_plain_operations(self) -> None:
        """Raise UnsupportedError if the attention of this model cannot run as ordinary operations."""
        if self.banded and self.banded_encoder is None:
            raise UnsupportedError(
                "The library's Longformer attention does not show its operations. "
                'Load the model with attention="banded".'
            )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let no other thread run the network inside this block.

        A layer that runs again in a backward pass must not meet the hooks of another thread's pass.
        """
        with self._lock:
            yield

    @contextmanager
    def plain_operations(self) -> Iterator[None]:
        """Run attention as ordinary operations inside this block, for a mode that replaces their backward rules."""
        self.require_plain_operations()
        encoder = self.banded_encoder
        with self.alone():
            if encoder is None:
                yield
                return
            encoder.plain = True
            try:
                yield
            finally:
                encoder.plain = False

    @property
    def _first_position(self) -> int:
        fixed = self.family.first_position
        return int(self.config.pad_token_id or 0) + 1 if fixed is None else fixed

    @property
    def banded_encoder(self) -> BandedEncoder | None:
        """The encoder with banded attention, or None if the model does not use it."""
        encoder = getattr(self.module.base_model, "encoder", None)
        return encoder if isinstance(encoder, BandedEncoder) else None

    @contextmanager
    def _declare_pad_token(self, encodings: Sequence[Encoding]) -> Iterator[None]:
        """Declare a pad token for this pass if a causal classifier has none.

        Such a classifier reads the last token that is not padding; without a pad token it accepts only one document at
        a time and reads its last token. Any id with which no document of the batch ends serves as the pad token.
        """
        facts, config = self.task.facts, self.config
        if not (facts.reads_last or not self.sees_inside) or facts.pad_id is not None:
            yield
            return
        ends = {int(encoding.ids[-1]) for encoding in encodings}
        config.pad_token_id = next((index for index in range(int(config.vocab_size)) if index not in ends), None)
        try:
            yield
        finally:
            config.pad_token_id = None

    def _check_complete(self, recorder: Recorder) -> None:
        """Raise RuntimeError unless every layer was recorded: a missing one would shift all results."""
        expected = len(self.layers)
        if not self.sees_inside:
            return
        if recorder.attention and len(recorder.layers) != expected:
            raise RuntimeError(f"attention of {len(recorder.layers)} of {expected} layers was recorded")
        if len(recorder.hidden) not in ({expected, expected + 1} if recorder.readout_only else {expected + 1}):
            raise RuntimeError(f"{len(recorder.hidden)} hidden states were recorded for {expected} layers")
