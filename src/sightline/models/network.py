"""Network: a loaded model that can be run on encodings and observed while it runs.

It knows about padding, devices, position ids and hooks, so that nothing to its right has to. Shapes: B documents,
N tokens of the longest, d width of the model.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from sightline.errors import InputError, OptionError
from sightline.models.batching import BATCH_TOKENS, batches_by_length
from sightline.models.families import Family
from sightline.models.longformer import BandedEncoder, observe_library
from sightline.models.recording import Padded, Recorder, recording
from sightline.models.tasks import Task
from sightline.text import Encoding


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
        if self.task.name == "question_answering" and encoding.pair is not None:
            question = np.flatnonzero(encoding.segments == 0)
            return tuple(range(int(question[-1]) + 1)) if len(question) else (0,)
        return ()

    def inputs(self, encodings: Sequence[Encoding]) -> dict[str, Tensor]:
        """Return the padded tensors the model is fed: ids, mask, positions, token types, global attention."""
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
            positions[row, :n] = torch.arange(first, first + n)
            if int(getattr(self.config, "type_vocab_size", 0) or 0) > 1:
                types[row, :n] = torch.from_numpy(encoding.type_ids)
            if self.banded:
                global_mask[row, list(self.global_tokens(encoding))] = 1
        tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "token_type_ids": types}
        if self.banded:
            tensors["global_attention_mask"] = global_mask
        return {key: tensor.to(self.device) for key, tensor in tensors.items() if key in self._accepted}

    def run(
        self,
        encodings: Sequence[Encoding],
        recorder: Recorder | None = None,
        *,
        gradient: bool = False,
        embeddings: Tensor | None = None,
        first_hidden: Tensor | None = None,
    ) -> list[Tensor]:
        """Run one padded batch and return the logits of each document.

        `gradient` records the autograd path from the word embeddings (or from what replaces them): `embeddings`
        (B, n, ·) stands in for the word embeddings, `first_hidden` (B, n, d) for x^0, the input of the first layer.
        """
        lengths = tuple(len(encoding) for encoding in encodings)
        inputs = self.inputs(encodings)
        with ExitStack() as stack:
            stack.enter_context(torch.enable_grad() if gradient else torch.no_grad())
            stack.enter_context(self._embedding_hook(recorder, embeddings, leaf=gradient and first_hidden is None))
            if first_hidden is not None:
                stack.enter_context(self._replaced_input(first_hidden))
            if recorder is not None:
                recorder.lengths = lengths
                stack.enter_context(self._observed_layers(recorder))
                stack.enter_context(recording(recorder))
            outputs = self.module(**inputs)
        self.forward_passes += 1
        if recorder is not None:
            self._check_complete(recorder)
        return [self.task.document_logits(outputs, row, n) for row, n in enumerate(lengths)]

    def run_many(
        self, encodings: Sequence[Encoding], *, progress: Callable[[int, int], None] | None = None
    ) -> list[Tensor]:
        """Return the logits of any number of documents, in batches of similar length, in the order given."""
        logits: list[Tensor | None] = [None] * len(encodings)
        done = 0
        for batch in batches_by_length([len(encoding) for encoding in encodings], BATCH_TOKENS):
            for index, found in zip(batch, self.run([encodings[i] for i in batch]), strict=True):
                logits[index] = found
            done += len(batch)
            if progress is not None:
                progress(done, len(encodings))
        return [found for found in logits if found is not None]

    def embed(self, encoding: Encoding, place: Literal["embeddings", "first_hidden"]) -> Tensor:
        """Return the word embeddings, or x^0 (the input of the first layer), of one document: (n, ·)."""
        seen: list[Tensor] = []

        def stop(hidden: Tensor) -> None:
            seen.append(hidden[0, : len(encoding)].detach())
            raise _Reached

        def at_embeddings(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            stop(output)

        def at_first_layer(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            stop(_first_argument(args, kwargs)[0])

        if place == "embeddings":
            handle = self.module.get_input_embeddings().register_forward_hook(at_embeddings)
        else:
            handle = self._entry.register_forward_pre_hook(at_first_layer, with_kwargs=True)
        try:
            with torch.no_grad():
                self.module(**self.inputs([encoding]))
        except _Reached:
            return seen[0]
        finally:
            handle.remove()
        raise RuntimeError("the forward pass ended without reaching its first layer")

    def backward(self, value: Tensor, inputs: Sequence[Tensor], *, keep_graph: bool = False) -> list[Tensor]:
        """Return ∂value/∂input for each input (zeros where the value does not depend on it)."""
        self.backward_passes += 1
        gradients = torch.autograd.grad(value, list(inputs), retain_graph=keep_graph, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, gradients, strict=True)]

    @property
    def _first_position(self) -> int:
        return int(self.config.pad_token_id or 0) + 1

    @property
    def _own_encoder(self) -> BandedEncoder | None:
        encoder = getattr(self.module.base_model, "encoder", None)
        return encoder if isinstance(encoder, BandedEncoder) else None

    @property
    def _entry(self) -> nn.Module:
        """The module whose first argument is x^0."""
        return self._own_encoder or self.layers[0]

    @contextmanager
    def _embedding_hook(self, recorder: Recorder | None, given: Tensor | None, *, leaf: bool) -> Iterator[None]:
        """Put `given` in place of the word embeddings, or make them the leaf of the autograd path, and record them."""

        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
            if given is not None:
                output = _over(output, given)
            elif leaf:
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
    def _replaced_input(self, given: Tensor) -> Iterator[None]:
        """Put `given` in place of x^0; a layer that runs several times (ALBERT) is changed at its first run only."""
        done = False

        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            nonlocal done
            if done:
                return None
            done = True
            hidden, put = _first_argument(args, kwargs)
            return put(_over(hidden, given))

        handle = self._entry.register_forward_pre_hook(hook, with_kwargs=True)
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
