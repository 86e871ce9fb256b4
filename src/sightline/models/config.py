"""config.json read as data: what it may say, within which ranges, before transformers sees any of it.

One rule holds for all types of models. Only settings that transformers' own configuration class of the type has (and a
few that its code reads besides) are handed on. Their values must have the type that the class declares: numbers within
bounds, true or false, short plain names, and lists or flat objects of these, so that nothing can name a file, an
address or code. `SPECIAL` lists settings whose values are checked further. Everything else in the file (paths,
versions, output formats, names of kernels to fetch) never reaches the library.

Settings that change no number are dropped. A setting that neither transformers nor Sightline knows belongs to another
program, or is a mistake: it is left out, and a warning names it. One that only transformers knows would make a family
that Sightline looks inside another model than it is taken for: unless it has its default value, it is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import torch
from transformers import CONFIG_MAPPING, GenerationConfig

from sightline.attention.projections import Projection
from sightline.errors import ModelError, NoModelError, OptionError, UnsupportedError
from sightline.files.foreign import quote, read_object
from sightline.models.families import family_of
from sightline.models.model_types import check_inputs_of_type
from sightline.models.weights import INDEX_FILE, SINGLE_FILE, describe_other_weights, has_weights
from sightline.settings.values import describe_type, fits

CONFIG_BYTES = 32_000_000
"""Largest config.json: room for the names of several hundred thousand labels."""

MAX_LAYERS = 512
"""Largest number of anything that is called a layer."""
MAX_ROWS = 16_777_216
"""Largest whole number: rows of a table. What a model needs is compared with its weights as well."""
MAX_LABELS = 1_000_000
MAX_ENTRIES = 512
"""Longest list or object."""
MAX_WINDOW = 4_096
"""Widest attention window of Longformer, both sides together: the library pads every text to a multiple of it."""
PLAIN_NAME = re.compile(r"[\w.|\- ]{1,64}")

_ROTATIONS = ("default", "linear", "llama3")
"""Rotary positions that are the same for texts of any length; others ("dynamic", "longrope") change with the text."""
_LLAMA3_ROTATION = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
_LAYER_KINDS = ("full_attention", "sliding_attention")
_NUMBER_TYPES = ("auto", "float16", "bfloat16", "float32", "float64")

_OURS = """output_hidden_states output_attentions return_dict dtype transformers_version use_cache
    chunk_size_feed_forward architectures id2label label2id num_labels is_encoder_decoder"""
OURS = frozenset(_OURS.split())
"""Settings that say how the library answers, or that are read here."""
_UNUSED = """onnx_export deterministic_flash_attn sparse_prediction sparse_pred_ignore_index position_embedding_type
    decoder_start_token_id pretraining_tp summary_activation summary_first_dropout summary_last_dropout
    summary_proj_to_labels summary_type summary_use_proj"""
UNUSED = OURS.union(_UNUSED.split())
"""Settings of the families that are not handed on, either: of heads and decoders that are not loaded."""
_KNOWN = """_sliding_window_pattern add_cross_attention attention_bias attention_dropout attention_head_size
    attention_probs_dropout_prob attn_logit_softcapping attn_pdrop block_size bos_token_id classifier_bias
    classifier_dropout classifier_dropout_prob classifier_pooling cls_token_id conv_groups conv_kernel_size d_ff
    d_kv d_model decoder_bias dim dropout dropout_rate embd_pdrop embedding_dropout embedding_size encoder_heads
    eos_token_id final_logit_softcapping global_attn_every_n_layers head_dim hidden_dim hidden_dropout
    hidden_dropout_prob hidden_size initializer_cutoff_factor initializer_factor initializer_range inner_group_num
    intermediate_size is_causal is_decoder layer_norm_eps layer_norm_epsilon legacy local_attention
    max_position_embeddings max_relative_positions max_window_layers mlp_bias mlp_dropout n_embd n_head n_heads
    n_inner n_layer n_layers n_positions no_rope_layer_interval norm_bias norm_eps num_attention_heads
    num_decoder_layers num_heads num_hidden_groups num_hidden_layers num_key_value_heads num_layers
    num_random_blocks original_max_position_embeddings pad_token_id partial_rotary_factor pooler_dropout
    pooler_hidden_size position_biased_input position_buckets qa_dropout qk_layernorm query_pre_attn_scalar
    relative_attention relative_attention_max_distance relative_attention_num_buckets reorder_and_upcast_attn
    rescale_embeddings resid_pdrop rms_norm_eps rotary_pct scale_attn_by_inverse_layer_idx scale_attn_weights
    sep_token_id seq_classif_dropout share_att_key sinusoidal_pos_embds sliding_window sliding_window_pattern
    task_type_vocab_size tie_word_embeddings type_vocab_size unattended_ids use_bias use_parallel_residual
    use_sliding_window use_task_id vocab_size"""
KNOWN = frozenset(_KNOWN.split())
"""Settings of the families that Sightline takes into account, or knows to be without effect on what it reads inside."""
# Noted down by transformers or read elsewhere; computed from other settings; or carried along by well-known models
# although no release of transformers reads them any more.
_WITHOUT_EFFECT = """model_type torch_dtype name_or_path _name_or_path _commit_hash _num_labels finetuning_task
    task_specific_params tokenizer_class custom_pipelines prefix attn_implementation _attn_implementation
    _attn_implementation_autoset use_return_dict output_past torchscript use_bfloat16 tf_legacy_loss
    gradient_checkpointing cross_attention_hidden_size tie_encoder_decoder auto_map quantization_config per_layer_config
    dense_act_fn is_gated_act scale_decoder_outputs
    directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type n_ctx
    predict_special_tokens tie_weights_ padding_idx attention_mode ignore_attention_mask down_scale_factor gap_size
    net_structure_type num_memory_blocks reference_compile repad_logits_with_grad is_llama_config"""
WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT.split())
"""Settings that are dropped without a word, besides those of generation."""
MOST_NAMES = 20
"""Names in one warning."""


@dataclass(frozen=True)
class ConfigFacts:
    """The checked content of a config.json."""

    model_type: str
    architectures: tuple[str, ...]
    settings: Mapping[str, Any]
    """Settings for the configuration class of the family, by the names in the file."""
    unlisted: tuple[str, ...] = ()
    """Names of settings in the file that are not known, and left out."""

    def number(self, *names: str) -> int | None:
        """Return the first of these settings that the file has."""
        values = (self.settings.get(name) for name in names)
        return next((value for value in values if isinstance(value, int)), None)


def read_config(folder: Path) -> ConfigFacts:
    """Return what config.json in `folder` says, or raise a `ModelError` that names the setting at fault."""
    _refuse_adapter(folder)
    content = read_object(
        folder, "config.json", limit=CONFIG_BYTES, error=ModelError, label=f"The config of '{folder}'"
    )
    if content is None:
        inside = sorted(config.parent.name for config in folder.glob("*/config.json"))
        other = describe_other_weights(folder)
        hint = f" Did you mean its folder '{quote(inside[-1])}'?" if inside else other
        # A folder with weights is a model of which something is missing.
        kind = ModelError if other or has_weights(folder) else NoModelError
        raise kind(f"The folder '{folder}' has no config.json, so it is not a model folder.{hint}")
    return check_config(content, f"the config of '{folder}'")


def _refuse_adapter(folder: Path) -> None:
    """Refuse weights that are only the changes to those of another model; without them the other would be explained.

    A merged model may still have the config of its adapter, but not the adapter's weights.
    """
    merged = any((folder / name).exists() for name in (SINGLE_FILE, INDEX_FILE)) and not any(
        folder.glob("adapter_model*")
    )
    name = "adapter_config.json"
    content = None if merged else read_object(folder, name, limit=CONFIG_BYTES, error=ModelError)
    if content is None:
        return
    base = content.get("base_model_name_or_path")
    original = quote(base) if base else "another model"
    learned_prompts = isinstance(content, dict) and str(content.get("peft_type")).endswith("_TUNING")
    advice = (
        "learned prompts cannot be merged with it, so give a function that calls both, sl.load(function, labels=[...])."
        if learned_prompts
        else "merge the two (merge_and_unload() in PEFT), save the result and give its folder."
    )
    raise ModelError(
        f"The folder '{folder}' holds an adapter to {original} (adapter_config.json) and not a whole model: {advice}"
    )


def check_config(content: Mapping[str, Any], place: str) -> ConfigFacts:
    """Return the checked facts of a config given as a dictionary; `place` is what messages call it."""
    if content.get("auto_map"):
        raise ModelError(
            f"The model needs code of its own ('auto_map' in {place}), and Sightline never runs code from a model "
            "folder. Use a model of a supported family."
        )
    for name, reason in (
        ("quantization_config", "Quantised weights are not supported"),
        ("per_layer_config", "Layers of different sizes are not supported"),
    ):
        if content.get(name):
            raise UnsupportedError(f"{reason} ('{name}' in {place}).")
    model_type = content.get("model_type")
    if not isinstance(model_type, str):
        raise ModelError(f"{place[0].upper()}{place[1:]} does not name the family of the model ('model_type').")
    seen = family_of(quote(model_type)).attention_layout != "unseen"
    if not seen:
        check_open_type(model_type, content)
    kind = CONFIG_MAPPING[model_type]
    types = get_type_hints(kind, localns={"torch": torch})
    special = SPECIAL if seen else {name: SPECIAL[name] for name in COMMON}
    used = (KNOWN | SPECIAL.keys()) - UNUSED if seen else {field.name for field in fields(kind)} - OURS
    for name in sorted(content.keys() & (used | special.keys())):
        of_type = types.get(kind.attribute_map.get(name, name), Any) if seen else Any
        problem = _problem(name, content[name], of_type, special.get(name))
        if problem is not None:
            raise ModelError(f"'{name}' in {place} is {quote(content[name])}; it must be {problem}.")
    settings = {name: value for name, value in content.items() if name in used}
    settings["id2label"] = _labels(content, place)
    unlisted = _unlisted(model_type, content, {*used, *special, *UNUSED}, place)
    facts = ConfigFacts(model_type, tuple(content.get("architectures") or ()), settings, unlisted)
    _check_together(facts, place)
    return facts


def check_open_type(model_type: str, content: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for a type without an entry in `families` that no method could explain."""
    kind = CONFIG_MAPPING[model_type]
    if kind.sub_configs:
        raise UnsupportedError(
            f"Models of type '{model_type}' are made of several models ({', '.join(sorted(kind.sub_configs))}), which "
            "Sightline cannot explain."
        )
    check_inputs_of_type(model_type)
    defaults = {field.name: field.default for field in fields(kind)}
    refuse_encoder_decoder(model_type, content.get("is_encoder_decoder", defaults.get("is_encoder_decoder")))


