"""config.json read as data: what it may say, within which ranges, before transformers sees any of it.

`read_config` returns only settings that are listed here and have the right type and range; everything else in the file
(paths, versions, output formats, names of kernels to fetch) never reaches the library. Settings that change no number
are dropped, and unknown ones named (`open_config`). The listed settings are those of the supported families; a
test compares them with transformers' own configuration classes, so that a new setting of a new release is noticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.attention.projections import Projection
from sightline.errors import ModelError, NoModelError, OptionError, UnsupportedError
from sightline.files.foreign import quote, read_json, regular_file
from sightline.models.families import family_of
from sightline.models.open_config import OURS, read_open_settings, unlisted_settings
from sightline.models.weights import INDEX_FILE, SINGLE_FILE, describe_other_weights, has_weights

CONFIG_BYTES = 32_000_000
"""Largest config.json: room for the names of several hundred thousand labels."""

MAX_LAYERS = 512
MAX_WIDTH = 262_144
MAX_HEADS = 4_096
MAX_ROWS = 16_777_216
"""Most rows of an embedding table (words, positions); they are compared with the weights as well."""
MAX_LABELS = 1_000_000
MAX_WINDOW = 4_096
"""Widest attention window of Longformer, both sides together: the library pads every text to a multiple of it."""

_ROTATIONS = ("default", "linear", "llama3")
"""Rotary positions that are the same for texts of any length; others ("dynamic", "longrope") change with the text."""
_LLAMA3_ROTATION = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
_POOLINGS = ("cls", "mean")
_PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")
_LAYER_KINDS = ("full_attention", "sliding_attention")
_NUMBER_TYPES = ("auto", "float16", "bfloat16", "float32", "float64")

UNUSED = frozenset(
    {
        # How the library answers or runs; we decide that.
        *(
            "output_hidden_states",
            "return_dict",
            "use_cache",
            "chunk_size_feed_forward",
            "onnx_export",
            "architectures",
        ),
        *("deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index", "transformers_version", "dtype"),
        *("is_encoder_decoder", "position_embedding_type"),
        # Rebuilt from id2label.
        *("label2id", "num_labels"),
        # A decoder that we do not run.
        "decoder_start_token_id",
        # How a computation is divided among processes.
        "pretraining_tp",
        # Heads that we do not load.
        *("summary_activation", "summary_first_dropout", "summary_last_dropout", "summary_proj_to_labels"),
        *("summary_type", "summary_use_proj"),
    }
)
"""Settings of the library's configuration classes that are not handed on."""


@dataclass(frozen=True)
class ConfigFacts:
    """What a config.json says, checked."""

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
    path = regular_file(folder, "config.json", ModelError)
    if path is None:
        inside = sorted(config.parent.name for config in folder.glob("*/config.json"))
        other = describe_other_weights(folder)
        hint = f" Did you mean its folder '{quote(inside[-1])}'?" if inside else other
        # A folder with weights is a model of which something is missing.
        kind = ModelError if other or has_weights(folder) else NoModelError
        raise kind(f"The folder '{folder}' has no config.json, so it is not a model folder.{hint}")
    content = read_json(path, limit=CONFIG_BYTES, error=ModelError, name=f"The config of '{folder}'")
    if not isinstance(content, dict):
        raise ModelError(f"The config of '{folder}' is {quote(content)}, not a JSON object with settings.")
    return check_config(content, f"the config of '{folder}'")


