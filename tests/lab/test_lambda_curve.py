"""Curves over λ: every value that of one model and document, correlations by hand, projections without λ left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import sightline as sl
from sightline.errors import InputError, OptionError
from tests.models.test_single_attention import ids_of, tiny_single

PROJECTIONS = ("softmax", "sparsegen-2", "sparsemax", "sparsegen0.5", "entmax15")


@pytest.fixture(scope="module")
def measured():
    models = [sl.load(tiny_single("bilstm-attention", projection=name)) for name in PROJECTIONS]
    documents = [models[0].encode(ids=ids_of(8, seed=seed)) for seed in range(7)]
    return models, documents, sl.lab.lambda_curve(models, documents)


def entropy(values):
    positive = values[values > 0]
    return -(positive * np.log(positive)).sum() / np.log(len(values))


def test_every_value_is_that_of_one_model_and_one_document(measured):
    models, documents, curve = measured
    assert curve.projections == PROJECTIONS
    np.testing.assert_array_equal(curve.lambdas, [np.nan, -2, 0, 0.5, np.nan])
    for at, model in enumerate(models):
        for place, document in enumerate(documents):
            importance = sl.lab.feature_importance(model, document)
            kept = importance.attended
            by_hand = {
                "attention_entropy": entropy(importance.attention[kept]),
                "gradient_entropy": entropy(importance.gradient_x[kept]),
                "leave_out_entropy": entropy(importance.leave_out_x[kept]),
                "representation_entropy": np.mean([entropy(row[kept]) for row in importance.representations[kept]]),
                "leave_out_tau": stats.kendalltau(importance.attention[kept], importance.leave_out_x[kept]).statistic,
                "gradient_tau": stats.kendalltau(importance.attention[kept], importance.gradient_x[kept]).statistic,
            }
            for name, value in by_hand.items():
                np.testing.assert_allclose(curve.values[name][at, place], value, atol=1e-12)


def test_the_correlation_is_pearsons_over_the_projections_that_have_a_lambda(measured):
    *_, curve = measured
    for name in ("attention_entropy", "leave_out_entropy"):
        means = curve.values[name][1:4].mean(axis=1)
        value, low, high = curve.correlation(name)
        assert value == pytest.approx(stats.pearsonr([-2, 0, 0.5], means).statistic, abs=1e-12)
        assert low <= value <= high


def test_sparser_weights_are_less_even(measured):
    *_, curve = measured
    frame = curve.to_frame()
    means = frame[frame["measure"] == "attention_entropy"].set_index("projection")["mean"]
    assert means["sparsegen-2"] > means["sparsemax"] > means["sparsegen0.5"]
    assert set(frame["documents"]) == {7}


def test_nothing_to_measure_and_unknown_measures_are_refused(measured):
    models, documents, curve = measured
    with pytest.raises(InputError, match="at least one model and one document"):
        sl.lab.lambda_curve(models, [])
    with pytest.raises(OptionError, match="Unknown measure 'tau'"):
        curve.correlation("tau")
    with pytest.raises(OptionError, match="Unknown measure 'tau'"):
        sl.lab.feature_importance(models[0], documents[0]).entropy("tau")
    assert np.isnan(sl.lab.lambda_curve(models[:2], documents[:1]).correlation("gradient_entropy")).all()