def refuse_encoder_decoder(model_type: str, is_encoder_decoder: Any) -> None:
    """Raise UnsupportedError if a model reads a text twice."""
    if is_encoder_decoder:
        raise UnsupportedError(
            f"Models of type '{model_type}' read a text twice, in an encoder and in a decoder, and transformers has no "
            "head on the encoder alone that Sightline could explain: use a model that reads the text once, for example "
            "RoBERTa, or Longformer for long texts."
        )


Check = tuple[Callable[[Any], bool], str]
"""Whether a value is accepted, and what it must be."""


def _one_of(*choices: str) -> Check:
    return lambda value: value is None or value in choices, f"one of {', '.join(choices)}"


def _is_activation(value: Any) -> bool:
    from transformers.activations import ACT2FN

    return isinstance(value, str) and value in ACT2FN


def _is_projection(value: Any) -> bool:
    try:
        return value is None or (isinstance(value, str) and bool(Projection.named(value)))
    except OptionError:
        return False


def _is_position_score(value: Any) -> bool:
    """Check DeBERTa's kinds of scores: a list, or one text with | between them."""
    listed = value.split("|") if isinstance(value, str) else value or []
    return isinstance(listed, list) and all(score in ("c2p", "p2c") for score in listed)


def _is_positive(value: Any) -> bool:
    # Comparing first: an integer of hundreds of digits has no float.
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e-12 <= value <= 1e12


