"""The store answers questions about a run, and its aggregates equal the same sums made with pandas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sightline as sl
from sightline.analysis import InspectionSettings, inspect_dataset
from sightline.analysis.attribution_tables import attributions_over_dataset
from sightline.errors import InputError, OptionError, TargetError, UsageError
from sightline.view.page.payload import build

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def words(store) -> pd.DataFrame:
    """One row per word of every row of the data set, duplicates expanded, from the reports themselves."""
    frames = []
    for row in store.documents("status = 'done'")["row"]:
        for label, explanation in store.document(int(row)).explanations["attcat"].items():
            frame = explanation.to_frame("word")
            frames.append(frame.assign(row=row, label=label, type=frame["word"].str.casefold()))
    return pd.concat(frames)


def recompute(words: pd.DataFrame, by: str, label: str, rule: str) -> pd.Series:
    chosen = words[words["label"] == label]
    per_document = chosen.groupby([by, "row"])["score"].agg(["sum", "mean"])
    if rule == "sum":
        return per_document["sum"].groupby(by).sum()
    if rule == "mean-all":
        return per_document["sum"].groupby(by).sum() / chosen["row"].nunique()
    return per_document["mean"].groupby(by).mean()


@pytest.mark.parametrize("rule", ["sum", "mean-all", "mean-present"])
@pytest.mark.parametrize("by", ["word", "type"])
def test_aggregates_equal_a_recomputation_with_pandas(store, words, by, rule):
    for label in ("AI", "PL"):
        table = store.aggregate(by, "attcat", label, rule, min_documents=1)
        expected = recompute(words, by, label, rule)
        assert set(table[by]) == set(expected.index)
        np.testing.assert_allclose(table["score"], expected[table[by]], rtol=1e-12, atol=1e-15)
        assert table["score"].is_monotonic_decreasing
        counts = words[words["label"] == label].groupby(by)
        assert (table["documents"].to_numpy() == counts["row"].nunique()[table[by]].to_numpy()).all()
        assert (table["instances"].to_numpy() == counts.size()[table[by]].to_numpy()).all()


def test_aggregates_by_position_equal_a_recomputation(store):
    expected = {}
    rows = store.documents("status = 'done'")["row"]
    for row in rows:
        explanation = store.document(int(row)).explanations["attcat"]["PL"]
        for position in np.flatnonzero(~explanation.encoding.special):
            expected.setdefault(int(position), []).append(float(explanation.scores[position]))
    table = store.aggregate("position", "attcat", "PL", "mean-present", min_documents=1).set_index("position")
    assert {place: pytest.approx(np.mean(scores), rel=1e-12) for place, scores in expected.items()} == dict(
        table["score"]
    )
    means = store.aggregate("position", "attcat", "PL", "mean-all").set_index("position")["score"]
    assert means[1] == pytest.approx(np.sum(expected[1]) / len(rows), rel=1e-12)


@pytest.mark.parametrize("rule", ["mean-all", "mean-present"])
def test_an_inspection_of_the_data_set_shows_the_same_scores(store, rule):
    rows = store.documents("status = 'done'")["row"]
    explanations = [store.document(int(row)).explanations["attcat"]["AI"] for row in rows]
    inspected = attributions_over_dataset(explanations, 10_000, rule=rule).to_frame().set_index("text")
    table = store.aggregate("type", "attcat", "AI", rule, min_documents=1).set_index("type").query("score != 0")
    assert set(inspected.index) == set(table.index)
    np.testing.assert_allclose(inspected["score"], table["score"][inspected.index], rtol=1e-12)
    for column in ("instances", "documents"):
        assert (inspected[column] == table[column][inspected.index]).all()


def test_conditions_restrict_the_documents(store, words):
    table = store.aggregate("type", "attcat", "AI", "mean-all", where="label = 'PL'").set_index("type")
    rows = store.documents("label = 'PL' AND status = 'done'")["row"]
    expected = recompute(words[words["row"].isin(rows)], "type", "AI", "mean-all")
    np.testing.assert_allclose(table["score"], expected[table.index], rtol=1e-12)
    with pytest.raises(InputError, match="No document with"):
        store.aggregate("type", "attcat", "AI", where="label = 'nobody'")


def test_rare_words_and_the_middle_of_a_table_can_be_left_out(store):
    every = store.aggregate("type", "attcat", "AI", min_documents=1)
    common = store.aggregate("type", "attcat", "AI")
    assert common["documents"].min() >= 2
    assert len(common) < len(every)
    ends = store.aggregate("type", "attcat", "AI", min_documents=1, top=2)
    assert ends["type"].tolist() == [*every["type"][:2], *every["type"][-2:]]


@pytest.mark.parametrize("rule", ["sum", "mean-all", "mean-present"])
def test_intervals_are_studentised_over_resampled_documents(store, words, rule):
    table = store.aggregate("type", "attcat", "AI", rule, top=3, min_documents=8, interval=True, seed=4)
    assert ((table["low"] <= table["score"]) & (table["score"] <= table["high"])).all()
    chosen = words[words["label"] == "AI"]
    rows = chosen["row"].unique()
    per_document = chosen.groupby(["type", "row"])["score"].agg("mean" if rule == "mean-present" else "sum")
    generator = np.random.default_rng(7)
    for record in table.to_dict("records"):
        own = per_document[record["type"]].reindex(rows).to_numpy()
        holding = np.isfinite(own).sum()
        own = own if rule == "mean-present" else np.nan_to_num(own)
        draws = np.vstack([own, own[generator.integers(len(rows), size=(4000, len(rows)))]])
        means, errors = np.nanmean(draws, axis=1), np.nanstd(draws, axis=1, ddof=1)
        errors /= np.sqrt(np.isfinite(draws).sum(axis=1))
        quantile = 0.025 * holding / (holding + 12)
        least, most = np.quantile((means[1:] - means[0]) / errors[1:], [quantile, 1 - quantile])
        student = stats.t.ppf(0.975, holding - 1)
        low, high = means[0] - errors[0] * np.array([max(most, student), min(least, -student)])
        low, high = (end * (len(rows) if rule == "sum" else 1) for end in (low, high))
        width = high - low
        # 2,000 and 4,000 resamples: quantiles differ by sampling noise of some per cent of the width.
        assert abs(record["low"] - low) < 0.15 * width + 1e-12
        assert abs(record["high"] - high) < 0.15 * width + 1e-12
    again = store.aggregate("type", "attcat", "AI", rule, top=3, min_documents=8, interval=True, seed=4)
    pd.testing.assert_frame_equal(table, again)


def test_words_are_those_of_the_explanations(store):
    frame = store.words("document = 3")
    for label in ("AI", "PL", "other"):
        expected = store.document(3).explanations["attcat"][label].to_frame("word")
        assert frame["text"].tolist() == expected["word"].tolist()
        assert frame["start"].tolist() == expected["start"].tolist()
        assert frame["end"].tolist() == expected["end"].tolist()
        np.testing.assert_allclose(frame[f"attcat:{label}"], expected["score"], rtol=1e-6, atol=1e-9)


def test_tokens_hold_attention_counts_and_scores(store, model):
    trace = model.trace(store.document(3).encoding)
    frame = store.tokens("document = 3")
    np.testing.assert_allclose(frame["received"], trace.received.mean(axis=(0, 1)), rtol=1e-6)
    counts = sl.analysis.relation_counts(trace, 10)
    assert frame["attended"].tolist() == counts.attended.sum(axis=(0, 1)).tolist()
    assert "rollout" in frame  # it is the same for all classes: one column


def test_heads_are_the_mean_over_all_rows(store, model):
    rows = store.documents("status = 'done'")["row"]
    raw = np.mean(
        [sl.analysis.head_importance_of(model.trace(store.document(int(row)).encoding), "raw") for row in rows], axis=0
    )
    frame = store.heads()
    np.testing.assert_allclose(frame["raw"], raw.ravel(), rtol=1e-5)
    assert frame["importance"].min() == 0
    assert frame["importance"].max() == 1


def test_a_run_over_all_classes_shows_the_predicted_one_first(store):
    rows = store.documents("status = 'done'")
    assert (rows["prediction"] != store.labels[0]).any(), "the first class must not always be the predicted one"
    for row, prediction in zip(rows["row"], rows["prediction"], strict=True):
        report = store.document(int(row))
        assert report.first.target.label == prediction
        assert build(report).json["explanations"][0]["target"]["label"] == f"“{prediction}”"


def test_similarity_over_all_classes_counts_every_document_once(store, model, data_file, tmp_path):
    """The table is that of a run which explained the predictions."""
    predicted = sl.run(data_file, model, ["attcat"], out=tmp_path / "own", measures=["similarity"])
    frame = store.similarity().query("method == 'attcat'").reset_index(drop=True)
    assert (frame["documents"] <= len(store.documents("status = 'done'"))).all()
    pd.testing.assert_frame_equal(frame, predicted.similarity(), rtol=1e-5)


def test_similarity_has_intervals_and_chance_levels(store):
    frame = store.similarity()
    assert set(frame["method"]) == {"attcat", "rollout"}
    assert ((frame["low"] <= frame["mean"]) & (frame["mean"] <= frame["high"])).all()
    values = store.sql(
        "SELECT avg(value) AS v FROM similarity JOIN rows USING (document) WHERE method = 'rollout' "
        "AND layers = 'last' AND NOT scaled_by_document AND NOT masked AND statistic = 'kendall'"
    )
    row = frame.query(
        "method == 'rollout' and layers == 'last' and not scaled_by_document and not masked and statistic == 'kendall'"
    )
    assert row["mean"].item() == pytest.approx(values["v"].item())


def test_heads_are_scaled_by_their_importance_in_the_document_or_over_the_data_set_and_tables_say_which(
    model, tmp_path
):
    texts = ["hello old miller! the river mills", "the world of the old river; hello mill"]
    run = sl.run(texts, model, ["attcat"], out=tmp_path / "run", measures=["similarity"])
    dataset = inspect_dataset(model, texts, InspectionSettings(methods=("attcat",)))
    over_documents = dataset.similarity["attcat"].to_frame()
    assert "scaled" in over_documents
    assert "scaled" not in run.similarity()
    setting = "{} and layers == 'all' and not masked and statistic == 'kendall'"
    for row, text in enumerate(texts):
        inspected = model.inspect(text, methods=("attcat",), permutations=5).similarity["attcat"]
        frame = pd.concat([similarity.to_frame() for similarity in inspected])
        assert "scaled" not in frame
        stored = run.sql(f"SELECT s.* FROM similarity s JOIN rows USING (document) WHERE row = {row}")
        values = [part.query(setting.format("scaled_by_document"))["value"].item() for part in (frame, stored)]
        assert values[0] == pytest.approx(values[1])
    scaled = over_documents.query(setting.format("scaled"))["mean"].item()
    by_document = run.similarity().query(setting.format("scaled_by_document"))["mean"].item()
    assert scaled != pytest.approx(by_document)


def test_reports_carry_checks_verdicts_and_curves(store, model):
    report = store.document("doc-3")
    assert report.encoding == model.encode(report.encoding.text)
    expected = model.explain(report.encoding, methods=["attcat", "rollout"], target="all", check=True).explanations
    for entry in report.entries():
        computed = expected[entry.method][entry.label]
        assert entry.explanation.verdict == computed.verdict
        assert (entry.explanation.check is None) == (computed.check is None)
        if computed.check is not None:
            assert entry.explanation.check.random == computed.check.random
    levels = store.sql("SELECT DISTINCT verdict FROM explanations")["verdict"]
    assert set(levels) <= {"holds", "weak", "poor", "unchecked"}


def test_documents_are_known_by_row_id_and_digest(store):
    digest = store.documents("row = 3")["digest"].item()
    assert store.find_row(3) == store.find_row("doc-3") == store.find_row(digest) == store.find_row("3") == 3
    for unknown in (999, "nobody"):
        with pytest.raises(InputError, match="no document"):
            store.document(unknown)
    with pytest.raises(InputError, match="failed"):
        store.document("empty")


def test_questions_that_cannot_be_answered_are_refused(store):
    with pytest.raises(OptionError, match="method 'atcat'.*attcat"):
        store.aggregate(method="atcat")
    with pytest.raises(OptionError, match="choose one with class_"):
        store.aggregate(method="attcat")
    with pytest.raises(TargetError, match="cats"):
        store.aggregate(method="attcat", class_="cats")
    with pytest.raises(OptionError, match="by='letter'"):
        store.aggregate("letter")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="rule='max'"):
        store.aggregate("word", rule="max")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="cannot be answered"):
        store.sql("SELEC 1")


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1 AS row) TO '{file}'",
        "EXPLAIN ANALYZE COPY (SELECT 1 AS row) TO '{file}'",
        "WITH t AS (COPY (SELECT 1 AS row) TO '{file}' (USE_TMP_FILE false)) SELECT 1",
        "SELECT * FROM query('WITH t AS (COPY (SELECT 1) TO ''{file}'' (USE_TMP_FILE false)) SELECT 1')",
        "COPY rows TO '{folder}/stolen.csv'",
        "SELECT 1; COPY rows TO '{folder}/stolen.csv'",
        "DROP VIEW words",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{folder}/manifest.json')",
        "SELECT * FROM '{file}'",
        "SELECT getenv('HOME')",
    ],
)
def test_a_query_reads_the_tables_of_the_run_and_nothing_else(store, query):
    """Also where the statement that writes is inside a SELECT or inside a text that is run as a query."""
    before = {path: path.read_bytes() for path in Path(store.path).rglob("*") if path.is_file()}
    file = next(path for path in sorted(before) if path.suffix == ".parquet")
    with pytest.raises(OptionError, match=r"^[^\n]+\.$"):
        store.sql(query.format(file=file, folder=store.path))
    assert {path: path.read_bytes() for path in Path(store.path).rglob("*") if path.is_file()} == before
    assert len(store.words())


def test_a_condition_cannot_smuggle_in_a_second_statement(store):
    with pytest.raises(OptionError, match="one SELECT statement"):
        store.documents("true); DROP VIEW words; SELECT (1")
    assert len(store.words())


def test_a_fixed_class_over_all_documents_needs_scores_for_it(model, data_file, tmp_path):
    own = sl.run(data_file, model, ["attcat"], out=tmp_path / "own", measures=[])
    with pytest.raises(OptionError, match="target='PL'"):
        own.aggregate("word", "attcat", "PL", "mean-all")
    held = own.aggregate("word", "attcat", own.documents()["prediction"][0], "mean-present", min_documents=1)
    assert len(held)
    fixed = sl.run(data_file, model, ["attcat"], out=tmp_path / "fixed", measures=[], target="PL")
    assert len(fixed.aggregate("word", "attcat", "PL", "mean-all"))
    with pytest.raises(OptionError, match="explained 'PL', not 'AI'"):
        fixed.aggregate("word", "attcat", "AI", "mean-all")


@pytest.mark.parametrize("rule", ["mean-all", "mean-present", "sum"])
def test_scores_for_different_classes_are_not_put_together(data_file, tmp_path, model, store, rule):
    with pytest.raises(OptionError, match="choose one with class_"):
        store.aggregate("word", "attcat", rule=rule)
    own = sl.run(data_file, model, ["attcat", "rollout"], out=tmp_path / "own", measures=[])
    predicted = own.documents("status = 'done'")["prediction"].unique()
    assert len(predicted) > 1, "the data set must have documents of several predicted classes"
    with pytest.raises(OptionError, match=f"rule='{rule}' puts.*explained for its prediction"):
        own.aggregate("word", "attcat", rule=rule)
    of_one = own.aggregate("word", "attcat", rule=rule, where=f"prediction = '{predicted[0]}'")
    if rule != "mean-all":
        pd.testing.assert_frame_equal(own.aggregate("word", "attcat", predicted[0], rule), of_one)
    assert len(own.aggregate("word", "rollout", rule=rule)), "rollout explains no class"


def test_a_fixed_class_gives_the_same_table_whether_one_or_all_were_explained(store, model, data_file, tmp_path):
    fixed = sl.run(data_file, model, ["attcat"], out=tmp_path / "fixed", measures=[], target="PL")
    pd.testing.assert_frame_equal(
        fixed.aggregate("type", "attcat", "PL", "mean-all"),
        store.aggregate("type", "attcat", "PL", "mean-all"),
        rtol=1e-5,
    )


def test_results_come_as_arrow_or_pandas(store):
    query = "SELECT label, count(*) AS n FROM documents GROUP BY label ORDER BY label"
    assert store.sql(query, arrow=True).column("n").to_pylist() == store.sql(query)["n"].tolist()


def test_every_other_field_is_a_column_of_the_documents(model, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(
        'text,label,year,score,code,status,it\'s/a "name",split,mixed\n'
        "the old mill,AI,2022,0.5,007,new,x,test,007\nthe river,PL,2023,0.54,010,old,,train, 0.54\n"
        "hello world,AI,,1,1,,y,test,0.5\n"
    )
    store = sl.run(path, model, methods=["rollout"], out=tmp_path / "run", measures=())
    table = store.documents()
    assert store.documents("score = 0.5")["row"].tolist() == [0]
    assert store.documents("mixed = 0.5")["row"].tolist() == [2]
    assert store.documents("year > 2022")["row"].tolist() == [1]
    assert store.documents("code = '007'")["row"].tolist() == [0]
    assert store.documents("year IS NULL")["row"].tolist() == [2]
    assert table["status"].tolist() == ["done"] * 3
    assert table["data_status"].tolist() == ["new", "old", ""]
    assert table['it\'s/a "name"'].tolist() == ["x", "", "y"]
    assert store.sql("SELECT count(*) AS n FROM documents WHERE split = 'test'")["n"].tolist() == [2]


def test_the_index_of_a_table_is_kept_and_belongs_to_the_data(model, tmp_path):
    frame = pd.DataFrame(
        {"text": ["the old mill", "the river"], "year": [2022, 2023]}, index=pd.Index(["a", "b"], name="case")
    )
    store = sl.run(frame, model, methods=["rollout"], out=tmp_path / "run", measures=())
    assert store.documents()[["case", "year"]].to_dict("list") == {"case": ["a", "b"], "year": [2022, 2023]}
    with pytest.raises(UsageError):
        sl.run(frame.assign(year=2024), model, methods=["rollout"], out=tmp_path / "run", measures=())
