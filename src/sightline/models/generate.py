"""Greedy generation: the tokens a language model itself would write behind a prompt."""

from __future__ import annotations

import torch

from sightline.errors import InputError, UnsupportedError
from sightline.models.network import Network
from sightline.models.torch_context import own_torch_context
from sightline.settings.arguments import check_count
from sightline.text import Encoding


def generate_greedily(network: Network, prompt: Encoding, max_new_tokens: int) -> list[int]:
    """Return the ids of the likeliest next tokens, one after the other, until the text ends or the limit is reached.

    The token that ends the text is part of the result. Settings of the model folder for sampling, penalties or
    forbidden words do not apply. Cost: one forward over the prompt, then one step per token on cached keys and values.
    """
    check_count("max_new_tokens", max_new_tokens)
    module = network.module
    if not hasattr(module, "generate"):
        raise UnsupportedError("This model cannot generate text: give the text to explain with continuation=.")
    room = network.max_tokens - len(prompt)
    if room < 1:
        raise InputError(
            f"The prompt has {len(prompt)} tokens and the model reads {network.max_tokens} at most: there is no room "
            "to generate."
        )
    ids = torch.tensor(prompt.ids)[None].to(network.device)
    with network.exclusive(), own_torch_context(), torch.no_grad():
        output = module.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=min(max_new_tokens, room),
            do_sample=False,
            num_beams=1,
            pad_token_id=network.token_ids.get("pad", 0),
        )
    network.forward_passes += 1
    return [int(token) for token in output[0, len(prompt) :]]