def _refuse_adapter(folder: Path) -> None:
    """Refuse weights that are only the changes to those of another model; without them the other would be explained.

    A merged model may still have the config of its adapter, but not the adapter's weights.
    """
    path = regular_file(folder, "adapter_config.json", ModelError)
    merged = any((folder / name).exists() for name in (SINGLE_FILE, INDEX_FILE)) and not any(
        folder.glob("adapter_model*")
    )
    if path is None or merged:
        return
    content = read_json(path, limit=CONFIG_BYTES, error=ModelError, name=f"The adapter config of '{folder}'")
    base = content.get("base_model_name_or_path") if isinstance(content, dict) else None
    original = quote(base) if base else "another model"
    raise ModelError(
        f"The folder '{folder}' holds an adapter to {original} (adapter_config.json) and not a whole model: "
        "merge the two (merge_and_unload() in PEFT), save the result and give its folder."
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
    family = family_of(quote(model_type))
    unseen = family.attention_layout == "unseen"
    settings = read_open_settings(model_type, content, place) if unseen else {}
    unlisted = unlisted_settings(model_type, content, {*settings, *SETTINGS, *UNUSED, *OURS}, place)
    for name, value in content.items():
        check = SETTINGS.get(name)
        if check is not None and (not unseen or name in COMMON_SETTINGS):
            problem = check(value)
            if problem is not None:
                raise _wrong(place, name, value, problem)
            if name not in UNUSED:
                settings[name] = value
    _check_number_type(content, place)
    settings["id2label"] = _labels(content, place)
    facts = ConfigFacts(model_type, tuple(content.get("architectures") or ()), settings, unlisted)
    _check_together(facts, place)
    return facts


Check = Callable[[Any], str | None]
"""Returns what a setting must be, if it is something else."""


def _whole(low: int, high: int, *, optional: bool = False) -> Check:
    def check(value: Any) -> str | None:
        if value is None and optional:
            return None
        ok = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if ok else f"a whole number from {low:,} to {high:,}"

    return check


def _real(low: float, high: float, *, optional: bool = False) -> Check:
    def check(value: Any) -> str | None:
        if value is None and optional:
            return None
        # Comparing first: an integer of hundreds of digits has no float.
        ok = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        return None if ok and math.isfinite(value) else f"a number from {low:g} to {high:g}"

    return check


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _false(value: Any) -> str | None:
    return None if value is False else "false"


def _null(value: Any) -> str | None:
    return None if value is None else "null"


def _projection(value: Any) -> str | None:
    try:
        ok = value is None or (isinstance(value, str) and bool(Projection.named(value)))
    except OptionError:
        ok = False
    return None if ok else "the name of a projection such as softmax, sparsemax, entmax15 or sparsegen0.5"


def _choice(*choices: str) -> Check:
    def check(value: Any) -> str | None:
        return None if value is None or value in choices else f"one of {', '.join(choices)}"

    return check


def _activation(value: Any) -> str | None:
    from transformers.activations import ACT2FN

    return None if isinstance(value, str) and value in ACT2FN else "the name of an activation function such as gelu"


def _names(value: Any) -> str | None:
    ok = value is None or (isinstance(value, list) and len(value) <= 16 and all(isinstance(v, str) for v in value))
    return None if ok else "a list of names"


def _list_of(check: Check, what: str) -> Check:
    def check_all(value: Any) -> str | None:
        ok = isinstance(value, list) and 0 < len(value) <= MAX_LAYERS and all(check(v) is None for v in value)
        return None if ok else what

    return check_all


def _either(*checks: Check) -> Check:
    def check(value: Any) -> str | None:
        problems = [problem for problem in (check(value) for check in checks) if problem is not None]
        return None if len(problems) < len(checks) else " or ".join(problems)

    return check


def _position_scores(value: Any) -> str | None:
    """Check DeBERTa's kinds of scores, written as one text."""
    ok = value is None or (isinstance(value, str) and set(value.split("|")) <= {"c2p", "p2c"})
    return None if ok else "c2p, p2c or both with | between them"


def _rotation(value: Any) -> str | None:
    """Check the parameters of rotary positions: one set, or one per kind of layer."""
    what = f"an object with rope_type ({' or '.join(_ROTATIONS)}) and positive numbers"
    if value is None:
        return None
    if not isinstance(value, dict):
        return what
    parts = value.values() if any(kind in value for kind in _LAYER_KINDS) else [value]
    return None if all(part is None or _is_rotation(part) for part in parts) else what


def _is_rotation(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    kind = part.get("rope_type", part.get("type", "default"))  # older files write "type"
    if kind not in _ROTATIONS or part.get("type", kind) != kind:
        return False
    needed = {"linear": ("factor",), "llama3": _LLAMA3_ROTATION}.get(kind, ())
    numbers = {key: number for key, number in part.items() if key not in ("rope_type", "type")}
    return set(needed) <= set(numbers) and all(_positive(number) is None for number in numbers.values())


_positive = _real(1e-12, 1e12)
_token_id = _whole(-1, MAX_ROWS, optional=True)
_width = _whole(1, MAX_WIDTH)
_layers = _whole(1, MAX_LAYERS)
_heads = _whole(1, MAX_HEADS)
_rows = _whole(1, MAX_ROWS)
_share = _real(0, 1, optional=True)
_epsilon = _real(0, 1)
_window = _whole(2, MAX_WINDOW)

SETTINGS: Mapping[str, Check] = {
    "architectures": _names,
    **dict.fromkeys(("vocab_size", "max_position_embeddings", "n_positions"), _rows),
    "type_vocab_size": _whole(0, MAX_ROWS),
    **dict.fromkeys(("relative_attention_num_buckets", "relative_attention_max_distance"), _whole(2, MAX_WIDTH)),
    "max_relative_positions": _whole(-1, MAX_WIDTH),
    "position_buckets": _whole(-1, MAX_WIDTH),
    "pos_att_type": _either(_list_of(_choice("c2p", "p2c"), "a list of c2p and p2c"), _position_scores),
    "norm_rel_ebd": _choice("none", "layer_norm"),
    "conv_kernel_size": _whole(0, 63),
    "conv_groups": _whole(1, MAX_HEADS),
    "attention_type": _choice("block_sparse", "original_full"),
    "block_size": _whole(1, 4_096),
    "num_random_blocks": _whole(0, 4_096),
    "feed_forward_proj": _choice("relu", "gated-gelu", "gelu", "gated-silu", "gated-relu"),
    "initializer_factor": _real(0, 1e6),
    **dict.fromkeys(
        (
            *("hidden_size", "d_model", "d_kv", "d_ff", "dim", "n_embd", "embedding_size", "intermediate_size"),
            *("hidden_dim", "attention_head_size", "pooler_hidden_size"),
        ),
        _width,
    ),
    "n_inner": _whole(1, MAX_WIDTH, optional=True),
    "num_decoder_layers": _whole(1, MAX_LAYERS, optional=True),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layers", "n_layer"), _layers),
    **dict.fromkeys(("num_hidden_groups", "inner_group_num", "global_attn_every_n_layers"), _layers),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads", "n_head", "encoder_heads"), _heads),
    "num_key_value_heads": _whole(1, MAX_HEADS, optional=True),
    "head_dim": _whole(1, MAX_WIDTH, optional=True),
    **dict.fromkeys(("sliding_window", "original_max_position_embeddings"), _whole(1, MAX_ROWS, optional=True)),
    "max_window_layers": _whole(0, MAX_LAYERS),
    "task_type_vocab_size": _whole(1, MAX_ROWS),
    "no_rope_layer_interval": _whole(1, MAX_LAYERS),
    "no_rope_layers": _either(_list_of(_whole(0, 1), "a list of 0 (no rotary positions) and 1 per layer"), _null),
    **dict.fromkeys(("sliding_window_pattern", "_sliding_window_pattern"), _whole(1, MAX_LAYERS)),
    # Gemma 2 and 3: scores and logits are bent to c·tanh(s/c).
    "query_pre_attn_scalar": _real(1e-6, 1e6),
    **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"), _real(1e-6, 1e6, optional=True)),
    "use_sliding_window": _flag,
    # An encoder made of a decoder, whose tokens see each other in both directions.
    "use_bidirectional_attention": _either(_false, _null),
    "qk_layernorm": _flag,
    "partial_rotary_factor": _share,
    "scoring": _choice("additive", "dot"),
    **dict.fromkeys(("projection", "attention_projection"), _projection),
    "unattended_ids": _either(_list_of(_token_id, "a list of token ids"), _null),
    "attention_window": _either(_window, _list_of(_window, "a list of one such number per layer")),
    "local_attention": _whole(1, MAX_ROWS),
    **dict.fromkeys(
        (
            *("hidden_act", "activation", "activation_function", "hidden_activation", "classifier_activation"),
            *("pooler_hidden_act", "conv_act"),
        ),
        _activation,
    ),
    **dict.fromkeys(
        (
            *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "classifier_dropout_prob"),
            *("dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout", "embedding_dropout"),
            *("mlp_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "pooler_dropout"),
            "dropout_rate",
        ),
        _share,
    ),
    **dict.fromkeys(("layer_norm_eps", "norm_eps", "layer_norm_epsilon", "rms_norm_eps"), _epsilon),
    "initializer_range": _real(0, 1e6),
    "initializer_cutoff_factor": _real(0, 1e6),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "sep_token_id", "cls_token_id"), _token_id),
    "eos_token_id": _either(_token_id, _list_of(_token_id, "a list of such numbers")),
    **dict.fromkeys(
        (
            *("is_causal", "is_decoder", "add_cross_attention", "tie_word_embeddings", "legacy"),
            *("relative_attention", "position_biased_input", "share_att_key", "use_bias", "rescale_embeddings"),
            *("use_task_id", "use_parallel_residual", "sinusoidal_pos_embds", "scale_attn_weights"),
            "scale_attn_by_inverse_layer_idx",
            *("reorder_and_upcast_attn", "attention_bias", "mlp_bias", "norm_bias", "decoder_bias", "classifier_bias"),
        ),
        _flag,
    ),
    "classifier_pooling": _choice(*_POOLINGS),
    "problem_type": _choice(*_PROBLEMS),
    "layer_types": _either(
        _list_of(_choice(*_LAYER_KINDS), f"a list of {' and '.join(_LAYER_KINDS)}"),
        _null,
    ),
    **dict.fromkeys(("rope_parameters", "rope_scaling"), _rotation),
    **dict.fromkeys(("global_rope_theta", "local_rope_theta", "rope_theta", "rope_local_base_freq"), _positive),
    # GPT-NeoX's names of the base and of the share of a head that is rotated.
    "rotary_emb_base": _positive,
    "rotary_pct": _real(0, 1),
    # Other ways to tell positions apart were dropped from the library: a model trained with them would be run wrongly.
    "position_embedding_type": _choice("absolute"),
}
"""Every setting that is handed on, and what it has to be."""
COMMON_SETTINGS = frozenset({"architectures", "problem_type", "vocab_size", "pad_token_id"})
"""Those that mean the same in every type of model; the others of a type without an entry in `families` are checked by
`open_config`."""


def _check_number_type(content: Mapping[str, Any], place: str) -> None:
    for name in ("dtype", "torch_dtype"):
        value = content.get(name)
        if value is not None and not (isinstance(value, str) and value.removeprefix("torch.") in _NUMBER_TYPES):
            raise _wrong(place, name, value, f"one of {', '.join(_NUMBER_TYPES)}")


def _labels(content: Mapping[str, Any], place: str) -> dict[int, str]:
    """Return the label of every class, 0 … C-1."""
    names, count = content.get("id2label"), content.get("num_labels")
    if count is not None and (problem := _whole(1, MAX_LABELS)(count)) is not None:
        raise _wrong(place, "num_labels", count, problem)
    if names is None:
        return {index: f"LABEL_{index}" for index in range(2 if count is None else count)}
    if not isinstance(names, dict) or not names:
        raise _wrong(place, "id2label", names, 'an object such as {"0": "negative", "1": "positive"}')
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


def _check_together(facts: ConfigFacts, place: str) -> None:
    """Refuse settings that are possible alone but not beside each other."""

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


def _wrong(place: str, name: str, value: Any, expected: str) -> ModelError:
    return ModelError(f"'{name}' in {place} is {quote(value)}; it must be {expected}.")
