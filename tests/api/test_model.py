"""What a Model refuses, what it is called, and that several threads may share one."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest
import torch

from sightline.api import loaded
from sightline.api.explaining import Explainer
from sightline.api.load import load
from sightline.errors import InputError, OptionError
from sightline.passes.reading import ReadPolicy
from sightline.text import Example, as_examples
from sightline.text.documents import read_document
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
        (datasets.Dataset.from_dict({"text": ["A compiler."]}), "A table is not a document"),
        ([None], "Each document is a text or an encoding, not NoneType"),
        ([3], "Each document is a text or an encoding, not int"),
        (None, "A document is a text, an encoding or a trace, not NoneType"),
        (b"A compiler.", "not bytes"),
        (Path("letter.txt"), r"A path is not a document. To read the file, give sl.read_document\('letter.txt'\)"),
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
    with pytest.raises(
        OptionError, match="A model is a folder, a name on the hub, or a model or pipeline object of transformers, not"
    ):
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


def test_the_text_of_a_file_is_read_and_its_name_is_warned_about(built_in, tmp_path):
    file = tmp_path / "letter.txt"
    file.write_text("The compiler checks every type.")
    document = read_document(file)
    expected = built_in.explain(document.text, method="gradient")
    alone, first = built_in.explain(document, method="gradient"), built_in.explain([document], method="gradient")[0]
    np.testing.assert_array_equal(alone.scores, expected.scores)
    np.testing.assert_array_equal(first.scores, expected.scores)
    with pytest.warns(UserWarning, match="is the name of a file, and only the name is read"):
        built_in.predict(str(file))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built_in.predict(str(tmp_path / "no such letter.txt"))


def test_a_document_read_from_a_file_goes_wherever_its_text_goes(built_in, tmp_path):
    file = tmp_path / "letter.txt"
    file.write_text("The compiler checks every type.")
    document = read_document(file)
    assert built_in.encode(document) == built_in.encode(document.text)
    assert built_in.encode("A letter.", document) == built_in.encode("A letter.", document.text)
    assert built_in.trace(document).encoding == built_in.trace(document.text).encoding
    assert built_in.trace([document, "A letter."])[0].encoding == built_in.encode(document.text)
    for method in (built_in.explain, partial(built_in.report, check=False), built_in.inspect):
        assert method("A letter.", pair=document).encoding == method("A letter.", pair=document.text).encoding
    assert built_in.report(document, check=False).encoding.text == document.text
    assert built_in.inspect(document).encoding.text == document.text
    assert built_in.check(built_in.explain(document, method="gradient")).check is not None


def test_rows_of_a_data_set_may_be_documents_read_from_files(tmp_path):
    file = tmp_path / "letter.txt"
    file.write_text("The compiler checks every type.")
    document = read_document(file)
    rows = [document, (document, "PL"), {"text": document, "label": "PL", "text_pair": document}]
    rows.append(Example(document, document))
    texts = [row.text for row in as_examples(rows)]
    assert texts == [document.text] * 4
    assert [row.pair for row in as_examples(rows)] == [None, None, document.text, document.text]


def test_several_documents_are_predicted_one_by_one(built_in):
    texts = ["The compiler checks every type.", "The network learns."]
    predictions = built_in.predict(texts)
    assert [prediction.label for prediction in predictions] == [built_in.predict(text).label for text in texts]


def test_a_pipeline_brings_its_model_and_its_tokenizer():
    from transformers import TextClassificationPipeline

    module, tokenizer = tiny_module(), wordpiece()
    model = load(TextClassificationPipeline(model=module, tokenizer=tokenizer))
    assert model.network.module.classifier.weight.data_ptr() == module.classifier.weight.data_ptr()
    assert model.tokenizer is tokenizer
    assert (
        load(TextClassificationPipeline(model=module, tokenizer=tokenizer), tokenizer=wordpiece()).tokenizer
        is not tokenizer
    )


@pytest.mark.parametrize(
    ("settings", "length"),
    [
        ({"truncation": True, "max_length": 7}, 7),
        ({"max_length": 7}, 7),
        ({"truncation": "longest_first", "max_length": 7, "top_k": None, "padding": True}, 7),
        ({"truncation": True}, 128),
        ({}, None),
    ],
)
def test_a_text_is_cut_off_where_its_pipeline_cuts_it_off(settings, length):
    from transformers import TextClassificationPipeline

    pipeline = TextClassificationPipeline(model=tiny_module(), tokenizer=wordpiece(), **settings)
    pipeline.tokenizer.model_max_length = 128
    text = "the old mill " * 60
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = load(pipeline)
    encoding = model.encode(text)
    if length is None:
        assert encoding.windows is not None
        return
    seen = pipeline.preprocess(text, **pipeline._preprocess_params)["input_ids"][0].tolist()
    assert encoding.ids.tolist() == seen
    assert len(seen) == length
    assert encoding.windows is None
    (predicted,) = pipeline([text], top_k=1)[0]
    # The pipeline computes probabilities in single precision.
    assert model.predict(text).probability == pytest.approx(predicted["score"], abs=1e-7)


def test_settings_of_a_pipeline_that_are_not_followed_are_named():
    from transformers import TextClassificationPipeline

    class Shouting(TextClassificationPipeline):
        def preprocess(self, inputs, **settings):
            return super().preprocess(inputs.upper(), **settings)

    settings = {"add_special_tokens": False, "function_to_apply": "none", "truncation": "only_first"}
    with pytest.warns(
        UserWarning,
        match=r"does not follow these settings of the pipeline: add_special_tokens=False, truncation='only_first', "
        r"function_to_apply=.*, Shouting\.preprocess\. What it explains may differ",
    ):
        load(Shouting(model=tiny_module(), tokenizer=wordpiece(), **settings))


def test_an_object_in_half_precision_is_warned_about_and_its_probabilities_sum_to_one():
    module = tiny_module(dtype=torch.bfloat16)
    with pytest.warns(UserWarning, match="computes in bfloat16.*dtype='float32'"):
        model = load(module)
    probabilities = model.trace(model.encode(ids=tiny_ids())).probabilities
    assert abs(probabilities.sum() - 1) < 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(module, dtype="float32")


TEXTS = ("The compiler checks every type.", "A parser reads.", "The network learns to guess from measured data. " * 3)


def test_every_kind_of_document_is_read_in_one_place(built_in):
    long_text = "The compiler checks every type. " * 800
    whole, first = built_in.read(long_text), built_in.read(long_text, ReadPolicy(truncate=True))
    assert whole.windows is not None
    assert first.windows is None
    assert (first, whole) == (built_in.encode(long_text, truncate=True), built_in.encode(long_text))
    assert built_in.read(whole) is whole
    assert built_in.read(("A letter.", "Its answer.")) == built_in.encode("A letter.", "Its answer.")
    assert built_in.read("A letter.", ReadPolicy(pair="Its answer.")) == built_in.encode("A letter.", "Its answer.")
    with pytest.raises(OptionError, match="no aggregation 'sum'|aggregation"):
        built_in.encode("A letter.", aggregation="sum")
    with pytest.raises(OptionError, match="truncate= goes with a text"):
        built_in.read(whole, ReadPolicy(truncate=True))


@pytest.mark.parametrize("batch_size", [None, 1, 2])
def test_a_list_gives_what_each_document_gives_alone(built_in, batch_size):
    documents = [*TEXTS, ("A parser reads.", "It writes a tree."), "The compiler checks every type. " * 60]
    predicted = built_in.predict(documents, batch_size=batch_size)
    explained = built_in.explain(documents, "gradient", batch_size=batch_size)
    for document, prediction, explanation in zip(documents, predicted, explained, strict=True):
        alone = built_in.predict(built_in.read(document))
        np.testing.assert_allclose(prediction.probabilities, alone.probabilities, atol=1e-5)
        np.testing.assert_allclose(
            explanation.scores, built_in.explain(built_in.read(document), "gradient").scores, atol=1e-5
        )


def test_a_batch_holds_as_many_documents_as_it_may(built_in):
    before = built_in.network.forward_passes
    built_in.predict([TEXTS[0]] * 5, batch_size=2)
    assert built_in.network.forward_passes - before == 3
    built_in.explain([TEXTS[0]] * 5, "gradient", batch_size=2)
    assert built_in.network.forward_passes - before == 6
    for ask in (built_in.predict, built_in.explain):
        with pytest.raises(OptionError, match="batch_size= goes with a list of documents"):
            ask(TEXTS[0], batch_size=2)
        with pytest.raises(OptionError, match="batch_size must be a whole number"):
            ask(list(TEXTS), batch_size=0)


def test_a_column_of_a_data_set_is_a_list_of_documents(built_in):
    rows = datasets.Dataset.from_dict({"text": list(TEXTS)})
    expected = built_in.predict(list(TEXTS))
    assert [prediction.label for prediction in built_in.predict(rows["text"])] == [one.label for one in expected]
    labelled = rows.map(lambda row: {"label": built_in.predict(row["text"]).label})
    assert labelled["label"][:] == [one.label for one in expected]


def test_predictions_of_a_long_list_hold_the_encodings_of_a_part_of_it(built_in, monkeypatch):
    monkeypatch.setattr(loaded, "PREDICTED_AT_ONCE", 2)
    seen = []
    predict = Explainer.predict
    monkeypatch.setattr(
        Explainer, "predict", lambda self, read, *more: seen.append(len(read)) or predict(self, read, *more)
    )
    assert len(built_in.predict(list(TEXTS))) == 3
    assert seen == [2, 1]


def test_a_list_may_hold_chats():
    tokenizer = wordpiece()
    tokenizer.chat_template = "{% for m in messages %}[CLS] {{ m['content'] }} [SEP]{% endfor %}"
    model = load(tiny_module(vocab_size=max(128, len(tokenizer))), tokenizer=tokenizer)
    chats = [[{"role": "user", "content": text}] for text in ("the old mill", "the river runs past the mill")]
    for chat, prediction, explanation in zip(
        chats, model.predict(chats), model.explain(chats, "gradient"), strict=True
    ):
        np.testing.assert_allclose(prediction.probabilities, model.predict(chat).probabilities, atol=1e-9)
        np.testing.assert_allclose(explanation.scores, model.explain(chat, "gradient").scores, atol=1e-9)
