"""norm_rollout, globenc and alti on a trace equal the same mathematics on blocks of the library's own modules."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sightline.api.load import load
from sightline.errors import ModelError, OptionError
from sightline.methods.decomposition.block import measure_contributions
from sightline.methods.decomposition.matrices import relevance_matrices
from tests.methods.test_decomposition_of_models import IDS, bert_blocks, longformer_blocks, modernbert_blocks
from tests.tiny_models import tiny_model, tiny_module

BLOCKS = {"bert": bert_blocks, "longformer": longformer_blocks, "modernbert": modernbert_blocks}
GLOBAL = {"longformer": {"global_tokens": [0, 5, 6]}}


@pytest.mark.parametrize("family", BLOCKS)
@pytest.mark.parametrize(
    ("method", "options", "kind"),
    [
        ("norm_rollout", {}, {"kind": "norm"}),
        ("globenc", {}, {"kind": "norm", "second_norm": True}),
        ("alti", {}, {"kind": "alti"}),
        ("alti", {"p": 2, "second_norm": True}, {"kind": "alti", "p": 2, "second_norm": True}),
    ],
)
def test_the_readout_row_of_the_product_of_full_contribution_matrices(family, method, options, kind):
    model = tiny_model(family)
    encoding = model.encode(ids=IDS[0].tolist(), **GLOBAL.get(family, {}))
    explanation = model.explain(encoding, method, **options)
    product = np.eye(len(encoding))
    for layer, block in enumerate(BLOCKS[family]()):
        product = measure_contributions(block, **kind).attention.dense()[0] @ product
        # The library's Longformer and ModernBERT compute their softmax in single precision.
        np.testing.assert_allclose(explanation.layers[layer], product[0], atol=1e-5 if family != "bert" else 1e-11)
    np.testing.assert_array_equal(explanation.scores, explanation.layers[-1])
    assert explanation.checks["reconstruction_error"] < 1e-10


def test_a_lower_layer_can_be_the_top():
    model = tiny_model()
    encoding = model.encode(ids=IDS[0].tolist())
    whole, part = (model.explain(encoding, "alti", layer=layer) for layer in (-1, 1))
    np.testing.assert_allclose(part.scores, whole.layers[1], atol=1e-12)
    with pytest.raises(OptionError, match="must be one of 1, 2, not 3"):
        model.explain(encoding, "alti", p=3)


def test_one_forward_and_no_backward_serves_all_three():
    model = tiny_model("longformer")
    model.explain(model.encode(ids=IDS[0].tolist()), methods=["alti", "globenc", "norm_rollout", "rollout"])
    assert (model.network.forward_passes, model.network.backward_passes) == (1, 0)


class Stronger(nn.Linear):
    """A linear map that returns more than its weights say."""

    def forward(self, x):
        return 1.01 * super().forward(x)


@pytest.mark.parametrize("method", ["norm_rollout", "globenc", "alti"])
def test_a_layer_that_does_not_compute_what_its_weights_say_is_refused(method):
    module = tiny_module("bert")
    module.bert.encoder.layer[1].attention.output.dense.__class__ = Stronger
    model = load(module)
    document = model.encode(ids=IDS[0].tolist())
    with pytest.raises(ModelError, match=r"attention of layer 1 cannot be split .* differs .* by 0\.0"):
        model.explain(document, method)
    with pytest.raises(ModelError, match="attention of layer 1 cannot be split"):
        relevance_matrices(model.trace(document), method)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:This model object computes in")
def test_rounding_in_a_half_type_is_not_refused(dtype):
    model = tiny_model("bert", dtype=dtype)
    checks = model.explain(model.encode(ids=IDS[0].tolist()), "alti").checks
    assert 1e-5 < checks["reconstruction_error"] < torch.finfo(dtype).eps
