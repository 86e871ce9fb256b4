"""A copy of a model whose weights are made random, part by part, from the head down to the embeddings.

Every tensor is drawn anew from a normal distribution with its own mean and standard deviation: what training wrote
into it is gone, its scale stays. (At the small scale of a fresh initialisation all attention would be even and all
logits nearly equal, and an explanation would change for that reason alone.) A tensor's draw depends on the seed and
its name only, so that making everything random at once gives the same network as doing it part by part.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator

import torch
from torch import nn

from sightline.api.model import Model
from sightline.models import Network

HEAD, EMBEDDINGS = "head", "embeddings"


def parts_from_the_top(network: Network) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """Return the parameters in the order of the cascade: head, last layer … first layer, embeddings.

    The head is everything that is neither a layer nor part of the embeddings (pooler and final LayerNorm included).
    Layers that share their weights (ALBERT) are one part.
    """
    owner: dict[int, str] = {}
    layers: list[str] = []
    for number, layer in reversed(list(enumerate(network.layers))):
        name = f"layer {number}"
        fresh = [parameter for parameter in layer.parameters() if id(parameter) not in owner]
        if fresh:
            layers.append(name)
            owner.update((id(parameter), name) for parameter in fresh)
    tables = {id(parameter) for table in network.tables.values() for parameter in table.parameters()}
    parts: dict[str, list[tuple[str, nn.Parameter]]] = {name: [] for name in (HEAD, *layers, EMBEDDINGS)}
    for name, parameter in network.module.named_parameters():
        # What stands around the tables (their LayerNorm, a projection) carries their name in every family.
        embedded = id(parameter) in tables or "embed" in name
        part = owner.get(id(parameter)) or (EMBEDDINGS if embedded else HEAD)
        parts[part].append((name, parameter))
    return {name: parameters for name, parameters in parts.items() if parameters}


def cascade(model: Model, seed: int) -> Iterator[tuple[str, Model]]:
    """Yield (the part that is now random too, the model with all parts so far random), from the top down.

    The models share one copy of the network, which changes under way: use each before asking for the next.
    """
    original = model.network
    module = copy.deepcopy(original.module)

    def rebuilt() -> Network:
        # A new object at every step: a network remembers its fingerprint.
        return Network(
            module, original.family, original.task, name=original.name, token_ids=original.token_ids, untrained=True
        )

    for part, parameters in parts_from_the_top(rebuilt()).items():
        for name, parameter in parameters:
            redraw(parameter, name, seed)
        yield part, Model(rebuilt(), model.tokenizer)


def redraw(parameter: nn.Parameter, name: str, seed: int) -> None:
    """Fill a tensor with normal numbers of its own mean and standard deviation, by seed and name.

    A tensor of equal numbers (a bias of zeros, a single number) stays as it is: its spread is 0.
    """
    digest = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
    values = parameter.detach().to("cpu", torch.float64)
    noise = torch.randn(values.shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        parameter.copy_(values.mean() + values.std(correction=0) * noise)
