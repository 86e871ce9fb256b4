"""What the studies measure of single documents, against plain formulas."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import AutoModelForMaskedLM, AutoModelForQuestionAnswering

from sightline.analysis import cancelled_share
from sightline.api.load import load
from sightline.errors import ModelError
from sightline.lab import adversary, feature_importance
from sightline.metrics import tokens_in_characters
from sightline.models.single_attention import BilstmAttentionConfig, BilstmAttentionForSequenceClassification
from sightline.text import Example
from sightline.text.new_tokenizers import word_tokenizer
from sightline_studies import alti, attcat, attcat_tables, flow, flow_claims, run_study
from sightline_studies.accuracy import measure_accuracy, readable
from sightline_studies.alti import ALTI
from sightline_studies.alti_steps import agreements, masked_sentences, rank_correlation
from sightline_studies.alti_steps import measure_sentence as measure_mixing
from sightline_studies.attcat import ATTCAT
from sightline_studies.attcat_answers import answer_table, answers_better, judge_retrieval, measure_answers
from sightline_studies.attcat_steps import METHODS, OTHERS, OUTPUTS, find_answers
from sightline_studies.attcat_subjects import planted_subject
from sightline_studies.data import DataSet
from sightline_studies.flow import FLOW
from sightline_studies.flow_pronouns import (
    PRONOUN,
    SENTENCES,
    choice_table,
    describe_choice,
    draw_pronouns,
    measure_choices,
    measure_pronouns,
    pronoun_rows,
)
from sightline_studies.flow_steps import explain_views, measure_sentence
from sightline_studies.generated import (
    GENDERED,
    PLURAL,
    SINGULAR,
    agreement_prefixes,
    planted_sentences,
    pronoun_sentences,
    rule_documents,
)
from sightline_studies.longformer_steps import random_twin
from sightline_studies.sparse import SPARSE, _tables
from sightline_studies.sparse_claims import judge_claims, trend_with_lambda
from sightline_studies.sparse_steps import (
    ENCODERS,
    LAMBDAS,
    MEASURES,
    PROJECTIONS,
    Cell,
    attack,
    count_epochs,
    measure_document,
)
from sightline_studies.tables import read_published
from sightline_studies.workbench import Subject, Workbench
from tests.tiny_models import tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece


def test_accuracy_is_of_rows_with_labels_by_number_or_by_name(tmp_path):
    model = load(tiny_module(num_labels=2, id2label={0: "neg", 1: "pos"}), tokenizer=wordpiece())
    bench, subject = Workbench(FLOW, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    predicted = model.predict("the old mill").index
    for label in (predicted, model.labels[predicted]):
        rows = [Example("the old mill", label=given, id=str(given)) for given in (label, None)]
        entries = measure_accuracy(bench, subject, rows, f"by-{label}", numbered=True)
        assert entries == [{"predicted": predicted, "label": predicted}]


def test_correlations_by_layer_are_those_of_scipy_over_all_tokens(tmp_path):
    model = load(tiny_module(), tokenizer=wordpiece())
    subject = Subject("tiny", "tiny", lambda: model)
    row = Example("the river runs past the old mill", label=1, id="7")
    encoding = model.encode(row.text)
    entry = measure_sentence(subject, row, 1, ("blank_out", "gradient"))
    trace = model.trace(encoding, 1, quantity="logit")  # the correct class, whatever is predicted
    gradient = np.linalg.norm(trace.embedding_gradient, axis=1)
    whole = trace.probabilities[1]
    dropped = []
    for place in range(len(encoding)):
        ids = encoding.ids.copy()
        ids[place] = model.tokenizer.unk_token_id
        dropped.append(abs(whole - model.trace(encoding.replace_ids(ids)).probabilities[1]))
    # Nine tokens, and heads eight wide: one direction of the weights of every row has no effect.
    assert (entry["tokens"], entry["head_width"]) == (len(encoding), trace.block(0).values.shape[-1])
    assert np.allclose(entry["cancelled"], cancelled_share(trace).mean(axis=1))
    rolled = np.eye(len(encoding))
    for layer, attention in enumerate(trace.attentions):
        raw = attention.dense().mean(axis=0)
        rolled = (raw + np.eye(len(encoding))) / 2 @ rolled
        for view, matrix in (("raw", raw), ("rollout", rolled)):
            for reference, importance in (("gradient", gradient), ("blank_out", dropped)):
                words = ~encoding.special
                for over, places in (("all", slice(None)), ("words", words)):
                    scores = (trace.readout @ matrix)[places]
                    expected = stats.spearmanr(scores, np.array(importance)[places]).statistic
                    assert entry[f"{reference} {view} {over}"][layer] == pytest.approx(expected, abs=1e-6)
        share = trace.readout @ raw
        assert entry["entropy"][layer] == pytest.approx(stats.entropy(share) / np.log(len(share)), abs=1e-12)
    assert entry["gradient flow all"][0] == pytest.approx(entry["gradient rollout all"][0], abs=1e-12)


def test_sentences_of_two_tokens_rank_nothing():
    assert rank_correlation([1.0, 2.0], [2.0, 1.0]) is None
    assert rank_correlation([1.0, 1.0, 1.0], [2.0, 1.0, 3.0]) is None


def test_the_first_graph_of_figure_1_is_without_the_residual_connection(tmp_path):
    model = load(tiny_module(), tokenizer=wordpiece())
    bench, subject = Workbench(FLOW, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    views = explain_views(bench, subject, Example("the old mill"))
    trace = model.trace("the old mill")
    raw = [attention.dense().mean(axis=0) for attention in trace.attentions]
    assert np.allclose(views["graphs"]["raw attention"], raw)
    first = (raw[0] + np.eye(trace.token_count)) / 2
    assert np.allclose(views["graphs"]["rollout"][0], first, atol=1e-6)


def test_a_masked_pronoun_divides_its_attention_between_two_nouns(tmp_path):
    words = f"{SENTENCES[0].text} {SENTENCES[1].text} his her".replace("{}", "").replace(".", " . ")
    tokenizer = word_tokenizer(sorted(set(words.lower().split())))
    module = tiny_module(auto=AutoModelForMaskedLM, vocab_size=len(tokenizer))
    model = load(module, tokenizer=tokenizer)
    entry = measure_pronouns(model, SENTENCES[0])
    text = SENTENCES[0].text.format(tokenizer.mask_token)
    trace = model.trace(text)
    place = int(np.flatnonzero(trace.encoding.ids == tokenizer.mask_token_id)[0])
    tokens = [token.lower() for token in trace.encoding.tokens]
    row = trace.attentions[-1].dense().mean(axis=0)[place]
    author, sara = (row[tokens.index(noun)] for noun in ("author", "sara"))
    assert entry["raw"][-1] == pytest.approx(sara / (author + sara))
    his, her = (trace.probabilities[tokenizer.convert_tokens_to_ids(word)] for word in ("his", "her"))
    assert entry["her"] == pytest.approx(her / (his + her), rel=1e-5)
    bench = Workbench(FLOW, tmp_path, size="tiny")
    figures = draw_pronouns(bench, Subject("tiny", "tiny", lambda: model))
    assert [figure.name for figure in figures] == ["pronoun_1", "pronoun_2"]
    assert figures[0].drawing.places == [str(layer) for layer in range(len(trace.attentions))]
    assert measure_pronouns(load(tiny_module(auto=AutoModelForMaskedLM), tokenizer=wordpiece()), SENTENCES[0]) is None


def test_printed_tables_stand_complete_beside_ours():
    model = load(tiny_module(), tokenizer=wordpiece())
    subject = Subject("tiny", "tiny", lambda: model)
    row = Example("the river runs past the old mill", label=1, id="7")
    entries = [measure_sentence(subject, row, 1, ("blank_out", "gradient"))]
    for table, reference in (("Table 1", "blank_out"), ("Table 2", "gradient"), ("Table 3", "gradient")):
        frame = flow._table(table, reference, {"tiny": (entries, entries)}, 0).frame
        shown = frame.set_index(["view", "layer"])
        printed_rows = [row for row in read_published("flow_spearman") if row["table"] == table]
        assert shown["published"].notna().sum() == len(printed_rows)
        for wanted in printed_rows:
            found = shown.loc[(wanted["method"].lower(), int(wanted["layer"][1:]) - 1)]
            assert (found["published"], found["published_std"]) == (
                float(wanted["spearman_mean"]),
                float(wanted["spearman_std"]),
            )
        assert shown["tiny"].notna().sum() == 9  # three views of three layers
    assert flow._curves(entries, "Table 2", "gradient", 0).places == ["0", "1", "2"]
    frame = flow._words_table({"tiny": (entries, [])}, 0).frame
    assert frame[["blank_out", "gradient"]].to_numpy().tolist() == [
        [entries[0][f"{reference} {view} words"][-1] for reference in ("blank_out", "gradient")]
        for view in ("raw", "rollout", "flow")
    ]


def test_a_verb_model_that_has_learnt_less_than_half_decides_nothing():
    def tested(right):
        return [{"predicted": int(n >= right) ^ (n % 2), "label": n % 2} for n in range(100)]

    assert flow_claims.why_unlearnt(tested(73)) == ""  # half-way between .5 and .96
    assert flow_claims.why_unlearnt(tested(72)) == "has learnt too little: accuracy 0.72, below 0.73"


def test_the_first_noun_decides_the_number():
    rows = agreement_prefixes(50, seed=3)
    for row in rows:
        first = next(word for word in str(row.text).split() if word in SINGULAR + PLURAL)
        assert row.label == int(first in PLURAL)
    assert {row.label for row in rows} == {0, 1}
    assert rows == agreement_prefixes(50, seed=3)


def test_answers_mark_the_planted_words():
    marked = [row for row in planted_sentences(30) if row.answer]
    assert marked
    for row in marked:
        for start, end in row.answer:
            word = str(row.text)[start:end]
            assert " " not in word
            assert word in str(row.text).split()


def test_rule_documents_have_both_classes_and_the_length_requested():
    rows = rule_documents(8, 40)
    assert [row.label for row in rows] == [0, 1] * 4
    assert {len(str(row.text).split()) for row in rows} == {40}


def test_the_true_answer_of_a_question_is_explained(tmp_path):
    model = load(tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2), tokenizer=wordpiece())
    text = "The river runs past the old mill."
    start = text.index("old")
    rows = [Example(text, pair="Hello, Miller!", answer=((start, start + 3),), id="0"), Example(text, id="1")]
    bench = Workbench(ATTCAT, tmp_path, size="tiny")
    (entry,) = find_answers(bench, Subject("tiny", "tiny", lambda: model), DataSet("squad", "rows", [], rows))
    encoding = model.encode("Hello, Miller!", text)
    inside = np.flatnonzero(
        tokens_in_characters(encoding.offsets, [(start, start + 3)], segments=encoding.segments, segment=1)
    )
    answer = (int(inside[0]), int(inside[-1]))
    scores = model.explain(encoding, method="attcat", target=answer, quantity="logit", **OUTPUTS["attcat"]).scores
    scores = np.where(encoding.special, -np.inf, scores)
    hits = set(np.argsort(-scores, kind="stable")[:5]) & set(inside)
    assert entry["attcat count 5"] == len(hits)
    assert entry["attcat precision 5"] == len(hits) / 5
    assert entry["chance"] == len(inside) / (~encoding.special).sum()


def test_the_alti_study_measures_what_the_methods_say():
    model = load(tiny_module(), tokenizer=wordpiece())
    subject = Subject("tiny", "tiny", lambda: model)
    row = Example("the river runs, past the old mill.", label=1)
    entry = measure_mixing(subject, row, 2)
    trace = model.trace(row.text, quantity="logit")
    alti, gradient = (model.explain(trace, method=name).scores for name in ("alti", "gradient"))
    assert entry["gradient alti all"] == pytest.approx(stats.spearmanr(alti, gradient).statistic, abs=1e-12)
    words = stats.spearmanr(alti[1:-1], gradient[1:-1]).statistic
    assert entry["gradient alti words"] == pytest.approx(words, abs=1e-12)
    units = trace.hidden_states[-1] / np.linalg.norm(trace.hidden_states[-1], axis=1, keepdims=True)
    cosines = (units @ units.T)[np.triu_indices(len(units), 1)]
    spread = entry["anisotropy"]
    assert spread["hidden"][-1] == pytest.approx(cosines.mean(), abs=1e-6)
    assert len(spread["hidden"]) - 1 == len(spread["y"]) == len(spread["T"]) == trace.layer_count
    order = stats.rankdata(alti)
    assert entry["ranks"]["alti"]["first"] == pytest.approx(order[0] / len(order), abs=1 / len(order))


def test_two_models_are_compared_where_they_predict_alike():
    models = [load(tiny_module(seed=seed), tokenizer=wordpiece()) for seed in range(2)]
    rows = [Example(f"the river {word} past the old mill", id=word) for word in ("runs", "is", "flows", "goes")]
    first, second = (
        [measure_mixing(Subject("tiny", "tiny", lambda model=model: model), row, 2) for row in rows] for model in models
    )
    second[0] = {**second[0], "predicted": first[0]["predicted"] + 1}
    second[1] = {**second[1], "predicted": first[1]["predicted"]}
    found = agreements(first, second)
    assert np.isnan(found["alti"][0])
    scores = [np.abs(model.explain(rows[1].text, method="alti").scores) for model in models]
    assert found["alti"][1] == pytest.approx(stats.spearmanr(*scores).statistic, abs=1e-9)


def test_the_right_verb_of_a_whole_sentence_is_explained_at_the_mask(tmp_path):
    words = ["the", "keys", "to", "cabinet", "are", "is", "old"]
    tokenizer = word_tokenizer(words)
    model = load(tiny_module(auto=AutoModelForMaskedLM, vocab_size=len(tokenizer)), tokenizer=tokenizer)
    facts = {"full": "the keys to the cabinet are old", "verb": "are", "wrong_verb": "is", "verb_idx": 5}
    rows = [Example("the keys to the cabinet", label=1, id="0", metadata=facts), Example("no facts", id="1")]
    (sentence,) = masked_sentences(rows)
    assert sentence.text == "the keys to the cabinet {} old"
    entry = measure_mixing(Subject("tiny", "tiny", lambda: model), sentence, 2)
    trace = model.trace(sentence.text.format(tokenizer.mask_token), target="are", quantity="logit")
    right, wrong = (trace.probabilities[tokenizer.convert_tokens_to_ids(word)] for word in ("are", "is"))
    assert (entry["predicted"] == 1) == (right > wrong)
    alti = model.explain(trace, method="alti").scores
    dropped = []
    for place in range(trace.token_count):
        ids = trace.encoding.ids.copy()
        ids[place] = tokenizer.unk_token_id
        without = model.network.run_many([trace.encoding.replace_ids(ids)])[0]
        dropped.append(without)
    assert np.argmax(trace.readout) == 6
    assert entry["blank_out alti all"] is not None
    assert len(alti) == len(dropped)
    unknown = replace(sentence, metadata={**sentence.metadata, "verb": "flies"})
    assert measure_mixing(Subject("tiny", "tiny", lambda: model), unknown, 2) == {"label": 1}


def test_the_trend_with_lambda_is_the_correlation_with_the_mean_and_keeps_its_sign():
    generator = np.random.default_rng(0)
    columns = np.array([0.9, 0.8, 0.7, 0.3])[:, None] + generator.normal(0, 0.02, (4, 30))
    columns[2, 3] = np.nan
    known = np.delete(columns, 3, axis=1)
    expected = stats.pearsonr(list(LAMBDAS.values()), known.mean(axis=1)).statistic
    measured = trend_with_lambda(columns, 0)
    assert measured.value == pytest.approx(expected)
    assert measured.low <= expected <= measured.high < 0
    assert measured.documents == 29
    assert trend_with_lambda(-columns, 0).value == pytest.approx(-expected)
    alone = trend_with_lambda(columns[:, :1], 0)
    assert (alone.documents, np.isnan(alone.low)) == (1, True)


def test_a_document_of_the_sparse_study_has_entropies_and_ties():
    config = BilstmAttentionConfig(vocab_size=len(word_tokenizer(["a", "b", "c"])), embedding_size=8, hidden_size=8)
    config.projection = "sparsemax"
    torch.manual_seed(0)
    model = load(BilstmAttentionForSequenceClassification(config).eval(), tokenizer=word_tokenizer(["a", "b", "c"]))
    entry = measure_document(model, Example("a b c a b", label=0))
    importance = feature_importance(model, model.encode("a b c a b"))
    attended = importance.attended
    assert entry["representation_entropy"] == pytest.approx(importance.entropies[attended].mean())
    for key, values in (("attention", importance.attention), ("leave_out", importance.leave_out_x)):
        weights = values[attended]
        expected = stats.entropy(weights) / np.log(len(weights))
        assert entry[f"{key}_entropy"] == pytest.approx(expected, abs=1e-6)
    tau, ties = importance.correlation("gradient_x")
    assert entry["gradient_x"] == pytest.approx(tau, nan_ok=True)
    assert entry["gradient_x_ties"] == ties / (attended.sum() * (attended.sum() - 1) / 2)


def sparse_cell(encoder, projection, right=True, entropy=0.6, spread=0.8):
    """A model of the sparse study, with the same numbers in nine documents."""
    tested = [{"predicted": n % 2 if right else 0, "label": n % 2} for n in range(40)]
    keys = ("importance_entropy", "leave_out_entropy", "support", *MEASURES, *(f"{name}_ties" for name in MEASURES))
    facts = {"attention_entropy": entropy, "representation_entropy": spread, **dict.fromkeys(keys, 0.3)}
    pair = {"jsd": 0.5, "tvd": 0.1, "right": True, "other_right": False}
    others = [{"test": test, **pair} for test in ("uniform", "permuted", "frozen", "retrained", "unfrozen")] * 9
    return Cell("sst2", encoder, projection, tested, [facts] * 9, others)


def test_a_model_that_has_learnt_nothing_or_attends_evenly_decides_nothing():
    learnt = [sparse_cell("bilstm", projection) for projection in PROJECTIONS]
    unlearnt = [sparse_cell("transformer", projection, right=False, spread=0.1) for projection in PROJECTIONS]
    tied, trend, *_ = judge_claims([*learnt, *unlearnt], 0)
    assert tied.verdict == "agrees"
    assert [case.name for case in tied.deciding] == ["sst2, bilstm, softmax", "sst2, bilstm, sparsemax"]
    assert [case.published for case in tied.deciding] == [(0.93,), (0.91,)]
    assert [case.published for case in trend.cases] == [(-0.866,), (-0.81,)]
    assert trend.cases[1].set_aside == f"has not learnt its task ({', '.join(LAMBDAS)})"
    even = [sparse_cell("bilstm", projection, entropy=0.97) for projection in PROJECTIONS]
    assert judge_claims(even, 0)[0].cases[0].set_aside == "attention stayed even (entropy 0.97)"
    assert {finding.verdict for finding in judge_claims(unlearnt, 0)} == {"cannot tell"}


def test_the_printed_tables_of_the_sparse_paper_are_complete():
    cells = [sparse_cell(encoder, projection) for encoder in ENCODERS for projection in PROJECTIONS]
    tables = {table.name: table.frame for table in _tables(cells, 0)}
    for name, file in (("table_1", "sparse_entropy"), ("table_2", "sparse_lambda"), ("table_6", "sparse_kendall")):
        column = next(key for key in read_published(file)[0] if key.endswith(("mean", "g_y")))
        assert sorted(tables[name]["published"]) == sorted(float(row[column]) for row in read_published(file))
    printed_5 = [column for column in tables["table_5"] if column.endswith("published")]
    values = np.sort(tables["table_5"][printed_5].to_numpy().ravel())
    expected = [
        float(row[key])
        for row in read_published("sparse_adversarial")
        for key in ("jsd", "accuracy", "accuracy_change")
    ]
    assert values.tolist() == sorted(expected)
    ours = tables["table_5"].query("data == 'sst2'")
    assert ours[["jsd", "accuracy", "accuracy_change"]].to_numpy().tolist() == [[0.5, 0.0, -1.0]] * 4


def test_an_adversary_learns_from_the_training_texts_and_is_right_where_it_names_the_label(tmp_path):
    tokenizer = word_tokenizer(["a", "b", "c"])
    config = BilstmAttentionConfig(vocab_size=len(tokenizer), embedding_size=8, hidden_size=8, projection="sparsemax")
    torch.manual_seed(0)
    model = load(BilstmAttentionForSequenceClassification(config).eval(), tokenizer=tokenizer)
    bench, subject = Workbench(SPARSE, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    rows = [Example(text, label=n % 2) for n, text in enumerate(("a b c", "c c a", "b a", "a a b c"))]
    options = {"tests": ["retrained", "unfrozen"], "epochs": 1}
    entries = attack(bench, subject, "learnt", rows[:2], options, rows[2:])
    texts, training = ([str(row.text) for row in part] for part in (rows[:2], rows[2:]))
    expected = adversary(model, texts, training=training, strengths=[1.0], **options)
    assert [entry["test"] for entry in entries] == ["retrained", "unfrozen"] * 2
    for test in options["tests"]:
        pairs = expected.select(test)
        ours = [entry for entry in entries if entry["test"] == test]
        for entry, pair, row in zip(ours, pairs, rows, strict=False):
            assert entry["jsd"] == pytest.approx(pair.jsd)
            assert entry["right"] == (pair.probabilities.argmax() == row.label)
            assert entry["other_right"] == (pair.other_probabilities.argmax() == row.label)


def test_accuracy_is_measured_on_all_test_documents(tmp_path):
    model = load(tiny_module(), tokenizer=wordpiece())
    bench, subject = Workbench(FLOW, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    rows = [Example(text, label=1) for text in ("the river runs past the old mill", "old mill", "the")]
    expected = [model.trace(str(row.text)).prediction for row in rows]
    numbers = measure_accuracy(bench, subject, rows, "tiny", numbered=True)
    assert [entry["predicted"] for entry in numbers] == [prediction.index for prediction in expected]
    labels = measure_accuracy(bench, subject, rows, "labels")
    assert labels == [{"predicted": prediction.label, "label": model.labels[1]} for prediction in expected]


def test_documents_of_unknown_words_are_left_out_and_counted(tmp_path):
    model = load(tiny_module(), tokenizer=wordpiece())
    bench, subject = Workbench(FLOW, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    unknown = " ".join(["猫"] * 10)
    with pytest.raises(ModelError, match="unknown to the tokenizer"):
        model.encode(unknown)
    rows = [Example("the river runs past the old mill", id="0"), Example(unknown, id="1"), Example("old mill", id="2")]
    left_out: list[str] = []
    kept = readable(bench, subject, DataSet("sva", "rows", [], rows), left_out)
    assert kept == [rows[0], rows[2]]
    assert left_out == ["sva: 1 of 3 test documents, because tiny does not know most of their words."]
    left_out.clear()
    assert readable(bench, subject, DataSet("sva", "rows", [], kept), left_out) == kept
    assert not left_out


def test_random_twins_that_are_compared_have_weights_of_their_own(tmp_path):
    """The same seed draws the same numbers for two models of one shape: their twins would agree for no reason."""
    bench = Workbench(ALTI, tmp_path, size="tiny")
    subjects = [Subject(f"seed {seed}", str(seed), lambda seed=seed: tiny_model(seed=seed)) for seed in (1, 2)]
    first, second = (
        [random_twin(bench, subject, shift * number) for number, subject in enumerate(subjects)] for shift in (0, 1)
    )
    for twins, correlated in ((first, True), (second, False)):
        weights = [dict(twin.model.network.module.named_parameters()) for twin in twins]
        name = next(name for name in weights[0] if name.endswith("query.weight"))
        flat = [one[name].detach().double().flatten().numpy() for one in weights]
        assert (abs(np.corrcoef(*flat)[0, 1]) > 0.9) == correlated
    assert len({twin.identity for twin in (*first, *second)}) == 3


def test_accuracy_reads_both_texts_of_a_pair(tmp_path):
    model = load(tiny_module(), tokenizer=wordpiece())
    bench, subject = Workbench(ATTCAT, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    pairs = [("the river", "runs past"), ("old mill", "the river runs"), ("the", "old")]
    encodings = [model.encode(text, pair) for text, pair in pairs]
    ran = []
    monitored = model.network.run_many
    model.network.run_many = lambda given: ran.extend(given) or monitored(given)
    rows = [Example(text, pair=pair, label=model.labels[0]) for text, pair in pairs]
    entries = measure_accuracy(bench, subject, rows, "pairs")
    assert [encoding.ids.tolist() for encoding in ran] == [encoding.ids.tolist() for encoding in encodings]
    assert [entry["predicted"] for entry in entries] == [model.predict(encoding).label for encoding in encodings]
    assert {entry["label"] for entry in entries} == {model.labels[0]}


def test_answers_are_scored_as_squad_does_and_judged_against_random_weights(tmp_path):
    model = load(tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2), tokenizer=wordpiece())
    text = "The river runs past the old mill."
    predicted = model.predict(model.encode("Hello, Miller!", text)).label
    start = text.index(predicted)
    other = (0, 3) if predicted not in ("The", "the") else (4, 9)
    rows = [
        Example(text, pair="Hello, Miller!", answer=((start, start + len(predicted)),), id="0"),
        Example(text, pair="Hello, Miller!", answer=(other,), id="1"),
        Example(text, pair="Hello, Miller!", id="2"),
    ]
    bench = Workbench(ATTCAT, tmp_path, size="tiny")
    entries = measure_answers(bench, Subject("tiny", "tiny", lambda: model), DataSet("squad", "rows", [], rows))
    assert entries[0] == {"exact_match": 1.0, "f1": 1.0}
    assert entries[1]["exact_match"] == 0.0
    assert len(entries) == 2  # a question without an answer is left out
    right, wrong = [{"exact_match": 1.0, "f1": 1.0}] * 9, [{"exact_match": 0.0, "f1": 0.0}] * 9
    assert answers_better(right, wrong, 0)
    assert not answers_better(wrong, wrong, 0)
    table = answer_table(
        {("squad", "a"): right, ("squad", "b"): wrong}, dict.fromkeys((("squad", "a"), ("squad", "b")), wrong), 0
    )
    assert list(table.frame["learnt"]) == ["yes", "no"]


def test_a_data_set_whose_model_has_not_learnt_it_is_left_out_of_the_claims(tmp_path):
    """Labels that are turned around make a model that is worse than chance."""
    rows = [{"text": str(row.text), "label": row.label} for row in planted_sentences(60, 1)]
    names = sorted({row["label"] for row in rows})
    turned = [{**row, "label": names[(names.index(row["label"]) + 1) % len(names)]} for row in rows]
    path = tmp_path / "sst2.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in turned))
    bench = Workbench(ATTCAT, tmp_path / "out", size="tiny", documents=3)
    model = planted_subject(bench).model
    model.network.module.save_pretrained(tmp_path / "model")
    model.tokenizer.save_pretrained(tmp_path / "model")
    given = {"sentiment": str(tmp_path / "model")}
    result = run_study("attcat", tmp_path / "study", size="tiny", data=[f"sst2={path}"], models=given, documents=3)
    assert {finding.verdict for finding in result.outcome.findings} == {"cannot tell"}
    assert {case.set_aside for finding in result.outcome.findings for case in finding.cases} <= {
        "has not learnt its task"
    }
    (accuracy,) = (table for table in result.outcome.tables if table.name == "accuracy")
    assert list(accuracy.frame["learnt"]) == ["no"]


def test_the_masked_pronoun_is_compared_with_the_one_in_the_sentence(tmp_path):
    tokenizer = word_tokenizer(["his", "her", "the", "king", "lost", "key"])
    model = load(tiny_module(auto=AutoModelForMaskedLM, vocab_size=len(tokenizer)), tokenizer=tokenizer)
    bench, subject = Workbench(FLOW, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    texts = ("the king lost his key", "the king lost her key", "the king lost the key", "his key lost her king")
    entries = measure_choices(bench, subject, pronoun_rows([Example(text) for text in texts]))
    assert [entry["label"] for entry in entries] == ["his", "her"]  # one pronoun each
    (trace,) = (model.trace(f"the king lost {tokenizer.mask_token} key"),)
    his, her = (trace.probabilities[tokenizer.convert_tokens_to_ids(word)] for word in ("his", "her"))
    assert {entry["predicted"] for entry in entries} == {"his" if his > her else "her"}
    assert "has not learnt the choice" in describe_choice(entries)
    right = [{"predicted": word, "label": word} for word in ("his", "her") * 20]
    assert "has not learnt" not in describe_choice(right)
    assert list(choice_table(subject, right, 0).frame["learnt"]) == ["yes"]


def test_only_short_sentences_with_one_possessive_pronoun_are_used():
    rows = [
        Example("The girl reads her book.", pair="A friend of his."),
        Example("He saw her in the street.", pair="His dog ran ."),
        Example("Her mother saw his father.", pair="The girl reads her book."),
        Example("word " * 25 + "his key"),
    ]
    assert [row.text for row in pronoun_rows(rows)] == ["The girl reads her book.", "His dog ran ."]
    assert len(pronoun_rows(pronoun_sentences())) == len(pronoun_sentences())


def test_the_printed_table_of_alti_is_complete():
    frame = next(table for table in alti._tables({"sst2": {}, "sva": {}}, {"sst2": {}, "sva": {}}, [], 0)).frame
    printed_rows = read_published("alti_spearman")
    for model in ("DistilBERT", "BERT", "RoBERTa"):
        wanted = sorted(float(row["spearman_mean"]) for row in printed_rows if row["model"] == model)
        assert sorted(frame[model].dropna()) == wanted
        assert frame[f"{model}_std"].notna().sum() == len(wanted)


def test_the_printed_tables_of_attcat_are_complete():
    first, second, _ = attcat_tables.printed_tables({}, {}, 0)
    for column, name, table in (
        ("aopc_published", "aopc", first),
        ("log_odds_published", "log_odds", first),
        ("published", "kendall_confidence", second),
    ):
        wanted = [float(row[name]) for row in read_published("attcat_faithfulness") if row[name]]
        assert sorted(table.frame[column].dropna()) == sorted(wanted)


def test_a_data_set_on_which_the_printed_table_says_otherwise_is_set_aside():
    values = {name: {str(n): 0.1 + 0.01 * n for n in range(9)} for name in METHODS}
    values["attcat"] = {str(n): 0.3 + 0.01 * n for n in range(9)}
    results = {data: {"aopc": (values, {})} for data in ("sst2", "qqp")}
    finding = attcat._judge(attcat.CLAIMS[0], results, "aopc", OTHERS, {}, 0)
    assert finding.verdict == "agrees"
    assert [case.published for case in finding.cases] == [(0.017,), (-0.006,)]
    assert [case.set_aside for case in finding.cases] == ["", "not so in the printed table either"]


def test_what_random_weights_find_as_well_disagrees_with_nothing():
    def entries(own, other):
        return [{f"{name} count {k}": own if name == "attcat" else other for name in METHODS for k in (5, 20)}] * 9

    answered = [{**entry, "attcat count 5": 1.0 + 0.1 * n} for n, entry in enumerate(entries(1.0, 3.0))]
    pair = ("squad", "tiny")
    finding = judge_retrieval(attcat.CLAIMS[4], {pair: answered}, {pair: answered}, {}, 0)
    rivals = {case.name.rpartition(" ")[2]: case for case in finding.cases if "k = 5" in case.name}
    assert set(rivals) == {"rollout", "transatt"}
    assert {(case.verdict, case.artefact) for case in rivals.values()} == {("cannot tell", "yes")}
    assert finding.verdict == "cannot tell"


def test_the_noun_decides_the_pronoun_of_a_generated_sentence():
    rows = pronoun_sentences()
    assert len({str(row.text) for row in rows}) == len(rows)
    for row in rows:
        (pronoun,) = PRONOUN.findall(str(row.text))
        assert any(f" {noun} " in str(row.text) for noun in GENDERED[pronoun])
        assert not any(
            f" {noun} " in str(row.text) for other in GENDERED if other != pronoun for noun in GENDERED[other]
        )


def test_small_data_sets_are_read_more_often():
    assert [count_epochs(rows, 10_000) for rows in (3000, 1167, 50_000)] == [3, 9, 1]
