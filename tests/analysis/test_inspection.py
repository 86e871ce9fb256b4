"""Inspections: one pass serves all numbers, and each number is that of the analysis it comes from."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import sightline as sl
from sightline.analysis import InspectionSettings, head_importance_of, inspect_dataset, inspect_document
from sightline.errors import InputError, OptionError
from tests.tiny_models import FAMILIES, tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

TEXT = "The old river runs past the mill."
ROWS = [
    {"id": "a", "text": TEXT},
    {"id": "empty", "text": ""},
    {"id": "b", "text": "Hello world, hello miller!"},
    {"id": "stops", "text": "The is the."},
]


@pytest.fixture(scope="module")
def model():
    return sl.load(tiny_module(), tokenizer=wordpiece())


@pytest.mark.parametrize("family", FAMILIES)
def test_one_forward_and_one_backward_serve_everything(family):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 13))
    methods = ["attcat", "rollout", "input_x_gradient"] + (["alti"] if family in ("bert", "longformer") else [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rollout warns about causal models
        inspection = model.inspect(encoding, methods=tuple(methods), scaled=True, permutations=3)
    assert (model.network.forward_passes, model.network.backward_passes) == (1, 1)
    assert list(inspection.explanations) == methods
    assert inspection.importance.shape == (3, 4)


def test_the_inside_is_that_of_the_report(model):
    inspection, report = model.inspect(TEXT, permutations=3), model.report(TEXT, ["attcat"], check=False)
    for name in ("received", "images", "importance"):
        np.testing.assert_array_equal(getattr(inspection.inside, name), getattr(report.inside, name))
    assert inspection.inside.relations.keys() == report.inside.relations.keys()
    np.testing.assert_array_equal(inspection.first.scores, report.first.scores)


def test_numbers_belong_to_the_target(model):
    chosen = model.inspect(TEXT, target=2, permutations=3)
    assert chosen.first.target.index == 2
    np.testing.assert_allclose(chosen.importance, head_importance_of(model.trace(TEXT, 2)), rtol=1e-12)
    contrast = model.inspect(TEXT, target=(0, 1), permutations=3)
    assert contrast.first.target.contrast == 1
    with pytest.raises(OptionError, match="one target"):
        model.inspect(TEXT, target="all")


def test_a_check_compares_the_first_explanation_with_random_words(model):
    inspection = model.inspect(TEXT, methods=("attcat", "rollout"), check=True, permutations=3)
    checks = {name: explanation.check for name, explanation in inspection.explanations.items()}
    assert checks["attcat"] is not None
    assert checks["attcat"].random
    assert checks["rollout"] is None


def test_settings_come_as_one_object_or_as_fields(model):
    settings = InspectionSettings(top_k=3, permutations=3)
    ours, theirs = model.inspect(TEXT, settings), inspect_document(model, TEXT, settings)
    assert ours.settings is theirs.settings is settings
    with pytest.raises(OptionError, match="settings= or its fields"):
        model.inspect(TEXT, settings, top_k=3)
    with pytest.raises(OptionError, match="leave out head_importance=False"):
        InspectionSettings(scaled=True, head_importance=False)


# Data sets ------------------------------------------------------------------------------------------------------------


def test_a_data_set_is_explained_for_the_predicted_classes_or_for_one_target(model):
    settings = InspectionSettings(permutations=3, stop_words=None)
    predicted = inspect_dataset(model, ROWS, settings)
    classes = {model.labels[index] for index in predicted.predictions.predicted}
    assert {words.target for words in predicted.words} == classes
    assert predicted.predicted_targets
    for target, name in ((2, "LABEL_2"), ((0, 1), "LABEL_0:LABEL_1")):
        chosen = inspect_dataset(model, ROWS, settings, target=target)
        (words,) = chosen.words
        assert (words.target, words.documents, chosen.predicted_targets) == (name, 3, False)
    with pytest.raises(OptionError, match="one target"):
        inspect_dataset(model, ROWS, settings, target="all")


def test_documents_that_cannot_be_compared_are_left_out_and_named(model):
    inspection = inspect_dataset(model, ROWS, InspectionSettings(permutations=3))
    assert any(note.startswith("Document empty was left out") for note in inspection.notes)
    table = inspection.similarity["attcat"]
    assert table.notes == ("Document stops: Nothing is left to compare: the filter drops every word.",)
    assert {cell.documents for cell in table.cells if cell.masked} == {2}
    with pytest.raises(InputError, match="No document of the data set can be read"):
        inspect_dataset(model, ["", "  "])


def test_the_maps_of_a_data_set_are_its_average(model):
    inspection = inspect_dataset(model, ROWS, InspectionSettings(permutations=3))
    texts = [row["text"] for row in ROWS if row["text"]]
    expected = sl.analysis.average_maps(model, texts)
    np.testing.assert_array_equal(inspection.maps.pixels, expected.pixels)
    assert inspection.maps.documents == inspection.documents == 3


def test_a_model_without_a_tokenizer_inspects_encodings():
    bare = tiny_model()
    encodings = [bare.encode(ids=[101, *range(20, 20 + n), 102]) for n in (5, 9)]
    inspection = inspect_dataset(bare, encodings, InspectionSettings(permutations=3))
    assert {cell.documents for cell in inspection.similarity["attcat"].cells} == {2}


def test_anisotropy_and_the_ranks_of_tokens(model):
    inspection = model.inspect("The old mill.", methods=("rollout", "raw_attention"), permutations=3, anisotropy=True)
    assert len(inspection.anisotropy.outputs) == 3
    assert model.inspect("The old mill.", permutations=3).anisotropy is None
    assert set(inspection.token_ranks) == {"rollout", "raw_attention"}
    assert "." in inspection.token_ranks["rollout"]["token"].tolist()
