"""evaluate: every method by every metric on every document, whatever goes wrong with some of them."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from transformers import AutoModelForQuestionAnswering

from sightline.api.load import load
from sightline.errors import InputError, OptionError
from sightline.evaluation import DEFAULT_METHODS, evaluate
from sightline.evaluation.result import MODEL
from sightline.evaluation.subject import Missing, choose_target, label_classes
from sightline.methods import METHODS
from sightline.metrics import (
    METRICS,
    auprc,
    confidence,
    confidence_published,
    kendall,
    measure_faithfulness,
    special_share,
    token_f1,
)
from sightline.text import Example
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

FIRST, SECOND = "hello old miller! the river", "the mills; old world the mill"
ROWS = [
    {"text": FIRST, "label": 1, "rationale": [(6, 16)], "id": "first"},
    {"text": SECOND, "label": 0, "id": "second"},
]
QUICK = {"random_orderings": 1}


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


@pytest.fixture(scope="module")
def evaluation(model):
    return evaluate(model, ROWS, ["attcat", "rollout", "random"], "all", reference="gradient", **QUICK)


def records(evaluation, **wanted):
    return [
        record for record in evaluation.records if all(getattr(record, name) == value for name, value in wanted.items())
    ]


def value(evaluation, document, method, metric):
    (record,) = records(evaluation, document=document, method=method, metric=metric)
    return record.value


def words(explanation):
    return np.array([word.score for word in explanation.words()])


def test_every_combination_has_a_row_and_what_cannot_be_measured_says_why(evaluation):
    assert evaluation.documents == ("first", "second")
    assert set(evaluation.skipped) == {"count_at_k", "precision_at_k", "recall_at_k"}
    assert "no field 'answer'" in evaluation.skipped["recall_at_k"]
    assert set(evaluation.metrics) == set(METRICS.names()) - set(evaluation.skipped)
    by_method = [name for name in evaluation.metrics if name != "anisotropy"]
    assert len(evaluation.records) == 2 * (3 * len(by_method) + 1)
    for record in evaluation.records:
        assert (record.value is None) == (record.status != "ok") == bool(record.error)
        assert record.value is None or math.isfinite(record.value)
    (missing,) = records(evaluation, document="second", method="attcat", metric="auprc")
    assert (missing.status, missing.error) == ("missing", "The document has no rationale.")


def test_values_are_those_of_single_explanations(model, evaluation):
    explanation = model.explain(FIRST, "attcat")
    measured = measure_faithfulness(model, explanation, "log_odds", random_orderings=0, reference_order=False)
    assert value(evaluation, "first", "attcat", "log_odds") == pytest.approx(measured.value, abs=1e-12)
    share = special_share(explanation.scores, explanation.encoding.special)
    assert value(evaluation, "first", "attcat", "special_share") == pytest.approx(share, abs=1e-12)
    rationale = [[1, 3]]  # "old" and "miller" are the second and third word
    scores = words(explanation)
    assert value(evaluation, "first", "attcat", "auprc") == pytest.approx(auprc(scores, rationale), abs=1e-12)
    assert value(evaluation, "first", "attcat", "token_f1") == pytest.approx(token_f1(scores, rationale), abs=1e-12)
    (plausible,) = records(evaluation, document="first", method="attcat", metric="token_f1")
    assert plausible.floor == pytest.approx(2 / len(scores), abs=1e-12)
    published = [model.explain(FIRST, "attcat", target=c, quantity="logit").scores for c in range(3)]
    assert value(evaluation, "first", "attcat", "confidence_published") == pytest.approx(
        confidence_published(published, explanation.target.index), abs=1e-12
    )
    other = words(model.explain(FIRST, "gradient"))
    assert value(evaluation, "first", "attcat", "kendall") == pytest.approx(kendall(scores, other), abs=1e-12)


QUESTION = {"text": SECOND, "text_pair": "old river", "answer": [(11, 20)], "id": "known"}


@pytest.fixture(scope="module")
def reader():
    return load(tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2), tokenizer=wordpiece())


def test_precision_at_several_k_of_the_true_answer_beside_chance(reader):
    metrics = ["precision_at_k", "count_at_k", "recall_at_2"]
    evaluation = evaluate(reader, [QUESTION], ["attcat"], metrics, target="label", k=[1, 3])
    assert evaluation.metrics == ("precision_at_1", "precision_at_3", "count_at_1", "count_at_3", "recall_at_2")
    encoding = reader.encode(QUESTION["text_pair"], QUESTION["text"])
    text = [encoding.pair[start:end] for start, end in encoding.offsets]
    inside = [i for i, segment in enumerate(encoding.segments) if segment == 1 and text[i] in ("old", "world")]
    explanation = reader.explain(encoding, "attcat", target=(inside[0], inside[-1]))
    scores = {word.tokens: word.score for word in explanation.words()}
    ranked = sorted(scores, key=lambda tokens: -scores[tokens])
    for k in (1, 3):
        hits = sum(bool(set(tokens) & set(inside)) for tokens in ranked[:k])
        assert value(evaluation, "known", "attcat", f"count_at_{k}") == hits
        assert value(evaluation, "known", "attcat", f"precision_at_{k}") == pytest.approx(hits / k)
    (counted,) = records(evaluation, metric="count_at_3")
    assert counted.floor == pytest.approx(3 * 2 / len(scores), abs=1e-12)
    assert evaluation.summary()["floor"].notna().all()


def test_a_question_without_answer_or_with_one_out_of_reach(reader):
    rows = [
        QUESTION,
        {**QUESTION, "answer": [], "id": "none"},
        {"text": SECOND, "text_pair": "old river", "id": "unknown"},
    ]
    evaluation = evaluate(reader, rows, ["gradient"], ["entropy"], target="label")
    assert [record.status for record in evaluation.records] == ["ok", "ok", "missing"]
    encoding = reader.encode("old river", SECOND)
    expected = METRICS.get("entropy")(
        [w.score for w in reader.explain(encoding, "gradient", target="no answer").words()]
    )
    assert value(evaluation, "none", "gradient", "entropy") == pytest.approx(expected, abs=1e-9)
    assert evaluation.records[2].error == "The document has no answer, and the true answer was to be explained."
    outside = Example(SECOND, pair="old river", answer=((900, 910),))
    with pytest.raises(Missing, match="outside of what the model reads"):
        choose_target(reader, outside, encoding, "label", {})


def test_rationales_are_compared_with_the_given_label_on_request(model):
    row = ROWS[0]
    evaluation = evaluate(model, [row], ["attcat"], ["auprc"], target="label")
    scores = words(model.explain(FIRST, "attcat", target=1))
    (record,) = evaluation.records
    assert record.value == pytest.approx(auprc(scores, [[1, 3]]), abs=1e-12)
    assert record.floor == pytest.approx(METRICS.get("auprc").chance.level(scores, [[1, 3]]), abs=1e-12)


def test_agreement_is_shown_beside_what_shuffled_scores_give(model):
    """Chance is that of the scores of tokens, summed to words again: a word of many tokens scores high in any order."""
    result = evaluate(model, [FIRST], ["attcat"], ["spearman", "cosine"], reference="gradient")
    explanation, other = model.explain(FIRST, "attcat"), words(model.explain(FIRST, "gradient"))
    inside = np.flatnonzero(explanation.encoding.word_ids >= 0)
    generator, draws = np.random.default_rng(3), {"spearman": [], "cosine": []}
    for _ in range(400):
        shuffled = np.array(explanation.scores, dtype=np.float64)
        shuffled[inside] = generator.permutation(shuffled[inside])
        sums = np.bincount(explanation.encoding.word_ids[inside], weights=shuffled[inside])
        for name, values in draws.items():
            values.append(METRICS.get(name)(sums, other))
    for record in result.records:
        spread = np.std(draws[record.metric])
        assert record.floor == pytest.approx(np.mean(draws[record.metric]), abs=4 * spread / 10)
        assert result.summary().set_index("metric").loc[record.metric, "floor"] == record.floor
    assert result.records[1].floor != pytest.approx(result.records[1].value, abs=0.01)


def test_confidence_compares_the_explanations_of_all_classes(model, evaluation):
    rows = np.stack([words(model.explain(FIRST, "attcat", target=c, quantity="logit")) for c in range(3)])
    target = model.explain(FIRST, "attcat").target.index
    assert value(evaluation, "first", "attcat", "confidence") == pytest.approx(confidence(rows, target), abs=1e-12)
    assert value(evaluation, "first", "rollout", "confidence") == 1.0


def test_metrics_of_the_model_alone_have_one_row_a_document(evaluation):
    assert [record.method for record in records(evaluation, metric="anisotropy")] == [MODEL, MODEL]


def test_faithfulness_has_floor_reference_curves_and_cost(evaluation):
    for record in records(evaluation, metric="aopc"):
        assert None not in (record.value, record.floor, record.reference)
        assert record.calls == 11
        assert record.seconds > 0
    assert len(evaluation.curves("attcat", "aopc")) == 11
    assert evaluation.calls_made < evaluation.calls_requested
    assert evaluation.provenance["model"]


def test_the_order_of_methods_documents_and_metrics_changes_no_number(model, evaluation):
    again = evaluate(
        model, ROWS[::-1], ["random", "rollout", "attcat"], evaluation.metrics[::-1], reference="gradient", **QUICK
    )
    for record in evaluation.records:
        (other,) = records(again, document=record.document, method=record.method, metric=record.metric)
        assert (other.value, other.floor, other.reference) == (record.value, record.floor, record.reference)


def test_the_seed_decides_what_is_random_and_documents_have_seeds_of_their_own(model):
    chosen = {"methods": ["random"], "metrics": ["entropy", "aopc"], **QUICK}
    same = [evaluate(model, [FIRST, FIRST], seed=1, **chosen) for _ in range(2)]
    other = evaluate(model, [FIRST, FIRST], seed=2, **chosen)
    assert [record.value for record in same[0].records] == [record.value for record in same[1].records]
    assert [record.value for record in same[0].records] != [record.value for record in other.records]
    assert value(same[0], "0", "random", "entropy") != value(same[0], "1", "random", "entropy")


def test_a_method_that_fails_on_a_document_is_marked_and_the_run_continues(model):
    # The second document has nine tokens, 0 to 8: flow cannot start at token 9.
    assert len(model.encode(FIRST)) == 9 < len(model.encode(SECOND))
    result = evaluate(
        model, [SECOND, FIRST], ["attcat", "flow"], ["entropy", "aopc"], flow={"source": 9}, random_orderings=1
    )
    failed = [record for record in result.records if record.status == "failed"]
    assert {(record.document, record.method) for record in failed} == {("1", "flow")}
    assert "9 asked for" in failed[0].error
    summary = result.summary().set_index(["method", "metric"])
    assert summary.loc[("flow", "aopc"), ["documents", "failed"]].tolist() == [1, 1]
    assert summary.loc[("attcat", "aopc"), ["documents", "failed"]].tolist() == [2, 0]


def test_a_text_that_cannot_be_read_is_marked_for_all_methods(model):
    result = evaluate(model, ["", FIRST], ["attcat", "rollout"], ["entropy", "anisotropy"])
    failed = [record for record in result.records if record.status == "failed"]
    assert {(record.document, record.method) for record in failed} == {("0", "attcat"), ("0", "rollout"), ("0", MODEL)}
    assert "empty" in failed[0].error


def test_an_interrupted_run_keeps_the_documents_that_are_finished(model):
    def interrupt(stage, done, total):
        if stage.startswith("document 2"):
            raise KeyboardInterrupt

    result = evaluate(model, [FIRST, SECOND], ["attcat"], ["entropy"], progress=interrupt)
    assert not result.complete
    assert result.documents == ("0",)
    assert len(result.records) == 1


def test_progress_tells_documents_and_what_happens_in_them(model):
    told = []
    evaluate(model, [FIRST], ["attcat"], ["aopc"], progress=lambda *state: told.append(state), **QUICK)
    assert told[0] == ("documents", 0, 1)
    assert told[1] == ("document 1 of 1: attcat", 0, 1)
    assert told[-1] == ("documents", 1, 1)
    assert any("perturbed inputs" in stage for stage, _, _ in told)


def test_one_word_only_specials_and_constant_scores_have_values_or_reasons(model):
    result = evaluate(model, ["hello"], ["attcat"], "all", reference="rollout", **QUICK)
    for record in result.records:
        assert record.status == "ok" or record.error
    only_specials = evaluate(tiny_model(), [tiny_model().encode(ids=[101, 102])], ["attcat"], ["aopc", "entropy"])
    assert [record.status for record in only_specials.records] == ["missing", "missing"]
    assert "all its tokens are special" in only_specials.records[0].error


def test_the_label_is_explained_on_request_and_missing_where_there_is_none(model):
    result = evaluate(model, [(FIRST, 2), SECOND], ["attcat"], ["special_share"], target="label")
    explanation = model.explain(FIRST, "attcat", target=2)
    share = special_share(explanation.scores, explanation.encoding.special)
    assert result.records[0].value == pytest.approx(share, abs=1e-12)
    assert (result.records[1].status, result.records[1].error) == (
        "missing",
        "The document has no label, and the label was to be explained.",
    )


def test_labels_to_be_explained_must_exist_somewhere(model):
    before = model.network.forward_passes
    with pytest.raises(InputError, match="no document of the data set has a label"):
        evaluate(model, [FIRST, {"text": SECOND, "label": ""}], ["attcat"], ["aopc"], target="label")
    assert model.network.forward_passes == before


def test_rows_in_memory_are_read_like_rows_of_a_file(model, tmp_path):
    """Rationales counted in words and answers in SQuAD's form, from a list, a DataFrame, a file: the same numbers."""
    rows = [
        {"text": FIRST, "rationale_tokens": [[1, 3]], "answers": {"text": ["old"], "answer_start": [6]}, "label": -1}
    ]
    (tmp_path / "rows.jsonl").write_text(json.dumps(rows[0]), encoding="utf-8")
    arrays = [np.array([[1, 3]]), {"text": np.array(["old"]), "answer_start": np.array([6])}, np.int64(-1)]
    frame = pd.DataFrame([dict(zip(rows[0], [FIRST, *arrays], strict=True))])
    evaluations = [
        evaluate(model, data, ["attcat"], ["auprc", "recall_at_k"])
        for data in (rows, frame, str(tmp_path / "rows.jsonl"))
    ]
    direct = evaluate(model, [{"text": FIRST, "rationale": [(6, 17)], "answer": [(6, 9)]}], ["attcat"], ["auprc"])
    assert evaluations[0].records[0].value == direct.records[0].value
    for other in evaluations[1:]:
        assert [record.value for record in other.records] == [record.value for record in evaluations[0].records]


