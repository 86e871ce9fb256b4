"""DecompX and ALTI-Logit against the vectors of every token in every row, written out; and what they add up to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import gelu

from sightline.api.load import load
from sightline.errors import UnsupportedError
from sightline.methods import relevance_matrices
from tests.models.test_tasks import MeanPooled
from tests.tiny_models import FAMILIES, randomise, tiny_ids, tiny_model, tiny_module

METHODS = ("decompx", "alti_logit")
TOKENS = 9


def document(model, n=TOKENS):
    return model.encode(ids=tiny_ids(model.network.config.model_type, n))


def without_biases(model):
    for name, parameter in model.network.module.named_parameters():
        if name.endswith("bias"):
            parameter.data.zero_()
    return model


def tensor(array):
    return torch.tensor(np.asarray(array), dtype=torch.float64)


class Frozen:
    """A BERT or Longformer at one document: its linear maps, with attention, deviations and slopes as numbers."""

    def __init__(self, model, encoding):
        self.trace = model.trace(encoding)
        self.states = [tensor(state) for state in self.trace.hidden_states]
        self.layers = model.network.layers
        self.attentions = [tensor(attention.dense()) for attention in self.trace.attentions]
        module = model.network.module
        if hasattr(module.classifier, "dense"):
            self.dense, self.out = module.classifier.dense, module.classifier.out_proj
        else:
            self.dense, self.out = module.base_model.pooler.dense, module.classifier

    def mix(self, number, vectors):
        """Σ_h Σ_j A^h_ij W_O^h W_V^h x_j for vectors (n, ..., d) and the map without biases."""
        part = self.layers[number].attention
        heads = self.attentions[number]

        def through(value, rows):
            values = (vectors @ value.weight.T).unflatten(-1, (len(heads), -1))
            return torch.einsum("hij,j...he->i...he", heads[:, rows], values).flatten(-2)

        mixed = through(part.self.value, slice(None))
        if hasattr(part.self, "value_global"):
            mixed[:1] = through(part.self.value_global, slice(0, 1))
        return mixed @ part.output.dense.weight.T

    def value_bias(self, number):
        """Σ_h A^h_ij W_O^h b_V (n, n, d): what the value projection's bias brings from j to i."""
        part = self.layers[number].attention
        heads = self.attentions[number]

        def through(value, rows):
            bias = value.bias.unflatten(-1, (len(heads), -1))
            return torch.einsum("hij,he->ijhe", heads[:, rows], bias).flatten(-2)

        brought = through(part.self.value, slice(None))
        if hasattr(part.self, "value_global"):
            brought[:1] = through(part.self.value_global, slice(0, 1))
        return brought @ part.output.dense.weight.T


def normalised(norm, vectors, whole):
    """The linear part of a LayerNorm for vectors (n, ..., d) whose sums are `whole` (n, d)."""
    deviation = (whole.var(-1, unbiased=False) + norm.eps).sqrt()
    centred = vectors - vectors.mean(-1, keepdim=True)
    return norm.weight * centred / deviation.view(-1, *[1] * (vectors.ndim - 1))


def shared(rows, bias):
    """(n, k) and (d,) to (n, k, d)."""
    return rows[..., None] * bias


@torch.no_grad()
def decomposed(model, encoding, target):
    """Scores from the vectors x^l_{i⇐k} (n, n, d), and whether their sums are the states of the model."""
    frozen = Frozen(model, encoding)
    mixtures = [torch.eye(len(encoding), dtype=torch.float64)]
    mixtures += [tensor(matrix) for matrix in relevance_matrices(frozen.trace, "norm_rollout")]
    vectors = torch.eye(len(encoding), dtype=torch.float64)[..., None] * frozen.states[0]
    for number, layer in enumerate(frozen.layers):
        below, above = mixtures[number], mixtures[number + 1]
        attention, norm = layer.attention.output.dense, layer.attention.output.LayerNorm
        vectors = vectors + frozen.mix(number, vectors) + shared(above, attention.bias)
        vectors = vectors + torch.einsum("ijd,jk->ikd", frozen.value_bias(number), below)
        vectors = normalised(norm, vectors, vectors.sum(1)) + shared(above, norm.bias)
        inner = vectors @ layer.intermediate.dense.weight.T + shared(above, layer.intermediate.dense.bias)
        whole = inner.sum(1)
        inner = inner * (gelu(whole) / whole)[:, None]
        vectors = vectors + inner @ layer.output.dense.weight.T + shared(above, layer.output.dense.bias)
        norm = layer.output.LayerNorm
        vectors = normalised(norm, vectors, vectors.sum(1)) + shared(above, norm.bias)
        torch.testing.assert_close(vectors.sum(1), frozen.states[number + 1])
    read = vectors[0] @ frozen.dense.weight.T + shared(mixtures[-1][0], frozen.dense.bias)
    read = read * (read.sum(0).tanh() / read.sum(0))
    return (read @ frozen.out.weight[target] + mixtures[-1][0] * frozen.out.bias[target]).numpy()


