"""Observe attention that a module returns: families whose code does not call transformers' attention interface.

DeBERTa and MPNet compute A = softmax(scores) in their self-attention module and return it when they are asked
for it (`output_attentions`). Hooks ask for it while a recorder is active, and collect three tensors of the same run,
all on the autograd path:

    A (B, H, N, N)      the second output of the self-attention module
    v (B, N, H·e)       the output of its value projection
    o (B, N, H·e)       Σ_j A_ij v_j, the input of the output projection

The scores may be anything: in DeBERTa they are sums of content-to-content, content-to-position and position-to-content
products (He et al. 2021). The mixing of values by A is the same as everywhere, and that is all that methods use. The
model's own code runs, so there is nothing to be verified but that A · v = o, which a test does.

The hooks stay on the module: a layer that runs again in a backward pass is observed as well. They keep no state
(copies of a module share them); what is collected belongs to the active recorder.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn

from sightline.models.families import Family
from sightline.models.observe import DenseRecord
from sightline.models.recording import Recorder, active_recorder

MARK = "sightline_observed"


def observe_returned(layers: list[nn.Module], family: Family) -> None:
    """Add the hooks to every layer (idempotent)."""
    assert family.attention_module is not None
    for layer in layers:
        attention: Any = layer.get_submodule(family.attention_module)
        if getattr(attention, MARK, False):
            continue
        setattr(attention, MARK, True)
        attention.register_forward_pre_hook(_ask_for_weights, with_kwargs=True)
        attention.register_forward_hook(_take_weights)
        layer.get_submodule(family.value).register_forward_hook(_take_value)
        layer.get_submodule(family.attention_output).register_forward_pre_hook(_take_output)


def _observing() -> Recorder | None:
    recorder = active_recorder()
    return recorder if recorder is not None and recorder.attention else None


def _ask_for_weights(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    signature = inspect.signature(module.forward)
    if _observing() is None or "output_attentions" not in signature.parameters:
        return None
    call = signature.bind(*args, **kwargs)
    call.arguments["output_attentions"] = True
    return call.args, call.kwargs


def _take_weights(_module: nn.Module, _args: Any, output: tuple[Tensor, ...]) -> None:
    if len(output) > 1:  # not asked for otherwise
        _take("weights", output[1])


def _take_value(_module: nn.Module, _args: Any, output: Tensor) -> None:
    _take("value", output)


def _take_output(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
    _take("output", args[0])


def _take(name: str, tensor: Tensor) -> None:
    """Collect one of the three tensors; with the last of them, record the layer."""
    recorder = _observing()
    if recorder is None:
        return
    recorder.pending[name] = tensor
    if len(recorder.pending) == 3:
        weights, value, output = (recorder.pending.pop(part) for part in ("weights", "value", "output"))
        value = value.view(*value.shape[:2], weights.shape[1], -1).transpose(1, 2)
        recorder.layers.append(DenseRecord(weights, value, output, None, recorder.lengths))
