"""Network: a loaded model that can be run on encodings and observed while it runs.

With `inputs`, it knows about padding, devices, position ids and hooks, so that nothing to its right has to. Shapes:
B documents, N tokens of the longest, d width of the model.
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from sightline.errors import ModelError, OptionError, SizeError, UnsupportedError
from sightline.models import hooks
from sightline.models.batching import (
    BATCH_TOKENS,
    batches_by_length,
    graph_tokens,
    run_batches,
    run_windows,
    worthwhile_tokens,
)
from sightline.models.block_sparse import documents_of
from sightline.models.families import Family, family_of, unseen_family
from sightline.models.hooks import EmbeddingTable, HookPlace
from sightline.models.inputs import count_positions, declare_pad_token, pad_inputs
from sightline.models.longformer.encoder import BandedEncoder, Step, one_row_mask
from sightline.models.model_types import has_library_head
from sightline.models.recording import Recorder, recording, with_attribute
from sightline.models.sentence_models import PooledClassifier
from sightline.models.shared_weights import follow_adapters, hash_weights, share_weights, weights_state
from sightline.models.task import Task
from sightline.models.torch_context import own_torch_context
from sightline.models.user_modules import ModuleClassifier
from sightline.progress import StepProgress
from sightline.text import Encoding

_FACTS = ("token_ids", "untrained", "limit", "truncates", "tokenizer", "rounding_error", "reference_text")
"""What a network knows besides its module, family and task."""


class _Reached(Exception):  # noqa: N818 (a signal, not an error)
    """Ends a forward pass that has reached the requested place."""


class Network:
    """A transformers model in evaluation mode, its family's facts and its task."""

    answers_only = False
    """Whether nothing but the answers to texts is known (`functions.FunctionNetwork`)."""
    is_rehearsal = False
    """Whether it answers at random, to count the texts that a computation would send."""

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
        """The tokenizer that reads texts for this model, if it has one."""
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
        self.accepted = frozenset(accepted or inspect.signature(module.forward).parameters)
        """Names of the inputs that the module accepts."""
        # Causal models cache keys and values for generation, which is never used here.
        self._settings = {"use_cache": False} if "use_cache" in self.accepted else {}

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
        positions = count_positions(self)
        return positions if self.limit is None else min(positions, self.limit)

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
        """Whether the classifier is not one of the library's, so that the rows it reads have to be measured.

        A head of the user's may also have been put into a class of the library.
        """
        if self.task.name != "sequence_classification" or not self.sees_inside:
            return False
        return not has_library_head(self.module) or isinstance(self.module, PooledClassifier | ModuleClassifier)

    @cached_property
    def parts(self) -> tuple[nn.Module, ...]:
        """All submodules of the module, whose structure never changes."""
        return tuple(self.module.modules())

    @property
    def weights_state(self) -> int:
        """A number that changes when the weights do."""
        follow_adapters(self.parts)
        return weights_state(self.parts)

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

    def in_double(self) -> Network:
        """Return a copy of this network in double precision; the network itself if it has that or cannot."""
        if self.dtype == torch.float64 or self.device.type == "mps":
            return self
        return self.converted(lambda module: module.double())

    @own_torch_context()
    def converted(self, convert: Callable[[Any], Any]) -> Network:
        """Return a network around a converted copy of the module."""
        with self._lock:
            return self._with_module(convert(copy.deepcopy(self.module)))

    def _with_module(self, module: Any) -> Network:
        """Return a network with everything of this one but the module."""
        twin = Network(module, self.family, self.task, name=self.name)
        for fact in _FACTS:
            setattr(twin, fact, getattr(self, fact))
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

    def count_passes_of(self, twin: Network) -> None:
        """Add the passes that a twin has run to the counters of this network."""
        self.forward_passes += twin.forward_passes
        self.backward_passes += twin.backward_passes

    @cached_property
    def worthwhile_tokens(self) -> int:
        """Tokens per batch above which larger batches gain nothing."""
        return worthwhile_tokens(self.layers or [self.module], self.device)

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

    @own_torch_context()
    def run(
        self,
        encodings: Sequence[Encoding],
        recorder: Recorder | None = None,
        *,
        gradient: bool = False,
        given: Mapping[HookPlace, Tensor] | None = None,
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
            follow_adapters(self.parts)
            stack.enter_context(declare_pad_token(self, encodings))
            inputs = pad_inputs(self, encodings, hidden)
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
            if recorder is None or (step is None and recorder.needs_readout_only):
                stack.enter_context(hooks.cut_last_layer(self))
            if step is not None:
                stack.enter_context(hooks.step_layers(self, step))
            if within is not None:
                stack.enter_context(within)
            outputs = self._call_within_memory(inputs)
        self.forward_passes += 1
        if recorder is not None and self.sees_inside:
            recorder.check_complete(len(self.layers))
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
        if not self.sees_inside and "inputs_embeds" in self.accepted:
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

        On a CPU with several threads the batches run side by side, each on one core (`run_side_by_side`). A document
        with windows is run window by window (`run_windows`).
        """
        if any(encoding.windows is not None for encoding in encodings):
            return run_windows(self, encodings, hidden, progress)
        logits: dict[int, Tensor] = {}
        for number, document_logits in self.run_each(encodings, hidden=hidden):
            logits[number] = document_logits
            if progress is not None:
                progress(len(logits), len(encodings))
        return [logits[index] for index in range(len(encodings))]

    def run_each(
        self,
        encodings: Sequence[Encoding],
        *,
        hidden: Sequence[Sequence[int]] | None = None,
        batch_size: int | None = None,
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield the number and the logits of every document as soon as its batch has run, see `run_many`.

        batch_size: the most documents of a batch.
        """
        whole = [number for number, encoding in enumerate(encodings) if encoding.windows is None]
        lengths = [len(encodings[number]) for number in whole]
        tokens, enough = BATCH_TOKENS, self.worthwhile_tokens
        batches = [
            [whole[place] for place in batch]
            for batch in batches_by_length(lengths, tokens, enough, most=batch_size, padded=self.pads)
        ]
        for number, batch_logits in run_batches(self, batches, encodings, hidden):
            yield from zip(batches[number], batch_logits, strict=True)
        for number in sorted(set(range(len(encodings))) - set(whole)):
            masked = None if hidden is None else [hidden[number]]
            yield number, run_windows(self, [encodings[number]], masked)[0]

    @own_torch_context()
    def embed(self, encoding: Encoding, place: HookPlace) -> Tensor:
        """Return the vectors (n, ·) of one document at the output of an embedding table or the input of a layer."""
        vectors: list[Tensor] = []

        def stop(hidden: Tensor) -> Tensor:
            vectors.append(hidden[0, : len(encoding)].detach())
            raise _Reached

        follow_adapters(self.parts)
        with self._lock, hooks.change_at(self, place, stop), torch.no_grad():
            try:
                self._call(pad_inputs(self, [encoding]))
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
        return list(
            torch.autograd.grad(value, list(inputs), retain_graph=keep_graph, allow_unused=True, materialize_grads=True)
        )

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
        with self.alone(), nullcontext() if encoder is None else with_attribute(encoder, "plain", True):
            yield

    @property
    def banded_encoder(self) -> BandedEncoder | None:
        """The encoder with banded attention, or None if the model does not use it."""
        encoder = getattr(self.module.base_model, "encoder", None)
        return encoder if isinstance(encoder, BandedEncoder) else None
