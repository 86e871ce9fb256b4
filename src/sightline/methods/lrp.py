"""Relevance propagation: the target's relevance is handed back from operation to operation down to the tokens.

Notation: R(x^l) (n, d) the relevance of the input of layer l, R(A^l) (H, n, n) that of its attention, r the readout
row. The rules are in `relevance/rules.py`; the model itself is not rewritten (`relevance/mode.py`). Relevance starts at
the logits with ∂y/∂logits, fixed at the prediction: for log-odds 1 for the class c and −p_j/(1 − p_c) for the others;
for `attnlrp` with that times the logits.

Of a quantity that raises some logits and lowers others, as log-odds do, the positive rules would cancel everything:
they keep sums, and the sum is 0. They propagate every logit by itself, and R = Σ_c (∂y/∂z_c) R_c, with R_c the
relevance for logit c. Of a vocabulary, the 32 logits with the largest weights are propagated one by one, the others
together, each sign by itself (`Propagation.seeds`). R_c depends on what is positive in logit c, so that, unlike those
of all other methods, these scores change when the same number is added to all logits.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sightline.attention import Attention
from sightline.methods.attention_weights import rollout_rows
from sightline.methods.registry import Attribution, method
from sightline.methods.relevance.mode import propagate
from sightline.methods.relevance.rules import ATTENTION_AWARE, RULE_SETS, RuleSet
from sightline.models.layerwise import Relevance
from sightline.passes.forward import Need
from sightline.passes.trace import Trace
from sightline.settings.values import check_layer

Embeddings = Literal["full", "word"]
"""Where scores are read: x^0, the input of the first layer, or the word embeddings (positions keep their part)."""
Precision = Literal["double", "model"]
"""In which the relevance is computed: double precision, or that of the model, with half the time and memory."""


def token_relevance(relevance: Relevance, embeddings: Embeddings) -> Attribution:
    """Return scores (n,), the same for every layer's input (L, n), and how much of the relevance arrived.

    conservation_error = |Σ scores − Σ seed| / Σ|seed|; where the seed is y itself, that is |Σ scores − y| / |y|.
    """
    layers = np.stack([layer.sum(axis=-1, dtype=float) for layer in relevance.hidden[:-1]])
    scores = layers[0] if embeddings == "full" else relevance.embeddings.sum(axis=-1, dtype=float)
    given, size = float(relevance.seed.sum()), float(np.abs(relevance.seed).sum())
    total = float(scores.sum())
    checks = {
        "relevance_given": given,
        "relevance_kept": total,
        "conservation_error": abs(total - given) / (size or 1.0),
    }
    return Attribution(scores, layers=layers, checks=checks, layer_kind="separate")


def positive_products(trace: Trace, rules: RuleSet = "positive", precision: Precision = "model") -> list[Attention]:
    """Return mean_h max(0, ∂y/∂A^l ⊙ R(A^l)) of every layer as one-head operators: the steps of `transatt`."""
    relevance = propagate_by(trace, rules, precision, "attention_gradients", "attention_relevance")
    return [products for _, products in relevance.attentions]


def propagate_by(trace: Trace, rules: RuleSet, precision: Precision, *needs: Need) -> Relevance:
    """Return the relevance by a rule set, in double precision on a copy of the model or in the model's own.

    Where contributions cancel, both rule sets divide by almost nothing, and rounding errors grow with every layer. In
    single precision, the relevance of tokens and of lower layers' attention in a trained Longformer of six layers was
    off by 0.1 to 200 % of its total; that of `attnlrp`, by less than 0.01 %.
    """
    if precision == "double":
        trace = trace.in_double()
    trace.require(*needs)
    return propagate(trace, RULE_SETS[rules])


@method(
    "partial_lrp",
    title="Partial LRP",
    kind="relevance",
    summary="Positive relevance of the last layer's attention in the readout row, averaged over heads.",
    formula="s_j = mean_h max(0, R(A^{L,h})_rj)",
    citation="Voita et al. 2019 (partial LRP), as in Chefer et al. 2021",
    needs={"attention_relevance"},
    signed=False,
    class_specific=True,
    cost="two forward passes, one relevance pass per class, in double precision",
    use="Use it as a class-specific view of one layer's attention.",
    avoid="Avoid it for words that act through lower layers: relevance stops at the attention of one layer.",
    zeros_mean="no attention weight that is read has positive relevance",
)
def partial_lrp(
    trace: Trace, *, rules: RuleSet = "positive", layer: int = -1, precision: Precision = "double"
) -> Attribution:
    """Readout row of R(A) in one layer; `layers` holds the same for every layer."""
    chosen = check_layer(layer, trace.layer_count)
    relevances = propagate_by(trace, rules, precision, "attention_relevance").attentions
    layers = np.stack([positive.left(trace.readout)[0] for positive, *_ in relevances])
    return Attribution(layers[chosen], layers=layers, layer_kind="separate")


@method(
    "lrp",
    title="LRP",
    kind="relevance",
    summary="Signed relevance propagated layer by layer from the target down to the tokens.",
    formula="s_i = Σ_d R(x^0)_id",
    citation="Bach et al. 2015 (LRP), as in Chefer et al. 2021",
    needs={"relevance"},
    signed=True,
    class_specific=True,
    cost="two forward passes, one relevance pass per class, in double precision",
    use="Use it to see where relevance ends, layer by layer.",
    avoid="Avoid it for ranking words: on trained models, changes as small as rounding errors reorder them (attnlrp is "
    "stable). Avoid comparing magnitudes with rules='classic': relevance grows from layer to layer.",
)
def lrp(
    trace: Trace,
    *,
    rules: RuleSet = "positive",
    embeddings: Embeddings = "full",
    precision: Precision = "double",
) -> Attribution:
    """Relevance of every token; `layers` holds that of every layer's input."""
    return token_relevance(propagate_by(trace, rules, precision, "relevance"), embeddings)


