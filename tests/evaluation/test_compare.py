"""compare: agreement between methods, layers and models, each beside its chance level."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from sightline.api.load import load
from sightline.errors import InputError, OptionError
from sightline.evaluation import compare, consistency
from sightline.metrics import METRICS, kendall, spearman
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import byte_level, wordpiece

TEXTS = ["hello old miller! the river", "the mills; old world the mill"]


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


def word_scores(model, text, method):
    return np.array([word.score for word in model.explain(text, method).words()])


def test_methods_are_compared_in_pairs_on_the_same_words(model):
    comparison = compare(model, TEXTS, ["attcat", "gradient", "occlusion"], permutations=20)
    assert comparison.between == "methods"
    assert len(comparison.pairs) == 2 * 3 * 5
    for statistic in (spearman, kendall):
        expected = [
            statistic(word_scores(model, text, "attcat"), word_scores(model, text, "gradient")) for text in TEXTS
        ]
        table = comparison.matrix(statistic.__name__)
        assert table.loc["attcat", "gradient"] == pytest.approx(np.mean(expected), abs=1e-12)
        assert (np.diag(table) == 1.0).all()
        assert (table.to_numpy() == table.to_numpy().T).all()
    summary = comparison.summary()
    assert set(summary["metric"]) == {"spearman", "kendall", "cosine", "rbo", "jaccard"}
    assert (summary["documents"] == 2).all()
    overlap = summary[summary["metric"] == "rbo"]
    assert (overlap["chance"] > 0.3).all()
    assert summary[summary["metric"] == "spearman"]["chance"].abs().max() < 0.4


def test_a_method_agrees_with_itself_in_another_model_with_the_same_weights(model):
    comparison = compare([model, load(tiny_module(), tokenizer=wordpiece())], TEXTS, ["attcat", "rollout"], ["kendall"])
    assert comparison.between == "models"
    assert {pair.method for pair in comparison.pairs} == {"attcat", "rollout"}
    assert all(pair.value == pytest.approx(1.0) for pair in comparison.pairs)
    assert len({pair.first for pair in comparison.pairs} | {pair.second for pair in comparison.pairs}) == 2


def test_models_with_other_vocabularies_are_compared_on_the_words_both_read():
    words, pieces = (
        load(tiny_module(), tokenizer=wordpiece()),
        load(tiny_module("roberta", vocab_size=400), tokenizer=byte_level()),
    )
    comparison = compare({"words": words, "bytes": pieces}, TEXTS, ["gradient"], "spearman")
    first = comparison.pairs[0]
    assert (first.first, first.second) == ("words", "bytes")
    expected = spearman(word_scores(words, TEXTS[0], "gradient"), word_scores(pieces, TEXTS[0], "gradient"))
    assert first.value == pytest.approx(expected, abs=1e-12)
    tokens = compare([words, pieces], TEXTS, ["gradient"], "spearman", level="token")
    assert tokens.pairs[0].value is not None  # both cut the first text alike
    assert (tokens.pairs[1].value, "different tokens" in tokens.pairs[1].error) == (None, True)
    with pytest.raises(OptionError, match="level='word'"):
        compare([words, pieces], TEXTS, ["gradient"], level="sentence")


def test_models_that_cut_texts_alike_are_compared_by_tokens(model):
    other = load(tiny_module(seed=3), tokenizer=wordpiece())
    comparison = compare([model, other], TEXTS[:1], ["gradient"], "spearman", level="token", special=True)
    scores = [one.explain(TEXTS[0], "gradient").scores for one in (model, other)]
    assert comparison.pairs[0].value == pytest.approx(spearmanr(*scores).statistic, abs=1e-12)


@pytest.mark.parametrize("special", [False, True])
def test_special_tokens_are_compared_if_asked_and_occlusion_scores_them(model, special):
    comparison = compare(
        model, TEXTS, ["gradient"], "spearman", reference="occlusion", level="token", special=special, magnitude=True
    )
    for pair, text in zip(comparison.pairs, TEXTS, strict=True):
        encoding = model.encode(text)
        kept = np.ones(len(encoding), bool) if special else ~encoding.special
        gradient = model.explain(text, "gradient").scores[kept]
        blank_out = np.abs(model.explain(text, "occlusion", special=special).scores[kept])
        assert pair.value == pytest.approx(spearmanr(gradient, blank_out).statistic, abs=1e-12)
    with pytest.raises(OptionError, match="level='token'"):
        compare(model, TEXTS, ["gradient"], "spearman", reference="occlusion", special=True)


def test_layers_of_a_method_are_compared_and_methods_without_layers_say_so(model):
    comparison = compare(model, TEXTS[:1], ["attcat", "gradient"], ["cosine"], layers=True)
    assert comparison.between == "layers"
    assert comparison.matrix("cosine", "attcat").shape == (3, 3)
    explanation = model.explain(TEXTS[0], "attcat")
    rows = [[sum(row[i] for i in word.tokens) for word in explanation.words()] for row in explanation.layers]
    expected = METRICS.get("cosine")(rows[0], rows[2])
    assert comparison.matrix("cosine", "attcat").loc["layer 0", "layer 2"] == pytest.approx(expected, abs=1e-12)
    assert [failure.method for failure in comparison.failures] == ["gradient"]


def test_layers_are_compared_with_a_reference_in_one_table(model):
    methods = ["raw_attention", "rollout", "flow"]
    agreement = compare(
        model, TEXTS, methods, ["spearman", "kendall"], layers=True, reference="occlusion", magnitude=True
    )
    table = agreement.by_layer("spearman")
    assert table.columns.tolist() == methods
    assert table.index.tolist() == [0, 1, 2]
    for method in methods:
        for layer in range(3):
            expected = []
            for text in TEXTS:
                tokens = [word.tokens for word in model.explain(text, method).words()]
                row = np.abs(model.explain(text, method).layers[layer])
                blank = np.abs(model.explain(text, "occlusion").scores)
                expected.append(
                    spearmanr(*([sum(scores[i] for i in word) for word in tokens] for scores in (row, blank))).statistic
                )
            assert table.loc[layer, method] == pytest.approx(np.mean(expected), abs=1e-12)
    assert agreement.by_layer("kendall", "chance").shape == (3, 3)
    assert {pair.second for pair in agreement.pairs} == {"occlusion"}
    assert "Agreement between layers and occlusion on 2 documents" in repr(agreement)
    with pytest.raises(OptionError, match="'rbo' was not compared"):
        agreement.by_layer("rbo")
    with pytest.raises(OptionError, match="needs compare"):
        compare(model, TEXTS, ["attcat", "gradient"], ["kendall"]).by_layer("kendall")


def test_methods_are_compared_with_a_reference_only(model):
    agreement = compare(model, TEXTS[:1], ["attcat", "rollout"], ["kendall"], reference="gradient")
    assert [(pair.first, pair.second) for pair in agreement.pairs] == [("attcat", "gradient"), ("rollout", "gradient")]
    every = compare(model, TEXTS[:1], ["attcat", "rollout", "gradient"], ["kendall"])
    values = {(pair.first, pair.second): pair.value for pair in every.pairs}
    assert all(pair.value == values[pair.first, pair.second] for pair in agreement.pairs)


def test_documents_about_which_models_differ_are_left_out():
    first, second = (load(tiny_module(seed=seed), tokenizer=wordpiece()) for seed in (0, 1))
    texts = [*TEXTS, "the old river", "world", "hello", "the mill the mill the mill"]
    labels = [[model.explain(text, "gradient").prediction.label for model in (first, second)] for text in texts]
    differ = [a != b for a, b in labels]
    agreement = consistency({"a": first, "b": second}, texts, ["gradient"], ["kendall"])
    reasons = [pair.error == "The models predict different classes." for pair in agreement.pairs]
    assert reasons == differ
    assert any(differ)
    everything = compare({"a": first, "b": second}, texts, ["gradient"], ["kendall"])
    assert not any(pair.error.startswith("The models") for pair in everything.pairs)
    kept = {pair.document: pair.value for pair in agreement.pairs if pair.value is not None}
    assert kept == {pair.document: pair.value for pair in everything.pairs if pair.document in kept}
    with pytest.raises(OptionError, match="give two or more"):
        consistency([first], texts)


def in_another_order(names, order):
    """A model with the same weights as `tiny_module()`, whose classes have other names or another order."""
    module = tiny_module(id2label=dict(enumerate(names)))
    with torch.no_grad():
        for parameter in module.classifier.parameters():
            parameter.copy_(parameter[list(order)].clone())
    return load(module, tokenizer=wordpiece())


def test_classes_are_matched_by_name_whatever_their_order():
    models = {
        "a": in_another_order(["No", "maybe", "yes"], [0, 1, 2]),
        "b": in_another_order(["YES", "no", "maybe"], [2, 0, 1]),
    }
    rows = [{"text": text, "label": number} for number, text in enumerate([*TEXTS, "the old river"])]
    for target in ("label", "predicted"):
        agreement = consistency(models, rows, ["attcat"], ["spearman"], target=target)
        assert [pair.value for pair in agreement.pairs] == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("options", [{"same_prediction": True}, {"target": "label"}])
def test_models_whose_classes_have_other_names_are_refused(options):
    models = [
        in_another_order(["no", "maybe", "yes"], [0, 1, 2]),
        in_another_order(["LABEL_0", "LABEL_1", "LABEL_2"], [0, 1, 2]),
    ]
    rows = [{"text": text, "label": number} for number, text in enumerate(TEXTS)]
    with pytest.raises(OptionError, match=r"classes of the models cannot be matched: 'no' of .* \(LABEL_0, LABEL_1"):
        compare(models, rows, ["attcat"], ["spearman"], **options)
    assert compare(models, rows, ["attcat"], ["spearman"]).pairs[0].value == pytest.approx(1.0)


def test_the_same_seed_gives_the_same_numbers_whatever_is_compared_beside(model):
    wide = compare(model, TEXTS, ["attcat", "gradient", "random"], ["kendall"], seed=4)
    narrow = compare(model, TEXTS, ["attcat", "random"], ["kendall"], seed=4)
    assert [pair for pair in wide.pairs if (pair.first, pair.second) == ("attcat", "random")] == list(narrow.pairs)


def test_what_cannot_be_explained_or_compared_is_counted_and_the_run_continues(model):
    comparison = compare(model, ["", "hello", TEXTS[0]], ["attcat", "gradient"], ["kendall"])
    assert {failure.document for failure in comparison.failures} == {"0"}
    absent = [pair for pair in comparison.pairs if pair.value is None]
    assert [(pair.document, pair.error) for pair in absent] == [
        ("1", "The two explanations have fewer than two words in common.")
    ]
    row = comparison.summary().iloc[0]
    assert (row["documents"], row["missing"]) == (1, 1)
    assert "2 explanations failed" in repr(comparison)


def test_an_interrupted_comparison_keeps_whole_documents(model):
    def interrupt(stage, done, total):
        if stage == "document 2 of 2: gradient":
            raise KeyboardInterrupt

    comparison = compare(model, TEXTS, ["attcat", "gradient"], ["kendall"], progress=interrupt)
    assert not comparison.complete
    assert comparison.documents == ("0",)
    assert {pair.document for pair in comparison.pairs} == {"0"}


def test_tokens_are_compared_on_request():
    model = tiny_model()
    comparison = compare(model, [model.encode(ids=tiny_ids())], ["attcat", "gradient"], ["kendall"], level="token")
    scores = [model.explain(model.encode(ids=tiny_ids()), name).scores[1:-1] for name in ("attcat", "gradient")]
    assert comparison.pairs[0].value == pytest.approx(kendall(*scores), abs=1e-12)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"methods": ["attcat"]}, "One method has no other"),
        ({"metrics": ["aopc"]}, "measures faithfulness"),
        ({"metrics": []}, "No metric was given"),
        ({"methods": ["attcat", "rolout"]}, "Did you mean 'rollout'"),
        ({"level": "page"}, "level='page' is not known"),
        ({"metrics": 3}, "metrics=3 is not possible"),
        ({"permutations": 0}, "permutations must be a whole number of at least 1, not 0"),
    ],
)
def test_wrong_requests_are_refused(model, options, sentence):
    with pytest.raises(OptionError, match=sentence):
        compare(model, TEXTS, **options)


def test_no_model_and_layers_of_several_models_are_refused(model):
    with pytest.raises(OptionError, match="No model was given"):
        compare([], TEXTS)
    for models in ("my-model", [model, "my-model"], {"mine": "my-model"}):
        with pytest.raises(OptionError, match="'my-model' is the name of a model, not a model"):
            compare(models, TEXTS)
    with pytest.raises(InputError, match="of type NoneType"):
        compare(model, None)
    with pytest.raises(OptionError, match="layers of one model"):
        compare([model, model], TEXTS, ["attcat"], layers=True)
    with pytest.raises(OptionError, match="was not compared; there is: 'kendall'"):
        compare(model, TEXTS, ["attcat", "gradient"], ["kendall"]).matrix("cosine")
