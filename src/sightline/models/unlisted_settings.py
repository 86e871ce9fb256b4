"""Settings of config.json that no table of ours lists: named in a warning, or refused if they change the computation.

A setting that transformers' own configuration class has, and that we would drop, makes another model of the weights
unless it has the value that the class assumes anyway; it is refused. All others are unknown to transformers as well:
they belong to another program, or are mistakes, and a warning names them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from transformers import CONFIG_MAPPING, GenerationConfig

from sightline.errors import UnsupportedError
from sightline.files.foreign import quote

WITHOUT_EFFECT = frozenset(
    {
        # What transformers notes down about a model, or reads elsewhere.
        *("model_type", "torch_dtype", "name_or_path", "_name_or_path", "_commit_hash", "_num_labels"),
        *("finetuning_task", "task_specific_params", "tokenizer_class", "custom_pipelines", "prefix"),
        *("attn_implementation", "_attn_implementation", "_attn_implementation_autoset"),
        *("use_return_dict", "output_past", "torchscript", "use_bfloat16", "tf_legacy_loss", "gradient_checkpointing"),
        *("cross_attention_hidden_size", "tie_encoder_decoder", "auto_map", "quantization_config", "per_layer_config"),
        # Computed from other settings, and saved with them.
        *("dense_act_fn", "is_gated_act", "scale_decoder_outputs"),
        # What well-known models carry along, and no release of transformers reads any more.
        *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
        *("pooler_size_per_head", "pooler_type", "n_ctx", "predict_special_tokens", "tie_weights_", "padding_idx"),
        *("attention_mode", "ignore_attention_mask", "down_scale_factor", "gap_size", "net_structure_type"),
        *("num_memory_blocks", "reference_compile", "repad_logits_with_grad", "is_llama_config"),
    }
)
"""Settings that are dropped without a word, besides those of generation."""
MOST_NAMES = 20
"""Names in one warning."""


def unlisted_settings(
    model_type: str, content: Mapping[str, Any], listed: Collection[str], place: str
) -> tuple[str, ...]:
    """Return the names of settings that are neither listed nor known to be without effect, in alphabetical order.

    Raises UnsupportedError for one that the configuration class of the type has, and that differs from its default.
    """
    of_class = {field.name: field for field in fields(CONFIG_MAPPING[model_type])}
    unlisted = sorted(set(content) - set(listed) - WITHOUT_EFFECT - set(GenerationConfig().to_dict()))
    for name in unlisted:
        if name in of_class and content[name] != _default(of_class[name]):
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


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
