"""Models of sentence-transformers: their folders, read as data, and the classifier that is made of them.

`modules.json` lists the modules that run one after the other, each in a folder of its own:

    [Transformer  the body: config.json and weights, here or in 0_Transformer
     Pooling      how the vectors of the tokens become one: 1_Pooling/config.json
     Dense        a linear map and an activation, any number of them: 2_Dense/config.json and model.safetensors
     Normalize]   divides the vector by its length

The names of classes in these files only choose among the four kinds: no code is looked up by name. All paths are names
of folders inside the folder, and weights are safetensors.

The classifier is made of a Transformer, a pooling of its last layer and linear maps. With x_i (d,) the last layer's
vectors of the n tokens of a document, its vector is one of, or several joined:

    cls x_0 · mean Σ_i x_i / n · mean_sqrt_len Σ_i x_i / √n · max (by component) · weightedmean Σ_i i·x_i / Σ_i i
    (i from 1) · lasttoken x_{n-1}

then linear maps with activations, and at the end perhaps a division by its length. The logits are that vector; or, if a
reference text is given, the one logit is the cosine of the two texts' vectors.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from sightline.errors import InputError, ModelError, OptionError, UnsupportedError
from sightline.files.foreign import quote, read_json, read_object, regular_file
from sightline.models.module_building import as_model_error
from sightline.models.weights import SINGLE_FILE, Checkpoint, read_header, read_weights
from sightline.text import encode_text

if TYPE_CHECKING:
    from sightline.models.network import Network

MODULES_FILE = "modules.json"
CONFIG_BYTES = 1_000_000
MAX_MODULES = 16
FOLDER = re.compile(r"[\w\-]{1,64}")
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken")
"""Ways to pool, in the order in which their vectors are joined."""
ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    "Identity": nn.Identity,
    "Tanh": nn.Tanh,
    "ReLU": nn.ReLU,
    "GELU": nn.GELU,
    "Sigmoid": nn.Sigmoid,
}
OF_PROBABILITIES = ("Sigmoid", "Softmax")
"""Activations that turn the logits of a classifier into probabilities; only at its end."""
MOST_CLASSES = 32
"""Outputs of a last linear map up to which it is taken for a classifier; vectors that are compared are longer."""


@dataclass(frozen=True)
class DenseFacts:
    """One linear map with its activation."""

    weight: Tensor
    """(out, in)."""
    bias: Tensor | None
    activation: str


@dataclass(frozen=True)
class SentenceFolder:
    """What a sentence-transformers folder describes."""

    body: Path
    """The folder of the Transformer."""
    poolings: tuple[str, ...]
    dense: tuple[DenseFacts, ...]
    normalises: bool
    max_tokens: int | None
    """The length to which sentence-transformers truncates."""


def read_sentence_folder(folder: Path) -> SentenceFolder | None:
    """Return what `modules.json` in `folder` describes; None if there is none, or only a classifier of transformers.

    The latter is how sentence-transformers saves a CrossEncoder.
    """
    path = regular_file(folder, MODULES_FILE, ModelError)
    if path is None:
        return None
    kinds = _read_modules(path, folder)
    if kinds == [("Transformer", "")]:
        return None
    names = [kind for kind, _ in kinds]
    inner = [kind for kind in names[2:] if kind != "Dense"]
    if names[:2] != ["Transformer", "Pooling"] or inner not in ([], ["Normalize"]) or "Normalize" in names[2:-1]:
        raise UnsupportedError(
            f"The sentence-transformers model in '{folder}' has the modules {', '.join(names)}; Sightline runs a "
            "Transformer, a Pooling, any number of Dense modules and at most one Normalize at the end."
        )
    limits = _read_settings(folder, kinds[0][1], "sentence_bert_config.json", optional=True)
    longest = limits.get("max_seq_length")
    return SentenceFolder(
        body=folder / kinds[0][1],
        poolings=_read_poolings(_read_settings(folder, kinds[1][1], "config.json"), folder),
        dense=tuple(_read_dense(folder, place) for kind, place in kinds if kind == "Dense"),
        normalises=names[-1] == "Normalize",
        max_tokens=longest if isinstance(longest, int) and not isinstance(longest, bool) and longest > 0 else None,
    )


def _read_modules(path: Path, folder: Path) -> list[tuple[str, str]]:
    """Return kind and folder of every module."""
    content = read_json(path, limit=CONFIG_BYTES, error=ModelError, name=f"The list of modules of '{folder}'")
    if not isinstance(content, list) or not 1 <= len(content) <= MAX_MODULES:
        raise ModelError(f"'{MODULES_FILE}' in '{folder}' is not a list of 1 to {MAX_MODULES} modules.")
    modules = []
    for entry in content:
        kind, place = (entry.get("type"), entry.get("path")) if isinstance(entry, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(place, str) or (place and not FOLDER.fullmatch(place)):
            raise ModelError(
                f"'{MODULES_FILE}' in '{folder}' has an entry without a type, or whose path is not the name of a "
                "folder inside it."
            )
        modules.append((kind.rpartition(".")[2], place))
    return modules


def _read_settings(folder: Path, place: str, name: str, *, optional: bool = False) -> dict[str, Any]:
    content = read_object(folder, f"{place}/{name}" if place else name, limit=CONFIG_BYTES, error=ModelError)
    if content is None and not optional:
        raise ModelError(f"The folder '{folder}' has no '{place}/{name}'.")
    return content or {}


def _read_poolings(settings: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    modes = settings.get("pooling_mode")
    if modes is not None:
        listed = modes if isinstance(modes, list) else [modes]
    else:
        names = {name: "pooling_mode_" + {"cls": "cls_token"}.get(name, f"{name}_tokens") for name in POOLINGS}
        names["lasttoken"] = "pooling_mode_lasttoken"
        listed = [name for name, key in names.items() if settings.get(key) is True]
    if not listed or any(mode not in POOLINGS for mode in listed):
        raise UnsupportedError(
            f"The pooling of the sentence-transformers model in '{folder}' is not one of {', '.join(POOLINGS)}."
        )
    return tuple(name for name in POOLINGS if name in listed)


def _read_dense(folder: Path, place: str) -> DenseFacts:
    settings = _read_settings(folder, place, "config.json")
    activation = str(settings.get("activation_function", "Tanh")).rpartition(".")[2]
    if activation not in {*ACTIVATIONS, *OF_PROBABILITIES}:
        known = ", ".join(dict.fromkeys((*ACTIVATIONS, *OF_PROBABILITIES)))
        raise UnsupportedError(
            f"The activation '{quote(activation)}' of '{place}' in '{folder}' is not one of {known}."
        )
    weights = regular_file(folder, f"{place}/{SINGLE_FILE}", ModelError)
    if weights is None:
        raise ModelError(
            f"'{place}' in '{folder}' has no {SINGLE_FILE}; weights of a Dense module are read from safetensors only."
        )
    tensors = read_weights(Checkpoint((weights,), read_header(weights)))
    weight, bias = tensors.get("linear.weight"), tensors.get("linear.bias")
    if weight is None or weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise ModelError(f"The weights of '{place}' in '{folder}' are not those of a linear map.")
    if not all(bool(tensor.isfinite().all()) for tensor in (weight, bias) if tensor is not None):
        raise ModelError(f"The weights of '{place}' in '{folder}' are damaged: they hold NaN or infinity.")
    return DenseFacts(weight, bias, activation)


def find_classes(facts: SentenceFolder, config: Any, labels: Sequence[str] | None) -> SentenceFolder | None:
    """Return the folder as a classifier, its classes written to `config`; None if it ends in a vector instead.

    The outputs of the last linear map are classes if there are as many as `labels` (given) or names in the config, or
    too few to be a vector to compare. An activation that turns them into probabilities is left out: logits are wanted.
    """
    if not facts.dense or facts.normalises:
        return None
    last, named = facts.dense[-1], [str(config.id2label[number]) for number in range(config.num_labels)]
    width = len(last.weight)
    if labels is not None and len(labels) != width:
        raise OptionError(f"The model scores {width:,} classes, and labels= names {len(labels):,}.")
    if labels is None and width not in (len(named), *range(MOST_CLASSES + 1)):
        return None
    numbered = named if width == len(named) else [f"LABEL_{number}" for number in range(width)]
    config.id2label = dict(enumerate(map(str, labels or numbered)))
    config.problem_type = "single_label_classification" if width > 1 else "regression"
    if last.activation == "Sigmoid":
        config.problem_type = "multi_label_classification"
    if last.activation in OF_PROBABILITIES:
        facts = replace(facts, dense=(*facts.dense[:-1], replace(last, activation="Identity")))
    return facts


class PooledClassifier(nn.Module):
    """The modules of a sentence-transformers folder, called like a sequence classifier of transformers."""

    reference: Tensor | None
    """The vector of the reference text, of length 1; None if the logits are those of a classifier."""

    def __init__(self, body: Any, facts: SentenceFolder) -> None:
        super().__init__()
        self.body = body
        self.poolings = facts.poolings
        self.normalises = facts.normalises
        layers: list[nn.Module] = []
        for dense in facts.dense:
            outputs, inputs = dense.weight.shape
            linear = nn.Linear(inputs, outputs, bias=dense.bias is not None)
            linear.load_state_dict({"weight": dense.weight} | ({} if dense.bias is None else {"bias": dense.bias}))
            if dense.activation not in ACTIVATIONS:
                raise UnsupportedError(f"The activation '{dense.activation}' is only read at the end of a classifier.")
            layers += [linear, ACTIVATIONS[dense.activation]()]
        self.head = nn.Sequential(*layers).to(body.dtype)
        self.register_buffer("reference", None)
        self.accepted_inputs = frozenset(inspect.signature(body.forward).parameters)

    @property
    def config(self) -> Any:
        """The config of the body."""
        return self.body.config

    @property
    def base_model(self) -> Any:
        """The body."""
        return self.body

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = self.body.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        dtype: torch.dtype = self.body.dtype
        return dtype

    @property
    def without_relevance(self) -> str | None:
        """Why relevance propagation does not apply, as the rest of a sentence; None if it does."""
        if self.normalises or self.reference is not None:
            return "has no rule for the division of a vector by its length, with which this model ends"
        return "has no rule for max pooling" if "max" in self.poolings else None

    def get_input_embeddings(self) -> Any:
        """Return the table of word embeddings."""
        return self.body.get_input_embeddings()

    def forward(self, attention_mask: Tensor | None = None, **inputs: Any) -> SequenceClassifierOutput:
        """Return the logits (B, C) of B documents."""
        if attention_mask is not None and "attention_mask" in self.accepted_inputs:
            inputs["attention_mask"] = attention_mask
        hidden = self.body(**inputs)[0]
        mask = torch.ones(hidden.shape[:2], device=hidden.device) if attention_mask is None else attention_mask
        pooled = torch.cat([_pool(mode, hidden, mask.to(hidden)) for mode in self.poolings], dim=-1)
        vector = self.head(pooled)
        if self.normalises or self.reference is not None:
            vector = nn.functional.normalize(vector, dim=-1)
        return SequenceClassifierOutput(logits=vector if self.reference is None else vector @ self.reference[:, None])


def _pool(mode: str, hidden: Tensor, mask: Tensor) -> Tensor:
    """Return (B, d) from (B, N, d); mask (B, N) is 1 for the tokens of a document and 0 for padding."""
    if mode == "cls":
        return hidden[:, 0]
    counts = mask.sum(dim=1, keepdim=True).clamp(min=1)
    if mode == "max":
        return hidden.masked_fill(mask[:, :, None] == 0, torch.finfo(hidden.dtype).min).max(dim=1).values
    if mode == "lasttoken":
        last = (mask * torch.arange(mask.shape[1], device=mask.device)).argmax(dim=1)
        return hidden[torch.arange(len(hidden), device=mask.device), last]
    if mode == "weightedmean":
        weights = mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)
        return (hidden * weights[:, :, None]).sum(dim=1) / weights.sum(dim=1, keepdim=True).clamp(min=1)
    total = (hidden * mask[:, :, None]).sum(dim=1)
    return total / (counts if mode == "mean" else counts.sqrt())


def compare_with(network: Network, text: str) -> Network:
    """Return a network on the same weights that compares documents with another text."""
    if network.reference_text is None:
        raise OptionError("This model compares no texts: load a sentence-transformers folder with similar_to=.")
    other = network.twin()
    other.module.reference = None
    set_reference(other, network.tokenizer, text)
    return other


def set_reference(network: Network, tokenizer: Any, text: str) -> None:
    """Make the logit the cosine of the document's vector and that of a reference text."""
    module = network.module
    if not isinstance(module, PooledClassifier):
        raise OptionError(
            "similar_to= (--similar-to) goes with a sentence-transformers folder, whose model turns a text "
            "into a vector."
        )
    if tokenizer is None:
        raise ModelError("The model has no tokenizer to read the text of similar_to=; give one with tokenizer=.")
    reference = encode_text(tokenizer, text, max_tokens=network.max_tokens)
    if reference.dropped:
        raise InputError(
            f"The text of similar_to= has {len(reference) + reference.dropped} tokens, the model reads "
            f"{network.max_tokens} at most: shorten it."
        )
    with as_model_error(f"The model '{network.name}' cannot be run"):
        (vector,) = network.run([reference])
    network.reference_text = text
    module.reference = torch.nn.functional.normalize(vector, dim=-1)
