"""The corpus page shows every document, escapes what it shows, loads nothing, and can be searched and filtered."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

import sightline as sl
from sightline.corpus.corpus_summary import CorpusSummary, WordTable, summarise
from sightline.errors import UsageError
from sightline.view.corpus_page import render_corpus, write_corpus_page

pytestmark = pytest.mark.slow

TEXTS = [
    {"text": f"The neural network {number} learns <b>functions</b>.", "label": number % 2, "id": f"doc-{number}"}
    for number in range(6)
] + [{"text": "", "label": 0, "id": "empty"}, {"text": "</script><script>alert(1)</script> haskell", "id": "hostile"}]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    store = sl.run(TEXTS, sl.load(), ["attcat"], out=folder / "run", target="all", check=True, measures=[])
    return write_corpus_page(store, folder / "page", documents=3)


def test_the_index_names_every_document_and_nothing_can_run(page):
    html = page.read_text()
    assert "7 of 8 rows are explained, 1 failed" in html
    for row in TEXTS:
        assert f'"id":"{row["id"]}"' in html
    assert "<b>functions" not in html
    assert "alert(1)</script>" not in html
    assert not re.findall(r'(?:src|href)="(?!data:|documents/|#)[^"]*"', html)
    assert "default-src 'none'" in html
    assert len(list((page.parent / "documents").glob("*.html"))) == 3


def test_verdicts_are_those_of_the_predicted_class(page):
    store = sl.open_run(page.parent.parent / "run")
    frame = summarise(store).documents.query("status == 'done'")
    for row, prediction, verdict, fall in frame[["row", "prediction", "verdict", "fall"]].to_numpy():
        explanation = store.document(int(row)).explanations["attcat"][prediction]
        assert verdict == explanation.verdict.level
        assert fall == explanation.verdict.numbers["fall"]


def test_excerpts_end_with_a_word(page, monkeypatch):
    monkeypatch.setattr("sightline.corpus.corpus_summary.EXCERPT", 40)
    store = sl.open_run(page.parent.parent / "run")
    texts = {row["id"]: " ".join(row["text"].split()) for row in TEXTS}
    frame = summarise(store).documents.query("status == 'done'")
    for name, excerpt in frame[["id", "excerpt"]].to_numpy():
        words = excerpt.removesuffix(" …").split()
        assert words == texts[name].split()[: len(words)]
        assert len(excerpt) <= 42
        assert excerpt.endswith("…") == (len(texts[name]) > 40)


def test_every_word_of_a_text_can_be_searched_for(tmp_path, monkeypatch):
    """Also words behind the excerpt; where that takes too much room, the page says so."""
    text = "The network learns. " * 20 + "Finally\nZebras graze."
    store = sl.run([{"text": text, "id": "long"}], sl.load(), ["attcat"], out=tmp_path / "run", measures=[])
    (vocabulary,) = summarise(store).documents["vocabulary"]
    assert vocabulary.split() == sorted(set(text.casefold().split()))
    html = render_corpus(summarise(store), {})
    (record,) = json.loads(re.search(r'id="corpus">(.*?)</script>', html)[1])["documents"]
    assert "zebras" in record["vocabulary"]
    assert "excerpts only" not in html
    monkeypatch.setattr("sightline.corpus.corpus_summary.SEARCHED", 100)
    html = render_corpus(summarise(store), {})
    assert '"vocabulary":null' in html
    assert "the search looks at the excerpts only" in html
    query = re.search(r"(SELECT id .*?\))\.</p>", html)[1].replace("&#x27;", "'")
    assert store.sql(query.replace("'word'", "'zebras'"))["id"].tolist() == ["long"]


def test_words_and_marks_are_sums_over_the_tokens_of_the_predicted_class(page):
    store = sl.open_run(page.parent.parent / "run")
    summary = summarise(store)
    for of_class in summary.class_words:
        for word, document, score in of_class.scores.sample(10, random_state=0).itertuples(index=False):
            words = store.document(document).explanations["attcat"][of_class.target].words()
            assert score == pytest.approx(sum(each.score for each in words if each.text.casefold() == word), abs=1e-6)
    done = summary.documents.query("status == 'done'")
    for document, prediction in done[["document", "prediction"]].to_numpy():
        totals: dict[str, float] = {}
        for each in store.document(int(document)).explanations["attcat"][prediction].words():
            totals[each.text.casefold()] = totals.get(each.text.casefold(), 0.0) + each.score
        strongest = sorted((abs(value) for value in totals.values()), reverse=True)[:8]
        assert sorted(map(abs, summary.marked[document].values()), reverse=True) == pytest.approx(strongest, rel=1e-2)


def test_tables_confusion_and_plots_are_there(page):
    html = page.read_text()
    for heading in ("Labels and predictions", "Words with intervals", "Confidence and effect"):
        assert f"<h2>{heading}</h2>" in html
    assert html.count("data:image/png;base64,") >= 1
    assert "attcat: programming languages" in html


@pytest.mark.parametrize(
    ("scale", "head", "cell"),
    [(1e-5, "score, 10<sup>−5</sup>", "−2.50"), (1.0, "score<", "−2.50"), (0.01, "score<", "−0.0250")],
)
def test_a_table_of_words_has_one_unit(scale, head, cell):
    scores = pd.Series([3.0, 0.125, -2.5]) * scale
    words = pd.DataFrame({"type": ["a", "b", "c"], "score": scores, "low": scores, "high": scores, "documents": 2})
    missing = dict.fromkeys(("label", "prediction", "probability", "correct", "error", "verdict", "fall"))
    summary = CorpusSummary(
        title="papers",
        facts={},
        counts={"done": 1},
        documents=pd.DataFrame(
            [{"row": 0, "document": 0, "id": "0", "status": "done", "excerpt": "a", "vocabulary": "a", **missing}]
        ),
        confusion=pd.DataFrame({"label": [], "prediction": [], "documents": []}),
        words=(WordTable("attcat", "AI", "mean-all", words),),
        slices=None,
    )
    html = render_corpus(summary, {})
    assert head in html
    assert f'<td class="n">{cell}</td>' in html
    assert "No explanation was checked" in html


def test_a_page_of_somebody_else_is_not_replaced(page, tmp_path):
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(UsageError, match="not written by Sightline"):
        write_corpus_page(sl.open_run(page.parent.parent / "run"), tmp_path)
