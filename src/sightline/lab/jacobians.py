"""How strongly every representation h_p depends on every input x_i, for all pairs in one batched sweep.

    G_kpi = ‖∂⟨s_kp, h_p⟩ / ∂x_i‖₂        seeds s (K, n, d), x the word embeddings (n, e)

With s_p = h_p/‖h_p‖ this is ‖∂‖h_p‖/∂x_i‖, the importance of x_i for h_p; with the unit vectors as seeds it is the norm
of each row of the Jacobian, facet by facet.

One backward pass per position would send n vectors through the encoder one at a time. For a bidirectional LSTM of one
layer all of them travel together here: at step t the adjoints of the positions p ≥ t (p ≤ t in the reverse direction)
are rows of one matrix, so that a step is one matrix product. Cost: O(K n² H (e + H)) time, half of what n separate
passes do, in n matrix products instead of n² products of a vector; O(K n (n + H)) memory. Other encoders get all
vectors in one call of autograd, vectorised by `is_grads_batched`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sightline.models.single_attention import BilstmEncoder


def dependence_norms(encoder: Any, embeddings: Tensor, seeds: Tensor) -> Tensor:
    """Return G (K, n, n) for one document: embeddings (n, e), seeds (K, n, d)."""
    if isinstance(encoder, BilstmEncoder) and encoder.rnn.num_layers == 1:
        return _lstm_norms(encoder.rnn, embeddings, seeds)
    return _autograd_norms(encoder, embeddings, seeds)


def encode_document(encoder: Any, embeddings: Tensor) -> Tensor:
    """h (n, d) of one document from its word embeddings (n, e), on the autograd path."""
    hidden: Tensor = encoder(embeddings[None], torch.tensor([len(embeddings)]))
    return hidden[0]


def _autograd_norms(encoder: Any, embeddings: Tensor, seeds: Tensor) -> Tensor:
    with torch.enable_grad():
        leaf = embeddings.detach().requires_grad_()
        hidden = encode_document(encoder, leaf)
        products = torch.einsum("knd,nd->kn", seeds, hidden)
    K, n = products.shape
    directions = torch.eye(K * n, dtype=products.dtype, device=products.device).view(K * n, K, n)
    (gradients,) = torch.autograd.grad(products, leaf, directions, is_grads_batched=True)
    norms: Tensor = gradients.norm(dim=-1).view(K, n, n)
    return norms


@torch.no_grad()
def _lstm_norms(rnn: Any, embeddings: Tensor, seeds: Tensor) -> Tensor:
    """Both directions side by side, each in the order it reads: axis 0 is the direction."""
    (K, n, _), H, e = seeds.shape, rnn.hidden_size, embeddings.shape[1]
    x = torch.stack((embeddings, embeddings.flip(0)))
    seeds = torch.stack((seeds[..., :H], seeds[..., H:].flip(1)))
    input_weight, hidden_weight, input_bias, hidden_bias = (
        torch.stack([getattr(rnn, f"{name}_l0{suffix}") for suffix in ("", "_reverse")])
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    pull, leak, keep = _local_derivatives(x, input_weight, hidden_weight, input_bias + hidden_bias)
    both = torch.cat((input_weight, hidden_weight), dim=2)
    norms, own = x.new_zeros(2, K, n, n), x.new_zeros(2, K, n, e)
    # Rows from the last position to the first, so that the positions under way at a step come first.
    adjoint_hidden, adjoint_cell = (x.new_zeros(2, n, K, H) for _ in range(2))
    for step in range(n - 1, -1, -1):
        active = n - step
        adjoint_hidden[:, active - 1] += seeds[:, :, step]
        dh, dc = adjoint_hidden[:, :active], adjoint_cell[:, :active]
        factors = pull[:, step, None, None]
        dc += dh * leak[:, step, None, None]
        pulled = torch.cat((dc[..., None, :] * factors[..., :3, :], (dh * factors[..., 3, :])[..., None, :]), dim=-2)
        result = torch.bmm(pulled.view(2, active * K, 4 * H), both).view(2, active, K, e + H)
        inputs = result[..., :e]
        norms[:, :, step:, step] = inputs.norm(dim=-1).flip(1).transpose(1, 2)
        own[:, :, step] = inputs[:, -1]
        adjoint_hidden[:, :active] = result[..., e:]
        dc *= keep[:, step, None, None]
    # h_p depends on x_i through one direction if i ≠ p, where the other norm is 0, and through both if i = p.
    total = norms[0] + norms[1].flip(1, 2)
    places = torch.arange(n)
    total[:, places, places] = (own[0] + own[1].flip(1)).norm(dim=-1)
    return total


def _local_derivatives(
    x: Tensor, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Run both directions (2, n, e) and return what an adjoint is multiplied by at every step.

    pull (2, n, 4, H): from the cell to the pre-activations of i, f, g, and from h to that of o; leak (2, n, H): from h
    to the cell; keep (2, n, H): from a cell to the one before.
    """
    n, H = x.shape[1], hidden_weight.shape[2]
    projected = torch.baddbmm(bias[:, None], x, input_weight.transpose(1, 2))
    hidden = cell = x.new_zeros(2, H)
    steps, cells = [], [cell]
    for step in range(n):
        gates = torch.baddbmm(projected[:, step, :, None], hidden_weight, hidden[..., None]).view(2, 4, H)
        i, f, o = torch.sigmoid(gates[:, 0]), torch.sigmoid(gates[:, 1]), torch.sigmoid(gates[:, 3])
        g = torch.tanh(gates[:, 2])
        cell = f * cell + i * g
        hidden = o * torch.tanh(cell)
        steps.append(torch.stack((i, f, g, o), dim=1))
        cells.append(cell)
    i, f, g, o = torch.stack(steps, dim=1).unbind(dim=2)
    states = torch.stack(cells, dim=1)
    squashed = torch.tanh(states[:, 1:])
    pull = (g * i * (1 - i), states[:, :-1] * f * (1 - f), i * (1 - g**2), squashed * o * (1 - o))
    return torch.stack(pull, dim=2), o * (1 - squashed**2), f
