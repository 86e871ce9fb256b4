"""What a Model refuses, what it is called, and that several threads may share one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from sightline.errors import InputError, OptionError
from sightline.model import load
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

pytestmark = pytest.mark.slow

METHODS = ["attcat", "rollout", "integrated_gradients", "lrp", "alti", "layer_conductance"]


@pytest.fixture(scope="module")
def built_in():
    return load()


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (pd.DataFrame({"text": ["A compiler."]}), r"A table is not a document.*list\(data\['text'\]\)"),
        ({"text": "A compiler."}, "A table is not a document"),
        ([None], "Each document is a text or an encoding, not NoneType"),
        ([3], "Each document is a text or an encoding, not int"),
        (None, "A document is a text, an encoding or a trace, not NoneType"),
        (b"A compiler.", "not bytes"),
    ],
)
@pytest.mark.parametrize("act", ["explain", "trace"])
def test_what_is_no_document_is_refused_rather_than_gone_through(built_in, act, document, sentence):
    with pytest.raises(InputError, match=sentence):
        getattr(built_in, act)(document)


def test_a_column_of_texts_is_a_list_of_documents(built_in):
    texts = ["A compiler infers types.", "A network learns."]
    explanations = built_in.explain(pd.Series(texts))
    assert [explanation.encoding.text for explanation in explanations] == texts


@pytest.mark.parametrize("source", [3, ["folder"]])
def test_what_is_no_model_is_refused_with_a_sentence(source):
    with pytest.raises(OptionError, match="A model is a folder, a name on the hub or a transformers model object, not"):
        load(source)


def test_the_built_in_model_has_a_name(built_in):
    assert built_in.name == "built-in"
    assert built_in.explain("A compiler.").provenance["model"] == "built-in"


@pytest.mark.parametrize("family", ["bert", "albert", "longformer"])
def test_threads_that_share_a_model_see_nothing_of_each_other(family):
    model = tiny_model(family)
    documents = [model.encode(ids=tiny_ids(family, 6 + n, n)) for n in range(6)]
    tasks = [(document, method) for document in documents for method in METHODS]
    alone = [model.explain(document, method).scores for document, method in tasks]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda task: model.explain(*task).scores, tasks))
    for first, second in zip(alone, together, strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_document_is_as_long_as_both_positions_and_tokenizer_allow():
    tokenizer = wordpiece()
    assert load(tiny_module(), tokenizer=tokenizer).max_tokens == 130
    tokenizer.model_max_length = 128
    model = load(tiny_module(), tokenizer=tokenizer)
    assert model.max_tokens == 128
    assert len(model.encode("mill " * 300, truncate=True)) == 128


def test_predict_gives_the_prediction_of_an_explanation():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids())
    assert model.predict(encoding) == model.explain(encoding, "gradient").prediction