def _is_window(value: Any) -> bool:
    windows = value if isinstance(value, list) and value else [value]
    return all(fits(window, int) and 2 <= window <= MAX_WINDOW for window in windows)


def _is_list_of(*choices: Any) -> Callable[[Any], bool]:
    return lambda value: value is None or (isinstance(value, list) and value != [] and all(v in choices for v in value))


def _are_rotations(value: Any) -> bool:
    """Check the parameters of rotary positions: one set, or one per kind of layer."""
    of_kinds = isinstance(value, dict) and any(kind in value for kind in _LAYER_KINDS)
    return all(part is None or _is_rotation(part) for part in (value.values() if of_kinds else [value]))


def _is_rotation(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    kind = part.get("rope_type", part.get("type", "default"))  # older files write "type"
    if kind not in _ROTATIONS or part.get("type", kind) != kind:
        return False
    needed = {"linear": ("factor",), "llama3": _LLAMA3_ROTATION}.get(kind, ())
    numbers = {key: number for key, number in part.items() if key not in ("rope_type", "type")}
    return set(needed) <= set(numbers) and all(map(_is_positive, numbers.values()))


SPECIAL: Mapping[str, Check] = {
    "architectures": (lambda value: value is None or fits(value, list[str]), "a list of names"),
    **dict.fromkeys(
        ("dtype", "torch_dtype"),
        (
            lambda value: value is None or str(value).removeprefix("torch.") in _NUMBER_TYPES,
            f"one of {', '.join(_NUMBER_TYPES)}",
        ),
    ),
    "problem_type": _one_of("regression", "single_label_classification", "multi_label_classification"),
    **dict.fromkeys(
        (
            *("hidden_act", "activation", "activation_function", "hidden_activation", "classifier_activation"),
            *("pooler_hidden_act", "conv_act"),
        ),
        (_is_activation, "the name of an activation function such as gelu"),
    ),
    "attention_window": (_is_window, f"a whole number from 2 to {MAX_WINDOW:,} or a list of one per layer"),
    "attention_type": _one_of("block_sparse", "original_full"),
    "pos_att_type": (_is_position_score, "a list of c2p and p2c, or both with | between them"),
    "norm_rel_ebd": _one_of("none", "layer_norm"),
    "feed_forward_proj": _one_of("relu", "gated-gelu", "gelu", "gated-silu", "gated-relu"),
    "scoring": _one_of("additive", "dot"),
    **dict.fromkeys(
        ("projection", "attention_projection"),
        (_is_projection, "the name of a projection such as softmax, sparsemax, entmax15 or sparsegen0.5"),
    ),
    # An encoder made of a decoder, whose tokens see each other in both directions.
    "use_bidirectional_attention": (lambda value: value is None or value is False, "false or null"),
    "layer_types": (_is_list_of(*_LAYER_KINDS), f"a list of {' and '.join(_LAYER_KINDS)}"),
    "no_rope_layers": (_is_list_of(0, 1), "a list of 0 (no rotary positions) and 1 per layer"),
    **dict.fromkeys(
        ("rope_parameters", "rope_scaling"),
        (_are_rotations, f"an object with rope_type ({' or '.join(_ROTATIONS)}) and positive numbers"),
    ),
    **dict.fromkeys(
        ("global_rope_theta", "local_rope_theta", "rope_theta", "rope_local_base_freq", "rotary_emb_base"),
        (_is_positive, "a positive number"),
    ),
    # Other ways to tell positions apart were dropped from the library: a model trained with them would be run wrongly.
    "position_embedding_type": _one_of("absolute"),
}
"""Settings whose values need more than the right type."""
COMMON = ("architectures", "dtype", "torch_dtype", "problem_type")
"""The settings among them that mean the same in every type of model."""
_FEWEST = {
    **dict.fromkeys(("vocab_size", "sliding_window"), 1),
    **dict.fromkeys(("type_vocab_size", "max_window_layers", "num_random_blocks", "conv_kernel_size"), 0),
    **dict.fromkeys(("max_relative_positions", "position_buckets"), -1),
}


def _problem(name: str, value: Any, kind: Any, special: Check | None) -> str | None:
    """Return what a setting must be, if it is something else; `kind` is its type, Any where that is not known."""
    if special is not None:
        return None if special[0](value) else special[1]
    if isinstance(value, list | dict) and len(value) > MAX_ENTRIES:
        return f"a list or an object of at most {MAX_ENTRIES} entries"
    is_object = isinstance(value, dict)
    parts = [*value.keys(), *value.values()] if is_object else value if isinstance(value, list) else [value]
    fewest = _FEWEST.get(name, -MAX_ROWS if fits(0.5, kind) else -1 if name.endswith(("_id", "_ids")) else 1)
    problems = (_scalar_problem(name, part, fewest) for part in parts)
    return next(filter(None, problems), None if fits(value, kind) else describe_type(kind))


def _scalar_problem(name: str, value: Any, fewest: int) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    if "drop" in name and isinstance(value, int | float):
        return None if 0 <= value <= 1 else "a number from 0 to 1"
    if isinstance(value, int):
        most = MAX_LAYERS if "layer" in name else MAX_ROWS
        return None if fewest <= value <= most else f"a whole number from {fewest:,} to {most:,}"
    if isinstance(value, float):
        return None if math.isfinite(value) else "a finite number"
    if isinstance(value, str):
        return None if PLAIN_NAME.fullmatch(value) else "a plain name"
    return "a number, a plain name, or a list of these"


def _labels(content: Mapping[str, Any], place: str) -> dict[int, str]:
    """Return the label of every class, 0 … C-1."""
    names, count = content.get("id2label"), content.get("num_labels")
    if count is not None and not (fits(count, int) and 1 <= count <= MAX_LABELS):
        raise ModelError(
            f"'num_labels' in {place} is {quote(count)}; it must be a whole number from 1 to {MAX_LABELS:,}."
        )
    if names is None:
        return {index: f"LABEL_{index}" for index in range(2 if count is None else count)}
    if not isinstance(names, dict) or not names:
        raise ModelError(
            f"'id2label' in {place} is {quote(names)}; it must be an object such as "
            '{"0": "negative", "1": "positive"}.'
        )
    labels = {}
    for index in range(len(names)):
        label = names.get(str(index))
        if not isinstance(label, str | int | float):
            raise ModelError(
                f"{place[0].upper()}{place[1:]} has {len(names):,} labels in 'id2label', but none with the number "
                f'"{index}": they must be numbered from 0 without gaps, and their names must be strings.'
            )
        labels[index] = str(label)
    return labels


def _unlisted(model_type: str, content: Mapping[str, Any], listed: Collection[str], place: str) -> tuple[str, ...]:
    """Return the names of settings that are neither listed nor known to be without effect, in alphabetical order.

    Raises UnsupportedError for one that the configuration class of the type has, and that differs from its default.
    """
    of_class = {field.name: field for field in fields(CONFIG_MAPPING[model_type])}
    unlisted = sorted(set(content) - set(listed) - WITHOUT_EFFECT - set(GenerationConfig().to_dict()))
    for name in unlisted:
        field = of_class.get(name)
        if field is not None and content[name] != (
            field.default if field.default_factory is MISSING else field.default_factory()
        ):
            raise UnsupportedError(
                f"'{name}' in {place} is {quote(content[name])}, which changes what the model computes, and Sightline "
                f"does not know this setting of '{quote(model_type)}' models: update Sightline, or use a model without "
                "it."
            )
    # Nothing, or an empty list, asks for nothing.
    return tuple(name for name in unlisted if name not in of_class and content[name] not in (None, [], {}))


def describe_unlisted(names: Collection[str], place: str) -> str:
    """Return the sentence that names dropped settings."""
    shown = ", ".join(quote(name) for name in list(names)[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return (
        f"Sightline and transformers do not know these settings in {place}, and leave them out: {shown}{more}. If the "
        "model was trained by a program that follows them, its predictions may differ here."
    )


def _check_together(facts: ConfigFacts, place: str) -> None:
    """Refuse settings that are valid individually but inconsistent together."""

    def refuse(reason: str) -> None:
        raise ModelError(f"{place[0].upper()}{place[1:]} contradicts itself: {reason}.")

    settings = facts.settings
    width, heads = (
        facts.number("hidden_size", "dim", "n_embd"),
        facts.number("num_attention_heads", "n_heads", "n_head"),
    )
    if width and heads and width % heads:
        refuse(f"{heads:,} attention heads do not divide a width of {width:,}")
    groups = facts.number("num_key_value_heads")
    if heads and groups and heads % groups:
        refuse(f"{groups:,} key and value heads do not divide {heads:,} attention heads")
    head_width = facts.number("head_dim") or (width // heads if width and heads else 0)
    if head_width % 2 and family_of(facts.model_type).rotary:
        refuse(f"rotary positions need an even width per head, and it is {head_width:,}")
    layers = facts.number("num_hidden_layers", "n_layers", "n_layer")
    for name in ("attention_window", "layer_types", "no_rope_layers"):
        listed = settings.get(name)
        if isinstance(listed, list) and layers and len(listed) != layers:
            refuse(f"'{name}' has {len(listed):,} entries for {layers:,} layers")
    windows = settings.get("attention_window")
    if any(window % 2 for window in (windows if isinstance(windows, list) else [windows or 0])):
        refuse("'attention_window' counts the tokens on both sides, so it must be even")
    vocabulary, pad = facts.number("vocab_size"), facts.number("pad_token_id")
    if vocabulary and pad is not None and pad >= vocabulary:
        refuse(f"pad token {pad:,} lies outside a vocabulary of {vocabulary:,} tokens")
    positions = facts.number("max_position_embeddings", "n_positions")
    first = (pad or 0) + 1 if family_of(facts.model_type).positions_after_padding else 0
    if positions and first >= positions:
        refuse(f"{positions:,} positions leave no room for text, because they are counted from {first:,}")
    if settings.get("problem_type") == "single_label_classification" and len(settings["id2label"]) == 1:
        refuse("single-label classification needs more than one label")
    layer_groups = facts.number("num_hidden_groups")
    if layer_groups and layers and layer_groups > layers:
        refuse(f"{layer_groups:,} groups of layers for {layers:,} layers")