def test_answers_are_looked_for_in_the_text(model):
    rows = [{"text": FIRST, "answer": [(17, 26)]}]
    result = evaluate(model, rows, ["attcat"], ["precision_at_k", "recall_at_k"])
    assert result.records[1].value == 1.0  # fewer than 20 words: all of them are among the first 20
    assert result.records[0].value == pytest.approx(2 / 6)


def test_a_data_set_is_read_from_a_file_and_cut_to_a_limit(model, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(f"text,label\n{FIRST},1\n{SECOND},0\n")
    assert evaluate(model, path, ["attcat"], ["entropy"], limit=1).documents == ("0",)
    assert len(evaluate(model, str(path), ["attcat"], ["entropy"]).documents) == 2
    assert evaluate(model, [FIRST, FIRST, SECOND], ["attcat"], ["entropy"], limit=2).documents == ("0", "1")


def test_ids_that_come_twice_are_told_apart(model):
    rows = [{"text": FIRST, "id": "x"}, {"text": SECOND, "id": "x"}]
    assert evaluate(model, rows, ["attcat"], ["entropy"]).documents == ("x", "x#2")
    rows.append({"text": "A third text", "id": "x#2"})
    assert evaluate(model, rows, ["attcat"], ["entropy"]).documents == ("x", "x#3", "x#2")


def test_the_ten_methods_of_the_default_exist():
    assert len(set(DEFAULT_METHODS)) == 10
    assert set(DEFAULT_METHODS) <= set(METHODS.names())


def test_the_published_variant_measures_what_the_program_measured():
    model = tiny_model(num_labels=2)
    rows = [(model.encode(ids=tiny_ids(n=n, seed=n)), 1) for n in (8, 14)]
    result = evaluate(model, rows, ["attcat"], None, compat="attcat", target="label", **QUICK)
    assert "sufficiency" in result.skipped
    assert result.skipped["kendall"].startswith("Agreement is between two explanations; give a reference")
    assert "log_odds" in result.metrics
    (short,) = records(result, document="0", metric="aopc")
    assert "fewer than 10" in short.error
    assert value(result, "1", "attcat", "aopc") > 0
    assert result.curves("attcat", "aopc")["ratio"].tolist() == pytest.approx([k / 9 for k in range(1, 10)])


def test_a_model_with_one_output_has_no_confidence_and_no_faithfulness_but_says_so():
    model = tiny_model(num_labels=1)
    rows = [model.encode(ids=tiny_ids())]
    result = evaluate(model, rows, ["attcat"], replacement="delete", **QUICK)
    assert "one class only" in result.skipped["confidence"]
    assert "single output" in records(result, metric="aopc")[0].error
    assert records(result, metric="entropy")[0].status == "ok"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"methods": ["atcat"]}, "Did you mean 'attcat'"),
        ({"metrics": ["aopk"]}, "Did you mean 'aopc'"),
        ({"methods": []}, "No method was given"),
        ({"metrics": []}, "No metric was given"),
        ({"metrics": ["kendall"]}, "give a reference"),
        ({"metrics": ["auprc"]}, "no field 'rationale'"),
        ({"metrics": ["sufficiency"], "compat": "attcat"}, "no such metric"),
        ({"reference": "nobody"}, "no method called 'nobody'"),
        ({"level": "page"}, "level='page' is not known"),
        ({"target": "best"}, "target='best' is not known"),
        ({"replacement": "blank"}, "replacement='blank' is not known"),
        ({"ratios": [2.0]}, "shares lie in"),
        ({"ratios": "few"}, "is not a list of shares"),
        ({"methods": 3}, "methods=3 is not possible; give a name, or a list of names"),
        ({"metrics": 3}, "metrics=3 is not possible"),
        ({"limit": "2"}, "limit must be a whole number of at least 1, not '2'"),
        ({"budget": 1.5}, "budget must be a whole number of at least 1, not 1.5"),
        ({"seed": "dice"}, "seed must be a whole number, not 'dice'"),
        ({"random_orderings": -1}, "random_orderings must be a whole number"),
        ({"limit": 0}, "limit must be a whole number"),
        ({"metrics": ["aopc"], "k": 5}, "k has no effect"),
        ({"metrics": ["aopc"], "reference": "rollout"}, "reference has no effect"),
        ({"metrics": ["entropy"], "ratios": [0.5]}, "ratios has no effect"),
        ({"metrics": ["entropy"], "replacement": "mask"}, "replacement has no effect"),
        ({"metrics": ["aopc"], "replacement": "mask", "mask_pads": True}, "mask_pads has no effect"),
        ({"colour": "red"}, "'colour' is neither an option"),
        ({"attcat": {"colour": "red"}, "methods": ["attcat"]}, "no option 'colour'"),
    ],
)
def test_wrong_requests_are_refused_before_anything_runs(model, options, sentence):
    before = model.network.forward_passes
    with pytest.raises(OptionError, match=sentence):
        evaluate(model, [FIRST], **options)
    assert model.network.forward_passes == before


@pytest.mark.parametrize("dataset", [None, 3, {"text": FIRST}, b"text"])
def test_what_is_no_data_set_is_refused(model, dataset):
    with pytest.raises(InputError, match=f"A data set is a list .* of type {type(dataset).__name__}"):
        evaluate(model, dataset)


@pytest.mark.parametrize(
    ("given", "sentence"), [("my-model", r"load it first, with sl.load\('my-model'\)"), (None, "of type NoneType")]
)
def test_what_is_no_model_is_refused(given, sentence):
    with pytest.raises(OptionError, match=sentence):
        evaluate(given, [FIRST])


def test_an_empty_data_set_is_refused(model):
    with pytest.raises(InputError, match="The data set is empty"):
        evaluate(model, [])


def test_a_numeric_label_names_the_class_of_that_name_never_the_class_at_that_index():
    model = tiny_model(id2label={0: "1", 1: "2", 2: "7"})
    encoding = model.encode(ids=tiny_ids())
    for column, names in (((1, "2"), ["1", "2"]), ((7, "1", 2), ["7", "1", "2"])):
        examples = [Example(encoding, label=label) for label in column]
        classes = label_classes(model, examples)
        assert [choose_target(model, example, encoding, "label", classes) for example in examples] == names
