"""Feature importance in models with a single attention, as in the study of sparse attention (Meister et al. 2021).

For a document x_1 … x_n, its representations h = encoder(x), the weights a and the output ŷ:

    g_ŷ(x_i) = ‖∂ŷ/∂x_i‖,   g_ŷ(h_i) = ‖∂ŷ/∂h_i‖,   g_{h_p}(x_i) = ‖∂‖h_p‖/∂x_i‖
    D_ŷ(x_i) = TVD(ŷ, ŷ without token i),   D_ŷ(h_i) = TVD(ŷ, ŷ without h_i in the weighted sum)

each scaled to sum 1 over the tokens that may get weight. Without h_i the remaining weights are renormalised
(`removal="renormalise"`), or h_i counts as zero (`removal="zero"`). If a_i is 1, nothing remains to be renormalised and
the scores without i are projected again.

How evenly g_{h_p} is spread says whether h_p represents the word p: its normalised entropy is 0 if h_p depends on one
word and 1 if on all alike. How well the weights agree with an importance is Kendall's tau-b, with the number of ties.

How strongly every representation h_p depends on every input x_i, for all pairs in one batched sweep
(`dependence_norms`):

    G_kpi = ‖∂⟨s_kp, h_p⟩ / ∂x_i‖₂        seeds s (K, n, d), x the word embeddings (n, e)

With s_p = h_p/‖h_p‖ this is ‖∂‖h_p‖/∂x_i‖, the importance of x_i for h_p; with the unit vectors as seeds it is the norm
of each row of the Jacobian, facet by facet.

One backward pass per position would send n vectors through the encoder one at a time. For a bidirectional LSTM of one
layer all of them travel together here: at step t the adjoints of the positions p ≥ t (p ≤ t in the reverse direction)
are rows of one matrix, so that a step is one matrix product. Cost: O(K n² H (e + H)) time, half of that of n separate
passes, in n matrix products instead of n² matrix-vector products; O(K n (n + H)) memory. For other encoders autograd
is called once for all vectors (`is_grads_batched`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from sightline.api.model import Model
from sightline.errors import OptionError, UnsupportedError
from sightline.lab.distributions import normalised_entropy, total_variation
from sightline.models.single_attention import BilstmEncoder
from sightline.text import Encoding

if TYPE_CHECKING:
    import pandas as pd


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
    # Rows from the last position to the first, so that the positions active at a step come first.
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


Array = NDArray[np.float64]
Removal = Literal["renormalise", "zero"]
MEASURES = ("gradient_x", "gradient_h", "leave_out_x", "leave_out_h")


@dataclass(frozen=True, eq=False)
class FeatureImportance:
    """All importances of one document, each (n,) and 0 at tokens that get no weight; g_h is (n, n)."""

    encoding: Encoding
    attended: NDArray[np.bool_]
    """Which tokens may get weight, (n,)."""
    attention: Array
    """The weights a."""
    gradient_x: Array
    """g_ŷ(x)."""
    gradient_h: Array
    """g_ŷ(h)."""
    leave_out_x: Array
    """D_ŷ(x)."""
    leave_out_h: Array
    """D_ŷ(h)."""
    representations: Array
    """g_h(x) (n, n): row p says how much h_p depends on every input."""
    facets: Array | None
    """By facet (d, n, n), if requested: ‖∂h_pk/∂x_i‖, scaled to sum 1 over i."""

    @property
    def entropies(self) -> Array:
        """Normalised entropy of every row of `representations`, (n,)."""
        count = int(self.attended.sum())
        return np.asarray(normalised_entropy(torch.from_numpy(self.representations), count).numpy())

    def entropy(self, measure: str) -> float:
        """Return the normalised entropy over attended tokens of "attention" or of one of `MEASURES`."""
        if measure not in ("attention", *MEASURES):
            raise OptionError(f"Unknown measure '{measure}'. Use one of: attention, {', '.join(MEASURES)}.")
        return float(normalised_entropy(torch.from_numpy(getattr(self, measure)[self.attended])))

    def correlation(self, measure: str) -> tuple[float, int]:
        """Return tau-b between the weights and an importance over attended tokens, and the number of tied pairs.

        NaN where one of the two is constant.
        """
        if measure not in MEASURES:
            raise OptionError(f"Unknown importance '{measure}'. Use one of: {', '.join(MEASURES)}.")
        weights, importance = self.attention[self.attended], getattr(self, measure)[self.attended]
        first, second = np.triu_indices(len(weights), k=1)
        ties = int(((weights[first] == weights[second]) | (importance[first] == importance[second])).sum())
        if len(weights) < 2 or np.ptp(weights) == 0 or np.ptp(importance) == 0:
            return float("nan"), ties
        return float(stats.kendalltau(weights, importance).statistic), ties

    def to_frame(self) -> pd.DataFrame:
        """Return one row per token."""
        import pandas as pd

        columns = {name: getattr(self, name) for name in ("attended", "attention", *MEASURES)}
        return pd.DataFrame({"token": self.encoding.tokens, **columns, "entropy": self.entropies})


def feature_importance(
    model: Model,
    document: str | Encoding,
    *,
    removal: Removal = "renormalise",
    by_facet: bool = False,
    detach_attention: bool = False,
) -> FeatureImportance:
    """Measure how much the output and every representation depend on every word of one document.

    The output is the probability of the predicted class. All representations are differentiated in one batched sweep
    (`dependence_norms`).

    removal: how a representation is removed: the other weights are renormalised ("renormalise"), or it counts as zero
    ("zero").
    by_facet: also measure every dimension of every representation (`facets`).
    detach_attention: let gradients flow through the representations only, not through the weights.
    """
    if removal not in ("renormalise", "zero"):
        raise OptionError(f"Unknown removal '{removal}'. Use renormalise or zero.")
    network = model.network
    if not network.family.single_attention:
        raise UnsupportedError(
            f"Feature importance is defined for models with a single attention; this one is of type "
            f"'{network.config.model_type}'. Use model.explain() with method='gradient' or 'leave_one_out'."
        )
    encoding = model.encode(document, truncate=True) if isinstance(document, str) else document
    module = network.module
    ids = torch.tensor(encoding.ids).to(network.device)[None]
    with torch.no_grad():
        embeddings = module.model.embeddings(ids)[0]
        hidden, allowed = module.model.encode(ids, None)
        weights = module.model.attention.weights(hidden, allowed)
        probabilities = network.task.probabilities(module.decode((weights[..., None] * hidden).sum(1)))[0]
    h, a, attended = hidden[0], weights[0], allowed[0]
    target = int(probabilities.argmax())
    gradient_x, gradient_h = _output_gradients(model, embeddings, attended, target, detach_attention)
    without_h = _without_representations(module, h, a, attended, removal)
    without_x = _without_tokens(model, encoding, attended.numpy(force=True))
    seeds = torch.nn.functional.normalize(h, dim=-1)[None]
    norms = dependence_norms(module.model.encoder, embeddings, seeds)[0]
    facets = None
    if by_facet:
        directions = torch.eye(h.shape[1], dtype=h.dtype, device=h.device)[:, None, :].expand(-1, len(h), -1)
        facets = dependence_norms(module.model.encoder, embeddings, directions)

    def scaled(values: Tensor, rows: bool = False) -> Array:
        """Sum 1 over attended tokens; rows that belong to unattended tokens are 0."""
        values = values.double() * attended
        if rows:
            values = values * attended[:, None]
        total = values.sum(dim=-1, keepdim=True)
        return np.asarray((values / torch.where(total > 0, total, 1)).numpy(force=True))

    def change(logits: Tensor) -> Tensor:
        """Total variation between the output and those of changed documents, (n,)."""
        changed = network.task.probabilities(logits)
        if network.task.facts.multi_label:
            return (changed - probabilities).abs().mean(dim=-1)
        return total_variation(changed, probabilities)

    left_out = torch.zeros(len(h), dtype=h.dtype, device=h.device)
    left_out[attended] = change(without_x)
    return FeatureImportance(
        encoding=encoding,
        attended=attended.numpy(force=True),
        attention=a.double().numpy(force=True),
        gradient_x=scaled(gradient_x),
        gradient_h=scaled(gradient_h),
        leave_out_x=scaled(left_out),
        leave_out_h=scaled(change(without_h)),
        representations=scaled(norms, rows=True),
        facets=None if facets is None else scaled(facets, rows=True),
    )


def _output_gradients(
    model: Model, embeddings: Tensor, attended: Tensor, target: int, detach_attention: bool
) -> tuple[Tensor, Tensor]:
    """Return ‖∂ŷ/∂x_i‖ and ‖∂ŷ/∂h_i‖, (n,) each, of the target's probability."""
    module: Any = model.network.module
    with torch.enable_grad():
        leaf = embeddings.detach().requires_grad_()
        hidden = encode_document(module.model.encoder, leaf)
        weights = module.model.attention.weights(hidden[None], attended[None])[0]
        if detach_attention:
            weights = weights.detach()
        value = model.network.task.probabilities(module.decode(weights @ hidden))[target]
    gradients = torch.autograd.grad(value, (leaf, hidden))
    return gradients[0].norm(dim=-1), gradients[1].norm(dim=-1)


@torch.no_grad()
def _without_representations(module: Any, h: Tensor, a: Tensor, attended: Tensor, removal: Removal) -> Tensor:
    """Return logits (n, C) with each h_i in turn left out of the sum: Σ_{j≠i} a_j h_j, over 1 − a_i if renormalised."""
    remaining = (a @ h)[None] - a[:, None] * h
    if removal == "renormalise":
        rest = 1 - a
        remaining = remaining / torch.where(rest > 0, rest, 1)[:, None]
        for i in (rest <= 0).nonzero()[:, 0].tolist():
            others = attended.clone()
            others[i] = False
            if bool(others.any()):
                remaining[i] = module.model.attention.weights(h[None], others[None])[0] @ h
    logits: Tensor = module.decode(remaining)
    return logits


def _without_tokens(model: Model, encoding: Encoding, attended: NDArray[np.bool_]) -> Tensor:
    """Logits of the document without each attended token in turn; the empty document keeps its only token."""
    changed = [encoding.drop([i]) if len(encoding) > 1 else encoding for i in np.flatnonzero(attended).tolist()]
    return torch.stack(model.network.run_many(changed))
