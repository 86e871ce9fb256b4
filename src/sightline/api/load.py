"""`load`: from a folder, a hub id, an object or a function to a `Model`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from sightline import builtin
from sightline.api.model import Model
from sightline.errors import OptionError
from sightline.models import load_network
from sightline.models.functions import BATCH_SIZE, Output, is_function, load_function
from sightline.models.loading import AttentionKind
from sightline.models.onnx_folders import OnnxClassifier, find_graph
from sightline.models.user_modules import unwrap
from sightline.settings.values import refuse_unused
from sightline.text.documents import DocumentText, plain_text_of


def load(
    source: str | Path | Any | None = None,
    task: str | None = None,
    tokenizer: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    *,
    attention: AttentionKind = "banded",
    allow_pickle: bool = False,
    allow_random: bool = False,
    similar_to: str | DocumentText | None = None,
    labels: Sequence[str] | None = None,
    embeddings: str | None = None,
    output: Output = "probabilities",
    multi_label: bool = False,
    batch_size: int | None = None,
    concurrency: int = 1,
    cache: str | Path | None = None,
    budget: int | None = None,
    announce: Callable[[str], None] | None = None,
) -> Model:
    """Load a model from a folder, a hub id, an object or a function; without a source, the built-in one.

    source: a folder, a hub id (`owner/name` or `hf://name`), a transformers model, or a pipeline with its tokenizer. Of
    the settings of a pipeline, `truncation` and `max_length` are followed; a warning names others that matter. An
    object is not changed: a module of our own shares its weights, and sees them when they are updated in place.
    task: inferred from the architecture unless given, for example "sequence_classification".
    tokenizer: an object, a folder or a hub id; by default the model's own.
    device: where the model runs, for example "cpu" or "cuda:0".
    dtype: "float32", "float64", or "float16" and "bfloat16" for half the memory. The error that half precision brings
    to the logits is measured and becomes part of the provenance.
    attention: for Longformer, "banded" (exact and fast) or "library" (that of transformers).
    allow_pickle: also read weights that are pickled; only for sources you trust.
    allow_random: accept missing weights, and mark every result as coming from an untrained model.
    similar_to: explain how similar a document is to this text, for a sentence-transformers folder without a classifier;
    `model.similar_to(text)` compares with another one.

    A torch module with a tokenizer that returns logits (documents, classes), as a tensor, the first of a tuple or
    `.logits`, is a model: with all methods if a model of transformers of a known family is inside, else with those that
    need embeddings and logits only.
    labels: the names of the classes, in the order of the numbers; also for a sentence-transformers folder whose last
    linear map is a classifier that its files do not name.
    embeddings: where the module looks words up, for example "encoder.embed"; found unless there are several tables.
    output: "values" for a module that returns one number, which `labels` names.

    A folder whose only weights are an ONNX graph, or one of its graphs by its path, is run by onnxruntime (the extra
    `onnx`) like a function; `labels` and `multi_label` say what its config leaves open.

    A function that takes a list of texts and returns one row of numbers per text is a model as well, and so is a
    classifier of scikit-learn that reads texts (a pipeline with `predict_proba`) and anything that answers like a
    pipeline. Its units are words, and the methods are those that change the text. For pairs it gets (text, pair).
    labels: as above; a classifier of scikit-learn knows them.
    output: "probabilities"; "logits"; or "values" for one number, which `labels` names.
    multi_label: whether labels are independent, so that probabilities need not add up to 1.
    batch_size: the most texts per call, 32 by default.
    concurrency: calls that may run at once, each in a thread.
    cache: a file that keeps every answer by text, so that no text is sent twice.
    budget: the most texts that may be sent in all. What an explanation needs is counted before anything is sent, and
    refused if it is too much.
    announce: called with that count in a sentence, for example `print`.

    Examples
    --------
    >>> import sightline as sl
    >>> model = sl.load()
    >>> model.predict("The compiler checks the types of the program.").label
    'programming languages'

    A function that answers with probabilities is a model as well:

    >>> def polite(texts):
    ...     return [[0.1, 0.9] if "please" in text else [0.8, 0.2] for text in texts]
    >>> sl.load(polite, labels=["rude", "polite"]).predict("Sit down, please.").label
    'polite'
    """
    of_functions: dict[str, Any] = {
        "batch_size": batch_size,
        "concurrency": concurrency,
        "cache": cache,
        "budget": budget,
        "announce": announce,
    }
    of_networks: dict[str, Any] = {
        "task": task,
        "tokenizer": tokenizer,
        "device": device,
        "dtype": dtype,
        "similar_to": plain_text_of(similar_to),
        "embeddings": embeddings,
        "attention": attention,
        "allow_pickle": allow_pickle,
        "allow_random": allow_random,
    }
    of_classes = {"output": output, "multi_label": multi_label}
    graph = find_graph(source)
    if graph is not None:
        refuse_unused(_given({"output": output}), "is what this model says itself: leave it out.")
        if task not in (None, "sequence_classification"):
            raise OptionError(f"An ONNX model is read as a classifier of texts, not for {task}: leave out task=.")
        source = OnnxClassifier(graph, tokenizer, labels, multi_label=multi_label)
        of_networks |= {"task": None, "tokenizer": None}
        labels, multi_label = source.labels, source.multi_label
        output = "values" if source.values else "logits"
    if source is not None and is_function(source):
        refuse_unused(_given(of_networks), "has no effect on a function: leave it out.")
        of_functions["batch_size"] = BATCH_SIZE if batch_size is None else batch_size
        return Model(load_function(source, labels, output=output, multi_label=multi_label, **of_functions))
    refuse_unused(_given(of_functions), "belongs to a function that is loaded as a model: leave it out.")
    source, of_networks["tokenizer"] = unwrap(source, tokenizer)
    foreign = isinstance(source, torch.nn.Module) and not isinstance(source, PreTrainedModel)
    if not foreign:
        named = None if isinstance(source, str | Path) else labels  # of a folder, its files decide
        refused = _given({"labels": named, **of_classes, "embeddings": embeddings})
        refuse_unused(refused, "is what this model says itself: leave it out.")
    elif not labels or isinstance(labels, str):
        raise OptionError("A module does not say what its classes are called: give labels=['no', 'yes'].")
    if source is None:
        of_folders = {"allow_pickle": allow_pickle, "allow_random": allow_random}
        refuse_unused(of_folders, "has no effect on the built-in model: name another one, or leave it out.")
    network, tokenizer = load_network(
        builtin.model_folder() if source is None else source,
        labels=labels,
        multi_label=multi_label,
        regression=output == "values",
        **of_networks,
    )
    if source is None:
        network.name = builtin.NAME
    model = Model(network, tokenizer)
    if not network.sees_inside:
        warnings.warn(
            f"Sightline knows only the embeddings and logits of '{network.config.model_type}' models, so methods that "
            f"need layers or attention are not offered: {', '.join(model.methods_not_offered)}.",
            stacklevel=2,
        )
    return model


def _given(arguments: Mapping[str, Any]) -> dict[str, bool]:
    """Return the names of the arguments of `load` that are not their defaults, each with True."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(load).parameters.items()}
    return {
        name: True
        for name, value in arguments.items()
        if value is not defaults[name] and not (isinstance(value, str | int) and value == defaults[name])
    }