@torch.no_grad()
def written(model, encoding, target):
    """Scores from the vectors that every block adds to row 0, each carried to the logit along the residual alone."""
    frozen = Frozen(model, encoding)
    mixtures = [np.eye(len(encoding)), *relevance_matrices(frozen.trace, "alti")]
    plan = []
    for number, layer in enumerate(frozen.layers):
        x, norms = frozen.states[number], (layer.attention.output.LayerNorm, layer.output.LayerNorm)
        from_each = torch.stack(
            [frozen.mix(number, x * (torch.arange(len(x)) == j)[:, None])[0] for j in range(len(x))]
        )
        from_each = from_each + frozen.value_bias(number)[0]
        middle = x[0] + from_each.sum(0) + layer.attention.output.dense.bias
        y = norms[0](middle)
        fed = layer.output.dense(gelu(layer.intermediate.dense(y)))
        plan.append((norms, middle, y + fed, from_each, fed, layer.attention.output.dense.bias))
    read = frozen.dense(frozen.states[-1][0])

    def carried(vector, number, second=False):
        """The part in the logit of a vector (m, d) added before the first (second) norm of a layer."""
        for at in range(number, len(plan)):
            norms, middle, last, *_ = plan[at]
            if at > number or not second:
                vector = normalised(norms[0], vector[None], middle[None])[0]
            vector = normalised(norms[1], vector[None], last[None])[0]
        return (vector @ frozen.dense.weight.T * (read.tanh() / read)) @ frozen.out.weight[target]

    scores = np.zeros(len(encoding))
    scores[0] = carried(frozen.states[0][:1], 0)[0]
    for number, (norms, _, _, from_each, fed, bias) in enumerate(plan):
        scores += carried(from_each, number).numpy() @ mixtures[number]
        rest = carried(bias[None], number) + carried((fed + norms[0].bias)[None], number, second=True)
        after = norms[1].bias[None]
        rest += carried(after, number + 1)
        scores += rest.numpy() * mixtures[number + 1][0]
    head = (frozen.dense.bias * (read.tanh() / read)) @ frozen.out.weight[target] + frozen.out.bias[target]
    return scores + float(head) * mixtures[-1][0]


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_decompx_is_the_sum_over_vectors_of_every_token_in_every_row(family):
    model = tiny_model(family)
    encoding = document(model, 21)
    explanation = model.explain(encoding, "decompx", target=1, quantity="logit")
    np.testing.assert_allclose(explanation.scores, decomposed(model, encoding, 1), rtol=0, atol=1e-12)


def test_decompx_needs_no_shares_where_there_are_no_biases():
    model = without_biases(tiny_model())
    explanation = model.explain(document(model), "decompx", target=0, quantity="logit")
    np.testing.assert_allclose(explanation.scores, decomposed(model, document(model), 0), rtol=0, atol=1e-12)
    assert explanation.checks["bias_share"] < 1e-12


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_alti_logit_is_the_sum_over_what_every_block_writes(family):
    model = tiny_model(family)
    encoding = document(model, 21)
    explanation = model.explain(encoding, "alti_logit", target=1, quantity="logit")
    np.testing.assert_allclose(explanation.scores, written(model, encoding, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_add_up_to_the_logit(family, method):
    model = tiny_model(family)
    explanation = model.explain(document(model), method, target=1, quantity="logit")
    np.testing.assert_allclose(explanation.scores.sum(), explanation.prediction.logits[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_scores_add_up_to_the_log_odds_of_two_classes(method):
    model = tiny_model(num_labels=2)
    explanation = model.explain(document(model), method, target=0)
    first, second = explanation.prediction.logits
    np.testing.assert_allclose(explanation.scores.sum(), first - second, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_head_that_reads_the_mean_of_all_rows_adds_up_too(method):
    module = randomise(MeanPooled(tiny_module().config)).double()
    model = load(module, task="sequence_classification")
    encoding = document(model, 21)
    explanation = model.explain(encoding, method, target=1, quantity="logit")
    np.testing.assert_allclose(explanation.scores.sum(), explanation.prediction.logits[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_head_whose_slope_is_infinite_at_zero_is_refused_in_a_sentence(method):
    module = tiny_module()
    module.classifier = nn.Sequential(module.classifier, nn.Sigmoid())
    model = load(module)
    with pytest.raises(UnsupportedError, match="no rule for the operation 'sigmoid'"):
        model.explain(document(model), method)
