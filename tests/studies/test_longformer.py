"""The Longformer study: words of a fixed class, performance, the example document, and its verdicts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import sightline as sl
from sightline.analysis import TokenFilter, relation_counts
from sightline.api.load import load
from sightline.view.plots.highlighted_text import total_caption
from sightline_studies import longformer_steps, run_study
from sightline_studies.data import DataSet
from sightline_studies.generated import rule_documents
from sightline_studies.longformer import (
    LONGFORMER,
    NOTES,
    _findings,
    why_not_tested,
)
from sightline_studies.longformer_example import (
    PARTNERS,
    ExampleDocument,
    example_tables,
    measure_example,
    overlay_figures,
)
from sightline_studies.longformer_steps import (
    MASK,
    METHOD,
    _received_by_place,
    choose_subject,
    measure_inside,
    rank_words,
    shorten,
    sum_words,
)
from sightline_studies.longformer_tables import PAPERS, Result, partner_table, similarity_values, token_table
from sightline_studies.rule_model import rule_model
from sightline_studies.tables import published
from sightline_studies.view import write_study
from sightline_studies.workbench import Subject, Workbench
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece
from tools import studies as copying

TEXTS = (
    "The river runs past the old mill.",
    "Hello, Miller! The mill is old; the MILL runs.",
    "Past the river, the miller runs.",
    "The old river.",
    "Hello past.",
)
EVERY_WORD = TokenFilter(stop_words=None, punctuation=False)


def rule_subject():
    model = rule_model("any")
    return Subject("rule", "rule", lambda: model)


def explain_classes(model, text, quantity="logit"):
    report = model.explain(model.encode(text), method=METHOD, target="all", quantity=quantity, steps=4)
    return list(report.by_target().values())


def test_the_words_of_a_class_are_those_of_a_stored_run(tmp_path, monkeypatch):
    """The study and `store.aggregate(rule="mean-all")` are two programs for the same formula."""
    monkeypatch.setattr(longformer_steps, "LISTED_WORDS", 1000)
    model = load(tiny_module(), tokenizer=wordpiece())
    store = sl.run(list(TEXTS), model, [METHOD], out=tmp_path / "run", target="all", options={METHOD: {"steps": 4}})
    documents = [sum_words(explain_classes(model, text, quantity=None)) for text in TEXTS]
    assert len(model.labels) == 3
    for place, label in enumerate(model.labels):
        expected = store.aggregate(by="type", method=METHOD, class_=label, rule="mean-all").set_index("type")
        table = rank_words(documents, place, 0, EVERY_WORD).set_index("word")
        assert set(table.index) == set(expected.index)
        expected = expected.loc[table.index]
        np.testing.assert_allclose(table["mean"], expected["score"], rtol=1e-5, atol=1e-9)
        assert table["documents"].tolist() == expected["documents"].tolist()
        assert table["instances"].tolist() == expected["instances"].tolist()
        assert table[["low", "high"]].isna().to_numpy().all()  # five documents have no interval
    assert table.loc["mill", "instances"] == 3  # “mill” and “MILL” are one word


def test_word_sums_add_up_the_instances_of_a_word_for_every_class():
    model = rule_model("any")
    encoding = model.encode("copper garden Copper")
    by_class = model.explain(encoding, method="input_x_gradient", target="all").by_target()
    sums = sum_words(list(by_class.values()))
    assert sums["copper"][0] == 2
    for place, explanation in enumerate(by_class.values(), 1):
        assert sums["copper"][place] == pytest.approx(explanation.scores[1] + explanation.scores[3], rel=1e-6)


def test_stop_words_are_counted_in_the_ranks_and_not_listed():
    documents = [{"the": [2, 3.0], "river": [1, 1.0], "old": [1, -2.0]}, {"river": [1, 3.0], ",": [1, -9.0]}]
    table = rank_words(documents, 0, 0, MASK)
    assert table[["rank", "word", "mean", "documents", "instances"]].values.tolist() == [
        [1, "river", 2.0, 2, 2],
        [3, "old", -1.0, 1, 1],
    ]


def test_the_study_sums_the_words_of_all_classes_and_lists_no_document_twice(tmp_path):
    bench, subject = Workbench(LONGFORMER, tmp_path, size="tiny"), rule_subject()
    rows = rule_documents(3, 30)
    weights = np.ones((len(subject.model.network.layers), subject.model.network.heads))
    entries = measure_inside(bench, subject, rows, weights, "papers")
    assert [entry["classes"] for entry in entries] == [list(subject.model.labels)] * 3
    for entry, row in zip(entries, rows, strict=True):
        instances = Counter(str(row.text).casefold().split())
        assert {word: sums[0] for word, sums in entry["words"].items()} == instances
        by_class = explain_classes(subject.model, str(row.text))
        for place, explanation in enumerate(by_class, 1):
            inside = explanation.scores[~explanation.encoding.special].sum()
            assert sum(sums[place] for sums in entry["words"].values()) == pytest.approx(inside, rel=1e-5)
    assert 'count="tokens"' in partner_table(entries).sentence
    table = token_table(PAPERS, result_of(entries), 0)
    assert subject.model.labels[1] in table.sentence
    first = rank_words([entry["tokens"] for entry in entries], 1, 0, MASK).iloc[0]
    assert table.frame.loc[0, ["printed_token", "printed", "token", "attribution"]].tolist() == [
        "learning",
        0.270925,
        first["word"],
        first["mean"],
    ]
    assert len(table.frame) == 20
    for entry in entries:
        assert all(0 <= number <= 10 for number in entry["common"].values())


def test_labels_that_are_no_classes_say_nothing():
    tested = [{"predicted": "yes", "label": "cs.AI"}]
    assert "are no classes of the model" in why_not_tested(tested, ["no", "yes"])
    assert "have no labels" in why_not_tested([], ["no", "yes"])
    assert why_not_tested([{"predicted": "yes", "label": "no"}], ["no", "yes"]) == ""


def result_of(trained, control=(), aside=""):
    """A result with these entries."""
    return Result(DataSet(PAPERS, "rows", [], []), rule_subject(), [], trained, control, np.zeros((1, 1)), aside)


def test_the_first_document_is_counted_as_relations_are(tmp_path):
    bench, subject = Workbench(LONGFORMER, tmp_path, size="tiny"), rule_subject()
    (row,) = rule_documents(1, 60, seed=4)
    measured = measure_example(bench, subject, row)
    trace = subject.model.trace(shorten(subject.model, row, bench.number("tokens")))
    counts = relation_counts(trace, PARTNERS, MASK)
    tables = {table.name: table.frame for table in example_tables(measured)}
    for side in ("attended", "attending"):
        expected = counts.by_position(side, count="tokens", top=10)
        shown = tables["positions"].query("direction == @side")
        assert shown["position"].tolist() == expected["position"].tolist()
        assert shown["count"].tolist() == expected["count"].tolist()
        assert shown["word"].tolist() == expected["text"].tolist()
    assert tables["common_types"]["word"].tolist() == counts.intersection(by="type", count="tokens")["type"].tolist()
    assert len(tables["common_positions"]) == len(counts.intersection(by="position", count="tokens"))
    kept = Counter(word for word in str(row.text).casefold().split() if not MASK.drops(word))
    assert kept[measured.word] == max(kept.values())
    assert len(tables["instances"]) == kept[measured.word]
    np.testing.assert_allclose(measured.maps[0], trace.attentions[0].image(40), rtol=5e-3)
    assert all('count="tokens"' in table.sentence for table in example_tables(measured))


def test_both_overlays_are_of_the_whole_document(tmp_path):
    bench, subject = Workbench(LONGFORMER, tmp_path, size="tiny"), rule_subject()
    (row,) = rule_documents(1, 60)
    measured = measure_example(bench, subject, row)
    attribution, attention = overlay_figures(measured, "yes")
    assert (attribution.name, attention.name) == ("overlay", "overlay_attention")
    assert all(figure.drawing.total and figure.drawing.true_label == "yes" for figure in (attribution, attention))
    layers = len(subject.model.network.layers)
    assert measured.attention.scores.sum() == pytest.approx(layers * measured.tokens, rel=1e-5)
    assert not measured.attention.signed
    longer = replace(measured.attention, scores=np.full(measured.tokens, 4608 / measured.tokens))
    assert total_caption(longer) == "Total score 4,608."
    assert total_caption(replace(longer, signed=True, scores=-longer.scores)) == "Total score −4,608."


def test_a_token_at_position_512_that_draws_attention_is_named():
    model = rule_model("any")
    encoding = model.encode(rule_documents(1, 600)[0].text)
    attention = model.explain(encoding, method="received_attention")
    scores = np.ones(len(encoding))
    document = ExampleDocument(attention, replace(attention, scores=scores), np.zeros((1, 1, 2, 2)), None, "", {})
    assert "512" not in overlay_figures(document, None)[1].sentence
    scores[512] = 4.0
    sentence = overlay_figures(document._replace(attention=replace(attention, scores=scores)), None)[1].sentence
    assert "The token at position 512 receives at least three times as much attention as its neighbours" in sentence


def entries_of(**taus):
    """Entries with the same [value, chance] of Kendall's tau in every setting, unless a list of documents is given.

    Keys are modes; `scaled` adds to the value where heads are scaled.
    """
    scaled = taus.pop("scaled", 0.0)
    documents = max(len(values) for values in taus.values())
    return [
        {
            "similarity": [
                {
                    "mode": mode,
                    "layers": layers,
                    "scaled": scaling,
                    "kendall": [values[number][0] + scaling * scaled, values[number][1]],
                    "cosine_normalised": [0.5, 0.4],
                }
                for mode, values in taus.items()
                for layers in ("last", "all")
                for scaling in (False, True)
            ]
        }
        for number in range(documents)
    ]


def judged(trained, control=(), name=PAPERS):
    """The findings by claim, of the papers alone."""
    trained = [{**entry, "common": {"type": 8, "position": 1 + number % 2}} for number, entry in enumerate(trained)]
    results = {PAPERS: result_of(trained, control or trained)}
    if name == NOTES:
        results[NOTES] = results[PAPERS]
    return {finding.claim.name: finding for finding in _findings(results, 0)}


def test_masking_is_an_artefact_where_shuffled_scores_gain_as_much():
    every = [(0.30, 0.05), (0.28, 0.04), (0.31, 0.05)] * 2
    by_chance = entries_of(unmasked=every, zeroed=[(0.74, 0.70), (0.70, 0.68), (0.75, 0.71)] * 2)
    finding = judged(by_chance)["masking raises similarity"]
    assert (finding.verdict, finding.artefact) == ("agrees", "2 of 2")
    last = finding.cases[0]
    assert last.measured.value == pytest.approx(0.433, abs=1e-3)
    assert last.control.value == pytest.approx(0.65)
    assert last.published == (0.581,)
    real = entries_of(unmasked=every, zeroed=[(0.74, 0.06), (0.70, 0.05), (0.75, 0.04)] * 2)
    assert judged(real)["masking raises similarity"].artefact == "0 of 2"
    assert judged(entries_of(unmasked=every, zeroed=every))["masking raises similarity"].verdict == "cannot tell"
    assert judged(entries_of(unmasked=every))["masking raises similarity"].deciding == []


@pytest.mark.parametrize(("change", "verdict"), [(0.01, "agrees"), (-0.2, "disagrees"), (0, "cannot tell")])
def test_head_importance_is_judged_in_the_last_layer_of_the_papers(change, verdict):
    entries = entries_of(unmasked=[(0.3, 0.1), (0.2, 0.1)] * 3, scaled=change)
    finding = judged(entries, name=NOTES)["head importance helps in layer 12"]
    assert finding.verdict == verdict
    (case,) = finding.cases
    assert case.measured.value == pytest.approx(change)
    assert case.published == (0.011,)


def test_agreement_stands_beside_random_weights_and_the_printed_numbers():
    trained = entries_of(unmasked=[(0.30, 0.05), (0.28, 0.04), (0.33, 0.05)] * 2)
    random = entries_of(unmasked=[(0.05, 0.05), (0.03, 0.05), (0.06, 0.05)] * 2)
    finding = judged(trained, random, NOTES)["attention agrees with attribution"]
    assert (finding.verdict, finding.artefact) == ("agrees", "0 of 4")
    assert [case.published for case in finding.cases] == [(0.157,), (0.131,), (0.029,), (0.043,)]
    assert finding.cases[0].measured.value == pytest.approx(np.mean([0.30, 0.28, 0.33]))
    assert judged(trained, trained)["attention agrees with attribution"].artefact == "2 of 2"
    assert list(similarity_values(trained, "dropped", "kendall")) == []


def test_common_words_are_counted_by_type_minus_by_position():
    finding = judged(entries_of(unmasked=[(0.3, 0.1)] * 6))["the same words, not the same places"]
    assert finding.cases[0].measured.value == pytest.approx(6.5)
    assert finding.cases[0].published == (7.0,)


def test_the_printed_gains_fit_the_misprint_that_the_page_names():
    """Masking raises each statistic by the mean of (masked / unmasked − 1), in percent."""
    gains = {}
    for statistic in ("cosine", "kendall", "rbo"):
        masked, unmasked = (
            np.array(published("longformer_similarity", statistic, data=PAPERS, masked=yes)) for yes in ("yes", "no")
        )
        unmasked[unmasked == 0.12] = [0.259, 0.12][: (unmasked == 0.12).sum()]
        gains[statistic] = 100 * float((masked / unmasked - 1).mean())
    assert gains["cosine"] == pytest.approx(79.4, abs=0.05)
    assert gains["rbo"] == pytest.approx(32.1, abs=0.05)
    assert gains["kendall"] == pytest.approx(405.1, abs=0.05)


def test_received_attention_is_one_per_token_on_average():
    model = rule_model("any")
    trace = model.trace(model.encode(rule_documents(1, 38)[0].text))
    assert trace.token_count == 40
    assert np.mean(_received_by_place(trace)) == pytest.approx(1.0)


def test_a_document_is_shortened_to_so_many_tokens_of_its_own_text():
    model = rule_model("any")
    example = rule_documents(1, 200)[0]
    encoding = shorten(model, example, 64)
    assert 60 <= len(encoding) <= 64
    assert str(example.text).startswith(encoding.text)
    whole = shorten(model, example, 4000)
    assert whole.text == example.text


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_small_file_without_splits_leaves_documents_to_train_on(tmp_path):
    rows = [{"text": str(row.text), "label": row.label} for row in rule_documents(10, 20)]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    data, subject = choose_subject(Workbench(LONGFORMER, tmp_path / "out", size="tiny", data=[f"papers={path}"]))
    assert (len(data.test), len(data.train)) == (5, 5)
    assert subject.name == "built-in model, fine-tuned on 5 documents"


@pytest.mark.slow
def test_texts_without_labels_are_explained_and_performance_is_left_out(tmp_path):
    model = rule_model("any")
    model.network.module.save_pretrained(tmp_path / "model")
    model.tokenizer.save_pretrained(tmp_path / "model")
    path = write_rows(tmp_path / "texts.jsonl", [{"text": str(row.text)} for row in rule_documents(6, 40)])
    folder = tmp_path / "longformer"
    result = run_study(
        "longformer", folder, size="tiny", data=[f"papers={path}"], models={"classifier": tmp_path / "model"}
    )
    accuracy, *others = result.outcome.findings
    assert not accuracy.cases
    assert "have no labels" in accuracy.evidence
    assert all(finding.deciding for finding in others)
    assert not any(table.name.startswith("performance") for table in result.outcome.tables)
    write_study(result, folder)
    assert "true label" not in (folder / "figures" / "overlay.svg").read_text()


@pytest.mark.slow
def test_a_model_that_was_fine_tuned_is_tested_and_its_texts_can_be_left_out_of_the_page(tmp_path, monkeypatch):
    rows = [
        {"text": str(row.text), "label": row.label, "split": "train" if number < 6 else "test"}
        for number, row in enumerate(rule_documents(14, 40))
    ]
    path, folder = write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "longformer"
    result = run_study("longformer", folder, size="tiny", data=[f"papers={path}"])
    (performance,) = (table.frame for table in result.outcome.tables if table.name == "performance")
    assert performance["model"].tolist() == ["built-in model, fine-tuned on 6 documents"]
    assert performance["documents"].tolist() == [8]
    write_study(result, folder)
    monkeypatch.setattr(copying, "PAGES", tmp_path / "docs")
    text = copying.copy_study(folder, without=["overlay", "overlay_attention"]).read_text()
    assert "overlay" not in text
    assert "longformer-maps.png" in text
