"""What the studies measure of single documents, against plain formulas."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import AutoModelForMaskedLM, AutoModelForQuestionAnswering

from sightline.analysis import cancelled_share
from sightline.api.model import load
from sightline.errors import ModelError
from sightline.evaluation.agreement import Agreement
from sightline.lab import feature_importance
from sightline.metrics import tokens_in_characters
from sightline.models.single_attention import BilstmAttentionConfig, BilstmAttentionForSequenceClassification
from sightline.text import Example
from sightline.text.new_tokenizers import word_tokenizer
from sightline_studies import flow, run_study
from sightline_studies.accuracy import measure_accuracy, readable
from sightline_studies.agreement import measure_agreement
from sightline_studies.alti import ALTI
from sightline_studies.alti_claims import published_lead, published_range
from sightline_studies.alti_steps import (
    anisotropy_curves,
    anisotropy_table,
    measure_consistency,
    special_share_of_others,
    vector_curves,
)
from sightline_studies.alti_steps import measure_sentence as measure_mixing
from sightline_studies.attcat import ATTCAT
from sightline_studies.attcat_answers import answer_table, answers_better, measure_answers
from sightline_studies.attcat_steps import find_answers
from sightline_studies.attcat_subjects import planted_subject
from sightline_studies.data import DataSet
from sightline_studies.flow import FLOW
from sightline_studies.flow_claims import SENTIMENT_TABLE, TABLES
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
from sightline_studies.flow_steps import measure_layers, measure_sentence
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
from sightline_studies.sparse_claims import judge_claims, trend_with_lambda, untied_correlation
from sightline_studies.sparse_steps import LAMBDAS, PROJECTIONS, Cell, count_epochs, measure_document
from sightline_studies.workbench import Subject, Workbench
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece


def test_accuracy_is_of_rows_with_labels_by_number_or_by_name(tmp_path):
    model = load(tiny_module(num_labels=2, id2label={0: "neg", 1: "pos"}), tokenizer=wordpiece())
    bench, subject = Workbench(FLOW, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    predicted = model.predict("the old mill").index
    for label in (predicted, model.labels[predicted]):
        rows = [Example("the old mill", label=given, id=str(given)) for given in (label, None)]
        entries = measure_accuracy(bench, subject, rows, f"by-{label}", numbered=True)
        assert entries == [{"predicted": predicted, "label": predicted}]


def test_sentences_that_are_all_too_short_have_no_values(tmp_path):
    model = load(tiny_module(), tokenizer=wordpiece())
    bench, subject = Workbench(FLOW, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    assert measure_layers(bench, subject, [Example("mill", id="0")], "sentences", "gradient").pairs == ()


def test_what_an_interruption_left_unfinished_is_not_stored(tmp_path):
    bench = Workbench(FLOW, tmp_path, size="tiny")
    half = Agreement(pairs=(), between="layers", documents=(), metrics=(), settings={}, complete=False)
    with pytest.raises(KeyboardInterrupt):
        measure_agreement(bench, "half", {}, [Example("a", id="0")], lambda part: half, "layers")
    assert not list((tmp_path / "results").glob("half-*"))


def test_correlations_by_layer_are_those_of_scipy(tmp_path):
    model = load(tiny_module(), tokenizer=wordpiece())
    bench, subject = Workbench(FLOW, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    rows = [Example("the river runs past the old mill", label=1, id="7"), Example("old mill", id="8")]
    agreement = measure_layers(bench, subject, rows, "sentences", "gradient")
    assert {pair.document for pair in agreement.pairs} == {"0"}  # two words have no ranking
    encoding = model.encode(rows[0].text)
    trace, words = model.trace(encoding, quantity="logit"), np.flatnonzero(~encoding.special)
    gradient = np.linalg.norm(trace.embedding_gradient, axis=1)[words]
    entry = measure_sentence(model, encoding, rows[0])
    entropies = entry["entropy"]
    # Nine tokens, and heads eight wide: one direction of the weights of every row has no effect.
    assert (entry["tokens"], entry["head_width"]) == (len(encoding), trace.block(0).values.shape[-1])
    assert np.allclose(entry["cancelled"], cancelled_share(trace).mean(axis=1))
    table = agreement.by_layer("spearman")
    rolled = np.eye(len(encoding))
    for layer, attention in enumerate(trace.attentions):
        raw = attention.dense().mean(axis=0)
        rolled = (raw + np.eye(len(encoding))) / 2 @ rolled
        for name, matrix in (("raw_attention", raw), ("rollout", rolled)):
            expected = stats.spearmanr((trace.readout @ matrix)[words], gradient).statistic
            assert table.loc[layer, name] == pytest.approx(expected, abs=1e-12)
        share = trace.readout @ raw
        assert entropies[layer] == pytest.approx(stats.entropy(share) / np.log(len(share)), abs=1e-12)
    assert table.loc[0, "flow"] == pytest.approx(table.loc[0, "rollout"], abs=1e-12)
    blank = measure_layers(bench, subject, rows, "sentences", "blank_out")
    assert blank.by_layer("spearman").shape == (len(table), 3)


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


def test_layers_count_from_zero_in_tables_and_figures(tmp_path):
    model = load(tiny_module(), tokenizer=wordpiece())
    bench, subject = Workbench(FLOW, tmp_path, size="tiny"), Subject("tiny", "tiny", lambda: model)
    rows = [Example("the river runs past the old mill", label=1, id="7")]
    agreement = measure_layers(bench, subject, rows, "sentences", "gradient")
    table = flow._table(agreement, agreement, SENTIMENT_TABLE)
    assert [list(group["layer"]) for _, group in table.groupby("view")] == [[0, 1, 2]] * 3
    assert table.set_index(["view", "layer"])["published"].dropna().to_dict() == {
        (view, layer): row[layer] for view, row in SENTIMENT_TABLE.items() for layer in (0, 2)
    }
    assert flow._curves(agreement, "gradient").places == ["0", "1", "2"]
    encoding = model.encode(rows[0].text)
    entries = [measure_sentence(model, encoding, rows[0])]
    assert flow._effective_table(entries, 0)["layer"].tolist() == [0, 1, 2]
    mixed = [measure_mixing(model, encoding, rows[0])]
    assert anisotropy_table({"tiny": mixed}, 0)["layer"].tolist() == [0, 1, 2]
    assert vector_curves(mixed, 0).places == ["0", "1", "2"]
    assert anisotropy_curves({"tiny": mixed}, 0).places == ["embedding", "0", "1", "2"]


def test_published_correlations_cover_six_layers():
    for _, table in TABLES.values():
        assert {len(values) for values in table.values()} == {6}
        assert table["rollout"][0] == table["flow"][0]  # in the first layer both are the raw row with the residual
    assert {tuple(row) for row in SENTIMENT_TABLE.values()} == {(0, 2, 4, 5)}


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
    scores = model.explain(encoding, method="attcat", target=answer, quantity="logit").scores
    scores = np.where(encoding.special, -np.inf, scores)
    hits = set(np.argsort(-scores, kind="stable")[:5]) & set(inside)
    assert entry["attcat count 5"] == len(hits)
    assert entry["attcat precision 5"] == len(hits) / 5
    assert entry["chance"] == len(inside) / (~encoding.special).sum()


def test_special_tokens_are_counted_without_the_one_that_is_read_out():
    scores = np.array([5.0, 1.0, -2.0, 1.0])
    special = np.array([True, False, False, True])
    readout = np.array([1.0, 0.0, 0.0, 0.0])
    assert special_share_of_others(scores, special, readout) == 1 / 4
    assert special_share_of_others(np.zeros(4), special, readout) == 0.0


def test_the_alti_study_measures_what_the_methods_say():
    model = tiny_model("bert")
    encoding = model.encode(ids=tiny_ids("bert", 8))
    entry = measure_mixing(model, encoding, Example(encoding))
    alti, gradient = (
        model.explain(encoding, method=name, quantity="logit").scores[1:7] for name in ("alti", "gradient")
    )
    assert entry["gradient alti"] == pytest.approx(stats.spearmanr(alti, gradient).statistic, abs=1e-12)
    trace = model.trace(encoding)
    units = trace.hidden_states[-1] / np.linalg.norm(trace.hidden_states[-1], axis=1, keepdims=True)
    cosines = (units @ units.T)[np.triu_indices(len(units), 1)]
    spread = entry["anisotropy"]
    assert spread["hidden"][-1] == pytest.approx(cosines.mean(), abs=1e-6)
    assert len(spread["hidden"]) - 1 == len(spread["y"]) == len(spread["T"]) == trace.layer_count
    assert set(entry["ranks alti"]) == {"first", "last"}


def test_models_are_compared_where_they_predict_alike(tmp_path):
    models = [load(tiny_module(seed=seed), tokenizer=wordpiece()) for seed in range(3)]
    rows = [Example(f"the river {word} past the old mill", id=word) for word in ("runs", "is", "flows", "goes")]
    bench = Workbench(ALTI, tmp_path, size="tiny")
    subjects = [
        Subject(f"model {number}", str(number), lambda model=model: model) for number, model in enumerate(models)
    ]
    agreement = measure_consistency(bench, subjects, rows, "models")
    known = [pair for pair in agreement.pairs if pair.value is not None]
    assert len(known) > 0
    for pair in agreement.pairs:
        text = str(rows[int(pair.document)].text)
        first, second = (models[int(name[0]) - 1] for name in (pair.first, pair.second))
        alike = first.trace(text).prediction.index == second.trace(text).prediction.index
        assert (pair.value is not None) <= alike
        if pair.method == "alti" and pair.value is not None:
            words = [word_scores(model.explain(text, method="alti")) for model in (first, second)]
            assert pair.value == pytest.approx(stats.spearmanr(*words).statistic, abs=1e-9)


def word_scores(explanation):
    """The scores of the words of a text, in order."""
    return [np.abs(explanation.scores[explanation.encoding.word_ids == number]).sum() for number in range(7)]


def test_the_trend_with_lambda_keeps_its_sign():
    def cell(projection, values):
        return Cell("sst2", "bilstm", projection, [], [{"gradient_x": value} for value in values], [])

    columns = ([0.1, 0.4, 0.2], [0.2, 0.3, 0.2], [0.3, 0.2, 0.2], [0.4, None, 0.2])
    cells = {name: cell(name, values) for name, values in zip(LAMBDAS, columns, strict=True)}
    rising, falling, constant = trend_with_lambda(
        cells, lambda cell: [np.nan if entry["gradient_x"] is None else entry["gradient_x"] for entry in cell.documents]
    )
    assert rising == pytest.approx(1.0)
    assert falling == pytest.approx(-1.0)
    assert np.isnan(constant)


def test_the_correlation_over_untied_pairs_counts_these_alone():
    generator = np.random.default_rng(0)
    entries, expected = [], []
    for support in (9, 5, 2):
        weights, importance = generator.random(9) * (np.arange(9) < support), generator.random(9)
        first, second = np.triu_indices(9, k=1)
        signs = np.sign((weights[first] - weights[second]) * (importance[first] - importance[second]))
        entries.append(
            {"gradient_x": stats.kendalltau(weights, importance).statistic, "gradient_x_ties": np.mean(signs == 0)}
        )
        expected.append(signs.sum() / np.abs(signs).sum())
    entries.append({"gradient_x": None, "gradient_x_ties": 1.0})
    found = untied_correlation(Cell("sst2", "bilstm", "sparsemax", [], entries, []), "gradient_x")
    assert found == pytest.approx([*expected, np.nan], abs=1e-12, nan_ok=True)


def test_a_document_of_the_sparse_study_has_entropies_ties_and_its_own_share():
    config = BilstmAttentionConfig(vocab_size=len(word_tokenizer(["a", "b", "c"])), embedding_size=8, hidden_size=8)
    config.projection = "sparsemax"
    torch.manual_seed(0)
    model = load(BilstmAttentionForSequenceClassification(config).eval(), tokenizer=word_tokenizer(["a", "b", "c"]))
    entry = measure_document(model, Example("a b c a b", label=0), 32)
    importance = feature_importance(model, model.encode("a b c a b"))
    attended = importance.attended
    assert entry["own_share"] == pytest.approx(np.diag(importance.representations)[attended].mean())
    weights = importance.attention[attended]
    assert entry["attention_entropy"] == pytest.approx(stats.entropy(weights) / np.log(len(weights)), abs=1e-6)
    tau, ties = importance.correlation("gradient_x")
    assert entry["gradient_x"] == pytest.approx(tau, nan_ok=True)
    assert entry["gradient_x_ties"] == ties / (len(weights) * (len(weights) - 1) / 2)


def test_a_model_of_the_sparse_study_that_has_learnt_nothing_counts_neither_for_a_claim_nor_against_it():
    def cell(encoder, projection, right, share):
        tested = [{"predicted": n % 2 if right else 0, "label": n % 2} for n in range(40)]
        keys = ("attention_entropy", "importance_entropy", "gradient_x", "gradient_h")
        facts = {"own_share": share, "gradient_x_ties": 0.1}
        documents = [facts | dict.fromkeys(keys, (n + 1) * share) for n in range(9)]
        return Cell("sst2", encoder, projection, tested, documents, [{"test": "frozen", "jsd": 0.5, "tvd": 0.1}] * 9)

    learnt = [cell("bilstm", projection, True, 0.2) for projection in PROJECTIONS]
    unlearnt = [cell("transformer", projection, False, 0.9) for projection in PROJECTIONS]
    findings = judge_claims([*learnt, *unlearnt], 0)
    weakly_tied = findings[0]
    assert (weakly_tied.verdict, weakly_tied.measured.value) == ("confirmed", pytest.approx(0.2))
    assert (weakly_tied.tally.held, len(weakly_tied.tally.known)) == (5, 5)
    assert all("transformer" not in name for finding in findings for name in finding.tally.known)
    assert all("5 of 10 models" in finding.evidence for finding in findings)
    assert judge_claims(learnt, 0)[0].evidence in weakly_tied.evidence
    assert {finding.verdict for finding in judge_claims(unlearnt, 0)} == {"not measured"}


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
    assert {finding.verdict for finding in result.outcome.findings} == {"not measured"}
    assert "the task was not learnt (model on sst2)" in result.outcome.findings[0].evidence
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


def test_published_correlations_of_alti_are_summarised_over_three_models():
    assert published_range("sst2", "alti") == "0.54 to 0.68"
    assert published_range("sst2", "globenc") == "not given here"
    lead = published_lead("rollout", "sst2")
    assert lead.value == 0.31
    assert "DistilBERT on sst2" in lead.where
    assert published_lead("norm_rollout", "sst2", "sva").value == 0.1


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
