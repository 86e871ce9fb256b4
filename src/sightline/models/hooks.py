"""Hooks: observe and change a network while its module runs, without rewriting the module.

Every function is a context manager that leaves the module as it was. Layers are counted as they run, because the same
module may run several times (ALBERT). The banded Longformer encoder does not call its layers and has its own hooks.
Shapes: B documents, N tokens of the longest, d width of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import torch
from torch import Tensor, nn

from sightline.errors import UnsupportedError
from sightline.models.longformer.encoder import Step, observe_library
from sightline.models.recording import Padded, Recorder

if TYPE_CHECKING:
    from sightline.models.network import Network

EmbeddingTable = Literal["word", "position", "type"]
HookPlace: TypeAlias = "EmbeddingTable | int"
"""Where a pass can be entered: the output of one of the embedding tables, or the input x^l of layer l (of a model whose
layers are not known, 0 stands for the word embeddings)."""
Change = Callable[[Tensor], Tensor]


@contextmanager
def record_embeddings(network: Network, recorder: Recorder | None, *, leaf: bool) -> Iterator[None]:
    """Make the word embeddings the leaf of the autograd path, and record them."""

    seen = 0

    def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        nonlocal seen
        seen += 1
        if seen > 1 and not network.sees_inside:
            raise UnsupportedError(
                f"A '{network.config.model_type}' model looks its words up more than once in one pass, so it has no "
                "single embedding per word that could be explained."
            )
        if not isinstance(output, Tensor):
            raise UnsupportedError(
                f"The table of word embeddings of this '{network.config.model_type}' model returns more than vectors, "
                "so Sightline cannot explain it."
            )
        if leaf:
            output = output.detach().requires_grad_()
        if recorder is not None:
            recorder.embeddings = output
        return output

    with network.tables["word"].register_forward_hook(hook):
        yield


def replace_at(network: Network, place: HookPlace, given: Tensor) -> AbstractContextManager[None]:
    """Replace what the module computes at `place` with `given` (B, n, ·)."""
    return change_at(network, place, lambda computed: _lay_over(computed, given))


def change_at(network: Network, place: HookPlace, change: Change) -> AbstractContextManager[None]:
    """Replace the tensor x (B, N, ·) that the module computes at `place` with change(x)."""
    if not isinstance(place, int):
        return _change_table(network.tables[place], change)
    if not network.sees_inside:
        if place != 0:
            raise UnsupportedError(f"The layers of a '{network.config.model_type}' model are not known.")
        return _change_table(network.tables["word"], change)
    encoder = network.banded_encoder
    return _change_input(network.layers, place, change) if encoder is None else encoder.change_input(place, change)


@contextmanager
def _change_table(table: nn.Module, change: Change) -> Iterator[None]:
    with table.register_forward_hook(lambda _module, _inputs, output: change(output)):
        yield


@contextmanager
def _change_input(layers: list[nn.Module], layer: int, change: Change) -> Iterator[None]:
    runs = 0

    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal runs
        runs += 1
        if runs != layer + 1:
            return None
        hidden, put = _split_hidden(args, kwargs)
        return put(change(hidden))

    with ExitStack() as stack:
        for module in _distinct(layers):
            stack.enter_context(module.register_forward_pre_hook(hook, with_kwargs=True))
        yield


@contextmanager
def step_layers(network: Network, step: Step) -> Iterator[None]:
    """Replace the output of every layer with step(number of the layer, the layer as a function, x)."""
    encoder = network.banded_encoder
    if encoder is not None:
        with encoder.step_layers(step):
            yield
        return
    runs = 0

    def wrap(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal runs
            hidden, put = _split_hidden(args, kwargs)
            others: tuple[Any, ...] | None = None

            def compute(x: Tensor) -> Tensor:
                nonlocal others
                new_args, new_kwargs = put(x)
                output = forward(*new_args, **new_kwargs)
                if not isinstance(output, tuple):
                    return cast(Tensor, output)
                others = output[1:]
                return cast(Tensor, output[0])

            number, runs = runs, runs + 1
            output = step(number, compute, hidden)
            return output if others is None else (output, *others)

        return run

    modules = _distinct(network.layers)
    for module in modules:
        module.forward = wrap(module.forward)
    try:
        yield
    finally:
        for module in modules:
            del module.forward  # uncovers the method of the class


@contextmanager
def cut_last_layer(network: Network) -> Iterator[None]:
    """If a classifier reads the first token only, compute only that token after the attention of the last layer.

    That saves three quarters of the layer's products: its output projection and its feed-forward block.
    """
    block = network.family.row_wise_block
    classifier = network.task.name == "sequence_classification" and not network.has_custom_head
    if block is None or network.banded or not classifier:
        yield
        return

    def cut(_module: nn.Module, args: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        mixed, residual = args
        return mixed[:, :1], residual[:, :1]

    with network.layers[-1].get_submodule(block).register_forward_pre_hook(cut):
        yield


@contextmanager
def record_layers(network: Network, recorder: Recorder) -> Iterator[None]:
    """Record x^0 … x^L; both Longformer encoders, the banded one and the library's, do so in their own way."""
    if network.banded:
        with nullcontext() if network.banded_encoder is not None else observe_library(network.module):
            yield
        return
    recorder.layout = Padded(recorder.lengths)
    if not network.sees_inside:
        yield
        return
    last: list[Tensor] = []

    def before(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder.hidden.append(_split_hidden(args, kwargs)[0])

    def after(_module: nn.Module, _inputs: Any, output: Any) -> None:
        last[:] = [output[0] if isinstance(output, tuple) else output]

    with ExitStack() as stack:
        for layer in _distinct(network.layers):
            stack.enter_context(layer.register_forward_pre_hook(before, with_kwargs=True))
            stack.enter_context(layer.register_forward_hook(after))
        yield
    recorder.hidden.extend(output for output in last if output.shape[1] == recorder.hidden[0].shape[1])  # all rows


@contextmanager
def record_blocks(network: Network, recorder: Recorder) -> Iterator[None]:
    """Record the output of every attention block and the input of the second LayerNorm of every layer."""
    family = network.family
    if family.output_norm is None:
        with _record_parallel_blocks(network, recorder):
            yield
        return
    outputs: list[Tensor] = []
    inputs: list[list[Tensor]] = []

    def begin(_module: nn.Module, _args: Any, output: Tensor) -> None:
        outputs.append(output.detach())
        inputs.append([])

    def receive(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
        # The banded encoder runs the feed-forward block in chunks of rows.
        inputs[-1].append(args[0].detach())

    with ExitStack() as stack:
        for layer in _distinct(network.layers):
            first, second = (layer.get_submodule(path) for path in (family.attention_norm, family.output_norm))
            stack.enter_context(first.register_forward_hook(begin))
            stack.enter_context(second.register_forward_pre_hook(receive))
        yield
    recorder.second_inputs = [chunks[0] if len(chunks) == 1 else torch.cat(chunks) for chunks in inputs]
    recorder.block_outputs = recorder.second_inputs if family.pre_norm else outputs


@contextmanager
def _record_parallel_blocks(network: Network, recorder: Recorder) -> Iterator[None]:
    """Record y = x + attention(x) where no module receives it: the feed-forward block runs beside the attention."""

    def receive(_module: nn.Module, _args: Any, output: Tensor) -> None:
        recorder.second_inputs.append(recorder.hidden[-1].detach() + output.detach())

    with ExitStack() as stack:
        for layer in _distinct(network.layers):
            projection = layer.get_submodule(network.family.attention_output)
            stack.enter_context(projection.register_forward_hook(receive))
        yield
    recorder.block_outputs = recorder.second_inputs


def _distinct(layers: list[nn.Module]) -> list[nn.Module]:
    return list({id(layer): layer for layer in layers}.values())


def _lay_over(original: Tensor, given: Tensor) -> Tensor:
    """Return `original` (B, N >= n, ·) with `given` (B, n, ·) as its first n tokens; the rest is padding."""
    if given.shape[1] == original.shape[1]:
        return given
    return torch.cat((given, original[:, given.shape[1] :].expand(given.shape[0], -1, -1)), dim=1)


def _split_hidden(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
    """Return the hidden states from a layer's arguments, and a function that puts others in their place."""
    if args:
        return args[0], lambda new: ((new, *args[1:]), kwargs)
    return kwargs["hidden_states"], lambda new: (args, {**kwargs, "hidden_states": new})
