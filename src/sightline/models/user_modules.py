"""Modules that users hand over: what wraps a model of transformers is unwrapped, and any other module is a classifier.

`ModuleClassifier` calls a module of unknown make like a sequence classifier of transformers. If a model of transformers
of a known family is inside (an encoder under a home-made head), its layers and attention are observed; otherwise only
the table of word embeddings and the logits are known. Documents are never padded: whether the head reads the attention
mask is not known.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from sightline.errors import ModelError, OptionError, UnsupportedError
from sightline.models.families import FAMILIES, Family, unseen_family

_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")


def unwrap(source: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Return the model inside an object of torch.compile, PEFT or sentence-transformers, and the tokenizer it brings.

    Raises UnsupportedError for a SentenceTransformer, which has to be saved, for learned prompts, and for quantised or
    divided models.
    """
    source = getattr(source, "_orig_mod", source)  # torch.compile
    if hasattr(source, "peft_config") and hasattr(source, "get_base_model"):
        if any(getattr(config, "is_prompt_learning", False) for config in source.peft_config.values()):
            raise UnsupportedError(
                "This PEFT model puts learned vectors before the text (prompt or prefix tuning), which are not part of "
                "the model inside: give a function that calls it, sl.load(function, labels=[...])."
            )
        source = source.get_base_model()
    names = {base.__name__ for base in type(source).__mro__}
    if "CrossEncoder" in names:
        return unwrap(source.model, source.tokenizer if tokenizer is None else tokenizer)
    if "SentenceTransformer" in names:
        raise UnsupportedError(
            "A SentenceTransformer object cannot be explained as it is: save it (model.save('folder')) and load the "
            "folder, with similar_to= if it has no classifier."
        )
    if isinstance(source, nn.Module):
        _refuse_unusual_weights(source)
    return source, tokenizer


def _refuse_unusual_weights(module: nn.Module) -> None:
    if len(set(getattr(module, "hf_device_map", {}).values())) > 1:
        raise UnsupportedError(
            "This model is divided among several devices (device_map): load it on one device, or give a function that "
            "calls it, sl.load(function, labels=[...])."
        )
    quantised = getattr(getattr(module, "config", None), "quantization_config", None) is not None
    if quantised or any(type(part).__module__.startswith("torch.ao.nn.quantized") for part in module.modules()):
        raise UnsupportedError(
            "This model is quantised, and its weights have no gradients: load the original one, or give a function "
            "that calls it, sl.load(function, labels=[...])."
        )


class ModuleConfig(PretrainedConfig):  # type: ignore[misc]
    """The config of a module that has none."""

    model_type = "module"


class ModuleClassifier(nn.Module):
    """A module of unknown make, called like a sequence classifier of transformers."""

    def __init__(
        self, module: nn.Module, labels: Sequence[str], embeddings: str | None, *, multi_label: bool, regression: bool
    ) -> None:
        super().__init__()
        self.inner = module
        self.labels = len(labels)
        bodies = [part for part in module.modules() if isinstance(part, PreTrainedModel)]
        self.has_body = bool(bodies) and bodies[0].config.model_type in FAMILIES
        self._table = _find_table(module, embeddings, bodies)
        table: Any = module.get_submodule(self._table)
        if bodies:
            self.config, self._body = bodies[0].config, _path_of(module, bodies[0].base_model)
        else:
            padding = getattr(table, "padding_idx", None)
            width = {"vocab_size": len(table.weight), "hidden_size": table.weight.shape[1]}
            self.config, self._body = ModuleConfig(**width, pad_token_id=padding), ""
        self.config.id2label = {number: str(label) for number, label in enumerate(labels)}
        kind = "regression" if regression else "multi_label_classification" if multi_label else None
        self.config.problem_type = kind or "single_label_classification"
        parameters = inspect.signature(module.forward).parameters
        self._by_name = "input_ids" in parameters
        self.accepted_inputs = frozenset({"input_ids", *(name for name in _INPUTS if name in parameters)})

    @property
    def family(self) -> Family:
        """The facts of the model of transformers inside, none if there is no such model or its family is not known."""
        return FAMILIES[self.config.model_type] if self.has_body else unseen_family("module")

    @property
    def base_model(self) -> Any:
        """The body of the model of transformers inside; the whole module without one."""
        return self.inner.get_submodule(self._body)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.inner.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return next(parameter.dtype for parameter in self.inner.parameters() if parameter.is_floating_point())

    def get_input_embeddings(self) -> nn.Module:
        """Return the table of word embeddings."""
        return self.inner.get_submodule(self._table)

    def set_attn_implementation(self, name: str) -> None:
        """Let the model of transformers inside use another attention."""
        body: Any = self.base_model
        body.set_attn_implementation(name)

    def forward(self, input_ids: Tensor, **inputs: Any) -> SequenceClassifierOutput:
        """Return the logits (B, C) of B documents, whatever form the module returns them in."""
        known = {name: tensor for name, tensor in inputs.items() if name in self.accepted_inputs}
        outputs = self.inner(input_ids=input_ids, **known) if self._by_name else self.inner(input_ids, **known)
        return SequenceClassifierOutput(logits=self._read(outputs, len(input_ids)))

    def _read(self, outputs: Any, documents: int) -> Tensor:
        if isinstance(outputs, Mapping):
            outputs = outputs.get("logits", next(iter(outputs.values()), None))
        elif hasattr(outputs, "logits"):
            outputs = outputs.logits
        elif isinstance(outputs, tuple | list) and outputs:
            outputs = outputs[0]
        if not isinstance(outputs, Tensor) or outputs.ndim not in (1, 2) or len(outputs) != documents:
            shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise ModelError(
                f"The module must return logits (documents, {self.labels}), as a tensor, the first of a tuple, or "
                f".logits; it returned {shape} for {documents} documents."
            )
        logits = outputs[:, None] if outputs.ndim == 1 else outputs
        if self.labels == 2 and logits.shape[1] == 1:  # the logit of the second class against the first
            logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
        return logits


def _path_of(module: nn.Module, part: Any) -> str:
    return next(str(path) for path, found in module.named_modules() if found is part)


def _find_table(module: Any, named: str | None, bodies: Sequence[Any]) -> str:
    """Return the path of the table of word embeddings: the one named, the library's, or the only one there is."""
    tables: list[str] = [path for path, part in module.named_modules() if isinstance(part, nn.Embedding)]
    if named is not None:
        try:
            found = module.get_submodule(named)
        except AttributeError:
            found = None
        if not isinstance(getattr(found, "weight", None), Tensor):
            raise OptionError(
                f"There is no table of embeddings '{named}' in this module. Found: {', '.join(tables) or 'none'}."
            )
        return named
    if bodies:
        return _path_of(module, bodies[0].get_input_embeddings())
    own = getattr(module, "get_input_embeddings", None)
    if callable(own):
        return _path_of(module, own())
    if len(tables) != 1:
        listed = f" ({', '.join(tables)})" if tables else ""
        raise OptionError(
            f"This module has {len(tables)} tables of embeddings{listed}: name the one that words are looked up in, "
            "for example embeddings='encoder.embed'."
        )
    return tables[0]