@method(
    "transatt",
    title="Transformer attribution",
    kind="relevance",
    summary="Positive part of attention relevance times attention gradient, multiplied through the layers.",
    formula="Ā^l = mean_h max(0, ∂y/∂A^l ⊙ R(A^l)); Â = Ā + I with rows that sum to 1; s = r · Â^L ⋯ Â^1",
    citation="Chefer et al. 2021 (Transformer attribution)",
    needs={"attention_gradients", "attention_relevance"},
    signed=False,
    class_specific=True,
    cost="one forward and backward pass, one relevance pass per class",
    use="Use it as the class-specific form of rollout.",
    avoid="Avoid it for finding evidence against the class: only positive products count.",
)
def transatt(
    trace: Trace, *, rules: RuleSet = "positive", start_layer: int = 0, precision: Precision = "model"
) -> Attribution:
    """Rollout of the layers from `start_layer` up; `layers` holds the readout row of each layer's Ā.

    The readout token keeps its own score, most of which comes from the identity I. In single precision, scores of words
    were off by up to 0.5 % of their total (six layers, see `propagate_by`), the rows of lower layers by far more;
    precision="double" takes twice the time and memory.
    """
    first = check_layer(start_layer, trace.layer_count)
    layers = positive_products(trace, rules, precision)
    rows = np.stack([layer.left(trace.readout)[0] for layer in layers])
    return Attribution(rollout_rows(layers[first:], trace.readout), layers=rows, layer_kind="separate")


@method(
    "attnlrp",
    title="AttnLRP",
    kind="relevance",
    summary="Signed relevance propagated with dedicated rules for softmax, products and LayerNorm.",
    formula="s_i = Σ_d R(x^0)_id; Σ R = y up to what biases and softmax absorb",
    citation="Achtibat et al. 2024 (AttnLRP)",
    needs={"relevance"},
    signed=True,
    class_specific=True,
    cost="one forward pass, one relevance pass",
    use="Use it as the modern form of lrp, in the units of the target.",
    avoid="Avoid reading magnitudes where conservation_error is large: biases have absorbed the rest.",
)
def attnlrp(trace: Trace, *, embeddings: Embeddings = "full") -> Attribution:
    """Relevance of every token in units of y; `layers` holds that of every layer's input.

    The start Σ_c (∂y/∂z_c) z_c is y where y is linear in the logits: a logit, or the log-odds of two classes.
    Biases (also LayerNorm's) and the constant term of softmax absorb relevance, so that Σ scores is y only without
    them: conservation_error says how far it is off.
    """
    return token_relevance(propagate(trace, ATTENTION_AWARE), embeddings)
