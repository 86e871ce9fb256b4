"""Network: a loaded model that can be run on encodings and observed while it runs.

It knows about padding, devices, position ids and hooks, so that nothing to its right has to. Shapes: B documents,
N tokens of the longest, d width of the model.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.models.batching import BATCH_TOKENS, batches_by_length
from sightline.models.families import Family
from sightline.models.longformer import BandedEncoder, observe_library
from sightline.models.recording import Padded, Recorder, recording
from sightline.models.tasks import Task
from sightline.text import Encoding

Table = Literal["word", "position", "type"]
Place: TypeAlias = "Table | int"
"""Where a pass can be entered: the output of one of the embedding tables, or the input x^l of layer l."""
WORTHWHILE_PRODUCTS = 2.5e9
"""Multiplications (tokens × weights of the layers) after which a batch on a CPU gains nothing by more documents: the
matrix products are as fast as they get, and starting a pass costs a few percent."""


class _Reached(Exception):  # noqa: N818 (a signal, not an error)
    """Ends a forward pass that has shown what was wanted."""


class Network:
    """A transformers model in evaluation mode, its family's facts and its task."""

    def __init__(
        self,
        module: Any,
        family: Family,
        task: Task,
        *,
        name: str,
        token_ids: Mapping[str, int] | None = None,
        untrained: bool = False,
    ) -> None:
        self.module = module.eval().requires_grad_(False)
        self.family = family
        self.task = task
        self.name = name
        self.token_ids = dict(token_ids or {})
        """Ids of the tokens "pad", "mask" and "unk", those that the vocabulary has."""
        self.untrained = untrained
        self.forward_passes = 0
        self.backward_passes = 0
        self._accepted = frozenset(inspect.signature(module.forward).parameters)
        # Causal models keep keys and values for the tokens to come; here none will.
        self._settings = {"use_cache": False} if "use_cache" in self._accepted else {}

    @property
    def config(self) -> Any:
        """The transformers config."""
        return self.module.config

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
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
        """Attention heads a layer."""
        return int(self.config.num_attention_heads)

    @property
    def max_tokens(self) -> int:
        """The longest document the position embeddings reach."""
        reserved = self._first_position if self.family.positions_after_padding else 0
        return int(self.config.max_position_embeddings) - reserved

    @property
    def banded(self) -> bool:
        """Whether attention is a window plus global tokens (Longformer)."""
        return bool(self.config.model_type == "longformer")

    @cached_property
    def weights_hash(self) -> str:
        """A fingerprint of all weights: the same numbers give the same hash."""
        digest = hashlib.blake2b(digest_size=16)
        for key, tensor in sorted(self.module.state_dict().items()):
            digest.update(key.encode())
            digest.update(str(tensor.dtype).encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def twin(self) -> Network:
        """Return a network with the same weights (not a copy of them) whose hooks are its own.

        A module that two threads run at once would show each of them what the other computes.
        """
        shared = {id(tensor): tensor for tensor in (*self.module.parameters(), *self.module.buffers())}
        return Network(
            copy.deepcopy(self.module, shared),
            self.family,
            self.task,
            name=self.name,
            token_ids=self.token_ids,
            untrained=self.untrained,
        )

    @cached_property
    def worthwhile_tokens(self) -> int:
        """Tokens that make a batch worth a pass of its own, see `WORTHWHILE_PRODUCTS`."""
        weights = sum(weight.numel() for layer in self.layers for weight in layer.parameters())
        return BATCH_TOKENS if self.device.type != "cpu" else min(BATCH_TOKENS, int(WORTHWHILE_PRODUCTS / weights) + 1)

    def token_id(self, name: str) -> int:
        """Return the id of the pad, mask or unknown token, or say that there is none."""
        if name not in self.token_ids:
            known = ", ".join(sorted(self.token_ids)) or "none"
            raise OptionError(f"The model's vocabulary has no {name} token that Sightline knows of (known: {known}).")
        return self.token_ids[name]

    def global_tokens(self, encoding: Encoding) -> tuple[int, ...]:
        """Return the positions with global attention: the encoding's own, else what the task is trained with."""
        if encoding.global_tokens is not None:
            return encoding.global_tokens
        if self.task.name == "sequence_classification":
            return (0,)
        if self.task.name == "question_answering":
            return self._question(encoding)
        return ()

    def _question(self, encoding: Encoding) -> tuple[int, ...]:
        """Return the positions of the question and what stands before it."""
        if encoding.pair is not None:
            question = np.flatnonzero(encoding.segments == 0)
            return tuple(range(int(question[-1]) + 1)) if len(question) else (0,)
        # Bare ids: question and text are told apart by separators, <s> question </s></s> text </s>.
        separators = np.flatnonzero(encoding.ids == self.config.sep_token_id)
        return tuple(range(int(separators[0]))) if len(separators) == 3 else ()

    def inputs(self, encodings: Sequence[Encoding], hidden: Sequence[Sequence[int]] | None = None) -> dict[str, Tensor]:
        """Return the padded tensors the model is fed: ids, mask, positions, token types, global attention.

        `hidden` holds the token positions of each document that the attention mask takes away; the others stay put.
        """
        for encoding in encodings:
            if len(encoding) > self.max_tokens:
                raise InputError(f"The document has {len(encoding)} tokens, the model reads {self.max_tokens} at most.")
        longest = max(len(encoding) for encoding in encodings)
        pad = int(self.config.pad_token_id or 0)
        shape = (len(encodings), longest)
        ids = torch.full(shape, pad)
        mask, types, global_mask = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
        # Explicit, so that pad tokens put into a text (baselines, perturbations) do not move the words behind them.
        first = self._first_position if self.family.positions_after_padding else 0
        positions = torch.full(shape, pad if self.family.positions_after_padding else 0)
        for row, encoding in enumerate(encodings):
            n = len(encoding)
            ids[row, :n] = torch.from_numpy(encoding.ids)
            mask[row, :n] = 1
            if hidden is not None:
                mask[row, list(hidden[row])] = 0
            positions[row, :n] = torch.arange(first, first + n)
            if int(getattr(self.config, "type_vocab_size", 0) or 0) > 1:
                types[row, :n] = torch.from_numpy(encoding.type_ids)
            if self.banded:
                global_mask[row, list(self.global_tokens(encoding))] = 1
        tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "token_type_ids": types}
        if self.family.type_table is None:
            del tensors["token_type_ids"]
        if self.banded:
            tensors["global_attention_mask"] = global_mask
        return {key: tensor.to(self.device) for key, tensor in tensors.items() if key in self._accepted}

    def run(
        self,
        encodings: Sequence[Encoding],
        recorder: Recorder | None = None,
        *,
        gradient: bool = False,
        given: Mapping[Place, Tensor] | None = None,
        hidden: Sequence[Sequence[int]] | None = None,
        within: AbstractContextManager[None] | None = None,
    ) -> list[Tensor]:
        """Run one padded batch and return the logits of each document.

        `given` holds tensors (B, n, ·) that stand in for what the model itself computes at these places; documents must
        then be equally long. `gradient` records the autograd path from there, else from the word embeddings. `hidden`
        tokens of each document are masked out of attention. The model, and nothing but the model, runs `within` a
        context.
        """
        given = given or {}
        lengths = tuple(len(encoding) for encoding in encodings)
        with ExitStack() as stack:
            stack.enter_context(self._ends_told(encodings))
            inputs = self.inputs(encodings, hidden)
            stack.enter_context(torch.enable_grad() if gradient else torch.no_grad())
            for place, tensor in given.items():
                stack.enter_context(
                    self._replaced_input(place, tensor)
                    if isinstance(place, int)
                    else self._replaced_table(place, tensor)
                )
            stack.enter_context(self._embedding_hook(recorder, leaf=gradient and not given))
            if recorder is not None:
                recorder.lengths = lengths
                stack.enter_context(self._observed_layers(recorder))
                if recorder.blocks:
                    stack.enter_context(self._observed_blocks(recorder))
                stack.enter_context(recording(recorder))
            else:
                stack.enter_context(self._last_layer_cut())
            if within is not None:
                stack.enter_context(within)
            outputs = self.module(**inputs, **self._settings)
        self.forward_passes += 1
        if recorder is not None:
            self._check_complete(recorder)
        return [self.task.document_logits(outputs, row, n) for row, n in enumerate(lengths)]

    def run_many(
        self,
        encodings: Sequence[Encoding],
        *,
        hidden: Sequence[Sequence[int]] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Tensor]:
        """Return the logits of any number of documents, in batches of similar length, in the order given."""
        logits: list[Tensor | None] = [None] * len(encodings)
        done = 0
        for batch in batches_by_length([len(encoding) for encoding in encodings], BATCH_TOKENS, self.worthwhile_tokens):
            masked = None if hidden is None else [hidden[i] for i in batch]
            for index, found in zip(batch, self.run([encodings[i] for i in batch], hidden=masked), strict=True):
                logits[index] = found
            done += len(batch)
            if progress is not None:
                progress(done, len(encodings))
        return [found for found in logits if found is not None]

    def embed(self, encoding: Encoding, place: Place) -> Tensor:
        """Return what one document is at the output of an embedding table, or at the input of a layer: (n, ·)."""
        seen: list[Tensor] = []

        def stop(hidden: Tensor) -> Tensor:
            seen.append(hidden[0, : len(encoding)].detach())
            raise _Reached

        with ExitStack() as stack:
            if isinstance(place, int):
                stack.enter_context(self._at_input(place, stop))
            else:
                handle = self.tables[place].register_forward_hook(lambda _module, _inputs, output: stop(output))
                stack.callback(handle.remove)
            stack.enter_context(torch.no_grad())
            try:
                self.module(**self.inputs([encoding]), **self._settings)
            except _Reached:
                return seen[0]
        raise RuntimeError(f"the forward pass ended without reaching {place!r}")

    @cached_property
    def tables(self) -> dict[Table, nn.Module]:
        """The embedding tables that this family adds up."""
        found: dict[Table, nn.Module] = {"word": self.module.get_input_embeddings()}
        if self.family.position_table is not None:
            found["position"] = self.module.base_model.get_submodule(self.family.position_table)
        if self.family.type_table is not None:
            found["type"] = self.module.base_model.get_submodule(self.family.type_table)
        return found

    def backward(self, value: Tensor, inputs: Sequence[Tensor], *, keep_graph: bool = False) -> list[Tensor]:
        """Return ∂value/∂input for each input (zeros where the value does not depend on it)."""
        self.backward_passes += 1
        gradients = torch.autograd.grad(value, list(inputs), retain_graph=keep_graph, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, gradients, strict=True)]

    @contextmanager
    def plain_operations(self) -> Iterator[None]:
        """Let attention run by ordinary operations inside this block, for a mode that swaps their backward rules."""
        encoder = self._own_encoder
        if encoder is None:
            if self.banded:
                raise UnsupportedError(
                    "The library's Longformer attention does not show its operations. "
                    'Load the model with attention="banded".'
                )
            yield
            return
        encoder.plain = True
        try:
            yield
        finally:
            encoder.plain = False

    @property
    def _first_position(self) -> int:
        return int(self.config.pad_token_id or 0) + 1

    @property
    def _own_encoder(self) -> BandedEncoder | None:
        encoder = getattr(self.module.base_model, "encoder", None)
        return encoder if isinstance(encoder, BandedEncoder) else None

    @contextmanager
    def _ends_told(self, encodings: Sequence[Encoding]) -> Iterator[None]:
        """Let the library find the last token of every document where the config names no pad token.

        A causal classifier reads the last token that is no pad. Without a pad token it takes one document at a time
        and reads its last token; any id with which no document of the batch ends, as the pad token, says the same.
        """
        facts, config = self.task.facts, self.config
        if not facts.reads_last or facts.pad_id is not None:
            yield
            return
        ends = {int(encoding.ids[-1]) for encoding in encodings}
        config.pad_token_id = next((index for index in range(int(config.vocab_size)) if index not in ends), None)
        try:
            yield
        finally:
            config.pad_token_id = None

    @contextmanager
    def _embedding_hook(self, recorder: Recorder | None, *, leaf: bool) -> Iterator[None]:
        """Make the word embeddings the leaf of the autograd path, and record them."""

        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
            if leaf:
                output = output.detach().requires_grad_()
            if recorder is not None:
                recorder.embeddings = output
            return output

        handle = self.module.get_input_embeddings().register_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()

    @contextmanager
    def _replaced_table(self, name: Table, given: Tensor) -> Iterator[None]:
        """Put `given` in place of what an embedding table gives."""

        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
            return _over(output, given)

        handle = self.tables[name].register_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()

    def _replaced_input(self, layer: int, given: Tensor) -> AbstractContextManager[None]:
        """Put `given` in place of x^l."""
        return self._at_input(layer, lambda hidden: _over(hidden, given))

    @contextmanager
    def _at_input(self, layer: int, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Show x^l (B, N, d) to `change` and go on with what it returns.

        Layers are counted as they run, for the same module may run several times (ALBERT). Our own Longformer encoder
        does not call its layers and has a door of its own.
        """
        own = self._own_encoder
        if own is not None:
            with own.changed_input(layer, change):
                yield
            return
        runs = 0

        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            nonlocal runs
            runs += 1
            if runs != layer + 1:
                return None
            hidden, put = _first_argument(args, kwargs)
            return put(change(hidden))

        with ExitStack() as stack:
            for module in {id(module): module for module in self.layers}.values():
                stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
            yield

    @contextmanager
    def _last_layer_cut(self) -> Iterator[None]:
        """Where a classifier reads the first token alone, let the last layer compute no other one behind its attention.

        That spares three quarters of the layer's products: its output projection and its feed-forward block.
        """
        block = self.family.row_wise_block
        if block is None or self.banded or self.task.name != "sequence_classification":
            yield
            return

        def cut(_module: nn.Module, args: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            mixed, residual = args
            return mixed[:, :1], residual[:, :1]

        handle = self.layers[-1].get_submodule(block).register_forward_pre_hook(cut)
        try:
            yield
        finally:
            handle.remove()

    @contextmanager
    def _observed_layers(self, recorder: Recorder) -> Iterator[None]:
        """Record x^0 … x^L by hooks; Longformer's encoders, ours and the library's, have ways of their own."""
        if self.banded:
            with nullcontext() if self._own_encoder is not None else observe_library(self.module):
                yield
            return
        recorder.layout = Padded(recorder.lengths)
        last: list[Tensor] = []

        def before(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            recorder.hidden.append(_first_argument(args, kwargs)[0])

        def after(_module: nn.Module, _inputs: Any, output: Any) -> None:
            last[:] = [output[0] if isinstance(output, tuple) else output]

        with ExitStack() as stack:
            for layer in {id(layer): layer for layer in self.layers}.values():
                stack.callback(layer.register_forward_pre_hook(before, with_kwargs=True).remove)
                stack.callback(layer.register_forward_hook(after).remove)
            yield
        recorder.hidden.extend(last)

    @contextmanager
    def _observed_blocks(self, recorder: Recorder) -> Iterator[None]:
        """Record what every attention block puts out, and what the second LayerNorm of every layer receives."""
        outputs: list[Tensor] = []
        inputs: list[list[Tensor]] = []

        def begin(_module: nn.Module, _args: Any, output: Tensor) -> None:
            outputs.append(output.detach())
            inputs.append([])

        def receive(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
            # Our own encoder runs the feed-forward block in chunks of rows.
            inputs[-1].append(args[0].detach())

        with ExitStack() as stack:
            for layer in {id(layer): layer for layer in self.layers}.values():
                first, second = (layer.get_submodule(p) for p in (self.family.attention_norm, self.family.output_norm))
                stack.callback(first.register_forward_hook(begin).remove)
                stack.callback(second.register_forward_pre_hook(receive).remove)
            yield
        recorder.second_inputs = [chunks[0] if len(chunks) == 1 else torch.cat(chunks) for chunks in inputs]
        recorder.block_outputs = recorder.second_inputs if self.family.pre_norm else outputs

    def _check_complete(self, recorder: Recorder) -> None:
        """Every layer must have shown itself: a silently missing one would shift all results."""
        expected = len(self.layers)
        if recorder.attention and len(recorder.layers) != expected:
            raise RuntimeError(f"{len(recorder.layers)} of {expected} layers showed their attention")
        if len(recorder.hidden) not in ({expected, expected + 1} if recorder.readout_only else {expected + 1}):
            raise RuntimeError(f"{len(recorder.hidden)} hidden states arrived from {expected} layers")


def _over(original: Tensor, given: Tensor) -> Tensor:
    """Lay `given` (B, n, ·) over the first n tokens of `original` (B, N >= n, ·): the rest is the library's padding."""
    if given.shape[1] == original.shape[1]:
        return given
    return torch.cat((given, original[:, given.shape[1] :].expand(given.shape[0], -1, -1)), dim=1)


def _first_argument(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
    """Return a layer's hidden states, passed by place or by name, and a function that puts others in their place."""
    if args:
        return args[0], lambda new: ((new, *args[1:]), kwargs)
    return kwargs["hidden_states"], lambda new: (args, {**kwargs, "hidden_states": new})
